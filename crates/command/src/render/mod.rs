//! The formats of results: text for people, JSON and CSV for programs. Only this module prints.

pub mod fit;
pub mod save;

use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use flowloom::traffic::capture::Notice;
use serde::Serialize;

use crate::args::{Common, Format};
use crate::exit::{Failure, Status, stdout_failure, with_status};
use crate::progress::without_bar;
pub use crate::terminal_text::harmless;

/// A result that supports every format.
pub trait Report: Serialize {
    /// Returns the lines of the text output, with the verdict last.
    fn lines(&self) -> Vec<String>;

    /// Returns the rows of the CSV output, with the header first.
    fn rows(&self) -> Vec<Vec<String>>;

    /// Returns what a page shows first. With an overview, charts and tables follow, and then the
    /// lines, which have labels, folded as a table of fields.
    fn overview(&self) -> Option<save::Overview> {
        None
    }

    /// Returns the lines of a page, with the verdict last.
    fn page_lines(&self) -> Vec<String> {
        self.lines()
    }

    /// Returns the tables that only a page shows.
    fn tables(&self) -> Vec<save::Table> {
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

/// Whether numbers are shown in groups of digits. Programs that read the output expect plain
/// numbers.
static HAS_GROUPS: AtomicBool = AtomicBool::new(false);

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
    HAS_GROUPS.store(has_groups, Ordering::Relaxed);
}

/// Formats numbers in groups of digits, for every kind of output.
pub fn for_people<T>(format: impl FnOnce() -> T) -> T {
    let had_groups = HAS_GROUPS.swap(true, Ordering::Relaxed);
    let formatted = format();
    HAS_GROUPS.store(had_groups, Ordering::Relaxed);
    formatted
}

/// Returns a number, in groups of three digits if people read the output.
pub fn grouped(number: u64) -> String {
    if HAS_GROUPS.load(Ordering::Relaxed) { in_groups(number) } else { number.to_string() }
}

fn in_groups(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Returns a number with its noun: `1 rule`, `1000 rules`.
pub fn counted(number: u64, thing: &str) -> String {
    format!("{} {}", grouped(number), of_many(number, thing))
}

/// Returns the noun in the right number: `rule`, `rules`, `pass`, `passes`.
pub fn of_many(number: u64, thing: &str) -> String {
    let ending = if number == 1 {
        ""
    } else if thing.ends_with('s') {
        "es"
    } else {
        "s"
    };
    format!("{thing}{ending}")
}

/// Returns a time in nanoseconds since 1970 as a date in UTC, which options take as well.
pub fn date(time_ns: u64) -> String {
    humantime::format_rfc3339_millis(UNIX_EPOCH + Duration::from_nanos(time_ns)).to_string()
}

/// Returns the dates of the first and the last packet.
pub fn dates(first_ns: u64, last_ns: u64) -> String {
    format!("from {} to {}", date(first_ns), date(last_ns))
}

/// Returns a number of bytes with a suitable unit.
pub fn bytes(number: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = number as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{number} B") } else { format!("{value:.2} {}", units[unit]) }
}

/// Returns a rate with a suitable prefix: `18.2 M`.
pub fn scaled(value: f64) -> String {
    for (limit, prefix) in [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if value >= limit {
            return format!("{:.2} {prefix}", value / limit);
        }
    }
    format!("{value:.1} ")
}

/// Returns a share in percent.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { String::from("0 %") } else { format!("{:.2} %", part as f64 * 100.0 / whole as f64) }
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

    #[test]
    fn numbers_are_grouped_and_scaled() {
        assert_eq!([0, 999, 6_812_044].map(in_groups), ["0", "999", "6 812 044"]);
        assert_eq!(grouped(6_812_044), "6812044", "where no terminal was seen");
        assert_eq!([0, 1, 2].map(|rules| counted(rules, "rule")), ["0 rules", "1 rule", "2 rules"]);
        assert_eq!([0, 1, 2].map(|passes| counted(passes, "pass")), ["0 passes", "1 pass", "2 passes"]);
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(scaled(18_200_000.0), "18.20 M");
        assert_eq!(percent(1, 0), "0 %");
        assert_eq!(percent(1, 8), "12.50 %");
    }
}
