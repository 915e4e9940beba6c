//! Apache Arrow: the streaming form of its IPC format.
//!
//! ```text
//!  schema | batch of at most 16,384 rows | batch | … | end of stream
//! ```
//!
//! Columns have the names and the types that they have in Parquet. A stream of a *part* of an
//! input has four further columns, and three kinds of rows, whose other columns are null:
//!
//! | row | columns |
//! | --- | --- |
//! | a record | those of records, `flow_key`, and `timed_out`: whether an idle timeout ended it |
//! | a flow that may continue after the part | `flow_key`, `flow_state` |
//! | what the part is: the last one | `about` |

use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_array::builder::{
    ArrayBuilder, BinaryBuilder, BooleanBuilder, Float64Builder, StringBuilder, TimestampNanosecondBuilder,
    UInt32Builder, UInt64Builder,
};
use arrow_array::cast::AsArray as _;
use arrow_array::types::Int32Type;
use arrow_array::{Array as _, ArrayRef, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaBuilder, TimeUnit};
use flowloom_record::{Kind, Row, SchemaColumn, Value};

use crate::RecordWriter;

/// Rows of a batch.
pub(crate) const BATCH_ROWS: usize = 16 << 10;
/// The key and the value by which a stream says what its columns mean: see `docs/records.md`.
const VERSION: (&str, &str) = ("flowloom.records", "1");
/// The columns of a part beside those of records.
const PART_COLUMNS: [(&str, DataType); 4] = [
    ("flow_key", DataType::Binary),
    ("flow_state", DataType::Binary),
    ("timed_out", DataType::Boolean),
    ("about", DataType::Utf8),
];

/// The values of a column that is being filled.
enum Builder {
    Text(StringBuilder),
    /// Nanoseconds since 1970, UTC.
    Time(TimestampNanosecondBuilder),
    Wide(UInt64Builder),
    Narrow(UInt32Builder),
    Real(Float64Builder),
}

impl Builder {
    /// Returns an empty column for values of a kind.
    fn for_kind(kind: Kind) -> Self {
        match kind {
            Kind::Time => Self::Time(TimestampNanosecondBuilder::new().with_timezone("UTC")),
            Kind::Packets | Kind::Bytes | Kind::Duration | Kind::Digest => Self::Wide(UInt64Builder::new()),
            Kind::Port | Kind::Protocol | Kind::Number | Kind::Bits => Self::Narrow(UInt32Builder::new()),
            Kind::Real => Self::Real(Float64Builder::new()),
            Kind::Address | Kind::Word(_) | Kind::Text => Self::Text(StringBuilder::new()),
        }
    }

    fn data_type(&self) -> DataType {
        match self {
            Self::Text(_) => DataType::Utf8,
            Self::Time(_) => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            Self::Wide(_) => DataType::UInt64,
            Self::Narrow(_) => DataType::UInt32,
            Self::Real(_) => DataType::Float64,
        }
    }

    fn push_number(&mut self, number: Option<u64>) {
        match self {
            Self::Text(column) => column.append_option(number.map(|number| number.to_string())),
            Self::Time(column) => {
                column.append_option(number.and_then(|number| i64::try_from(number).ok()));
            }
            Self::Wide(column) => column.append_option(number),
            // Its values are no whole numbers.
            Self::Real(column) => column.append_null(),
            Self::Narrow(column) => {
                column.append_option(number.and_then(|number| u32::try_from(number).ok()));
            }
        }
    }

    fn push_text(&mut self, text: &dyn std::fmt::Display) {
        match self {
            Self::Text(column) => {
                // Writing to a builder cannot fail.
                let _ = std::fmt::Write::write_fmt(column, format_args!("{text}"));
                column.append_value("");
            }
            other => other.push_number(None),
        }
    }

    fn push(&mut self, value: &Value) {
        match value {
            Value::Number(number) | Value::Bits(number) => self.push_number(Some(*number)),
            Value::None => self.push_number(None),
            Value::Real(bits) => match self {
                Self::Real(column) => column.append_value(f64::from_bits(*bits)),
                other => other.push_text(value),
            },
            text => self.push_text(text),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Text(column) => ArrayBuilder::finish(column),
            Self::Time(column) => ArrayBuilder::finish(column),
            Self::Wide(column) => ArrayBuilder::finish(column),
            Self::Narrow(column) => ArrayBuilder::finish(column),
            Self::Real(column) => ArrayBuilder::finish(column),
        }
    }
}

/// The columns of a part beside those of records.
#[derive(Default)]
struct PartBuilders {
    key: BinaryBuilder,
    state: BinaryBuilder,
    timed_out: BooleanBuilder,
    about: StringBuilder,
}

/// Writes records as a stream of Arrow: each column with the type that its kind has, missing
/// values as nulls.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::{AccountingRecord, EndedBy};
/// use flowloom_export::record::GroupSet;
/// use flowloom_export::{ArrowWriter, RecordWriter};
/// use flowloom_flow_key::FlowKey;
///
/// let mut stream = Vec::new();
/// let columns = AccountingRecord::schema().of_groups(GroupSet::SHOWN);
/// let mut writer = ArrowWriter::new(&mut stream, &columns)?;
/// let (key, _) = FlowKey::from_v4(0x0A00_0001, 0x0A00_0002, 40_000, 443, 6);
/// writer.write(&AccountingRecord::new(&key, &Default::default(), EndedBy::EndOfInput).row())?;
/// writer.finish()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ArrowWriter<W: Write> {
    out: StreamWriter<W>,
    /// The positions of the values, and the values.
    columns: Vec<(usize, Builder)>,
    part: Option<PartBuilders>,
    schema: Arc<Schema>,
    rows: usize,
}

impl<W: Write> std::fmt::Debug for ArrowWriter<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { columns, rows, .. } = self;
        f.debug_struct("ArrowWriter")
            .field("columns", &columns.len())
            .field("rows", rows)
            .finish_non_exhaustive()
    }
}

pub(crate) fn io_error(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        error => io::Error::other(error),
    }
}

impl<W: Write> ArrowWriter<W> {
    /// Returns a writer of these columns.
    ///
    /// # Errors
    ///
    /// What `out` says to the schema, which is written at once.
    pub fn new(out: W, columns: &[SchemaColumn]) -> io::Result<Self> {
        Self::begin(out, columns, None)
    }

    /// Returns a writer of a part: of these columns, and those of flows that go on beyond it.
    ///
    /// # Errors
    ///
    /// What `out` says to the schema, which is written at once.
    pub fn of_part(out: W, columns: &[SchemaColumn]) -> io::Result<Self> {
        Self::begin(out, columns, Some(PartBuilders::default()))
    }

    fn begin(out: W, columns: &[SchemaColumn], part: Option<PartBuilders>) -> io::Result<Self> {
        let field = |name: &str, data_type| Field::new(name, data_type, true);
        let names = columns.iter().map(|found| found.column.name);
        let columns: Vec<(usize, Builder)> =
            columns.iter().map(|found| (found.index, Builder::for_kind(found.column.kind))).collect();
        let all = names.zip(&columns).map(|(name, (_, builder))| field(name, builder.data_type()));
        let of_part = PART_COLUMNS.into_iter().filter(|_| part.is_some());
        let all: Vec<Field> = all.chain(of_part.map(|(name, data_type)| field(name, data_type))).collect();
        let (key, value) = VERSION;
        let mut schema = SchemaBuilder::from(Fields::from(all));
        schema.metadata_mut().insert(key.to_owned(), value.to_owned());
        let schema = Arc::new(schema.finish());
        let out = StreamWriter::try_new(out, &schema).map_err(io_error)?;
        Ok(Self { out, columns, part, schema, rows: 0 })
    }

    /// Writes a flow that goes on beyond the part.
    ///
    /// # Errors
    ///
    /// What the stream says; and where it is not that [of a part](Self::of_part).
    pub fn write_fragment(&mut self, key: &[u8], state: &[u8]) -> io::Result<()> {
        self.write_of_part(Some((key, state)), None)
    }

    /// Writes what the part is.
    ///
    /// # Errors
    ///
    /// As [`write_fragment`](Self::write_fragment).
    pub fn write_about(&mut self, about: &str) -> io::Result<()> {
        self.write_of_part(None, Some(about))
    }

    /// Writes a record of a part with the key of its flow, and whether an idle timeout has ended
    /// it: the end reason of a closed connection does not say so.
    ///
    /// # Errors
    ///
    /// As [`write_fragment`](Self::write_fragment).
    pub fn write_complete(&mut self, key: &[u8], row: &Row, timed_out: bool) -> io::Result<()> {
        self.push_row(row);
        self.count_record(Some((key, timed_out)))
    }

    fn push_row(&mut self, row: &Row) {
        for (index, values) in &mut self.columns {
            values.push(row.value(*index));
        }
    }

    fn count_record(&mut self, flow: Option<(&[u8], bool)>) -> io::Result<()> {
        if let Some(PartBuilders { key, state, timed_out, about }) = &mut self.part {
            key.append_option(flow.map(|(key, _)| key));
            state.append_null();
            timed_out.append_option(flow.map(|(_, timed_out)| timed_out));
            about.append_null();
        }
        self.count_row()
    }

    fn write_of_part(&mut self, fragment: Option<(&[u8], &[u8])>, about: Option<&str>) -> io::Result<()> {
        let Some(part) = &mut self.part else {
            let why = "the stream was begun without the columns of a part";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        };
        part.key.append_option(fragment.map(|(key, _)| key));
        part.state.append_option(fragment.map(|(_, state)| state));
        part.timed_out.append_null();
        part.about.append_option(about);
        self.columns.iter_mut().for_each(|(_, column)| column.push_number(None));
        self.count_row()
    }

    fn count_row(&mut self) -> io::Result<()> {
        self.rows += 1;
        if self.rows == BATCH_ROWS { self.close_batch() } else { Ok(()) }
    }

    fn close_batch(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.rows) == 0 {
            return Ok(());
        }
        let mut arrays: Vec<ArrayRef> =
            self.columns.iter_mut().map(|(_, column)| column.finish()).collect();
        if let Some(PartBuilders { key, state, timed_out, about }) = &mut self.part {
            let columns: [&mut dyn ArrayBuilder; 4] = [key, state, timed_out, about];
            arrays.extend(columns.map(ArrayBuilder::finish));
        }
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(io_error)?;
        self.out.write(&batch).map_err(io_error)
    }
}

impl<W: Write + Send> RecordWriter for ArrowWriter<W> {
    fn write(&mut self, row: &Row) -> io::Result<()> {
        self.push_row(row);
        self.count_record(None)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.close_batch()?;
        self.out.flush().map_err(io_error)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.close_batch()?;
        self.out.finish().and_then(|()| self.out.flush()).map_err(io_error)
    }
}

/// Reads the flows of a stream of fragments: of the columns `part` (signed 32 bits), `flow_key` and
/// `flow_state` (binary), in any place among others. Rows without a state are skipped.
///
/// `take` gets each one's part, key and state.
///
/// # Errors
///
/// The error in the stream, or the error that `take` returned.
pub fn read_fragments(
    stream: impl Read,
    mut take: impl FnMut(i32, &[u8], &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut batches = StreamReader::try_new(stream, None).map_err(io_error)?;
    // The reader panics on a damaged message whose buffers lie outside it. A later call would too,
    // so none follows.
    let mut next = || {
        catch_unwind(AssertUnwindSafe(|| batches.next()))
            .map_err(|_| invalid(String::from("the stream is damaged: a buffer lies outside its message")))
    };
    while let Some(batch) = next()? {
        let batch = batch.map_err(io_error)?;
        let column = |name: &str| {
            batch.column_by_name(name).ok_or_else(|| invalid(format!("the stream has no column {name}")))
        };
        let binary = |name: &str| {
            let column = column(name)?.as_binary_opt::<i32>();
            column.ok_or_else(|| invalid(format!("the column {name} is not binary")))
        };
        let (keys, states) = (binary("flow_key")?, binary("flow_state")?);
        let parts = column("part")?.as_primitive_opt::<Int32Type>();
        let parts = parts.ok_or_else(|| invalid(String::from("the column part is not int32")))?;
        for row in (0..batch.num_rows()).filter(|row| states.is_valid(*row)) {
            if parts.is_null(row) || keys.is_null(row) {
                return Err(invalid(String::from("a flow has a state, and no part or no key")));
            }
            take(parts.value(row), keys.value(row), states.value(row))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use flowloom_apps::accounting::{Accounted, AccountingRecord, EndedBy};
    use flowloom_flow_key::FlowKey;
    use flowloom_record::GroupSet;
    use proptest::prelude::*;

    use super::*;

    fn part(fragments: i32) -> Vec<u8> {
        let mut stream = Vec::new();
        let mut writer =
            ArrowWriter::of_part(&mut stream, &AccountingRecord::schema().of_groups(GroupSet::SHOWN))
                .unwrap();
        let key = FlowKey::from_v4(1, 2, 3, 4, 6).0;
        let record = AccountingRecord::new(&key, &Accounted::default(), EndedBy::IdleTimeout).row();
        writer.write_complete(b"key", &record, true).unwrap();
        for at in 0..fragments {
            writer.write_fragment(&at.to_le_bytes(), b"state").unwrap();
        }
        writer.write_about("{}").unwrap();
        writer.finish().unwrap();
        drop(writer);
        stream
    }

    /// Adds the column that says which part the rows are of.
    fn numbered(stream: &[u8], part: i32) -> Vec<u8> {
        let mut out = Vec::new();
        for batch in StreamReader::try_new(stream, None).unwrap() {
            let batch = batch.unwrap();
            let number: ArrayRef = Arc::new(arrow_array::Int32Array::from(vec![part; batch.num_rows()]));
            let columns =
                ["flow_key", "flow_state"].map(|name| (name, batch.column_by_name(name).unwrap().clone()));
            let batch = RecordBatch::try_from_iter(columns.into_iter().chain([("part", number)])).unwrap();
            let mut writer = StreamWriter::try_new(&mut out, &batch.schema()).unwrap();
            writer.write(&batch).unwrap();
            writer.finish().unwrap();
        }
        out
    }

    #[test]
    fn arrow_columns_have_the_units_and_types_of_their_kinds() {
        let stream = part(2);
        let batches: Vec<_> =
            StreamReader::try_new(&stream[..], None).unwrap().collect::<Result<_, _>>().unwrap();
        let [batch] = &batches[..] else { panic!("{} batches", batches.len()) };
        let schema = batch.schema();
        assert_eq!(schema.metadata().get(VERSION.0).map(String::as_str), Some(VERSION.1));
        let kind = |name: &str| schema.field_with_name(name).unwrap().data_type().clone();
        assert_eq!(kind("start"), DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())));
        assert_eq!(
            [kind("packets"), kind("protocol"), kind("source")],
            [DataType::UInt64, DataType::UInt32, DataType::Utf8]
        );
        let valid = |name: &str| -> Vec<bool> {
            let column = batch.column_by_name(name).unwrap();
            (0..batch.num_rows()).map(|row| column.is_valid(row)).collect()
        };
        assert_eq!(valid("packets"), [true, false, false, false]);
        assert_eq!(valid("flow_key"), [true, true, true, false]);
        assert_eq!(valid("flow_state"), [false, true, true, false]);
        assert_eq!(valid("timed_out"), [true, false, false, false]);
        assert!(batch.column_by_name("timed_out").unwrap().as_boolean().value(0));
        assert_eq!(valid("about"), [false, false, false, true]);
    }

    #[test]
    fn fragments_are_read_and_missing_columns_refused() {
        let mut keys = Vec::new();
        read_fragments(&numbered(&part(3), 7)[..], |part, key, state| {
            keys.push((part, key.to_vec(), state.to_vec()));
            Ok(())
        })
        .unwrap();
        let expected = |at: i32| (7, at.to_le_bytes().to_vec(), b"state".to_vec());
        assert_eq!(keys, [expected(0), expected(1), expected(2)]);
        let error = read_fragments(&part(3)[..], |_, _, _| Ok(())).unwrap_err();
        assert!(error.to_string().contains("no column part"), "{error}");
        let mut plain = ArrowWriter::new(Vec::new(), &[]).unwrap();
        assert_eq!(plain.write_fragment(b"", b"").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    proptest! {
        #[test]
        fn damaged_stream_never_panics(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            length in any::<prop::sample::Index>(),
            is_cut in any::<bool>(),
        ) {
            let mut stream = numbered(&part(3), 1);
            for (at, byte) in changes {
                *at.get_mut(&mut stream) = byte;
            }
            if is_cut {
                stream.truncate(length.index(stream.len()));
            }
            // It returns.
            let _ = read_fragments(&stream[..], |_, _, _| Ok(()));
        }
    }
}
