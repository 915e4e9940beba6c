//! Analyses rule sets.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flowloom::classifier::analysis::Oddity;
use flowloom::classifier::{Addresses, ClassifierBuilder, PortRange, ProtocolMatch, Rule};
use flowloom::rules::firewall::Families;
use flowloom::rules::load::classbench;
use flowloom::rules::write;

use crate::args::Common;
use crate::args::rules::{Check, Convert, FamilyName, Rules, Stats, TargetForm};
use crate::exit::{Failure, Status, stdout_failure};
use crate::output::{is_one_file, write_whole};
use crate::progress::Steps;
use crate::render::rules::{
    CheckResult, ConvertResult, FamilyResult, OddityResult, PrefixCount, StatsResult,
};
use crate::render::{counted, print, warn};
use crate::rule_file::{self, RuleFile};

mod compare;
mod explain;
mod file_rules;

pub(crate) use file_rules::{CONNECTIONS_MAX, line, verdict};

/// Runs the command.
pub(crate) fn run(arguments: &Rules, common: &Common) -> Result<Status, Failure> {
    match arguments {
        Rules::Check(check) => run_check(check, common),
        Rules::Stats(stats) => run_stats(stats, common),
        Rules::Explain(explain) => explain::run(explain, common),
        Rules::Convert(convert) => run_convert(convert, common),
        Rules::Minimise(minimise) => compare::minimise(minimise, common),
        Rules::Diff(diff) => compare::diff(diff, common, diff.top),
        Rules::Equivalent(diff) => compare::diff(diff, common, 1),
    }
}

fn run_check(arguments: &Check, common: &Common) -> Result<Status, Failure> {
    let file = rule_file::read(&arguments.options)?;
    file.warn_of_notes(common);
    let done = Arc::new(AtomicU64::new(0));
    let steps = Steps::start("rules", file.policy.len() as u64, Arc::clone(&done), common.quiet > 0);
    let watch = |decided| done.store(u64::from(decided), Ordering::Relaxed);
    let findings = file.policy.check(arguments.steps_max, watch);
    drop(steps);
    let count =
        |of: fn(&Oddity) -> bool| findings.oddities.iter().filter(|oddity| of(oddity)).count() as u64;
    let listed = findings.oddities.iter().take(arguments.top).map(|oddity| {
        let (kind, cause, rules) = match *oddity {
            Oddity::Duplicate { of, .. } => ("duplicate", Some(of), 1),
            Oddity::Shadowed { by, .. } => ("shadowed", Some(by), 1),
            Oddity::Unreachable { rules, .. } => ("unreachable", None, u64::from(rules)),
        };
        let cause = cause.map(|id| line(&file, id));
        OddityResult { kind, rule: line(&file, oddity.rule()), by: cause, rules }
    });
    let result = CheckResult {
        schema: "flowloom/rules-check/1",
        path: arguments.options.rules.display().to_string(),
        form: file.form.name(),
        rules: file.rules(),
        duplicates: count(|oddity| matches!(oddity, Oddity::Duplicate { .. })),
        shadowed: count(|oddity| matches!(oddity, Oddity::Shadowed { .. })),
        unreachable: count(|oddity| matches!(oddity, Oddity::Unreachable { .. })),
        undecided: u64::from(findings.undecided),
        with_tests: file.with_tests(),
        listed: listed.collect(),
    };
    print(&result, common)?;
    let is_odd = !findings.oddities.is_empty();
    Ok(if arguments.strict && is_odd { Status::CheckFailed } else { Status::Ok })
}

fn run_stats(arguments: &Stats, common: &Common) -> Result<Status, Failure> {
    let file = rule_file::read(&arguments.options)?;
    let rules = file.set().rules();
    let mut pairs = std::collections::BTreeMap::<(u32, u32, bool), u64>::new();
    for rule in rules {
        let pair = match rule.addresses {
            Addresses::Any => (0, 0, false),
            Addresses::V4 { source, destination } => (source.length(), destination.length(), false),
            Addresses::V6 { source, destination } => (source.length(), destination.length(), true),
        };
        *pairs.entry(pair).or_default() += 1;
    }
    let mut prefixes: Vec<PrefixCount> = pairs
        .into_iter()
        .map(|((source, destination, v6), rules)| PrefixCount { source, destination, v6, rules })
        .collect();
    prefixes.sort_by_key(|count| std::cmp::Reverse(count.rules));
    prefixes.truncate(10);
    let count = |of: &dyn Fn(&Rule) -> bool| rules.iter().filter(|rule| of(rule)).count() as u64;
    let is_range = |range: PortRange| range != PortRange::ANY && range.low() != range.high();
    let begun = std::time::Instant::now();
    let classifier = ClassifierBuilder::new()
        .memory_bytes_max(usize::try_from(arguments.memory_max).unwrap_or(usize::MAX))
        .build(file.set())
        .map_err(|error| Failure::Usage(error.to_string()))?;
    let build_seconds = begun.elapsed().as_secs_f64();
    let stats = classifier.stats();
    let result = StatsResult {
        schema: "flowloom/rules-stats/1",
        path: arguments.options.rules.display().to_string(),
        form: file.form.name(),
        rules: rules.len() as u64,
        v4: count(&|rule| matches!(rule.addresses, Addresses::V4 { .. })),
        v6: count(&|rule| matches!(rule.addresses, Addresses::V6 { .. })),
        any: count(&|rule| rule.addresses == Addresses::Any),
        port_ranges: count(&|rule| is_range(rule.source_ports) || is_range(rule.destination_ports)),
        any_protocol: count(&|rule| rule.protocol == ProtocolMatch::ANY),
        with_tests: file.with_tests(),
        prefixes,
        build_seconds,
        classifier_v4: FamilyResult::new(&stats.v4),
        classifier_v6: FamilyResult::new(&stats.v6),
    };
    print(&result, common)?;
    Ok(Status::Ok)
}

fn run_convert(arguments: &Convert, common: &Common) -> Result<Status, Failure> {
    let mut file = rule_file::read(&arguments.options)?;
    if arguments.no_later_fragments {
        file.policy = file.policy.without_later_fragments();
    }
    let output = arguments.output.as_deref().filter(|path| path.as_os_str() != "-");
    if let Some(path) = output.filter(|path| is_one_file(&arguments.options.rules, path)) {
        return Err(Failure::Usage(format!(
            "-o {} would overwrite the rules\n  name another file",
            path.display()
        )));
    }
    let ending = output.and_then(Path::extension).and_then(|ending| ending.to_str());
    let named = match ending {
        Some("toml") => TargetForm::Toml,
        Some("nft") => TargetForm::Nft,
        Some("json") => TargetForm::Json,
        _ => TargetForm::Classbench,
    };
    let form = arguments.to.unwrap_or(named);
    let text = match form {
        TargetForm::Classbench if !file.policy.is_plain() && file.with_tests() > 0 => {
            return Err(Failure::Usage(format!(
                "a ClassBench filter file cannot express the conditions of {} beyond addresses, ports \
                 and protocol\n  use --to toml",
                counted(file.with_tests(), "rule")
            )));
        }
        TargetForm::Classbench => classbench::write(file.set().rules()),
        TargetForm::Toml => {
            write::toml::write(&file.policy).map_err(|error| Failure::Usage(error.to_string()))?
        }
        TargetForm::Nft => {
            write::nft::write(&file.policy).map_err(|error| Failure::Usage(error.to_string()))?
        }
        TargetForm::Iptables => {
            let family = match arguments.options.file.family {
                Some(FamilyName::Ipv6) => Families::V6,
                _ => Families::V4,
            };
            write::iptables::write(&file.policy, family)
                .map_err(|error| Failure::Usage(error.to_string()))?
        }
        TargetForm::Json => write::json::write(&file.policy),
    };
    if let Some(loss) = loss(&file, form) {
        warn(&loss, common);
    }
    let Some(path) = output else {
        use std::io::Write;
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .map_err(|error| stdout_failure(&error))?;
        return Ok(Status::Ok);
    };
    write_whole(path, text.as_bytes())
        .map_err(|error| Failure::Output(format!("cannot write {}: {error}", path.display())))?;
    let result = ConvertResult {
        schema: "flowloom/rules-convert/1",
        path: path.display().to_string(),
        from: file.form.name(),
        rules: file.rules(),
        bytes: text.len() as u64,
    };
    print(&result, common)?;
    Ok(Status::Ok)
}

/// Returns the parts of the rules' meaning that a format cannot express.
fn loss(file: &RuleFile, form: TargetForm) -> Option<String> {
    let rules = file.set().rules();
    let count = |of: &dyn Fn(&Rule) -> bool| rules.iter().filter(|rule| of(rule)).count() as u64;
    let lost = match form {
        TargetForm::Classbench => [
            (count(&|rule| rule.action.is_some()), "without action"),
            (count(&|rule| rule.addresses == Addresses::Any), "for IPv4 only, but were for IPv6 too"),
        ],
        _ => return None,
    };
    let lost: Vec<String> = lost
        .iter()
        .filter(|(rules, _)| *rules > 0)
        .map(|(rules, what)| format!("{} {what}", counted(*rules, "rule")))
        .collect();
    (!lost.is_empty()).then(|| format!("written are {}; --to toml keeps that", lost.join(", ")))
}
