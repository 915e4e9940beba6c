//! Apache Parquet.
//!
//! ```text
//!  PAR1 | row group 0 | row group 1 | … | rows that wait for a full group | footer
//!                                         └──── written again with each flush ───┘
//! ```
//!
//! A reader needs the footer, which comes last. Each flush therefore writes the pending rows as a
//! small row group followed by a footer, and the next flush overwrites both. The file is readable
//! at any time, even after the process was killed, and has few row groups regardless of the number
//! of flushes.
//!
//! Numbers are differences of few bits (`DELTA_BINARY_PACKED`), which costs less than a dictionary
//! and suits times and counts. Text has a dictionary. The records of a group are stored by column
//! from the start, in the form that the encoder takes.

#![expect(
    clippy::cast_possible_wrap,
    reason = "Parquet keeps unsigned numbers in signed ones, and no position in a file reaches 2^63"
)]

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::net::IpAddr;
use std::sync::Arc;

use flowloom_record::{Column, Kind, Row, SchemaColumn, Value};
use parquet::basic::{
    Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel,
};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaDataBuilder, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, SchemaDescriptor, Type};

use crate::RecordWriter;

/// Maximum number of rows in a group.
const GROUP_ROWS: usize = 128 << 10;
/// A group with more bytes in memory is full, as with many additional fields. They are counted
/// once in a while.
const GROUP_BYTES: usize = 48 << 20;
const COUNTED_ROWS: usize = 1 << 10;
const MAGIC: &[u8; 4] = b"PAR1";
/// The metadata key and value that identify the meaning of the columns: see `docs/records.md`.
const VERSION: (&str, &str) = ("flowloom.records", "1");

/// The output of a Parquet writer.
pub trait ParquetFile: Write + Send {
    /// Discards the data after `position`, where writing continues. Returns `false` if that is
    /// impossible, as with a pipe; the file is then readable only when it is complete.
    ///
    /// # Errors
    ///
    /// Returns the error of the file.
    fn rewind(&mut self, position: u64) -> io::Result<bool>;
}

impl ParquetFile for File {
    fn rewind(&mut self, position: u64) -> io::Result<bool> {
        if !self.metadata()?.is_file() {
            return Ok(false);
        }
        self.set_len(position)?;
        self.seek(SeekFrom::Start(position))?;
        Ok(true)
    }
}

/// How a column is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    /// Text in UTF-8.
    Text,
    /// Nanoseconds since 1970, UTC.
    Time,
    /// An unsigned 64-bit number.
    Wide,
    /// An unsigned 32-bit number.
    Narrow,
    /// A number with a fraction.
    Real,
}

impl Stored {
    fn for_kind(kind: Kind) -> Self {
        match kind {
            Kind::Time => Self::Time,
            Kind::Packets | Kind::Bytes | Kind::Duration | Kind::Digest => Self::Wide,
            Kind::Real => Self::Real,
            Kind::Port | Kind::Protocol | Kind::Number | Kind::Bits => Self::Narrow,
            Kind::Address | Kind::Word(_) | Kind::Text => Self::Text,
        }
    }

    fn column(self, name: &str) -> Result<Type, ParquetError> {
        let unsigned = |bit_width| LogicalType::integer(bit_width, false);
        let (physical, logical) = match self {
            Self::Text => (Physical::BYTE_ARRAY, LogicalType::String),
            Self::Time => (Physical::INT64, LogicalType::timestamp(true, TimeUnit::NANOS)),
            Self::Wide => (Physical::INT64, unsigned(64)),
            Self::Narrow => (Physical::INT32, unsigned(32)),
            Self::Real => {
                let builder = Type::primitive_type_builder(name, Physical::DOUBLE);
                return builder.with_repetition(Repetition::OPTIONAL).build();
            }
        };
        Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(Some(logical))
            .build()
    }
}

/// The values of a column in the rows that wait for a full group.
#[derive(Debug)]
struct Pending {
    values: Values,
    /// 1 for a value and 0 for a missing one.
    levels: Vec<i16>,
}

#[derive(Debug)]
enum Values {
    /// One value after the other, and where each ends.
    Text {
        bytes: Vec<u8>,
        ends: Vec<usize>,
    },
    /// Signed, until 2262. Later times are missing.
    Time(Vec<i64>),
    Wide(Vec<i64>),
    Narrow(Vec<i32>),
    Real(Vec<f64>),
}

impl Pending {
    fn empty(stored: Stored) -> Self {
        let values = match stored {
            Stored::Text => Values::Text { bytes: Vec::new(), ends: Vec::new() },
            Stored::Time => Values::Time(Vec::new()),
            Stored::Wide => Values::Wide(Vec::new()),
            Stored::Narrow => Values::Narrow(Vec::new()),
            Stored::Real => Values::Real(Vec::new()),
        };
        Self { values, levels: Vec::new() }
    }

    fn push(&mut self, value: &Value) {
        match value {
            Value::Number(number) | Value::Bits(number) => self.push_number(*number),
            Value::Word(word) => self.push_text(|bytes| bytes.extend_from_slice(word.as_bytes())),
            Value::Text(text) => self.push_text(|bytes| bytes.extend_from_slice(text.as_bytes())),
            Value::Address(address) => self.push_text(|bytes| put_address(bytes, *address)),
            Value::None => self.levels.push(0),
            Value::Real(bits) => self.push_real(f64::from_bits(*bits)),
            text => self.push_text(|bytes| put(bytes, text)),
        }
    }

    fn push_number(&mut self, number: u64) {
        match &mut self.values {
            Values::Time(times) => {
                let Ok(time) = i64::try_from(number) else { return self.levels.push(0) };
                times.push(time);
            }
            Values::Wide(numbers) => numbers.push(number as i64),
            Values::Narrow(numbers) => {
                let Ok(number) = u32::try_from(number) else { return self.levels.push(0) };
                numbers.push(number as i32);
            }
            Values::Real(_) => return self.levels.push(0),
            Values::Text { bytes, ends } => {
                put(bytes, &number);
                ends.push(bytes.len());
            }
        }
        self.levels.push(1);
    }

    /// Adds a number with a fraction, which only its own columns and texts hold.
    fn push_real(&mut self, number: f64) {
        match &mut self.values {
            Values::Real(numbers) => numbers.push(number),
            Values::Text { .. } => return self.push_text(|bytes| put(bytes, &number)),
            _ => return self.levels.push(0),
        }
        self.levels.push(1);
    }

    /// Adds a text. A column of numbers has no value for it.
    fn push_text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let Values::Text { bytes, ends } = &mut self.values else { return self.levels.push(0) };
        write(bytes);
        ends.push(bytes.len());
        self.levels.push(1);
    }

    /// Returns the bytes that the values take.
    fn bytes(&self) -> usize {
        let values = match &self.values {
            Values::Text { bytes, ends } => bytes.len() + size_of_val(&ends[..]),
            Values::Time(numbers) | Values::Wide(numbers) => size_of_val(&numbers[..]),
            Values::Narrow(numbers) => size_of_val(&numbers[..]),
            Values::Real(numbers) => size_of_val(&numbers[..]),
        };
        values + size_of_val(&self.levels[..])
    }

    fn clear(&mut self) {
        self.levels.clear();
        match &mut self.values {
            Values::Text { bytes, ends } => {
                bytes.clear();
                ends.clear();
            }
            Values::Time(numbers) | Values::Wide(numbers) => numbers.clear(),
            Values::Narrow(numbers) => numbers.clear(),
            Values::Real(numbers) => numbers.clear(),
        }
    }

    fn write<W: Write + Send>(
        &self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        let Some(mut writer) = group.next_column()? else {
            return Err(ParquetError::General(String::from("the schema has fewer columns")));
        };
        let levels = Some(&self.levels[..]);
        match &self.values {
            Values::Text { bytes, ends } => {
                // The texts share one allocation.
                let all = ByteArray::from(bytes.clone());
                let starts = std::iter::once(0).chain(ends.iter().copied());
                let texts: Vec<ByteArray> =
                    starts.zip(ends).map(|(start, end)| all.slice(start, end - start)).collect();
                writer.typed::<ByteArrayType>().write_batch(&texts, levels, None)?;
            }
            Values::Time(numbers) | Values::Wide(numbers) => {
                writer.typed::<Int64Type>().write_batch(numbers, levels, None)?;
            }
            Values::Narrow(numbers) => {
                writer.typed::<Int32Type>().write_batch(numbers, levels, None)?;
            }
            Values::Real(numbers) => {
                writer.typed::<DoubleType>().write_batch(numbers, levels, None)?;
            }
        }
        writer.close()
    }
}

fn put(bytes: &mut Vec<u8>, value: &dyn std::fmt::Display) {
    // Writing to memory does not fail.
    let _ = write!(bytes, "{value}");
}

/// Writes an address as `Display` does. IPv4, which is the most frequent, skips the formatter.
fn put_address(bytes: &mut Vec<u8>, address: IpAddr) {
    let IpAddr::V4(address) = address else { return put(bytes, &address) };
    for (at, byte) in address.octets().into_iter().enumerate() {
        if at > 0 {
            bytes.push(b'.');
        }
        let digits = [byte / 100, byte / 10 % 10, byte % 10].map(|digit| b'0' + digit);
        bytes.extend_from_slice(&digits[usize::from(byte < 100) + usize::from(byte < 10)..]);
    }
}

/// Writes records as Parquet, compressed with zstd: each column has the type of its kind, and
/// missing values are nulls.
pub struct ParquetWriter<W> {
    out: W,
    /// The positions of the values, and the values.
    columns: Vec<(usize, Pending)>,
    schema: Arc<Type>,
    properties: Arc<WriterProperties>,
    /// Number of rows that are not in a full group yet.
    rows: usize,
    groups: Vec<RowGroupMetaData>,
    /// The position at which the pending rows will be written.
    position: u64,
    is_begun: bool,
    can_rewind: bool,
    /// Some rows are not covered by a footer.
    is_stale: bool,
}

impl<W> std::fmt::Debug for ParquetWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { columns, groups, rows, .. } = self;
        f.debug_struct("ParquetWriter")
            .field("columns", &columns.len())
            .field("groups", &groups.len())
            .field("rows", rows)
            .finish_non_exhaustive()
    }
}

fn io_error(error: ParquetError) -> io::Error {
    io::Error::other(error)
}

impl<W: ParquetFile> ParquetWriter<W> {
    /// Returns a writer of these columns.
    ///
    /// # Errors
    ///
    /// Returns an error if two columns have the same name.
    pub fn new(out: W, columns: &[SchemaColumn]) -> io::Result<Self> {
        let level = ZstdLevel::try_new(1).map_err(io_error)?;
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            // The compressor allocates its tables for each page.
            .set_data_page_row_count_limit(GROUP_ROWS)
            .set_offset_index_disabled(true);
        let mut types = Vec::new();
        for SchemaColumn { column: Column { name, kind, .. }, .. } in columns {
            let (name, stored) = (*name, Stored::for_kind(*kind));
            types.push(Arc::new(stored.column(name).map_err(io_error)?));
            let path = ColumnPath::from(name);
            if stored == Stored::Real {
                properties = properties.set_column_dictionary_enabled(path, false);
            } else if stored != Stored::Text {
                properties = properties
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
            } else if matches!(kind, Kind::Word(_)) {
                properties = properties.set_column_statistics_enabled(path, EnabledStatistics::None);
            }
        }
        let schema = Type::group_type_builder("flow").with_fields(types).build().map_err(io_error)?;
        let pending =
            |found: &SchemaColumn| (found.index, Pending::empty(Stored::for_kind(found.column.kind)));
        let columns = columns.iter().map(pending).collect();
        Ok(Self {
            out,
            columns,
            schema: Arc::new(schema),
            properties: Arc::new(properties.build()),
            rows: 0,
            groups: Vec::new(),
            position: MAGIC.len() as u64,
            is_begun: false,
            can_rewind: true,
            is_stale: true,
        })
    }

    fn begin(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_begun, true) {
            self.can_rewind = self.out.rewind(0)?;
            self.out.write_all(MAGIC)?;
        }
        Ok(())
    }

    /// Returns the pending rows as the bytes of a row group at its future position, with its
    /// metadata for the footer.
    fn group(&self) -> Result<(Vec<u8>, RowGroupMetaData), ParquetError> {
        let mut writer =
            SerializedFileWriter::new(Vec::new(), Arc::clone(&self.schema), Arc::clone(&self.properties))?;
        let mut group = writer.next_row_group()?;
        for (_, column) in &self.columns {
            column.write(&mut group)?;
        }
        let group = group.close()?;
        let end = writer.bytes_written();
        let mut bytes = writer.into_inner()?;
        bytes.truncate(end);
        bytes.drain(..MAGIC.len());
        // As if the group were at the start of a file.
        let moved = self.position as i64 - MAGIC.len() as i64;
        let columns = group.columns().iter().map(|chunk| {
            let (data, dictionary) = (chunk.data_page_offset(), chunk.dictionary_page_offset());
            let moved_chunk = chunk.clone().into_builder().set_data_page_offset(data + moved);
            moved_chunk.set_dictionary_page_offset(dictionary.map(|at| at + moved)).build()
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let builder = (*group).clone().into_builder().set_column_metadata(columns);
        let ordinal = i32::try_from(self.groups.len()).unwrap_or(i32::MAX);
        let group = builder.set_ordinal(ordinal).set_file_offset(self.position as i64).build()?;
        Ok((bytes, group))
    }

    fn footer(&self, last: Option<RowGroupMetaData>) -> Result<Vec<u8>, ParquetError> {
        let groups: Vec<_> = self.groups.iter().cloned().chain(last).collect();
        let rows = groups.iter().map(RowGroupMetaData::num_rows).sum();
        let (key, value) = VERSION;
        let about = vec![KeyValue::new(key.to_owned(), value.to_owned())];
        let schema = Arc::new(SchemaDescriptor::new(Arc::clone(&self.schema)));
        let created_by = Some(format!("flowloom {}", env!("CARGO_PKG_VERSION")));
        let file = FileMetaData::new(2, rows, created_by, Some(about), schema, None);
        let metadata = ParquetMetaDataBuilder::new(file).set_row_groups(groups).build();
        let mut bytes = Vec::new();
        ParquetMetaDataWriter::new(&mut bytes, &metadata).finish()?;
        Ok(bytes)
    }

    /// Returns whether the pending rows take as many bytes as a group may.
    #[cold]
    fn is_large(&self) -> bool {
        self.columns.iter().map(|(_, column)| column.bytes()).sum::<usize>() >= GROUP_BYTES
    }

    /// Writes the pending rows as a permanent row group.
    fn close_group(&mut self) -> io::Result<()> {
        self.begin()?;
        let (bytes, group) = self.group().map_err(io_error)?;
        if self.can_rewind {
            self.out.rewind(self.position)?;
        }
        self.out.write_all(&bytes)?;
        self.position += bytes.len() as u64;
        self.groups.push(group);
        self.rows = 0;
        self.columns.iter_mut().for_each(|(_, column)| column.clear());
        Ok(())
    }
}

impl<W: ParquetFile> RecordWriter for ParquetWriter<W> {
    fn write(&mut self, row: &Row) -> io::Result<()> {
        self.rows += 1;
        for (index, values) in &mut self.columns {
            values.push(row.value(*index));
        }
        self.is_stale = true;
        let is_full =
            self.rows == GROUP_ROWS || (self.rows.is_multiple_of(COUNTED_ROWS) && self.is_large());
        if is_full { self.close_group() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.begin()?;
        if !self.can_rewind || !std::mem::take(&mut self.is_stale) {
            return self.out.flush();
        }
        let waiting = if self.rows == 0 { None } else { Some(self.group().map_err(io_error)?) };
        let (mut bytes, last) = waiting.map_or((Vec::new(), None), |(bytes, group)| (bytes, Some(group)));
        bytes.extend(self.footer(last).map_err(io_error)?);
        self.out.rewind(self.position)?;
        self.out.write_all(&bytes)?;
        self.out.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.begin()?;
        if self.can_rewind && !self.is_stale {
            return self.out.flush(); // The last flush wrote all rows and their footer.
        }
        if self.rows > 0 {
            self.close_group()?;
        }
        let footer = self.footer(None).map_err(io_error)?;
        if self.can_rewind {
            self.out.rewind(self.position)?;
        }
        self.out.write_all(&footer)?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_they_are_displayed() {
        for byte in 0..=u8::MAX {
            let address = IpAddr::from([byte, 255 - byte, 0, byte / 7]);
            let mut bytes = Vec::new();
            put_address(&mut bytes, address);
            assert_eq!(String::from_utf8(bytes).unwrap(), address.to_string());
        }
        let mut bytes = Vec::new();
        put_address(&mut bytes, IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1]));
        assert_eq!(bytes, b"::1");
    }
}
