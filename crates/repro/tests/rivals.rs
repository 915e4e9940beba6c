//! Algorithms of other crates in the items: a rival equal to a built-in implementation gets the
//! same figures.

use flowloom::classifier::PaperTree;
use flowloom::classifier::aggrecuts::Stride;
use flowloom::flow_key::TableHash;
use flowloom::scheduler::registry::Policy;
use flowloom::scheduler::{
    Decision, DirectHash, LoadView, OrderGuarantee, Placement, WorkItem, WorkerCount, WorkerId,
};
use flowloom_repro::dhash::State;
use flowloom_repro::rivals::{RivalCache, RivalClassifier, RivalScheduler, RivalTable, Rivals, StateTable};
use flowloom_repro::{Context, Outcome, Scale, select};

fn outcome(item: &str, rivals: &Rivals<'_>) -> Outcome {
    let context = Context { rivals, ..Context::new(Scale::Smoke, 1, &|| true) };
    (select(item)[0].run)(&context).expect("the item runs")
}

fn measured(outcome: &Outcome, name: &str) -> f64 {
    let mut found = outcome.values.iter().filter(|value| value.name == name);
    let value = found.next().unwrap_or_else(|| panic!("no value {name}"));
    assert!(found.next().is_none());
    value.ours
}

#[test]
fn rival_scheduler_for_direct_hash_makes_the_same_decisions() {
    let same = RivalScheduler::new("same", |topology, _| {
        Ok(Policy::Push(Box::new(DirectHash::new(topology.workers()))))
    });
    let rivals = Rivals { schedulers: &[same], ..Rivals::default() };
    let found = outcome("lfb/fig8_cache_misses", &rivals);
    assert_eq!(measured(&found, "Many: same").to_bits(), measured(&found, "Many: dh").to_bits());
    let found = outcome("hrwtree/fig4_throughput", &rivals);
    assert!(measured(&found, "same over conn+os") > 0.5);
    let found = outcome("hrwtree/fig5_6_balance", &rivals);
    assert!(measured(&found, "spread of threads, same") > 1.0);
}

/// Promises a home for each flow, and deals packets to the workers in turn.
#[derive(Debug)]
struct Dealer {
    workers: WorkerCount,
    next: u16,
}

impl Placement for Dealer {
    fn place(&mut self, _items: &[WorkItem], _load: &LoadView<'_>, decisions: &mut [Decision]) {
        for decision in decisions {
            self.next = (self.next + 1) % self.workers.get();
            *decision = Decision::To(WorkerId::from(self.next));
        }
    }

    fn order(&self) -> OrderGuarantee {
        OrderGuarantee::Home
    }

    fn name(&self) -> &'static str {
        "dealer"
    }
}

#[test]
fn rival_scheduler_that_breaks_its_promise_is_not_judged() {
    let dealer = RivalScheduler::new("dealer", |topology, _| {
        Ok(Policy::Push(Box::new(Dealer { workers: topology.workers(), next: 0 })))
    });
    let rivals = Rivals { schedulers: &[dealer], ..Rivals::default() };
    let context = Context { rivals: &rivals, ..Context::new(Scale::Smoke, 1, &|| true) };
    let error = (select("lfb/fig8_cache_misses")[0].run)(&context).unwrap_err().to_string();
    assert!(error.starts_with("judging dealer: it promises Home and breaks it"), "{error}");
}

#[test]
fn rival_cache_with_the_papers_policy_has_the_same_misses() {
    let same = RivalCache::new("same", |spec| spec.build().unwrap());
    let rivals = Rivals { caches: &[same], ..Rivals::default() };
    let found = outcome("tcbcache/fig14_policies", &rivals);
    assert_eq!(measured(&found, "same, S think 4").to_bits(), 1.0_f64.to_bits());
}

#[test]
fn rival_tree_equal_to_the_papers_has_the_same_reads_and_size() {
    let same = RivalClassifier::new("same", |rules| {
        Ok(Box::new(PaperTree::aggrecuts(rules, Stride::Eight, 128 << 20)?))
    });
    let rivals = Rivals { classifiers: &[same], ..Rivals::default() };
    let words = measured(&outcome("flownp/fig7_accesses", &rivals), "same, largest stand-in");
    assert_eq!(words.to_bits(), 13_f64.to_bits());
    let found = outcome("flownp/fig8_memory", &rivals);
    let ours = measured(&found, "AggreCuts-8, as published, most of the stand-ins");
    let same = measured(&found, "same, largest stand-in");
    assert!(same >= ours && same < 3.0 * ours, "{same} {ours}");
    assert!(measured(&outcome("flownp/fig9_throughput", &rivals), "same") > 0.1);
}

/// Finds nothing, or refuses everything.
#[derive(Debug)]
struct Broken {
    accepts: bool,
}

impl StateTable for Broken {
    fn insert(&mut self, _key: [u64; 2], _hash: TableHash, _state: State) -> bool {
        self.accepts
    }

    fn get(&self, _key: &[u64; 2], _hash: TableHash) -> Option<&State> {
        None
    }
}

#[test]
fn rival_table_must_accept_and_find_all_flows() {
    let error = |accepts| {
        let table = RivalTable::new("broken", move |_| Box::new(Broken { accepts }));
        let rivals = Rivals { tables: &[table], ..Rivals::default() };
        let context = Context { rivals: &rivals, ..Context::new(Scale::Smoke, 1, &|| true) };
        (select("dhash/fig4_lookup_time")[0].run)(&context).unwrap_err().to_string()
    };
    assert!(error(false).contains("filling broken"), "{}", error(false));
    assert!(error(true).contains("looking up flows in broken"), "{}", error(true));
}
