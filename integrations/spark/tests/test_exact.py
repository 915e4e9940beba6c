"""Taps that overlap, read in parts and merged without Spark, beside one run over all of them.

Runs where ``FLOWLOOM_BINARY`` names the command.
"""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pytest

from flowloom_spark import _columns, _command, _merge, _plan
from flowloom_spark._source import FlowloomReader, Slice

BINARY = os.environ.get("FLOWLOOM_BINARY")
OPTIONS = {"binary": BINARY or "", "timeout": "0.02", "on_error": "fail"}
Rows = list[tuple[object, ...]]

pytestmark = pytest.mark.skipif(BINARY is None, reason="FLOWLOOM_BINARY names no command")


def write_taps(folder: Path, rng: random.Random) -> list[str]:
    """Distribute a trace over taps, with equal times and times that go back."""
    trace = folder / "trace.pcap"
    command = [BINARY or "", "generate", "trace", "--packets", "5000", "--flows", "150", "-q"]
    command += ["--seed", str(rng.randrange(1000)), "-o", str(trace)]
    subprocess.run(command, check=True, capture_output=True)
    data = bytearray(trace.read_bytes())
    unit = 500 * (1 if data[0] == 0xD4 else 1000)
    taps = [bytearray(data[:24]) for _ in range(rng.randint(2, 4))]
    at = 24
    while at < len(data):
        fraction, length = struct.unpack_from("<II", data, at + 4)
        fraction -= fraction % unit
        if rng.random() < 0.1:
            fraction = max(0, fraction - 3 * unit)
        struct.pack_into("<I", data, at + 4, fraction)
        taps[rng.randrange(len(taps))] += data[at : at + 16 + length]
        at += 16 + length
    paths = [folder / f"tap{nth}.pcap" for nth in range(len(taps))]
    for path, packets in zip(paths, taps, strict=True):
        path.write_bytes(packets)
    return [str(path) for path in paths]


def read(parts: list[_plan.Part]) -> tuple[pa.Table, list[_plan.Done]]:
    """Return the rows of parts, and what the parts say of themselves."""
    reader = FlowloomReader(OPTIONS, _columns.PART_COLUMNS)
    table = pa.Table.from_batches(list(reader.read(Slice(tuple(parts)))))
    numbered = {part.part: part for part in parts}
    said = table.filter(pa.compute.is_valid(table["about"]))
    rows = zip(said["part"].to_pylist(), said["about"].to_pylist(), strict=True)
    return table, [_plan.Done(numbered[part], json.loads(about)) for part, about in rows]


def records(table: pa.Table) -> Rows:
    """Return the records of rows."""
    found = table.filter(pa.compute.is_valid(table["packets"]))
    found = found.select(list(_columns.RECORD_COLUMNS))
    return [tuple(row.values()) for row in found.to_pylist()]


def whole(captures: list[str], folder: Path) -> tuple[Rows, dict[str, int]]:
    """Return the records of one run, and its document."""
    out = folder / "whole.arrows"
    run = [BINARY or "", "replay", *captures, "--app", "accounting", "--format", "json"]
    run += ["--timeout", OPTIONS["timeout"], "--flows", str(out)]
    document = json.loads(subprocess.run(run, check=True, capture_output=True).stdout)
    with out.open("rb") as file, pa.ipc.open_stream(file) as stream:
        batches = [_columns.as_spark(batch, _columns.RECORD_COLUMNS) for batch in stream]
    return records(pa.Table.from_batches(batches)), document


@pytest.mark.parametrize("seed", range(6))
def test_taps_cut_in_time_are_one_run(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    captures = write_taps(tmp_path, rng)
    listed = _plan.list_captures(captures)
    sizes = dict(listed)
    split = sum(sizes.values()) // rng.randint(2, 9)
    _, done = read(_plan.plan(listed, split))
    alone = _plan.alone(done)
    arranged = _plan.arrange(done, captures)
    while any(len(group) == 1 for group in arranged.again):
        # Ranges between which times go back are read whole.
        parts = [
            _plan.Part(100 + captures.index(group[0]), group, None, sizes[group[0]])
            for group in arranged.again
            if len(group) == 1
        ]
        _, new = read(parts)
        alone |= _plan.alone(new)
        arranged = _plan.arrange([one for several in alone.values() for one in several], captures)
    assert arranged.again == [tuple(captures)]
    parts = _plan.by_time(1000, captures, alone, sizes, split)
    assert len(parts) > 1
    table, done = read(parts)
    arranged = _plan.arrange(done, captures)
    assert arranged.again == []
    merger = _merge.Merger(_merge.listed(arranged.order), OPTIONS, _columns.PART_COLUMNS)
    fragments = table.filter(pa.compute.is_valid(table["flow_state"]))
    fragments = fragments.select(["part", "flow_key", "flow_state"]).combine_chunks()
    merged = pa.Table.from_batches(list(merger.merge(fragments.to_batches())))
    abouts = [text for text in merged["about"].to_pylist() if text is not None]
    keys = merged.filter(pa.compute.is_valid(merged["flow_state"]))["flow_key"].to_pylist()
    counters = _plan.counters_of(arranged.order)
    found = records(merged)
    for row in table.to_pylist():
        if row["flow_key"] not in keys:
            found += records(pa.Table.from_pylist([row], schema=table.schema))
        elif row["about"] is None:
            counters["flows_begun"] -= 1
            ended_idle = row["timed_out"] or (row["flow_state"] or bytes(17))[16] == 1
            counters["flows_expired"] -= int(bool(ended_idle))
    if keys:
        # Summaries do not determine these flows; their packets do.
        reader = _merge.PacketReader(b"".join(keys), OPTIONS)
        places = [
            {"place": place, "part": _plan.to_json([one.part])}
            for place, one in enumerate(arranged.order)
        ]
        packets = reader.read(pa.Table.from_pylist(places).to_batches())
        again = pa.Table.from_batches(list(merger.process(packets)))
        found += records(again)
        abouts += [text for text in again["about"].to_pylist() if text is not None]
    for about in map(json.loads, abouts):
        if "flows_joined" in about:
            counters["flows_begun"] -= about["flows_joined"]
            counters["flows_expired"] += about["flows_expired"]
    expected, document = whole(captures, tmp_path)
    assert sorted(found, key=str) == sorted(expected, key=str)
    for name in (
        "packets",
        "bytes_on_wire",
        "decoded",
        "processed",
        "flows_begun",
        "flows_expired",
    ):
        assert counters[name] == document[name]


def test_the_version_is_checked() -> None:
    assert _command.checked(BINARY or "") == BINARY
