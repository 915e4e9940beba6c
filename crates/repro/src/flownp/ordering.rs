//! The machine for the items on order: queues and threads, without separate caches [FLOWNP §5.2.1].

use flowloom::scheduler::sim::Machine;
use flowloom::scheduler::sim::machine::CacheModel;

use crate::experiment::ItemError;
use crate::virtual_time::topology;

/// Returns a machine of threads with one queue each, which a hardware queue manager fills at no
/// cost.
pub(super) fn queues(threads: u32) -> Result<Machine, ItemError> {
    let free = CacheModel {
        shared_cycles: 0,
        remote_cycles: 0,
        memory_cycles: 0,
        private_flows: 64,
        shared_flows: 2500,
    };
    Ok(Machine {
        cache: free,
        take_cycles: 0,
        dispatch_cycles: 1,
        ..Machine::xeon(topology(&threads.to_string())?)
    })
}
