//! Packets as a stream of Apache Arrow: a row for each.

use std::io::{self, Write};
use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, StringBuilder, TimestampNanosecondBuilder, UInt32Builder,
};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{DataType, Field, Schema, TimeUnit};

use crate::arrow::{BATCH_ROWS, io_error};

/// Bytes of frames after which a batch is written.
const BATCH_BYTES: usize = 8 << 20;

/// A packet as a row. The flow's columns are null for a packet that is not decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PacketRow<'a> {
    /// The time in nanoseconds since 1970.
    pub time_ns: u64,
    /// Bytes on the wire.
    pub wire_bytes: u32,
    /// Bytes captured.
    pub captured_bytes: u32,
    /// The number of the link type.
    pub link_type: u32,
    /// What the headers say.
    pub headers: Option<PacketHeaders<'a>>,
    /// The captured bytes, where they are wanted.
    pub frame: Option<&'a [u8]>,
}

/// What a packet's headers say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketHeaders<'a> {
    /// The sender's address.
    pub source: std::net::IpAddr,
    /// The receiver's address.
    pub destination: std::net::IpAddr,
    /// The ports of both, of a protocol that has ports.
    pub ports: Option<[u16; 2]>,
    /// The number of the IP protocol.
    pub protocol: u8,
    /// The TCP flags; 0 without a TCP header.
    pub tcp_flags: u16,
    /// Bytes of transport payload by the IP length.
    pub payload_bytes: u32,
    /// The bytes of the flow's key, which are those of a record of the same flow in a part.
    pub flow_key: &'a [u8],
}

/// The columns, in the order in which they are written.
#[derive(Default)]
struct Columns {
    numbers: [UInt32Builder; 8],
    source: StringBuilder,
    destination: StringBuilder,
    flow_key: BinaryBuilder,
    frame: BinaryBuilder,
}

/// The names of the numbers.
const NUMBERS: [&str; 8] = [
    "wire_bytes", "captured_bytes", "link_type", "source_port", "destination_port", "protocol",
    "tcp_flags", "payload_bytes",
];

/// Writes packets as a stream of Arrow, with the columns of [`PacketRow`] and [`PacketHeaders`].
///
/// # Examples
///
/// ```
/// use flowloom_export::{ArrowPacketWriter, PacketRow};
///
/// let mut stream = Vec::new();
/// let mut writer = ArrowPacketWriter::new(&mut stream)?;
/// let time_ns = 1_700_000_000_000_000_000;
/// writer.write(&PacketRow { time_ns, wire_bytes: 60, ..PacketRow::default() })?;
/// writer.finish()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ArrowPacketWriter<W: Write> {
    out: StreamWriter<W>,
    schema: Arc<Schema>,
    time: TimestampNanosecondBuilder,
    columns: Columns,
    rows: usize,
    bytes: usize,
}

impl<W: Write> std::fmt::Debug for ArrowPacketWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArrowPacketWriter").field("rows", &self.rows).finish_non_exhaustive()
    }
}

impl<W: Write> ArrowPacketWriter<W> {
    /// Returns a writer.
    ///
    /// # Errors
    ///
    /// What `out` says to the schema, which is written at once.
    pub fn new(out: W) -> io::Result<Self> {
        let time = ("time", DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())));
        let numbers = NUMBERS.map(|name| (name, DataType::UInt32));
        let texts = [("source", DataType::Utf8), ("destination", DataType::Utf8)];
        let bytes = [("flow_key", DataType::Binary), ("frame", DataType::Binary)];
        let all = [time].into_iter().chain(numbers).chain(texts).chain(bytes);
        let fields: Vec<Field> = all.map(|(name, kind)| Field::new(name, kind, true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let out = StreamWriter::try_new(out, &schema).map_err(io_error)?;
        let time = TimestampNanosecondBuilder::new().with_timezone("UTC");
        Ok(Self { out, schema, time, columns: Columns::default(), rows: 0, bytes: 0 })
    }

    /// Writes a packet.
    ///
    /// # Errors
    ///
    /// What the stream says.
    pub fn write(&mut self, row: &PacketRow<'_>) -> io::Result<()> {
        let headers = row.headers.as_ref();
        let port = |side: usize| headers.and_then(|headers| headers.ports).map(|ports| ports[side].into());
        self.time.append_option(i64::try_from(row.time_ns).ok());
        let values = [
            Some(row.wire_bytes),
            Some(row.captured_bytes),
            Some(row.link_type),
            port(0),
            port(1),
            headers.map(|headers| headers.protocol.into()),
            headers.map(|headers| headers.tcp_flags.into()),
            headers.map(|headers| headers.payload_bytes),
        ];
        let columns = &mut self.columns;
        for (column, value) in columns.numbers.iter_mut().zip(values) {
            column.append_option(value);
        }
        columns.source.append_option(headers.map(|headers| headers.source.to_string()));
        columns.destination.append_option(headers.map(|headers| headers.destination.to_string()));
        columns.flow_key.append_option(headers.map(|headers| headers.flow_key));
        columns.frame.append_option(row.frame);
        self.rows += 1;
        self.bytes += row.frame.map_or(0, <[u8]>::len);
        if self.rows == BATCH_ROWS || self.bytes >= BATCH_BYTES { self.close_batch() } else { Ok(()) }
    }

    fn close_batch(&mut self) -> io::Result<()> {
        self.bytes = 0;
        if std::mem::take(&mut self.rows) == 0 {
            return Ok(());
        }
        let Columns { numbers, source, destination, flow_key, frame } = &mut self.columns;
        let mut arrays: Vec<ArrayRef> = vec![ArrayBuilder::finish(&mut self.time)];
        arrays.extend(numbers.iter_mut().map(ArrayBuilder::finish));
        arrays.extend([ArrayBuilder::finish(source), ArrayBuilder::finish(destination)]);
        arrays.extend([ArrayBuilder::finish(flow_key), ArrayBuilder::finish(frame)]);
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(io_error)?;
        self.out.write(&batch).map_err(io_error)
    }

    /// Writes what waits, and the end of the stream.
    ///
    /// # Errors
    ///
    /// What the stream says.
    pub fn finish(&mut self) -> io::Result<()> {
        self.close_batch()?;
        self.out.finish().map_err(io_error)
    }
}
