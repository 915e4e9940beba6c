"""Planning and arranging, without Spark."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flowloom_spark import _plan

CLASSIC = bytes.fromhex("d4c3b2a1")


def done(
    part: int,
    captures: tuple[str, ...],
    times: tuple[int, int],
    bytes_range: tuple[int, int] | None = None,
    **about: Any,
) -> _plan.Done:
    of = _plan.Part(part, captures, bytes_range)
    says = {"packets": 1, "first_ns": times[0], "last_ns": times[1], **about}
    return _plan.Done(of, says)


def tokens(begin: str, end: str) -> dict[str, str]:
    return {"begin": begin, "end": end}


@pytest.mark.parametrize("split", [1, 7, 100, 999, 1000, 5000])
def test_ranges_cover_a_classic_capture_once(tmp_path: Path, split: int) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(CLASSIC + bytes(996))
    parts = _plan.plan([(str(capture), 1000)], split)
    ranges = [part.range or (0, 1000) for part in parts]
    assert ranges[0][0] == 0
    assert ranges[-1][1] == 1000
    assert all(one[1] == two[0] for one, two in itertools.pairwise(ranges))
    assert all(0 < end - begin <= split for begin, end in ranges)
    assert [part.part for part in parts] == list(range(len(parts)))
    assert _plan.from_json(_plan.to_json(parts)) == parts


def test_other_formats_are_read_whole(tmp_path: Path) -> None:
    capture = tmp_path / "a.pcapng"
    capture.write_bytes(bytes.fromhex("0a0d0d0a") + bytes(996))
    assert _plan.plan([(str(capture), 1000)], 10) == [_plan.Part(0, (str(capture),), None, 1000)]


def test_captures_below_a_folder_are_listed_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("b/2.pcap.gz", "1.PCAPNG", "notes.txt"):
        (tmp_path / name).write_bytes(CLASSIC)
    found = [Path(path).name for path, _ in _plan.list_captures([str(tmp_path)])]
    assert found == ["1.PCAPNG", "2.pcap.gz"]
    with pytest.raises(FileNotFoundError, match="no capture or folder"):
        _plan.list_captures([str(tmp_path / "none")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no captures below"):
        _plan.list_captures([str(tmp_path / "empty")])


def test_parts_come_in_the_order_of_time() -> None:
    parts = [done(0, ("b",), (30, 40)), done(1, ("a",), (10, 20)), done(2, ("c",), (21, 29))]
    for in_some_order in itertools.permutations(parts):
        arranged = _plan.arrange(in_some_order, ["a", "b", "c"])
        assert [one.part.part for one in arranged.order] == [1, 2, 0]
        assert arranged.again == []


@pytest.mark.parametrize("first_ns", [15, 20])
def test_captures_that_overlap_or_meet_are_read_together(first_ns: int) -> None:
    parts = [done(0, ("b",), (10, 20)), done(1, ("a",), (first_ns, 40)), done(2, ("c",), (50, 60))]
    arranged = _plan.arrange(parts, ["a", "b", "c"])
    assert arranged.again == [("a", "b")]
    assert [one.part.part for one in arranged.order] == [2]


@pytest.mark.parametrize(
    ("first", "second", "adjoins"),
    [
        (tokens("0:0", "0:50:s"), tokens("0:50:s", "1:0"), True),
        (tokens("0:0", "0:50:s"), tokens("0:60:s", "1:0"), False),
        (tokens("0:0", "0:50:s"), tokens("0:50:t", "1:0"), False),
        (tokens("0:0", "1:0"), tokens("0:50:s", "1:0"), False),
        (tokens("0:0", "0:50:s"), tokens("0:50:s", "0:90:s"), False),
        (tokens("0:7:s", "0:50:s"), tokens("0:50:s", "1:0"), False),
    ],
)
def test_ranges_that_do_not_adjoin_are_read_whole(
    first: dict[str, str], second: dict[str, str], adjoins: bool
) -> None:
    parts = [
        done(1, ("a",), (20, 30), (48, 100), range=second),
        done(0, ("a",), (10, 20), (0, 48), range=first),
    ]
    arranged = _plan.arrange(parts, ["a"])
    assert arranged.again == ([] if adjoins else [("a",)])
    assert [one.part.part for one in arranged.order] == ([0, 1] if adjoins else [])


def test_ranges_whose_times_go_back_are_read_whole() -> None:
    ranges = [tokens("0:0", "0:50:s"), tokens("0:50:s", "1:0")]
    parts = [
        done(0, ("a",), (10, 20), (0, 48), range=ranges[0]),
        done(1, ("a",), (19, 30), (48, 100), range=ranges[1]),
    ]
    assert _plan.arrange(parts, ["a"]).again == [("a",)]


def test_a_capture_that_fails_is_left_out_with_all_its_ranges() -> None:
    parts = [
        done(0, ("a",), (10, 20), (0, 48), range=tokens("0:0", "0:50:s")),
        _plan.Done(_plan.Part(1, ("a",), (48, 100)), {"error": "no disk"}),
        done(2, ("b",), (50, 60)),
    ]
    arranged = _plan.arrange(parts, ["a", "b"])
    assert arranged.failed == {"a": "no disk"}
    assert [one.part.part for one in arranged.order] == [2]
    assert arranged.again == []


def taps(seed: int) -> tuple[list[_plan.Done], dict[str, int]]:
    """Return what three captures that overlap say, of which two are read in ranges."""
    rng = random.Random(seed)
    parts: list[_plan.Done] = []
    sizes = {}
    for capture, count in (("a", 5), ("b", 1), ("c", 3)):
        edges = sorted(rng.sample(range(1000), 2 * count))
        sizes[capture] = 100 * count
        for at in range(count):
            of = None if count == 1 else (100 * at, 100 * at + 100)
            begin, end = (f"0:{100 * one}" if 0 < one < count else None for one in (at, at + 1))
            says = tokens(begin or "0:0", end or "1:0")
            times = (edges[2 * at], edges[2 * at + 1])
            one = done(len(parts), (capture,), times, of, range=says)
            parts.append(replace(one, part=replace(one.part, size=100)))
    return parts, sizes


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("split", [1, 90, 200, 899])
def test_captures_that_overlap_are_cut_in_time(seed: int, split: int) -> None:
    parts, sizes = taps(seed)
    group = ("a", "b", "c")
    found = _plan.by_time(7, group, _plan.alone(parts), sizes, split)
    assert [part.part for part in found] == list(range(7, 7 + len(found)))
    assert _plan.from_json(_plan.to_json(found)) == found
    edges = [part.times for part in found]
    assert all(edges)
    assert edges[0] is not None
    assert (edges[0][0], edges[-1] and edges[-1][1]) == (None, None)
    assert all(one and two and one[1] == two[0] for one, two in itertools.pairwise(edges))
    # Each part reads all bytes that may hold packets of its time.
    for part in found:
        begin, end = part.times or (None, None)
        reads = dict(zip(part.captures, part.ranges, strict=True))
        for one in parts:
            is_before = begin is not None and one.last_ns < begin
            if is_before or (end is not None and one.first_ns >= end):
                continue
            of, held = one.part.range or (0, 100), reads[one.part.captures[0]]
            assert held is None or (held[0] <= of[0] and of[1] <= held[1])
        assert part.arguments().count("--bytes") in (0, len(part.captures))
    arranged = _plan.arrange(
        [_plan.Done(part, {"packets": 1, "first_ns": 0, "last_ns": 1}) for part in found[::-1]],
        group,
    )
    assert [one.part for one in arranged.order] == found
    assert not arranged.again


def test_captures_are_not_cut_in_time_where_a_clock_was_set() -> None:
    parts, sizes = taps(1)
    whole = [_plan.Part(0, ("a", "b", "c"), None, 900)]
    odd = [replace(one, about={**one.about, "time_steps": 1}) for one in parts]
    assert _plan.by_time(0, ("a", "b", "c"), _plan.alone(odd), sizes, 90) == whole
    assert _plan.by_time(0, ("a", "b", "c"), _plan.alone(parts), sizes, 900) == whole


def test_times_are_said_in_nanoseconds() -> None:
    part = _plan.Part(0, ("a", "b"), None, 0, (None, 1_700_000_000_000_000_001), (None, (5, 9)))
    assert part.arguments() == ["--bytes", "..", "--bytes", "5..9", "--to", "1700000000.000000001"]
    assert part.name == "a, b from … to 1700000000000000001 ns"


def test_small_captures_share_a_task() -> None:
    sizes = [10, 20, 30, 100, 5, 5, 90]
    parts = [_plan.Part(at, (str(at),), None, size) for at, size in enumerate(sizes)]
    tasks = _plan.tasks(parts, 60)
    assert [part for task in tasks for part in task] == parts
    assert [[part.size for part in task] for task in tasks] == [[10, 20, 30], [100], [5, 5], [90]]
