//! Records to a destination that may fail and recover, for runs that go on without it.
//!
//! ```text
//!  records ─ format ─▶ bytes in memory ─▶ file, pipe or collector
//!                        │ while it fails, the first records are held; the others count as lost
//! ```
//!
//! The engine calls it on the thread of records, which no packet waits for. A full disk keeps whole
//! records only, and the writing continues where it stopped. A collector that comes back, and
//! another reader of a pipe, get a new beginning, with header or templates.
#![cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "a bridge uses it, which needs Linux"))]

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use flowloom::apps::RecordState;
use flowloom::engine::{FlowRecord, RecordSink, SinkError};
use flowloom_export::{UdpCollector, UdpOptions};

use super::held::HeldBytes;
use super::target::{Connection, SendError, Target};
use super::{Destination, Endpoint, FlowWriter, Format, Opened, Raw, WriterCounts, resolved};
use crate::closed_output;
use crate::compressed_file::Compression;
use crate::output::OutputFile;
use crate::record_view::RecordPlan;
use crate::render::{counted, say};

/// The first and the longest wait before another attempt.
const RETRY_FIRST: Duration = Duration::from_millis(250);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// What has worked for this time is tried again at once when it fails.
const STEADY: Duration = Duration::from_secs(10);
/// Maximum number of records that are held while the destination fails.
const HELD_MAX: u64 = if cfg!(test) { 1 << 10 } else { 16 << 10 };

/// Writes records to a destination, and survives its failures.
pub(crate) struct LastingWriter {
    writer: FlowWriter,
    way: Way,
    format: Format,
    compression: Compression,
    /// The name of the destination in messages.
    name: String,
    quiet: bool,
    /// Records that were taken and are neither written nor lost.
    held: u64,
    /// The format has something to write that is not in the held bytes.
    is_unflushed: bool,
    lost: u64,
    failure: Option<Failing>,
    /// The wait before the next attempt, and when the latest attempt failed.
    retry: (Duration, Option<Instant>),
    /// A bug has left the format in an unknown state.
    is_broken: bool,
}

/// How encoded records leave the process.
enum Way {
    Bytes(HeldBytes, Target),
    /// Datagrams to a collector, once its address is known. The format sends them.
    Datagrams(String, bool),
}

/// A failure that lasts.
#[derive(Debug)]
struct Failing {
    text: String,
    /// When to try again.
    until: Instant,
    /// Records lost before.
    lost_before: u64,
}

impl Destination {
    /// Opens the destination for a run that goes on when it fails. A collector need not listen yet.
    ///
    /// # Errors
    ///
    /// Returns the error of the system for a file, and for what is no address of a collector.
    pub(crate) fn open_lasting(
        self,
        name: String,
        plan: RecordPlan,
        quiet: bool,
    ) -> io::Result<LastingWriter> {
        let Self { place, format } = self;
        let held = |target: Target| {
            let can_rewind = format == Format::Parquet && matches!(target, Target::File(_));
            Way::Bytes(HeldBytes::new(can_rewind), target)
        };
        let mut compression = Compression::None;
        let way = match place {
            Endpoint::File(path, packing) => {
                compression = packing;
                held(Target::of_file(OutputFile::open_at_once(&path)?.lasting()))
            }
            Endpoint::StandardOutput => {
                closed_output::check()?;
                held(Target::Standard(File::from(io::stdout().as_fd().try_clone_to_owned()?)))
            }
            Endpoint::Tcp(collector) => {
                check_address(&collector)?;
                held(Target::Tcp(Connection::new(collector)))
            }
            Endpoint::Udp(collector) => {
                check_address(&collector)?;
                Way::Datagrams(collector, false)
            }
        };
        let opened = way.opened(format, compression);
        Ok(LastingWriter {
            writer: FlowWriter::new(opened, plan),
            way,
            format,
            compression,
            name,
            quiet,
            held: 0,
            is_unflushed: true,
            lost: 0,
            failure: None,
            retry: (RETRY_FIRST, None),
            is_broken: false,
        })
    }
}

/// Refuses what can never be the address of a collector. Whether the name exists shows later.
fn check_address(collector: &str) -> io::Result<()> {
    let is_address = collector
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0));
    if is_address {
        return Ok(());
    }
    let text = format!("'{collector}' is not a host and a port");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

impl Way {
    /// Returns the destination of a format that begins.
    fn opened(&self, format: Format, compression: Compression) -> Opened {
        let bytes = match self {
            Self::Bytes(bytes, _) => bytes.clone(),
            // Nothing is written before there is a socket.
            Self::Datagrams(..) => HeldBytes::default(),
        };
        Opened { out: Raw::Held(bytes, compression), format, counters: None }
    }
}

impl LastingWriter {
    /// Writes what follows the last record. Records that are still held are lost then.
    ///
    /// # Errors
    ///
    /// Returns why the destination fails.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        self.guarded(|this| {
            this.begin_datagrams();
            if this.is_bytes() || this.failure.is_none() {
                let finished = this.writer.finish();
                this.send(finished);
            }
        });
        self.lose_held();
        self.failure.as_ref().map_or(Ok(()), |failing| Err(failing.text.clone()))
    }

    /// Returns what became of the records that left this process.
    pub(crate) fn counts(&self) -> WriterCounts {
        self.writer.counts()
    }

    /// Returns how many records are known to be lost.
    pub(crate) fn records_lost(&self) -> u64 {
        self.lost + self.counts().refused
    }

    /// Returns how many records are neither written nor lost.
    pub(crate) fn records_held(&self) -> u64 {
        self.held
    }

    fn is_bytes(&self) -> bool {
        matches!(self.way, Way::Bytes(..))
    }

    /// Returns whether each batch of records is sent at once. Formats that write blocks would write
    /// small ones.
    fn is_streaming(&self) -> bool {
        self.is_bytes()
            && self.compression == Compression::None
            && !matches!(self.format, Format::Parquet | Format::Arrow)
    }

    /// Returns whether it is time for an attempt.
    fn is_due(&self) -> bool {
        self.failure.as_ref().is_none_or(|failing| Instant::now() >= failing.until)
    }

    fn take<F: RecordState>(&mut self, records: &[FlowRecord<F>]) {
        let count = records.len() as u64;
        if !self.begin_datagrams() {
            self.lost += count;
            return;
        }
        self.notice_loss();
        if self.failure.is_some() && self.is_due() {
            self.commit();
        }
        if self.failure.is_some() && self.held >= HELD_MAX {
            self.lost += count;
            return;
        }
        self.held += count;
        self.is_unflushed = true;
        let written = records.iter().try_for_each(|record| self.writer.write(record));
        if written.is_err() {
            self.send(written);
        } else if self.failure.is_none() && self.is_streaming() {
            self.commit();
        }
    }

    /// Sends the held bytes, if there are any.
    fn commit(&mut self) {
        // A flush without records would still write the end of a compressed block.
        if std::mem::take(&mut self.is_unflushed) {
            let flushed = self.writer.flush();
            self.send(flushed);
        } else if let Way::Bytes(bytes, _) = &self.way
            && !bytes.lock().bytes.is_empty()
        {
            self.send(Ok(()));
        }
    }

    /// Begins anew if the receiver has gone, before records are encoded that depend on what it was
    /// sent.
    fn notice_loss(&mut self) {
        if let Way::Bytes(_, target) = &self.way
            && target.is_lost()
        {
            self.fail(SendError::Anew(io::Error::other("the collector has closed the connection")));
        }
    }

    /// Sends the bytes of the format, unless it has failed itself.
    fn send(&mut self, encoded: io::Result<()>) {
        let sent = match (encoded, &mut self.way) {
            // The format writes to a socket.
            (Err(error), Way::Datagrams(..)) => Err(SendError::Anew(error)),
            (Err(error), Way::Bytes(..)) => return self.break_down(error.to_string()),
            (Ok(()), Way::Datagrams(..)) => Ok(false),
            (Ok(()), Way::Bytes(bytes, target)) => {
                let mut held = bytes.lock();
                let has_bytes = !held.bytes.is_empty();
                target.send(&mut held).map(|()| has_bytes)
            }
        };
        match sent {
            Ok(has_sent) => {
                self.held = 0;
                // That nothing was sent does not show that something could be.
                if has_sent {
                    self.recover();
                }
            }
            Err(error) => self.fail(error),
        }
    }

    /// Makes a socket for datagrams if there is none and it is time to. Returns whether records can
    /// be taken.
    fn begin_datagrams(&mut self) -> bool {
        let Way::Datagrams(collector, is_open @ false) = &mut self.way else { return true };
        if self.failure.as_ref().is_some_and(|failing| Instant::now() < failing.until) {
            return false;
        }
        match resolved(collector).and_then(|address| UdpCollector::connect(address, UdpOptions::default()))
        {
            Ok(udp) => {
                *is_open = true;
                let counters = Some(udp.counters());
                self.writer.restart(Opened { out: Raw::Udp(udp), format: self.format, counters });
                self.recover();
                true
            }
            Err(error) => {
                self.fail(SendError::Later(error));
                false
            }
        }
    }

    /// Notes a failure, and when to try again.
    fn fail(&mut self, error: SendError) {
        let (now, lost_before) = (Instant::now(), self.lost);
        let error = match error {
            SendError::Later(error) => error,
            SendError::Anew(error) => {
                self.lose_held();
                match &mut self.way {
                    Way::Bytes(bytes, target) => {
                        target.begin_anew();
                        bytes.lock().bytes.clear();
                    }
                    Way::Datagrams(_, is_open) => *is_open = false,
                }
                self.writer.restart(self.way.opened(self.format, self.compression));
                self.is_unflushed = true;
                error
            }
        };
        let (wait, failed_at) = self.retry;
        // What fails again soon after it has recovered is not tried more often.
        let is_again = self.failure.is_some() || failed_at.is_some_and(|at| now - at < STEADY + wait);
        let wait = if is_again { (2 * wait).min(RETRY_MAX) } else { RETRY_FIRST };
        self.retry = (wait, Some(now));
        let until = now + wait;
        let text = error.to_string();
        if let Some(failing) = &mut self.failure {
            (failing.text, failing.until) = (text, until);
            return;
        }
        if !self.quiet {
            say(&format!(
                "warning: cannot write flows to {}: {text}\n  the run goes on, tries again, and counts the \
                 records that it loses",
                self.name
            ));
        }
        self.failure = Some(Failing { text, until, lost_before });
    }

    fn recover(&mut self) {
        let Some(failing) = self.failure.take() else { return };
        if !self.quiet {
            let lost = counted(self.lost - failing.lost_before, "record");
            say(&format!("flows are written to {} again; {lost} lost", self.name));
        }
    }

    fn lose_held(&mut self) {
        self.lost += std::mem::take(&mut self.held);
    }

    /// Does something, and stops writing if it panics.
    fn guarded(&mut self, work: impl FnOnce(&mut Self)) {
        if self.is_broken {
            return;
        }
        // Unwind safety: after a panic only the counts are used.
        if catch_unwind(AssertUnwindSafe(|| work(self))).is_err() {
            self.break_down(String::from("the writer has panicked, which is a bug in flowloom"));
        }
    }

    /// Stops writing for good.
    fn break_down(&mut self, text: String) {
        self.is_broken = true;
        let lost_before = self.lost;
        self.lose_held();
        if !self.quiet {
            say(&format!("warning: flows are no longer written to {}: {text}", self.name));
        }
        self.failure = Some(Failing { text, until: Instant::now(), lost_before });
    }
}

impl<F: RecordState> RecordSink<F> for LastingWriter {
    fn write(&mut self, records: &[FlowRecord<F>]) -> Result<(), SinkError> {
        if self.is_broken {
            self.lost += records.len() as u64;
        }
        self.guarded(|this| this.take(records));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.guarded(|this| {
            if this.is_due() && this.begin_datagrams() {
                this.commit();
            }
        });
        Ok(())
    }

    /// Connects again, and writes what precedes the first record.
    fn tick(&mut self) -> Result<(), SinkError> {
        self.guarded(Self::notice_loss);
        RecordSink::<F>::flush(self)
    }

    fn lost(&self) -> u64 {
        self.records_lost()
    }

    fn held(&self) -> u64 {
        self.held
    }
}

#[cfg(test)]
mod tests;
