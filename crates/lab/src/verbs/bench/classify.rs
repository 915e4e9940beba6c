//! Compares classification algorithms.

use std::sync::Arc;

use flowloom::classifier::aggrecuts::{AggreCuts, Limits, Sharing, Stride};
use flowloom::classifier::headers::{Traffic, headers};
use flowloom::classifier::synth::{self, Profile};
use flowloom::classifier::{Algorithm, Classifier, ClassifierBuilder, KeyV4, Match, RuleSet};
use flowloom::cpu::features::Isa;
use flowloom::engine::Control;
use flowloom_measure::{Host, RatioRow, Report, ResultRow, Rounds};
use serde_json::json;

use crate::args::Common;
use crate::args::bench::classify::{Classify, VariantName};
use crate::args::generate::{ProfileName, TrafficName};
use crate::args::rules::RuleOptions;
use crate::exit::{Failure, Status};
use crate::host::tool;
use crate::render::bench::BenchResult;
use crate::render::warn;
use crate::rule_file;
use crate::signals::stop_on_signals;

/// Maximum number of rules for the paper's trees, which grow exponentially on others.
const PAPER_RULES_MAX: usize = 2000;
/// Maximum number of headers per round.
const HEADERS_MAX: u64 = 1 << 24;

/// Runs the command.
pub(crate) fn run(arguments: &Classify, common: &Common) -> Result<Status, Failure> {
    if arguments.rounds == 0 {
        return Err(Failure::Usage(String::from("--rounds must be at least 1")));
    }
    if arguments.headers > HEADERS_MAX {
        return Err(Failure::Usage(format!("--headers {}: at most {HEADERS_MAX}", arguments.headers)));
    }
    let _kept = arguments.save.open()?;
    let control = Arc::new(Control::default());
    stop_on_signals(&control);
    let mut report = Report::new(tool(), Host::read(Isa::detect().to_string(), &[]));
    report.input = Some(json!({
        "rules": arguments.rules.as_ref().map_or_else(|| String::from("generated"), |path| path.display().to_string()),
        "headers": arguments.headers,
        "batch": arguments.batch,
        "seed": arguments.seed,
    }));
    for (name, set) in sets(arguments)? {
        compare(arguments, &name, &set, &control, common, &mut report)?;
    }
    let complete = report.complete;
    BenchResult { title: "ways to classify", report }.finish(&arguments.save, common)?;
    Ok(if complete { Status::Ok } else { Status::Interrupted })
}

fn sets(arguments: &Classify) -> Result<Vec<(String, RuleSet)>, Failure> {
    if let Some(path) = &arguments.rules {
        let options = RuleOptions { rules: path.clone(), table: None, file: arguments.file.clone() };
        return Ok(vec![(path.display().to_string(), rule_file::read(&options)?.policy.set().clone())]);
    }
    let (profile, name) = match arguments.profile {
        ProfileName::Acl => (Profile::Acl, "acl"),
        ProfileName::Fw => (Profile::Firewall, "fw"),
        ProfileName::Ipc => (Profile::PacketFilter, "ipc"),
    };
    let make = |&size: &u64| {
        let count = usize::try_from(size).unwrap_or(usize::MAX);
        let set = synth::rules(profile, count, arguments.seed, false);
        set.map(|set| (String::from(name), set))
            .map_err(|error| Failure::Usage(format!("--sizes {size}: {error}")))
    };
    arguments.sizes.iter().map(make).collect()
}

/// Builds a variant. Returns `None` and warns if the variant does not apply.
enum Variant {
    Classifier(Box<Classifier>),
    AggreCuts(AggreCuts),
}

impl Variant {
    fn classify(&self, keys: &[KeyV4], matches: &mut [Match], batch: usize) {
        for (keys, matches) in keys.chunks(batch).zip(matches.chunks_mut(batch)) {
            match self {
                Self::Classifier(classifier) => classifier.classify_batch(keys, matches),
                Self::AggreCuts(tree) => tree.classify_batch(keys, matches),
            }
        }
    }
}

/// Builds a variant; `None` where it does not apply, which the report states.
fn build(
    name: VariantName,
    set: &RuleSet,
    common: &Common,
) -> Result<Option<(&'static str, Variant)>, Failure> {
    let classifier = |builder: ClassifierBuilder| {
        builder
            .build(set)
            .map(|built| Variant::Classifier(Box::new(built)))
            .map_err(|error| Failure::Usage(error.to_string()))
    };
    let builder = ClassifierBuilder::new();
    let paper = |stride| match AggreCuts::build(set, stride, Sharing::Siblings, Limits::default()) {
        Ok(tree) => Some(Variant::AggreCuts(tree)),
        Err(error) => {
            warn(&format!("no row for AggreCuts of stride {}: {error}", stride.bits()), common);
            None
        }
    };
    let fits = set.len() <= PAPER_RULES_MAX;
    Ok(match name {
        VariantName::Flowcuts => Some(("flowcuts", classifier(builder)?)),
        VariantName::Avx2 if Isa::Avx2.is_available() => {
            Some(("flowcuts, avx2", classifier(builder.isa(Isa::Avx2))?))
        }
        VariantName::Scalar => Some(("flowcuts, scalar", classifier(builder.isa(Isa::Scalar))?)),
        VariantName::Linear => Some(("linear", classifier(builder.algorithm(Algorithm::Linear))?)),
        VariantName::Aggrecuts8 if fits => paper(Stride::Eight).map(|tree| ("aggrecuts-8", tree)),
        VariantName::Aggrecuts4 if fits => paper(Stride::Four).map(|tree| ("aggrecuts-4", tree)),
        VariantName::Avx2 | VariantName::Aggrecuts8 | VariantName::Aggrecuts4 => None,
    })
}

fn compare(
    arguments: &Classify,
    name: &str,
    set: &RuleSet,
    control: &Control,
    common: &Common,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut variants = Vec::new();
    for &variant in &arguments.variants {
        if control.is_stopped() {
            report.complete = false;
            return Ok(());
        }
        variants.extend(build(variant, set, common)?);
    }
    let batch = usize::try_from(arguments.batch).unwrap_or(usize::MAX);
    for &kind in &arguments.traffic {
        let (traffic, kind) = match kind {
            TrafficName::Hits => (Traffic::HITS, "hits"),
            TrafficName::Misses => (Traffic::MISSES, "misses"),
            TrafficName::Zipf => (Traffic::ZIPF, "zipf"),
        };
        let keys: Vec<KeyV4> = headers(set, traffic, arguments.headers as usize, arguments.seed);
        let mut rounds = Rounds::new(arguments.rounds);
        for (variant, built) in &variants {
            let mut matches = vec![Match::NONE; keys.len()];
            let keys = &keys;
            rounds = rounds.variant_with_lap(*variant, move |lap| {
                lap.time(|| built.classify(keys, &mut matches, batch));
                // The answer that all variants must share: which rules, in which order.
                matches.iter().fold(0_u64, |sum, found| {
                    let rule = found.rule().map_or(u64::MAX, |rule| u64::from(rule.0));
                    (sum.rotate_left(7) ^ rule).wrapping_mul(0x9e37_79b9_7f4a_7c15)
                })
            });
        }
        let outcome = match rounds.run_while(|| !control.is_stopped()) {
            Ok(outcome) => outcome,
            Err(_) if control.is_stopped() => {
                report.complete = false;
                return Ok(());
            }
            Err(error) => return Err(Failure::Usage(format!("the bench cannot go on: {error}"))),
        };
        report.complete &= outcome.complete;
        let (size, items, work) = (set.len() as u64, keys.len() as u64, format!("{name}, {kind}"));
        report
            .results
            .extend(outcome.samples.iter().map(|samples| ResultRow::new(&work, size, items, samples)));
        if let Some((ours, rivals)) = outcome.samples.split_first() {
            let row = |rival| RatioRow::new(&work, size, rival, ours);
            report.ratios.extend(rivals.iter().map(row));
        }
    }
    Ok(())
}
