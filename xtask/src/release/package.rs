//! The archive and the Debian package, from one tree.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Release;
use crate::program::finish_shown;

/// Completion scripts: shell, path below the tree.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/flowloom"),
    ("zsh", "usr/share/zsh/vendor-completions/_flowloom"),
    ("fish", "usr/share/fish/vendor_completions.d/flowloom.fish"),
];

/// Documents: path in the repository, path below the tree.
const DOCUMENTS: [(&str, &str); 5] = [
    ("README.md", "usr/share/doc/flowloom/README.md"),
    ("CHANGELOG.md", "usr/share/doc/flowloom/CHANGELOG.md"),
    ("LICENSE-MIT", "usr/share/doc/flowloom/LICENSE-MIT"),
    ("LICENSE-APACHE", "usr/share/doc/flowloom/LICENSE-APACHE"),
    ("docs/bridge.md", "usr/share/doc/flowloom/bridge.md"),
];

const UNIT: &str = "usr/lib/systemd/system/flowloom-bridge.service";

/// The user to which the service changes.
const USERS: (&str, &str) =
    ("usr/lib/sysusers.d/flowloom.conf", "u flowloom - \"Flowloom's bridge\" /nonexistent\n");

/// Writes what the packages install, with the paths of an installed system.
pub(super) fn lay_out(release: &Release<'_>, program: &Path) -> Result<()> {
    let tree = &release.tree;
    let here = tree.join("usr/bin/flowloom");
    put(&here, &std::fs::read(program).with_context(|| format!("{} is missing", program.display()))?)?;
    std::fs::set_permissions(&here, PermissionsExt::from_mode(0o755))?;
    let manual = tree.join("usr/share/man/man1");
    std::fs::create_dir_all(&manual)?;
    finish_shown(Command::new(&here).arg("man").arg(&manual))?;
    let pages: Vec<_> = std::fs::read_dir(&manual)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    // Without time and name, so that two runs give the same bytes.
    finish_shown(Command::new("gzip").arg("-9n").args(pages))?;
    for (shell, path) in COMPLETIONS {
        let script = Command::new(&here).args(["completions", shell]).output()?;
        ensure!(script.status.success() && !script.stdout.is_empty(), "completions {shell} failed");
        put(&tree.join(path), &script.stdout)?;
    }
    for (from, to) in DOCUMENTS {
        put(&tree.join(to), &std::fs::read(release.root.join(from))?)?;
    }
    let unit = std::fs::read_to_string(release.root.join("docs/flowloom-bridge.service"))?;
    put(&tree.join(UNIT), unit.replace("/usr/local/bin/", "/usr/bin/").as_bytes())?;
    put(&tree.join(USERS.0), USERS.1.as_bytes())
}

/// Writes a file and the folders above it.
fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, bytes).with_context(|| format!("{} cannot be written", path.display()))
}

/// Writes the archive, whose paths begin with the name of the release, and returns its name.
pub(super) fn archive(release: &Release<'_>) -> Result<String> {
    let file = format!("{}.tar.gz", release.name());
    let mut tar = Command::new("tar");
    tar.current_dir(&release.tree)
        .args(["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"])
        .arg(format!("--mtime=@{}", time_of(release.root)?))
        .arg(format!("--transform=s,^usr,{},", release.name()))
        .arg(format!("--file={}", release.out.join(&file).display()))
        .arg("usr")
        .env("GZIP", "-n");
    finish_shown(&mut tar)?;
    Ok(file)
}

/// Writes the Debian package, by cargo-deb and its table in the manifest of the command, and
/// returns its name.
pub(super) fn deb(release: &Release<'_>) -> Result<String> {
    let file = format!("flowloom-{}.deb", release.target);
    let mut deb = Command::new("cargo");
    deb.current_dir(release.root).args(["deb", "--package", "flowloom-cli", "--no-build", "--no-strip"]);
    deb.args(["--target", &release.target, "--output"]).arg(release.out.join(&file));
    finish_shown(deb.env("SOURCE_DATE_EPOCH", time_of(release.root)?))
        .context("cargo deb makes the package: cargo install cargo-deb --locked")?;
    Ok(file)
}

/// Returns the time of the commit, in seconds: the time of every file.
fn time_of(root: &Path) -> Result<String> {
    let log = Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"]).output()?;
    ensure!(log.status.success(), "git cannot tell the time of the commit");
    Ok(String::from_utf8(log.stdout)?.trim().to_owned())
}
