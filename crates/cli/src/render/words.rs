//! The words that a field of a result can have, for the schemas.

use clap::ValueEnum;
use flowloom::rules::load::RuleFormat;

use crate::args::verdict::VerdictName;

/// Returns the names of an argument's values, for fields that state the value.
pub(super) fn names<T: ValueEnum>() -> Vec<String> {
    let values = T::value_variants().iter().filter_map(ValueEnum::to_possible_value);
    values.map(|value| value.get_name().to_owned()).collect()
}

/// Returns the formats of a rule file.
pub(super) fn rule_forms() -> [&'static str; 7] {
    RuleFormat::ALL.map(RuleFormat::name)
}

/// Returns what a rule may do with a packet.
pub(super) fn verdicts() -> Vec<String> {
    names::<VerdictName>()
}
