//! Writes the results of items: CSV and SVG files per item, one JSON file, one page.

use std::io;
use std::path::PathBuf;

use flowloom_measure::{Host, rows::Tool};
use serde::Serialize;
use thiserror::Error;

use crate::examine::{Ablation, Plan, Sweep, examine};
use crate::experiment::{Context, Fidelity, Item, ItemError, Outcome, Scale, Value, source};
use crate::machine::Machine;

/// Name and version of the JSON's schema.
pub const SCHEMA: &str = "flowloom/reproduce/1";

/// One item that was run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Record {
    /// The item.
    pub id: &'static str,
    /// Place in the paper.
    pub place: &'static str,
    /// The paper's claim.
    pub claim: &'static str,
    /// Where the paper's numbers stand, and how they were read.
    pub numbers: &'static str,
    /// How Flowloom's figures were obtained.
    pub fidelity: Vec<Fidelity>,
    /// Duration in seconds.
    pub seconds: f64,
    /// Seeds of its runs.
    pub seeds: Vec<u64>,
    /// The result.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Its runs with a mechanism switched off or a fault introduced.
    pub ablations: Vec<Ablation>,
    /// Its runs with other values for guesses.
    pub sweeps: Vec<Sweep>,
}

impl Record {
    /// Returns whether any of Flowloom's values has a band.
    pub fn has_bands(&self) -> bool {
        self.outcome.values.iter().any(|value| value.band.is_some())
    }

    /// Returns whether all of Flowloom's values lie in their bands.
    pub fn holds(&self) -> bool {
        self.outcome.failed().next().is_none()
    }

    /// Returns the number of values whose median lies in its band, but not the value of each seed.
    pub fn outside_with_some(&self) -> usize {
        let is_outside = |value: &&Value| value.interval.is_some_and(|interval| interval.outside > 0);
        self.outcome.values.iter().filter(|value| value.holds()).filter(is_outside).count()
    }

    /// Returns the file that implements the item, from the root of the repository on.
    pub fn source(&self) -> String {
        source(self.id)
    }

    /// Returns the result in one line, for programs that print it as soon as the item has run.
    pub fn line(&self) -> String {
        let outside = self.outcome.failed().count();
        let outside = if outside > 0 { format!(", {outside} outside the band") } else { String::new() };
        format!("{}: {}{outside}, {:.1} s", self.id, self.outcome.verdict.word(), self.seconds)
    }
}

/// Items of the papers that ran with a common header. Verdicts concern the papers, bands concern
/// Flowloom's values.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reproduction {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The program.
    pub tool: Tool,
    /// The machine.
    pub host: Host,
    /// Its memory and caches, the compiler, and the day.
    pub machine: Machine,
    /// The amount of work of each item.
    pub scale: Scale,
    /// The first seed.
    pub seed: u64,
    /// Whether real captures, rules and logs were available.
    pub with_data: bool,
    /// The items that ran, in the papers' order.
    pub items: Vec<Record>,
    /// The command that repeats each of them.
    pub commands: Vec<String>,
    /// Whether all requested items ran.
    pub complete: bool,
}

/// A file that could not be written.
#[derive(Debug, Error)]
#[error("cannot write {}: {source}", path.display())]
pub struct RecordError {
    /// Path of the file or directory.
    pub path: PathBuf,
    /// The error of the system.
    pub source: io::Error,
}

impl Reproduction {
    /// Returns a reproduction without items.
    pub fn new(tool: Tool, host: Host, context: &Context<'_>) -> Self {
        Self {
            schema: SCHEMA,
            tool,
            host,
            machine: Machine::read(),
            scale: context.scale,
            seed: context.seed,
            with_data: context.data.is_some(),
            items: Vec::new(),
            commands: Vec::new(),
            complete: true,
        }
    }

    /// Runs an item by a plan and stores its result.
    ///
    /// # Errors
    ///
    /// Returns the item's error; nothing is stored in this case.
    ///
    /// # Panics
    ///
    /// Does not panic.
    pub fn run(&mut self, item: &Item, context: &Context<'_>, plan: Plan) -> Result<&Record, ItemError> {
        let begun = flowloom_measure::Stopwatch::start();
        let examined = examine(item, context, plan)?;
        #[expect(clippy::cast_precision_loss, reason = "seconds, for a reader")]
        let seconds = begun.elapsed().wall_ns as f64 / 1e9;
        self.commands.push(command(item, context, plan));
        self.items.push(Record {
            id: item.id,
            place: item.place,
            claim: item.claim,
            numbers: item.numbers,
            fidelity: item.fidelity.to_vec(),
            seconds,
            seeds: examined.seeds,
            outcome: examined.outcome,
            ablations: examined.ablations,
            sweeps: examined.sweeps,
        });
        Ok(self.items.last().expect("just pushed"))
    }

    /// Returns whether all of Flowloom's values lie in their bands.
    pub fn holds(&self) -> bool {
        self.items.iter().all(Record::holds)
    }

    /// Returns everything as JSON.
    ///
    /// # Panics
    ///
    /// Does not panic: keys are text, and numbers that are not finite become `null`.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("maps with text for keys")
    }
}

/// Returns the command that repeats the run of an item.
fn command(item: &Item, context: &Context<'_>, plan: Plan) -> String {
    let mut words = vec![format!("flowloom reproduce {}", item.id)];
    words.push(format!("--scale {}", context.scale.pick("smoke", "quick", "full")));
    words.push(format!("--seed {}", context.seed));
    words.extend(plan.seeds.map(|seeds| format!("--seeds {seeds}")));
    words.extend(plan.ablate.then(|| String::from("--ablate")));
    words.extend(plan.sweep.then(|| String::from("--sweep")));
    let own = item.own_guesses(context);
    words.extend(own.iter().map(|(name, value)| format!("--guess {name}={value}")));
    words.extend(context.data.map(|_| String::from("--data DIR")));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Agreement;
    use crate::page;
    use flowloom_measure::chart::{Axis, Chart, Series};

    fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
        context.check_stop()?;
        let chart = Chart::new("Shape & size", Axis::linear("x"), Axis::linear("y"))
            .with(Series::line("ours", vec![(0.0, 1.0), (1.0, 2.0)]));
        Ok(Outcome::new(Agreement::agrees("in shape"))
            .value(Value::new("a <b>", "ns", 1.5).paper(1.0).band(1.0, 2.0))
            .value(Value::new("bound", "%", 5.0).paper_below(6.0))
            .chart(chart)
            .note("seed 1"))
    }

    const ITEM: Item = Item {
        id: "dhash/test",
        place: "Tab. V",
        claim: "it is so",
        fidelity: &[Fidelity::Simulated],
        run,
        ..Item::PLAIN
    };

    #[test]
    fn record_reads_back_as_written() {
        let go_on = || true;
        let context = Context::new(Scale::Smoke, 1, &go_on);
        let tool = Tool { version: "0".into(), git: String::new() };
        let mut reproduction = Reproduction::new(tool, Host::read("scalar", &[]), &context);
        assert!(reproduction.run(&ITEM, &context, Plan::default()).unwrap().holds());
        let folder = tempfile::tempdir().unwrap();
        reproduction.write(folder.path()).unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("dhash/test.csv").lines().nth(1), Some("a <b>,ns,1,1.5,1,2,true,,false,,,,"));
        assert_eq!(read("dhash/test.csv").lines().nth(2), Some("bound,%,6,5,,,true,below,true,,,,"));
        assert_eq!(read("dhash/test-1.csv").lines().count(), 3);
        assert!(read("dhash/test-1.svg").contains("<svg"));
        let json: serde_json::Value = serde_json::from_str(&read("result.json")).unwrap();
        assert_eq!(json["items"][0]["verdict"], "agrees");
        let values = &json["items"][0]["values"];
        assert_eq!(
            (&values[0]["paper"], &values[0]["paper_bound"]),
            (&1.0.into(), &serde_json::Value::Null)
        );
        assert_eq!((&values[1]["paper"], &values[1]["paper_bound"]), (&6.0.into(), &"below".into()));
        let page = read("report.html");
        assert!(page.contains("<code>flowloom reproduce dhash/test --scale smoke --seed 1</code>"));
        for linked in ["dhash/test.csv", "dhash/test-1.csv", "dhash/test-1.svg"] {
            assert!(page.contains(&format!("href=\"{linked}\"")) && folder.path().join(linked).is_file());
        }
        assert!(page.contains("<code>crates/repro/src/dhash/test.rs</code>"));
        let machine = json["machine"].as_object().unwrap();
        assert!(machine["compiler"].as_str().unwrap().starts_with("rustc"));
        assert!(page.contains(machine["date"].as_str().unwrap()));
        assert!(page.contains("a &lt;b&gt;") && page.contains("<svg"));
        assert!(page.contains("<td class=\"n\">&lt; 6</td>"));
        assert!(page.contains("<td>inside</td>") && !page.contains("<td>–</td>"));
        assert!(!page.contains("src=") && !page.contains("href=\"http"), "nothing from elsewhere");
    }

    const SIZE: crate::Guess = crate::Guess::new("size", "", 1.0, &[2.5], "a size");

    #[test]
    fn recorded_command_repeats_the_given_options() {
        let guesses = [("size", 2.5), ("of-another", 1.0)];
        let go_on = || true;
        let data = std::path::Path::new("somewhere");
        let context =
            Context { guesses: &guesses, data: Some(data), ..Context::new(Scale::Full, 7, &go_on) };
        let item = Item { guesses: &[SIZE], ..ITEM };
        assert_eq!(
            command(&item, &context, Plan { seeds: Some(3), ablate: true, sweep: false }),
            "flowloom reproduce dhash/test --scale full --seed 7 --seeds 3 --ablate --guess size=2.5 --data DIR"
        );
    }

    #[test]
    fn summary_line_counts_values_outside_their_bands() {
        let run = |_: &Context<'_>| {
            let value = |name, ours| Value::new(name, "", ours).band(0.0, 1.0);
            Ok(Outcome::new(Agreement::differs("so")).value(value("in", 1.0)).value(value("out", 2.0)))
        };
        let go_on = || true;
        let context = Context::new(Scale::Smoke, 1, &go_on);
        let tool = Tool { version: "0".into(), git: String::new() };
        let mut reproduction = Reproduction::new(tool, Host::read("scalar", &[]), &context);
        let line = reproduction.run(&Item { run, ..ITEM }, &context, Plan::default()).unwrap().line();
        assert!(line.starts_with("dhash/test: differs, 1 outside the band, "), "{line}");
    }

    #[test]
    fn a_value_without_a_band_is_not_reported_as_inside() {
        let run = |_: &Context<'_>| Ok(Outcome::new(Agreement::agrees("in shape")));
        let item = Item { run, ..ITEM };
        let go_on = || true;
        let context = Context::new(Scale::Smoke, 1, &go_on);
        let tool = Tool { version: "0".into(), git: String::new() };
        let mut reproduction = Reproduction::new(tool, Host::read("scalar", &[]), &context);
        let record = reproduction.run(&item, &context, Plan::default()).unwrap();
        assert!(record.holds() && !record.has_bands());
        let page = page::html(&reproduction);
        assert!(page.contains("<td>–</td>") && !page.contains("<td>inside</td>"));
    }

    #[test]
    fn stop_is_an_error_and_writes_nothing() {
        let go_on = || false;
        let context = Context::new(Scale::Smoke, 1, &go_on);
        let tool = Tool { version: "0".into(), git: String::new() };
        let mut reproduction = Reproduction::new(tool, Host::read("scalar", &[]), &context);
        assert!(matches!(reproduction.run(&ITEM, &context, Plan::default()), Err(ItemError::Interrupted)));
        assert!(reproduction.items.is_empty());
    }
}
