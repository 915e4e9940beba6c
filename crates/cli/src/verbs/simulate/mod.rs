//! Simulates algorithms, a file or folder each.

mod tcb_cache;

use crate::args::Common;
use crate::args::simulate::Simulate;
use crate::exit::{Failure, Status};

/// Runs the verb.
pub(crate) fn run(arguments: &Simulate, common: &Common) -> Result<Status, Failure> {
    match arguments {
        Simulate::TcbCache(verb) => tcb_cache::run(verb, common),
    }
}
