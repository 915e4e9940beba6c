//! The work of each command, one file per command.

pub(crate) mod bridge;
pub(crate) mod classify;
pub(crate) mod doctor;
pub(crate) mod extract;
pub(crate) mod inspect;
pub(crate) mod merge;
pub(crate) mod replay;
pub(crate) mod rules;
pub(crate) mod schema;
pub(crate) mod send;
pub(crate) mod shell;
pub(crate) mod top;

pub(crate) use flowloom_lab::verbs::{bench, compare, generate, reproduce, simulate};
