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

use anyhow::{Context, Result, bail, ensure};

use crate::{is_help, show};

const USAGE: &str = "usage: cargo xtask release [--target TRIPLE] [--program FILE] [--no-checks]

  Runs the checks of a release, builds the command [target x86_64-unknown-linux-musl, a static program], and writes
  to target/release-files an archive, a .deb, a bill of materials (CycloneDX) and SHA256SUMS.
  As root it installs the .deb in an empty root and runs it there.

  --program     takes a program that was built for the target elsewhere
  --no-checks   leaves out CI, cargo deny, cargo semver-checks and the check of the packages";

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
pub(crate) fn run(root: &Path, arguments: &[String]) -> Result<ExitCode> {
    if is_help(arguments) {
        return Ok(show(USAGE, arguments));
    }
    let (mut target, mut has_checks) = (String::from("x86_64-unknown-linux-musl"), true);
    let (out, mut program) = (root.join("target/release-files"), None);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--no-checks" => has_checks = false,
            "--target" | "--program" => {
                let value = words.next().with_context(|| format!("{word} needs a value\n{USAGE}"))?;
                match word.as_str() {
                    "--program" => program = Some(root.join(value)),
                    _ => target.clone_from(value),
                }
            }
            _ => bail!("release does not take '{word}'\n{USAGE}"),
        }
    }
    if has_checks {
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
    cargo.current_dir(root).args([
        "build",
        "--release",
        "--locked",
        "-p",
        "flowloom-cli",
        "--target",
        target,
    ]);
    if target.ends_with("-musl") {
        let linker = "musl-gcc";
        ensure!(
            Command::new(linker).arg("--version").output().is_ok(),
            "{linker} is missing, which compiles the C code of zstd for {target}: install the package musl-tools, \
             or name another --target"
        );
        cargo.env(format!("CC_{}", target.replace('-', "_")), linker);
    }
    finish(&mut cargo).with_context(|| {
        format!("the command cannot be built; is {target} there? rustup target add {target}")
    })?;
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(root.join(folder).join(target).join("release/flowloom"))
}

/// Runs a program to its end.
fn finish(command: &mut Command) -> Result<()> {
    eprintln!("{command:?}");
    let status = command.status().with_context(|| format!("{command:?} cannot be run"))?;
    ensure!(status.success(), "{command:?} failed");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_release_does_not_take_is_refused() {
        for (words, said) in [
            (&["--targets"][..], "release does not take '--targets'"),
            (&["--target"], "--target needs a value"),
        ] {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            let error = run(Path::new("."), &words).unwrap_err();
            assert!(error.to_string().starts_with(said), "{error}");
        }
    }
}
