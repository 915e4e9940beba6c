//! Checks that comment lines fit into 100 columns, because rustfmt does not change comments.

use super::{Finding, Tree};

const COLUMNS_MAX: usize = 100;

/// Checks every line of Rust that contains only a comment.
pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in tree.rust() {
        for (number, line) in (1..).zip(file.text.lines()) {
            let columns = line.chars().count();
            if columns > COLUMNS_MAX && is_comment(line) {
                findings.push(Finding::new(
                    &file.path,
                    number,
                    format!("has a comment line of {columns} columns, more than {COLUMNS_MAX}"),
                    "long lines wrap in diffs and beside each other",
                    "break the line, or make the sentence shorter",
                ));
            }
        }
    }
}

/// Returns whether a line is a comment that can be wrapped: table rows and links cannot.
fn is_comment(line: &str) -> bool {
    let trimmed = line.trim_start();
    let Some(text) = trimmed.strip_prefix("//") else { return false };
    let text = text.trim_start_matches(['/', '!']).trim_start();
    !text.starts_with('|') && text.split_whitespace().count() > 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> usize {
        let mut findings = Vec::new();
        check(&Tree::of(&[("xtask/src/a.rs", text)]), &mut findings);
        findings.len()
    }

    #[test]
    fn long_comment_lines_are_found_in_columns_not_bytes() {
        let words = |columns: usize| format!("// é{}\n", " x".repeat((columns - 4) / 2));
        assert_eq!((findings(&words(100)), findings(&words(102))), (0, 1));
        assert_eq!(findings(&format!("    /// {}\n", "word ".repeat(20))), 1);
    }

    #[test]
    fn code_table_rows_and_single_words_are_left_alone() {
        let long = "x".repeat(120);
        assert_eq!(findings(&format!("let a = \"{long}\"; // note\n")), 0);
        assert_eq!(findings(&format!("//! | a {long} | b |\n// {long}\n")), 0);
    }
}
