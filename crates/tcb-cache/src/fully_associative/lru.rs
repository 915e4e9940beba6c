//! Least recently used.

use super::one_queue::Order;
use super::queues::Queues;

#[derive(Clone, Debug)]
pub(crate) struct FullLru;

impl Order for FullLru {
    #[inline(always)]
    fn hit(queue: &mut Queues<1>, node: u32) {
        queue.move_to(0, node);
    }
}
