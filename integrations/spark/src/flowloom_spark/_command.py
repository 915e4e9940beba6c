"""Finds the ``flowloom`` command, checks its version, and runs it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import pyarrow as pa

VERSION = "0.1.0"
"""The version of this package, and of the command that it runs."""

_STDERR_BYTES_MAX = 4096
_CHECKED: set[str] = set()
"""Commands that have said their version."""


class FlowloomError(RuntimeError):
    """The command could not be run, or it refused what it was given."""


def find_binary(option: str | None = None) -> str:
    """Return the path of the command.

    It is, in this order: ``option``; what ``FLOWLOOM_BINARY`` names; the one that the package
    carries; the one that :func:`flowloom_spark.register` has sent to the executors; the one on
    the ``PATH``.
    """
    places = [option, os.environ.get("FLOWLOOM_BINARY")]
    if "__file__" in globals():
        places.append(str(Path(__file__).parent / "bin" / "flowloom"))
    for place in [*places, _sent_file("flowloom")]:
        if place is not None and Path(place).is_file():
            return place
    found = shutil.which("flowloom")
    if found is None:
        raise FlowloomError(
            "there is no flowloom command on this machine: "
            "call flowloom_spark.register(spark, binary=PATH), which sends it to the executors"
        )
    return found


def _sent_file(name: str) -> str | None:
    """Return where Spark has put a file of this name, if it runs here."""
    try:
        from pyspark import SparkFiles  # noqa: PLC0415
    except ImportError:
        return None
    try:
        return str(SparkFiles.get(name))
    except Exception:
        # Outside of an executor there is no folder of files, which is no error.
        return None


def checked(binary: str) -> str:
    """Return ``binary`` once it says that it has the version of this package."""
    if binary in _CHECKED:
        return binary
    if not os.access(binary, os.X_OK):
        # Spark sends files without the right to run them.
        with contextlib.suppress(OSError):
            Path(binary).chmod(0o700)
    try:
        said = subprocess.run(
            [binary, "--version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise FlowloomError(f"cannot run {binary}: {error}") from error
    version = said.stdout.split()[1:2]
    if version != [VERSION]:
        raise FlowloomError(
            f"{binary} says that it is '{said.stdout.strip()}', and this package is {VERSION}: "
            "install the command and the package of one version"
        )
    _CHECKED.add(binary)
    return binary


def batches(
    arguments: Sequence[str], feed: Callable[[IO[bytes]], None] | None = None
) -> Iterator[pa.RecordBatch]:
    """Run the command, and yield the batches of the Arrow stream on its standard output.

    ``feed`` writes the command's standard input; the command reads all of it before it writes.

    Raises:
        FlowloomError: with what the command says, if it ends with another status than 0.

    """
    with tempfile.TemporaryFile() as stderr:
        stdin = subprocess.DEVNULL if feed is None else subprocess.PIPE
        try:
            process = subprocess.Popen(
                list(arguments), stdin=stdin, stdout=subprocess.PIPE, stderr=stderr
            )
        except OSError as error:
            raise FlowloomError(f"cannot run {arguments[0]}: {error}") from error
        try:
            if feed is not None and process.stdin is not None:
                # What a command says that stops reading matters more than the broken pipe.
                with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
                    feed(pipe)
            failed: Exception | None = None
            try:
                with pa.ipc.open_stream(process.stdout) as stream:
                    yield from stream
            except (pa.ArrowInvalid, OSError) as error:
                failed = error
            status = process.wait()
            if status != 0 or failed is not None:
                stderr.seek(0)
                said = stderr.read(_STDERR_BYTES_MAX).decode(errors="replace").strip()
                raise FlowloomError(said or f"{arguments[0]} ended with status {status}: {failed}")
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
