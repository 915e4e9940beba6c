"""What executors do to merge: they compose fragments, and process flows again by their packets."""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from flowloom_spark import _columns, _command, _plan, _stage

_NUMBER_OF_MINI = 0


RUN_OPTIONS = ("timeout", "active_timeout", "filter")
"""Options that are passed to the command, with dashes for underscores."""


def run_arguments(options: Mapping[str, str]) -> list[str]:
    """Return what the command is told of records."""
    arguments = ["--app", options.get("app", "accounting")]
    for name in RUN_OPTIONS:
        if name in options:
            arguments += [f"--{name.replace('_', '-')}", options[name]]
    return arguments


def listed(order: Sequence[_plan.Done]) -> str:
    """Return parts as the command lists them."""
    return "".join(json.dumps({"part": one.part.part, "about": one.about}) + "\n" for one in order)


def write_pcapng(file: IO[bytes], packets: Iterable[tuple[int, int, int, bytes]]) -> None:
    """Write packets as pcapng: times in nanoseconds, bytes on the wire, link types, bytes."""

    def block(kind: int, body: bytes) -> None:
        padded = body + bytes(-len(body) % 4)
        length = struct.pack("<I", len(padded) + 12)
        file.write(struct.pack("<I", kind) + length + padded + length)

    block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    interfaces: dict[int, int] = {}
    for time_ns, wire_bytes, link, frame in packets:
        if link not in interfaces:
            # The resolution is 10^-9, an option of one byte.
            options = struct.pack("<HHBxxxHH", 9, 1, 9, 0, 0)
            block(1, struct.pack("<HHI", link, 0, 0) + options)
            interfaces[link] = len(interfaces)
        head = (interfaces[link], time_ns >> 32, time_ns & 0xFFFFFFFF, len(frame), wire_bytes)
        block(6, struct.pack("<5I", *head) + frame)


class PacketReader:
    """Reads the packets of some flows."""

    def __init__(self, keys: bytes, options: Mapping[str, str]) -> None:
        """Keep the keys, one behind the other, and the options of the run."""
        self.keys = keys
        self.options = dict(options)

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the packets of the parts that rows name, numbered."""
        for batch in batches:
            for row in batch.to_pylist():
                (part,) = _plan.from_json(row["part"])
                yield from self._packets(int(row["place"]), part)

    def _packets(self, place: int, part: _plan.Part) -> Iterator[pa.RecordBatch]:
        binary = _command.checked(_command.find_binary(self.options.get("binary")))
        with (
            tempfile.TemporaryDirectory(prefix="flowloom-") as folder,
            _stage.staged(part, self.options.get("staging")) as paths,
        ):
            keys = Path(folder, "keys")
            keys.write_bytes(self.keys)
            arguments = [binary, "replay", *paths, "-qq", *part.arguments()]
            if "filter" in self.options:
                arguments += ["--filter", self.options["filter"]]
            arguments += ["--packets", "-", "--packets-of", str(keys)]
            number = 0
            for batch in _command.batches(arguments):
                rows = _columns.as_spark(batch, _columns.OPEN_PACKET_COLUMNS)
                count = rows.num_rows
                places = pa.array([place] * count, pa.int32())
                numbers = pa.array(range(number, number + count), pa.int64())
                number += count
                arrays = [places, numbers, *rows.columns[2:]]
                yield pa.RecordBatch.from_arrays(arrays, schema=rows.schema)


class Merger:
    """Merges the fragments of a partition, or processes the packets of one."""

    def __init__(self, parts: str, options: Mapping[str, str], columns: dict[str, str]) -> None:
        """Keep the list of all parts, the options of the run, and the columns that are yielded."""
        self.parts = parts
        self.options = dict(options)
        self.columns = columns

    def merge(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records of fragments, the keys of open flows, and what is to be counted."""
        several = iter(batches)
        first = next((batch for batch in several if batch.num_rows > 0), None)
        if first is None:
            return

        def feed(pipe: IO[bytes]) -> None:
            with pa.ipc.new_stream(pipe, first.schema) as stream:
                stream.write_batch(first)
                for batch in several:
                    stream.write_batch(batch)

        for batch in self._merged(self.parts, feed):
            yield _columns.as_spark(batch, self.columns)

    def _merged(self, parts: str, feed: Any) -> Iterator[pa.RecordBatch]:  # noqa: ANN401
        command = _command.checked(_command.find_binary(self.options.get("binary")))
        with tempfile.TemporaryDirectory(prefix="flowloom-") as folder:
            path = Path(folder, "parts.jsonl")
            path.write_text(parts)
            arguments = [command, "merge", "--fragments", "-", "--parts-list", str(path)]
            arguments += ["--flows", "-", "--flows-format", "arrow", "-qq"]
            yield from _command.batches(arguments, feed)

    def process(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records of flows by their packets, and what is to be counted."""
        packets = pa.Table.from_batches(
            batches, _columns.arrow_schema(_columns.OPEN_PACKET_COLUMNS)
        )
        if packets.num_rows == 0:
            return
        packets = packets.sort_by([("place", "ascending"), ("number", "ascending")])
        names = ("time", "wire_bytes", "link_type", "frame")
        columns = [packets[name].to_pylist() for name in names]
        command = _command.checked(_command.find_binary(self.options.get("binary")))
        with tempfile.TemporaryDirectory(prefix="flowloom-") as folder:
            path = Path(folder, "open.pcapng")
            with path.open("wb") as file:
                write_pcapng(file, zip(*columns, strict=True))
            run = [command, "replay", str(path), "-qq", "--no-pin", *run_arguments(self.options)]
            run += ["--fragments", "--flows", "-", "--flows-format", "arrow"]
            mini = pa.Table.from_batches(list(_command.batches(run)))
        about = json.loads(mini["about"][-1].as_py())
        fragments = mini.filter(mini["flow_state"].is_valid())
        numbers = pa.array([_NUMBER_OF_MINI] * fragments.num_rows, pa.int32())
        fragments = fragments.append_column("part", numbers)
        fragments = fragments.select(["part", "flow_key", "flow_state"])
        begun, expired = about["flows_begun"], about["flows_expired"]
        # Their flows end where all captures end.
        about["last_ns"] = max(
            json.loads(line)["about"]["last_ns"] for line in self.parts.splitlines()
        )
        list_of_one = json.dumps({"part": _NUMBER_OF_MINI, "about": about}) + "\n"

        def feed(pipe: IO[bytes]) -> None:
            with pa.ipc.new_stream(pipe, fragments.schema) as stream:
                stream.write_table(fragments)

        for batch in mini.filter(mini["packets"].is_valid()).to_batches():
            yield _columns.as_spark(batch, self.columns)
        for batch in self._merged(list_of_one, feed):
            rows = _columns.as_spark(batch, self.columns)
            at = rows.schema.get_field_index("about")
            said = rows.column(at)[-1].as_py()
            if said is not None:
                found = json.loads(said)
                found = {
                    "flows_joined": found["flows_joined"] - begun,
                    "flows_expired": found["flows_expired"] + expired,
                }
                texts = pa.array([None] * (rows.num_rows - 1) + [json.dumps(found)], pa.string())
                rows = rows.set_column(at, rows.schema.field(at), texts)
            yield rows
