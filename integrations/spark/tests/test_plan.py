"""Planning and arranging, without Spark."""

from __future__ import annotations

import itertools
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


def test_small_captures_share_a_task() -> None:
    sizes = [10, 20, 30, 100, 5, 5, 90]
    parts = [_plan.Part(at, (str(at),), None, size) for at, size in enumerate(sizes)]
    tasks = _plan.tasks(parts, 60)
    assert [part for task in tasks for part in task] == parts
    assert [[part.size for part in task] for task in tasks] == [[10, 20, 30], [100], [5, 5], [90]]
