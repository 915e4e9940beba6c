"""Which parts captures are read in, and whether parts that were read adjoin. Needs no Spark."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
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
_SUMS = ("packets", "bytes_on_wire", "decoded", "processed", "flows_begun", "flows_expired")
SPLIT_BYTES = 128 << 20
"""Bytes of a range, unless asked for otherwise."""
TASK_BYTES = 32 << 20
"""Bytes of small captures that a task reads, unless asked for otherwise."""
_SAMPLES = 64
"""Times that are taken of each part to choose where captures that overlap are cut."""

Range = tuple[int, int]
Times = tuple["int | None", "int | None"]


@dataclass(frozen=True)
class Part:
    """A part: captures merged by time, a range of one, or the packets of a range of time."""

    part: int
    captures: tuple[str, ...]
    range: Range | None = None
    """The range of bytes of a capture that is not read whole."""
    size: int = 0
    """The bytes that are read."""
    times: Times | None = None
    """The range of time, in nanoseconds, whose packets are the part's; the second is excluded."""
    ranges: tuple[Range | None, ...] = ()
    """Of a range of time: the bytes of each capture that hold these packets, if not all of it."""
    together: tuple[str, ...] = ()
    """Of a range of time: all captures that are cut at the same times."""

    @property
    def group(self) -> tuple[str, ...]:
        """The captures whose parts follow each other."""
        return self.together or self.captures

    def range_of(self, at: int) -> Range | None:
        """Return the bytes that are read of a capture, or ``None`` for all of them."""
        return self.ranges[at] if self.ranges else self.range

    @property
    def name(self) -> str:
        """The captures and the range, for messages."""
        of = "" if self.range is None else f" from byte {self.range[0]} to {self.range[1]}"
        if self.times is not None:
            begin, end = ("…" if time is None else f"{time} ns" for time in self.times)
            of = f" from {begin} to {end}"
        return ", ".join(self.captures) + of

    def arguments(self) -> list[str]:
        """Return what tells the command which packets of the captures are the part's."""
        arguments = []
        if self.range is not None:
            arguments += ["--bytes", f"{self.range[0]}..{self.range[1]}"]
        if any(of is not None for of in self.ranges):
            for of in self.ranges:
                arguments += ["--bytes", ".." if of is None else f"{of[0]}..{of[1]}"]
        for option, time in zip(("--from", "--to"), self.times or (), strict=False):
            if time is not None:
                arguments += [option, f"{time // 10**9}.{time % 10**9:09}"]
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

    def pair(value: Any) -> Range | None:  # noqa: ANN401
        return None if value is None else (int(value[0]), int(value[1]))

    def times(value: Any) -> Times | None:  # noqa: ANN401
        return None if value is None else (value[0], value[1])

    return [
        Part(
            int(one["part"]),
            tuple(str(capture) for capture in one["captures"]),
            pair(one["range"]),
            int(one["size"]),
            times(one["times"]),
            tuple(pair(of) for of in one["ranges"]),
            tuple(str(capture) for capture in one["together"]),
        )
        for one in json.loads(text)
    ]


def _adjoin(parts: Sequence[Done]) -> bool:
    """Return whether the ranges of a capture have each packet once, and in the order of time."""
    if parts[0].part.times is not None:
        return True
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


def _place(one: Done) -> int:
    """Return where a part stands among those of its captures."""
    times, of = one.part.times, one.part.range
    return (times[0] or 0) if times is not None else 0 if of is None else of[0]


def alone(done: Iterable[Done]) -> dict[str, list[Done]]:
    """Return the parts of each capture that was read by itself, without those that failed."""
    found: dict[str, list[Done]] = {}
    for one in done:
        if len(one.part.group) == 1 and "error" not in one.about:
            found.setdefault(one.part.group[0], []).append(one)
    return found


def by_time(
    number: int,
    group: Sequence[str],
    alone: dict[str, list[Done]],
    sizes: dict[str, int],
    split_bytes: int = SPLIT_BYTES,
) -> list[Part]:
    """Return the parts in which captures that overlap are read: ranges of time of about equal size.

    ``alone`` has what each capture says that was read by itself, as a whole or in ranges that
    adjoin. A part reads from each capture the ranges that hold packets of its time. The captures
    are one part where they are small, and where a clock was set, because a part that begins later
    cannot know. ``number`` is that of the first part.
    """
    total = sum(sizes[capture] for capture in group)
    whole = [Part(number, tuple(group), None, total)]
    parts = [one for capture in group for one in alone.get(capture, [])]
    is_odd = any(
        one.about.get("time_outliers", 0) + one.about.get("time_steps", 0) for one in parts
    )
    if total <= split_bytes or is_odd or any(capture not in alone for capture in group):
        return whole
    parts = [one for one in parts if one.packets > 0]
    step = max(1, sum(one.part.size for one in parts) // -(-total // split_bytes))
    samples = sorted(
        (
            one.first_ns + (one.last_ns - one.first_ns) * (2 * at + 1) // (2 * _SAMPLES),
            one.part.size,
        )
        for one in parts
        for at in range(_SAMPLES)
    )
    cuts: list[int] = []
    taken = 0
    for time, size in samples:
        taken += size
        if taken >= step * _SAMPLES * (len(cuts) + 1):
            cuts.append(time)
    cuts = sorted(set(cuts))
    found: list[Part] = []
    begin: int | None = None
    for end in [*cuts, None]:
        captures: list[str] = []
        ranges: list[Range | None] = []
        size = 0
        for capture in group:
            within = [
                one
                for one in alone[capture]
                if one.packets > 0
                and (begin is None or one.last_ns >= begin)
                and (end is None or one.first_ns < end)
            ]
            if within:
                of = [one.part.range or (0, sizes[capture]) for one in within]
                hull = (min(one[0] for one in of), max(one[1] for one in of))
                captures.append(capture)
                ranges.append(None if hull == (0, sizes[capture]) else hull)
                size += hull[1] - hull[0]
        if captures:
            times = (begin, end)
            numbered = number + len(found)
            found.append(
                Part(numbered, tuple(captures), None, size, times, tuple(ranges), tuple(group))
            )
            begin = end
    if found and found[-1].times is not None and found[-1].times[1] is not None:
        # No packets are behind the last cut.
        found[-1] = replace(found[-1], times=(found[-1].times[0], None))
    return found if len(found) > 1 else whole


def arrange(done: Iterable[Done], listed: Sequence[str]) -> Arranged:
    """Put parts that were read in order, and say which captures must be read again.

    ``listed`` has the captures in the order in which packets of one time are taken. A capture
    whose ranges do not adjoin is read again, whole. Captures whose packets overlap in time, or
    meet at one time, are read again together, merged by time, as :func:`by_time` cuts them.
    """
    result = Arranged()
    rank = {capture: at for at, capture in enumerate(listed)}
    sets: dict[tuple[str, ...], list[Done]] = {}
    for one in sorted(done, key=_place):
        if "error" in one.about:
            for capture in one.part.group:
                result.failed[capture] = str(one.about["error"])
        else:
            sets.setdefault(one.part.group, []).append(one)
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


def counters_of(order: Sequence[Done]) -> dict[str, int]:
    """Return the sums of what parts count, by name."""
    sums = dict.fromkeys(_SUMS, 0)
    for one in order:
        for name in _SUMS:
            sums[name] += int(one.about[name])
        for kind in ("dropped", "dropped_by_workers"):
            for reason, packets in one.about[kind]:
                name = f"dropped: {reason}"
                sums[name] = sums.get(name, 0) + int(packets)
    return sums
