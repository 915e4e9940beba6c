"""The data source ``flowloom`` of Spark."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from flowloom_spark import _columns, _command, _merge, _plan, _stage

OPTIONS = (
    "path",
    "paths",
    "app",
    "binary",
    "on_error",
    "packets",
    "parts",
    "task_bytes",
    "staging",
    *_merge.RUN_OPTIONS,
)
"""All options of the data source."""


def check_options(options: Mapping[str, str]) -> None:
    """Refuse options that there are not.

    Raises:
        ValueError: with the options that there are.

    """
    # Spark hands over the names in small letters.
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise ValueError(
            f"unknown options of the data source flowloom: {', '.join(unknown)}; "
            f"there are {', '.join(OPTIONS)}"
        )
    if options.get("app", "accounting") != "accounting":
        raise ValueError(f"app is accounting, and '{options['app']}' was given")
    if options.get("on_error", "skip") not in ("skip", "fail"):
        raise ValueError(f"on_error is skip or fail, and '{options['on_error']}' was given")


@dataclasses.dataclass
class Slice(InputPartition):
    """A partition: the parts that a task reads."""

    parts: tuple[_plan.Part, ...]


class FlowloomReader(DataSourceReader):
    """Reads parts by the command."""

    def __init__(self, options: Mapping[str, str], columns: dict[str, str]) -> None:
        """Keep the options, and the columns that are read."""
        self.options = dict(options)
        self.columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """Return a partition for each part."""
        if "parts" in self.options:
            parts = _plan.from_json(self.options["parts"])
        else:
            # By itself a capture is read whole, so its records do not depend on where it is cut.
            captures = _plan.list_captures(paths_of(self.options))
            parts = [
                _plan.Part(at, (path,), None, size) for at, (path, size) in enumerate(captures)
            ]
        task_bytes = int(self.options.get("task_bytes", _plan.TASK_BYTES))
        return [Slice(parts) for parts in _plan.tasks(parts, task_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task's parts."""
        assert isinstance(partition, Slice)  # noqa: S101
        # A machine without the command is no fault of a capture.
        binary = _command.checked(_command.find_binary(self.options.get("binary")))
        for part in partition.parts:
            try:
                yield from self._rows(binary, part)
            except (_command.FlowloomError, OSError) as error:
                if self.options.get("on_error", "skip") == "fail":
                    raise _command.FlowloomError(f"cannot read {part.name}: {error}") from error
                if "about" in self.columns:
                    about = json.dumps({"error": str(error), "inputs": part.captures})
                    yield _row(self.columns, part.part, about)

    def _packets(self, binary: str, part: _plan.Part) -> Iterator[pa.RecordBatch]:
        with _stage.staged(part, self.options.get("staging")) as paths:
            arguments = [binary, "replay", *paths, "-qq", "--packets", "-"]
            if "filter" in self.options:
                arguments += ["--filter", self.options["filter"]]
            for batch in _command.batches(arguments):
                rows = _columns.as_spark(batch, self.columns)
                names = pa.array([part.name] * rows.num_rows, pa.string())
                at = rows.schema.get_field_index("capture")
                yield rows.set_column(at, rows.schema.field(at), names)

    def _rows(self, binary: str, part: _plan.Part) -> Iterator[pa.RecordBatch]:
        if "capture" in self.columns:
            yield from self._packets(binary, part)
            return
        is_part = "about" in self.columns
        with _stage.staged(part, self.options.get("staging")) as paths:
            arguments = [
                binary,
                "replay",
                *paths,
                *_merge.run_arguments(self.options),
                "-qq",
                "--no-pin",
            ]
            arguments += ["--flows", "-", "--flows-format", "arrow"]
            if is_part:
                arguments.append("--fragments")
            arguments += part.arguments()
            held: list[pa.RecordBatch] = []
            for batch in _command.batches(arguments):
                rows = _columns.as_spark(batch, self.columns, part.part)
                if is_part:
                    rows = _renamed(rows, part)
                if self.options.get("on_error", "skip") == "skip" and not is_part:
                    # A capture that fails in the middle has no rows, wherever the failure is.
                    held.append(rows)
                else:
                    yield rows
            yield from held


def _renamed(rows: pa.RecordBatch, part: _plan.Part) -> pa.RecordBatch:
    """Let the part name its captures where they are, not where they were staged."""
    at = rows.schema.get_field_index("about")
    if rows.num_rows == 0 or not rows.column(at)[-1].is_valid:
        return rows
    about = json.loads(rows.column(at)[-1].as_py())
    about["inputs"] = list(part.captures)
    texts = pa.array([None] * (rows.num_rows - 1) + [json.dumps(about)], pa.string())
    return rows.set_column(at, rows.schema.field(at), texts)


def _row(columns: dict[str, str], part: int, about: str) -> pa.RecordBatch:
    """Return a row that says what a part is."""
    one = pa.RecordBatch.from_pydict({"about": [about]})
    return _columns.as_spark(one, columns, part)


def paths_of(options: Mapping[str, str]) -> list[str]:
    """Return the paths that ``load`` was given."""
    if "paths" in options:
        return [str(path) for path in json.loads(options["paths"])]
    if "path" in options:
        return [options["path"]]
    raise ValueError("no captures are named: load(PATH) names a capture or a folder")


class FlowloomSource(DataSource):
    """Records of the flows in captures.

    ``load`` gives the records of each capture by itself, as one run of the command over it does.
    :func:`flowloom_spark.read` gives those of all captures together. With the option ``packets``
    there is a row for each packet.
    """

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "flowloom"

    def _columns(self) -> dict[str, str]:
        if "parts" in self.options:
            return _columns.PART_COLUMNS
        if self.options.get("packets", "false").lower() == "true":
            return _columns.PACKET_COLUMNS
        return _columns.RECORD_COLUMNS

    def schema(self) -> str:
        """Return the columns of records, or of parts."""
        return _columns.ddl(self._columns())

    def reader(self, schema: StructType) -> FlowloomReader:  # noqa: ARG002
        """Return a reader of the documented columns."""
        options = {name.lower(): value for name, value in self.options.items()}
        check_options(options)
        return FlowloomReader(options, self._columns())
