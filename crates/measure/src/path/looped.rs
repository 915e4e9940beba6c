//! A capture that repeats endlessly, divided into rounds of the same packets.
//!
//! The mapping is kept from round to round, as between the passes of a long run. A round therefore
//! measures the packet path without the page faults of a new mapping. Rows that measure whole
//! programs include the page faults.

use std::path::Path;
use std::sync::Arc;

use crate::{Elapsed, Stopwatch};
use flowloom_engine::Control;
use flowloom_packet::{Fill, PacketBatch, PacketSource, SharedBlock, SourceError};
use flowloom_traffic::capture::{Capture, CaptureError, CaptureOptions, CaptureSet, Input, SetOptions};

/// A capture that is read in rounds of whole passes.
#[derive(Debug)]
pub struct Looped {
    set: CaptureSet,
    round_packets: u64,
    left: u64,
    control: Option<Arc<Control>>,
    stopwatch: Option<Stopwatch>,
    elapsed: Elapsed,
}

impl Looped {
    /// Returns the source of rounds of `round_packets`, which is a whole number of passes.
    ///
    /// # Errors
    ///
    /// Returns an error if the capture cannot be read.
    pub fn open(path: &Path, round_packets: u64) -> Result<Self, CaptureError> {
        let options = SetOptions { passes: u32::MAX, ..SetOptions::default() };
        Ok(Self {
            set: CaptureSet::open(&[Input::Path(path.to_path_buf())], options)?,
            round_packets,
            left: round_packets,
            control: None,
            stopwatch: None,
            elapsed: Elapsed::default(),
        })
    }

    /// Ends a round early when a run is stopped, because a round may be long.
    #[must_use]
    pub fn until_stopped(self, control: Arc<Control>) -> Self {
        Self { control: Some(control), ..self }
    }

    /// Starts another round; its flows differ from those of other rounds.
    pub fn rewind(&mut self) {
        self.left = self.round_packets;
        self.stopwatch = None;
        self.elapsed = Elapsed::default();
    }

    /// Returns the time from the round's first batch to its end, on the thread that requested them.
    ///
    /// A request for the next batch means that the previous one is completed. On a single thread,
    /// this therefore measures the whole packet path, without the construction of tables and
    /// reports.
    pub fn elapsed(&self) -> Elapsed {
        self.elapsed
    }
}

impl PacketSource for Looped {
    #[inline]
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        let stopwatch = *self.stopwatch.get_or_insert_with(Stopwatch::start);
        let is_stopped = self.control.as_ref().is_some_and(|control| control.is_stopped());
        if self.left == 0 || is_stopped {
            self.elapsed = stopwatch.elapsed();
            batch.packets.clear();
            batch.block = None;
            return Ok(Fill::End);
        }
        let fill = self.set.next_batch(batch)?;
        // A pass ends a batch, so a round of whole passes ends with a batch.
        self.left = self.left.saturating_sub(batch.packets.len() as u64);
        Ok(fill)
    }
}

/// Returns the number of packets in one pass.
///
/// # Errors
///
/// Returns an error if the capture cannot be read.
pub fn count(path: &Path) -> Result<u64, SourceError> {
    let open = CaptureSet::open(&[Input::Path(path.to_path_buf())], SetOptions::default());
    let mut set = open.map_err(|error| SourceError(Box::new(error)))?;
    let mut batch = PacketBatch::new();
    let mut packets = 0;
    while set.next_batch(&mut batch)? == Fill::Packets {
        packets += batch.packets.len() as u64;
    }
    Ok(packets)
}

/// Returns the mapping of a capture.
///
/// # Errors
///
/// Returns an error if it cannot be read, or has no packets.
pub fn mapping(path: &Path) -> Result<SharedBlock, String> {
    let mut capture = Capture::open(path, CaptureOptions::default()).map_err(|error| error.to_string())?;
    let mut batch = PacketBatch::new();
    capture.next_batch(&mut batch).map_err(|error| error.to_string())?;
    batch.block.ok_or_else(|| format!("{} has no packets", path.display()))
}

#[cfg(test)]
mod tests {
    use super::super::input::CaptureFile;
    use super::*;

    #[test]
    fn rounds_are_whole_passes_and_each_is_timed() {
        let capture = CaptureFile::generate(300, 10).unwrap();
        assert_eq!(count(capture.path()).unwrap(), 300);
        let mut looped = Looped::open(capture.path(), 600).unwrap();
        let mut batch = PacketBatch::new();
        for round in 0..3 {
            looped.rewind();
            let (mut packets, mut passes) = (0, Vec::new());
            while looped.next_batch(&mut batch).unwrap() == Fill::Packets {
                packets += batch.packets.len();
                passes.push(batch.pass);
            }
            passes.dedup();
            assert_eq!((packets, passes), (600, vec![2 * round, 2 * round + 1]));
            assert!(looped.elapsed().wall_ns > 0);
        }
        let control = Arc::new(Control::default());
        let mut looped = looped.until_stopped(Arc::clone(&control));
        looped.rewind();
        assert_eq!(looped.next_batch(&mut batch).unwrap(), Fill::Packets);
        control.stop();
        assert_eq!(looped.next_batch(&mut batch).unwrap(), Fill::End);
    }
}
