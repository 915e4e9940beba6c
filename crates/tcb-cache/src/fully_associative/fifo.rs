//! First in, first out.

use super::one_queue::Order;
use super::queues::Queues;

#[derive(Clone, Debug)]
pub(crate) struct FullFifo;

impl Order for FullFifo {
    #[inline(always)]
    fn hit(_queue: &mut Queues<1>, _node: u32) {}
}
