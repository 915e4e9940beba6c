//! Compares the classifier with `rte_acl`: rule sets, traffic, verified answers, then interleaved
//! rounds.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use flowloom::classifier::headers::{Traffic, headers};
use flowloom::classifier::synth::{self, Profile};
use flowloom::classifier::{Algorithm, Classifier, ClassifierBuilder, KeyV4, Match, RuleSet};
use flowloom::cpu::features::Isa;
use flowloom::rules::load::{LoadLimits, classbench};
use flowloom_measure::clock::thread_cpu_ns;
use flowloom_measure::{RatioRow, ResultRow, Rounds, Samples};

use crate::goal::{Clock, JudgedReport, JudgedResult, JudgedRow};

/// Parameters of the comparison.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Number of rounds of each comparison.
    #[arg(long, default_value_t = 15)]
    pub rounds: usize,
    /// Only sets whose name contains one of these; all sets if empty.
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Numbers of rules of the generated sets; 0 generates none.
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000])]
    pub sizes: Vec<usize>,
    /// Number of seeds per profile and size of the generated sets.
    #[arg(long, default_value_t = 3)]
    pub seeds: u64,
    /// Number of headers per round.
    #[arg(long, default_value_t = 65_536)]
    pub headers: usize,
    /// Starts DPDK with this many megabytes. By default those of reserved huge pages, or 2048 of
    /// small pages, because 100,000 rules need about a gigabyte.
    #[arg(long)]
    pub dpdk_megabytes: Option<u32>,
}

/// Number of keys per batch.
const BATCH: usize = 256;
/// Number of headers that are compared with the first match, rule by rule.
const CHECKED: usize = 1000;

/// A rival that classifies the same headers.
trait Rival {
    /// Name in rows.
    fn name(&self) -> String;
    /// Looks up all headers and returns a digest of the matches.
    fn run(&mut self) -> u64;
}

/// Runs all comparisons. Missing rivals are named in the second part of the result.
///
/// # Errors
///
/// Returns an error if a set cannot be read or built, or two answers differ.
pub fn run(options: &Options, data: Option<&Path>, report: &mut JudgedReport) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    let rivals = Rivals::start(options, &mut missing);
    if data.is_none() {
        missing.push(String::from("the given rule sets: FLOWLOOM_DATA is not set"));
    }
    for (name, rules) in sets(options, data)? {
        compare(&name, &rules, options, &rivals, report)?;
    }
    Ok(missing)
}

/// Returns the given sets and the generated ones, each with its name.
fn sets(options: &Options, data: Option<&Path>) -> Result<Vec<(String, RuleSet)>> {
    let is_wanted =
        |name: &str| options.only.is_empty() || options.only.iter().any(|part| name.contains(part));
    let mut sets = Vec::new();
    let mut names = Vec::new();
    if let Some(folder) = data.map(|data| data.join("rules")) {
        for entry in std::fs::read_dir(&folder)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if !name.ends_with("_trace") && !name.starts_with('.') && is_wanted(&name) {
                names.push(name);
            }
        }
        names.sort();
        for name in names {
            let text = std::fs::read_to_string(folder.join(&name))?;
            match classbench::parse(&text, LoadLimits::default()) {
                Ok(rules) => sets.push((name, RuleSet::new(rules)?)),
                Err(error) => bail!("{}", error.in_file(&name)),
            }
        }
    }
    for &size in options.sizes.iter().filter(|size| **size > 0) {
        for (kind, profile) in
            [("acl", Profile::Acl), ("fw", Profile::Firewall), ("ipc", Profile::PacketFilter)]
        {
            for seed in 1..=options.seeds {
                let name = format!("made_{kind}_{size}_{seed}");
                if is_wanted(&name) {
                    sets.push((name, synth::rules(profile, size, seed, false)?));
                }
            }
        }
    }
    Ok(sets)
}

/// The minimum ratio to the best method of `rte_acl`.
fn goal(rules: usize) -> f64 {
    match rules {
        0..2_000 => 1.3,
        2_000..50_000 => 1.8,
        _ => 2.0,
    }
}

fn compare(
    name: &str,
    rules: &RuleSet,
    options: &Options,
    rivals: &Rivals,
    report: &mut JudgedReport,
) -> Result<()> {
    let size = rules.len() as u64;
    let builds = if rules.len() < 50_000 { 5 } else { 1 };
    let mut ours_ns = Vec::new();
    for _ in 0..builds {
        let begun = thread_cpu_ns();
        ClassifierBuilder::new().build(rules)?;
        ours_ns.push(thread_cpu_ns() - begun);
    }
    let ours = ClassifierBuilder::new().build(rules)?;
    let bytes = ours.stats().v4.bytes();
    let memory_goal = match rules.len() {
        0..2_000 => None,
        2_000..50_000 => Some(5.0),
        _ => Some(40.0),
    };
    report.results.push(JudgedResult::new(megabytes("flowloom", name, size, bytes), memory_goal));
    let built = rivals.build(rules, name, builds)?;
    if let Some(built) = &built {
        report.results.push(JudgedResult::new(megabytes("rte_acl", name, size, built.bytes), None));
        let row = RatioRow::of_times(format!("build, {name}"), size, "rte_acl", &built.times_ns, &ours_ns)
            .with_items(size, &built.times_ns, &ours_ns);
        report.ratios.push(JudgedRow::new(row, Clock::Cpu, None));
    }
    for (kind, traffic) in [("hits", Traffic::HITS), ("misses", Traffic::MISSES), ("zipf", Traffic::ZIPF)] {
        let keys: Vec<KeyV4> = headers(rules, traffic, options.headers, 42);
        check(&ours, rules, &keys)?;
        let work = format!("{name}, {kind}");
        look_up(&work, rules, &ours, &keys, built.as_ref(), options, report)?;
    }
    Ok(())
}

/// Compares answers with the first match, rule by rule.
fn check(ours: &Classifier, rules: &RuleSet, keys: &[KeyV4]) -> Result<()> {
    let keys = &keys[..CHECKED.min(keys.len())];
    let mut found = vec![Match::NONE; keys.len()];
    ours.classify_batch(keys, &mut found);
    for (key, found) in keys.iter().zip(found) {
        let expected = rules.first_match(key);
        ensure!(found == expected, "{key}: {found:?}, linear search says {expected:?}");
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "megabytes, for readers")]
fn megabytes(variant: &str, name: &str, size: u64, bytes: usize) -> ResultRow {
    let value = bytes as f64 / 1e6;
    ResultRow {
        variant: variant.to_owned(),
        work: format!("memory, {name}"),
        size,
        unit: String::from("MB"),
        n: 1,
        min: value,
        median: value,
        p5: value,
        p95: value,
        samples: vec![value],
        line_round_trip_ns: None,
    }
}

/// Adds a match to a digest.
fn digest(sum: u64, rule: u32) -> u64 {
    (sum.rotate_left(5) ^ u64::from(rule)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Flowloom's classifier, with an instruction set.
struct Ours<'a> {
    name: String,
    classifier: &'a Classifier,
    keys: &'a [KeyV4],
    matches: Vec<Match>,
}

impl Rival for Ours<'_> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn run(&mut self) -> u64 {
        for (keys, matches) in self.keys.chunks(BATCH).zip(self.matches.chunks_mut(BATCH)) {
            self.classifier.classify_batch(keys, matches);
        }
        self.matches.iter().fold(0, |sum, found| digest(sum, found.rule().map_or(u32::MAX, |rule| rule.0)))
    }
}

fn look_up(
    work: &str,
    rules: &RuleSet,
    ours: &Classifier,
    keys: &[KeyV4],
    built: Option<&Built>,
    options: &Options,
    report: &mut JudgedReport,
) -> Result<()> {
    // The other instruction sets search the same arrays.
    let others: Vec<(Isa, Classifier)> = [Isa::Avx2, Isa::Scalar]
        .into_iter()
        .filter(|isa| isa.is_available() && *isa != ours.isa())
        .map(|isa| Ok((isa, ours.with_isa(isa)?)))
        .collect::<Result<_>>()?;
    let linear = if rules.len() < 2_000 {
        Some(ClassifierBuilder::new().algorithm(Algorithm::Linear).build(rules)?)
    } else {
        None
    };
    let contender = |name: String, classifier| {
        Box::new(Ours { name, classifier, keys, matches: vec![Match::NONE; keys.len()] })
    };
    let mut all: Vec<Box<dyn Rival + '_>> = vec![contender(format!("flowloom-{}", ours.isa()), ours)];
    all.extend(
        others.iter().map(|(isa, other)| -> Box<dyn Rival> { contender(format!("flowloom-{isa}"), other) }),
    );
    all.extend(linear.iter().map(|linear| -> Box<dyn Rival> { contender(String::from("linear"), linear) }));
    if let Some(built) = built {
        all.extend(built.methods(keys));
    }
    let mut rounds = Rounds::new(options.rounds);
    for mut rival in all {
        // The digest is outside the timed part.
        rounds = rounds.variant_with_lap(rival.name(), move |lap| {
            let mut sum = 0;
            lap.time(|| sum = rival.run());
            sum
        });
    }
    let outcome = rounds.run()?;
    let (size, items) = (rules.len() as u64, keys.len() as u64);
    for samples in &outcome.samples {
        report.results.push(JudgedResult::new(ResultRow::new(work, size, items, samples), None));
    }
    let find = |name: &str| outcome.samples.iter().find(|samples| samples.name == name);
    let mut add = |ours: &Samples, rival: &Samples, goal| {
        let row = RatioRow::new(format!("{work}, {}", ours.name), size, rival, ours)
            .with_items(items, &rival.cpu_ns, &ours.cpu_ns);
        report.ratios.push(JudgedRow::new(row, Clock::Cpu, goal));
    };
    let first = &outcome.samples[0];
    let theirs = outcome.samples.iter().filter(|samples| samples.name.starts_with("rte_acl"));
    if let Some(best) = theirs.min_by_key(|samples| median(&samples.cpu_ns)) {
        add(first, best, Some(goal(rules.len())));
    }
    if let (Some(ours), Some(rival)) = (find("flowloom-avx2"), find("rte_acl-avx2")) {
        add(ours, rival, Some(1.0));
    }
    if let (Some(ours), Some(rival)) = (find("flowloom-scalar"), find("rte_acl-scalar")) {
        add(ours, rival, None);
    }
    if let Some(rival) = find("linear") {
        add(first, rival, None);
    }
    Ok(())
}

fn median(times: &[u64]) -> u64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(u64::MAX)
}

#[cfg(has_dpdk)]
mod dpdk {
    use super::{
        Acl, AclKey, Environment, KeyV4, Method, Options, Result, Rival, RuleSet, digest, thread_cpu_ns,
    };

    /// The available rivals.
    pub(super) struct Rivals(Option<Environment>);

    /// A rival's classifier of a set.
    pub(super) struct Built {
        acl: Acl,
        pub(super) bytes: usize,
        pub(super) times_ns: Vec<u64>,
    }

    impl Rivals {
        pub(super) fn start(options: &Options, missing: &mut Vec<String>) -> Self {
            let Some(megabytes) = options.dpdk_megabytes else {
                missing.push(String::from("rte_acl: not asked for"));
                return Self(None);
            };
            match Environment::start(megabytes) {
                Ok(environment) => {
                    if !environment.huge_pages {
                        missing.push(String::from(
                            "rte_acl on 2 MiB pages: too few are reserved (sysctl vm.nr_hugepages), so \
                             it runs on 4 KiB pages",
                        ));
                    }
                    Self(Some(environment))
                }
                Err(error) => {
                    missing.push(format!("rte_acl: {error}"));
                    Self(None)
                }
            }
        }

        pub(super) fn build(&self, rules: &RuleSet, name: &str, builds: usize) -> Result<Option<Built>> {
            let Some(environment) = &self.0 else { return Ok(None) };
            let mut times_ns = Vec::new();
            let mut built = None;
            for _ in 0..builds {
                drop(built.take());
                let before = environment.allocated_bytes();
                let begun = thread_cpu_ns();
                let acl = Acl::build(environment, rules, name)
                    .map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
                times_ns.push(thread_cpu_ns() - begun);
                built = Some((acl, environment.allocated_bytes() - before));
            }
            Ok(built.map(|(acl, bytes)| Built { acl, bytes, times_ns }))
        }
    }

    struct Run<'a> {
        acl: &'a Acl,
        method: Method,
        keys: Vec<AclKey>,
        results: Vec<u32>,
    }

    impl Rival for Run<'_> {
        fn name(&self) -> String {
            self.method.name().to_owned()
        }

        fn run(&mut self) -> u64 {
            self.acl.classify(&self.keys, &mut self.results, self.method);
            self.results.iter().fold(0, |sum, &result| digest(sum, result.wrapping_sub(1)))
        }
    }

    impl Built {
        pub(super) fn methods<'a>(&'a self, keys: &'a [KeyV4]) -> Vec<Box<dyn Rival + 'a>> {
            let run = |method| -> Box<dyn Rival + 'a> {
                let keys: Vec<AclKey> = keys.iter().map(AclKey::from).collect();
                let results = vec![0; keys.len()];
                Box::new(Run { acl: &self.acl, method, keys, results })
            };
            Method::ALL.into_iter().filter(|&method| self.acl.has(method)).map(run).collect()
        }
    }
}

#[cfg(has_dpdk)]
use crate::peers::rte_acl::{Acl, AclKey, Environment, Method};
#[cfg(has_dpdk)]
use dpdk::{Built, Rivals};

#[cfg(not(has_dpdk))]
mod no_dpdk {
    use super::{KeyV4, Options, Result, Rival, RuleSet};

    /// The available rivals: none.
    pub(super) struct Rivals;

    /// Never constructed.
    pub(super) struct Built {
        pub(super) bytes: usize,
        pub(super) times_ns: Vec<u64>,
    }

    impl Rivals {
        pub(super) fn start(_options: &Options, missing: &mut Vec<String>) -> Self {
            missing.push(String::from("rte_acl: built without DPDK"));
            Self
        }

        #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as with DPDK")]
        pub(super) fn build(&self, _rules: &RuleSet, _name: &str, _builds: usize) -> Result<Option<Built>> {
            Ok(None)
        }
    }

    impl Built {
        #[expect(clippy::unused_self, reason = "as with DPDK")]
        pub(super) fn methods<'a>(&'a self, _keys: &'a [KeyV4]) -> Vec<Box<dyn Rival + 'a>> {
            Vec::new()
        }
    }
}

#[cfg(not(has_dpdk))]
use no_dpdk::{Built, Rivals};

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_measure::{Host, rows::Tool};

    #[test]
    fn all_implementations_give_the_same_answers() {
        let tool = Tool { version: String::new(), git: String::new() };
        let mut report = JudgedReport::new(tool, Host::read("", &[]), serde_json::Value::Null);
        let options = Options {
            rounds: 1,
            only: Vec::new(),
            sizes: vec![200],
            seeds: 1,
            headers: 500,
            dpdk_megabytes: None,
        };
        let missing = run(&options, None, &mut report).unwrap();
        assert_eq!(missing.len(), 2);
        assert_eq!(report.ratios.iter().filter(|judged| judged.row.rival == "linear").count(), 9);
    }
}
