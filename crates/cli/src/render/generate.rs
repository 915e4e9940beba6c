//! The result of `generate`.

use serde::Serialize;

use super::{Report, bytes, counted, grouped};

/// The document of `generate rules` and `generate headers`.
#[derive(Debug, Serialize)]
pub(crate) struct MadeResult {
    pub(crate) schema: &'static str,
    pub(crate) path: String,
    pub(crate) what: String,
    pub(crate) seed: u64,
    pub(crate) lines: u64,
    pub(crate) bytes: u64,
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

/// The document of `generate trace`.
#[derive(Debug, Serialize)]
pub(crate) struct GenerateResult {
    pub(crate) schema: &'static str,
    pub(crate) path: String,
    pub(crate) what: String,
    pub(crate) seed: u64,
    pub(crate) packets: u64,
    pub(crate) bytes_on_wire: u64,
    pub(crate) bytes_captured: u64,
    pub(crate) seconds: f64,
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

/// The document of `generate weblog`.
#[derive(Debug, Serialize)]
pub(crate) struct WeblogResult {
    pub(crate) schema: &'static str,
    pub(crate) path: String,
    pub(crate) form: &'static str,
    pub(crate) model: &'static str,
    pub(crate) overlap: u32,
    pub(crate) seed: u64,
    pub(crate) records: u64,
    pub(crate) keys: u64,
    pub(crate) span_s: f64,
    pub(crate) seconds: f64,
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
