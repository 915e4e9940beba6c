//! Installs the Debian package in an empty root, and runs it there.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rustix::process::geteuid;

use super::Release;
use crate::program::finish_shown;

/// What a new user types first.
const COMMANDS: [&str; 4] = [
    "flowloom --version",
    "flowloom generate trace -o /trace.pcap --packets 5000",
    "flowloom inspect /trace.pcap",
    "flowloom replay /trace.pcap --flows /flows.csv",
];

/// Files that the package brings besides the program.
const FILES: [&str; 4] = [
    "usr/share/man/man1/flowloom.1.gz",
    "usr/share/man/man1/flowloom-replay.1.gz",
    "usr/share/bash-completion/completions/flowloom",
    "usr/lib/systemd/system/flowloom-bridge.service",
];

/// Installs and runs the package, if the user is root.
pub(super) fn try_out(release: &Release<'_>, deb: &str) -> Result<()> {
    if !geteuid().is_root() {
        eprintln!("not tried: only root can install {deb} in an empty root");
        return Ok(());
    }
    let root = release.out.join("installed");
    for folder in
        ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "dev", "proc", "tmp"]
    {
        std::fs::create_dir_all(root.join(folder))?;
    }
    for file in ["status", "available"] {
        std::fs::write(root.join("var/lib/dpkg").join(file), "")?;
    }
    let mut dpkg = Command::new("dpkg");
    dpkg.arg(format!("--root={}", root.display())).arg("--install");
    if !release.target.ends_with("-musl") {
        // Instead of the packages on which it depends, the libraries of this machine.
        bring_libraries(release, &root)?;
        dpkg.arg("--force-depends");
    }
    dpkg.arg(release.out.join(deb));
    finish_shown(&mut dpkg)?;
    for file in FILES {
        ensure!(root.join(file).is_file(), "{deb} does not bring {file}");
    }
    for line in COMMANDS {
        let mut words = line.split(' ');
        let program = words.next().context("a command has a first word")?;
        let mut chroot = Command::new("chroot");
        chroot.arg(&root).arg(Path::new("/usr/bin").join(program)).args(words);
        finish_shown(&mut chroot).with_context(|| format!("the installed command cannot `{line}`"))?;
    }
    let records = std::fs::read_to_string(root.join("flows.csv"))?;
    ensure!(records.lines().count() > 10, "the installed command wrote no records: {records}");
    let mut dpkg = Command::new("dpkg");
    finish_shown(dpkg.arg(format!("--root={}", root.display())).args(["--remove", "flowloom"]))?;
    ensure!(!root.join("usr/bin/flowloom").exists(), "{deb} leaves its program behind");
    std::fs::remove_dir_all(&root)?;
    Ok(())
}

/// Copies the libraries that the program needs into a root.
fn bring_libraries(release: &Release<'_>, root: &Path) -> Result<()> {
    let needed = Command::new("ldd").arg(release.tree.join("usr/bin/flowloom")).output()?;
    let text = String::from_utf8(needed.stdout)?;
    for library in text.split_whitespace().filter(|word| word.starts_with('/')) {
        let here = root.join(library.trim_start_matches('/'));
        if let Some(folder) = here.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::copy(library, &here).with_context(|| format!("{library} cannot be copied"))?;
    }
    Ok(())
}
