//! `cargo xtask release`: checks everything, and makes the files of a release.
//!
//! ```text
//!  checks ─▶ program, manual pages, completions ─▶ archive, .deb, bill of materials ─▶ checksums
//!                                                     └─▶ installed in an empty root, and run
//! ```

mod bill;
mod checks;
mod installed;
mod package;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::program::finish_shown;

/// Runs the checks of a release, builds the command, and writes to target/release-files an archive,
/// a .deb, a bill of materials (CycloneDX) and SHA256SUMS. As root it installs the .deb in an empty
/// root and runs it there.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The default is a static program.
    #[arg(long, default_value = "x86_64-unknown-linux-musl")]
    target: String,
    /// Takes a program that was built for the target elsewhere.
    #[arg(long)]
    program: Option<PathBuf>,
    /// Leaves out CI, cargo deny, cargo semver-checks and the check of the packages.
    #[arg(long)]
    no_checks: bool,
}

/// The largest program that a release should have, in bytes.
const PROGRAM_BYTES_MAX: u64 = 20_000_000;

/// What a release is made of and for.
struct Release<'a> {
    root: &'a Path,
    /// The target triple.
    target: String,
    version: &'static str,
    /// The folder of its files.
    out: PathBuf,
    /// A folder with what a package installs, below which paths are those of an installed system.
    tree: PathBuf,
}

impl Release<'_> {
    /// Returns the name of the archive, without its ending.
    fn name(&self) -> String {
        format!("flowloom-{}-{}", self.version, self.target)
    }
}

/// Makes a release.
pub(crate) fn run(root: &Path, options: Options) -> Result<ExitCode> {
    let Options { target, program, no_checks } = options;
    let out = root.join("target/release-files");
    if !no_checks {
        checks::run(root)?;
    }
    let program = match program {
        Some(program) => program,
        None => build(root, &target)?,
    };
    if out.exists() {
        std::fs::remove_dir_all(&out)?;
    }
    let tree = out.join("tree");
    let release = Release { root, target, version: env!("CARGO_PKG_VERSION"), out, tree };
    package::lay_out(&release, &program)?;
    let archive = package::archive(&release)?;
    let deb = package::deb(&release)?;
    let bill = bill::write(&release)?;
    let sums = Command::new("sha256sum")
        .current_dir(&release.out)
        .args([&archive, &deb, &bill])
        .output()
        .context("sha256sum cannot be run")?;
    ensure!(sums.status.success(), "sha256sum failed: {}", String::from_utf8_lossy(&sums.stderr));
    std::fs::write(release.out.join("SHA256SUMS"), &sums.stdout)?;
    installed::try_out(&release, &deb)?;
    std::fs::remove_dir_all(&release.tree)?;
    let size = std::fs::metadata(&program)?.len();
    eprintln!("program: {size} bytes, at most {PROGRAM_BYTES_MAX} are wanted");
    eprintln!("the release is in {}:\n{}", release.out.display(), String::from_utf8_lossy(&sums.stdout));
    Ok(ExitCode::SUCCESS)
}

/// Builds the command and returns its path.
fn build(root: &Path, target: &str) -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(root)
        .args(["build", "--release", "--locked", "-p", "flowloom-cli", "--target", target]);
    if target.ends_with("-musl") {
        let linker = "musl-gcc";
        ensure!(
            Command::new(linker).arg("--version").output().is_ok(),
            "{linker} is missing, which compiles the C code of zstd for {target}: install the package musl-tools, \
             or name another --target"
        );
        cargo.env(format!("CC_{}", target.replace('-', "_")), linker);
    }
    finish_shown(&mut cargo).with_context(|| {
        format!("the command cannot be built; is {target} there? rustup target add {target}")
    })?;
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(root.join(folder).join(target).join("release/flowloom"))
}
