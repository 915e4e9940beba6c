//! The effect of more threads on `DirectHash` and `SigHash` [FLOWNP §6.3, Fig. 10].
//!
//! The sweep runs in [virtual time](super::memory_channels), with the memory reads of Flowloom's
//! tables. SRAM and DRAM have the rates in the paper's list of its hardware. The other work of a
//! packet is chosen so that 64 threads with `SigHash` reach the line rate. This choice is an
//! assumption. The results are which of the two tables scales with its threads, how far, and the
//! rate of the other table.

use flowloom::flow_table::TableOptions;
use flowloom::flow_table::baseline::DirectTable;
use flowloom::flow_table::probe::Counts;
use flowloom::flow_table::sighash::ReferenceSigHash;
use flowloom_measure::chart::{Axis, Chart, Series};
use flowloom_measure::lookup::{Flows, State};

use super::memory_channels::{Command, alone_ps, packets_per_second};
use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::SWEPT;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "flownp/fig10_threads",
    place: "§6.3, Fig. 10",
    claim: "with 64 threads SigHash reaches 10 Gbps, the line's rate, and DirectHash 8.3, which grows less from 40 threads on",
    numbers: "text of §6.3: three points; the curves of Fig. 10 are not legible in our copy",
    fidelity: &[Fidelity::Simulated],
    draws: 3,
    unswitched: SWEPT,
    run,
    ..Item::PLAIN
};

/// Minimum-size Ethernet frames per second at 10 Gbps.
const LINE_RATE: f64 = 1e10 / (84.0 * 8.0);
/// Numbers of threads in the paper's sweep.
const THREADS: [u32; 17] = [1, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64];
/// Long-words of an entry.
const ENTRY_WORDS: u32 = 8;
/// Long-words of its entry that a packet writes back in `DirectHash`; the paper does not state the
/// number.
const WRITTEN_BACK: [u32; 4] = [0, 2, 4, ENTRY_WORDS];
/// Below this share of the rate without waiting, threads count as not scaling.
const SCALES: f64 = 0.95;

/// Results for one table by number of threads.
struct Sweep {
    /// Rate by threads, in Gbps.
    points: Vec<(f64, f64)>,
    /// Rate in Gbps of a thread that waits for no other.
    alone: f64,
    /// Maximum number of threads up to which the rate scales.
    knee: f64,
}

impl Sweep {
    fn run(context: &Context<'_>, packets: &[Vec<Command>], other_ps: u64) -> Result<Self, ItemError> {
        let gbps = |packets_per_second: f64| packets_per_second / LINE_RATE * 10.0;
        let alone = gbps(1e12 / (other_ps as f64 + mean_alone_ps(packets)));
        let (mut points, mut knee) = (Vec::new(), 0.0);
        for threads in THREADS {
            context.check_stop()?;
            let rate = gbps(packets_per_second(threads as usize, packets, other_ps, context.seed));
            let threads = f64::from(threads);
            if rate >= SCALES * alone * threads {
                knee = threads;
            }
            points.push((threads, rate));
        }
        Ok(Self { points, alone, knee })
    }

    /// Returns the rate of a number of threads, in Gbps.
    fn at(&self, threads: f64) -> f64 {
        let point = self.points.iter().find(|point| point.0 >= threads);
        point.map_or(f64::NAN, |point| point.1)
    }

    /// Returns the rate of a number of threads, relative to their rate without waiting.
    fn share(&self, threads: f64) -> f64 {
        self.at(threads) / (self.alone * threads)
    }
}

fn mean_alone_ps(packets: &[Vec<Command>]) -> f64 {
    packets.iter().map(|commands| alone_ps(commands)).sum::<u64>() as f64 / packets.len().max(1) as f64
}

/// Returns the memory commands of packets with `SigHash`, and the entries that they read with
/// `DirectHash`, for flows in turn with one flow per bucket.
fn counted(
    context: &Context<'_>,
    flows: &Flows<2>,
    packets: usize,
) -> Result<(Vec<Vec<Command>>, Vec<usize>), ItemError> {
    let count = u32::try_from(flows.keys.len()).unwrap_or(u32::MAX);
    let config = TableOptions { buckets: Some(count), ..TableOptions::for_flows(count) };
    let mut signatures = ReferenceSigHash::<[u64; 2], State>::try_new(&config)
        .map_err(ItemError::during("building the reference of SigHash"))?;
    let mut direct = DirectTable::<[u64; 2], State>::try_new(&TableOptions::for_flows(count))
        .map_err(ItemError::during("building DirectHash"))?;
    flows.fill(&mut signatures).map_err(ItemError::during("filling the reference of SigHash"))?;
    flows.fill(&mut direct).map_err(ItemError::during("filling DirectHash"))?;
    context.check_stop()?;
    let (mut of_signatures, mut entries) = (Vec::with_capacity(packets), Vec::with_capacity(packets));
    for key in flows.keys.iter().cycle().take(packets) {
        let mut counts = Counts::default();
        signatures.find_counting(key, flows.hash(key), &mut counts);
        // One word; then the flow's state and those with the same eight bits or in the list, 32
        // bytes each; the state is written back.
        let states = usize::try_from(counts.lines).unwrap_or(1).max(1) - 1;
        let mut commands = vec![Command::ReadSram(1)];
        commands.resize(1 + states, Command::ReadDram(2));
        commands.push(Command::WriteDram(2));
        of_signatures.push(commands);
        let mut counts = Counts::default();
        direct.find_counting(key, flows.hash(key), &mut counts);
        entries.push(usize::try_from(counts.lines).unwrap_or(0));
    }
    Ok((of_signatures, entries))
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let flows = Flows::<2>::new(context.scale.pick(1 << 13, 1 << 16, 1 << 18), context.seed);
    let packets = context.scale.pick(10_000, 40_000, 200_000);
    let (of_signatures, entries) = counted(context, &flows, packets)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some microseconds")]
    let other_ps = (64.0 * 1e12 / LINE_RATE - mean_alone_ps(&of_signatures)).max(0.0) as u64;
    let signatures = Sweep::run(context, &of_signatures, other_ps)?;
    let mut chart = Chart::new(
        "Threads, in virtual time",
        Axis::linear("threads"),
        Axis::linear("Gbps of minimal packets"),
    )
    .with(Series::line("SigHash", signatures.points.clone()));
    let mut values = vec![
        Value::new("SigHash, 64 threads", "Gbps", signatures.at(64.0))
            .paper(10.0)
            .band(10.0 * SCALES, 10.1),
        Value::new("the same by threads that never wait", "", signatures.share(64.0)).band(SCALES, 1.01),
    ];
    let mut direct = Vec::new();
    for words in WRITTEN_BACK {
        let commands = |&entries: &usize| {
            let mut commands = vec![Command::ReadSram(ENTRY_WORDS); entries];
            commands.push(Command::WriteSram(words));
            commands
        };
        let sweep = Sweep::run(context, &entries.iter().map(commands).collect::<Vec<_>>(), other_ps)?;
        let name = |what: &str| format!("DirectHash, {words} of 8 words written back: {what}");
        // The more a packet writes, the earlier the channel is full. The paper's 40 is below each.
        let knee = if words == ENTRY_WORDS { (44.0, 52.0) } else { (52.0, 64.0) };
        let rate = Value::new(name("64 threads"), "Gbps", sweep.at(64.0)).paper(8.3);
        let rate = match words {
            // The rate of threads that never wait, minus some waiting.
            0 => rate.band(9.3, 10.0),
            // One and a half entries read and one written, in sequence: 7.83 Gbps fill the channel.
            ENTRY_WORDS => rate.band(7.4, 7.9),
            2 => rate.band(9.3, 9.8),
            _ => rate.band(9.0, 9.6),
        };
        values.push(rate.apart(
            "how many words a packet writes back is not stated: the paper's rate lies between none and all",
        ));
        values.push(
            Value::new(name("threads up to which it scales"), "", sweep.knee)
                .paper(40.0)
                .band(knee.0, knee.1)
                .apart("a channel that stops at 8.3 Gbps is not full before 53 threads"),
        );
        chart = chart.with(Series::line(format!("DirectHash, {words} words back"), sweep.points.clone()));
        direct.push(sweep);
    }
    let (unwritten, written) = (&direct[0], &direct[direct.len() - 1]);
    let mean = entries.iter().sum::<usize>() as f64 / packets as f64;
    values.push(Value::new("entries that a lookup of DirectHash reads", "", mean).band(1.45, 1.55));
    let rates_hold =
        signatures.share(64.0) >= SCALES && (written.at(64.0)..=unwritten.at(64.0)).contains(&8.3);
    let found = format!(
        "SigHash grows with its threads up to the line's rate. One channel of SRAM brings DirectHash {mean:.2} entries of eight words a \
         packet, and it stops at {:.1} to {:.1} Gbps, where a packet writes back all or nothing of its entry, which the text does not \
         tell; the paper's 8.3 lie between",
        written.at(64.0),
        unwritten.at(64.0)
    );
    let verdict = match (rates_hold, (written.knee..=unwritten.knee).contains(&40.0)) {
        (true, true) => Agreement::agrees(found),
        (true, false) => Agreement::differs(format!(
            "{found}. But its threads scale up to {:.0} then, and not 40: a channel that stops at 8.3 Gbps is not full before 53 \
             threads, and 40 do {:.0} % of what they would if none waited",
            written.knee,
            written.share(40.0) * 100.0
        )),
        (false, _) => Agreement::differs(format!(
            "with 64 threads SigHash does {:.1} Gbps, and DirectHash {:.1} to {:.1}, as a packet writes back all or nothing of its entry",
            signatures.at(64.0),
            written.at(64.0),
            unwritten.at(64.0)
        )),
    };
    Ok(Outcome::new(verdict)
        .values(values)
        .chart(
            chart
                .with(Series::points("paper, SigHash", vec![(64.0, 10.0)]))
                .with(Series::points("paper, DirectHash", vec![(64.0, 8.3)])),
        )
        .note(format!(
            "DirectHash on one channel of SRAM, four bytes per clock of 233 MHz; SigHash's states on three of DRAM, sixteen bytes per clock of \
             127.3 MHz, written back whole. Reads and writes of a channel pass one queue. What lookups read is counted in tables of {} flows, \
             one per bucket. A packet's other work, {:.2} µs, is alike for both: what lets SigHash reach the line with 64 threads.",
            flows.keys.len(),
            other_ps as f64 / 1e6
        ))
        .note(format!(
            "Threads scale while they do {:.0} % of what they would if none waited for another. The paper's curves are not in the text, only \
             these points of them.",
            SCALES * 100.0
        )))
}
