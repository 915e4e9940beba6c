//! The result of `compare` on two runs of `replay`.

use schemars::JsonSchema;
use serde::Serialize;

use super::save::Table;
use super::{Report, bytes, counted, date, grouped};

/// The factor by which the bytes of a conversation must differ to count as changed.
const FACTOR: u64 = 2;
/// Rows that lines show of each list.
const SHOWN: usize = 10;
/// Conversations that the document lists of each kind, the largest first.
const LISTED_MAX: usize = 1000;

/// Differences between two saved runs of replay.
#[derive(Debug, JsonSchema, Serialize)]
pub struct CompareRuns {
    pub schema: &'static str,
    /// Whether both runs have the same records: the same digest.
    pub same_records: bool,
    /// The base.
    pub base: Run,
    /// The new run.
    pub new: Run,
    /// Protocols of the records, those with most bytes first.
    pub protocols: Vec<Amounts>,
    /// Hosts that a run lists among its largest, those with most bytes first. Without records, a
    /// run knows only those that it lists.
    pub hosts: Vec<Amounts>,
    /// Conversations; null unless both folders hold records as flows.csv.
    pub conversations: Option<Conversations>,
    /// The runs whose folders hold no records.
    pub without_records: Vec<String>,
}

/// A run.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Run {
    /// The path of its result.
    pub path: String,
    /// Packets of its inputs.
    pub packets: u64,
    /// The rest of a sample: it has the first of so many packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one_of: Option<u64>,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// Flow records.
    pub flows: u64,
    /// Time of the first packet.
    pub begin_ns: u64,
    /// From the first to the last packet.
    pub span_ns: u64,
    /// Whether the run read all its input.
    pub is_complete: bool,
}

/// Traffic of both directions.
#[derive(Clone, Debug, Default, JsonSchema, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// Flow records.
    pub flows: u64,
    /// Packets.
    pub packets: u64,
    /// Bytes on the wire.
    pub bytes: u64,
    /// Mean time of the handshakes, from records with --fields handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake_ns: Option<u64>,
}

/// The traffic of a protocol, a host or a conversation in both runs.
#[derive(Clone, Debug, JsonSchema, PartialEq, Eq, Serialize)]
pub struct Amounts {
    /// Its name.
    pub name: String,
    /// In the base; null if it is not listed there.
    pub base: Option<Amount>,
    /// In the new run; null if it is not listed there.
    pub new: Option<Amount>,
}

/// How long the handshakes of a run took.
#[derive(Clone, Debug, JsonSchema, PartialEq, Eq, Serialize)]
pub struct HandshakeTimes {
    /// Handshakes that were seen from begin to end; at most the first 4,194,304.
    handshakes: u64,
    /// Their median.
    median_ns: u64,
    /// Their 95th percentile.
    p95_ns: u64,
}

/// Flows by source, destination, destination port and protocol.
#[derive(Debug, JsonSchema, Serialize)]
pub struct Conversations {
    /// Conversations that only the new run has.
    appeared: u64,
    /// Conversations that only the base has.
    gone: u64,
    /// Conversations of both whose bytes differ by a factor of 2 or more.
    changed: u64,
    /// Other conversations.
    alike: u64,
    /// Flows of the base and of the new run that belong to further conversations, which are not
    /// told apart.
    beyond: [u64; 2],
    /// Flows without an opening that belong to conversations whose ends are the other way round.
    turned: u64,
    /// The largest of those that appeared, at most 1000.
    largest_appeared: Vec<Amounts>,
    /// The largest of those that are gone, at most 1000.
    largest_gone: Vec<Amounts>,
    /// The largest of those that changed, at most 1000.
    largest_changed: Vec<Amounts>,
    /// Handshakes of the base; null if its records have none.
    base_handshakes: Option<HandshakeTimes>,
    /// Handshakes of the new run.
    new_handshakes: Option<HandshakeTimes>,
}

impl Amounts {
    /// Returns the amount of the base (0) or of the new run (1).
    pub fn side(&mut self, side: usize) -> &mut Option<Amount> {
        if side == 0 { &mut self.base } else { &mut self.new }
    }

    /// Returns the bytes of the run that has more.
    pub fn largest(&self) -> u64 {
        [&self.base, &self.new].into_iter().flatten().map(|amount| amount.bytes).max().unwrap_or(0)
    }

    /// Returns the bytes in the base and in the new run; 0 where it is not listed.
    fn both(&self) -> [u64; 2] {
        [&self.base, &self.new].map(|amount| amount.as_ref().map_or(0, |amount| amount.bytes))
    }

    fn has_changed(&self) -> bool {
        let (Some(base), Some(new)) = (&self.base, &self.new) else { return false };
        let (less, more) = (base.bytes.min(new.bytes), base.bytes.max(new.bytes));
        more >= less.saturating_mul(FACTOR) && more > less
    }

    fn cells(&self) -> [String; 6] {
        let [base, new] = [&self.base, &self.new].map(Option::as_ref);
        let cell =
            |amount: Option<&Amount>, of: fn(&Amount) -> String| amount.map_or_else(|| "–".into(), of);
        let flows = |amount: &Amount| grouped(amount.flows);
        let all = |amount: &Amount| bytes(amount.bytes);
        let change = match (base, new) {
            (Some(base), Some(new)) if base.bytes > 0 => factor(base.bytes, new.bytes),
            _ => "–".into(),
        };
        let name = self.name.clone();
        [name, cell(base, flows), cell(new, flows), cell(base, all), cell(new, all), change]
    }
}

impl HandshakeTimes {
    /// Returns the figures of these times, if there are any.
    pub fn from_times(mut times: Vec<u64>) -> Option<Self> {
        times.sort_unstable();
        let at = |percent: usize| times.get((times.len() * percent).div_ceil(100).checked_sub(1)?).copied();
        Some(Self { handshakes: times.len() as u64, median_ns: at(50)?, p95_ns: at(95)? })
    }
}

/// Returns how much an amount has changed: `+13 %`, `×12`.
fn factor(base: u64, new: u64) -> String {
    let factor = new as f64 / base as f64;
    if factor < 10.0 { format!("{:+.0} %", (factor - 1.0) * 100.0) } else { format!("×{factor:.0}") }
}

impl Conversations {
    /// Sorts the conversations of two runs. `beyond` are flows of others, `turned` those whose ends
    /// were exchanged, and `handshakes` the times of each run.
    pub fn new(
        mut all: Vec<Amounts>,
        beyond: [u64; 2],
        turned: u64,
        handshakes: [Option<HandshakeTimes>; 2],
    ) -> Self {
        all.sort_by(|a, b| b.largest().cmp(&a.largest()).then_with(|| a.name.cmp(&b.name)));
        let total = all.len() as u64;
        let (mut new, mut old, mut other) = (Vec::new(), Vec::new(), Vec::new());
        for amounts in all {
            match (&amounts.base, &amounts.new) {
                (None, _) => new.push(amounts),
                (_, None) => old.push(amounts),
                _ if amounts.has_changed() => other.push(amounts),
                _ => {}
            }
        }
        let [appeared, gone, changed] = [&new, &old, &other].map(|list| list.len() as u64);
        for list in [&mut new, &mut old, &mut other] {
            list.truncate(LISTED_MAX);
        }
        let [base_handshakes, new_handshakes] = handshakes;
        Self {
            appeared,
            gone,
            changed,
            alike: total - appeared - gone - changed,
            beyond,
            turned,
            largest_appeared: new,
            largest_gone: old,
            largest_changed: other,
            base_handshakes,
            new_handshakes,
        }
    }
}

impl CompareRuns {
    /// Returns the lists for people: hosts by how much they have changed.
    fn lists(&self) -> Vec<List<'_>> {
        let hosts = |is_of: fn([u64; 2]) -> bool| {
            let mut hosts: Vec<&Amounts> = self.hosts.iter().filter(|host| is_of(host.both())).collect();
            hosts.sort_by_key(|host| std::cmp::Reverse(u64::abs_diff(host.both()[0], host.both()[1])));
            hosts
        };
        let more = ("Hosts with more bytes", hosts(|[base, new]| new > base), 0);
        self.with_hosts(vec![more, ("Hosts with fewer bytes", hosts(|[base, new]| new < base), 0)])
    }

    /// Returns all lists with their titles, and how many rows more each kind has.
    fn with_hosts<'a>(&'a self, hosts: Vec<List<'a>>) -> Vec<List<'a>> {
        let mut lists = vec![("Protocols", self.protocols.iter().collect::<Vec<_>>(), 0)];
        lists.extend(hosts);
        if let Some(all) = &self.conversations {
            let more = |list: &[Amounts], total: u64| total - list.len() as u64;
            let (new, gone, changed) = (&all.largest_appeared, &all.largest_gone, &all.largest_changed);
            lists.push(("New conversations", new.iter().collect(), more(new, all.appeared)));
            lists.push(("Gone conversations", gone.iter().collect(), more(gone, all.gone)));
            lists.push((CHANGED, changed.iter().collect(), more(changed, all.changed)));
        }
        lists
    }

    fn facts(&self) -> Vec<String> {
        let seconds = |ns: u64| format!("{:.3} s", ns as f64 / 1e9);
        let run = |run: &Run| {
            let state = if run.is_complete { "" } else { ", incomplete" };
            let sample = run.one_of.map_or_else(String::new, |n| format!(" (a sample of 1 in {n})"));
            format!(
                "{}: {}{sample}, {}, {} in {} from {}{state}",
                run.path,
                counted(run.packets, "packet"),
                bytes(run.bytes),
                counted(run.flows, "record"),
                seconds(run.span_ns),
                date(run.begin_ns)
            )
        };
        let mut lines = vec![format!("base  {}", run(&self.base)), format!("new   {}", run(&self.new))];
        let Some(conversations) = &self.conversations else {
            let folders = self.without_records.join(", ");
            lines.push(format!(
                "{folders}: no flows.csv, so conversations and small hosts are unknown; write it with"
            ));
            lines.push("  replay FILE --fields handshake --flows FOLDER/flows.csv --save FOLDER".into());
            return lines;
        };
        for (which, side) in
            [("base", &conversations.base_handshakes), ("new ", &conversations.new_handshakes)]
        {
            let Some(side) = side else { continue };
            let ms = |ns: u64| format!("{:.3} ms", ns as f64 / 1e6);
            lines.push(format!(
                "{which}  {}: median {}, 95th percentile {}",
                counted(side.handshakes, "handshake"),
                ms(side.median_ns),
                ms(side.p95_ns)
            ));
        }
        if conversations.beyond != [0, 0] {
            let [base, new] = conversations.beyond.map(grouped);
            lines.push(format!("not told apart: {base} records of the base, {new} of the new run"));
        }
        if conversations.turned > 0 {
            let turned = counted(conversations.turned, "record");
            lines.push(format!("{turned} without an opening compared with the ends exchanged"));
        }
        lines
    }

    fn verdict(&self) -> String {
        let Some(conversations) = &self.conversations else {
            let what = if self.same_records { "the same records" } else { "different records" };
            return format!("{} and {}: {what}", self.base.path, self.new.path);
        };
        format!(
            "{}: {} new, {} gone, {} changed, {} alike",
            counted(
                conversations.appeared + conversations.gone + conversations.changed + conversations.alike,
                "conversation"
            ),
            grouped(conversations.appeared),
            grouped(conversations.gone),
            grouped(conversations.changed),
            grouped(conversations.alike)
        )
    }
}

const CHANGED: &str = "Changed conversations, by a factor of 2 or more";

/// A title, the rows, and how many more there are.
type List<'a> = (&'static str, Vec<&'a Amounts>, u64);

/// The heads of the columns.
const HEAD: [&str; 6] = ["", "base records", "new records", "base bytes", "new bytes", "change"];

fn with_head(title: &str, list: &[&Amounts], most: usize) -> Vec<[String; 6]> {
    let mut head = HEAD.map(str::to_owned);
    title.clone_into(&mut head[0]);
    std::iter::once(head).chain(list.iter().take(most).map(|amounts| amounts.cells())).collect()
}

impl Report for CompareRuns {
    fn tables(&self) -> Vec<Table> {
        let lists = self.lists().into_iter().filter(|(_, list, _)| !list.is_empty());
        let table = |(title, list, more): List<'_>| {
            let rows = with_head("", &list, SHOWN * SHOWN).into_iter().map(Vec::from).collect();
            let more = more + list.len().saturating_sub(SHOWN * SHOWN) as u64;
            let note = if more > 0 { format!("and {} more", grouped(more)) } else { String::new() };
            Table { title, rows, note }
        };
        lists.map(table).collect()
    }

    fn page_lines(&self) -> Vec<String> {
        let mut lines = self.facts();
        lines.push(self.verdict());
        lines
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = self.facts();
        for (title, list, more) in self.lists() {
            // Only what differs is news.
            let differing: Vec<&Amounts> =
                list.iter().filter(|amounts| amounts.base != amounts.new).copied().collect();
            if differing.is_empty() {
                continue;
            }
            lines.push(String::new());
            let cells = with_head(title, &differing, SHOWN);
            let width =
                |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
            let widths: [usize; 6] = std::array::from_fn(width);
            lines.extend(cells.iter().map(|row| {
                let first = format!("{:width$}", row[0], width = widths[0]);
                let others = row.iter().zip(widths).skip(1);
                let others = others.map(|(cell, width)| format!("{cell:>width$}"));
                std::iter::once(first).chain(others).collect::<Vec<_>>().join("  ")
            }));
            let more = more + differing.len().saturating_sub(SHOWN) as u64;
            if more > 0 {
                lines.push(format!("and {} more", grouped(more)));
            }
        }
        lines.push(String::new());
        lines.push(self.verdict());
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let head = [
            "list", "name", "base_flows", "new_flows", "base_packets", "new_packets", "base_bytes",
            "new_bytes", "base_handshake_ns", "new_handshake_ns",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for (list, all, _) in self.with_hosts(vec![("Largest hosts", self.hosts.iter().collect(), 0)]) {
            rows.extend(all.iter().map(|amounts| {
                let sides = [&amounts.base, &amounts.new];
                let mut row = vec![list.to_owned(), amounts.name.clone()];
                let amounts: [fn(&Amount) -> Option<u64>; 4] =
                    [|a| Some(a.flows), |a| Some(a.packets), |a| Some(a.bytes), |a| a.handshake_ns];
                for amounts in amounts {
                    row.extend(sides.map(|side| {
                        side.as_ref()
                            .and_then(amounts)
                            .map_or_else(String::new, |number| number.to_string())
                    }));
                }
                row
            }));
        }
        rows
    }
}
