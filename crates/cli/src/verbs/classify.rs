//! Classifies the packets of captures and header traces.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use flowloom::apps::firewall::{Connections, Enforcement, describe};
use flowloom::classifier::{Action, AnyKey, ClassifierKey, Isa, Key, KeyV4, KeyV6, Match, RuleId};
use flowloom::engine::Control;
use flowloom::flow_key::IpFamily;
use flowloom::packet::{Fill, InterfaceName, PacketBatch, PacketSource, PacketView, decode};
use flowloom::rules::firewall::{Knowledge, NetworkBytes, Outcome, Packet, PolicyMatcher};
use flowloom::rules::load::{LoadLimits, trace};
use flowloom::traffic::capture::{CaptureError, CaptureSet, Input, SetOptions};
use flowloom_measure::clock::thread_cpu_ns;

use crate::args::Common;
use crate::args::classify::Classify;
use crate::args::rules::RuleOptions;
use crate::decompressed::unpack;
use crate::exit::{Failure, Status, check_decodable};
use crate::interface;
use crate::progress::{Progress, label};
use crate::render::classify::{ClassifyResult, PacketVerdict, RuleHits};
use crate::render::rules::FamilyResult;
use crate::render::{counted, print, say_error, warn, warn_of};
use crate::rule_file::{self, RuleFile};
use crate::signals::stop_on_signals;
use crate::verbs::rules::{CONNECTIONS_MAX, line, verdict};

/// Keys per lookup batch.
const BATCH: usize = 256;

/// Runs the command.
pub(crate) fn run(arguments: &Classify, common: &Common) -> Result<Status, Failure> {
    rule_file::check_inputs(&arguments.rules, &arguments.inputs)?;
    let options = RuleOptions {
        rules: arguments.rules.clone(),
        table: arguments.table.clone(),
        file: arguments.file.clone(),
    };
    let mut file = rule_file::read(&options)?;
    let is_trace = is_trace(&arguments.inputs[0]);
    let flags = file.with_flags();
    if arguments.ignore_flags || is_trace {
        if flags > 0 && is_trace && !arguments.ignore_flags {
            let flags = counted(flags, "rule");
            warn(&format!("flags of {flags} are not compared: a header trace has none"), common);
        }
        file.policy.ignore_flags();
    }
    file.warn_of_notes(common);
    // The columns after the first five numbers of a header trace differ between tools.
    let known = Knowledge {
        headers: !is_trace,
        state: !is_trace,
        frame: !is_trace,
        mac: !is_trace,
        ..Knowledge::default()
    };
    let captured = || interface::of_captures(&arguments.inputs);
    let enforcement = file.enforcement(&arguments.enforce, known, &captured)?;
    rule_file::warn_of_interface(&arguments.enforce, &enforcement, common);
    let begun = std::time::Instant::now();
    let bytes_max = usize::try_from(arguments.memory_max).unwrap_or(usize::MAX);
    let matcher = arguments
        .algorithm
        .build(file.policy.clone(), bytes_max)
        .map_err(|error| Failure::Usage(format!("{}: {error}", arguments.rules.display())))?;
    let build_seconds = begun.elapsed().as_secs_f64();
    let mut tally = Tally::new(&file, &matcher, arguments, &enforcement, known);
    let end =
        if is_trace { headers(arguments, &mut tally)? } else { captures(arguments, common, &mut tally)? };
    tally.flush();
    let result = tally.result(arguments, file.form.name(), build_seconds, &end);
    print(&result, common)?;
    if let Some(fault) = &end.fault {
        say_error(fault, Status::Fault);
        return Ok(Status::Fault);
    }
    if tally.wrong > 0 {
        return Ok(Status::CheckFailed);
    }
    Ok(if end.interrupted { Status::Interrupted } else { Status::Ok })
}

/// How the input ended.
#[derive(Debug, Default)]
struct End {
    interrupted: bool,
    fault: Option<String>,
}

/// Returns whether a file is a header trace: after decompression it begins with a digit, which no
/// capture does.
fn is_trace(path: &Path) -> bool {
    let mut first = [0];
    path.is_file()
        && File::open(path).and_then(unpack).and_then(|mut file| file.read_exact(&mut first)).is_ok()
        && (first[0].is_ascii_digit() || first[0] == b'#')
}

/// Appended to an error about input that is not text.
const TRACE: &str = "\n  a header trace has five numbers per line";

fn headers(arguments: &Classify, tally: &mut Tally<'_>) -> Result<End, Failure> {
    let limit = arguments.limit.unwrap_or(u64::MAX);
    for path in &arguments.inputs {
        let limits = LoadLimits::default();
        let text = rule_file::read_text(path, limits.bytes_max, TRACE)?;
        let keys = trace::parse(&text, limits)
            .map_err(|error| Failure::Input(error.in_file(&path.display().to_string())))?;
        for key in keys {
            if tally.packets == limit {
                return Ok(End::default());
            }
            tally.packets += 1;
            // A trace states the ports of a header for every protocol.
            let mut packet = Packet::new(key.tuple());
            packet.has_ports = true;
            tally.push(AnyKey::V4(key), packet, None, InterfaceName::UNKNOWN);
        }
    }
    Ok(End::default())
}

fn captures(arguments: &Classify, common: &Common, tally: &mut Tally<'_>) -> Result<End, Failure> {
    let inputs: Vec<Input> = arguments.inputs.iter().map(|path| Input::from_argument(path)).collect();
    let mut source = CaptureSet::open(&inputs, SetOptions::default()).map_err(|error| {
        let is_other = matches!(error, CaptureError::NotACapture { .. });
        hinted(Failure::from(error), is_other)
    })?;
    let control = Arc::new(Control::default());
    stop_on_signals(&control);
    source.stop_when({
        let control = Arc::clone(&control);
        move || control.is_stopped()
    });
    let title = format!("classify  {}", label(&arguments.inputs));
    let progress = Progress::start(title, source.progress(), Arc::clone(&control), common.quiet > 0);
    let options = arguments.decoding.options()?;
    let options = options.with_errors_by_flow(options.errors_by_flow || tally.connections.is_some());
    let mut batch = PacketBatch::new();
    let limit = arguments.limit.unwrap_or(u64::MAX);
    let mut end = End::default();
    while tally.packets < limit && !control.is_stopped() {
        match source.next_batch(&mut batch) {
            Ok(Fill::Packets) => {}
            Ok(Fill::Starved) => continue,
            Ok(Fill::End) => break,
            Err(error) => {
                let is_other = matches!(error.0.downcast_ref(), Some(CaptureError::NotACapture { .. }));
                check_decodable(tally.packets, &error).map_err(|failure| hinted(failure, is_other))?;
                end.fault = Some(error.to_string());
                break;
            }
        }
        let Some(block) = &batch.block else { continue };
        let left = usize::try_from(limit - tally.packets).unwrap_or(usize::MAX);
        for raw in batch.packets.iter().take(left) {
            tally.packets += 1;
            let bytes = raw.bytes_in(block.bytes());
            if let Ok(mut headers) = decode(raw.link, bytes, options) {
                headers.interface = raw.interface;
                tally.fragments += u64::from(headers.later_fragment);
                let wire = headers.fit_to_wire(bytes, raw.wire_bytes);
                tally.take(&PacketView::new(bytes, headers, raw.time_ns, wire));
            } else {
                tally.undecoded += 1;
                if let Some(listed) = &mut tally.listed {
                    listed.push(PacketVerdict::not_looked_up(tally.packets));
                }
            }
        }
    }
    drop(progress);
    end.interrupted = control.is_stopped();
    for notice in source.notices() {
        warn_of(notice, false, common);
    }
    Ok(end)
}

/// Adds to an error about an invalid capture that header traces are accepted too.
fn hinted(failure: Failure, is_other: bool) -> Failure {
    match failure {
        Failure::Input(text) if is_other => Failure::Input(format!(
            "{text}\n  header traces are accepted too: files, plain or compressed, not mixed with \
             captures"
        )),
        failure => failure,
    }
}

/// The results so far.
#[expect(clippy::struct_excessive_bools, reason = "each is asked or found by itself")]
struct Tally<'a> {
    file: &'a RuleFile,
    matcher: &'a PolicyMatcher,
    enforcement: &'a Enforcement,
    verify: bool,
    /// Connections, if rules ask for their states.
    connections: Option<Connections>,
    asks_contents: bool,
    v4: Waiting<'a, KeyV4>,
    v6: Waiting<'a, KeyV6>,
    packets: u64,
    undecoded: u64,
    fragments: u64,
    looked_up: u64,
    unmatched: u64,
    only_family: Option<IpFamily>,
    of_other_family: u64,
    /// The details to list for each packet, if requested.
    listed: Option<Vec<PacketVerdict>>,
    /// Some answer may depend on more than packets.
    is_open: bool,
    /// No rule denies the packet of the last lookup.
    last_accepted: bool,
    /// Indexed by the number of the rule in the file, minus one.
    hits: Vec<u64>,
    cpu_ns: u64,
    /// Words that lookups read, and the lookups that count them.
    words: (u64, u64),
    wrong: u64,
    first_wrong: Option<String>,
}

/// Keys waiting for a lookup, each with its packet.
struct Waiting<'a, K> {
    keys: Vec<K>,
    packets: Vec<Packet<'a>>,
    /// The bytes of each packet and its length, if rules ask for them.
    bytes: Vec<Option<Bytes>>,
    /// The number of each packet, from one.
    numbers: Vec<u64>,
}

type Bytes = (Vec<u8>, NetworkBytes<'static>);

impl<K> Default for Waiting<'_, K> {
    fn default() -> Self {
        Self { keys: Vec::new(), packets: Vec::new(), bytes: Vec::new(), numbers: Vec::new() }
    }
}

impl<'a, K> Waiting<'a, K> {
    fn push(&mut self, key: K, packet: Packet<'a>, bytes: Option<Bytes>, number: u64) {
        self.keys.push(key);
        self.packets.push(packet);
        self.bytes.push(bytes);
        self.numbers.push(number);
    }
}

/// Returns a packet with its bytes, if they were kept.
fn with_bytes<'b>(mut packet: Packet<'b>, bytes: Option<&'b Bytes>) -> Packet<'b> {
    packet.network = bytes.map(|(captured, bytes)| NetworkBytes { captured, ..*bytes });
    packet
}

impl<'a> Tally<'a> {
    fn new(
        file: &'a RuleFile,
        matcher: &'a PolicyMatcher,
        arguments: &Classify,
        enforcement: &'a Enforcement,
        known: Knowledge,
    ) -> Self {
        Self {
            file,
            matcher,
            enforcement,
            verify: arguments.verify,
            connections: file.policy.asks_state().then(|| Connections::new(CONNECTIONS_MAX)),
            asks_contents: file.policy.asks_contents(),
            v4: Waiting::default(),
            v6: Waiting::default(),
            packets: 0,
            undecoded: 0,
            fragments: 0,
            looked_up: 0,
            unmatched: 0,
            only_family: file.policy.only_family(),
            of_other_family: 0,
            listed: arguments.per_packet.then(Vec::new),
            // A later fragment has no state.
            is_open: file.policy.asks_state()
                || !file.policy.undecidable(Knowledge { input: true, output: true, ..known }).is_empty(),
            last_accepted: true,
            hits: vec![0; file.policy.sources().len()],
            cpu_ns: 0,
            words: (0, 0),
            wrong: 0,
            first_wrong: None,
        }
    }

    /// Adds a decoded packet.
    fn take(&mut self, view: &PacketView<'_>) {
        let mut packet = describe(view);
        if let Some(connections) = &mut self.connections {
            let located = self.enforcement.locate(packet, 0, view.headers.interface);
            let is_untracked =
                self.enforcement.assume.unwrap_or_default().takes(self.file.policy.untracks(&located));
            packet.state = connections.take(view, &packet, Some(is_untracked));
        }
        packet = self.file.policy.seen(packet);
        let bytes = packet.network.filter(|_| self.asks_contents);
        let bytes = bytes.map(|bytes| (bytes.captured.to_vec(), NetworkBytes { captured: &[], ..bytes }));
        self.push(packet.key(), packet.detached(), bytes, view.headers.interface);
        if self.connections.is_some() {
            // The state of the next packet depends on the verdict on this one.
            self.flush();
            if let Some(connections) = &mut self.connections {
                connections.settle(self.last_accepted);
            }
        }
    }

    fn push(&mut self, key: AnyKey, packet: Packet<'a>, bytes: Option<Bytes>, captured_by: InterfaceName) {
        let packet = self.enforcement.locate(packet, 0, captured_by);
        let number = self.packets;
        if let Some(listed) = &mut self.listed {
            listed.push(PacketVerdict::not_looked_up(number));
        }
        let family = if matches!(key, AnyKey::V4(_)) { IpFamily::V4 } else { IpFamily::V6 };
        self.of_other_family += u64::from(self.only_family.is_some_and(|only| only != family));
        match key {
            AnyKey::V4(key) => self.v4.push(key, packet, bytes, number),
            AnyKey::V6(key) => self.v6.push(key, packet, bytes, number),
        }
        if self.v4.keys.len() == BATCH || self.v6.keys.len() == BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let (v4, v6) = (std::mem::take(&mut self.v4), std::mem::take(&mut self.v6));
        self.v4 = self.look_up(v4);
        self.v6 = self.look_up(v6);
    }

    /// Looks up keys and counts the answers; returns the emptied list.
    fn look_up<K: ClassifierKey + Into<AnyKey> + std::fmt::Display>(
        &mut self,
        mut waiting: Waiting<'a, K>,
    ) -> Waiting<'a, K> {
        let Waiting { keys, packets, bytes, numbers } = &mut waiting;
        let located: Vec<Packet<'_>>;
        let whole: &[Packet<'_>] = if self.asks_contents {
            let both = packets.iter().zip(&*bytes);
            located = both.map(|(packet, bytes)| with_bytes(*packet, bytes.as_ref())).collect();
            &located
        } else {
            packets
        };
        let assume = self.enforcement.assume.unwrap_or_default();
        let mut found = [Match::NONE; BATCH];
        let found = &mut found[..keys.len()];
        let begun = thread_cpu_ns();
        match self.matcher.classifier() {
            Some(classifier) => classifier.classify_batch(keys, found),
            None => {
                for (key, found) in keys.iter().zip(&mut *found) {
                    *found = self.matcher.index().first_match(&(*key).into());
                }
            }
        }
        if !self.matcher.is_unconditional() {
            for ((key, found), packet) in keys.iter().zip(&mut *found).zip(whole) {
                *found = self.matcher.decide(key, *found, packet, assume);
            }
        }
        self.cpu_ns += thread_cpu_ns() - begun;
        for words in keys.iter().filter_map(|&key| self.matcher.index().words_of(&key.into())) {
            self.words = (self.words.0 + u64::from(words), self.words.1 + 1);
        }
        self.looked_up += keys.len() as u64;
        for (at, ((key, found), packet)) in keys.iter().zip(found.iter()).zip(whole).enumerate() {
            match found.rule() {
                Some(rule) => self.hits[self.file.policy.source_index(rule)] += 1,
                None => self.unmatched += 1,
            }
            let rule = found.rule().and_then(|id| self.file.set().get(id));
            self.last_accepted = rule.is_none_or(|rule| rule.action != Some(Action::Deny));
            self.list(numbers[at], *found, packet);
            if self.verify {
                let expected =
                    self.file.policy.first_match(packet, assume).map_or(Match::NONE, Match::from);
                if expected != *found {
                    self.wrong += 1;
                    self.first_wrong.get_or_insert_with(|| {
                        format!("{key}: {found:?}, linear search says {expected:?}")
                    });
                }
            }
        }
        keys.clear();
        packets.clear();
        bytes.clear();
        numbers.clear();
        waiting
    }

    /// Adds the answer for a packet to the list.
    fn list(&mut self, number: u64, found: Match, packet: &Packet<'_>) {
        let Some(listed) = &mut self.listed else { return };
        let Ok(at) = listed.binary_search_by_key(&number, |one| one.packet) else { return };
        let place = |id| self.file.place(id);
        let one = &mut listed[at];
        if let Some(id) = found.rule() {
            let (number, line) = place(id);
            one.rule = Some(number);
            one.line = Some(line);
            let action = self.file.set().get(id).and_then(|rule| rule.action);
            one.verdict = action.map_or("matched", Action::name);
        } else {
            one.verdict = "unmatched";
        }
        if self.is_open {
            let outcomes = self.file.policy.outcomes(packet);
            if outcomes.deciders.len() + usize::from(outcomes.unmatched.is_some()) > 1 {
                one.possible = outcomes.deciders.iter().map(|one| place(one.rule).0).collect();
                one.possible.dedup();
                one.possible.extend(outcomes.unmatched.map(|_| 0));
                one.possible_verdict = Some(verdict(self.file, &outcomes).map_or("unknown", Action::name));
            }
        }
    }

    fn result(
        &mut self,
        arguments: &Classify,
        form: &'static str,
        build_seconds: f64,
        end: &End,
    ) -> ClassifyResult {
        // One box of each rule, to print it.
        let mut boxes: Vec<Option<RuleId>> = vec![None; self.hits.len()];
        for id in (0..self.file.set().len() as u32).map(RuleId) {
            boxes[self.file.policy.source_index(id)].get_or_insert(id);
        }
        let mut order: Vec<usize> = (0..self.hits.len()).filter(|&rule| self.hits[rule] > 0).collect();
        order.sort_by_key(|&rule| std::cmp::Reverse(self.hits[rule]));
        let top = order.iter().take(arguments.top).filter_map(|&rule| {
            Some(RuleHits { packets: self.hits[rule], rule: line(self.file, boxes[rule]?) })
        });
        // Rules that only pass packets on, such as jumps and RETURN, count none.
        let policy = &self.file.policy;
        let mut decides = vec![false; self.hits.len()];
        for entry in (0..policy.len()).filter_map(|index| policy.entry(index)) {
            decides[entry.source as usize] |= matches!(entry.outcome, Outcome::Decide { .. });
        }
        let unused: Vec<RuleId> = (0..self.hits.len())
            .filter(|&rule| decides[rule] && self.hits[rule] == 0)
            .filter_map(|rule| boxes[rule])
            .collect();
        let passing = decides.iter().filter(|decides| !**decides).count() as u64;
        let listed = if arguments.unused { arguments.top } else { 0 };
        let classifier = self.matcher.classifier();
        let (isa, [v4, v6]) = match classifier {
            Some(classifier) => {
                let stats = classifier.stats();
                (classifier.isa(), [&stats.v4, &stats.v6].map(FamilyResult::new))
            }
            None => (Isa::Scalar, FamilyResult::of_tree(arguments.algorithm.title(), self.matcher)),
        };
        ClassifyResult {
            schema: "flowloom/classify/1",
            rules_path: arguments.rules.display().to_string(),
            form,
            rules: self.file.rules(),
            packets: self.packets,
            undecoded: self.undecoded,
            later_fragments: self.fragments,
            matched: self.looked_up - self.unmatched,
            unmatched: self.unmatched,
            of_other_family: self.of_other_family,
            unused: unused.len() as u64,
            passing,
            per_packet: self.listed.take(),
            top: top.collect(),
            unused_listed: unused.into_iter().take(listed).map(|id| line(self.file, id)).collect(),
            verified: arguments.verify,
            wrong: self.wrong,
            first_wrong: self.first_wrong.clone(),
            isa: isa.to_string(),
            ns_per_lookup: if self.looked_up == 0 {
                0.0
            } else {
                self.cpu_ns as f64 / self.looked_up as f64
            },
            words_per_lookup: (self.words.1 > 0).then(|| self.words.0 as f64 / self.words.1 as f64),
            build_seconds,
            classifier_v4: v4,
            classifier_v6: v6,
            interrupted: end.interrupted,
            fault: end.fault.clone(),
        }
    }
}
