//! Processes the packets of a shard in arrival order, regardless of which workers hold them.
//!
//! The input stage gives each packet a sequence number in its shard. A worker that holds the next
//! packet processes it. A worker that holds a later packet parks it here and continues. The worker
//! that reaches its number processes it. No worker waits for another, yet each flow's packets reach
//! its state in arrival order [FLOWNP §5.1].

use std::collections::VecDeque;

use crate::batch::packet::SEQUENCE_NUMBERS;

/// The parked packets of one shard: each arrived before an earlier one was processed.
#[derive(Debug)]
pub(crate) struct Sequencer<P> {
    next: u32,
    /// The packet with sequence number `next + i`, for each `i`. The size of the rings bounds its
    /// length.
    parked: VecDeque<Option<P>>,
}

impl<P> Default for Sequencer<P> {
    fn default() -> Self {
        Self { next: 0, parked: VecDeque::new() }
    }
}

impl<P> Sequencer<P> {
    /// Returns whether the packet with this sequence number is the next one.
    pub(crate) fn is_next(&self, number: u32) -> bool {
        self.next == number
    }

    /// Skips the next packet, which the caller processes.
    pub(crate) fn advance(&mut self) {
        self.next = (self.next + 1) % SEQUENCE_NUMBERS;
        self.parked.pop_front();
    }

    /// Keeps a later packet until its sequence number is next.
    pub(crate) fn park(&mut self, number: u32, packet: P) {
        let at = (number.wrapping_sub(self.next) % SEQUENCE_NUMBERS) as usize;
        if at >= self.parked.len() {
            self.parked.resize_with(at + 1, || None);
        }
        self.parked[at] = Some(packet);
    }

    /// Takes the next packet if it is parked.
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
