//! Packets of a shard in arrival order, whichever workers have them.
//!
//! The input stage numbers the packets of each shard. A worker that has the next one processes it; one that has a later
//! packet parks it here and goes on, and the worker that reaches its number processes it. So no worker waits for
//! another, and each flow's packets meet its state in the order of arrival [FLOWNP §5.1].

use std::collections::VecDeque;

use crate::batch::packet::SEQUENCE_NUMBERS;

/// The packets of one shard that arrived before an earlier one was processed.
#[derive(Debug)]
pub(crate) struct Sequencer<P> {
    next: u32,
    /// The packet of number `next + i`, for each `i`; as many at most as may be in rings.
    parked: VecDeque<Option<P>>,
}

impl<P> Default for Sequencer<P> {
    fn default() -> Self {
        Self { next: 0, parked: VecDeque::new() }
    }
}

impl<P> Sequencer<P> {
    /// Returns whether the packet of this number is the next.
    pub(crate) fn is_next(&self, number: u32) -> bool {
        self.next == number
    }

    /// Passes over the next packet, which the caller processes.
    pub(crate) fn advance(&mut self) {
        self.next = (self.next + 1) % SEQUENCE_NUMBERS;
        self.parked.pop_front();
    }

    /// Keeps a later packet until its number comes.
    pub(crate) fn park(&mut self, number: u32, packet: P) {
        let at = (number.wrapping_sub(self.next) % SEQUENCE_NUMBERS) as usize;
        if at >= self.parked.len() {
            self.parked.resize_with(at + 1, || None);
        }
        self.parked[at] = Some(packet);
    }

    /// Takes the next packet, if it is parked.
    pub(crate) fn take(&mut self) -> Option<P> {
        let packet = self.parked.front_mut()?.take()?;
        self.advance();
        Some(packet)
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_out_in_the_order_of_their_numbers_also_when_numbers_begin_again() {
        let mut sequencer = Sequencer { next: SEQUENCE_NUMBERS - 2, parked: VecDeque::new() };
        let numbers = [1, SEQUENCE_NUMBERS - 1, 0, SEQUENCE_NUMBERS - 2, 3, 2];
        let mut out = Vec::new();
        for number in numbers {
            if sequencer.is_next(number) {
                sequencer.advance();
                out.push(number);
            } else {
                sequencer.park(number, number);
            }
            out.extend(std::iter::from_fn(|| sequencer.take()));
        }
        assert_eq!(out, [SEQUENCE_NUMBERS - 2, SEQUENCE_NUMBERS - 1, 0, 1, 2, 3]);
        assert!(sequencer.parked.is_empty());
    }
}
