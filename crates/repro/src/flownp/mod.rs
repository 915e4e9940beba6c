//! *Towards High-performance Flow-level Packet Processing on Multi-core Network Processors*; the ledger is
//! `docs/papers/flownp.md`.

mod fig10_direct_vs_signature;
mod fig11_drops;
mod fig12_epo_ipo;
mod fig5_exceptions;
mod ordering;
mod section4_accesses;
mod section4_sizes;
mod section5_2_2_crc;
mod table3_hash_collisions;

use crate::experiment::Item;

/// In the paper's order.
pub const ITEMS: &[Item] = &[
    table3_hash_collisions::ITEM,
    fig5_exceptions::ITEM,
    section4_accesses::ITEM,
    section4_sizes::ITEM,
    fig10_direct_vs_signature::ITEM,
    section5_2_2_crc::ITEM,
    fig11_drops::ITEM,
    fig12_epo_ipo::ITEM,
];
