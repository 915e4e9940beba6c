//! `cargo xtask public-api`: the public items of the libraries, compared with the committed lists.

#![expect(clippy::print_stdout, reason = "the result of the verb")]

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

/// Compares the public items of each library with `crates/NAME/public-api.txt`, and prints how many
/// there are. Needs nightly Rust and cargo-public-api.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// Writes the lists.
    #[arg(long)]
    write: bool,
}

/// The libraries that others depend on.
const LIBRARIES: [&str; 16] = [
    "apps", "classifier", "cpu", "dpi", "engine", "export", "filter", "flow-key", "flow-table", "io",
    "packet", "record", "rules", "scheduler", "tcb-cache", "traffic",
];

/// Lists the public items of all libraries.
pub(crate) fn run(root: &Path, options: &Options) -> Result<ExitCode> {
    let (mut total, mut changed) = (0, Vec::new());
    for name in LIBRARIES {
        let items = list(root, name)?;
        let count = items.lines().count();
        total += count;
        println!("{name:12} {count:6}");
        let path = root.join("crates").join(name).join("public-api.txt");
        if options.write {
            std::fs::write(&path, &items).with_context(|| format!("cannot write {}", path.display()))?;
        } else if std::fs::read_to_string(&path).unwrap_or_default() != items {
            changed.push(name);
        }
    }
    println!("{:12} {total:6}", "all");
    ensure!(
        changed.is_empty(),
        "the public items of {} are not those of their public-api.txt: look at \
         `cargo xtask public-api --write` and `git diff`, and commit the lists with what changed them",
        changed.join(", ")
    );
    Ok(ExitCode::SUCCESS)
}

/// Returns a line for each public item, without those of blanket and automatic implementations.
fn list(root: &Path, name: &str) -> Result<String> {
    let package = format!("flowloom-{name}");
    let mut command = Command::new("cargo");
    // The toolchain of this program, which cargo would inherit.
    command.current_dir(root).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command
        .args(["+nightly", "public-api", "-sss", "--all-features", "--color=never", "--package", &package]);
    let output = command.output().context("cargo cannot be run")?;
    ensure!(
        output.status.success(),
        "cargo public-api does not list {package}: {}\nIt needs `rustup toolchain install nightly` and `cargo \
         install cargo-public-api --locked`.",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}
