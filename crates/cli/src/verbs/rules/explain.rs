//! Explains which rule decides a packet: one that options describe, or one of a capture.

use std::path::Path;

use flowloom::apps::firewall::{Connections, Enforcement, describe};
use flowloom::classifier::{Action, ClassifierBuilder, RuleId};
use flowloom::flow_key::FiveTuple;
use flowloom::packet::{Fill, InterfaceName, PacketBatch, PacketSource, PacketView, decode};
use flowloom::rules::firewall::{
    Assume, ConnectionState, Fragment, Knowledge, NetworkBytes, Packet, PolicyMatcher, Possible, Truth,
};
use flowloom::traffic::capture::{CaptureSet, Input, SetOptions};

use super::file_rules::{CONNECTIONS_MAX, line, verdict};
use crate::args::Common;
use crate::args::rules::{AssumeName, EnforceOptions, Explain, FragmentName};
use crate::exit::{Failure, Status};
use crate::interface;
use crate::render::print;
use crate::render::rules::{ExplainLine, ExplainResult};
use crate::rule_file::{self, RuleFile};

/// Runs the command.
pub(super) fn run(arguments: &Explain, common: &Common) -> Result<Status, Failure> {
    let file = rule_file::read(&arguments.options)?;
    match (&arguments.capture, arguments.packet) {
        (Some(capture), Some(number)) => {
            // A capture shows where packets come in, or leave, by the chain.
            let options = EnforceOptions {
                input: arguments.input.clone(),
                output: arguments.output.clone(),
                assume: Some(AssumeName::NoMatch),
            };
            let of_capture = || interface::of_captures(std::slice::from_ref(capture));
            let located = file.enforcement(&options, Knowledge::default(), &of_capture)?;
            let (packet, interface) = captured(&file, arguments, &located, capture, number)?;
            let mut packet = located.locate(packet, 0, interface);
            packet.state = arguments.state.or(packet.state);
            explain(&file, arguments, &packet, common)
        }
        _ => explain(&file, arguments, &described(&file, arguments)?, common),
    }
}

/// Returns the packet that the options describe.
fn described<'a>(file: &RuleFile, arguments: &'a Explain) -> Result<Packet<'a>, Failure> {
    let (Some(source), Some(destination), Some(protocol)) =
        (arguments.source, arguments.destination, arguments.protocol)
    else {
        return Err(Failure::Usage(String::from("name a source, a destination and a protocol")));
    };
    if source.is_ipv4() != destination.is_ipv4() {
        return Err(Failure::Usage(format!(
            "{source} and {destination} are of different address families"
        )));
    }
    let tuple = FiveTuple {
        source: source.ip(),
        destination: destination.ip(),
        source_port: source.port(),
        destination_port: destination.port(),
        protocol,
    };
    let fragment = match arguments.fragment {
        FragmentName::Whole => Fragment::Whole,
        FragmentName::First => Fragment::First,
        FragmentName::Later => Fragment::Later,
    };
    let mut packet = Packet::new(tuple).with_fragment(fragment);
    packet.tcp_flags = arguments.tcp_flags;
    packet.icmp = arguments.icmp_type;
    packet.state = arguments.state;
    packet.input = arguments.input.as_deref();
    packet.output = arguments.output.as_deref();
    packet.length = arguments.length;
    if file.policy.untracks(&packet) == Truth::Yes {
        packet.state = packet.state.or(Some(ConnectionState::Untracked));
    }
    Ok(packet)
}

/// Returns a packet of a capture, and the interface that captured it. If the rules ask for states,
/// the rules judge the packets before it, without rules that may match.
fn captured(
    file: &RuleFile,
    arguments: &Explain,
    enforcement: &Enforcement,
    path: &Path,
    number: u64,
) -> Result<(Packet<'static>, InterfaceName), Failure> {
    let matcher = file.policy.asks_state().then(|| {
        PolicyMatcher::build(file.policy.clone(), ClassifierBuilder::new())
            .map_err(|error| Failure::Usage(error.to_string()))
    });
    let matcher = matcher.transpose()?;
    let options = arguments.decoding.options()?;
    let options = options.with_errors_by_flow(options.errors_by_flow || matcher.is_some());
    let mut source = CaptureSet::open(&[Input::from_argument(path)], SetOptions::default())?;
    let mut connections = Connections::new(CONNECTIONS_MAX);
    let mut batch = PacketBatch::new();
    let mut packets = 0;
    loop {
        match source.next_batch(&mut batch) {
            Ok(Fill::Packets) => {}
            Ok(Fill::Starved) => continue,
            Ok(Fill::End) => {
                return Err(Failure::Usage(format!(
                    "--packet {number}: {} has {packets} packets",
                    path.display()
                )));
            }
            Err(error) => return Err(Failure::Input(error.to_string())),
        }
        let Some(block) = &batch.block else { continue };
        for raw in &batch.packets {
            packets += 1;
            let is_wanted = packets == number;
            if matcher.is_none() && !is_wanted {
                continue;
            }
            let bytes = raw.bytes_in(block.bytes());
            let mut headers = match decode(raw.link, bytes, options) {
                Ok(headers) => headers,
                Err(reason) if is_wanted => {
                    return Err(Failure::Input(format!(
                        "packet {number} of {} has no headers that rules match: {reason}",
                        path.display()
                    )));
                }
                Err(_) => continue,
            };
            headers.interface = raw.interface;
            let wire = headers.fit_to_wire(bytes, raw.wire_bytes);
            let view = PacketView::new(bytes, headers, raw.time_ns, wire);
            let mut packet = enforcement.locate(describe(&view), 0, raw.interface);
            if let Some(matcher) = &matcher {
                let is_untracked = match file.policy.untracks(&packet) {
                    Truth::Maybe => None,
                    truth => Some(truth == Truth::Yes),
                };
                packet.state = connections.take(&view, &packet, is_untracked);
                let found = matcher
                    .find(&file.policy.seen(packet), Assume::NoMatch)
                    .and_then(|id| file.set().get(id));
                let is_accepted = found.is_none_or(|rule| rule.action != Some(Action::Deny));
                connections.settle(is_accepted);
            }
            if is_wanted {
                // Leaked, once per run: neither the batch nor its block outlives this function.
                packet = file.policy.seen(packet);
                let network = packet.network.map(|bytes| {
                    let captured = &*bytes.captured.to_vec().leak();
                    NetworkBytes { captured, ..bytes }
                });
                let mut packet = packet.detached();
                packet.network = network;
                return Ok((packet, raw.interface));
            }
        }
    }
}

fn explain(
    file: &RuleFile,
    arguments: &Explain,
    packet: &Packet<'_>,
    common: &Common,
) -> Result<Status, Failure> {
    let outcomes = file.policy.outcomes(packet);
    let matching = file.policy.all_matches(packet);
    let role = |id: RuleId, truth: Truth| {
        let known = |list: &[Possible]| list.iter().find(|one| one.rule == id).map(|one| one.truth);
        match (known(&outcomes.deciders), known(&outcomes.passed)) {
            (Some(Truth::Yes), _) => "wins",
            (Some(_), _) => "may win",
            (_, Some(Truth::Yes)) => "passes on",
            (_, Some(_)) => "may pass on",
            _ if truth == Truth::Yes => "would match",
            _ => "may match",
        }
    };
    let winner = outcomes.decided();
    let verdict = verdict(file, &outcomes);
    let result = ExplainResult {
        schema: "flowloom/rules-explain/1",
        header: packet.tuple.to_string(),
        matching: matching.len() as u64,
        value: winner.and_then(|id| file.set().get(id)).map(|rule| rule.value),
        winner: winner.map(|id| line(file, id).number),
        verdict: verdict.map_or("unknown", Action::name),
        is_open: winner.is_none() && !outcomes.deciders.is_empty(),
        unmatched: outcomes.unmatched.is_some(),
        listed: matching
            .iter()
            .take(arguments.top)
            .map(|one| ExplainLine { role: role(one.rule, one.truth), line: line(file, one.rule) })
            .collect(),
    };
    print(&result, common)?;
    Ok(if verdict == Some(Action::Accept) { Status::Ok } else { Status::CheckFailed })
}
