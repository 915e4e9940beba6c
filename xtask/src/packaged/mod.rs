//! `cargo xtask packages`: packages all crates, compiles all examples against the packages alone,
//! outside the workspace, and runs those that bring their own traffic.

mod complete;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Result, ensure};

use crate::program::finish_shown;

/// The examples that bring their own traffic, with their packages.
const EXAMPLES: [(&str, &[&str]); 2] = [
    ("flowloom", &["translator", "load_balancer", "flow_limiter", "sensor"]),
    ("flowloom-export", &["exporter"]),
];

/// Packages the crates, compiles their examples and runs some.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let target = root.join(target).join("packages");
    let mut package = Command::new("cargo");
    package.current_dir(root).args(["package", "--workspace", "--no-verify", "--allow-dirty", "--quiet"]);
    package.args(["--exclude", "flowloom-benches", "--exclude", "flowloom-xtask", "--target-dir"]);
    finish_shown(package.arg(&target))?;
    let outside = target.join("outside");
    if outside.exists() {
        std::fs::remove_dir_all(&outside)?;
    }
    std::fs::create_dir_all(&outside)?;
    let (mut patches, mut members, mut findings) = (String::new(), Vec::new(), Vec::new());
    for entry in std::fs::read_dir(target.join("package"))? {
        let path = entry?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let Some((name, _)) = stem.rsplit_once('-').filter(|_| path.extension() == Some("crate".as_ref()))
        else {
            continue;
        };
        finish_shown(Command::new("tar").arg("xzf").arg(&path).arg("-C").arg(&outside))?;
        let _ = writeln!(patches, "{name} = {{ path = \"{stem}\" }}");
        let folder = outside.join(stem);
        if folder.join("examples").is_dir() {
            members.push(stem.to_owned());
        }
        findings.extend(complete::lacks(&folder)?.into_iter().map(|what| format!("{name} lacks {what}")));
        let readme = std::fs::read_to_string(folder.join("README.md")).unwrap_or_default();
        findings.extend(complete::miscounted(root, name, &readme)?.map(|what| format!("{name}: {what}")));
    }
    ensure!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
    // The workspace is another one, with members from the packages.
    let manifest =
        format!("[workspace]\nresolver = \"3\"\nmembers = {members:?}\n\n[patch.crates-io]\n{patches}");
    std::fs::write(outside.join("Cargo.toml"), manifest)?;
    std::fs::copy(root.join("Cargo.lock"), outside.join("Cargo.lock"))?;
    let cargo = |arguments: &[&str]| {
        let mut cargo = Command::new("cargo");
        finish_shown(
            cargo.current_dir(&outside).args(arguments).arg("--target-dir").arg(target.join("build")),
        )
    };
    cargo(&["build", "--quiet", "--workspace", "--examples"])?;
    for (package, examples) in EXAMPLES {
        for example in examples {
            cargo(&["run", "--quiet", "-p", package, "--example", example])?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
