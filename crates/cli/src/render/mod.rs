//! The results of the commands that handle traffic, in every format.
//!
//! The doc comment of a field of a result is its description in [`schema`].

#[cfg(target_os = "linux")]
pub(crate) mod bridge;
pub(crate) mod classify;
pub(crate) mod compare_rules;
pub(crate) mod doctor;
pub(crate) mod encapsulations;
pub(crate) mod extract;
pub(crate) mod inspect;
pub(crate) mod l7;
pub(crate) mod losses;
pub(crate) mod merge;
pub(crate) mod reasons;
pub(crate) mod replay;
pub(crate) mod rules;
pub(crate) mod schema;
#[cfg(target_os = "linux")]
pub(crate) mod send;
pub(crate) mod top;
pub(crate) mod traffic;
pub(crate) mod verdicts;
mod words;

pub(crate) use flowloom_command::render::*;
pub(crate) use flowloom_lab::render::{
    compare, compare_reproductions, compare_runs, generate, reproduce, simulate,
};
