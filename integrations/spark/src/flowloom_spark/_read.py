"""Reads captures as one input: parts by the data source, composed where flows touch their edges."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark import StorageLevel, cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from flowloom_spark import _columns, _command, _merge, _plan
from flowloom_spark._source import FlowloomSource

_ROUNDS_MAX = 4
"""Captures are read; ranges that do not adjoin are read whole; captures that then overlap are read
together, which may happen once more with one of the former."""
_ENDED_AT = 16
"""The byte of a fragment's state that says why it has ended."""
_ENDED_IDLE = b"\x01"


@dataclass
class Flows:
    """The flows of all captures, as one run of the command over them finds them."""

    records: DataFrame
    """The records, with the documented columns."""
    counters: DataFrame
    """Counters by name: packets, drops by reason, flows."""
    captures: DataFrame
    """What is to be known of each part: its captures, packets, times, notices and error."""
    failed: dict[str, str]
    """Captures that cannot be read and are left out, and why."""
    flows_read_again: int
    """Flows that summaries did not determine, whose packets were read a second time."""
    _kept: list[DataFrame] = field(default_factory=list)

    def unpersist(self) -> None:
        """Let Spark forget the parts that it keeps for the records and the counters."""
        for kept in self._kept:
            kept.unpersist()


def register(spark: SparkSession, binary: str | None = None) -> None:
    """Make ``spark.read.format("flowloom")`` known to a session.

    The package goes to the executors with each task, so they need Spark, pyarrow and pandas
    only. With
    ``binary`` the command goes there too; without it they have it already, as
    :func:`flowloom_spark._command.find_binary` says.
    """
    cloudpickle.register_pickle_by_value(sys.modules["flowloom_spark"])  # type: ignore[no-untyped-call]
    if binary is not None:
        _command.checked(binary)
        named = Path(binary)
        if named.name != "flowloom":
            # Executors look for this name.
            named = Path(tempfile.mkdtemp(prefix="flowloom-"), "flowloom")
            shutil.copy2(binary, named)
        spark.sparkContext.addFile(str(named))
    spark.dataSource.register(FlowloomSource)


def read(
    spark: SparkSession,
    paths: str | Sequence[str],
    *,
    split_bytes: int = _plan.SPLIT_BYTES,
    on_error: str = "skip",
    merge_partitions: int | None = None,
    **options: Any,  # noqa: ANN401
) -> Flows:
    """Return the flows of captures, exactly as one run of the command over all of them.

    The parts are read at once, and kept by Spark (memory, then disk) until
    :meth:`Flows.unpersist`. What is merged is computed when it is asked for.

    Args:
        spark: A session for which :func:`register` was called.
        paths: Captures, or folders with captures below, as paths or URIs.
        split_bytes: Classic captures that are larger are read in ranges of this size.
        on_error: ``skip`` leaves out captures that cannot be read, with a warning; ``fail`` fails.
        merge_partitions: Partitions in which flows are merged, by default as many as the bytes
            of their fragments ask for (``spark.sql.adaptive``).
        options: Options of the data source: ``timeout``, ``active_timeout``, ``filter``,
            ``binary``, ``staging`` (a folder for captures of other file systems),
            ``task_bytes`` (of small captures that a task reads).

    Raises:
        FileNotFoundError: where there is no capture.
        FlowloomError: with ``on_error="fail"``, for the first capture that cannot be read.

    """
    named = [paths] if isinstance(paths, str) else list(paths)
    captures = _plan.list_captures(named)
    listed = [capture for capture, _ in captures]
    texts = {name: str(value) for name, value in options.items() if value is not None}
    kept: list[DataFrame] = []
    current: list[_plan.Done] = []
    alone: dict[str, list[_plan.Done]] = {}
    sizes = dict(captures)
    parts = _plan.plan(captures, split_bytes)
    numbers = 0
    for _ in range(_ROUNDS_MAX):
        # Spark's UI has a bar of tasks beside it.
        spark.sparkContext.setJobDescription(f"flowloom: {len(parts)} parts of {', '.join(named)}")
        frame = _load(spark, parts, {**texts, "on_error": on_error})
        kept.append(frame)
        numbers += len(parts)
        again = {capture for part in parts for capture in part.group}
        current = [one for one in current if not again.intersection(one.part.group)]
        new = _done(frame, parts)
        current += new
        alone |= _plan.alone(new)
        spark.sparkContext.setJobDescription(None)  # type: ignore[arg-type]
        arranged = _plan.arrange(current, listed)
        if not arranged.again:
            break
        parts = []
        for group in arranged.again:
            if len(group) == 1:
                parts.append(_plan.Part(numbers + len(parts), group, None, sizes[group[0]]))
            else:
                number = numbers + len(parts)
                parts += _plan.by_time(number, group, alone, sizes, split_bytes)
    else:
        raise _command.FlowloomError(
            f"captures cannot be put in an order of time: {', '.join(arranged.again[0])}"
        )
    for capture, why in arranged.failed.items():
        if on_error == "fail":
            raise _command.FlowloomError(f"cannot read {capture}: {why}")
        warnings.warn(f"{capture} is left out: {why}", stacklevel=2)
    if not arranged.order:
        raise _command.FlowloomError("no capture could be read: " + "; ".join(arranged.failed))
    return _flows(spark, kept, arranged, texts, merge_partitions)


def _load(spark: SparkSession, parts: list[_plan.Part], options: dict[str, str]) -> DataFrame:
    reader = spark.read.format("flowloom").options(**options)
    frame = reader.option("parts", _plan.to_json(parts)).load()
    return frame.persist(StorageLevel.MEMORY_AND_DISK)


def _done(frame: DataFrame, parts: list[_plan.Part]) -> list[_plan.Done]:
    rows = frame.where("about is not null").select("part", "about").collect()
    by_number = {part.part: part for part in parts}
    return [_plan.Done(by_number[row["part"]], json.loads(row["about"])) for row in rows]


def _flows(
    spark: SparkSession,
    kept: list[DataFrame],
    arranged: _plan.Arranged,
    options: dict[str, str],
    merge_partitions: int | None,
) -> Flows:
    order = arranged.order
    numbers = {one.part.part for one in order}
    rows = kept[0]
    for frame in kept[1:]:
        rows = rows.unionAll(frame)
    if len(kept) > 1:
        rows = rows.where(F.col("part").isin(sorted(numbers)))
    names = [f"`{name}`" for name in _columns.RECORD_COLUMNS]
    fragments = rows.where("flow_state is not null").select("part", "flow_key", "flow_state")
    columns = {name: kind for name, kind in _columns.PART_COLUMNS.items() if name != "part"}
    merger = _merge.Merger(_merge.listed(order), options, columns)
    merged = (
        _by_key(fragments, merge_partitions)
        .mapInArrow(merger.merge, _columns.ddl(columns))
        .persist(StorageLevel.MEMORY_AND_DISK)
    )
    kept.append(merged)
    open_keys = [
        bytes(row["flow_key"])
        for row in merged.where("flow_state is not null").select("flow_key").collect()
    ]
    finished = rows.where("packets is not null")
    counters = [_of_parts(spark, order), _of_merges(merged)]
    records = [merged.where("packets is not null").select(*names)]
    if open_keys:
        again = _again(spark, order, open_keys, merger, merge_partitions)
        kept.append(again)
        # What parts have found of these flows by themselves does not count.
        keys = F.broadcast(
            spark.createDataFrame([(bytearray(key),) for key in open_keys], "flow_key binary")
        )
        alone = finished.join(keys, "flow_key", "left_semi")
        alone = alone.select("timed_out")
        states = fragments.join(keys, "flow_key", "left_semi")
        idle = F.substring("flow_state", _ENDED_AT + 1, 1) == F.lit(_ENDED_IDLE)
        alone = alone.unionAll(states.select(idle.alias("timed_out")))
        counters += [_taken_back(alone), _of_merges(again)]
        finished = finished.join(keys, "flow_key", "left_anti")
        records.append(again.where("packets is not null").select(*names))
    records.append(finished.select(*names))
    return Flows(
        records=_union(records),
        counters=_union(counters).groupBy("name").agg(F.sum("value").alias("value")),
        captures=_captures(spark, arranged),
        failed=arranged.failed,
        flows_read_again=len(open_keys),
        _kept=kept,
    )


def _by_key(frame: DataFrame, partitions: int | None) -> DataFrame:
    """Return a frame whose rows of one flow are in one partition."""
    if partitions is None:
        # Without a number Spark joins small partitions, each of which starts a command.
        return frame.repartition("flow_key")
    return frame.repartition(partitions, "flow_key")


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    union = frames[0]
    for frame in frames[1:]:
        union = union.unionAll(frame)
    return union


def _again(
    spark: SparkSession,
    order: Sequence[_plan.Done],
    keys: list[bytes],
    merger: _merge.Merger,
    merge_partitions: int | None,
) -> DataFrame:
    """Return the records of flows that summaries do not determine, from their packets."""
    # One partition for each part: a row is a part.
    rows = [(place, _plan.to_json([one.part])) for place, one in enumerate(order)]
    parts = spark.createDataFrame(rows, "place int, part string")
    reader = _merge.PacketReader(b"".join(keys), merger.options)
    packets = parts.repartitionByRange(len(rows), "place").mapInArrow(
        reader.read, _columns.ddl(_columns.OPEN_PACKET_COLUMNS)
    )
    return (
        _by_key(packets, merge_partitions)
        .mapInArrow(merger.process, _columns.ddl(merger.columns))
        .persist(StorageLevel.MEMORY_AND_DISK)
    )


def _of_parts(spark: SparkSession, order: Sequence[_plan.Done]) -> DataFrame:
    return spark.createDataFrame(
        list(_plan.counters_of(order).items()), "name string, value bigint"
    )


def _of_merges(merged: DataFrame) -> DataFrame:
    """Return what merges correct: flows that two parts have counted, and timeouts that none has."""
    found = merged.where("about is not null").select(
        F.from_json("about", "flows_joined bigint, flows_expired bigint").alias("about")
    )
    return found.selectExpr(
        "stack(2, 'flows_begun', -about.flows_joined, 'flows_expired', about.flows_expired)"
        " as (name, value)"
    )


def _taken_back(alone: DataFrame) -> DataFrame:
    """Return the counts of records that parts have found and that do not count."""
    return alone.selectExpr(
        "stack(2, 'flows_begun', -1L, 'flows_expired', if(timed_out, -1L, 0L)) as (name, value)"
    )


def _captures(spark: SparkSession, arranged: _plan.Arranged) -> DataFrame:
    rows = [
        (
            list(one.part.captures),
            one.part.name,
            one.packets,
            one.first_ns,
            one.last_ns,
            [str(notice) for notice in one.about.get("notices", [])],
            None,
        )
        for one in arranged.order
    ]
    failed: list[tuple[Any, ...]] = [
        ([capture], capture, 0, 0, 0, [], why) for capture, why in arranged.failed.items()
    ]
    schema = (
        "captures array<string>, name string, packets bigint, first_ns bigint, last_ns bigint,"
        " notices array<string>, error string"
    )
    return spark.createDataFrame([*rows, *failed], schema)
