//! Part files: the state of the flows of one part of an input, for merging with other parts.
//!
//! ```text
//!  8 bytes   FLWPART3: the format and its version
//!  4 bytes   length of the header
//!  …         the header, JSON: application, settings, counts, inputs
//!  8 bytes   number of records
//!  …         records: key (48), first and last tick (16), why it ended (1; 0: it has not),
//!            the application's state
//!  32 bytes  SHA-256 of everything before
//! ```
//!
//! Numbers are little-endian. Records of the same key are sorted by time.

use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::str::FromStr;

use flowloom::apps::{EndedFlow, SaveState};
use flowloom::engine::counters::{InputCounters, WorkerCounters};
use flowloom::engine::{EndedBy, PartRecord, SavedPart};
use flowloom::flow_key::FlowKey;
use flowloom::packet::{DropCounts, DropReason, EncapsulationCounts, LinkType};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::output::OutputFile;

const MAGIC: &[u8; 8] = b"FLWPART3";
/// Maximum size of the header.
const HEADER_BYTES_MAX: u32 = 16 << 20;
pub(crate) const KEY_BYTES: usize = 48;
/// Bytes of a record before the application's state.
const RECORD_BYTES: usize = KEY_BYTES + 16 + 1;
const DIGEST_BYTES: u64 = 32;

/// The number of a part and the number of parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct PartNumber {
    pub(crate) part: u32,
    pub(crate) of: u32,
}

impl FromStr for PartNumber {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u32>().ok();
        match text.split_once('/').and_then(|(part, of)| Some((number(part)?, number(of)?))) {
            Some((part, of)) if (1..=of).contains(&part) => Ok(Self { part, of }),
            _ => Err(String::from("write a part as K/N, with K from 1 to N")),
        }
    }
}

impl fmt::Display for PartNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.part, self.of)
    }
}

/// The settings in which merged parts must agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) app: String,
    pub(crate) idle_timeout_ns: Option<u64>,
    pub(crate) active_timeout_ns: Option<u64>,
    /// Options of the decoder, as a user types them.
    pub(crate) decoding: Vec<String>,
    /// Options that select packets, as a user types them.
    pub(crate) selection: Vec<String>,
}

/// Where a range of a capture began and ended, as
/// [tokens](flowloom::traffic::capture::Boundary::token).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Range {
    pub(crate) begin: String,
    pub(crate) end: String,
}

impl Range {
    /// The beginning of a capture.
    pub(crate) const BEGIN: &str = "0:0";
    /// The end of a capture.
    pub(crate) const END: &str = "1:0";
}

/// The range of time whose packets are a part, in nanoseconds since 1970; the second is excluded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Times {
    /// `None` from the beginning on.
    pub(crate) from_ns: Option<u64>,
    /// `None` up to the end.
    pub(crate) to_ns: Option<u64>,
}

/// The contents of a part file other than its records.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) tool: String,
    pub(crate) settings: Settings,
    pub(crate) part: Option<PartNumber>,
    pub(crate) inputs: Vec<String>,
    /// Of a range of a capture: where it began and where it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) range: Option<Range>,
    /// Of a range of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) times: Option<Times>,
    /// Facts about the inputs that `merge` checks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notices: Vec<String>,
    packets: u64,
    bytes_on_wire: u64,
    bytes_captured: u64,
    decoded: u64,
    dropped: Vec<(String, u64)>,
    time_backwards: u64,
    time_backwards_ns_max: u64,
    time_outliers: u64,
    time_steps: u64,
    captured_over_wire: u64,
    unsupported_links: Vec<(u16, u64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    encapsulations: Vec<String>,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    processed: u64,
    denied: u64,
    flows_begun: u64,
    pub(crate) flows_expired: u64,
    records_forgotten: u64,
    dropped_by_workers: Vec<(String, u64)>,
}

fn named(counts: &DropCounts) -> Vec<(String, u64)> {
    counts.nonzero().map(|(reason, packets)| (reason.name().to_owned(), packets)).collect()
}

fn counted(named: &[(String, u64)]) -> Result<DropCounts, String> {
    let mut counts = DropCounts::default();
    for (name, packets) in named {
        let reason = DropReason::ALL.iter().find(|reason| reason.name() == name);
        counts.add(*reason.ok_or_else(|| format!("unknown drop reason '{name}'"))?, *packets);
    }
    Ok(counts)
}

impl Header {
    /// Returns the header of a run.
    pub(crate) fn new(
        settings: Settings,
        part: Option<PartNumber>,
        inputs: Vec<String>,
        input: &InputCounters,
        workers: &WorkerCounters,
    ) -> Self {
        Self {
            tool: format!("flowloom {}", env!("CARGO_PKG_VERSION")),
            settings,
            part,
            inputs,
            range: None,
            times: None,
            notices: Vec::new(),
            packets: input.packets,
            bytes_on_wire: input.bytes_on_wire,
            bytes_captured: input.bytes_captured,
            decoded: input.decoded,
            dropped: named(&input.dropped),
            time_backwards: input.time_backwards,
            time_backwards_ns_max: input.time_backwards_ns_max,
            time_outliers: input.time_outliers,
            time_steps: input.time_steps,
            captured_over_wire: input.captured_over_wire,
            unsupported_links: input.unsupported_links.iter().map(|(link, n)| (link.0, *n)).collect(),
            encapsulations: input.encapsulations.to_lines(),
            first_ns: input.first_ns,
            last_ns: input.last_ns,
            processed: workers.processed,
            denied: workers.denied,
            flows_begun: workers.flows_begun,
            flows_expired: workers.flows_expired,
            records_forgotten: workers.records_forgotten,
            dropped_by_workers: named(&workers.dropped),
        }
    }

    pub(crate) fn input(&self) -> Result<InputCounters, String> {
        let mut input = InputCounters::default();
        input.packets = self.packets;
        input.bytes_on_wire = self.bytes_on_wire;
        input.bytes_captured = self.bytes_captured;
        input.decoded = self.decoded;
        input.dropped = counted(&self.dropped)?;
        input.time_backwards = self.time_backwards;
        input.time_backwards_ns_max = self.time_backwards_ns_max;
        input.time_outliers = self.time_outliers;
        input.time_steps = self.time_steps;
        input.captured_over_wire = self.captured_over_wire;
        input.unsupported_links =
            self.unsupported_links.iter().map(|&(link, n)| (LinkType(link), n)).collect();
        input.encapsulations = EncapsulationCounts::from_lines(&self.encapsulations)
            .ok_or("it has encapsulations that this version does not know")?;
        input.first_ns = self.first_ns;
        input.last_ns = self.last_ns;
        Ok(input)
    }

    pub(crate) fn workers(&self) -> Result<WorkerCounters, String> {
        let mut workers = WorkerCounters::default();
        workers.processed = self.processed;
        workers.denied = self.denied;
        workers.dropped = counted(&self.dropped_by_workers)?;
        workers.flows_begun = self.flows_begun;
        workers.flows_expired = self.flows_expired;
        workers.records_forgotten = self.records_forgotten;
        Ok(workers)
    }
}

/// The encoded records of a part.
#[derive(Debug, Default)]
pub(crate) struct Records {
    bytes: Vec<u8>,
    count: u64,
}

impl Records {
    /// Adds a record.
    pub(crate) fn add(&mut self, record: &dyn EndedFlow, ticks: [u64; 2], is_live: bool) {
        self.bytes.extend_from_slice(&key_bytes(record.key()));
        save_state(record, ticks, is_live, &mut self.bytes);
        self.count += 1;
    }
}

/// Returns a key in the format of a part.
pub(crate) fn key_bytes(key: &FlowKey) -> [u8; KEY_BYTES] {
    let mut bytes = [0; KEY_BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(key.words()) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Appends the fields that follow a record's key. The state must be one that parts can hold.
pub(crate) fn save_state(record: &dyn EndedFlow, ticks: [u64; 2], is_live: bool, out: &mut Vec<u8>) {
    for tick in ticks {
        out.extend_from_slice(&tick.to_le_bytes());
    }
    out.push(if is_live { 0 } else { ended_code(record.ended()) });
    let is_saved = record.save_in_part(out);
    debug_assert!(is_saved, "runs of other applications are refused parts");
}

/// Reads a key.
///
/// # Errors
///
/// How long it is, as the end of a sentence that begins with its owner.
pub(crate) fn load_key(key: &[u8]) -> Result<FlowKey, String> {
    let key_bytes: &[u8; KEY_BYTES] =
        key.try_into().map_err(|_| format!("has a key of {} bytes", key.len()))?;
    let words = key_bytes.as_chunks().0;
    Ok(FlowKey::from_words(std::array::from_fn(|at| u64::from_le_bytes(words[at]))))
}

/// Reads a record from its key and the fields that follow it.
///
/// # Errors
///
/// The reason, as the end of a sentence that begins with the record.
pub(crate) fn load_record<F: SaveState>(key: &[u8], state: &[u8]) -> Result<PartRecord<F>, String> {
    let key = load_key(key)?;
    let Some((&ticks, [ended, state @ ..])) = state.split_first_chunk::<16>() else {
        return Err(format!("has a state of {} bytes", state.len()));
    };
    let ticks = u128::from_le_bytes(ticks);
    let ticks = [ticks as u64, (ticks >> 64) as u64];
    let ended = match ended {
        0 => None,
        1 => Some(EndedBy::IdleTimeout),
        2 => Some(EndedBy::Application),
        3 => Some(EndedBy::EndOfInput),
        code => return Err(format!("ended for an unknown reason, {code}")),
    };
    let state = F::load(state).ok_or("has no state of the application")?;
    Ok(PartRecord::new(key, ticks, ended, state))
}

fn ended_code(ended: EndedBy) -> u8 {
    match ended {
        EndedBy::IdleTimeout => 1,
        EndedBy::Application => 2,
        _ => 3,
    }
}

/// Writes a part file.
pub(crate) fn write(file: &OutputFile, header: &Header, records: &Records) -> io::Result<()> {
    let header = serde_json::to_vec(header)?;
    let mut hash = Sha256::new();
    let mut out = BufWriter::new(file.clone());
    let lengths = (u32::try_from(header.len()).map_err(io::Error::other)?, records.count);
    let (header_bytes, count) = (lengths.0.to_le_bytes(), lengths.1.to_le_bytes());
    for bytes in [&MAGIC[..], &header_bytes, &header, &count, &records.bytes] {
        hash.update(bytes);
        out.write_all(bytes)?;
    }
    out.write_all(&hash.finalize())?;
    out.flush()?;
    file.finish()
}

/// A part file with a correct checksum, whose application is not known yet.
pub(crate) struct PartFile {
    pub(crate) header: Header,
    count: u64,
    records: Vec<u8>,
}

/// Reads and checks a whole part file.
pub(crate) fn read(path: &Path) -> Result<PartFile, String> {
    let io_error = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => String::from(
            "the file is truncated: it ends before its \
            contents do",
        ),
        _ => error.to_string(),
    };
    let file = File::open(path).map_err(io_error)?;
    let metadata = file.metadata().map_err(io_error)?;
    if !metadata.is_file() {
        return Err(String::from("it is not a regular file"));
    }
    let mut left = metadata.len();
    let mut hash = Sha256::new();
    let mut reader = BufReader::new(file);
    let mut take = |bytes: u64| -> Result<Vec<u8>, String> {
        let is_there = left.checked_sub(bytes).inspect(|rest| left = *rest).is_some();
        if !is_there {
            return Err(io_error(io::ErrorKind::UnexpectedEof.into()));
        }
        let mut buffer = vec![0; usize::try_from(bytes).map_err(|error| error.to_string())?];
        reader.read_exact(&mut buffer).map_err(io_error)?;
        Ok(buffer)
    };
    let magic = take(8)?;
    if magic[..7] != MAGIC[..7] {
        return Err(String::from(
            "it is not a part file: replay --save-part writes them, and reads several captures by itself",
        ));
    }
    if magic != MAGIC {
        let version = char::from(magic[7]);
        return Err(format!(
            "its format has version {version}, but this flowloom reads version {}",
            char::from(MAGIC[7])
        ));
    }
    let length = take(4)?;
    let header_bytes = u32::from_le_bytes(length[..].try_into().expect("four bytes were read"));
    if header_bytes > HEADER_BYTES_MAX {
        return Err(format!("its header has {header_bytes} bytes, the limit is {HEADER_BYTES_MAX}"));
    }
    let header = take(u64::from(header_bytes))?;
    let count_bytes = take(8)?;
    let count = u64::from_le_bytes(count_bytes[..].try_into().expect("eight bytes were read"));
    let records_bytes = metadata.len().saturating_sub(20 + u64::from(header_bytes) + DIGEST_BYTES);
    let records = take(records_bytes)?;
    let expected = take(DIGEST_BYTES)?;
    for bytes in [&magic, &length, &header, &count_bytes, &records] {
        hash.update(bytes);
    }
    if hash.finalize()[..] != expected[..] {
        return Err(String::from("it is damaged or truncated: its checksum does not match its contents"));
    }
    let header =
        serde_json::from_slice(&header).map_err(|error| format!("its header is invalid: {error}"))?;
    Ok(PartFile { header, count, records })
}

impl PartFile {
    /// Returns the part with states of this application.
    pub(crate) fn into_part<F: SaveState>(self) -> Result<SavedPart<F>, String> {
        let bytes = RECORD_BYTES + F::BYTES;
        if self.count.checked_mul(bytes as u64) != Some(self.records.len() as u64) {
            let length = self.records.len();
            return Err(format!(
                "it has {length} bytes, but {} records of {bytes} bytes do not fit that length",
                self.count
            ));
        }
        let mut records = Vec::with_capacity(self.records.len() / bytes);
        for (i, record) in self.records.chunks_exact(bytes).enumerate() {
            let (key, state) = record.split_at(KEY_BYTES);
            records.push(load_record(key, state).map_err(|why| format!("record {} {why}", i + 1))?);
        }
        Ok(SavedPart::new(self.header.input()?, self.header.workers()?, records))
    }
}

#[cfg(test)]
mod tests {
    use flowloom::apps::NoState;
    use flowloom::engine::FlowRecord;

    use super::*;

    fn part() -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("part");
        let settings = Settings {
            app: "null".into(),
            idle_timeout_ns: None,
            active_timeout_ns: None,
            decoding: Vec::new(),
            selection: Vec::new(),
        };
        let counters = (InputCounters::default(), WorkerCounters::default());
        let header = Header::new(settings, None, vec!["a.pcap".into()], &counters.0, &counters.1);
        let mut records = Records::default();
        let mut record = FlowRecord::<NoState>::default();
        record.key = FlowKey::from_v4(1, 2, 3, 4, 6).0;
        records.add(&record, [5, 6], true);
        write(&OutputFile::open_whole(&path).unwrap(), &header, &records).unwrap();
        std::fs::read(&path).unwrap()
    }

    fn read_bytes(bytes: &[u8]) -> Result<SavedPart<NoState>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        read(file.path())?.into_part()
    }

    #[test]
    fn part_reads_back_as_written() {
        let read = read_bytes(&part()).unwrap();
        let key = FlowKey::from_v4(1, 2, 3, 4, 6).0;
        assert_eq!(read.records, [PartRecord::new(key, [5, 6], None, NoState)]);
    }

    #[test]
    fn a_part_that_is_cut_or_changed_anywhere_is_an_error() {
        let bytes = part();
        for at in 0..bytes.len() {
            assert!(read_bytes(&bytes[..at]).is_err(), "cut at {at}");
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(read_bytes(&changed).is_err(), "changed at {at}");
        }
        assert!(read_bytes(&[&bytes[..], &[0]].concat()).is_err(), "longer");
    }

    #[test]
    fn part_numbers_run_from_one_to_the_count() {
        assert_eq!("2/4".parse(), Ok(PartNumber { part: 2, of: 4 }));
        for text in ["0/4", "5/4", "4", "a/b", "-1/2", "1/"] {
            assert!(text.parse::<PartNumber>().is_err(), "{text}");
        }
    }
}
