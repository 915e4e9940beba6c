//! Reproduces the tables and figures of the papers, in one file each.
//!
//! ```text
//!  Item ──run(Context)──▶ Outcome: values (paper, ours, band) · charts · verdict
//!    by seed, without each mechanism, over each guess
//!       ──examine(Plan)──▶ Examined: medians, one verdict, ablations, sweeps
//!                         ──▶ Reproduction ──▶ CSV SVG JSON HTML
//! ```
//!
//! To add an item, write a file with a `pub(super) const ITEM: Item`, and list it in the `ITEMS` of
//! its paper. The command line, the report and the tests find it there. An item that claims an
//! effect names the [mechanisms](Switch) to which the paper attributes it: a verdict that does not
//! change without them is no evidence for the paper.
//!
//! Every item runs at three [scales](Scale); tests use the smallest one.

#![expect(clippy::cast_precision_loss, reason = "counts and sizes far below 2⁵², for readers")]
#![expect(clippy::unnecessary_wraps, reason = "every item runs alike, and some cannot fail")]

pub mod dhash;
pub mod examine;
pub mod experiment;
pub mod flownp;
pub mod hrwtree;
pub mod lfb;
pub mod machine;
pub mod page;
pub mod record;
mod report_files;
pub mod rivals;
pub mod tcbcache;
mod timing;
pub mod value;
pub mod variation;
mod virtual_time;

pub use examine::{Ablation, Effect, Noticed, Plan, Sweep, examine};
pub use experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Scale};
pub use machine::Machine;
pub use record::{Record, RecordError, Reproduction, SCHEMA};
pub use value::{Band, Bound, Interval, Value};
pub use variation::{Guess, Switch, SwitchKind};

/// A paper and its items.
#[derive(Clone, Copy, Debug)]
pub struct Paper {
    /// Its key, in lower case.
    pub key: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Its items, in the paper's order.
    pub items: &'static [Item],
}

/// All papers that are reproduced at least in part.
pub const PAPERS: &[Paper] = &[
    Paper {
        key: "dhash",
        title: "DHash: A Cache-Friendly TCP Lookup Algorithm for Fast Network Processing",
        items: dhash::ITEMS,
    },
    Paper {
        key: "flownp",
        title: "Towards High-performance Flow-level Packet Processing on Multi-core Network Processors",
        items: flownp::ITEMS,
    },
    Paper {
        key: "tcbcache",
        title: "A New TCB Cache to Efficiently Manage TCP Sessions for Web Servers",
        items: tcbcache::ITEMS,
    },
    Paper {
        key: "hrwtree",
        title: "An Adaptive Hash-based Multilayer Scheduler for L7-filter on a Highly Threaded Hierarchical Multi-Core Server",
        items: hrwtree::ITEMS,
    },
    Paper {
        key: "lfb",
        title: "Packet Scheduling for Deep Packet Inspection on Multi-Core Architectures (slides of a talk on it)",
        items: lfb::ITEMS,
    },
];

/// Returns the items that a name selects: `all`, a paper, or an item; empty if there is none.
pub fn select(name: &str) -> Vec<&'static Item> {
    let all = PAPERS.iter().flat_map(|paper| paper.items);
    all.filter(|item| {
        name == "all" || name == item.paper() || name == item.id || {
            // `dhash/table5` selects `dhash/table5_comparisons`.
            name.contains('/') && item.id.strip_prefix(name).is_some_and(|rest| rest.starts_with('_'))
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_and_begin_with_their_paper() {
        let mut ids: Vec<&str> = select("all").iter().map(|item| item.id).collect();
        for paper in PAPERS {
            assert!(paper.items.iter().all(|item| item.paper() == paper.key && !item.name().is_empty()));
            for item in paper.items {
                assert!(!item.numbers.is_empty(), "{} says from where the paper's numbers are", item.id);
                let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
                assert!(root.join(item.source()).is_file(), "{} is in the file of its name", item.id);
            }
        }
        ids.sort_unstable();
        let count = ids.len();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }

    #[test]
    fn names_select_their_items() {
        assert_eq!(select("dhash").len(), dhash::ITEMS.len());
        assert_eq!(select("dhash/table5")[0].id, "dhash/table5_comparisons");
        assert!(select("dhash/table").is_empty());
        assert!(select("nothing").is_empty());
    }
}
