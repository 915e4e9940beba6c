//! The work of each command, one file per command.

pub(crate) mod bench;
pub(crate) mod bridge;
pub(crate) mod classify;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod extract;
pub(crate) mod generate;
pub(crate) mod generate_rules;
pub(crate) mod inspect;
pub(crate) mod merge;
pub(crate) mod replay;
pub(crate) mod reproduce;
pub(crate) mod rules;
pub(crate) mod schema;
pub(crate) mod send;
pub(crate) mod shell;
pub(crate) mod simulate;
pub(crate) mod top;
