//! *An Adaptive Hash-based Multilayer Scheduler for L7-filter on a Highly Threaded Hierarchical
//! Multi-Core Server*; its claims are in `docs/papers/hrwtree.md`.

mod fig1_scaling;
mod fig4_throughput;
mod fig5_6_balance;
mod fig7_8_overhead;
mod section3_1_flat;
mod section3_2_tree;
mod section3_3_threshold;
mod section4_4_sensitivity;
mod shares;
mod table1_forms;

use crate::experiment::Item;

/// In the paper's order.
pub const ITEMS: &[Item] = &[
    fig1_scaling::ITEM,
    section3_1_flat::ITEM,
    section3_2_tree::ITEM,
    section3_3_threshold::ITEM,
    table1_forms::ITEM,
    fig4_throughput::ITEM,
    section4_4_sensitivity::ITEM,
    fig5_6_balance::ITEM,
    fig7_8_overhead::ITEM,
];
