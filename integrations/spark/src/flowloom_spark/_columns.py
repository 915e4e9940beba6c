"""The columns of records, as Spark has them."""

from __future__ import annotations

import pyarrow as pa

_TEXTS = ("source", "destination", "protocol_name", "direction", "end_reason")
_NUMBERS = (
    "source_port",
    "destination_port",
    "protocol",
    "tcp_flags",
    "reverse_tcp_flags",
    "icmp_type",
    "icmp_code",
    "vlan",
    "customer_vlan",
)

RECORD_COLUMNS: dict[str, str] = {
    name: "string" if name in _TEXTS else "int" if name in _NUMBERS else "bigint"
    for name in (
        "source",
        "destination",
        "source_port",
        "destination_port",
        "protocol",
        "protocol_name",
        "start",
        "end",
        "packets",
        "bytes",
        "ip_bytes",
        "reverse_packets",
        "reverse_bytes",
        "reverse_ip_bytes",
        "tcp_flags",
        "reverse_tcp_flags",
        "icmp_type",
        "icmp_code",
        "vlan",
        "customer_vlan",
        "direction",
        "end_reason",
    )
}
"""The documented columns of records and their types. Spark has no unsigned numbers, and its
timestamps have microseconds: ``start`` and ``end`` are nanoseconds since 1970."""

FRAGMENT_COLUMNS: dict[str, str] = {"flow_key": "binary", "flow_state": "binary"}
"""The columns of a flow that may continue after its part."""

PART_COLUMNS: dict[str, str] = {
    "part": "int",
    **RECORD_COLUMNS,
    **FRAGMENT_COLUMNS,
    "timed_out": "boolean",
    "about": "string",
}
"""The columns of parts: a row is a record, a fragment, or what the part is. ``timed_out`` says of a
record whether an idle timeout has ended it."""

PACKET_COLUMNS: dict[str, str] = {
    "capture": "string",
    "time": "bigint",
    "wire_bytes": "int",
    "captured_bytes": "int",
    "link_type": "int",
    "source": "string",
    "destination": "string",
    "source_port": "int",
    "destination_port": "int",
    "protocol": "int",
    "tcp_flags": "int",
    "payload_bytes": "int",
}
"""The columns of packets. ``time`` is in nanoseconds since 1970 and never goes back; what the
headers say is null for packets that are not decoded."""

OPEN_PACKET_COLUMNS: dict[str, str] = {
    "place": "int",
    "number": "bigint",
    "time": "bigint",
    "wire_bytes": "int",
    "link_type": "int",
    "flow_key": "binary",
    "frame": "binary",
}
"""The columns of packets whose flows are processed again: the place of their part in the order of
time, and their number in it."""

_ARROW: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
}


def ddl(columns: dict[str, str]) -> str:
    """Return columns as Spark reads a schema."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def arrow_schema(columns: dict[str, str]) -> pa.Schema:
    """Return columns as the schema that Spark's Arrow batches have."""
    return pa.schema([pa.field(name, _ARROW[kind]) for name, kind in columns.items()])


def as_spark(
    batch: pa.RecordBatch, columns: dict[str, str], part: int | None = None
) -> pa.RecordBatch:
    """Return a batch of the command with these columns, of the types that Spark has.

    Columns that the batch does not have are null; ``part`` is the value of that column.
    """
    schema = arrow_schema(columns)
    arrays = []
    for field in schema:
        at = batch.schema.get_field_index(field.name)
        if field.name == "part" and part is not None:
            arrays.append(pa.array([part] * batch.num_rows, field.type))
        elif at < 0:
            arrays.append(pa.nulls(batch.num_rows, field.type))
        else:
            arrays.append(batch.column(at).cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
