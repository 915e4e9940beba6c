//! CLOCK: first in, first out, but a key that was used since the hand last passed stays for another
//! round.

use super::one_queue::Order;
use super::queues::{END, Queues};

#[derive(Clone, Debug)]
pub(crate) struct Clock;

impl Order for Clock {
    #[inline(always)]
    fn hit(queue: &mut Queues<1>, node: u32) {
        queue.set_mark(node, 1);
    }

    fn before_eviction(queue: &mut Queues<1>) {
        let mut hand = queue.back(0);
        while hand != END && queue.mark(hand) == 1 {
            queue.set_mark(hand, 0);
            queue.move_to(0, hand);
            hand = queue.back(0);
        }
    }
}
