//! One program: formats as their readers see them.

mod examples;
mod fields;
mod filter;
mod ipfix;
mod readers;
