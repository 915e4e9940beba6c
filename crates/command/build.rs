//! Notes the commit that the command was built from, where there is one.

use std::process::Command;

fn main() {
    // A path that does not exist would make this run at every build: in a worktree `.git` is a
    // file.
    for path in ["../../.git/HEAD", "../../.git/refs/heads"] {
        if std::path::Path::new(path).exists() {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    let commit = Command::new("git")
        .args(["rev-parse", "--short=9", "HEAD"])
        .output()
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map_or_else(|| String::from("unknown"), |text| text.trim().to_owned());
    println!("cargo:rustc-env=FLOWLOOM_COMMIT={commit}");
}
