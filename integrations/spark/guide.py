"""Runs the page of the book about Spark: its commands, its program, and its queries by each engine.

Started by ``cargo xtask cluster`` for a folder that the page can write to.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Row = tuple[object, ...]
Rows = list[Row]
Engine = Callable[[str], Rows]
ADDRESSES = ("source", "destination")


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def statements(page: str) -> tuple[dict[str, str], list[str]]:
    """Return the statement with which each engine names the table, and the queries."""
    views: dict[str, str] = {}
    queries: list[str] = []
    for block in blocks(page, "sql"):
        named = re.findall(r"^-- (\w+)\n([^;]*);", block, re.MULTILINE)
        views |= dict(named)
        if not named:
            queries.append(block.strip().removesuffix(";"))
    return views, queries


def follow(page: str, work: Path, search: str) -> str:
    """Run the commands of the page in a folder, and return what its program prints.

    The packages are there: what the page installs is the interpreter that runs this.
    """
    program = next(block for block in blocks(page, "python") if "import flowloom_spark" in block)
    (work / "talkers.py").write_text(program)
    said = ""
    for block in blocks(page, "console"):
        for line in block.splitlines():
            command = line.removeprefix("$ ")
            if command.startswith(("python3 -m venv", ". ", "pip ")):
                continue
            environment = {**os.environ, "PATH": search}
            done = subprocess.run(
                ["/bin/sh", "-ec", command],
                cwd=work,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            if done.returncode != 0:
                raise RuntimeError(f"$ {command}\n{done.stdout}\n{done.stderr[-4000:]}")
            said = done.stdout
    return said


def normal(rows: Any) -> Rows:  # noqa: ANN401
    """Return rows with numbers and texts that engines agree on."""
    return [
        tuple(int(value) if isinstance(value, float) else value for value in row) for row in rows
    ]


def spark_engine() -> Engine:
    """Return Spark."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = spark.config("spark.ui.showConsoleProgress", "false")
    session = spark.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return lambda sql: [tuple(row) for row in session.sql(sql).collect()]


def duckdb_engine() -> Engine:
    """Return DuckDB."""
    import duckdb  # noqa: PLC0415

    connection = duckdb.connect()
    return lambda sql: list(connection.execute(sql).fetchall())


def datafusion_engine() -> Engine:
    """Return DataFusion."""
    import datafusion  # noqa: PLC0415

    context = datafusion.SessionContext()
    return lambda sql: [
        tuple(row.values()) for row in context.sql(sql).to_arrow_table().to_pylist()
    ]


def clickhouse_engine() -> Engine:
    """Return ClickHouse."""
    from chdb import session  # noqa: PLC0415

    opened = session.Session()

    def run(sql: str) -> Rows:
        if sql.startswith("CREATE"):
            opened.query(sql)
            return []
        table = opened.query(sql, "ArrowTable")
        return [
            tuple(one.decode() if isinstance(one, bytes) else one for one in row.values())
            for row in table.to_pylist()
        ]

    return run


ENGINES: dict[str, Callable[[], Engine]] = {
    "spark": spark_engine,
    "duckdb": duckdb_engine,
    "datafusion": datafusion_engine,
    "clickhouse": clickhouse_engine,
}


def compare(page: str) -> bool:
    """Run each query by each engine that is installed, and compare the answers."""
    views, queries = statements(page)
    is_right = set(views) == set(ENGINES) and bool(queries)
    expected: list[Rows] = []
    for name, start in ENGINES.items():
        try:
            run = start()
        except ImportError as error:
            print(f"queries: not run by {name}: {error}")
            continue
        run(views[name])
        answers = [normal(run(query)) for query in queries]
        expected = expected or answers
        wrong = [
            query
            for query, one, other in zip(queries, answers, expected, strict=True)
            if one != other
        ]
        empty = sum(not answer for answer in answers)
        print(
            f"queries by {name}: {len(queries)} run, {len(wrong)} answers differ, {empty} are empty"
        )
        for query in wrong:
            at = queries.index(query)
            print(f"  {query}\n  {answers[at][:3]}\n  {expected[at][:3]}")
        is_right &= not wrong and empty == 0
    return is_right


def layout(folder: Path) -> bool:
    """Check what the page says of the files, by their metadata."""
    files = sorted(folder.glob("sensor=*/day=*/*.parquet"))
    is_right = bool(files) and len(files) == len(list(folder.rglob("*.parquet")))
    groups = 0
    for path in files:
        times = pq.read_table(path, columns=["start"])["start"].to_pylist()
        is_right &= times == sorted(times)
        metadata = pq.ParquetFile(path).metadata
        for at in range(metadata.num_row_groups):
            group = metadata.row_group(at)
            groups += 1
            columns = {
                group.column(one).path_in_schema: group.column(one)
                for one in range(group.num_columns)
            }
            is_right &= all(columns[name].is_stats_set for name in ("start", *ADDRESSES))
            is_right &= all(columns[name].bloom_filter_offset is not None for name in ADDRESSES)
            lacks = [name for name in ADDRESSES if columns[name].bloom_filter_offset is None]
            if lacks:
                print(f"{path}: no bloom filter on {', '.join(lacks)}")
    print(
        f"table: {len(files)} files by sensor and day, {groups} row groups: sorted by time, with "
        f"statistics and bloom filters: {is_right}"
    )
    return is_right


def main() -> int:
    """Run the page, and return 0 if all of it holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=Path, required=True)
    parser.add_argument("--page", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    arguments = parser.parse_args()
    page = arguments.page.read_text()
    places = [str(Path(sys.executable).parent), str(arguments.binary.parent), os.environ["PATH"]]
    search = os.pathsep.join(places)
    said = follow(page, arguments.work, search)
    print(said[said.rindex("+", 0, said.rindex("octets")) :] if "octets" in said else said)
    os.chdir(arguments.work)
    return 0 if layout(Path("flows")) & compare(page) else 1


if __name__ == "__main__":
    sys.exit(main())
