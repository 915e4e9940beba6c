"""The data source, with a command that stands in for flowloom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flowloom_spark import _columns, _command, _plan, _source, _stage

ABOUT = {"packets": 3, "first_ns": 5, "last_ns": 9, "inputs": ["/staged/a.pcap"]}


def command(folder: Path, rows: dict[str, Any]) -> str:
    """Return a command that writes these rows, and fails for a capture named bad."""
    stream = folder / "rows.arrows"
    batch = pa.RecordBatch.from_pydict(rows)
    with pa.OSFile(str(stream), "wb") as file, pa.ipc.new_stream(file, batch.schema) as out:
        out.write_batch(batch)
    path = folder / "flowloom"
    path.write_text(
        f"""#!/bin/sh
[ "$1" = --version ] && echo flowloom {_command.VERSION} && exit
echo "$@" >> {folder}/said
case "$2" in bad.pcap|*/bad.pcap) echo 'error: not a capture file' >&2; exit 3;; esac
exec cat {stream}
"""
    )
    path.chmod(0o755)
    return str(path)


def part_rows() -> dict[str, Any]:
    return {
        "packets": pa.array([7, None, None], pa.uint64()),
        "flow_key": pa.array([b"k", b"l", None], pa.binary()),
        "flow_state": pa.array([None, b"s", None], pa.binary()),
        "about": pa.array([None, None, json.dumps(ABOUT)], pa.string()),
    }


def read(options: dict[str, str]) -> list[dict[str, Any]]:
    source = _source.FlowloomSource(options)
    reader = source.reader(object())  # type: ignore[arg-type]
    rows: list[dict[str, Any]] = []
    for partition in reader.partitions():
        for batch in reader.read(partition):
            assert batch.schema == _columns.arrow_schema(source._columns())
            rows += batch.to_pylist()
    return rows


def test_a_part_has_its_number_and_the_captures_of_the_plan(tmp_path: Path) -> None:
    binary = command(tmp_path, part_rows())
    parts = [_plan.Part(4, ("a.pcap",), (10, 20), 10)]
    rows = read({"parts": _plan.to_json(parts), "binary": binary, "timeout": "60"})
    assert [row["part"] for row in rows] == [4, 4, 4]
    assert [row["packets"] for row in rows] == [7, None, None]
    assert json.loads(rows[2]["about"]) == {**ABOUT, "inputs": ["a.pcap"]}
    said = (tmp_path / "said").read_text()
    assert "replay a.pcap --app accounting --timeout 60" in said
    assert "--bytes 10..20" in said
    assert "--fragments" in said


@pytest.mark.parametrize("is_part", [True, False])
def test_a_bad_capture_does_not_stop_the_others(tmp_path: Path, is_part: bool) -> None:
    binary = command(tmp_path, part_rows())
    for name in ("bad.pcap", "good.pcap"):
        (tmp_path / name).write_bytes(b"")
    parts = [_plan.Part(0, ("bad.pcap",)), _plan.Part(1, ("good.pcap",))]
    options = {"binary": binary}
    options |= {"parts": _plan.to_json(parts)} if is_part else {"path": str(tmp_path)}
    rows = read(options)
    if is_part:
        assert json.loads(rows[0]["about"])["error"] == "error: not a capture file"
        assert [row["part"] for row in rows] == [0, 1, 1, 1]
    else:
        assert len(rows) == 3
    with pytest.raises(_command.FlowloomError, match=r"cannot read .*bad\.pcap: error: not"):
        read({**options, "on_error": "fail"})


def test_packets_name_their_capture(tmp_path: Path) -> None:
    binary = command(tmp_path, {"wire_bytes": pa.array([60, 70], pa.uint32())})
    (tmp_path / "a.pcap").write_bytes(b"")
    rows = read({"binary": binary, "path": str(tmp_path / "a.pcap"), "packets": "true"})
    assert [(row["capture"], row["wire_bytes"]) for row in rows] == [
        (str(tmp_path / "a.pcap"), 60),
        (str(tmp_path / "a.pcap"), 70),
    ]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"path": "a", "timeouts": "5"}, "unknown options.*timeouts"),
        ({"path": "a", "app": "l7"}, "app is accounting"),
        ({"path": "a", "on_error": "stop"}, "skip or fail"),
    ],
)
def test_options_that_there_are_not_are_refused(options: dict[str, str], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read(options)


def test_a_capture_elsewhere_is_staged_and_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(bytes(range(200)))
    monkeypatch.setattr(_stage, "is_local", lambda _: False)
    (tmp_path / "disk").mkdir()
    with _stage.staged(_plan.Part(0, (str(capture),)), str(tmp_path / "disk")) as (path,):
        assert Path(path).read_bytes() == capture.read_bytes()
        assert Path(path).name == "a.pcap"
    assert list((tmp_path / "disk").iterdir()) == []
