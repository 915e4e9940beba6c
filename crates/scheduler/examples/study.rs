//! Is our better scheme anywhere below the best of the papers'? Many models, machines, loads and
//! seeds, in virtual time.
//!
//! ```sh
//! cargo run --release -p flowloom-scheduler --example study             # tuning set
//! cargo run --release -p flowloom-scheduler --example study -- before   # first test set
//! cargo run --release -p flowloom-scheduler --example study -- judge    # what they never saw
//! cargo run --release -p flowloom-scheduler --example study -- judge 3 200000
//! ```
//!
//! The arguments are the set, the number of seeds, and the packets of a run. A rate is jobs
//! completed per cycle; a row is its ratio to the best scheme of the papers that keeps a flow's
//! order. Schemes that reorder, and those whose threads an idealised operating system moves for
//! free, do not count as rivals.

#![expect(clippy::print_stdout, reason = "a program that prints a table")]
#![expect(clippy::cast_precision_loss, reason = "shown as a few digits")]

use flowloom_scheduler::SetupError;
use flowloom_scheduler::registry::Scheme;
use flowloom_scheduler::sim::models::Model;
use flowloom_scheduler::sim::{Machine, Offered, Pace, WhenFull};

/// Order-keeping schemes of the papers and of the field.
const RIVALS: [&str; 12] =
    ["dh", "crc", "rss++", "fixed", "hrw", "hrw3", "adaptive", "fbs", "p2c", "ph", "lfb", "lfb-ns"];
const OURS: [&str; 2] = ["flowpin", "flowpull"];
/// Below this share of the best rival a run is lost.
const LOST: f64 = 0.98;
/// Rows that are printed of each of ours.
const ROWS: usize = 12;

/// A machine, and how jobs arrive at it.
struct Setting {
    name: &'static str,
    machine: Machine,
    /// Percent of the machine's capacity, and whether jobs arrive in waves; none for a saturated
    /// machine.
    load: Option<(u64, bool)>,
}

/// One run: its name, and the rate of each scheme relative to the best rival.
struct Row {
    model: Model,
    setting: &'static str,
    seed: u64,
    best: &'static str,
    ours: [f64; 2],
}

fn main() -> Result<(), SetupError> {
    let mut arguments = std::env::args().skip(1);
    let set = arguments.next();
    let mut number = |usual: u64| arguments.next().and_then(|word| word.parse().ok()).unwrap_or(usual);
    let (seeds, packets) = (number(2), u32::try_from(number(60_000)).unwrap_or(u32::MAX));
    let (settings, models, first_seed) = match set.as_deref() {
        Some("judge") => (unseen()?, models([5, 80], [(2000, 1000), (50_000, 1100)]), 1001),
        Some("before") => (judged_before()?, models([20, 150], [(200, 800), (20_000, 1300)]), 101),
        _ => (settings()?, Model::EACH, 1),
    };
    let mut rows = Vec::new();
    for model in models {
        for seed in first_seed..first_seed + seeds {
            for setting in &settings {
                rows.push(compare(model, setting, seed, packets)?);
            }
        }
    }
    println!("{} runs of {packets} packets, {} schemes each", rows.len(), RIVALS.len() + OURS.len());
    summarise(&rows, OURS[0], |row| row.ours[0]);
    summarise(&rows, OURS[1], |row| row.ours[1]);
    summarise(&rows, "the better of both", |row| row.ours[0].max(row.ours[1]));
    Ok(())
}

fn compare(model: Model, setting: &Setting, seed: u64, packets: u32) -> Result<Row, SetupError> {
    let mut traffic = model.generate(packets, seed)?;
    let mut pace = Pace::Closed;
    if let Some((percent, waves)) = setting.load {
        let work: u64 = traffic.jobs.iter().map(|job| u64::from(job.work)).sum();
        let mean =
            work * 100_000 / (traffic.jobs.len() as u64 * setting.machine.parallelism_permille() * percent);
        let wave = if waves { setting.machine.hertz / 500 } else { 0 };
        traffic = traffic.with_arrivals(mean.max(1), wave, seed);
        pace = Pace::Open;
    }
    let offered = Offered::new(traffic, pace)?;
    let rate = |name: &'static str| -> Result<f64, SetupError> {
        let Some(scheme) = Scheme::named(name) else { return Err(SetupError::NoWork) };
        let report = scheme.run(&setting.machine, &offered, seed)?;
        Ok(report.completed as f64 / report.cycles as f64)
    };
    let mut best = (0.0, RIVALS[0]);
    for rival in RIVALS {
        let rate = rate(rival)?;
        if rate > best.0 {
            best = (rate, rival);
        }
    }
    let ours = [rate(OURS[0])? / best.0, rate(OURS[1])? / best.0];
    Ok(Row { model, setting: setting.name, seed, best: best.1, ours })
}

fn summarise(rows: &[Row], name: &str, of: impl Fn(&Row) -> f64) {
    let mut sorted: Vec<&Row> = rows.iter().collect();
    sorted.sort_by(|a, b| of(a).total_cmp(&of(b)));
    let (Some(worst), Some(best)) = (sorted.first(), sorted.last()) else { return };
    let lost = sorted.iter().filter(|row| of(row) < LOST).count();
    println!(
        "\n{name}: below {LOST} in {lost} of {}, least {:.3}, median {:.3}, most {:.3}",
        rows.len(),
        of(worst),
        of(sorted[sorted.len() / 2]),
        of(best)
    );
    for row in &sorted[..ROWS.min(sorted.len())] {
        println!(
            "  {:.3}  {:<12} {:<28} seed {:<4} best rival {:<9} flowpin {:.3} flowpull {:.3}",
            of(row),
            row.model.name(),
            row.setting,
            row.seed,
            row.best,
            row.ours[0],
            row.ours[1]
        );
    }
}

/// Returns models with these thousandths of an elephant, and these numbers of flows with
/// thousandths of an exponent.
fn models(elephants: [u32; 2], zipf: [(u32, u32); 2]) -> [Model; 9] {
    let [first, second] = elephants.map(|elephant_permille| Model::L7 { elephant_permille });
    let [third, fourth] = zipf.map(|(flows, exponent_permille)| Model::Zipf { flows, exponent_permille });
    [
        Model::Dominant,
        Model::Many,
        Model::Balanced,
        first,
        second,
        third,
        fourth,
        Model::Bursts,
        Model::Elephants,
    ]
}

fn closed(name: &'static str, machine: Machine) -> Setting {
    Setting { name, machine, load: None }
}

fn settings() -> Result<Vec<Setting>, SetupError> {
    let xeon = |shape: &str| Ok::<_, SetupError>(Machine::xeon(shape.parse()?));
    let niagara = Machine::niagara("8x2x4,-0".parse()?);
    Ok(vec![
        closed("xeon 8", xeon("8")?),
        closed("xeon 4", xeon("4")?),
        closed("xeon 16", xeon("16")?),
        closed("xeon 64", xeon("64")?),
        closed("xeon 2x2x4", xeon("2x2x4")?),
        closed("xeon 8x2x4", xeon("8x2x4")?),
        closed("xeon 8, two at half speed", xeon("8,0=50,5=50")?),
        closed("xeon 8, queue 16", Machine { queue_packets: 16, ..xeon("8")? }),
        closed("niagara, queue 16", niagara.clone()),
        closed("niagara, demand 40 %", Machine { thread_demand_permille: 400, ..niagara }),
        Setting { name: "xeon 8, load 80 %", machine: xeon("8")?, load: Some((80, false)) },
        Setting {
            name: "xeon 8, waves at 95 %, drops",
            machine: Machine { queue_packets: 64, when_full: WhenFull::Drop, ..xeon("8")? },
            load: Some((95, true)),
        },
    ])
}

fn judged_before() -> Result<Vec<Setting>, SetupError> {
    let xeon = |shape: &str| Ok::<_, SetupError>(Machine::xeon(shape.parse()?));
    let niagara = |shape: &str| Ok::<_, SetupError>(Machine::niagara(shape.parse()?));
    Ok(vec![
        closed("xeon 2", xeon("2")?),
        closed("xeon 6", xeon("6")?),
        closed("xeon 32", xeon("32")?),
        closed("xeon 3x3x3", xeon("3x3x3")?),
        closed("xeon 2x4x2", xeon("2x4x2")?),
        closed("xeon 12, uneven", xeon("12,3=25,7=200")?),
        closed("xeon 8, pool 256", Machine { pool_packets: 256, ..xeon("8")? }),
        closed("xeon 8, reported late", Machine { chunk: 128, batch: 128, ..xeon("8")? }),
        closed("niagara 4x2x4, queue 8", Machine { queue_packets: 8, ..niagara("4x2x4,-0")? }),
        closed(
            "niagara, queue 64, demand 25 %",
            Machine { queue_packets: 64, thread_demand_permille: 250, ..niagara("8x2x4,-0")? },
        ),
        Setting { name: "xeon 16, waves at 70 %", machine: xeon("16")?, load: Some((70, true)) },
        Setting {
            name: "xeon 8, load 105 %, drops",
            machine: Machine { queue_packets: 32, when_full: WhenFull::Drop, ..xeon("8")? },
            load: Some((105, false)),
        },
    ])
}

fn unseen() -> Result<Vec<Setting>, SetupError> {
    let xeon = |shape: &str| Ok::<_, SetupError>(Machine::xeon(shape.parse()?));
    let niagara = |shape: &str| Ok::<_, SetupError>(Machine::niagara(shape.parse()?));
    Ok(vec![
        closed("xeon 5", xeon("5")?),
        closed("xeon 24", xeon("24")?),
        closed("xeon 4x4", xeon("4x4")?),
        closed("xeon 2x2x2x2", xeon("2x2x2x2")?),
        closed("xeon 10, uneven", xeon("10,0=30,1=30,9=300")?),
        closed("xeon 6x2, uneven", xeon("6x2,0=50,11=150")?),
        closed("xeon 12, pool 700", Machine { pool_packets: 700, ..xeon("12")? }),
        closed("niagara 6x2x3, queue 24", Machine { queue_packets: 24, ..niagara("6x2x3,-0")? }),
        // The dispatcher slows a pipeline, but the topology does not describe this.
        closed("niagara 6x2x3, untold", Machine { queue_packets: 24, ..niagara("6x2x3")? }),
        closed("niagara, demand 60 %", Machine { thread_demand_permille: 600, ..niagara("8x2x4,-0")? }),
        Setting { name: "xeon 12, waves at 85 %", machine: xeon("12")?, load: Some((85, true)) },
        Setting {
            name: "xeon 16, load 120 %, drops",
            machine: Machine { queue_packets: 64, when_full: WhenFull::Drop, ..xeon("16")? },
            load: Some((120, false)),
        },
        Setting {
            name: "xeon 6, load 90 %, queue 24",
            machine: Machine { queue_packets: 24, ..xeon("6")? },
            load: Some((90, false)),
        },
    ])
}
