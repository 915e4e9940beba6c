//! The options of these commands.

pub mod bench;
pub mod compare;
pub mod generate;
pub mod reproduce;
pub mod simulate;

pub(crate) use flowloom_command::args::*;
