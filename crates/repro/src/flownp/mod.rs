//! *Towards High-performance Flow-level Packet Processing on Multi-core Network Processors*; the ledger is
//! `docs/papers/flownp.md`.

mod fig7_accesses;
mod fig8_memory;
mod fig9_throughput;
mod pointer_forms;
mod rule_sets;
mod worst_case;

use crate::experiment::Item;

/// In the paper's order.
pub(super) const ITEMS: &[Item] =
    &[worst_case::ITEM, pointer_forms::ITEM, fig7_accesses::ITEM, fig8_memory::ITEM, fig9_throughput::ITEM];
