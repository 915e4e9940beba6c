"""Brings captures of other file systems to the local disk, of a range only what is read."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pyarrow.fs as pafs

from flowloom_spark._plan import Part, filesystem, is_local

HEAD_BYTES = 64 << 10
"""Bytes of the beginning of a classic capture that tell how its records are read."""
BEHIND_BYTES = 2 << 20
"""Bytes behind a range in which the next record is looked for: a window of 1 MiB, a chain of
128 KiB, and the longest record."""
_COPY_BYTES = 4 << 20


@contextlib.contextmanager
def staged(part: Part, folder: str | None = None) -> Iterator[list[str]]:
    """Yield local paths of a part's captures, which are there until the block ends.

    A capture of another file system takes its bytes on the disk; a range takes those of the range
    and about 2 MiB more, in a file with holes.
    """
    if all(is_local(capture) for capture in part.captures):
        yield [capture.removeprefix("file://") for capture in part.captures]
        return
    place = tempfile.mkdtemp(prefix="flowloom-", dir=folder)
    try:
        paths = []
        for at, capture in enumerate(part.captures):
            if is_local(capture):
                paths.append(capture.removeprefix("file://"))
                continue
            # Files of one name may come from several folders.
            local = Path(place, str(at), Path(capture).name)
            local.parent.mkdir()
            system, inner = filesystem(capture)
            with system.open_input_file(inner) as source, local.open("wb") as target:
                _copy(source, target, part.range_of(at))
            paths.append(str(local))
        yield paths
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _copy(source: pafs.NativeFile, target: IO[bytes], of: tuple[int, int] | None) -> None:
    """Copy a file, or what reading a range of it needs."""
    size = source.size()
    ranges = [(0, size)] if of is None else [(0, HEAD_BYTES), (of[0], of[1] + BEHIND_BYTES)]
    for begin, end in ranges:
        at = begin
        while at < min(end, size):
            source.seek(at)
            data = source.read(min(_COPY_BYTES, min(end, size) - at))
            if not data:
                break
            target.seek(at)
            target.write(data)
            at += len(data)
    target.truncate(size)
