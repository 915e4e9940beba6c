//! Lines of Rust per crate and purpose.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::Tree;

/// Members that are neither the product nor tools: measurements, simulators, reproductions of
/// papers, generated captures with known answers.
const LABORATORY: [&str; 6] = ["benches", "lab", "measure", "repro", "scenarios", "tcb-cache"];
const TOOLS: [&str; 3] = ["fuzz", "integrations", "xtask"];

/// Returns a table: for each member of the workspace its code, its tests, and the sums.
pub(super) fn table(tree: &Tree) -> String {
    let mut members: BTreeMap<(&str, &str), [usize; 2]> = BTreeMap::new();
    for file in tree.rust() {
        let member = file.path.trim_start_matches("crates/").split('/').next().unwrap_or_default();
        let purpose = match member {
            _ if LABORATORY.contains(&member) => "laboratory",
            _ if TOOLS.contains(&member) => "tools",
            _ => "product",
        };
        let all = file.text.lines().count();
        let is_product = file.path.contains("/src/") || file.path.contains("/fuzz_targets/");
        let code = if is_product { file.product_lines().count() } else { 0 };
        let [sum_code, sum_tests] = members.entry((purpose, member)).or_default();
        *sum_code += code;
        *sum_tests += all - code;
    }
    let mut text = format!("{:12}{:14}{:>9}{:>9}{:>9}\n", "purpose", "member", "code", "tests", "lines");
    let mut row = |purpose: &str, member: &str, [code, tests]: [usize; 2]| {
        let _ = writeln!(text, "{purpose:12}{member:14}{code:9}{tests:9}{:9}", code + tests);
    };
    let mut total = [0; 2];
    for purpose in ["product", "laboratory", "tools"] {
        let mut sum = [0; 2];
        for ((_, member), lines) in members.iter().filter(|((of, _), _)| *of == purpose) {
            row(purpose, member, *lines);
            sum = [sum[0] + lines[0], sum[1] + lines[1]];
        }
        row(purpose, "", sum);
        total = [total[0] + sum[0], total[1] + sum[1]];
    }
    row("all", "", total);
    text
}
