//! Runs `schema`.

use std::io::Write;

use crate::args::Common;
use crate::args::schema::SchemaOf;
use crate::exit::{Failure, Status, stdout_failure};
use crate::render::print;
use crate::render::schema::SchemaList;

/// Prints the schema of a result, or lists all.
pub(crate) fn run(arguments: &SchemaOf, common: &Common) -> Result<Status, Failure> {
    match arguments.name {
        None => print(&SchemaList::all(), common)?,
        Some(name) => {
            let text = format!("{:#}\n", name.0.schema().as_value());
            std::io::stdout().write_all(text.as_bytes()).map_err(|error| stdout_failure(&error))?;
        }
    }
    Ok(Status::Ok)
}
