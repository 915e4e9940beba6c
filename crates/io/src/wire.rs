//! A wire over ports: a frame that arrives at one leaves by another.

use std::time::Duration;

use flowloom_packet::rewrite::Rewrite;
use flowloom_packet::wire::{Decision, Frame, PortCounts, WIRE_BATCH, Wire};
use flowloom_packet::{DropCounts, DropReason, Headers, SourceError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::IoError;
use crate::port::{Port, PortFrame};

/// Number of batches between two reads of the kernel's drop counters while frames keep arriving.
const BATCHES_PER_LOOK: u32 = 256;

/// Ports in pairs: frames of port 0 pass to port 1 and the reverse, those of port 2 to port 3 and
/// the reverse.
///
/// # Examples
///
/// ```no_run
/// use flowloom_io::{PacketOptions, PacketPort, PortWire};
/// use flowloom_packet::wire::{Decision, Wire};
/// let open = |name| PacketPort::open(name, &PacketOptions::default());
/// let mut wire = PortWire::new(vec![open("eth0")?, open("eth1")?], 0);
/// loop {
///     let frames = wire.receive()?;
///     wire.settle(&vec![Decision::Pass; frames])?;
///     if frames == 0 {
///         wire.wait(std::time::Duration::from_millis(100))?;
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PortWire<P> {
    ports: Vec<P>,
    counts: Vec<PortCounts>,
    queue: u16,
    /// The port of the current batch, and its frames.
    at: usize,
    frames: usize,
    withheld: DropCounts,
    batches: u32,
    taken: Vec<bool>,
    /// Rewritten copies of frames of the batch, by index.
    rewritten: Vec<(usize, Vec<u8>)>,
}

fn failed(error: IoError) -> SourceError {
    SourceError(Box::new(error))
}

impl<P: Port> PortWire<P> {
    /// Returns a wire over ports, which are queue `queue` of their interfaces.
    #[must_use]
    pub fn new(ports: Vec<P>, queue: u16) -> Self {
        let counts = vec![PortCounts::default(); ports.len()];
        Self {
            ports,
            counts,
            queue,
            at: 0,
            frames: 0,
            withheld: DropCounts::default(),
            batches: 0,
            taken: Vec::new(),
            rewritten: Vec::new(),
        }
    }

    /// Counts the frames that the kernel has dropped.
    fn look(&mut self) {
        for (port, counts) in self.ports.iter_mut().zip(&mut self.counts) {
            let missed = port.missed();
            counts.missed += missed;
            self.withheld.add(DropReason::InterfaceFull, missed);
        }
    }

    /// Sends the frames of the batch that `goes_to` selects for this port.
    fn send_to(&mut self, to: usize, mut goes_to: impl FnMut(usize) -> bool, is_added: bool) {
        let from = &self.ports[self.at];
        let mut frames = [PortFrame::new(&[]); WIRE_BATCH];
        let mut count = 0;
        for index in (0..self.frames).filter(|&index| goes_to(index)) {
            frames[count] = from.frame(index);
            if let Some((_, bytes)) = self.rewritten.iter().find(|(of, _)| *of == index) {
                frames[count].bytes = bytes;
            }
            count += 1;
        }
        if count == 0 {
            return;
        }
        if let Some(port) = self.ports.get(to) {
            port.send(&frames[..count], &mut self.taken);
        } else {
            self.taken.clear();
            self.taken.resize(count, false);
        }
        // The receiving port refuses frames for a port that does not exist.
        let counts = &mut self.counts[if to < self.ports.len() { to } else { self.at }];
        for (frame, taken) in frames[..count].iter().zip(&self.taken) {
            let count = match (taken, is_added) {
                (true, false) => {
                    counts.sent_bytes += u64::from(frame.wire_bytes);
                    &mut counts.sent
                }
                (false, false) => &mut counts.refused,
                (true, true) => &mut counts.added,
                (false, true) => &mut counts.added_refused,
            };
            *count += 1;
        }
    }
}

impl<P: Port> Wire for PortWire<P> {
    fn receive(&mut self) -> Result<usize, SourceError> {
        self.batches += 1;
        if self.batches >= BATCHES_PER_LOOK {
            self.batches = 0;
            self.look();
        }
        for _ in 0..self.ports.len() {
            self.at = (self.at + 1) % self.ports.len();
            self.frames = self.ports[self.at].receive(WIRE_BATCH).map_err(failed)?;
            if self.frames > 0 {
                let counts = &mut self.counts[self.at];
                counts.received += self.frames as u64;
                for index in 0..self.frames {
                    counts.received_bytes += u64::from(self.ports[self.at].frame(index).wire_bytes);
                }
                return Ok(self.frames);
            }
        }
        Ok(0)
    }

    fn frame(&self, index: usize) -> Frame<'_> {
        let PortFrame { bytes, wire_bytes, time_ns, .. } = self.ports[self.at].frame(index);
        let mut frame = Frame::ethernet(bytes, self.at as u16, time_ns).on_queue(self.queue);
        frame.wire_bytes = wire_bytes;
        frame
    }

    fn settle(&mut self, decisions: &[Decision]) -> Result<(), SourceError> {
        let opposite = self.at ^ 1;
        let passes =
            |index: usize| matches!(decisions.get(index), Some(Decision::Pass | Decision::Mirror(_)));
        self.send_to(opposite, passes, false);
        if decisions.iter().any(|decision| matches!(decision, Decision::To(_) | Decision::Mirror(_))) {
            for to in 0..self.ports.len() {
                let is = |index: usize, what: Decision| decisions.get(index) == Some(&what);
                self.send_to(to, |index| is(index, Decision::To(to as u16)), false);
                self.send_to(to, |index| is(index, Decision::Mirror(to as u16)), true);
            }
            let nowhere = |index: usize| matches!(decisions.get(index), Some(Decision::To(to)) if usize::from(*to) >= self.counts.len());
            let lost: Vec<bool> = (0..self.frames).map(nowhere).collect();
            self.send_to(usize::MAX, |index| lost[index], false);
        }
        self.ports[self.at].release();
        self.frames = 0;
        self.rewritten.clear();
        Ok(())
    }

    /// Takes a copy: the kernel copies a frame when it is sent, wherever the frame is.
    fn rewrite(&mut self, index: usize, rewrite: &Rewrite, headers: &Headers) -> bool {
        let frame = self.ports[self.at].frame(index);
        let mut bytes = frame.bytes.to_vec();
        let is_changed = rewrite.apply(&mut bytes, headers, frame.offload.unfinished());
        if is_changed {
            self.rewritten.push((index, bytes));
        }
        is_changed
    }

    fn emit(&mut self, port: u16, bytes: &[u8]) -> bool {
        let Some(to) = self.ports.get(usize::from(port)) else { return false };
        to.send(&[PortFrame::new(bytes)], &mut self.taken);
        let is_taken = self.taken == [true];
        let counts = &mut self.counts[usize::from(port)];
        counts.added += u64::from(is_taken);
        counts.added_refused += u64::from(!is_taken);
        is_taken
    }

    fn wait(&mut self, at_most: Duration) -> Result<(), SourceError> {
        self.look();
        let mut waiting: Vec<PollFd<'_>> = self
            .ports
            .iter()
            .map(|port| PollFd::from_borrowed_fd(port.descriptor(), PollFlags::IN))
            .collect();
        let timeout =
            Timespec { tv_sec: at_most.as_secs().cast_signed(), tv_nsec: at_most.subsec_nanos().into() };
        // A signal ends the wait, as a frame does.
        let _ = poll(&mut waiting, Some(&timeout));
        let broken: Vec<bool> =
            waiting.iter().map(|fd| fd.revents().intersects(PollFlags::ERR | PollFlags::HUP)).collect();
        drop(waiting);
        for (port, _) in self.ports.iter_mut().zip(broken).filter(|(_, is_broken)| *is_broken) {
            port.recover().map_err(failed)?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), SourceError> {
        self.ports.iter_mut().try_for_each(P::close).map_err(failed)
    }

    fn finish(&mut self) -> Result<(), SourceError> {
        // The kernel has accepted the sent frames; only its counters remain to be read.
        self.look();
        Ok(())
    }

    fn ports(&self) -> Vec<PortCounts> {
        self.counts.clone()
    }

    fn withheld(&mut self) -> DropCounts {
        std::mem::take(&mut self.withheld)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::os::fd::BorrowedFd;

    /// A port in memory that rejects frames with an odd first byte.
    struct Memory {
        waiting: Vec<Vec<u8>>,
        held: Vec<Vec<u8>>,
        left: RefCell<Vec<Vec<u8>>>,
        /// An object to wait on.
        file: std::fs::File,
    }

    impl Memory {
        fn new(frames: Vec<Vec<u8>>) -> Self {
            let file = std::fs::File::open("/dev/null").unwrap();
            Self { waiting: frames, held: vec![], left: RefCell::default(), file }
        }
    }

    impl Port for Memory {
        fn receive(&mut self, most: usize) -> Result<usize, IoError> {
            let count = self.waiting.len().min(most);
            self.held = self.waiting.drain(..count).collect();
            Ok(count)
        }
        fn frame(&self, index: usize) -> PortFrame<'_> {
            PortFrame::new(&self.held[index])
        }
        fn release(&mut self) {
            self.held.clear();
        }
        fn send(&self, frames: &[PortFrame<'_>], taken: &mut Vec<bool>) {
            taken.clear();
            taken.extend(frames.iter().map(|frame| frame.bytes[0] % 2 == 0));
            let taken = frames.iter().filter(|frame| frame.bytes[0] % 2 == 0);
            self.left.borrow_mut().extend(taken.map(|frame| frame.bytes.to_vec()));
        }
        fn descriptor(&self) -> BorrowedFd<'_> {
            std::os::fd::AsFd::as_fd(&self.file)
        }
        fn missed(&mut self) -> u64 {
            0
        }
        fn close(&mut self) -> Result<(), IoError> {
            Ok(())
        }
        fn recover(&mut self) -> Result<(), IoError> {
            Ok(())
        }
        fn interface(&self) -> &'static str {
            "memory"
        }
    }

    fn decision(number: u8) -> Decision {
        match number % 4 {
            0 => Decision::Pass,
            1 => Decision::Drop,
            2 => Decision::To(u16::from(number / 4 % 5)),
            _ => Decision::Mirror(u16::from(number / 4 % 5)),
        }
    }

    proptest! {
        #[test]
        fn each_frame_leaves_its_chosen_port_once_or_is_counted(
            frames in prop::collection::vec(prop::collection::vec((any::<u8>(), any::<u8>()), 0..100), 4)
        ) {
            let bytes = |frames: &Vec<(u8, u8)>| frames.iter().map(|&(a, b)| vec![a, b]).collect();
            let mut wire = PortWire::new(frames.iter().map(bytes).map(Memory::new).collect(), 0);
            let mut expected = vec![Vec::new(); 4];
            let (mut dropped, mut refused) = (0, 0);
            loop {
                let count = wire.receive().unwrap();
                if count == 0 {
                    break;
                }
                let mut decisions = Vec::new();
                for index in 0..count {
                    let frame = wire.frame(index);
                    let (from, is_taken) = (usize::from(frame.port), frame.bytes[0] % 2 == 0);
                    let decided = decision(frame.bytes[1]);
                    let leaves = match decided {
                        Decision::Drop => { dropped += 1; None }
                        Decision::To(to) => Some(usize::from(to)),
                        Decision::Pass | Decision::Mirror(_) => Some(from ^ 1),
                    };
                    if let Some(to) = leaves {
                        match expected.get_mut(to).filter(|_| is_taken) {
                            Some(port) => port.push(frame.bytes.to_vec()),
                            None => refused += 1,
                        }
                    }
                    if let Decision::Mirror(to) = decided
                        && is_taken && to < 4 {
                        expected[usize::from(to)].push(frame.bytes.to_vec());
                    }
                    decisions.push(decided);
                }
                wire.settle(&decisions).unwrap();
            }
            let sum = |of: fn(&PortCounts) -> u64| wire.ports().iter().map(of).sum::<u64>();
            prop_assert_eq!(sum(|port| port.received), frames.iter().map(|f| f.len() as u64).sum::<u64>());
            prop_assert_eq!(sum(|port| port.received), sum(|port| port.sent) + refused + dropped);
            prop_assert_eq!(sum(|port| port.refused), refused);
            for (port, mut expected) in wire.ports.iter().zip(expected) {
                let mut left = port.left.borrow().clone();
                left.sort();
                expected.sort();
                prop_assert_eq!(left, expected);
            }
        }
    }
}
