//! A wire in memory.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use crate::frame::Frame;
use crate::rewrite::Rewrite;
use crate::source::SourceError;
use crate::view::Headers;
use crate::wire::{Decision, PortCounts, WIRE_BATCH, Wire};

/// A frame that comes so much later than the one before it begins a batch.
const SILENCE_NS: u64 = 100_000_000;

/// A wire in memory, to test an application: it receives the frames of a list, and keeps those that
/// leave.
///
/// Run it with `&mut`, so that it is yours again after the run.
///
/// # Examples
///
/// ```
/// use flowloom_packet::MemoryWire;
/// use flowloom_packet::wire::{Decision, Wire};
///
/// let mut is_over = false;
/// let mut wire = MemoryWire::new(2, [(0, vec![1; 60]), (1, vec![2; 60])], || is_over = true);
/// assert_eq!(wire.receive()?, 2);
/// wire.settle(&[Decision::Pass, Decision::Drop])?;
/// assert_eq!(wire.receive()?, 0);
/// wire.wait(std::time::Duration::ZERO)?;
/// assert_eq!(wire.left(), [(1, vec![1; 60])]);
/// drop(wire);
/// assert!(is_over);
/// # Ok::<(), flowloom_packet::SourceError>(())
/// ```
pub struct MemoryWire<E> {
    waiting: VecDeque<(u16, Vec<u8>)>,
    batch: Vec<(u16, Vec<u8>)>,
    left: Vec<(u16, Vec<u8>)>,
    ports: Vec<PortCounts>,
    on_end: E,
    received: u64,
    times_ns: Vec<u64>,
}

impl<E: FnMut()> MemoryWire<E> {
    /// Returns a wire with this number of ports that receives frames, each by its port, one
    /// microsecond after the other. It calls `on_end`, which can stop the run, when a reader waits
    /// behind the last one.
    #[must_use]
    pub fn new(ports: u16, frames: impl IntoIterator<Item = (u16, Vec<u8>)>, on_end: E) -> Self {
        Self {
            waiting: frames.into_iter().collect(),
            batch: Vec::new(),
            left: Vec::new(),
            ports: vec![PortCounts::default(); ports.into()],
            on_end,
            received: 0,
            times_ns: Vec::new(),
        }
    }

    /// Gives the frames these times, in nanoseconds, so that timeouts can be tested. Frames beyond
    /// them have the last one. A frame that comes a tenth of a second or more after the frame
    /// before it begins a batch, as on a wire that was silent; an engine ends idle flows before it.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_packet::MemoryWire;
    /// use flowloom_packet::wire::{Decision, Wire};
    ///
    /// let frames = [(0, vec![1; 60]), (0, vec![1; 60])];
    /// let mut wire = MemoryWire::new(2, frames, || {}).with_times_ns([0, 90_000_000_000]);
    /// assert_eq!((wire.receive()?, wire.frame(0).time_ns), (1, 0));
    /// wire.settle(&[Decision::Pass])?;
    /// assert_eq!((wire.receive()?, wire.frame(0).time_ns), (1, 90_000_000_000));
    /// # Ok::<(), flowloom_packet::SourceError>(())
    /// ```
    #[must_use]
    pub fn with_times_ns(self, times_ns: impl IntoIterator<Item = u64>) -> Self {
        Self { times_ns: times_ns.into_iter().collect(), ..self }
    }

    /// Returns the frames that have left, in their order, each with its port.
    #[must_use]
    pub fn left(&self) -> &[(u16, Vec<u8>)] {
        &self.left
    }

    /// Returns the time of a frame by its number.
    fn time_ns(&self, number: u64) -> u64 {
        let time_ns = usize::try_from(number).ok().and_then(|number| self.times_ns.get(number));
        time_ns.or(self.times_ns.last()).copied().unwrap_or(number * 1000)
    }

    /// Sends a frame by a port. Returns whether there is such a port.
    fn send(&mut self, port: u16, bytes: Vec<u8>, count: fn(&mut PortCounts, u64)) -> bool {
        let Some(counts) = self.ports.get_mut(usize::from(port)) else { return false };
        count(counts, bytes.len() as u64);
        self.left.push((port, bytes));
        true
    }
}

fn sent(counts: &mut PortCounts, bytes: u64) {
    counts.sent += 1;
    counts.sent_bytes += bytes;
}

fn added(counts: &mut PortCounts, _: u64) {
    counts.added += 1;
}

impl<E> fmt::Debug for MemoryWire<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [waiting, left] = [self.waiting.len(), self.left.len()];
        f.debug_struct("MemoryWire").field("waiting", &waiting).field("left", &left).finish_non_exhaustive()
    }
}

impl<E: FnMut()> Wire for MemoryWire<E> {
    fn receive(&mut self) -> Result<usize, SourceError> {
        let is_after_silence =
            |number: &u64| self.time_ns(*number).saturating_sub(self.time_ns(number - 1)) >= SILENCE_NS;
        let most = self.waiting.len().min(WIRE_BATCH);
        let mut later = self.received + 1..self.received + most.max(1) as u64;
        let count = later.position(|number| is_after_silence(&number)).map_or(most, |frames| frames + 1);
        self.batch = self.waiting.drain(..count).collect();
        for (port, bytes) in &self.batch {
            let Some(counts) = self.ports.get_mut(usize::from(*port)) else {
                let (port, ports) = (*port, self.ports.len());
                self.batch.clear();
                return Err(SourceError(format!("a frame for port {port} of {ports}, from 0").into()));
            };
            counts.received += 1;
            counts.received_bytes += bytes.len() as u64;
        }
        Ok(count)
    }

    fn frame(&self, index: usize) -> Frame<'_> {
        let (port, bytes) = &self.batch[index];
        Frame::ethernet(bytes, *port, self.time_ns(self.received + index as u64))
    }

    fn settle(&mut self, decisions: &[Decision]) -> Result<(), SourceError> {
        let batch = std::mem::take(&mut self.batch);
        self.received += batch.len() as u64;
        for ((from, bytes), decision) in batch.into_iter().zip(decisions) {
            let to = match *decision {
                Decision::Drop => continue,
                Decision::To(port) => port,
                Decision::Pass => from ^ 1,
                Decision::Mirror(port) => {
                    if !self.send(port, bytes.clone(), added) {
                        self.ports[usize::from(from)].added_refused += 1;
                    }
                    from ^ 1
                }
            };
            if !self.send(to, bytes, sent) {
                self.ports[usize::from(from)].refused += 1;
            }
        }
        Ok(())
    }

    fn rewrite(&mut self, index: usize, rewrite: &Rewrite, headers: &Headers) -> bool {
        rewrite.apply(&mut self.batch[index].1, headers, None)
    }

    fn emit(&mut self, port: u16, bytes: &[u8]) -> bool {
        self.send(port, bytes.to_vec(), added)
    }

    fn wait(&mut self, _at_most: Duration) -> Result<(), SourceError> {
        if self.waiting.is_empty() {
            (self.on_end)();
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), SourceError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SourceError> {
        Ok(())
    }

    fn ports(&self) -> Vec<PortCounts> {
        self.ports.clone()
    }
}
