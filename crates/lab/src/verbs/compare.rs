//! Compares two saved results.

mod runs;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flowloom_measure::change::Changes;
use flowloom_measure::rows::SCHEMA;
use flowloom_measure::{ChangeVerdict, Report};
use serde_json::Value;

use crate::args::Common;
use crate::args::compare::Compare;
use crate::exit::{Failure, Status};
use crate::output::is_one_file;
use crate::render::compare::CompareResult;
use crate::render::compare_reproductions::CompareReproductions;
use crate::render::save::print_and_save;
use crate::render::{counted, warn};

/// Maximum size of a result file; results of benches have several hundred kilobytes.
const RESULT_BYTES_MAX: u64 = 64 << 20;

/// Runs the command.
pub fn run(arguments: &Compare, common: &Common) -> Result<Status, Failure> {
    if let Some(folder) = &arguments.save.save {
        let to = folder.join("result.json");
        let inputs = [&arguments.base, &arguments.new].map(|path| result_in(path));
        if inputs.iter().any(|path| is_one_file(path, &to)) {
            return Err(Failure::Usage(format!(
                "--save {} would overwrite a result that is compared\n  name another folder",
                folder.display()
            )));
        }
    }
    let _kept = arguments.save.open()?;
    let (base, new) = (document(&arguments.base)?, document(&arguments.new)?);
    let title = format!("{} compared with {}", arguments.new.display(), arguments.base.display());
    if is_reproduction(&base) && is_reproduction(&new) {
        if let Some(options) = different_options(&base, &new) {
            warn(&format!("the results are of different options: {options}"), common);
        }
        let result = CompareReproductions::new(&base, &new);
        print_and_save(&result, &title, &arguments.save, Vec::new, common)?;
        return Ok(if result.changed > 0 { Status::CheckFailed } else { Status::Ok });
    }
    if [&base, &new].iter().all(|document| is_run(document)) {
        if arguments.fail_above.is_some() {
            return Err(Failure::Usage(String::from(
                "--fail-above is for results of bench\n  omit it, to compare runs of replay",
            )));
        }
        if let Some(differences) = differences(base.get("run"), new.get("run")) {
            warn(&format!("the runs have different settings: {differences}"), common);
        }
        let result = runs::compare([&arguments.base, &arguments.new], [&base, &new])?;
        print_and_save(&result, &title, &arguments.save, Vec::new, common)?;
        return Ok(Status::Ok);
    }
    let (base, new) = (bench(&arguments.base, base)?, bench(&arguments.new, new)?);
    let hosts = [&base.host, &new.host].map(|host| format!("{} {}", host.cpu, host.isa));
    if hosts[0] != hosts[1] && !arguments.force {
        return Err(Failure::Usage(format!(
            "the results are from different machines: {} and {}\n  --force compares them nevertheless",
            hosts[0], hosts[1]
        )));
    }
    for (path, report) in [(&arguments.base, &base), (&arguments.new, &new)] {
        if !report.complete {
            warn(&format!("{} is from an interrupted run", path.display()), common);
        }
        if !report.host.is_quiet() {
            warn(&format!("{} was measured on a noisy machine", path.display()), common);
        }
    }
    if let Some(differences) = differences(base.input.as_ref(), new.input.as_ref()) {
        warn(&format!("the results are from different work: {differences}"), common);
    }
    let changes = Changes::between(&base, &new);
    if changes.rows.is_empty() {
        return Err(Failure::Usage(String::from(
            "the results have no row in common\n  rows are matched by variant, work and size",
        )));
    }
    let few =
        changes.rows.iter().filter(|change| change.verdict() == ChangeVerdict::TooFewRounds).count() as u64;
    if few > 0 {
        let (rows, have) = (counted(few, "row"), if few == 1 { "has" } else { "have" });
        warn(
            &format!("{rows} {have} too few rounds for an interval: bench with --rounds 6 or more"),
            common,
        );
    }
    let result = CompareResult::new(changes, arguments.fail_above);
    print_and_save(&result, &title, &arguments.save, || result.charts(), common)?;
    Ok(if result.failed > 0 { Status::CheckFailed } else { Status::Ok })
}

/// Returns the differences between the inputs of two results, if any. A result that does not state
/// its input counts as equal.
fn differences(base: Option<&Value>, new: Option<&Value>) -> Option<String> {
    let (base, new) = (base?.as_object()?, new?.as_object()?);
    let names: BTreeSet<&String> = base.keys().chain(new.keys()).collect();
    let shown = |value: Option<&Value>| match value {
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
        None => String::from("nothing"),
    };
    let differing: Vec<String> = names
        .into_iter()
        .filter(|&name| base.get(name) != new.get(name))
        .map(|name| format!("{name} {} and {}", shown(base.get(name)), shown(new.get(name))))
        .collect();
    (!differing.is_empty()).then(|| differing.join(", "))
}

/// Returns the options of two reproductions where those of an item that both have differ.
fn different_options(base: &Value, new: &Value) -> Option<String> {
    let commands = |document: &Value| -> Vec<String> {
        let commands = document["commands"].as_array().into_iter().flatten().filter_map(Value::as_str);
        commands.map(str::to_owned).collect()
    };
    let new = commands(new);
    commands(base).iter().find_map(|base| {
        let (item, options) = base.split_once(" --")?;
        let (_, others) =
            new.iter().filter_map(|new| new.split_once(" --")).find(|(known, _)| *known == item)?;
        (options != others).then(|| format!("--{options} and --{others}"))
    })
}

/// Returns whether a document is of `reproduce`.
fn is_reproduction(document: &Value) -> bool {
    document.get("schema").and_then(Value::as_str) == Some(flowloom_repro::SCHEMA)
}

/// Returns whether a document is of `replay`.
fn is_run(document: &Value) -> bool {
    document.get("schema").and_then(Value::as_str) == Some("flowloom/replay/1")
}

fn refused(path: &Path, why: &dyn std::fmt::Display) -> Failure {
    Failure::Input(format!(
        "{} is not a saved result that can be compared: {why}\n  \
         save the results of two runs first, as replay CAPTURE --save FOLDER does",
        path.display()
    ))
}

/// Returns the file of a result, which may be given as the folder of `--save`.
fn result_in(path: &Path) -> PathBuf {
    if path.is_dir() { path.join("result.json") } else { path.to_path_buf() }
}

fn document(path: &Path) -> Result<Value, Failure> {
    let failed = |why: &dyn std::fmt::Display| refused(path, why);
    let mut bytes = Vec::new();
    let path = &result_in(path);
    File::open(path)
        .and_then(|file| file.take(RESULT_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(|error| Failure::Input(format!("cannot read {}: {error}", path.display())))?;
    if !bytes.starts_with(b"{") {
        return Err(failed(&"it is no JSON document"));
    }
    if bytes.len() as u64 > RESULT_BYTES_MAX {
        return Err(failed(&format!("more than {RESULT_BYTES_MAX} bytes")));
    }
    serde_json::from_slice(&bytes).map_err(|error| failed(&error))
}

fn bench(path: &Path, document: Value) -> Result<Report, Failure> {
    let failed = |why: &dyn std::fmt::Display| refused(path, why);
    // The schema is checked first, because it identifies a document of another kind better than a
    // missing field.
    match document.get("schema").and_then(Value::as_str) {
        Some(SCHEMA) => serde_json::from_value(document).map_err(|error| failed(&error)),
        Some(schema) => Err(failed(&format!("its schema is {schema}, but a bench has {SCHEMA}"))),
        None => Err(failed(&"it names no schema")),
    }
}
