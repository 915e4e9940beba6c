//! The archive and the Debian package, from one tree.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::{Release, finish};

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
    finish(Command::new(&here).arg("man").arg(&manual))?;
    let pages: Vec<_> = std::fs::read_dir(&manual)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<std::io::Result<_>>()?;
    // Without time and name, so that two runs give the same bytes.
    finish(Command::new("gzip").arg("-9n").args(pages))?;
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
    finish(&mut tar)?;
    Ok(file)
}

/// Writes the Debian package and returns its name.
pub(super) fn deb(release: &Release<'_>) -> Result<String> {
    let architecture = match release.target.split('-').next() {
        Some("x86_64") => "amd64",
        Some("aarch64") => "arm64",
        Some("i686") => "i386",
        _ => anyhow::bail!("no Debian architecture is known for {}", release.target),
    };
    let size = Command::new("du").args(["-sk", "--apparent-size"]).arg(&release.tree).output()?;
    let size = String::from_utf8(size.stdout)?;
    let kilobytes = size.split_whitespace().next().context("du gives no size")?;
    let control = control(release.version, architecture, kilobytes, &release.target);
    put(&release.tree.join("DEBIAN/control"), control.as_bytes())?;
    let file = format!("flowloom_{}-1_{architecture}.deb", release.version);
    finish(
        Command::new("dpkg-deb")
            .args(["--build", "--root-owner-group", "-Zxz"])
            .args([&release.tree, &release.out.join(&file)])
            .env("SOURCE_DATE_EPOCH", time_of(release.root)?),
    )?;
    Ok(file)
}

/// Returns the text of a package's control file.
fn control(version: &str, architecture: &str, kilobytes: &str, target: &str) -> String {
    // A static program needs nothing else.
    let depends = if target.ends_with("-musl") { "" } else { "Depends: libc6, libgcc-s1\n" };
    format!(
        "Package: flowloom\nVersion: {version}-1\nArchitecture: {architecture}\nSection: net\nPriority: optional\n\
         Maintainer: The Flowloom developers <flowloom@localhost>\nInstalled-Size: {kilobytes}\n{depends}\
         Description: flow records, protocol labels and firewall verdicts from packets\n \
         Reads captures and interfaces, follows connections, and writes flow records as\n \
         CSV, JSON, Parquet, Arrow, IPFIX and NetFlow. It names protocols, decides with\n \
         firewall rules, and bridges two interfaces.\n"
    )
}

/// Returns the time of the commit, in seconds: the time of every file.
fn time_of(root: &Path) -> Result<String> {
    let log = Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"]).output()?;
    ensure!(log.status.success(), "git cannot tell the time of the commit");
    Ok(String::from_utf8(log.stdout)?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_static_program_depends_on_nothing() {
        let text = control("1.2.3", "amd64", "7", "x86_64-unknown-linux-musl");
        assert!(text.contains("\nVersion: 1.2.3-1\nArchitecture: amd64\n") && !text.contains("Depends"));
        assert!(control("1.2.3", "amd64", "7", "x86_64-unknown-linux-gnu").contains("\nDepends: libc6"));
        assert!(text.ends_with(".\n") && !text.contains("\n\n"), "{text}");
    }
}
