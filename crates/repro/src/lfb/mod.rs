//! *Packet Scheduling for Deep Packet Inspection on Multi-Core Architectures*, from the slides of a
//! talk on it; its claims are in `docs/papers/lfb.md`.

mod fig10_11_half_cache;
mod fig2_4_throughput;
mod fig6_average_latency;
mod fig7_maximum_latency;
mod fig8_cache_misses;
mod latency;
mod table1_captures;

use flowloom::scheduler::sim::models::Model;

use crate::experiment::Item;

/// In the order of the slides.
pub const ITEMS: &[Item] = &[
    table1_captures::ITEM,
    fig2_4_throughput::ITEM,
    fig6_average_latency::ITEM,
    fig7_maximum_latency::ITEM,
    fig8_cache_misses::ITEM,
    fig10_11_half_cache::ITEM,
];

/// The captures of the slides.
const CAPTURES: [(&str, Model); 3] =
    [("Dominant", Model::Dominant), ("Many", Model::Many), ("Balanced", Model::Balanced)];

/// The least ratio at which a scheme is ahead of another: what a single capture differs by is less.
const AHEAD: f64 = 1.01;
