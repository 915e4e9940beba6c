//! What must hold before a release is made.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

use crate::program::finish_shown;
use crate::{packaged, public_api};

/// Runs all checks. Tools that are not installed are named, with the command that installs them.
pub(super) fn run(root: &Path) -> Result<()> {
    let changes = Command::new("git").current_dir(root).args(["status", "--porcelain"]).output();
    let changes = changes.context("git cannot be run")?.stdout;
    ensure!(
        changes.is_empty(),
        "the tree has changes that are not committed: a release is made from a commit"
    );
    let changelog = std::fs::read_to_string(root.join("CHANGELOG.md"))?;
    let version = env!("CARGO_PKG_VERSION");
    ensure!(
        is_dated(&changelog, version),
        "CHANGELOG.md has no line `## {version} (YEAR-MONTH-DAY)`: describe the version, and date it"
    );
    let manifest: toml::Table = std::fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
    ensure!(
        has_repository(&manifest),
        "workspace.package.repository in Cargo.toml is no https address: registries and docs.rs link to it"
    );
    ensure!(crate::run(crate::Task::Ci, root)? == ExitCode::SUCCESS, "CI fails");
    let mut scenarios = Command::new("cargo");
    scenarios.current_dir(root).args(["test", "--locked", "--package=flowloom-apps", "--test=corpus"]);
    finish_shown(scenarios.env("FLOWLOOM_SCENARIOS", "10000"))?;
    ensure!(packaged::run(root)? == ExitCode::SUCCESS, "the packages do not work");
    if is_installed("deny") {
        finish_shown(Command::new("cargo").current_dir(root).args(["deny", "check"]))?;
    }
    if is_installed("public-api") {
        crate::run(crate::Task::PublicApi(public_api::Options::default()), root)?;
    }
    if is_installed("semver-checks") {
        // The version before this one, which no release has until there are two.
        let tag =
            Command::new("git").current_dir(root).args(["describe", "--tags", "--abbrev=0"]).output()?;
        let tag = String::from_utf8_lossy(&tag.stdout).trim().to_owned();
        if tag.is_empty() {
            eprintln!("semver-checks: there is no tag of an earlier version to compare with");
        } else {
            let mut check = Command::new("cargo");
            check.current_dir(root).args(["semver-checks", "--workspace", "--baseline-rev", &tag]);
            finish_shown(check.args([
                "--exclude", "flowloom-cli", "--exclude", "flowloom-command", "--exclude", "flowloom-lab",
                "--exclude", "flowloom-repro",
            ]))?;
        }
    }
    Ok(())
}

/// Returns whether cargo has a command, and says how to install it otherwise.
fn is_installed(name: &str) -> bool {
    let is_there =
        Command::new("cargo").args([name, "--version"]).output().is_ok_and(|out| out.status.success());
    if !is_there {
        eprintln!("not checked: cargo {name} is missing; cargo install cargo-{name} --locked");
    }
    is_there
}

/// Returns whether the manifest of the workspace names where the source is.
fn has_repository(manifest: &toml::Table) -> bool {
    let package = manifest.get("workspace").and_then(|workspace| workspace.get("package"));
    let address = package.and_then(|package| package.get("repository")?.as_str());
    address.and_then(|address| address.strip_prefix("https://")).is_some_and(|host| host.contains('.'))
}

/// Returns whether the changelog has a dated section for a version.
fn is_dated(changelog: &str, version: &str) -> bool {
    changelog.lines().any(|line| {
        let date = line.strip_prefix(&format!("## {version} (")).and_then(|rest| rest.strip_suffix(')'));
        date.is_some_and(|date| {
            date.len() == 10 && date.chars().all(|letter| letter.is_ascii_digit() || letter == '-')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_without_a_date_is_not_released() {
        assert!(is_dated("# Changelog\n\n## 0.1.0 (2026-12-01)\n", "0.1.0"));
        assert!(!is_dated("## 0.1.0 (unreleased)\n", "0.1.0"));
        assert!(!is_dated("## 0.1.0 (2026-12-01)\n", "0.1.1"));
    }

    #[test]
    fn crates_whose_source_is_nowhere_are_not_released() {
        let has = |line: &str| has_repository(&format!("[workspace.package]\n{line}").parse().unwrap());
        assert!(has("repository = 'https://example.org/flowloom'"));
        for line in ["", "repository = ''", "repository = 'https://'", "repository = 'flowloom'"] {
            assert!(!has(line), "{line}");
        }
    }
}
