//! The `flowloom` command: parses the arguments, runs a command, and returns its exit status.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "figures for people, and positions in this machine's memory"
)]

#[cfg(not(unix))]
compile_error!(
    "the flowloom command builds on Linux, macOS and the BSDs; on Windows the library crates do"
);

mod args;
mod background;
mod capture_index;
mod flow_file;
mod flow_name;
mod pace;
mod part_file;
#[cfg(target_os = "linux")]
mod privileges;
mod profile;
mod record_format;
mod record_view;
mod render;
#[cfg(target_os = "linux")]
mod service_manager;
mod verbs;
mod verify;

use std::process::ExitCode;

use flowloom_command::{
    closed_output, compressed_file, decompressed, exit, growing_table, host, interface, memory_budget,
    output, output_folder, progress, rule_file, signals, topology,
};

use crate::args::{Arguments, Verb};
use crate::exit::{Failure, Status};
use crate::render::say_error;

#[global_allocator]
static ALLOCATOR: flowloom::cpu::exhaustion::Allocator = flowloom::cpu::exhaustion::Allocator;

fn main() -> ExitCode {
    signals::outlive_full_files();
    // Without the handler, the signal keeps its default action.
    flowloom::cpu::exhaustion::share_heap_where_addresses_are_few();
    let _ = flowloom::cpu::exhaustion::exit_when_exhausted(Status::Exhausted as i32);
    signals::outlive_cut_captures();
    match run() {
        Ok(status) => status.into(),
        // The reader of the output has closed the pipe, which is a normal end.
        Err(Failure::BrokenPipe) => Status::Ok.into(),
        Err(failure) => {
            let status = failure.status();
            say_error(failure.text(), status);
            status.into()
        }
    }
}

fn run() -> Result<Status, Failure> {
    let Some(arguments) = Arguments::read()? else { return Ok(Status::Ok) };
    render::choose_forms(&arguments.common);
    match arguments.verb {
        // It starts the thread once it has given up its privileges.
        Verb::Bridge(_) => {}
        Verb::Rules(_)
        | Verb::Merge(_)
        | Verb::Compare(_)
        | Verb::Doctor
        | Verb::Schema(_)
        | Verb::Completions(_)
        | Verb::Man(_) => signals::start(false),
        Verb::Generate(ref generate) => signals::start(generate.is_trace()),
        _ => signals::start(true),
    }
    match &arguments.verb {
        Verb::Replay(verb) => verbs::replay::run(verb, &arguments.common),
        Verb::Bridge(verb) => verbs::bridge::run(verb, &arguments.common),
        Verb::Send(verb) => verbs::send::run(verb, &arguments.common),
        Verb::Top(verb) => verbs::top::run(verb, &arguments.common),
        Verb::Extract(verb) => verbs::extract::run(verb, &arguments.common),
        Verb::Inspect(verb) => verbs::inspect::run(verb, &arguments.common),
        Verb::Classify(verb) => verbs::classify::run(verb, &arguments.common),
        Verb::Rules(verb) => verbs::rules::run(verb, &arguments.common),
        Verb::Generate(verb) => verbs::generate::run(verb, &arguments.common),
        Verb::Merge(verb) => verbs::merge::run(verb, &arguments.common),
        Verb::Simulate(verb) => verbs::simulate::run(verb, &arguments.common),
        Verb::Bench(verb) => verbs::bench::run(verb, &arguments.common),
        Verb::Reproduce(verb) => verbs::reproduce::run(verb, &arguments.common),
        Verb::Compare(verb) => verbs::compare::run(verb, &arguments.common),
        Verb::Doctor => verbs::doctor::run(&arguments.common),
        Verb::Schema(verb) => verbs::schema::run(verb, &arguments.common),
        Verb::Completions(verb) => verbs::shell::completions(verb),
        Verb::Man(verb) => verbs::shell::man(verb),
    }
}
