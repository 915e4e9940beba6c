//! Options of several commands, and parsers of their values.

pub mod decoding;
pub mod parse;
pub mod rules;
pub mod save;
pub mod scheduler;
pub mod verdict;

use std::io::{self, IsTerminal};

use clap::{Args, ValueEnum};

/// Options of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct Common {
    /// Format of the result on standard output
    #[arg(long, value_enum, default_value_t = Format::Auto, global = true, value_name = "FORM")]
    pub format: Format,

    /// Colour of tables and errors
    #[arg(long, value_enum, default_value_t = Color::Auto, global = true, value_name = "WHEN")]
    pub color: Color,

    /// Print only the last line, which sums up; twice: only errors
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub quiet: u8,
}

/// Format of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// `table` on a terminal, `plain` otherwise
    Auto,
    /// Lines for people, with emphasis on a terminal
    Table,
    /// The same lines, without emphasis
    Plain,
    /// One JSON document
    Json,
    /// One JSON document per line
    Jsonl,
    /// Comma-separated values with a header line
    Csv,
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, unless `NO_COLOR` is set or `TERM` is dumb
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

impl Common {
    /// Returns whether text gets emphasis.
    pub fn emphasis(&self) -> bool {
        let lines = match self.format {
            Format::Auto => io::stdout().is_terminal(),
            Format::Table => true,
            _ => false,
        };
        lines && self.has_colour(io::stdout().is_terminal())
    }

    /// Returns whether a stream has colours, if it is a terminal or not.
    pub fn has_colour(&self, is_terminal: bool) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => {
                is_terminal
                    && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
                    && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
            }
        }
    }
}
