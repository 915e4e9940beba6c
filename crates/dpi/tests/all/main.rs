//! One program: the scanner, its patterns and streams.

mod builtin;
mod examples;
mod scan;
mod stream;
