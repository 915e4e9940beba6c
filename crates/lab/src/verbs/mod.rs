//! The work of each command.

pub mod bench;
pub mod compare;
pub mod generate;
mod generate_rules;
pub mod reproduce;
pub mod simulate;
