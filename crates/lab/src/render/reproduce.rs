//! The results of `reproduce`.

use std::path::PathBuf;

use flowloom_repro::page::{number, stated};
use flowloom_repro::{
    Agreement, Effect, Guess, Item, Noticed, Plan, Record, Reproduction, Scale, Value, select,
};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::{Report, counted};

/// Items that can be reproduced.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ItemList {
    schema: &'static str,
    /// Tables, figures and sections of the papers, in their order.
    items: Vec<ListedItem>,
}

/// A table, figure or section.
#[derive(Debug, JsonSchema, Serialize)]
struct ListedItem {
    /// Name on the command line: paper/item.
    id: &'static str,
    /// Place in the paper.
    place: &'static str,
    /// The paper's statement.
    claim: &'static str,
    /// Letters for the method: M measured here, S simulated, A arithmetic, – not available.
    fidelity: String,
    /// Mechanisms that can be switched off, and faults that can be introduced.
    switches: Vec<&'static str>,
    /// Parameters that the paper leaves open and `--guess` sets.
    guesses: Vec<&'static str>,
    /// Lines on these parameters.
    #[serde(skip)]
    #[schemars(skip)]
    parameters: Vec<String>,
}

impl ItemList {
    pub fn new(items: &[&'static Item]) -> Self {
        let items = items.iter().map(|item| ListedItem {
            id: item.id,
            place: item.place,
            claim: item.claim,
            fidelity: item.fidelity.iter().map(|fidelity| fidelity.letter()).collect(),
            switches: item.switches.iter().map(|switch| switch.name).collect(),
            guesses: item.guesses.iter().map(|guess| guess.name).collect(),
            parameters: item.guesses.iter().map(parameter).collect(),
        });
        Self { schema: "flowloom/reproduce-list/1", items: items.collect() }
    }
}

fn parameter(guess: &Guess) -> String {
    format!("  --guess {}={}, {}: {}", guess.name, guess.default, guess.range(), guess.about)
}

impl Report for ItemList {
    fn lines(&self) -> Vec<String> {
        let is_all = self.items.len() == select("all").len();
        let width = self.items.iter().map(|item| item.id.len()).max().unwrap_or(0);
        let place = self.items.iter().map(|item| item.place.chars().count()).max().unwrap_or(0);
        let mut lines: Vec<String> = self
            .items
            .iter()
            .flat_map(|item| {
                let line = format!(
                    "{:width$}  {:2}  {:place$}  {}",
                    item.id, item.fidelity, item.place, item.claim
                );
                std::iter::once(line).chain(item.parameters.iter().filter(|_| !is_all).cloned())
            })
            .collect();
        lines.push(String::new());
        lines.push(format!(
            "{}. M measured here, S simulated, A arithmetic, – out of reach{}",
            counted(self.items.len() as u64, "item"),
            if is_all { ". `list PAPER` adds the parameters of --guess" } else { "" }
        ));
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![["id", "place", "fidelity", "claim"].map(str::to_owned).to_vec()];
        rows.extend(self.items.iter().map(|item| {
            vec![item.id.to_owned(), item.place.to_owned(), item.fidelity.clone(), item.claim.to_owned()]
        }));
        rows
    }
}

/// The output of `reproduce`.
#[derive(Debug)]
pub struct ReproduceResult {
    pub reproduction: Reproduction,
    pub plan: Plan,
    pub saved: Option<PathBuf>,
}

impl Serialize for ReproduceResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.reproduction.serialize(serializer)
    }
}

/// Width of a line of text, in characters.
const WIDTH: usize = 106;

impl Report for ReproduceResult {
    fn lines(&self) -> Vec<String> {
        let run = &self.reproduction;
        let scale = format!("{:?}", run.scale).to_lowercase();
        let mut lines = vec![format!(
            "flowloom {} ({})   {} {}   scale {scale}, first seed {}, real data {}",
            run.tool.version,
            run.tool.git,
            run.host.cpu,
            run.host.isa,
            run.seed,
            if run.with_data { "at hand" } else { "not available" }
        )];
        for record in &run.items {
            lines.push(String::new());
            lines.extend(item_lines(record, self.plan));
        }
        lines.extend(ablation_table(&run.items));
        lines.push(String::new());
        if let Some(folder) = &self.saved {
            lines.push(format!("Report: {}", folder.join("report.html").display()));
        }
        if matches!(run.scale, Scale::Smoke) {
            lines.push(String::from(
                "Scale smoke shows that items run. The published verdicts are those of scale quick.",
            ));
        }
        lines.push(self.verdict());
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let head = [&["item", "place", "verdict"][..], &Value::COLUMNS].concat();
        let mut rows = vec![head.iter().map(|&name| name.to_owned()).collect()];
        for record in &self.reproduction.items {
            let word = record.outcome.verdict.word();
            let start = [record.id, record.place, word].map(str::to_owned);
            for value in &record.outcome.values {
                rows.push([&start[..], &value.cells()].concat());
            }
            if record.outcome.values.is_empty() {
                let mut row = start.to_vec();
                row.resize(head.len(), String::new());
                rows.push(row);
            }
        }
        rows
    }
}

impl ReproduceResult {
    /// Returns the last line: the number of items that agree, and of values within their bands.
    fn verdict(&self) -> String {
        let items = &self.reproduction.items;
        let count =
            |is: fn(&Agreement) -> bool| items.iter().filter(|record| is(&record.outcome.verdict)).count();
        let failed = items.iter().filter(|record| !record.holds()).count();
        let ours = match failed as u64 {
            0 if !items.iter().any(Record::has_bands) => String::from("no value was compared with a band"),
            0 => match items.iter().map(Record::outside_with_some).sum::<usize>() as u64 {
                0 => String::from("all values lie within our bands"),
                1 => String::from(
                    "all medians lie within our bands; one value is outside with some of the seeds",
                ),
                some => format!(
                    "all medians lie within our bands; {some} values are outside with some of the seeds"
                ),
            },
            many => format!(
                "{} {} values outside our bands",
                counted(many, "item"),
                if many == 1 { "has" } else { "have" }
            ),
        };
        let others: Vec<String> = [
            ("cannot tell", count(|verdict| matches!(verdict, Agreement::CannotTell { .. }))),
            ("depend on the seed", count(|verdict| matches!(verdict, Agreement::DependsOnDraw { .. }))),
            ("are definitions", count(|verdict| matches!(verdict, Agreement::Definition { .. }))),
        ]
        .into_iter()
        .filter(|(_, many)| *many > 0)
        .map(|(words, many)| format!(", {many} {words}"))
        .collect();
        let others = others.concat();
        let interrupted = if self.reproduction.complete { "" } else { "interrupted; " };
        format!(
            "{interrupted}{} run: {} agree, {} differ, {} cannot run here{others}; {ours}",
            counted(items.len() as u64, "item"),
            count(|verdict| matches!(verdict, Agreement::Agrees { .. })),
            count(|verdict| matches!(verdict, Agreement::Differs { .. })),
            count(|verdict| matches!(verdict, Agreement::CannotRun { .. })),
        )
    }
}

fn item_lines(record: &Record, asked: Plan) -> Vec<String> {
    let how: String = record.fidelity.iter().map(|fidelity| fidelity.letter()).collect();
    let mut lines = vec![format!("{}   {}   [{how}]   {:.1} s", record.id, record.place, record.seconds)];
    lines.extend(wrapped("claim    ", record.claim));
    let values = &record.outcome.values;
    let width = values.iter().map(|value| value.name.chars().count()).max().unwrap_or(0).max(5);
    if !values.is_empty() {
        lines.push(format!("  {:width$}  {:>10}  {:>10}  {:5}  our band", "", "paper", "here", ""));
    }
    lines.extend(values.iter().map(|value| value_line(value, width)));
    let verdict = &record.outcome.verdict;
    lines.extend(wrapped("verdict  ", &format!("{}: {}", verdict.word(), verdict.text())));
    if record.seeds.len() > 1 {
        let last = record.seeds.last().unwrap_or(&0);
        lines
            .extend(wrapped("seeds    ", &format!("{} to {last}: medians and intervals", record.seeds[0])));
    }
    for ablation in &record.ablations {
        let is_outside = |effect: &&Effect| ablation.outside.contains(&effect.name);
        let outside: Vec<String> = ablation.effects.iter().filter(is_outside).map(Effect::words).collect();
        let inside = ablation.effects.iter().filter(|effect| !is_outside(effect));
        let inside: Vec<String> = inside.map(Effect::words).collect();
        let noticed = match ablation.noticed {
            Noticed::ByVerdict | Noticed::ByBand => format!("noticed {}", ablation.noticed.words()),
            _ => ablation.noticed.words().to_owned(),
        };
        let text = format!(
            "{} ({}): {}, {noticed}{}{}{}{}",
            ablation.switch,
            ablation.about,
            ablation.verdict_words(),
            if outside.is_empty() { "" } else { "; outside the band: " },
            outside.join("; "),
            if inside.is_empty() { "" } else { "; of others, most change " },
            inside.join("; ")
        );
        lines.extend(wrapped("without  ", &text));
    }
    if asked.ablate && record.ablations.is_empty() {
        lines.extend(wrapped("without  ", "the item has no mechanism to switch off and no fault to plant"));
    }
    if asked.sweep && record.sweeps.is_empty() {
        let paper = record.id.split('/').next().unwrap_or_default();
        lines.extend(wrapped(
            "guess    ",
            &format!(
                "the item has no parameter to set; docs/papers/{paper}.md lists what the paper leaves open"
            ),
        ));
    }
    for sweep in &record.sweeps {
        lines.extend(wrapped(
            "guess    ",
            &format!("{} ({}): {}", sweep.guess, sweep.about, sweep.region()),
        ));
    }
    for (why, names) in record.outcome.unbanded() {
        lines.extend(wrapped("no band  ", &format!("{}: {why}", names.join("; "))));
    }
    for (why, names) in record.outcome.apart() {
        lines.extend(wrapped("apart    ", &format!("{}: {why}", names.join("; "))));
    }
    for note in &record.outcome.notes {
        lines.extend(wrapped("note     ", note));
    }
    lines
}

/// Returns the table of mechanisms by item, with the value that each moves out of its band, or else
/// the one that it changes most.
fn ablation_table(records: &[Record]) -> Vec<String> {
    let rows: Vec<[String; 6]> = records
        .iter()
        .flat_map(|record| record.ablations.iter().map(move |ablation| (record, ablation)))
        .map(|(record, ablation)| {
            let effect = ablation.effects.first().map_or_else(String::new, Effect::words);
            [
                ablation.switch.to_owned(),
                record.id.to_owned(),
                record.outcome.verdict.word().to_owned(),
                ablation.verdict_words(),
                ablation.noticed.words().to_owned(),
                effect,
            ]
        })
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let head =
        ["switched off", "item", "verdict", "without", "noticed", "outside its band, or greatest effect"]
            .map(str::to_owned);
    let width =
        |at: usize| rows.iter().chain([&head]).map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..6).map(width).collect();
    let line = |row: &[String; 6]| {
        let cells = row.iter().zip(&widths).map(|(cell, &width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    [String::new(), line(&head)].into_iter().chain(rows.iter().map(line)).collect()
}

fn value_line(value: &Value, width: usize) -> String {
    let paper = stated(value);
    let band = value.band_text() + if value.holds() { "" } else { "  OUTSIDE" };
    let interval = value
        .interval
        .filter(|interval| interval.low < interval.high)
        .map_or_else(String::new, |interval| {
            format!("  [{} … {}]", number(interval.low), number(interval.high))
        });
    let line = format!(
        "  {:width$}  {paper:>10}  {:>10}  {:5}  {band}{interval}",
        value.name,
        number(value.ours),
        value.unit
    );
    line.trim_end().to_owned()
}

/// Breaks a text into lines: the first after a word, the others indented below it.
fn wrapped(word: &str, text: &str) -> Vec<String> {
    let indent = word.chars().count() + 2;
    let mut lines = Vec::new();
    let mut line = format!("  {word}");
    let mut length = indent;
    for part in text.split_whitespace() {
        let part_length = part.chars().count() + usize::from(length > indent);
        if length + part_length > WIDTH && length > indent {
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            length = indent;
        }
        if length > indent {
            line.push(' ');
        }
        length += part.chars().count() + usize::from(length > indent);
        line.push_str(part);
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_repro::Outcome;

    #[test]
    fn verdict_is_separated_from_its_reason() {
        for verdict in [Agreement::agrees("so"), Agreement::differs("so"), Agreement::cannot_run("so")] {
            let line = format!("  verdict  {}: so", verdict.word());
            let record = Record {
                id: "lfb/one",
                place: "Tab. 1",
                numbers: "Tab. I",
                claim: "it is so",
                fidelity: Vec::new(),
                seconds: 0.0,
                seeds: vec![1],
                ablations: Vec::new(),
                sweeps: Vec::new(),
                outcome: Outcome::new(verdict),
            };
            let lines = item_lines(&record, Plan { ablate: true, sweep: true, ..Plan::default() });
            assert!(lines.contains(&line), "{lines:?}");
            assert!(lines.iter().any(|line| line.contains("docs/papers/lfb.md lists")), "{lines:?}");
            assert!(lines.iter().any(|line| line.contains("no mechanism to switch off")), "{lines:?}");
        }
    }

    #[test]
    fn continuation_lines_align_with_the_first_word() {
        let lines = wrapped("note  ", &"word ".repeat(40));
        assert!(lines.len() > 1 && lines.iter().all(|line| line.chars().count() <= WIDTH), "{lines:?}");
        assert!(lines[1].starts_with("        word"));
    }
}
