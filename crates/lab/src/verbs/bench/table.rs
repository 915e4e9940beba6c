//! Compares flow tables.

use std::cell::RefCell;
use std::io::IsTerminal as _;
use std::sync::Arc;

use flowloom::cpu::features::Isa;
use flowloom::cpu::memory;
use flowloom::engine::Control;
use flowloom::flow_table::baseline::{Chained, DirectTable};
use flowloom::flow_table::dhash::ReferenceDHash;
use flowloom::flow_table::{BuildError, DHash, FlowTable, LineHash, SigHash, TableOptions};
use flowloom_measure::lookup::contender::{
    Contender, LowerBoundContender, MapContender, OurTable, StdMap, Work,
};
use flowloom_measure::lookup::{Flows, State, TrialError, flood};
use flowloom_measure::{Host, Outcome, RatioRow, Report, ResultRow, Rounds, RoundsError, Samples};
use serde_json::json;

use crate::args::Common;
use crate::args::bench::table::{KeyName, Table, TableName, WorkName};
use crate::exit::{Failure, Status};
use crate::host::isa_named;
use crate::host::tool;
use crate::render::bench::BenchResult;
use crate::render::{grouped, say};
use crate::signals::stop_on_signals;

/// Name of the lower bounds (two lines for hits, one for misses) in rows.
const LOWER_BOUND: &str = "lower bound";

/// Runs the command.
pub(crate) fn run(arguments: &Table, common: &Common) -> Result<Status, Failure> {
    let isa = isa_named(&arguments.isa)?;
    let mut tables = arguments.tables.clone();
    tables.dedup();
    if arguments.rounds == 0 || arguments.batch == 0 {
        return Err(Failure::Usage(String::from("--rounds and --batch must be at least 1")));
    }
    let _kept = arguments.save.open()?;
    let control = Arc::new(Control::default());
    stop_on_signals(&control);
    let mut report = Report::new(tool(), Host::read(isa.to_string(), &[]));
    report.input = Some(json!({
        "kind": "generated",
        "order": "shuffled",
        "key_bytes": match arguments.key { KeyName::V4 => 16, KeyName::V6 => 40 },
        "state_bytes": 32,
        "batch": arguments.batch,
        "seed": arguments.seed,
    }));
    let says = common.quiet == 0 && std::io::stderr().is_terminal();
    let run = Run { arguments, tables: &tables, isa, control: &control, says };
    for &flows in &arguments.flows {
        let count = u32::try_from(flows)
            .ok()
            .filter(|&count| (1..=1 << 27).contains(&count))
            .ok_or_else(|| Failure::Usage(format!("--flows {flows}: must be between 1 and {}", 1 << 27)))?;
        match arguments.key {
            KeyName::V4 => run.at::<2>(count, &mut report)?,
            KeyName::V6 => run.at::<5>(count, &mut report)?,
        }
        if control.is_stopped() {
            report.complete = false;
            break;
        }
    }
    let status = if report.complete { Status::Ok } else { Status::Interrupted };
    BenchResult { title: "bench table", report }.finish(&arguments.save, common)?;
    Ok(status)
}

struct Run<'a> {
    arguments: &'a Table,
    tables: &'a [TableName],
    isa: Isa,
    control: &'a Control,
    /// Whether a terminal shows what is being timed.
    says: bool,
}

impl Run<'_> {
    /// Compares the tables at one number of flows.
    fn at<const W: usize>(&self, count: u32, report: &mut Report) -> Result<(), Failure> {
        self.check_memory::<W>(count)?;
        let flows = Flows::<W>::new(count, self.arguments.seed);
        let mut contenders = Vec::new();
        for &name in self.tables {
            contenders.push(RefCell::new(self.contender(name, &flows)?));
        }
        contenders.push(RefCell::new(Box::new(LowerBoundContender::new(LOWER_BOUND, &flows, 1.0))));
        report.memory.extend(contenders.iter().filter_map(|contender| contender.borrow().memory()));
        let batch = usize::try_from(self.arguments.batch).unwrap_or(usize::MAX);
        for &work in &self.arguments.work {
            let work = match work {
                WorkName::Hit => Work::Hit { batch },
                WorkName::HitAhead => Work::HitAhead { batch, ahead: 2 },
                WorkName::Single => Work::Single,
                WorkName::Dependent => Work::Dependent,
                WorkName::Miss => Work::Miss { batch },
                WorkName::Churn => Work::Churn,
                WorkName::Build => Work::Build,
                WorkName::Flood => {
                    self.flood::<W>(count, batch, report)?;
                    continue;
                }
            };
            if self.says {
                say(&format!("{} flows: {}", grouped(count.into()), work.name()));
            }
            if let Some(outcome) = self.rounds(&contenders, work)? {
                report.complete &= outcome.complete;
                add_rows(report, &outcome.samples, &work.name(), count.into(), work.items(count as usize));
            }
            if self.control.is_stopped() {
                break;
            }
        }
        Ok(())
    }

    /// Refuses a number of flows for which keys, tables and lower bound exceed the free memory. All
    /// exist at once and are resident.
    fn check_memory<const W: usize>(&self, count: u32) -> Result<(), Failure> {
        let options = TableOptions::for_flows(count);
        let table_bytes = |name: &TableName| match name {
            TableName::Linehash => LineHash::<[u64; W], State>::bytes_needed(&options),
            TableName::Dhash => DHash::<[u64; W], State>::bytes_needed(&options),
            TableName::Sighash => SigHash::<[u64; W], State>::bytes_needed(&options),
            TableName::Direct => DirectTable::<[u64; W], State>::bytes_needed(&options),
            TableName::Chained => Chained::<[u64; W], State>::bytes_needed(&options),
            TableName::Std => std_map_bytes::<W>(count),
        };
        let tables: Vec<u64> = self.tables.iter().map(table_bytes).collect();
        let has = |work: WorkName| self.arguments.work.contains(&work);
        // A new table is built while the existing one remains.
        let beside = tables.iter().copied().max().filter(|_| has(WorkName::Build)).unwrap_or(0);
        let flood = if has(WorkName::Flood) {
            2 * (Flows::<W>::bytes_needed(count) + table_bytes(&TableName::Linehash))
        } else {
            0
        };
        let lower_bound = LowerBoundContender::<W>::bytes_needed(count);
        let needed =
            Flows::<W>::bytes_needed(count) + tables.iter().sum::<u64>() + beside + flood + lower_bound;
        match memory::available_bytes() {
            Some(available) if needed > available => Err(Failure::Usage(format!(
                "--flows {count}: keys and tables take about {needed} bytes, but {available} are free\n  \
                 use a smaller --flows, or fewer tables: --table"
            ))),
            _ => Ok(()),
        }
    }

    /// Times all contenders that support a kind of work; returns `None` if interrupted before the
    /// first round.
    fn rounds(
        &self,
        contenders: &[RefCell<Box<dyn Contender + '_>>],
        work: Work,
    ) -> Result<Option<Outcome<u64>>, Failure> {
        let mut rounds = Rounds::new(self.arguments.rounds);
        for contender in contenders {
            if contender.borrow().can(work) {
                let name = contender.borrow().name().to_owned();
                rounds = rounds
                    .variant_with_lap(name, move |lap| contender.borrow_mut().run(work, lap).unwrap_or(0));
            }
        }
        if self.control.is_stopped() {
            return Ok(None);
        }
        match rounds.run_while(|| !self.control.is_stopped()) {
            Err(RoundsError::Interrupted) => Ok(None),
            outcome => outcome.map(Some).map_err(|error| Failure::Experiment(error.to_string())),
        }
    }

    /// Compares flows of one CRC with random ones, in the default table and in one that hashes with
    /// a CRC.
    fn flood<const W: usize>(&self, count: u32, batch: usize, report: &mut Report) -> Result<(), Failure> {
        let (random, flooded) =
            (Flows::<W>::new(count, self.arguments.seed), flood::one_crc(count, self.arguments.seed));
        let line = |count| LineHash::try_new(&self.options(count));
        let failed = |error: TrialError| Failure::Experiment(format!("flood: {error}"));
        let contenders: [RefCell<Box<dyn Contender + '_>>; 2] = [
            RefCell::new(Box::new(OurTable::new("linehash, random flows", &random, line).map_err(failed)?)),
            RefCell::new(Box::new(
                OurTable::new("linehash, flows of one CRC", &flooded, line).map_err(failed)?,
            )),
        ];
        if let Some(outcome) = self.rounds(&contenders, Work::Hit { batch })? {
            report.complete &= outcome.complete;
            add_rows(report, &outcome.samples, "flood, hit", count.into(), count.into());
        }
        // An unbounded list costs the square of its length, so a few thousand flows show the
        // effect.
        let few = count.min(4096);
        let mut random = Flows::<W>::new(few, self.arguments.seed);
        let mut flooded = flood::one_crc(few, self.arguments.seed);
        random.hash_with(flood::crc_hash);
        flooded.hash_with(flood::crc_hash);
        let paper = |count: u32| {
            let usual = TableOptions {
                pool: Some(count),
                list_cap: Some(u32::MAX),
                ..TableOptions::for_flows(count)
            };
            ReferenceDHash::<[u64; W], State>::try_new(&usual)
        };
        let contenders: [RefCell<Box<dyn Contender + '_>>; 2] = [
            RefCell::new(Box::new(
                OurTable::new("dhash with a CRC, random flows", &random, paper).map_err(failed)?,
            )),
            RefCell::new(Box::new(
                OurTable::new("dhash with a CRC, flows of one CRC", &flooded, paper).map_err(failed)?,
            )),
        ];
        if let Some(outcome) = self.rounds(&contenders, Work::Hit { batch })? {
            report.complete &= outcome.complete;
            add_rows(report, &outcome.samples, "flood, hit, paper mode", few.into(), few.into());
        }
        Ok(())
    }

    /// Returns the options of a resident table.
    fn options(&self, count: u32) -> TableOptions {
        TableOptions { isa: Some(self.isa), prefault: true, ..TableOptions::for_flows(count) }
    }

    fn contender<'f, const W: usize>(
        &'f self,
        name: TableName,
        flows: &'f Flows<W>,
    ) -> Result<Box<dyn Contender + 'f>, Failure> {
        match name {
            TableName::Linehash => ours(name, flows, |count| LineHash::try_new(&self.options(count))),
            TableName::Dhash => ours(name, flows, |count| DHash::try_new(&self.options(count))),
            TableName::Sighash => ours(name, flows, |count| SigHash::try_new(&self.options(count))),
            TableName::Direct => ours(name, flows, |count| DirectTable::try_new(&self.options(count))),
            TableName::Chained => ours(name, flows, |count| Chained::try_new(&self.options(count))),
            TableName::Std => Ok(Box::new(MapContender::<W, StdMap<W>>::new("std", flows))),
        }
    }
}

/// Returns the memory of the standard library's map: a power of two of places, seven in eight
/// usable, and one control byte each.
fn std_map_bytes<const W: usize>(count: u32) -> u64 {
    let places = (u64::from(count) * 8).div_ceil(7).next_power_of_two();
    places * (size_of::<([u64; W], State)>() as u64 + 1)
}

fn ours<'f, const W: usize, T, F>(
    name: TableName,
    flows: &'f Flows<W>,
    build: F,
) -> Result<Box<dyn Contender + 'f>, Failure>
where
    T: FlowTable<[u64; W], State> + 'f,
    F: Fn(u32) -> Result<T, BuildError> + 'f,
{
    let label = format!("{name:?}").to_lowercase();
    match OurTable::new(label.as_str(), flows, build) {
        Ok(table) => Ok(Box::new(table)),
        Err(error @ TrialError::Build(_)) => {
            Err(Failure::Usage(format!("--flows {}: {label}: {error}", flows.keys.len())))
        }
        Err(error) => Err(Failure::Experiment(format!("{label}: {error}"))),
    }
}

/// Adds the times of all tables, and their ratios to the first and, if present, to the lower bound.
fn add_rows(report: &mut Report, samples: &[Samples], work: &str, size: u64, items: u64) {
    report.results.extend(samples.iter().map(|samples| ResultRow::new(work, size, items, samples)));
    let Some((first, others)) = samples.split_first() else { return };
    let rows = others.iter().map(|rival| {
        RatioRow::of_times(
            format!("{work}: {}", first.name),
            size,
            &rival.name,
            &rival.cpu_ns,
            &first.cpu_ns,
        )
        .with_items(items, &rival.cpu_ns, &first.cpu_ns)
    });
    report.ratios.extend(rows);
}
