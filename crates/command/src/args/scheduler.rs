//! `--scheduler`: the policies of the registry that the engine runs.

use std::sync::LazyLock;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use flowloom::scheduler::registry::Scheme;

static ALL: LazyLock<Vec<SchedulerName>> = LazyLock::new(|| {
    Scheme::ALL.iter().copied().filter(|scheme| !scheme.is_simulated_only).map(SchedulerName).collect()
});

/// A scheduling policy by its name in the registry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerName(pub Scheme);

impl SchedulerName {
    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        self.0.name
    }
}

impl Default for SchedulerName {
    /// Returns direct hash.
    fn default() -> Self {
        Self(Scheme::named("dh").expect("the registry lists direct hash"))
    }
}

impl ValueEnum for SchedulerName {
    fn value_variants<'a>() -> &'a [Self] {
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.0.name).help(self.0.about))
    }
}
