//! The result of `generate`.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Report, bytes, counted, grouped};

/// A generated rule set, or headers for one.
#[derive(Debug, JsonSchema, Serialize)]
pub struct MadeResult {
    pub schema: &'static str,
    /// File that was written.
    pub path: String,
    /// Description of its contents.
    pub what: String,
    /// Seed.
    pub seed: u64,
    /// Rules or headers.
    pub lines: u64,
    /// Bytes written.
    pub bytes: u64,
}

impl Report for MadeResult {
    fn lines(&self) -> Vec<String> {
        let Self { path, what, seed, .. } = self;
        vec![format!("{path}   {} {what}, seed {seed}: {}", grouped(self.lines), bytes(self.bytes))]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        vec![
            ["path", "what", "seed", "lines", "bytes"].map(str::to_owned).to_vec(),
            vec![
                self.path.clone(),
                self.what.clone(),
                self.seed.to_string(),
                self.lines.to_string(),
                self.bytes.to_string(),
            ],
        ]
    }
}

/// A generated capture. Numbers are in base units: packets, bytes, seconds.
#[derive(Debug, JsonSchema, Serialize)]
pub struct GenerateResult {
    pub schema: &'static str,
    /// Path of the written file.
    pub path: String,
    /// Description of the generated traffic.
    pub what: String,
    /// The seed; the same seed gives the same bytes on every machine.
    pub seed: u64,
    /// Packets in it.
    pub packets: u64,
    /// Sum of the packets' lengths on the wire, in bytes.
    pub bytes_on_wire: u64,
    /// Sum of the packets' captured lengths, in bytes.
    pub bytes_captured: u64,
    /// Time to generate and write it, in seconds.
    pub seconds: f64,
}

impl Report for GenerateResult {
    fn lines(&self) -> Vec<String> {
        vec![format!(
            "{}   {}, {}, seed {}: {} captured of {} on the wire, in {:.2} s",
            self.path,
            self.what,
            counted(self.packets, "packet"),
            self.seed,
            bytes(self.bytes_captured),
            bytes(self.bytes_on_wire),
            self.seconds
        )]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        vec![
            ["path", "seed", "packets", "bytes_on_wire", "bytes_captured", "seconds"]
                .map(str::to_owned)
                .to_vec(),
            vec![
                self.path.clone(),
                self.seed.to_string(),
                self.packets.to_string(),
                self.bytes_on_wire.to_string(),
                self.bytes_captured.to_string(),
                self.seconds.to_string(),
            ],
        ]
    }
}

/// A generated log or trace. Numbers are in base units: records, seconds.
#[derive(Debug, JsonSchema, Serialize)]
pub struct WeblogResult {
    pub schema: &'static str,
    /// Path of the written file.
    pub path: String,
    /// Its format.
    #[schemars(extend("enum" = ["clf", "tsv", "csv", "oracle-general"]))]
    pub form: &'static str,
    /// The model of the sessions.
    pub model: &'static str,
    /// Concurrent sessions.
    pub overlap: u32,
    /// The seed; the same seed gives the same bytes on every machine.
    pub seed: u64,
    /// Requests of a log, accesses of a trace.
    pub records: u64,
    /// Clients of a log, sessions of a trace.
    pub keys: u64,
    /// Time from the first record to the last, in seconds.
    pub span_s: f64,
    /// Time to generate and write it, in seconds.
    pub seconds: f64,
}

impl Report for WeblogResult {
    fn lines(&self) -> Vec<String> {
        vec![format!(
            "{}   {}, model {}, {} at a time, seed {}: {} of {} over {:.0} s, in {:.2} s",
            self.path,
            self.form,
            self.model,
            counted(self.overlap.into(), "session"),
            self.seed,
            counted(self.records, "record"),
            counted(self.keys, if matches!(self.form, "clf" | "tsv") { "client" } else { "key" }),
            self.span_s,
            self.seconds
        )]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        vec![
            ["path", "form", "model", "overlap", "seed", "records", "keys", "span_s", "seconds"]
                .map(str::to_owned)
                .to_vec(),
            vec![
                self.path.clone(),
                self.form.to_owned(),
                self.model.to_owned(),
                self.overlap.to_string(),
                self.seed.to_string(),
                self.records.to_string(),
                self.keys.to_string(),
                self.span_s.to_string(),
                self.seconds.to_string(),
            ],
        ]
    }
}
