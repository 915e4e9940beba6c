//! *DHash: A Cache-Friendly TCP Lookup Algorithm for Fast Network Processing*; its claims are in
//! `docs/papers/dhash.md`.

mod fig4_lookup_time;
mod fig6_cores;
mod fig7_major_location;
mod section3_symmetry;
mod section4_false_positives;
mod section4_load_factor;
mod section6_conflicts;
mod table1_where_time_goes;
mod table2_traces;
mod table3_stage_cycles;
mod table4_signatures;
mod table5_comparisons;
mod virtual_cores;
mod workload;

use crate::experiment::Item;
pub use crate::rivals::State;

/// In the order of the paper.
pub const ITEMS: &[Item] = &[
    table1_where_time_goes::ITEM,
    section3_symmetry::ITEM,
    section4_load_factor::ITEM,
    section4_false_positives::ITEM,
    table2_traces::ITEM,
    fig4_lookup_time::ITEM,
    table3_stage_cycles::ITEM,
    fig6_cores::ITEM,
    section6_conflicts::ITEM,
    table4_signatures::ITEM,
    fig7_major_location::ITEM,
    table5_comparisons::ITEM,
];
