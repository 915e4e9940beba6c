//! Notes the compiler's version, which reports of measured figures state.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=RUSTC");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("--version").output().ok();
    let version = version.and_then(|output| String::from_utf8(output.stdout).ok());
    let version = version.filter(|text| !text.trim().is_empty());
    println!("cargo:rustc-env=FLOWLOOM_RUSTC={}", version.as_deref().unwrap_or("unknown").trim());
}
