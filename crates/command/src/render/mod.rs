//! The formats of results: text for people, JSON and CSV for programs. Only this module prints.

pub mod fit;
pub(crate) mod numbers;
mod overview;
pub mod save;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use flowloom::traffic::capture::Notice;
use serde::Serialize;

use self::overview::{Overview, Table};
use crate::args::{Common, Format};
use crate::exit::{Failure, Status, stdout_failure, with_status};
use crate::progress::without_bar;
pub use crate::terminal_text::harmless;
pub use numbers::{bytes, counted, date, dates, for_people, grouped, of_many, percent, scaled};

/// A result that supports every format.
pub trait Report: Serialize {
    /// Returns the lines of the text output, with the verdict last.
    fn lines(&self) -> Vec<String>;

    /// Returns the rows of the CSV output, with the header first.
    fn rows(&self) -> Vec<Vec<String>>;

    /// Returns what a page shows first. With an overview, charts and tables follow, and then the
    /// lines, which have labels, folded as a table of fields.
    fn overview(&self) -> Option<Overview> {
        None
    }

    /// Returns the lines of a page, with the verdict last.
    fn page_lines(&self) -> Vec<String> {
        self.lines()
    }

    /// Returns the tables that only a page shows.
    fn tables(&self) -> Vec<Table> {
        Vec::new()
    }
}

/// Prints a result on standard output in the requested format.
pub fn print(report: &impl Report, common: &Common) -> Result<(), Failure> {
    print_to(&mut std::io::stdout().lock(), report, common)
}

/// Prints a result on standard error, for runs whose standard output carries other data.
pub fn print_aside(report: &impl Report, common: &Common) -> Result<(), Failure> {
    print_to(&mut std::io::stderr().lock(), report, common)
}

fn print_to(out: &mut impl Write, report: &impl Report, common: &Common) -> Result<(), Failure> {
    if common.quiet > 1 {
        return Ok(());
    }
    let text = match common.format {
        Format::Json => json(serde_json::to_string_pretty(report))?,
        Format::Jsonl => json(serde_json::to_string(report))?,
        Format::Csv => csv(&report.rows())?,
        Format::Auto | Format::Table | Format::Plain => people(&report.lines(), common),
    };
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| stdout_failure(&error))
}

fn json(text: serde_json::Result<String>) -> Result<String, Failure> {
    text.map(|text| text + "\n").map_err(|error| {
        Failure::Output(format!(
            "cannot encode the result as \
        JSON: {error}"
        ))
    })
}

fn csv(rows: &[Vec<String>]) -> Result<String, Failure> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::Output(format!(
            "cannot encode the result as \
        CSV: {error}"
        ))
    };
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.write_record(row).map_err(|error| failed(&error))?;
    }
    let bytes = writer.into_inner().map_err(|error| failed(&error))?;
    String::from_utf8(bytes).map_err(|error| failed(&error))
}

fn people(lines: &[String], common: &Common) -> String {
    let lines: Vec<String> = lines.iter().map(|line| harmless(line)).collect();
    let verdict = lines.last().cloned().unwrap_or_default();
    if common.quiet == 1 {
        return verdict + "\n";
    }
    let mut text = String::new();
    let last = lines.len().saturating_sub(1);
    let width = fit::terminal_width().unwrap_or(usize::MAX);
    for (i, line) in lines.into_iter().enumerate() {
        let line = fit::wrapped(&line, width).join("\n");
        if common.emphasis() && (i == 0 || i == last) {
            text.extend(["\u{1b}[1m", &line, "\u{1b}[0m\n"]);
        } else {
            text.extend([line.as_str(), "\n"]);
        }
    }
    text
}

/// Prints lines on stderr. If stderr cannot be written, for example on a full disk or a closed
/// pipe, the program continues: only the result and the exit status count.
pub fn say(text: &str) {
    say_as("", "", text);
}

/// Prints lines that fit the terminal on stderr, with a word before them in a colour.
fn say_as(word: &str, colour: &str, text: &str) {
    let text = format!("{word}{}", harmless(text));
    let width = fit::error_width().unwrap_or(usize::MAX);
    let lines: Vec<String> = text.lines().flat_map(|line| fit::wrapped(line, width)).collect();
    let mut text = lines.join("\n");
    if HAS_COLOUR.load(Ordering::Relaxed) && !word.is_empty() {
        text = format!("\u{1b}[1m{colour}{word}\u{1b}[0m{}", &text[word.len()..]);
    }
    let _ = without_bar(|| writeln!(std::io::stderr(), "{text}"));
}

/// Prints an error and the resulting exit status on stderr.
pub fn say_error(text: &str, status: Status) {
    say_as("error:", "\u{1b}[31m", &format!(" {}", with_status(&harmless(text), status)));
}

/// Prints a warning on stderr.
pub fn warn(text: &str, common: &Common) {
    if common.quiet < 2 {
        say_as("warning:", "\u{1b}[33m", &format!(" {text}"));
    }
}

/// Warns, however quiet the command is, that a file has the contents of an earlier run.
pub fn warn_of_unchanged(selected: &str, path: &Path) {
    let path = path.display();
    say_as("warning:", "\u{1b}[33m", &format!(" no {selected} was selected: {path} is unchanged"));
}

/// Prints a notice about an input. With `strict`, a notice about unusable input is an error.
pub fn warn_of(notice: &Notice, strict: bool, common: &Common) {
    let text = notice.to_string();
    match (notice.is_partial_input(), strict) {
        (true, true) => say_error(&text, Status::PartialInput),
        (true, false) => warn(&format!("{text}; --strict makes this an error"), common),
        (false, _) => warn(&text, common),
    }
}

/// Returns names on one line: the first ones, and the number of the others.
pub fn some_of(names: &[impl AsRef<str>], separator: &str) -> String {
    const MOST: usize = 16;
    let shown: Vec<&str> = names.iter().take(MOST).map(AsRef::as_ref).collect();
    match names.len().checked_sub(MOST) {
        Some(more @ 1..) => format!("{} and {more} more", shown.join(separator)),
        _ => shown.join(separator),
    }
}

/// Whether errors and warnings have colours.
static HAS_COLOUR: AtomicBool = AtomicBool::new(false);

/// Chooses the format of numbers, in groups of digits on terminals and in tables, and the colours
/// of errors.
pub fn choose_forms(common: &Common) {
    HAS_COLOUR.store(common.has_colour(std::io::stderr().is_terminal()), Ordering::Relaxed);
    let has_groups = match common.format {
        Format::Table => true,
        Format::Auto => std::io::stdout().is_terminal(),
        Format::Plain | Format::Json | Format::Jsonl | Format::Csv => false,
    };
    numbers::HAS_GROUPS.store(has_groups, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_list_of_names_is_cut_and_the_rest_counted() {
        let names: Vec<String> = (0..20).map(|number| number.to_string()).collect();
        assert_eq!(some_of(&names[..2], " + "), "0 + 1");
        assert!(some_of(&names[..16], ", ").ends_with("14, 15"));
        assert!(some_of(&names, ", ").ends_with("14, 15 and 4 more"));
    }
}
