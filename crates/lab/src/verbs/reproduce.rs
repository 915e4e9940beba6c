//! Reproduces items of the papers.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;

use flowloom::cpu::features::Isa;
use flowloom::engine::Control;
use flowloom_measure::Host;
use flowloom_repro::{Context, Item, ItemError, PAPERS, Plan, Reproduction, Scale, select};

use crate::args::Common;
use crate::args::reproduce::{Reproduce, ScaleName};
use crate::exit::{Failure, Status};
use crate::host::tool;
use crate::output_folder::OutputFolder;
use crate::render::reproduce::{ItemList, ReproduceResult};
use crate::render::{print, say};
use crate::signals::stop_on_signals;

/// Runs the command.
pub fn run(arguments: &Reproduce, common: &Common) -> Result<Status, Failure> {
    // Papers are often cited in capitals; all names are in lower case.
    let named: Vec<String> = arguments.what.iter().map(|what| what.to_ascii_lowercase()).collect();
    let (list, mut names): (Vec<&str>, Vec<&str>) =
        named.iter().map(String::as_str).partition(|what| *what == "list");
    if names.is_empty() {
        names.push("all");
    }
    let items = selected(&names)?;
    if !list.is_empty() {
        if arguments.save.is_some() {
            return Err(Failure::Usage(String::from(
                "list runs nothing that --save could keep\n  use --format json or csv, or omit list",
            )));
        }
        print(&ItemList::new(&items), common)?;
        return Ok(Status::Ok);
    }
    let data = data_folder(arguments)?;
    let _kept = arguments.save.as_deref().map(OutputFolder::open).transpose()?;
    let control = Arc::new(Control::default());
    stop_on_signals(&control);
    let go_on = || !control.is_stopped();
    let scale = match arguments.scale {
        ScaleName::Smoke => Scale::Smoke,
        ScaleName::Quick => Scale::Quick,
        ScaleName::Full => Scale::Full,
    };
    let guesses = guesses(arguments, &items)?;
    let context =
        Context { data: data.as_deref(), guesses: &guesses, ..Context::new(scale, arguments.seed, &go_on) };
    let plan = plan(arguments)?;
    let mut reproduction = Reproduction::new(tool(), Host::read(Isa::detect().to_string(), &[]), &context);
    let mut failed = None;
    for (number, item) in (1..).zip(&items) {
        if common.quiet == 0 && std::io::stderr().is_terminal() {
            say(&format!("[{number}/{}] {}", items.len(), item.id));
        }
        match reproduction.run(item, &context, plan) {
            Ok(record) => {
                if common.quiet == 0 {
                    say(&record.line());
                }
            }
            Err(ItemError::Interrupted) => {
                reproduction.complete = false;
                break;
            }
            Err(error) => {
                reproduction.complete = false;
                failed = Some(Failure::Experiment(format!("{}: {error}", item.id)));
                break;
            }
        }
    }
    let saved = arguments.save.as_deref().map(|folder| reproduction.write(folder));
    let status = match (reproduction.complete, reproduction.holds()) {
        (false, _) => Status::Interrupted,
        (true, true) => Status::Ok,
        (true, false) => Status::CheckFailed,
    };
    print(&ReproduceResult { reproduction, plan, saved: arguments.save.clone() }, common)?;
    match (saved, failed) {
        (Some(Err(error)), _) => Err(Failure::Output(error.to_string())),
        // The items before it are kept.
        (_, Some(failed)) => Err(failed),
        (_, None) => Ok(status),
    }
}

/// Returns the runs of each item.
fn plan(arguments: &Reproduce) -> Result<Plan, Failure> {
    match arguments.seeds {
        Some(seeds) if seeds == 0 || seeds > Plan::SEEDS_MAX => Err(Failure::Usage(format!(
            "--seeds {seeds}: must be from 1 to {}\n  ten give an interval of more than 95 %",
            Plan::SEEDS_MAX
        ))),
        seeds => Ok(Plan { seeds, ablate: arguments.ablate, sweep: arguments.sweep }),
    }
}

/// Returns the assumed parameter values; each must belong to some item and lie in its range.
fn guesses<'a>(arguments: &'a Reproduce, items: &[&Item]) -> Result<Vec<(&'a str, f64)>, Failure> {
    for (name, value) in &arguments.guesses {
        let mut own = items.iter().flat_map(|item| item.guesses).filter(|guess| guess.name == name);
        let Some(guess) = own.next() else {
            return Err(Failure::Usage(format!(
                "no selected item has the parameter '{name}'\n  `flowloom reproduce list {}` lists the \
                 parameters of each item",
                items.first().map_or("", |item| item.paper())
            )));
        };
        if !guess.accepts(*value) {
            return Err(Failure::Usage(format!(
                "--guess {name}={value}: must be {}\n  {name}: {}",
                guess.range(),
                guess.about
            )));
        }
    }
    Ok(arguments.guesses.iter().map(|(name, value)| (name.as_str(), *value)).collect())
}

/// Returns the items that the names select, each once.
fn selected(names: &[&str]) -> Result<Vec<&'static Item>, Failure> {
    let mut items: Vec<&'static Item> = Vec::new();
    for name in names {
        let some = select(name);
        if some.is_empty() {
            let papers: Vec<&str> = PAPERS.iter().map(|paper| paper.key).collect();
            return Err(Failure::Usage(format!(
                "there is no paper or item '{name}'\n  papers: {}; `flowloom reproduce list` names their items",
                papers.join(", ")
            )));
        }
        for item in some {
            if !items.iter().any(|known| known.id == item.id) {
                items.push(item);
            }
        }
    }
    Ok(items)
}

/// Returns the folder of real data, if one is named.
fn data_folder(arguments: &Reproduce) -> Result<Option<PathBuf>, Failure> {
    let named = arguments.data.clone();
    let folder = named
        .or_else(|| std::env::var_os("FLOWLOOM_DATA").filter(|value| !value.is_empty()).map(PathBuf::from));
    match folder {
        Some(folder) if !folder.is_dir() => Err(Failure::Usage(format!(
            "the data folder {} is not a folder\n  it holds `pcaps`, `rules` and `logs`; items that need none of them run without it",
            folder.display()
        ))),
        folder => Ok(folder),
    }
}
