//! `Debug` output remains readable for large values, and contains no secret.

use std::fmt::Debug;

use flowloom::apps::firewall::{Defaults, FirewallRules, LiveRules};
use flowloom::apps::{L7Options, L7Plan, TcpTracker};
use flowloom::classifier::ClassifierBuilder;
use flowloom::classifier::aggrecuts;
use flowloom::classifier::hicuts::{HiCuts, HiCutsConfig};
use flowloom::classifier::synth::{self, Profile};
use flowloom::dpi::{Scanner, builtin};
use flowloom::engine::{Control, EngineConfig, Layout, run};
use flowloom::flow_key::FlowHasher;
use flowloom::flow_table::baseline::{Chained, DirectTable};
use flowloom::flow_table::{DHash, FlowKey, LineHash, SigHash, TableOptions};
use flowloom::packet::{DecodeOptions, PacketBatch, PacketSource};
use flowloom::scheduler::{
    Cached, DirectHash, Fixed, FlowBurst, FlowPin, FlowPull, HrwTree, Topology, WorkerCount,
};
use flowloom::tcb_cache::bounds::NextUses;
use flowloom::tcb_cache::{Access, Trace};
use flowloom::traffic::capture::{CaptureSet, Input, SetOptions};
use flowloom::traffic::defrag::{Defrag, DefragLimits};
use flowloom::traffic::synth::{FrameSize, Generated, Mix, MixConfig};

/// Maximum number of characters: a batch has 32 packets, and a tree of 64 workers has its weights.
const LENGTH_MAX: usize = 20_000;

fn look(name: &str, thing: &impl Debug) {
    let text = format!("{thing:?}");
    assert!(text.contains(char::is_alphabetic), "{name}: '{text}' says nothing");
    assert!(text.len() <= LENGTH_MAX, "{name}: {} characters", text.len());
}

const FLOWS: u32 = 10_000;

fn capture() -> CaptureSet {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/small/campus.pcap");
    CaptureSet::open(&[Input::Path(path.into())], SetOptions::default()).expect("a committed sample")
}

#[test]
fn debug_output_of_tables_has_only_figures() {
    look("linehash", &LineHash::<FlowKey, u64>::try_new(&TableOptions::for_flows(FLOWS)).unwrap());
    look("dhash", &DHash::<FlowKey, u64>::try_new(&TableOptions::for_flows(FLOWS)).unwrap());
    look("sighash", &SigHash::<FlowKey, u64>::try_new(&TableOptions::for_flows(FLOWS)).unwrap());
    look("chained", &Chained::<FlowKey, u64>::try_new(&TableOptions::for_flows(FLOWS)).unwrap());
    look("direct", &DirectTable::<FlowKey, u64>::try_new(&TableOptions::for_flows(FLOWS)).unwrap());
    look("hasher", &FlowHasher::random());
}

#[test]
fn debug_output_of_sets_trees_and_scanners_has_only_sizes() {
    let set = synth::rules(Profile::Acl, 2000, 1, false).unwrap();
    look("classifier", &ClassifierBuilder::new().build(&set).unwrap());
    look(
        "hicuts",
        &HiCuts::build(
            &set,
            HiCutsConfig { memory_bytes_max: 1 << 30, steps_max: 1 << 40, ..HiCutsConfig::new(8, 2.0) },
        )
        .map_err(|e| e.to_string()),
    );
    look(
        "tree",
        &aggrecuts::AggreCuts::build(
            &set,
            aggrecuts::Stride::Eight,
            aggrecuts::Sharing::default(),
            aggrecuts::Limits::default(),
        )
        .unwrap(),
    );
    let firewall = FirewallRules::build(set, Defaults::default(), ClassifierBuilder::new()).unwrap();
    look("firewall", &firewall);
    look("liverules", &LiveRules::new(firewall));
    look("scanner", &Scanner::new(&builtin()).unwrap());
    look("l7plan", &L7Plan::new(&builtin(), L7Options::default()).unwrap());
}

#[test]
fn debug_output_of_sources_and_batches_has_no_packet_bytes() {
    let mut source = capture();
    look("set", &source);
    let mut batch = PacketBatch::new();
    source.next_batch(&mut batch).unwrap();
    look("batch", &batch);
    look("block", &batch.block);
    look("defrag", &Defrag::new(capture(), DecodeOptions::new(), DefragLimits::default()));
    look("mix", &Mix::new(MixConfig::default()).unwrap());
    let jumbo = MixConfig { size: FrameSize::Fixed(9018), ..MixConfig::default() };
    let mut generated = Generated::new(Mix::new(jumbo).unwrap());
    generated.next_batch(&mut PacketBatch::new()).unwrap();
    look("generated", &generated);
}

#[test]
fn debug_output_of_runs_has_neither_flows_nor_secrets() {
    let mut policy = DirectHash::new(WorkerCount::new(1).unwrap());
    let config = EngineConfig::new(Layout::Inline);
    look("config", &config);
    assert!(format!("{config:?}").contains("FlowHasher(secret)"));
    let control = Control::default();
    let table = |_| LineHash::try_new(&TableOptions::for_flows(FLOWS));
    let report = run(&config, &mut capture(), &mut policy, table, |_| TcpTracker, &control).unwrap();
    look("control", &control);
    look("flows", &report.flows);
    look("report", &report);
}

#[test]
fn debug_output_of_traces_and_policies_has_no_entries() {
    let accesses: Vec<Access> = (0..100_000).map(|i| Access::new(i, i)).collect();
    look("nextuses", &NextUses::new(&accesses, false).unwrap());
    look("trace", &Trace::new(accesses, 0));
    let topology: Topology = "8x2x4".parse().unwrap();
    look("topology", &topology);
    look("fixed", &Fixed::new(&topology, 12).unwrap());
    look("flowburst", &FlowBurst::new(&topology, 12).unwrap());
    look("cached", &Cached::new(HrwTree::new(&topology), 12).unwrap());
    look("flowpull", &FlowPull::new(&topology, 12).unwrap());
    look("flowpin", &FlowPin::new(&topology, FlowPin::BITS).unwrap());
}
