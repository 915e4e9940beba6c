//! What the commands of `flowloom` share: options, input and output files, rule sets, signals,
//! progress, and the formats of results.

#![expect(
    missing_docs,
    missing_debug_implementations,
    clippy::missing_errors_doc,
    reason = "only commands use these items; comments of options and results are texts that they print"
)]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "figures for people, and positions in this machine's memory"
)]

pub mod args;
pub mod closed_output;
pub mod compressed_file;
pub mod decompressed;
pub mod exit;
pub mod growing_table;
pub mod host;
pub mod interface;
pub mod memory_budget;
pub mod other_file;
pub mod output;
pub mod output_folder;
pub mod progress;
pub mod render;
pub mod rule_file;
pub mod signals;
pub mod terminal_text;
pub mod topology;
