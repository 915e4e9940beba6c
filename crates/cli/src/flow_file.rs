//! One record per flow, as CSV, JSON lines or IPFIX.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flowloom::apps::accounting::ipfix::IpfixWriter;
use flowloom::apps::accounting::{Accounted, EndReason};
use flowloom::engine::{FlowResults, FlowState, FlowValue};
use flowloom::flow_key::FlowKey;

use crate::output::OutputFile;

/// The columns that every application's records begin with.
const KEY_COLUMNS: [&str; 7] =
    ["low_address", "low_port", "high_address", "high_port", "protocol", "zone", "pass"];

/// The column of what is known only when a run is over: why a record ended.
const END_COLUMN: &str = "end_reason";

/// The endings of files of records.
const ENDINGS: [&str; 4] = ["csv", "jsonl", "json", "ipfix"];

/// Writes the records to the file that was opened at `path`, in the order they come. `ends` says why each of them ended; where that is not known, it is empty.
pub(crate) fn write<F: FlowState>(
    path: &Path,
    file: OutputFile,
    flows: &FlowResults<F>,
    ends: &[&'static str],
) -> io::Result<()> {
    let lines = path.extension().is_some_and(|extension| {
        extension.eq_ignore_ascii_case("jsonl") || extension.eq_ignore_ascii_case("json")
    });
    let out = BufWriter::new(file);
    if lines { json_lines(out, flows, ends) } else { csv(out, flows, ends) }
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

/// Writes accounting records as IPFIX messages, exported at the end of the run in packet time.
pub(crate) fn write_ipfix<'a>(
    file: OutputFile,
    records: impl Iterator<Item = ((&'a FlowKey, &'a Accounted), EndReason)>,
    export_ns: u64,
) -> io::Result<()> {
    let mut writer = IpfixWriter::new(BufWriter::new(file), export_ns);
    for ((key, record), reason) in records {
        writer.write(key, record, reason)?;
    }
    writer.finish().map(drop)
}

fn csv<F: FlowState>(out: impl Write, flows: &FlowResults<F>, ends: &[&str]) -> io::Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    let end_column = (!ends.is_empty()).then_some(&END_COLUMN);
    writer.write_record(KEY_COLUMNS.iter().chain(F::COLUMNS).chain(end_column))?;
    let mut values = Vec::with_capacity(F::COLUMNS.len());
    for (i, flow) in flows.iter().enumerate() {
        values.clear();
        flow.state.values(&mut values);
        let key = key_values(&flow.key);
        let values = values.iter().map(FlowValue::to_string);
        let end = ends.get(i).map(|&end| end.to_owned());
        writer.write_record(key.into_iter().chain(values).chain(end))?;
    }
    writer.flush()
}

fn json_lines<F: FlowState>(mut out: impl Write, flows: &FlowResults<F>, ends: &[&str]) -> io::Result<()> {
    let mut values = Vec::with_capacity(F::COLUMNS.len());
    for (i, flow) in flows.iter().enumerate() {
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
        if let Some(&end) = ends.get(i) {
            record.insert(END_COLUMN.into(), end.into());
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
