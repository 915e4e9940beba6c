"""Stands in for Spark's data source interface where Spark is not installed."""

from __future__ import annotations

import importlib.util
import sys
import types


def _stub() -> None:
    source = types.ModuleType("pyspark.sql.datasource")

    class InputPartition:
        pass

    class DataSourceReader:
        pass

    class DataSource:
        def __init__(self, options: dict[str, str]) -> None:
            self.options = options

    for one in (InputPartition, DataSourceReader, DataSource):
        setattr(source, one.__name__, one)
    kinds = types.ModuleType("pyspark.sql.types")
    kinds.StructType = object  # type: ignore[attr-defined]
    sys.modules |= {
        "pyspark": types.ModuleType("pyspark"),
        "pyspark.sql": types.ModuleType("pyspark.sql"),
        "pyspark.sql.datasource": source,
        "pyspark.sql.types": kinds,
    }


if importlib.util.find_spec("pyspark") is None:
    _stub()
