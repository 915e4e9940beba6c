//! `cargo xtask figures`: writes the tables of `docs/performance` and the book from the published
//! rows.
//!
//! A table is enclosed by two comments of a page:
//!
//! ```text
//! <!-- figures: data/flow-tables-zen4.json rows=work,rival columns=size -->
//! <!-- end -->
//! ```
//!
//! `rows` names the fields of a ratio that identify a line of the table, `columns` names the field
//! whose values become columns, and `goal` adds the goal of each line.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::Value;

pub(crate) const BEGIN: &str = "<!-- figures: ";
const END: &str = "<!-- end -->";
/// Paths in comments are relative to this directory.
pub(crate) const FOLDER: &str = "docs/performance/";
/// Directories of the pages.
pub(crate) const PAGES: [&str; 2] = [FOLDER, "docs/"];

/// Rewrites the tables of every page.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let mut pages = Vec::new();
    for folder in PAGES {
        for entry in
            std::fs::read_dir(root.join(folder)).with_context(|| format!("cannot list {folder}"))?
        {
            pages.push(entry?.path());
        }
    }
    pages.sort();
    for page in pages.iter().filter(|page| page.extension().is_some_and(|end| end == "md")) {
        let text =
            std::fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
        if !text.contains(BEGIN) {
            continue;
        }
        let read = |path: &str| {
            std::fs::read_to_string(root.join(FOLDER).join(path)).map_err(|error| error.to_string())
        };
        let written =
            with_tables(&text, read).with_context(|| format!("cannot fill {}", page.display()))?;
        if written != text {
            std::fs::write(page, written).with_context(|| format!("cannot write {}", page.display()))?;
            eprintln!("wrote {}", page.display());
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the text of a page with each table generated from its data; `read` returns the data of a
/// path.
///
/// # Errors
///
/// Returns an error for a comment without its end, and for data that cannot be read or has another
/// form.
pub(crate) fn with_tables(
    text: &str,
    read: impl Fn(&str) -> std::result::Result<String, String>,
) -> Result<String> {
    let mut out = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        out.push_str(line);
        out.push('\n');
        let Some(rest) = line.strip_prefix(BEGIN) else { continue };
        if !lines.by_ref().any(|line| line == END) {
            bail!("no '{END}' follows '{line}': add it on a separate line");
        }
        let words: Vec<&str> = rest.trim_end_matches("-->").split_whitespace().collect();
        let (path, options) = words.split_first().context("the comment names no data file")?;
        let data = read(path).map_err(|error| anyhow::anyhow!("cannot read {path}: {error}"))?;
        let data: Value =
            serde_json::from_str(&data).with_context(|| format!("{path} is not valid JSON"))?;
        let ratios = data["ratios"].as_array().with_context(|| format!("{path} has no list 'ratios'"))?;
        out.push_str(&Table::of_options(options)?.markdown(ratios));
        out.push_str(END);
        out.push('\n');
    }
    Ok(out)
}

/// The shape of a table.
#[derive(Debug, Default)]
struct Table<'a> {
    rows: Vec<&'a str>,
    columns: Option<&'a str>,
    has_goal: bool,
}

impl<'a> Table<'a> {
    fn of_options(options: &[&'a str]) -> Result<Self> {
        let mut table = Self::default();
        for &option in options {
            match option.split_once('=') {
                Some(("rows", fields)) => table.rows = fields.split(',').collect(),
                Some(("columns", field)) => table.columns = Some(field),
                None if option == "goal" => table.has_goal = true,
                _ => bail!("unknown option '{option}': use rows=…, columns=… or goal"),
            }
        }
        if table.rows.is_empty() {
            bail!("the comment has no rows=…: name the fields that identify a line");
        }
        Ok(table)
    }

    fn markdown(&self, ratios: &[Value]) -> String {
        let column_of = |ratio: &Value| self.columns.map_or("ratio".to_owned(), |c| cell_text(&ratio[c]));
        let mut columns: Vec<String> = Vec::new();
        let mut lines: Vec<(Vec<String>, Vec<&Value>)> = Vec::new();
        for ratio in ratios {
            let column = column_of(ratio);
            if !columns.contains(&column) {
                columns.push(column);
            }
            let key: Vec<String> = self.rows.iter().map(|field| cell_text(&ratio[*field])).collect();
            match lines.iter_mut().find(|(known, _)| *known == key) {
                Some((_, cells)) => cells.push(ratio),
                None => lines.push((key, vec![ratio])),
            }
        }
        let mut head: Vec<String> = self.rows.iter().map(|&row| row.to_owned()).collect();
        head.extend(columns.iter().cloned());
        head.extend(self.has_goal.then(|| "goal".to_owned()));
        let mut out = line(&head);
        out.push_str(&line(&vec!["---".to_owned(); head.len()]));
        for (key, cells) in lines {
            let mut fields = key;
            for column in &columns {
                let found = cells.iter().find(|ratio| column_of(ratio) == *column);
                fields.push(found.map_or_else(|| "–".to_owned(), |ratio| cell(ratio)));
            }
            if self.has_goal {
                let goal = cells.iter().find_map(|ratio| ratio["goal"].as_f64());
                fields.push(goal.map_or_else(|| "–".to_owned(), |goal| format!("≥ {goal:.2}")));
            }
            out.push_str(&line(&fields));
        }
        out
    }
}

/// Returns a ratio with its interval, in bold if it misses its goal.
fn cell(ratio: &Value) -> String {
    let number = |field: &str| ratio[field].as_f64();
    let Some(median) = number("ratio_median") else { return "–".to_owned() };
    let text = match (number("ratio_low"), number("ratio_high")) {
        (Some(low), Some(high)) => format!("{median:.2} [{low:.2} … {high:.2}]"),
        _ => format!("{median:.2}"),
    };
    if ratio["met"] == Value::Bool(false) { format!("**{text}**") } else { text }
}

fn cell_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => grouped(&number.to_string()),
        _ => String::new(),
    }
}

/// Puts a comma between groups of three digits.
fn grouped(digits: &str) -> String {
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn line(fields: &[String]) -> String {
    format!("| {} |\n", fields.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: &str = r#"{"ratios": [
        {"work": "hit", "size": 65536, "rival": "a", "ratio_median": 2.0, "ratio_low": 1.5, "ratio_high": 2.5},
        {"work": "hit", "size": 1000000, "rival": "a", "ratio_median": 0.9, "goal": 1.0, "met": false},
        {"work": "miss", "size": 65536, "rival": "a", "ratio_median": 3.0}
    ]}"#;

    fn page(options: &str) -> String {
        let text = format!("before\n{BEGIN}x.json {options} -->\nold\n{END}\nafter\n");
        with_tables(
            &text,
            |path| if path == "x.json" { Ok(DATA.to_owned()) } else { Err("none".to_owned()) },
        )
        .unwrap()
    }

    #[test]
    fn a_table_has_a_line_for_each_key_and_a_column_for_each_value() {
        let text = page("rows=work columns=size goal");
        let table: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(
            table,
            [
                "| work | 65,536 | 1,000,000 | goal |",
                "| --- | --- | --- | --- |",
                "| hit | 2.00 [1.50 … 2.50] | **0.90** | ≥ 1.00 |",
                "| miss | 3.00 | – | – |",
            ]
        );
        assert!(text.starts_with("before\n") && text.ends_with("<!-- end -->\nafter\n"));
        assert!(!text.contains("old"));
    }

    #[test]
    fn generated_page_is_stable() {
        let once = page("rows=work,rival");
        assert_eq!(with_tables(&once, |_| Ok(DATA.to_owned())).unwrap(), once);
    }

    #[test]
    fn figure_comments_without_end_data_or_rows_are_errors() {
        let fill = |text: &str| with_tables(text, |_| Err("gone".to_owned())).unwrap_err().to_string();
        assert!(fill("<!-- figures: x.json rows=a -->\n").contains("no '<!-- end -->' follows"));
        assert!(fill("<!-- figures: x.json rows=a -->\n<!-- end -->\n").contains("x.json: gone"));
        let text = "<!-- figures: x.json row=a -->\n<!-- end -->\n";
        let error = with_tables(text, |_| Ok(DATA.to_owned())).unwrap_err().to_string();
        assert!(error.contains("unknown option 'row=a'"), "{error}");
    }
}
