//! Lines that fit the width of a terminal.
//!
//! ```text
//!  Packets     20 000   decoded 19 900 (99.50 %)   processed 19 900   not tracked 100
//!
//!  Packets     20 000   decoded 19 900 (99.50 %)
//!              processed 19 900   not tracked 100
//! ```

use console::measure_text_width;

/// Lines of narrower terminals are not wrapped.
const WIDTH_MIN: usize = 30;
/// Continuation lines are indented to the first field behind the label if it begins before this
/// column.
const LABEL_MAX: usize = 22;
/// Indentation of continuation lines where the first field is long.
const INDENT: usize = 4;

/// Returns the width of the terminal on standard output, if it is one.
pub fn terminal_width() -> Option<usize> {
    let (_, columns) = console::Term::stdout().size_checked()?;
    Some(usize::from(columns))
}

/// Returns the width of the terminal on standard error, if it is one.
pub(super) fn error_width() -> Option<usize> {
    let (_, columns) = console::Term::stderr().size_checked()?;
    Some(usize::from(columns))
}

/// Divides a line so that each part has at most `width` columns, between fields where possible,
/// which two or more spaces separate, else between words. A longer word has a line by itself.
pub fn wrapped(line: &str, width: usize) -> Vec<String> {
    let line = line.trim_end();
    if width < WIDTH_MIN || measure_text_width(line) <= width {
        return vec![line.to_owned()];
    }
    let pieces = pieces(line);
    let after_label = match &pieces[..] {
        // A line without a label continues the one above it.
        [(before, _), ..] if !before.is_empty() => before.len(),
        [(_, first), (space, _), ..] => measure_text_width(first) + space.len(),
        _ => usize::MAX,
    };
    let indent = if after_label <= LABEL_MAX { after_label } else { INDENT };
    let mut lines = vec![String::new()];
    let mut used = 0;
    let mut push = |space: &str, text: &str, lines: &mut Vec<String>| {
        let needed = measure_text_width(text);
        let last = lines.len() - 1;
        let is_blank = lines[last].trim().is_empty();
        if !is_blank && used + space.len() + needed > width {
            lines.push(" ".repeat(indent) + text);
            used = indent + needed;
        } else {
            lines[last].extend([space, text]);
            used += space.len() + needed;
        }
    };
    for (at, (space, field)) in pieces.into_iter().enumerate() {
        let before = if at == 0 { space.len() } else { indent };
        if before + measure_text_width(field) <= width {
            push(space, field, &mut lines);
            continue;
        }
        for (at, word) in field.split(' ').enumerate() {
            push(if at == 0 { space } else { " " }, word, &mut lines);
        }
    }
    lines
}

/// Returns the fields of a line, each with the spaces before it.
fn pieces(line: &str) -> Vec<(&str, &str)> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let spaces = rest.len() - rest.trim_start_matches(' ').len();
        let (space, after) = rest.split_at(spaces);
        let end = after.find("  ").unwrap_or(after.len());
        let (field, next) = after.split_at(end);
        pieces.push((space, field));
        rest = next;
    }
    pieces
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_continue_below_the_first_one() {
        let line = "Packets     20 000   decoded 19 900 (99.50 %)   processed 19 900   dropped 0";
        assert_eq!(wrapped(line, 200), [line]);
        assert_eq!(
            wrapped(line, 60),
            ["Packets     20 000   decoded 19 900 (99.50 %)", "            processed 19 900   dropped 0"]
        );
        let row = "tcp 10.194.235.221:36988 > 198.18.7.70:25          1     3 393     1.20 MiB   20.40 %";
        assert_eq!(
            wrapped(row, 60),
            ["tcp 10.194.235.221:36988 > 198.18.7.70:25          1", "    3 393     1.20 MiB   20.40 %"]
        );
        let sentence = "only ratios of interleaved rounds mean anything here, absolute figures do not";
        assert_eq!(
            wrapped(sentence, 60),
            ["only ratios of interleaved rounds mean anything here,", "    absolute figures do not"]
        );
        assert_eq!(
            wrapped("        later fragments 7   times far off 0", 30),
            ["        later fragments 7", "        times far off 0"]
        );
    }

    proptest! {
        #[test]
        fn wrapped_text_is_complete_and_within_the_width(
            line in "( {0,14})([a-zé]{1,40}( {1,4})){0,20}", width in 20_usize..120,
        ) {
            let parts = wrapped(&line, width);
            let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
            prop_assert_eq!(words(&parts.join(" ")), words(&line));
            for part in parts.iter().filter(|_| width >= WIDTH_MIN) {
                let is_word = part.split_whitespace().count() == 1;
                prop_assert!(measure_text_width(part) <= width || is_word, "{:?} {}", part, width);
            }
        }
    }
}
