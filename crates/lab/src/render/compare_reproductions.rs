//! The result of `compare` on two reproductions.

use flowloom_repro::page::number;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::save::Table;
use super::{Report, counted};

/// The relative change that counts for a value without an interval.
const CHANGE: f64 = 0.1;

/// Differences between two saved results of reproduce.
#[derive(Debug, JsonSchema, Serialize)]
pub struct CompareReproductions {
    schema: &'static str,
    /// Items that both results have.
    verdicts: Vec<Verdicts>,
    /// Values whose intervals do not overlap; a value without an interval counts as a range of a
    /// tenth around it.
    values: Vec<Values>,
    /// Items that only the base has.
    only_base: Vec<String>,
    /// Items that only the new result has.
    only_new: Vec<String>,
    /// Items whose verdicts differ.
    pub changed: u64,
}

/// The verdicts on an item.
#[derive(Debug, JsonSchema, Serialize)]
struct Verdicts {
    /// The item.
    item: String,
    /// Its verdict in the base.
    base: String,
    /// Its verdict in the new result.
    new: String,
}

/// A value whose two intervals do not overlap.
#[derive(Debug, JsonSchema, Serialize)]
struct Values {
    /// The item.
    item: String,
    /// The value.
    name: String,
    /// In the base.
    base: f64,
    /// In the new result.
    new: f64,
}

fn items(document: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let items = document["items"].as_array().into_iter().flatten();
    items.filter_map(|item| Some((item["id"].as_str()?, item)))
}

fn find<'a>(document: &'a Value, id: &str) -> Option<&'a Value> {
    items(document).find(|(known, _)| *known == id).map(|(_, item)| item)
}

/// Returns the bounds of a value; without an interval, a tenth around it.
fn ends(value: &Value) -> Option<(f64, f64, f64)> {
    let ours = value["ours"].as_f64()?;
    let end = |name: &str, off: f64| value["interval"][name].as_f64().unwrap_or(ours + off * ours.abs());
    Some((ours, end("low", -CHANGE / 2.0), end("high", CHANGE / 2.0)))
}

impl CompareReproductions {
    /// Compares two documents of `reproduce`.
    pub fn new(base: &Value, new: &Value) -> Self {
        let (mut verdicts, mut values) = (Vec::new(), Vec::new());
        for (id, before) in items(base) {
            let Some(after) = find(new, id) else { continue };
            let word = |item: &Value| item["verdict"].as_str().unwrap_or_default().to_owned();
            verdicts.push(Verdicts { item: id.to_owned(), base: word(before), new: word(after) });
            for value in before["values"].as_array().into_iter().flatten() {
                let mut others = after["values"].as_array().into_iter().flatten();
                let Some(other) = others.find(|other| other["name"] == value["name"]) else { continue };
                if let (Some(old), Some(now)) = (ends(value), ends(other))
                    && (old.2 < now.1 || now.2 < old.1)
                {
                    let name = value["name"].as_str().unwrap_or_default().to_owned();
                    values.push(Values { item: id.to_owned(), name, base: old.0, new: now.0 });
                }
            }
        }
        let only = |these: &Value, those: &Value| -> Vec<String> {
            items(these)
                .map(|(id, _)| id)
                .filter(|id| find(those, id).is_none())
                .map(str::to_owned)
                .collect()
        };
        Self {
            schema: "flowloom/compare-reproductions/1",
            changed: verdicts.iter().filter(|verdict| verdict.base != verdict.new).count() as u64,
            only_base: only(base, new),
            only_new: only(new, base),
            verdicts,
            values,
        }
    }
}

impl Report for CompareReproductions {
    fn tables(&self) -> Vec<Table> {
        let shown = self.rows();
        vec![Table { title: "Verdicts, and values that differ", rows: shown, note: String::new() }]
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for verdict in self.verdicts.iter().filter(|verdict| verdict.base != verdict.new) {
            lines
                .push(format!("{}: {}, but {} in the new result", verdict.item, verdict.base, verdict.new));
        }
        for value in &self.values {
            lines.push(format!(
                "{}: {}  {} → {}",
                value.item,
                value.name,
                number(value.base),
                number(value.new)
            ));
        }
        for (which, items) in [("base", &self.only_base), ("new result", &self.only_new)] {
            if !items.is_empty() {
                lines.push(format!("only in the {which}: {}", items.join(", ")));
            }
        }
        lines.push(format!(
            "{}: {} with a different verdict, {} that differ{}",
            counted(self.verdicts.len() as u64, "item"),
            self.changed,
            counted(self.values.len() as u64, "value"),
            if self.values.len() == 1 { "s" } else { "" }
        ));
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![["item", "value", "base", "new"].map(str::to_owned).to_vec()];
        rows.extend(self.verdicts.iter().map(|verdict| {
            vec![verdict.item.clone(), String::from("verdict"), verdict.base.clone(), verdict.new.clone()]
        }));
        rows.extend(self.values.iter().map(|value| {
            vec![value.item.clone(), value.name.clone(), value.base.to_string(), value.new.to_string()]
        }));
        rows
    }
}
