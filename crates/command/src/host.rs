//! The program and the machine, as a report describes them.

use flowloom::cpu::features::Isa;
use flowloom::cpu::topology::{allowed_cpus, model_name};
use flowloom_measure::rows::Tool;
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::Failure;

/// Returns the program: its version, and the commit it was built from, or unknown.
pub fn tool() -> Tool {
    Tool { version: env!("CARGO_PKG_VERSION").to_owned(), git: env!("FLOWLOOM_COMMIT").to_owned() }
}

/// The machine, and the parts of it that the run uses.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub struct Host {
    /// Model of the processor, or unknown.
    pub cpu: String,
    /// CPUs that this process may use; 0 if unknown.
    pub cpus_allowed: usize,
    /// Instruction set for comparing a bucket of the table: scalar, or one of the processor's.
    pub isa: String,
}

impl Host {
    /// Returns this machine, with the instruction set that the tables use.
    pub fn with_isa(isa: Isa) -> Self {
        let cpu = model_name();
        let cpus_allowed = allowed_cpus().map_or(0, |cpus| cpus.len());
        Self { cpu, cpus_allowed, isa: isa.to_string() }
    }
}

/// Returns the instruction set with this name, or for `auto` the best one of this processor.
pub fn isa_named(name: &str) -> Result<Isa, Failure> {
    if name == "auto" {
        return Ok(Isa::detect());
    }
    match name.parse::<Isa>() {
        Ok(isa) if isa.is_available() => Ok(isa),
        _ => {
            let available: Vec<String> = Isa::available().map(|isa| isa.to_string()).collect();
            Err(Failure::Usage(format!(
                "this processor does not support the instruction set '{name}'\n  available: auto, {}",
                available.join(", ")
            )))
        }
    }
}
