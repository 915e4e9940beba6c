//! *DHash: A Cache-Friendly TCP Lookup Algorithm for Fast Network Processing*; the ledger is `docs/papers/dhash.md`.

mod section4_false_positives;
mod section4_load_factor;
mod table5_comparisons;
mod workload;

use crate::experiment::Item;

/// In the paper's order.
pub(super) const ITEMS: &[Item] =
    &[section4_load_factor::ITEM, section4_false_positives::ITEM, table5_comparisons::ITEM];
