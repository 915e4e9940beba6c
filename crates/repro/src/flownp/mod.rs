//! *Towards High-performance Flow-level Packet Processing on Multi-core Network Processors*; its
//! claims are in `docs/papers/flownp.md`.

mod fig10_direct_vs_signature;
mod fig10_threads;
mod fig11_drops;
mod fig12_epo_ipo;
mod fig5_exceptions;
mod fig7_accesses;
mod fig8_memory;
mod fig9_throughput;
mod memory_channels;
mod ordering;
mod pointer_forms;
mod rule_sets;
mod section4_accesses;
mod section4_sizes;
mod section5_2_2_crc;
mod table3_hash_collisions;
mod worst_case;

use crate::experiment::Item;

/// In the paper's order.
pub const ITEMS: &[Item] = &[
    worst_case::ITEM,
    pointer_forms::ITEM,
    table3_hash_collisions::ITEM,
    fig5_exceptions::ITEM,
    section4_accesses::ITEM,
    section4_sizes::ITEM,
    fig7_accesses::ITEM,
    fig8_memory::ITEM,
    fig9_throughput::ITEM,
    fig10_direct_vs_signature::ITEM,
    fig10_threads::ITEM,
    section5_2_2_crc::ITEM,
    fig11_drops::ITEM,
    fig12_epo_ipo::ITEM,
];
