"""Captures and flow records on Apache Spark.

>>> import flowloom_spark
>>> flowloom_spark.register(spark)                              # doctest: +SKIP
>>> flows = flowloom_spark.read(spark, "captures/", timeout=60) # doctest: +SKIP
>>> flows.records.groupBy("source").sum("bytes").show()         # doctest: +SKIP
"""

from flowloom_spark._columns import RECORD_COLUMNS
from flowloom_spark._command import VERSION as __version__
from flowloom_spark._command import FlowloomError

__all__ = ["RECORD_COLUMNS", "FlowloomError", "__version__"]

try:
    from flowloom_spark._read import Flows, read, register
    from flowloom_spark._source import FlowloomSource
except ImportError:
    # Planning, staging and the command work without Spark, as the tests of this package do.
    pass
else:
    __all__ += ["FlowloomSource", "Flows", "read", "register"]
