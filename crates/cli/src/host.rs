//! The program and the machine, as a report describes them.

use flowloom::cpu::features::Isa;
use flowloom::cpu::topology::{allowed_cpus, model_name};
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::Failure;

/// The program.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub(crate) struct Tool {
    /// Its version.
    version: &'static str,
    /// The commit it was built from, or unknown.
    git: &'static str,
}

impl Tool {
    pub(crate) const THIS: Self = Self { version: env!("CARGO_PKG_VERSION"), git: env!("FLOWLOOM_COMMIT") };
}

impl std::fmt::Display for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "flowloom {} ({})", self.version, self.git)
    }
}

/// The machine, and the parts of it that the run uses.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub(crate) struct Host {
    /// Model of the processor, or unknown.
    pub(crate) cpu: String,
    /// CPUs that this process may use; 0 if unknown.
    pub(crate) cpus_allowed: usize,
    /// Instruction set for comparing a bucket of the table: scalar, or one of the processor's.
    pub(crate) isa: String,
}

impl Host {
    /// Returns this machine, with the instruction set that the tables use.
    pub(crate) fn with_isa(isa: Isa) -> Self {
        let cpu = model_name();
        let cpus_allowed = allowed_cpus().map_or(0, |cpus| cpus.len());
        Self { cpu, cpus_allowed, isa: isa.to_string() }
    }
}

/// Returns the instruction set with this name, or for `auto` the best one of this processor.
pub(crate) fn isa_named(name: &str) -> Result<Isa, Failure> {
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
