//! Checks that unsafe code occurs only in listed modules, and that each of their files announces
//! it.

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
    "crates/traffic/src/capture/bus_error.rs",
    "crates/traffic/src/capture/map.rs",
    "benches/src/peers/",
    "integrations/dpdk/src/sys.rs",
];

const OPENING: &str = "#![expect(unsafe_code,reason";

/// Searches for `unsafe` in the code of every Rust file.
pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.rust().filter(|file| !file.path.starts_with("fuzz/")) {
        let Some((line, _)) = file.code_lines().find(|(_, line)| has_word(line, "unsafe")) else {
            continue;
        };
        let is_listed = MODULES.iter().any(|module| match module.strip_suffix('/') {
            Some(_) => file.path.starts_with(module),
            None => file.path == *module,
        });
        if !is_listed {
            findings.push(Finding::new(
                &file.path,
                line,
                "unsafe code outside the modules for it",
                "a review of unsafe code must know where to look",
                format!(
                    "use a safe interface of one of {}, or add a module to the list in xtask/src/tidy/unsafe_modules.rs",
                    MODULES.join(", ")
                ),
            ));
            continue;
        }
        let packed: String = file.code.chars().filter(|c| !c.is_whitespace()).collect();
        if !packed.contains(OPENING) {
            findings.push(Finding::new(
                &file.path,
                line,
                "unsafe code in a file that does not announce it",
                "the head of a file states that it contains unsafe code, and why",
                "begin it with #![expect(unsafe_code, reason = \"…\")]",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(&Tree::of(&[(path, text)]), &mut findings);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn unsafe_outside_the_modules_is_found_with_its_line() {
        let found = findings("crates/packet/src/a.rs", "// unsafe\nfn f() {\n    unsafe { g() }\n}\n");
        assert!(found[0].starts_with("crates/packet/src/a.rs:3: unsafe code outside"), "{found:?}");
        assert_eq!(findings("benches/a.rs", "unsafe fn f() {}").len(), 1);
        assert_eq!(findings("crates/traffic/src/capture/map_two.rs", "unsafe fn f() {}").len(), 1);
    }

    #[test]
    fn a_file_announces_its_unsafe_code() {
        let head = "//! Doc.\n#![expect(\n    unsafe_code,\n    reason = \"intrinsics\"\n)]\n";
        assert!(findings("crates/cpu/src/a.rs", &format!("{head}unsafe fn f() {{}}")).is_empty());
        assert!(findings("crates/cpu/src/a.rs", "unsafe fn f() {}")[0].contains("does not announce"));
    }

    #[test]
    fn the_word_in_comments_strings_and_lint_names_is_no_code() {
        let text = "//! unsafe\n#![deny(unsafe_code)]\nconst A: &str = \"unsafe\"; /* unsafe */\n";
        assert!(findings("crates/packet/src/a.rs", text).is_empty());
    }
}
