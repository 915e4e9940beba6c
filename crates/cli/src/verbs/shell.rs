//! Completion scripts and manual pages, generated from the same description of the command line.

use std::io::Write;

use clap::CommandFactory;

use crate::args::Arguments;
use crate::args::shell::{Completions, Man};
use crate::exit::{Failure, Status, stdout_failure};

/// Prints a completion script.
pub(crate) fn completions(arguments: &Completions) -> Result<Status, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "flowloom", &mut script);
    std::io::stdout().write_all(&script).map_err(|error| stdout_failure(&error))?;
    Ok(Status::Ok)
}

/// Writes the manual pages.
pub(crate) fn man(arguments: &Man) -> Result<Status, Failure> {
    let directory = &arguments.directory;
    let failed = |error: std::io::Error| {
        Failure::Output(format!("cannot write manual pages into {}: {error}", directory.display()))
    };
    if directory.exists() && !directory.is_dir() {
        return Err(failed(std::io::Error::other(
            "it is not a folder; name a folder, which is created if \
            necessary",
        )));
    }
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(Arguments::command(), directory).map_err(failed)?;
    Ok(Status::Ok)
}
