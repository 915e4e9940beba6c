//! Classifies the packets of captures and header traces.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use flowloom::classifier::load::{LoadLimits, trace};
use flowloom::classifier::{
    Algorithm, AnyKey, Classifier, ClassifierBuilder, ClassifierKey, KeyV4, KeyV6, Match, RuleId,
};
use flowloom::engine::Control;
use flowloom::packet::{DecodeOptions, Fill, Headers, PacketBatch, PacketSource, decode};
use flowloom::traffic::capture::{CaptureError, CaptureSet, Input, SetOptions};
use flowloom_measure::clock::thread_cpu_ns;

use crate::args::Common;
use crate::args::classify::{AlgorithmName, Classify};
use crate::args::rules::RuleOptions;
use crate::exit::{Failure, Status, check_decodable};
use crate::progress::{Progress, label};
use crate::render::classify::{ClassifyResult, RuleHits};
use crate::render::rules::FamilyResult;
use crate::render::{print, say_error, warn_of};
use crate::rule_file::{self, RuleFile};
use crate::signals::stop_on_signals;
use crate::unpacked::unpack;
use crate::verbs::rules::line;

/// Keys that are looked up together.
const BATCH: usize = 256;

/// Runs the verb.
pub(crate) fn run(arguments: &Classify, common: &Common) -> Result<Status, Failure> {
    rule_file::check_inputs(&arguments.rules, &arguments.inputs)?;
    let options = RuleOptions { rules: arguments.rules.clone(), chain: arguments.chain.clone() };
    let file = rule_file::read(&options)?;
    let begun = std::time::Instant::now();
    let algorithm = match arguments.algorithm {
        AlgorithmName::Auto => Algorithm::Auto,
        AlgorithmName::Linear => Algorithm::Linear,
    };
    let classifier = ClassifierBuilder::new()
        .algorithm(algorithm)
        .memory_bytes_max(usize::try_from(arguments.memory_max).unwrap_or(usize::MAX))
        .build(&file.set)
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let build_seconds = begun.elapsed().as_secs_f64();
    let mut tally = Tally::new(&file, &classifier, arguments);
    let end = if is_trace(&arguments.inputs[0]) {
        if arguments.match_tcp_flags {
            return Err(Failure::Usage(String::from(
                "--match-tcp-flags is for captures: tools disagree on what a header trace has behind its five numbers",
            )));
        }
        headers(arguments, &mut tally)?
    } else {
        captures(arguments, common, &mut tally)?
    };
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

/// Says whether a file is a header trace: unpacked it begins with a digit, which no capture does.
fn is_trace(path: &Path) -> bool {
    let mut first = [0];
    path.is_file()
        && File::open(path).and_then(unpack).and_then(|mut file| file.read_exact(&mut first)).is_ok()
        && (first[0].is_ascii_digit() || first[0] == b'#')
}

/// Behind an error in what is no text.
const TRACE: &str = "\n  a header trace has five numbers a line";

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
            tally.push(AnyKey::V4(key), None);
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
            match decode(raw.link, bytes, DecodeOptions::default()) {
                Ok(headers) => {
                    tally.fragments += u64::from(headers.later_fragment);
                    tally.push(AnyKey::from(&headers.tuple()), flags_of(&headers, bytes));
                }
                Err(_) => tally.undecoded += 1,
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

/// Adds that header traces are read too, where an input is no capture.
fn hinted(failure: Failure, is_other: bool) -> Failure {
    match failure {
        Failure::Input(text) if is_other => Failure::Input(format!(
            "{text}\n  or header traces: files, plain or packed, without captures beside them"
        )),
        failure => failure,
    }
}

/// Returns what the last column of ClassBench is compared with: TCP flags in the upper byte, or ICMP's type and code; `None` of
/// packets that have neither, or are cut before them.
fn flags_of(headers: &Headers, bytes: &[u8]) -> Option<u16> {
    if headers.later_fragment {
        return None;
    }
    let at = |offset: usize| bytes.get(headers.transport_offset as usize + offset).copied();
    match headers.key.protocol() {
        6 => Some(u16::from_be_bytes([at(13)?, 0])),
        1 | 58 => Some(u16::from_be_bytes([at(0)?, at(1)?])),
        _ => None,
    }
}

/// What was found so far.
struct Tally<'a> {
    file: &'a RuleFile,
    classifier: &'a Classifier,
    verify: bool,
    match_flags: bool,
    v4: Keys<KeyV4>,
    v6: Keys<KeyV6>,
    packets: u64,
    undecoded: u64,
    fragments: u64,
    looked_up: u64,
    unmatched: u64,
    hits: Vec<u64>,
    cpu_ns: u64,
    wrong: u64,
    first_wrong: Option<String>,
}

/// Keys that wait to be looked up, each with its packet's flags.
#[derive(Default)]
struct Keys<K> {
    keys: Vec<K>,
    flags: Vec<Option<u16>>,
}

impl<K> Keys<K> {
    fn push(&mut self, key: K, flags: Option<u16>) {
        self.keys.push(key);
        self.flags.push(flags);
    }
}

impl<'a> Tally<'a> {
    fn new(file: &'a RuleFile, classifier: &'a Classifier, arguments: &Classify) -> Self {
        Self {
            file,
            classifier,
            verify: arguments.verify,
            match_flags: arguments.match_tcp_flags,
            v4: Keys::default(),
            v6: Keys::default(),
            packets: 0,
            undecoded: 0,
            fragments: 0,
            looked_up: 0,
            unmatched: 0,
            hits: vec![0; file.set.len()],
            cpu_ns: 0,
            wrong: 0,
            first_wrong: None,
        }
    }

    fn push(&mut self, key: AnyKey, flags: Option<u16>) {
        match key {
            AnyKey::V4(key) => self.v4.push(key, flags),
            AnyKey::V6(key) => self.v6.push(key, flags),
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

    /// Looks keys up and counts; returns the list, empty.
    fn look_up<K: ClassifierKey + std::fmt::Display>(&mut self, mut waiting: Keys<K>) -> Keys<K> {
        let Keys { keys, flags } = &mut waiting;
        let mut found = [Match::NONE; BATCH];
        let found = &mut found[..keys.len()];
        let begun = thread_cpu_ns();
        self.classifier.classify_batch(keys, found);
        if self.match_flags {
            for ((key, found), &flags) in keys.iter().zip(&mut *found).zip(&*flags) {
                *found = self.file.set.first_match_with_flags(*found, key, flags);
            }
        }
        self.cpu_ns += thread_cpu_ns() - begun;
        self.looked_up += keys.len() as u64;
        for ((key, found), &flags) in keys.iter().zip(found.iter()).zip(&*flags) {
            match found.rule() {
                Some(rule) => self.hits[rule.index()] += 1,
                None => self.unmatched += 1,
            }
            if self.verify {
                let expected = self.first_match(key, flags);
                if expected != *found {
                    self.wrong += 1;
                    self.first_wrong.get_or_insert_with(|| {
                        format!("{key}: {found:?}, linear search says {expected:?}")
                    });
                }
            }
        }
        keys.clear();
        flags.clear();
        waiting
    }

    /// Returns the first rule that matches, by asking all of them.
    fn first_match<K: ClassifierKey>(&self, key: &K, flags: Option<u16>) -> Match {
        let agrees = |id: &RuleId| {
            let column = self.file.set.get(*id).and_then(|rule| rule.flags);
            !self.match_flags || column.is_none_or(|column| column.contains(flags))
        };
        self.file.set.all_matches(key).find(agrees).map_or(Match::NONE, Match::from)
    }

    fn result(
        &self,
        arguments: &Classify,
        form: &'static str,
        build_seconds: f64,
        end: &End,
    ) -> ClassifyResult {
        let mut order: Vec<u32> =
            (0..self.file.set.len() as u32).filter(|&id| self.hits[id as usize] > 0).collect();
        order.sort_by_key(|&id| std::cmp::Reverse(self.hits[id as usize]));
        let top = order
            .iter()
            .take(arguments.top)
            .map(|&id| RuleHits { packets: self.hits[id as usize], rule: line(self.file, RuleId(id)) });
        let unused = (0..self.file.set.len() as u32).filter(|&id| self.hits[id as usize] == 0).map(RuleId);
        let listed = if arguments.unused { arguments.top } else { 0 };
        let stats = self.classifier.stats();
        ClassifyResult {
            schema: "flowloom/classify/1",
            rules_path: arguments.rules.display().to_string(),
            form,
            rules: self.file.set.len() as u64,
            packets: self.packets,
            undecoded: self.undecoded,
            later_fragments: self.fragments,
            matched: self.looked_up - self.unmatched,
            unmatched: self.unmatched,
            unused: (self.file.set.len() - order.len()) as u64,
            top: top.collect(),
            unused_listed: unused.take(listed).map(|id| line(self.file, id)).collect(),
            verified: arguments.verify,
            wrong: self.wrong,
            first_wrong: self.first_wrong.clone(),
            isa: self.classifier.isa().to_string(),
            ns_per_lookup: if self.looked_up == 0 {
                0.0
            } else {
                self.cpu_ns as f64 / self.looked_up as f64
            },
            build_seconds,
            classifier_v4: FamilyResult::of(&stats.v4),
            classifier_v6: FamilyResult::of(&stats.v6),
            interrupted: end.interrupted,
            fault: end.fault.clone(),
        }
    }
}
