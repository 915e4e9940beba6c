//! Comparisons of parts of Flowloom with each other, and of the whole program with others.

mod against;
mod classify;
mod pipeline;
mod schedule;
mod table;

use crate::args::Common;
use crate::args::bench::Bench;
use crate::exit::{Failure, Status};

/// Runs the command.
pub fn run(arguments: &Bench, common: &Common) -> Result<Status, Failure> {
    match arguments {
        Bench::Against(arguments) => against::run(arguments, common),
        Bench::Table(arguments) => table::run(arguments, common),
        Bench::Classify(arguments) => classify::run(arguments, common),
        Bench::Pipeline(arguments) => pipeline::run(arguments, common),
        Bench::Schedule(arguments) => schedule::run(arguments, common),
    }
}
