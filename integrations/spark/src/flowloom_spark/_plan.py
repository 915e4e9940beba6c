"""Which parts captures are read in, and whether parts that were read adjoin. Needs no Spark."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs

CLASSIC = frozenset(
    bytes.fromhex(magic) for magic in ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1")
)
"""The first bytes of captures that are read in ranges. Others are read whole: the blocks of pcapng
depend on those before, and compressed files are unpacked from their beginning."""

ENDINGS = (".pcap", ".cap", ".pcapng", ".dmp", ".ntar")
_PACKED = (".gz", ".zst", ".lz4", ".xz", "")
SPLIT_BYTES = 128 << 20
"""Bytes of a range, unless asked for otherwise."""
TASK_BYTES = 32 << 20
"""Bytes of small captures that a task reads, unless asked for otherwise."""


@dataclass(frozen=True)
class Part:
    """A part: captures to be read whole, merged by time, or a range of one."""

    part: int
    captures: tuple[str, ...]
    range: tuple[int, int] | None = None
    """The range of bytes of a capture that is not read whole."""
    size: int = 0
    """The bytes that are read."""

    @property
    def name(self) -> str:
        """The captures and the range, for messages."""
        of = "" if self.range is None else f" from byte {self.range[0]} to {self.range[1]}"
        return ", ".join(self.captures) + of

    def arguments(self) -> list[str]:
        """Return what tells the command which packets of the captures are the part's."""
        arguments = []
        if self.range is not None:
            arguments += ["--bytes", f"{self.range[0]}..{self.range[1]}"]
        return arguments


@dataclass(frozen=True)
class Done:
    """A part that was read, and what it says of itself."""

    part: Part
    about: dict[str, Any]

    @property
    def packets(self) -> int:
        """The packets of the part."""
        return int(self.about["packets"])

    @property
    def first_ns(self) -> int:
        """The time of its first packet."""
        return int(self.about["first_ns"])

    @property
    def last_ns(self) -> int:
        """The time of its latest packet."""
        return int(self.about["last_ns"])


@dataclass
class Arranged:
    """What parts that were read come to."""

    order: list[Done] = field(default_factory=list)
    """The parts that count, in the order of time."""
    again: list[tuple[str, ...]] = field(default_factory=list)
    """Captures to be read again, together and whole."""
    failed: dict[str, str] = field(default_factory=dict)
    """Captures that cannot be read, and why."""


def filesystem(path: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a path or a URI, and the path in it.

    ``s3a://`` and ``s3n://`` are Hadoop's names of ``s3://``.
    """
    if "://" not in path:
        return pafs.LocalFileSystem(), str(Path(path).absolute())
    scheme, rest = path.split("://", 1)
    uri = f"s3://{rest}" if scheme in ("s3a", "s3n") else path
    system, inner = pafs.FileSystem.from_uri(uri)
    return system, inner


def is_local(path: str) -> bool:
    """Return whether a path is one of this machine, or of a folder that all machines share."""
    return "://" not in path or path.startswith("file:")


def is_capture(name: str) -> bool:
    """Return whether a file's name is that of a capture, packed or not."""
    lower = name.lower()
    return any(lower.endswith(ending + packed) for ending in ENDINGS for packed in _PACKED)


def list_captures(paths: Iterable[str]) -> list[tuple[str, int]]:
    """Return the captures that paths name, folders with all below them, and their bytes.

    Raises:
        FileNotFoundError: for a path that is not there, and if there is no capture.

    """
    found: dict[str, int] = {}
    for path in paths:
        system, inner = filesystem(path)
        info = system.get_file_info(inner)
        prefix = path[: path.index("://") + 3] if "://" in path else ""
        if prefix == "file://":
            prefix = ""
        if info.type == pafs.FileType.File:
            found[prefix + info.path] = info.size
        elif info.type == pafs.FileType.Directory:
            below = system.get_file_info(pafs.FileSelector(inner, recursive=True))
            captures = [one for one in below if one.type == pafs.FileType.File]
            for one in sorted(captures, key=lambda one: str(one.path)):
                if is_capture(one.path):
                    found[prefix + one.path] = one.size
        else:
            raise FileNotFoundError(f"there is no capture or folder {path}")
    if not found:
        raise FileNotFoundError(f"there are no captures below {', '.join(paths)}")
    return list(found.items())


def is_classic(capture: str) -> bool:
    """Return whether a capture can be read in ranges."""
    system, inner = filesystem(capture)
    with system.open_input_file(inner) as file:
        return bytes(file.read(4)) in CLASSIC


def plan(captures: Sequence[tuple[str, int]], split_bytes: int = SPLIT_BYTES) -> list[Part]:
    """Return the parts in which captures are read first: ranges of large classic ones."""
    parts: list[Part] = []
    for capture, size in captures:
        if size > split_bytes and is_classic(capture):
            count = -(-size // split_bytes)
            cuts = [size * at // count for at in range(count + 1)]
            for begin, end in itertools.pairwise(cuts):
                parts.append(Part(len(parts), (capture,), (begin, end), end - begin))
        else:
            parts.append(Part(len(parts), (capture,), size=size))
    return parts


def tasks(parts: Sequence[Part], task_bytes: int = TASK_BYTES) -> list[tuple[Part, ...]]:
    """Return parts by the task that reads them: small ones share a task."""
    found: list[list[Part]] = []
    taken = 0
    for part in parts:
        if not found or taken + part.size > task_bytes:
            found.append([])
            taken = 0
        found[-1].append(part)
        taken += part.size
    return [tuple(one) for one in found]


def to_json(parts: Sequence[Part]) -> str:
    """Return parts as text, for an option of the data source."""
    return json.dumps([asdict(part) for part in parts])


def from_json(text: str) -> list[Part]:
    """Return the parts of a text."""

    def pair(value: Any) -> tuple[int, int] | None:  # noqa: ANN401
        return None if value is None else (int(value[0]), int(value[1]))

    return [
        Part(
            int(one["part"]),
            tuple(str(capture) for capture in one["captures"]),
            pair(one["range"]),
            int(one["size"]),
        )
        for one in json.loads(text)
    ]


def _adjoin(parts: Sequence[Done]) -> bool:
    """Return whether the ranges of a capture have each packet once, and in the order of time."""
    if parts[0].part.range is None:
        return len(parts) == 1
    ranges = [done.about.get("range") or {} for done in parts]
    ends = ["0:0", *(one.get("end") for one in ranges)]
    begins = [*(one.get("begin") for one in ranges), "1:0"]
    latest = 0
    for done in parts:
        if done.packets > 0:
            if done.first_ns < latest:
                return False
            latest = done.last_ns
    return begins == ends


def arrange(done: Iterable[Done], listed: Sequence[str]) -> Arranged:
    """Put parts that were read in order, and say which captures must be read again.

    ``listed`` has the captures in the order in which packets of one time are taken. A capture
    whose ranges do not adjoin is read again, whole. Captures whose packets overlap in time, or
    meet at one time, are read again together, merged by time.
    """
    result = Arranged()
    rank = {capture: at for at, capture in enumerate(listed)}
    sets: dict[tuple[str, ...], list[Done]] = {}
    for one in sorted(done, key=lambda one: one.part.range or (0, 0)):
        if "error" in one.about:
            for capture in one.part.captures:
                result.failed[capture] = str(one.about["error"])
        else:
            sets.setdefault(one.part.captures, []).append(one)
    in_time: list[tuple[int, int, tuple[str, ...]]] = []
    for captures, parts in sets.items():
        if any(capture in result.failed for capture in captures):
            continue
        with_packets = [one for one in parts if one.packets > 0]
        if not _adjoin(parts):
            result.again.append(captures)
        elif not with_packets:
            # A capture without packets has no place in time.
            result.order.extend(parts)
        else:
            first_ns = min(one.first_ns for one in with_packets)
            in_time.append((first_ns, max(one.last_ns for one in with_packets), captures))
    in_time.sort()
    group: list[tuple[str, ...]] = []
    latest = -1

    def close() -> None:
        if len(group) == 1:
            result.order.extend(sets[group[0]])
        elif group:
            together = [capture for captures in group for capture in captures]
            result.again.append(tuple(sorted(together, key=rank.__getitem__)))

    for first_ns, last_ns, captures in in_time:
        if group and first_ns > latest:
            close()
            group = []
        group.append(captures)
        latest = max(latest, last_ns)
    close()
    return result
