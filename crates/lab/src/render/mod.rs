//! The results of these commands, in every format.

pub mod bench;
pub mod compare;
pub mod compare_reproductions;
pub mod compare_runs;
pub mod generate;
pub mod reproduce;
pub mod simulate;

pub(crate) use flowloom_command::render::*;
