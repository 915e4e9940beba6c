//! Types that can be sent to or shared between threads, and errors that can be boxed, as checked by
//! the compiler.

use flowloom::apps::firewall::{FirewallRules, LiveRules};
use flowloom::apps::{Accounting, CaptureSink, Firewall, L7Filter, L7Plan, TcpFlow, TcpTracker};
use flowloom::classifier::hicuts::HiCuts;
use flowloom::classifier::{Classifier, ClassifierBuilder, RuleSet};
use flowloom::dpi::stream::{Sequencer, Window};
use flowloom::dpi::{ScanState, Scanner};
use flowloom::engine::{
    Control, EngineConfig, Fault, FlowResults, ResultDigest, RunReport, SeededError, SinkError, StartError,
};
use flowloom::flow_key::{FlowHasher, FlowKey};
use flowloom::flow_table::baseline::{Chained, DirectTable};
use flowloom::flow_table::{BuildError, DHash, FlowIndex, Growing, LineHash, SigHash};
use flowloom::packet::{PacketBatch, SharedBlock, SourceError};
use flowloom::scheduler::{FlowPin, FlowPull, Placement, PullPolicy, Topology};
use flowloom::tcb_cache::{Simulator, Trace};
use flowloom::traffic::capture::{Capture, CaptureError, CaptureSet, SetProgress};
use flowloom::traffic::defrag::Defrag;
use flowloom::traffic::synth::{Mix, PaperTrace};

type Table = LineHash<FlowKey, u64>;

fn moves<T: Send>() {}

fn is_shared<T: Send + Sync>() {}

fn is_carried<T: std::error::Error + Send + Sync + 'static>() {}

#[test]
fn tables_sets_and_scanners_are_send_and_sync() {
    is_shared::<LineHash<FlowKey, u64>>();
    is_shared::<FlowIndex<FlowKey>>();
    is_shared::<DHash<FlowKey, u64>>();
    is_shared::<SigHash<FlowKey, u64>>();
    is_shared::<Chained<FlowKey, u64>>();
    is_shared::<DirectTable<FlowKey, u64>>();
    is_shared::<FlowHasher>();
    is_shared::<RuleSet>();
    is_shared::<ClassifierBuilder>();
    is_shared::<Classifier>();
    is_shared::<HiCuts>();
    is_shared::<Scanner>();
    is_shared::<L7Plan>();
    is_shared::<FirewallRules>();
    is_shared::<LiveRules>();
    is_shared::<Control>();
    is_shared::<EngineConfig>();
    is_shared::<SharedBlock>();
    is_shared::<SetProgress>();
    is_shared::<Topology>();
    is_shared::<Trace>();
    is_shared::<ResultDigest>();
    is_shared::<FlowResults<TcpFlow>>();
    is_shared::<RunReport<TcpFlow>>();
}

#[test]
fn sources_policies_sinks_and_applications_are_send() {
    moves::<CaptureSet>();
    moves::<Capture>();
    moves::<Defrag<CaptureSet>>();
    moves::<Mix>();
    moves::<PaperTrace>();
    moves::<PacketBatch>();
    moves::<Box<dyn Placement>>();
    moves::<Box<dyn PullPolicy>>();
    moves::<FlowPin>();
    moves::<FlowPull>();
    moves::<ScanState>();
    moves::<Sequencer>();
    moves::<Window>();
    moves::<CaptureSink<std::fs::File>>();
    moves::<TcpTracker>();
    moves::<Firewall>();
    moves::<Accounting>();
    moves::<L7Filter>();
    moves::<Box<dyn Simulator + Send>>();
    moves::<Growing<FlowKey, u64, Table>>();
}

#[test]
fn errors_are_send_sync_and_static() {
    is_carried::<SourceError>();
    is_carried::<SinkError>();
    is_carried::<CaptureError>();
    is_carried::<StartError>();
    is_carried::<SeededError>();
    is_carried::<Fault>();
    is_carried::<BuildError>();
    is_carried::<flowloom::flow_table::Full>();
    is_carried::<flowloom::classifier::BuildError>();
    is_carried::<flowloom::rules::load::LoadError>();
    is_carried::<flowloom::dpi::BuildError>();
    is_carried::<flowloom::dpi::load::LoadError>();
    is_carried::<flowloom::apps::L7Error>();
    is_carried::<flowloom::scheduler::SetupError>();
    is_carried::<flowloom::tcb_cache::SimulateError>();
    is_carried::<flowloom::tcb_cache::trace::ReadError>();
}
