//! Unsafe code occurs only in listed modules. rustc denies it in files that do not announce it.

use super::{Finding, Tree};
use crate::source::has_word;

/// The modules with unsafe code. A path that ends with a slash is a directory.
const MODULES: [&str; 11] = [
    "crates/command/src/closed_output.rs",
    "crates/cpu/src/",
    "crates/flow-table/src/arch/",
    "crates/flow-table/src/concurrent/",
    "crates/flow-table/tests/allocations.rs",
    "crates/classifier/src/arch/",
    "crates/io/src/sys/",
    "crates/traffic/src/capture/file/bus_error.rs",
    "crates/traffic/src/capture/file/map.rs",
    "benches/src/peers/",
    "integrations/dpdk/src/sys.rs",
];

/// Searches every Rust file for an attribute that admits unsafe code.
pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree
        .rust()
        .filter(|file| !file.path.starts_with("fuzz/") && !file.path.starts_with("xtask/src/tidy/"))
    {
        let is_listed = |module: &&str| match module.strip_suffix('/') {
            Some(_) => file.path.starts_with(module),
            None => file.path == **module,
        };
        let admits = |(_, line): &(usize, &str)| has_word(line, "unsafe_code") && !line.contains("deny(");
        if let Some((number, _)) = file.code_lines().find(admits)
            && !MODULES.iter().any(is_listed)
        {
            findings.push(Finding::new(
                &file.path,
                number,
                "unsafe code outside the modules for it",
                "use a safe interface of one of them, or add a module to xtask/src/tidy/unsafe_modules.rs",
            ));
        }
    }
}
