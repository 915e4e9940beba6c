//! *A New TCB Cache to Efficiently Manage TCP Sessions for Web Servers*; its claims are in
//! `docs/papers/tcbcache.md`.

mod fig11_example;
mod fig12_miss_ratios;
mod fig13_bits;
mod fig14_policies;
mod fig15_size;
mod fig16_ways;
mod fig17_offload;
mod fig18_host;
mod fig1b_miss_share;
mod fig2_sessions;
mod fig3_gaps;
mod fig4_index;
mod fig5_set_loads;
mod fig7_bit_means;
mod section3_4_stamps;
mod section4_1_draws;
mod workload;

use crate::experiment::Item;

/// In the paper's order.
pub(super) const ITEMS: &[Item] = &[
    fig1b_miss_share::ITEM,
    fig2_sessions::ITEM,
    fig3_gaps::ITEM,
    fig4_index::ITEM,
    fig5_set_loads::ITEM,
    fig7_bit_means::ITEM,
    fig11_example::ITEM,
    section3_4_stamps::ITEM,
    section4_1_draws::ITEM,
    fig12_miss_ratios::ITEM,
    fig13_bits::ITEM,
    fig14_policies::ITEM,
    fig15_size::ITEM,
    fig16_ways::ITEM,
    fig17_offload::ITEM,
    fig18_host::ITEM,
];
