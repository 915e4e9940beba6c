//! `rules minimise`, `rules diff` and `rules equivalent`.

use flowloom::classifier::{Action, RuleId};
use flowloom::rules::firewall::{CompareDefaults, LeftOut};
use flowloom::rules::load::RuleFormat;
use flowloom::rules::write;

use super::file_rules::line;
use crate::args::Common;
use crate::args::rules::{Diff, Minimise, RuleOptions};
use crate::args::verdict::VerdictName;
use crate::exit::{Failure, Status, stdout_failure};
use crate::output::{is_one_file, write_whole};
use crate::render::compare_rules::{
    DiffResult, DifferenceResult, LeftOutResult, MinimiseResult, SideResult,
};
use crate::render::{print, warn};
use crate::rule_file::{self, RuleFile};

/// Removes rules without effect.
pub(super) fn minimise(arguments: &Minimise, common: &Common) -> Result<Status, Failure> {
    let file = rule_file::read(&arguments.options)?;
    file.warn_of_notes(common);
    if let Some(path) =
        arguments.output.as_deref().filter(|path| is_one_file(&arguments.options.rules, path))
    {
        return Err(Failure::Usage(format!(
            "-o {} would overwrite the rules\n  name another file",
            path.display()
        )));
    }
    let smaller =
        file.policy.minimised(arguments.steps_max).map_err(|error| Failure::Input(error.to_string()))?;
    if let Some(path) = &arguments.output {
        let text =
            write::toml::write(&smaller.policy).map_err(|error| Failure::Usage(error.to_string()))?;
        if path.as_os_str() == "-" {
            use std::io::Write;
            let mut out = std::io::stdout().lock();
            let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            return written.map_err(|error| stdout_failure(&error)).map(|()| Status::Ok);
        }
        write_whole(path, text.as_bytes())
            .map_err(|error| Failure::Output(format!("cannot write {}: {error}", path.display())))?;
    }
    // One box of each rule, to print it.
    let mut boxes: Vec<Option<RuleId>> = vec![None; file.policy.sources().len()];
    for id in (0..file.set().len() as u32).map(RuleId) {
        boxes[file.policy.source_index(id)].get_or_insert(id);
    }
    let count = |why: LeftOut| smaller.left_out.iter().filter(|(_, other)| *other == why).count() as u64;
    let listed = smaller.left_out.iter().filter_map(|&(source, why)| {
        let why = match why {
            LeftOut::Redundant => "redundant",
            LeftOut::Unreached => "unreached",
        };
        Some(LeftOutResult { why, rule: line(&file, boxes[source]?) })
    });
    let result = MinimiseResult {
        schema: "flowloom/rules-minimise/1",
        path: arguments.options.rules.display().to_string(),
        form: file.form.name(),
        rules: file.rules(),
        kept: file.rules() - smaller.left_out.len() as u64,
        unreached: count(LeftOut::Unreached),
        redundant: count(LeftOut::Redundant),
        undecided: u64::from(smaller.undecided),
        output: arguments.output.as_ref().map(|path| path.display().to_string()),
        listed: listed.take(arguments.top).collect(),
    };
    print(&result, common)?;
    Ok(Status::Ok)
}

/// Compares two rule sets, and lists at most `top` differences.
pub(super) fn diff(arguments: &Diff, common: &Common, top: usize) -> Result<Status, Failure> {
    let mut own = arguments.options.clone();
    if rule_file::form_of(&own)? != RuleFormat::Kubernetes {
        // The address list is for the other file.
        own.file.addresses = None;
    }
    let first = rule_file::read(&own)?;
    let mut options = RuleOptions { rules: arguments.other.clone(), ..arguments.options.clone() };
    if arguments.other_chain.is_some() {
        options.file.chain.clone_from(&arguments.other_chain);
    }
    rule_file::check_inputs(&arguments.options.rules, std::slice::from_ref(&arguments.other))?;
    // A format without chains has no chain to select.
    if arguments.other_chain.is_none() && !rule_file::form_of(&options)?.has_chains() {
        (options.file.chain, options.table) = (None, None);
    }
    if rule_file::form_of(&options)? != RuleFormat::Kubernetes && first.form == RuleFormat::Kubernetes {
        options.file.addresses = None;
    }
    let second = rule_file::read(&options)?;
    first.warn_of_notes(common);
    second.warn_of_notes(common);
    let defaults =
        CompareDefaults { unmatched: action(arguments.unmatched), no_action: action(arguments.no_action) };
    let comparison = first.policy.compare(&second.policy, defaults, arguments.steps_max, top.max(1));
    if comparison.other_hooks {
        warn("the rules are for different hooks, so they see different packets", common);
    }
    if comparison.other_untracked {
        warn("rules with notrack leave different packets untracked, so states differ", common);
    }
    let side = |file: &RuleFile, (rule, action): (Option<RuleId>, Action)| SideResult {
        action: action.name(),
        rule: rule.map(|id| line(file, id)),
    };
    let result = DiffResult {
        schema: "flowloom/rules-diff/1",
        first: arguments.options.rules.display().to_string(),
        second: arguments.other.display().to_string(),
        equivalent: comparison.are_equivalent(),
        undecided: comparison.is_undecided,
        listed: comparison
            .differences
            .iter()
            .map(|one| DifferenceResult {
                packet: one.witness.to_string(),
                first: side(&first, one.first),
                second: side(&second, one.second),
            })
            .collect(),
    };
    print(&result, common)?;
    Ok(if result.equivalent == Some(true) { Status::Ok } else { Status::CheckFailed })
}

fn action(name: VerdictName) -> Action {
    match name {
        VerdictName::Accept => Action::Accept,
        VerdictName::Deny => Action::Deny,
    }
}
