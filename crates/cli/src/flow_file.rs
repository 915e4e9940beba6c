//! One record per flow, as CSV, JSON lines or IPFIX.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flowloom::apps::accounting::ipfix::IpfixWriter;
use flowloom::apps::accounting::{AccountingRecord, RecordColumn, RecordValue};
use flowloom::engine::{FlowResults, FlowState, FlowValue};
use flowloom::flow_key::FlowKey;

use crate::output::OutputFile;

/// The columns that the records of applications without accounting begin with.
const KEY_COLUMNS: [&str; 7] =
    ["low_address", "low_port", "high_address", "high_port", "protocol", "zone", "pass"];

/// The endings of files of records.
const ENDINGS: [&str; 4] = ["csv", "jsonl", "json", "ipfix"];

/// Writes the records of an application to the file that was opened at `path`, in the order they come.
pub(crate) fn write<F: FlowState>(path: &Path, file: OutputFile, flows: &FlowResults<F>) -> io::Result<()> {
    let out = BufWriter::new(file);
    if is_json(path) { json_lines(out, flows) } else { csv(out, flows) }
}

/// Writes accounting records to the file that was opened at `path`, in the order they come: as IPFIX messages that were exported at
/// `export_ns`, or these columns as JSON lines or CSV.
pub(crate) fn write_records(
    path: &Path,
    file: OutputFile,
    records: impl Iterator<Item = AccountingRecord>,
    columns: &[&RecordColumn],
    export_ns: u64,
) -> io::Result<()> {
    let mut out = BufWriter::new(file);
    if is_ipfix(path) {
        let mut writer = IpfixWriter::new(out, export_ns);
        for record in records {
            writer.write(&record)?;
        }
        return writer.finish().map(drop);
    }
    if is_json(path) {
        for record in records {
            let mut line = serde_json::Map::new();
            for column in columns {
                line.insert(column.name.into(), json_value(column.value(&record)));
            }
            serde_json::to_writer(&mut out, &line)?;
            out.write_all(b"\n")?;
        }
        return out.flush();
    }
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(columns.iter().map(|column| column.name))?;
    for record in records {
        writer.write_record(columns.iter().map(|column| column.value(&record).to_string()))?;
    }
    writer.flush()
}

fn json_value(value: RecordValue) -> serde_json::Value {
    match value {
        RecordValue::Number(number) | RecordValue::Bits(number) => number.into(),
        RecordValue::Word(word) => word.into(),
        RecordValue::None => serde_json::Value::Null,
        other => other.to_string().into(),
    }
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|extension| {
        extension.eq_ignore_ascii_case("jsonl") || extension.eq_ignore_ascii_case("json")
    })
}

/// Says what is wrong with the name of a file of records: an ending that is not known. None at all is CSV's.
pub(crate) fn check_name(path: &Path) -> Result<(), String> {
    match path.extension() {
        Some(ending) if !ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)) => Err(format!(
            "--flows {}: .{} is not an ending that says what to write\n  CSV for .csv or none, JSON lines for .jsonl or .json, IPFIX for .ipfix",
            path.display(),
            ending.display()
        )),
        _ => Ok(()),
    }
}

/// Says whether a file is to be IPFIX, by its name.
pub(crate) fn is_ipfix(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ipfix"))
}

fn csv<F: FlowState>(out: impl Write, flows: &FlowResults<F>) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(KEY_COLUMNS.iter().chain(F::COLUMNS))?;
    let mut values = Vec::with_capacity(F::COLUMNS.len());
    for flow in flows {
        values.clear();
        flow.state.values(&mut values);
        let key = key_values(&flow.key);
        let values = values.iter().map(FlowValue::to_string);
        writer.write_record(key.into_iter().chain(values))?;
    }
    writer.flush()
}

fn json_lines<F: FlowState>(mut out: impl Write, flows: &FlowResults<F>) -> io::Result<()> {
    let mut values = Vec::with_capacity(F::COLUMNS.len());
    for flow in flows {
        values.clear();
        flow.state.values(&mut values);
        let key = &flow.key;
        let mut record = serde_json::Map::new();
        record.insert("low_address".into(), key.low_address().to_string().into());
        record.insert("low_port".into(), key.low_port().into());
        record.insert("high_address".into(), key.high_address().to_string().into());
        record.insert("high_port".into(), key.high_port().into());
        record.insert("protocol".into(), key.protocol().into());
        record.insert("zone".into(), key.zone().into());
        record.insert("pass".into(), key.pass().into());
        for (column, value) in F::COLUMNS.iter().zip(&values) {
            let value = match *value {
                FlowValue::Count(number) | FlowValue::TimeNs(number) | FlowValue::Bits(number) => {
                    number.into()
                }
                FlowValue::Word(word) => word.into(),
                other => other.to_string().into(),
            };
            record.insert((*column).into(), value);
        }
        serde_json::to_writer(&mut out, &record)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

fn key_values(key: &FlowKey) -> [String; 7] {
    [
        key.low_address().to_string(),
        key.low_port().to_string(),
        key.high_address().to_string(),
        key.high_port().to_string(),
        key.protocol().to_string(),
        key.zone().to_string(),
        key.pass().to_string(),
    ]
}
