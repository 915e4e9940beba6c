//! Runs models in virtual time.

mod ordering;
mod schedule;
pub(crate) mod tcb_cache;
mod traffic;

use crate::args::Common;
use crate::args::simulate::Simulate;
use crate::exit::{Failure, Status};

/// Runs the command.
pub fn run(arguments: &Simulate, common: &Common) -> Result<Status, Failure> {
    match arguments {
        Simulate::Schedule(arguments) => schedule::run(arguments, common),
        Simulate::Ordering(arguments) => ordering::run(arguments, common),
        Simulate::TcbCache(arguments) => tcb_cache::run(arguments, common),
    }
}
