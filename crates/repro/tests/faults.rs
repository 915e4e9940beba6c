//! Introduces faults and disables mechanisms: an item of the paper concerned detects each, by its
//! verdict or by a band, and in either case the value without it lies outside a band.

use flowloom_repro::{Context, Noticed, PAPERS, Plan, Scale, examine, select};

/// Item and switch. The first twelve are faults that verdicts did not detect in the past.
const PLANTED: [(&str, &str); 34] = [
    ("tcbcache/fig12", "migration"),
    ("lfb/fig2_4", "last-worker"),
    ("lfb/fig2_4", "caches"),
    ("lfb/fig8", "last-worker"),
    ("hrwtree/section3_3", "threshold"),
    ("hrwtree/section3_1", "constant"),
    ("dhash/section6", "lists"),
    ("dhash/table5", "lists"),
    ("dhash/table4", "lists"),
    ("dhash/table4", "halves"),
    ("flownp/fig12", "exit-order"),
    ("flownp/fig5", "half-the-buckets"),
    ("flownp/fig12", "five-tuple"),
    ("tcbcache/fig12", "two-hashes"),
    ("tcbcache/fig12", "fewer-on"),
    ("tcbcache/fig14", "speculation"),
    ("tcbcache/fig11", "migration"),
    ("tcbcache/fig5", "two-functions"),
    ("flownp/section4_accesses", "signatures"),
    ("flownp/table3", "digest"),
    ("flownp/fig11", "five-tuple"),
    ("dhash/table5", "major-location"),
    ("hrwtree/section3_2", "unique-numbers"),
    ("hrwtree/section3_3", "feedback"),
    ("hrwtree/table1", "feedback"),
    ("hrwtree/fig4", "feedback"),
    ("hrwtree/fig4", "os-moves"),
    ("hrwtree/fig5_6", "feedback"),
    ("hrwtree/fig1", "os-moves"),
    ("hrwtree/fig4", "caches"),
    ("lfb/fig6", "imbalance"),
    ("lfb/fig7", "last-worker"),
    ("lfb/fig7", "caches"),
    ("flownp/fig10_direct_vs_signature", "signatures"),
];

/// Returns the faults of a paper that its items do not detect.
fn unnoticed(paper: &str) -> Vec<String> {
    let mut items: Vec<&str> =
        PLANTED.iter().map(|(item, _)| *item).filter(|item| item.starts_with(paper)).collect();
    items.sort_unstable();
    items.dedup();
    let mut unnoticed = Vec::new();
    for name in items {
        let item = select(name).pop().expect("a name of an item");
        let context = Context::new(Scale::Smoke, 1, &|| true);
        let examined = examine(item, &context, Plan { ablate: true, ..Plan::default() }).expect("it runs");
        for (_, switch) in PLANTED.iter().filter(|(item, _)| *item == name) {
            let ablation = examined.ablations.iter().find(|ablation| ablation.switch == *switch);
            match ablation.map(|ablation| (ablation.noticed, ablation.outside.is_empty())) {
                Some((Noticed::No, _)) => unnoticed.push(format!("{name}: {switch}")),
                Some((_, true)) => unnoticed.push(format!("{name}: all bands accept {switch}")),
                Some(_) if ablation.is_some_and(|one| !one.outside.contains(&one.effects[0].name)) => {
                    unnoticed.push(format!("{name}: {switch} is reported by a value inside its band"));
                }
                Some(_) => {}
                None => unnoticed.push(format!("{name} has no switch {switch}")),
            }
        }
    }
    unnoticed
}

#[test]
fn dhash_detects_injected_faults() {
    assert_eq!(unnoticed("dhash"), Vec::<String>::new());
}

#[test]
fn flownp_detects_injected_faults() {
    assert_eq!(unnoticed("flownp"), Vec::<String>::new());
}

#[test]
fn tcbcache_detects_injected_faults() {
    assert_eq!(unnoticed("tcbcache"), Vec::<String>::new());
}

#[test]
fn hrwtree_detects_injected_faults() {
    assert_eq!(unnoticed("hrwtree"), Vec::<String>::new());
}

#[test]
fn lfb_detects_injected_faults() {
    assert_eq!(unnoticed("lfb"), Vec::<String>::new());
}

#[test]
fn every_switch_and_assumption_has_a_described_effect() {
    for item in PAPERS.iter().flat_map(|paper| paper.items) {
        let has_switches = !item.switches.is_empty();
        assert_ne!(
            has_switches,
            !item.unswitched.is_empty(),
            "{}: switches, or why there are none",
            item.id
        );
        for switch in item.switches {
            assert!(!switch.about.is_empty(), "{}: {}", item.id, switch.name);
            assert_eq!(item.switches.iter().filter(|other| other.name == switch.name).count(), 1);
        }
        for guess in item.guesses {
            assert!(guess.points().len() > 1, "{}: {} has one value", item.id, guess.name);
            assert!(guess.points().iter().all(|point| guess.accepts(*point)), "{}", guess.name);
            assert_eq!(
                guess.bounds.is_none(),
                guess.unit.is_empty(),
                "{} is a choice or has bounds",
                guess.name
            );
        }
    }
}
