"""The command is found, checked and run: here a stand-in."""

from __future__ import annotations

import io
import os
import struct
from pathlib import Path
from typing import IO

import pyarrow as pa
import pytest

from flowloom_spark import _columns, _command, _merge, _plan, _stage


def stand_in(folder: Path, script: str) -> str:
    path = folder / "flowloom"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_another_version_is_refused(tmp_path: Path) -> None:
    other = stand_in(tmp_path, "echo flowloom 9.9.9")
    with pytest.raises(_command.FlowloomError, match=r"9\.9\.9.*of one version"):
        _command.checked(other)


def test_this_version_is_taken_and_made_executable(tmp_path: Path) -> None:
    same = stand_in(tmp_path, f"echo flowloom {_command.VERSION}")
    Path(same).chmod(0o644)
    assert _command.checked(same) == same
    assert os.access(same, os.X_OK)


def test_a_missing_command_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("FLOWLOOM_BINARY", raising=False)
    with pytest.raises(_command.FlowloomError, match="register"):
        _command.find_binary(str(tmp_path / "none"))


def test_what_the_command_says_is_the_error(tmp_path: Path) -> None:
    failing = stand_in(tmp_path, "echo 'error: it is cut' >&2; exit 3")
    with pytest.raises(_command.FlowloomError, match="it is cut"):
        list(_command.batches([failing]))


def test_a_stream_goes_through_the_command(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict({"packets": pa.array([1, 2], pa.uint64())})

    def feed(pipe: IO[bytes]) -> None:
        with pa.ipc.new_stream(pipe, batch.schema) as stream:
            stream.write_batch(batch)

    (same,) = _command.batches([stand_in(tmp_path, "exec cat")], feed)
    assert same.equals(batch)


def test_a_stream_that_is_cut_is_an_error(tmp_path: Path) -> None:
    batch = pa.RecordBatch.from_pydict({"packets": pa.array(range(10_000), pa.uint64())})

    def feed(pipe: IO[bytes]) -> None:
        with pa.ipc.new_stream(pipe, batch.schema) as stream:
            stream.write_batch(batch)

    with pytest.raises(_command.FlowloomError):
        list(_command.batches([stand_in(tmp_path, "head -c 5000; cat > /dev/null")], feed))


def test_columns_get_the_types_of_spark() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "start": pa.array([1_700_000_000_123_456_789], pa.timestamp("ns", "UTC")),
            "packets": pa.array([7], pa.uint64()),
            "source": pa.array(["192.0.2.1"]),
        }
    )
    rows = _columns.as_spark(batch, _columns.PART_COLUMNS, 4)
    assert rows.schema == _columns.arrow_schema(_columns.PART_COLUMNS)
    (row,) = rows.to_pylist()
    assert (row["part"], row["start"], row["packets"]) == (4, 1_700_000_000_123_456_789, 7)
    assert row["destination"] is None


def test_a_range_is_staged_with_holes_around_it(tmp_path: Path) -> None:
    source = tmp_path / "a.pcap"
    size = 12 << 20
    content = bytes(range(256)) * (size // 256)
    source.write_bytes(content)
    target = tmp_path / "b.pcap"
    begin, end = 5 << 20, 6 << 20
    system, inner = _plan.filesystem(str(source))
    with system.open_input_file(inner) as file, target.open("wb") as out:
        _stage._copy(file, out, (begin, end))
    copied = target.read_bytes()
    assert len(copied) == size
    for at, until in ((0, _stage.HEAD_BYTES), (begin, end + _stage.BEHIND_BYTES)):
        assert copied[at:until] == content[at:until]
    assert copied[_stage.HEAD_BYTES : begin].count(0) == begin - _stage.HEAD_BYTES


def test_packets_are_written_as_pcapng() -> None:
    out = io.BytesIO()
    _merge.write_pcapng(out, [(5, 60, 1, b"abc"), (1 << 33, 70, 101, b"defg")])
    data = out.getvalue()
    kinds, at = [], 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        assert struct.unpack_from("<I", data, at + length - 4)[0] == length
        kinds.append(kind)
        at += length
    assert kinds == [0x0A0D0D0A, 1, 6, 1, 6]
