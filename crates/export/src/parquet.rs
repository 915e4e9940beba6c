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

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "Parquet keeps unsigned numbers in signed ones, and no position in a file reaches 2^63"
)]

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::sync::Arc;

use flowloom_apps::accounting::fields::{FieldColumn, FieldValue};
use flowloom_apps::accounting::{AccountingRecord, RecordColumn, RecordValue};
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    FileMetaData, KeyValue, ParquetMetaDataBuilder, ParquetMetaDataWriter, RowGroupMetaData,
};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{SchemaDescriptor, Type};

use crate::RecordWriter;

/// Number of rows in a group.
const GROUP_ROWS: usize = 128 << 10;
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
}

impl Stored {
    fn of(unit: &str) -> Self {
        match unit {
            "ns since 1970" => Self::Time,
            "packets" | "bytes" | "ns" => Self::Wide,
            "number" | "bits" => Self::Narrow,
            _ => Self::Text,
        }
    }

    fn column(self, name: &str) -> Result<Type, ParquetError> {
        let unsigned = |bit_width| LogicalType::integer(bit_width, false);
        let (physical, logical) = match self {
            Self::Text => (Physical::BYTE_ARRAY, LogicalType::String),
            Self::Time => (Physical::INT64, LogicalType::timestamp(true, TimeUnit::NANOS)),
            Self::Wide => (Physical::INT64, unsigned(64)),
            Self::Narrow => (Physical::INT32, unsigned(32)),
        };
        Type::primitive_type_builder(name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(Some(logical))
            .build()
    }
}

/// Writes records as Parquet, compressed with zstd: each column has the type of its unit, and
/// missing values are nulls.
pub struct ParquetWriter<W> {
    out: W,
    columns: Vec<(&'static RecordColumn, Stored)>,
    fields: Vec<(FieldColumn, Stored)>,
    schema: Arc<Type>,
    properties: Arc<WriterProperties>,
    /// Rows that are not in a full group yet.
    rows: Vec<AccountingRecord>,
    /// Their additional fields, row by row.
    values: Vec<FieldValue>,
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
            .field("rows", &rows.len())
            .finish_non_exhaustive()
    }
}

fn other(error: ParquetError) -> io::Error {
    io::Error::other(error)
}

impl<W: ParquetFile> ParquetWriter<W> {
    /// Returns a writer of these columns.
    ///
    /// # Errors
    ///
    /// Returns an error if two columns have the same name.
    pub fn new(out: W, columns: Vec<&'static RecordColumn>) -> io::Result<Self> {
        Self::with_fields(out, columns, Vec::new())
    }

    /// Returns a writer of these columns and additional fields, for
    /// [`write_with`](RecordWriter::write_with).
    ///
    /// # Errors
    ///
    /// Returns an error if two columns have the same name.
    pub fn with_fields(
        out: W,
        columns: Vec<&'static RecordColumn>,
        fields: Vec<FieldColumn>,
    ) -> io::Result<Self> {
        let columns: Vec<_> = columns.into_iter().map(|column| (column, Stored::of(column.unit))).collect();
        let fields: Vec<_> = fields.into_iter().map(|column| (column, Stored::of(column.unit))).collect();
        let names = columns.iter().map(|(column, stored)| (column.name, stored));
        let names = names.chain(fields.iter().map(|(column, stored)| (column.name, stored)));
        let types = names.map(|(name, stored)| stored.column(name).map(Arc::new));
        let types = types.collect::<Result<Vec<_>, _>>().map_err(other)?;
        let schema = Type::group_type_builder("flow").with_fields(types).build().map_err(other)?;
        let level = ZstdLevel::try_new(1).map_err(other)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .build();
        Ok(Self {
            out,
            columns,
            fields,
            schema: Arc::new(schema),
            properties: Arc::new(properties),
            rows: Vec::new(),
            values: Vec::new(),
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
        for (column, stored) in &self.columns {
            write_column(&mut group, *stored, self.rows.iter().map(|row| Cell::of(column.value(row))))?;
        }
        for (at, (_, stored)) in self.fields.iter().enumerate() {
            let values = self.values.iter().skip(at).step_by(self.fields.len());
            write_column(&mut group, *stored, values.map(Cell::of_field))?;
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

    /// Writes the pending rows as a permanent row group.
    fn close_group(&mut self) -> io::Result<()> {
        self.begin()?;
        let (bytes, group) = self.group().map_err(other)?;
        if self.can_rewind {
            self.out.rewind(self.position)?;
        }
        self.out.write_all(&bytes)?;
        self.position += bytes.len() as u64;
        self.groups.push(group);
        self.rows.clear();
        self.values.clear();
        Ok(())
    }
}

impl<W: ParquetFile> RecordWriter for ParquetWriter<W> {
    fn write(&mut self, record: &AccountingRecord) -> io::Result<()> {
        self.write_with(record, &[])
    }

    fn write_with(&mut self, record: &AccountingRecord, fields: &[FieldValue]) -> io::Result<()> {
        self.rows.push(*record);
        let missing = std::iter::repeat(&FieldValue::None);
        self.values.extend(fields.iter().chain(missing).take(self.fields.len()).cloned());
        self.is_stale = true;
        if self.rows.len() == GROUP_ROWS { self.close_group() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.begin()?;
        if !self.can_rewind || !std::mem::take(&mut self.is_stale) {
            return self.out.flush();
        }
        let waiting = if self.rows.is_empty() { None } else { Some(self.group().map_err(other)?) };
        let (mut bytes, last) = waiting.map_or((Vec::new(), None), |(bytes, group)| (bytes, Some(group)));
        bytes.extend(self.footer(last).map_err(other)?);
        self.out.rewind(self.position)?;
        self.out.write_all(&bytes)?;
        self.out.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        if !self.rows.is_empty() {
            self.close_group()?;
        }
        self.begin()?;
        let footer = self.footer(None).map_err(other)?;
        if self.can_rewind {
            self.out.rewind(self.position)?;
        }
        self.out.write_all(&footer)?;
        self.out.flush()
    }
}

/// A value in its stored form.
enum Cell {
    Number(u64),
    Text(ByteArray),
    None,
}

impl Cell {
    fn of(value: RecordValue) -> Self {
        match value {
            RecordValue::Number(number) | RecordValue::Bits(number) => Self::Number(number),
            RecordValue::None => Self::None,
            text => Self::Text(ByteArray::from(text.to_string().into_bytes())),
        }
    }

    fn of_field(value: &FieldValue) -> Self {
        match value {
            FieldValue::Number(number) => Self::Number(*number),
            FieldValue::None => Self::None,
            text => Self::Text(ByteArray::from(text.to_string().into_bytes())),
        }
    }

    fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(_) | Self::None => None,
        }
    }
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    stored: Stored,
    cells: impl Iterator<Item = Cell>,
) -> Result<(), ParquetError> {
    let Some(mut writer) = group.next_column()? else {
        return Err(ParquetError::General(String::from("the schema has fewer columns")));
    };
    let cells: Vec<Cell> = cells.collect();
    let levels: Vec<i16> = cells.iter().map(|cell| i16::from(!matches!(cell, Cell::None))).collect();
    match stored {
        Stored::Text => {
            let texts = cells.into_iter().filter_map(|cell| match cell {
                Cell::Text(text) => Some(text),
                Cell::Number(number) => Some(ByteArray::from(number.to_string().into_bytes())),
                Cell::None => None,
            });
            let texts: Vec<ByteArray> = texts.collect();
            writer.typed::<ByteArrayType>().write_batch(&texts, Some(&levels), None)?;
        }
        Stored::Time | Stored::Wide => {
            let numbers: Vec<i64> = cells.iter().filter_map(Cell::number).map(|n| n as i64).collect();
            writer.typed::<Int64Type>().write_batch(&numbers, Some(&levels), None)?;
        }
        Stored::Narrow => {
            let numbers: Vec<i32> = cells.iter().filter_map(Cell::number).map(|n| n as i32).collect();
            writer.typed::<Int32Type>().write_batch(&numbers, Some(&levels), None)?;
        }
    }
    writer.close()
}
