//! The laboratory commands of `flowloom`: benchmarks, simulations, the papers' tables and figures,
//! comparisons of saved results, and generators.

#![expect(rustdoc::broken_intra_doc_links, reason = "texts of help name papers in brackets")]
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
pub mod render;
pub mod verbs;

use flowloom_command::{
    compressed_file, decompressed, exit, host, output, output_folder, progress, rule_file, signals,
    topology,
};
