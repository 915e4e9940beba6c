//! Records of flows as CSV, JSON lines or IPFIX, written as they come.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flowloom::apps::accounting::ipfix::IpfixWriter;
use flowloom::apps::accounting::{Accounted, AccountingRecord, RecordColumn, RecordValue};
use flowloom::engine::{FlowRecord, FlowState, FlowValue, RecordSink, SinkError};
use flowloom::flow_key::FlowKey;

use crate::output::OutputFile;

/// The columns that every application's records begin with.
const KEY_COLUMNS: [&str; 7] =
    ["low_address", "low_port", "high_address", "high_port", "protocol", "zone", "pass"];

/// What a file of records may be, by the ending of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Csv,
    JsonLines,
    Ipfix,
}

impl Format {
    /// Returns the format that a file's name asks for: CSV where it has no ending.
    ///
    /// # Errors
    ///
    /// What is wrong with an ending that is not known.
    pub(crate) fn of(path: &Path) -> Result<Self, String> {
        let Some(ending) = path.extension() else { return Ok(Self::Csv) };
        match ending.to_ascii_lowercase().to_str() {
            Some("csv") => Ok(Self::Csv),
            Some("jsonl" | "json") => Ok(Self::JsonLines),
            Some("ipfix") => Ok(Self::Ipfix),
            _ => Err(format!(
                "--flows {}: .{} is not an ending that says what to write\n  CSV for .csv or none, JSON lines for .jsonl or .json, IPFIX for .ipfix",
                path.display(),
                ending.display()
            )),
        }
    }
}

/// Returns the accounting record in a flow's state, where it has one.
pub(crate) type AccountOf<F> = fn(&F) -> Option<&Accounted>;

/// Writes records to a file.
pub(crate) struct FlowWriter<F> {
    out: Out,
    /// Of an application that keeps account.
    account: Option<AccountOf<F>>,
    values: Vec<FlowValue>,
}

enum Out {
    /// Nothing has been written: a run that is refused leaves the file as it was.
    Waiting(Option<OutputFile>, Format),
    Csv(Box<csv::Writer<BufWriter<OutputFile>>>),
    JsonLines(BufWriter<OutputFile>),
    Ipfix(Box<IpfixWriter<BufWriter<OutputFile>>>),
}

impl<F: FlowState> FlowWriter<F> {
    /// Returns a writer of records to `file`.
    pub(crate) fn new(file: OutputFile, format: Format, account: Option<AccountOf<F>>) -> Self {
        let out = Out::Waiting(Some(file), format);
        Self { out, account, values: Vec::with_capacity(F::COLUMNS.len()) }
    }

    /// Writes what stands before the first record, if that has not been done.
    fn begin(&mut self) -> io::Result<()> {
        let Out::Waiting(file, format) = &mut self.out else { return Ok(()) };
        let Some(file) = file.take() else { return Err(io::Error::other("the file could not be begun")) };
        let file = BufWriter::with_capacity(1 << 16, file);
        self.out = match format {
            Format::Csv => {
                let mut out = csv::Writer::from_writer(file);
                if self.account.is_some() {
                    out.write_record(RecordColumn::defaults().map(|column| column.name))?;
                } else {
                    out.write_record(KEY_COLUMNS.iter().chain(F::COLUMNS))?;
                }
                Out::Csv(Box::new(out))
            }
            Format::JsonLines => Out::JsonLines(file),
            Format::Ipfix => Out::Ipfix(Box::new(IpfixWriter::new(file, 0))),
        };
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.begin()?;
        match &mut self.out {
            Out::Csv(out) => out.flush(),
            Out::JsonLines(out) => out.flush(),
            Out::Ipfix(out) => out.flush(),
            Out::Waiting(..) => Ok(()),
        }
    }

    fn write_one(&mut self, record: &FlowRecord<F>) -> io::Result<()> {
        let account = self.account.and_then(|account| account(&record.state));
        let account = account.map(|flow| AccountingRecord::of(&record.key, flow, record.ended));
        match (&mut self.out, account) {
            (Out::Ipfix(out), Some(account)) => out.write(&account),
            (Out::Csv(out), Some(account)) => {
                let values = RecordColumn::defaults().map(|column| column.value(&account).to_string());
                Ok(out.write_record(values)?)
            }
            (Out::JsonLines(out), Some(account)) => {
                let mut line = serde_json::Map::new();
                for column in RecordColumn::defaults() {
                    line.insert(column.name.into(), json_value(column.value(&account)));
                }
                serde_json::to_writer(&mut *out, &line)?;
                out.write_all(b"\n")
            }
            (out, None) => {
                self.values.clear();
                record.state.values(&mut self.values);
                match out {
                    Out::Csv(out) => csv(out, &record.key, &self.values),
                    Out::JsonLines(out) => json(out, &record.key, (F::COLUMNS, &self.values)),
                    Out::Ipfix(_) | Out::Waiting(..) => Ok(()),
                }
            }
            (Out::Waiting(..), _) => Ok(()),
        }
    }
}

fn json_value(value: RecordValue) -> serde_json::Value {
    match value {
        RecordValue::Number(number) | RecordValue::Bits(number) => number.into(),
        RecordValue::Word(word) => word.into(),
        RecordValue::None => serde_json::Value::Null,
        other => other.to_string().into(),
    }
}

impl<F: FlowState> RecordSink<F> for FlowWriter<F> {
    fn write(&mut self, records: &[FlowRecord<F>]) -> Result<(), SinkError> {
        self.begin().map_err(|error| SinkError(Box::new(error)))?;
        for record in records {
            self.write_one(record).map_err(|error| SinkError(Box::new(error)))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        Self::flush(self).map_err(|error| SinkError(Box::new(error)))
    }
}

fn csv(out: &mut csv::Writer<impl Write>, key: &FlowKey, values: &[FlowValue]) -> io::Result<()> {
    let key = [
        key.low_address().to_string(),
        key.low_port().to_string(),
        key.high_address().to_string(),
        key.high_port().to_string(),
        key.protocol().to_string(),
        key.zone().to_string(),
        key.pass().to_string(),
    ];
    let values = values.iter().map(FlowValue::to_string);
    Ok(out.write_record(key.into_iter().chain(values))?)
}

fn json(out: &mut impl Write, key: &FlowKey, (columns, values): (&[&str], &[FlowValue])) -> io::Result<()> {
    let mut record = serde_json::Map::new();
    record.insert("low_address".into(), key.low_address().to_string().into());
    record.insert("low_port".into(), key.low_port().into());
    record.insert("high_address".into(), key.high_address().to_string().into());
    record.insert("high_port".into(), key.high_port().into());
    record.insert("protocol".into(), key.protocol().into());
    record.insert("zone".into(), key.zone().into());
    record.insert("pass".into(), key.pass().into());
    for (column, value) in columns.iter().zip(values) {
        let value = match *value {
            FlowValue::Count(number) | FlowValue::TimeNs(number) | FlowValue::Bits(number) => number.into(),
            FlowValue::Word(word) => word.into(),
            other => other.to_string().into(),
        };
        record.insert((*column).into(), value);
    }
    serde_json::to_writer(&mut *out, &record)?;
    out.write_all(b"\n")
}
