//! Readers of access traces, for all record formats.

use std::io::{self, Read};

use crate::access::Access;
use crate::lifetime::TICK_MS;

use super::format::Format;
use super::lines::{Line, Lines};
use super::summary::{ReadError, ReadLimits, ReadSummary, Skip};
use super::{csv, oracle_general, vscsi};

/// A trace and the summary of reading it.
pub type AccessTrace = (Vec<Access>, ReadSummary);

/// Collects accesses; time starts in the tick of the first access, and never goes back.
#[derive(Debug, Default)]
struct Collector {
    accesses: Vec<Access>,
    summary: ReadSummary,
    origin_ms: Option<u64>,
    latest_ms: u64,
}

impl Collector {
    fn add(&mut self, read: Result<Access, Skip>) {
        match read {
            Ok(access) => {
                self.summary.take();
                // Only whole ticks are subtracted, so that the times at which lines go OFF do not
                // change.
                let first_ms = access.time_ms();
                let origin = *self.origin_ms.get_or_insert(first_ms - first_ms % TICK_MS);
                let time = access.time_ms().saturating_sub(origin);
                self.summary.time_backwards += u64::from(access.time_ms() < origin + self.latest_ms);
                self.latest_ms = self.latest_ms.max(time);
                let moved = Access::new(access.key(), self.latest_ms);
                self.accesses.push(if access.closes() { moved.closing() } else { moved });
            }
            Err(reason) => self.summary.skip(reason),
        }
    }

    fn is_full(&mut self, limits: ReadLimits) -> bool {
        self.summary.limited = self.accesses.len() >= limits.records_max;
        self.summary.limited
    }
}

/// Reads a trace of accesses: [`Format::Csv`], [`Format::OracleGeneral`] or [`Format::Vscsi`]; any
/// other format is treated as the first.
///
/// Time starts within a quarter of a second before the first record and never goes back: a record
/// whose time goes back is counted, and gets the time of its predecessor.
///
/// # Errors
///
/// Returns [`ReadError`] if the input fails or contains no usable record.
pub fn read_accesses(
    input: impl Read,
    format: Format,
    limits: ReadLimits,
) -> Result<AccessTrace, ReadError> {
    let mut collector = Collector::default();
    let outcome = match format {
        Format::OracleGeneral => read_oracle_general(input, &mut collector, limits),
        Format::Vscsi => read_vscsi(input, &mut collector, limits),
        _ => read_csv(input, &mut collector, limits),
    };
    let Collector { accesses, summary, .. } = collector;
    match outcome {
        Err(error) => Err(ReadError::Io { summary, error }),
        Ok(()) if accesses.is_empty() => Err(ReadError::Nothing { summary }),
        Ok(()) => Ok((accesses, summary)),
    }
}

fn read_csv(input: impl Read, collector: &mut Collector, limits: ReadLimits) -> io::Result<()> {
    let mut lines = Lines::new(input);
    let mut columns = csv::Columns::default();
    while let Some(line) = lines.next_line()? {
        if collector.is_full(limits) {
            break;
        }
        let Line::Whole(line) = line else {
            collector.summary.skip(Skip::TooLong);
            continue;
        };
        collector.add(columns.parse(line).or_else(|reason| {
            // The header of the file, or of a file that was appended to it.
            columns = csv::Columns::from_header(line).ok_or(reason)?;
            Err(Skip::Empty)
        }));
    }
    Ok(())
}

/// Reads until the buffer is full or the input ends. Returns the number of bytes read.
fn read_full(input: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut have = 0;
    while have < buffer.len() {
        match input.read(&mut buffer[have..]) {
            Ok(0) => break,
            Ok(bytes) => have += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}

/// Records of one size that are read at a time.
const BLOCK_RECORDS: usize = 8192;

fn read_oracle_general(
    mut input: impl Read,
    collector: &mut Collector,
    limits: ReadLimits,
) -> io::Result<()> {
    let mut block = vec![0; BLOCK_RECORDS * oracle_general::RECORD_BYTES];
    loop {
        let bytes = read_full(&mut input, &mut block)?;
        let (records, rest) = block[..bytes].as_chunks::<{ oracle_general::RECORD_BYTES }>();
        for record in records {
            if collector.is_full(limits) {
                return Ok(());
            }
            collector.add(oracle_general::parse(*record));
        }
        if !rest.is_empty() {
            collector.summary.skip(Skip::Cut);
        }
        if bytes < block.len() {
            return Ok(());
        }
    }
}

fn read_vscsi(mut input: impl Read, collector: &mut Collector, limits: ReadLimits) -> io::Result<()> {
    // A size that is a multiple of the record sizes of both versions.
    let mut block = vec![0; BLOCK_RECORDS * 160];
    let mut version = None;
    loop {
        let bytes = read_full(&mut input, &mut block)?;
        let Some(known) = version.or_else(|| vscsi::Version::detect(&block[..bytes])) else {
            if bytes > 0 {
                collector.summary.skip(Skip::Record);
            }
            return Ok(());
        };
        version = Some(known);
        for record in block[..bytes].chunks(known.record_bytes()) {
            if collector.is_full(limits) {
                return Ok(());
            }
            let whole = record.len() == known.record_bytes();
            collector.add(if whole { known.parse(record) } else { Err(Skip::Cut) });
        }
        if bytes < block.len() {
            return Ok(());
        }
    }
}
