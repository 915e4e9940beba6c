//! Runs all steps of the packet path in one interleaved run.
//!
//! | variant | what a round does |
//! | --- | --- |
//! | `walk` | finds every record |
//! | `walk+parse+hash` | and decodes it, and hashes its flow's key |
//! | `open+walk+parse+hash` | the same on a new mapping, page faults included |
//! | `copy-64KiB` | copies the same mapped bytes, 64 KiB at a time, into one buffer |
//! | `libpcap` | libpcap's offline reader, then the same decoding and hashing |
//! | `inline-null`, `inline-tcp-tracker` | the engine on one thread |
//! | `pipeline-N` | the engine with N workers, `tcp-tracker` |
//!
//! The [ways to pass packets between threads](ring) are measured in separate rounds.

use std::num::NonZeroUsize;
use std::path::Path;

use flowloom::apps::{Null, TcpTracker};
use flowloom::engine::{App, Layout};
use flowloom::flow_key::FlowHasher;
use flowloom_measure::{Elapsed, RatioRow, ResultRow, Rounds, Samples};

use crate::answers::Answers;
use crate::engine::{SEED, Sizing};
use crate::goal::{Clock, JudgedResult, JudgedRow};
use crate::input::CaptureFile;
use crate::looped::{self, Looped};
use crate::ring;
use crate::walk::{self, COPY_BYTES, Tally, walk_parse_hash};

/// Minimum number of packets per round.
pub const ROUND_PACKETS_MIN: u64 = 800_000;
/// Number of packets that a round moves through a ring.
const RING_ITEMS: u64 = 4 << 20;
/// Maximum processor time per packet on either side, in nanoseconds.
const RING_GOAL_NS: f64 = 10.0;

/// The comparisons: Flowloom's variant, rival, clock, goal.
const COMPARISONS: [(&str, &str, Clock, Option<f64>); 9] = [
    ("walk", "copy-64KiB", Clock::Cpu, None),
    ("walk+parse+hash", "copy-64KiB", Clock::Cpu, Some(1.0)),
    ("walk+parse+hash", "libpcap", Clock::Cpu, Some(5.0)),
    ("open+walk+parse+hash", "libpcap", Clock::Cpu, None),
    ("inline-null", "walk+parse+hash", Clock::Cpu, Some(1.0 / 2.6)),
    ("inline-tcp-tracker", "walk+parse+hash", Clock::Cpu, Some(1.0 / 3.2)),
    ("pipeline-1", "inline-tcp-tracker", Clock::Wall, None),
    ("pipeline-2", "inline-tcp-tracker", Clock::Wall, None),
    ("pipeline-4", "inline-tcp-tracker", Clock::Wall, None),
];

/// The results of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Number of packets in one pass.
    pub pass_packets: u64,
    /// Number of passes per round.
    pub passes: u32,
    /// Number of flows per round.
    pub flows: u64,
    /// Captured bytes per round.
    pub bytes: u64,
    /// Times of single variants.
    pub results: Vec<JudgedResult>,
    /// Comparisons.
    pub ratios: Vec<JudgedRow>,
    /// Missing variants, and the reasons.
    pub missing: Vec<String>,
}

/// The result of every variant: its answers agree with those of others, or a sentence describes the
/// difference.
type Answer = Result<(), String>;

/// Data that the variants share.
struct Bench<'a> {
    path: &'a Path,
    passes: u32,
    round_packets: u64,
    hasher: FlowHasher,
    sizing: Sizing,
    answers: Answers,
}

/// Runs all variants for `rounds` rounds.
///
/// # Errors
///
/// Returns an error if an input cannot be read, a variant cannot run, or two variants disagree; the
/// bench then reports no times.
pub fn run(capture: &CaptureFile, rounds: usize) -> Result<Outcome, String> {
    let path = capture.path();
    let pass_packets = looped::count(path).map_err(|error| error.to_string())?;
    if pass_packets == 0 {
        return Err(format!("{} has no packets", path.display()));
    }
    let passes = u32::try_from(ROUND_PACKETS_MIN.div_ceil(pass_packets)).unwrap_or(u32::MAX);
    let bench = Bench {
        path,
        passes,
        round_packets: pass_packets * u64::from(passes),
        hasher: FlowHasher::with_seed(SEED),
        sizing: Sizing::guess(path, u64::from(passes))?,
        answers: Answers::default(),
    };
    let mut missing = Vec::new();
    let all = bench.engines(Rounds::new(rounds))?;
    let all = bench.walks(all)?;
    let all = bench.libpcap(all, &mut missing);
    let outcome = all.run().map_err(|error| error.to_string())?;
    outcome.answer?;
    let mut rings: [Vec<ring::Sides>; 2] = Default::default();
    for _ in 0..=rounds {
        for (sides, transfer) in rings.iter_mut().zip([ring::descriptors, ring::descriptor_batches]) {
            sides.push(transfer(RING_ITEMS)?);
        }
    }

    let mut results: Vec<JudgedResult> = outcome
        .samples
        .iter()
        .filter(|samples| !samples.name.starts_with("pipeline"))
        .map(|samples| result("replay", "packet", bench.round_packets, samples, None))
        .collect();
    let [descriptors, batches] = &rings;
    results.extend(ring_results("ring of descriptors", &descriptors[1..]));
    results.extend(ring_results("ring and descriptor batches", &batches[1..]));
    let samples_of = |name: &str| outcome.samples.iter().find(|samples| samples.name == name);
    let ratios = COMPARISONS
        .iter()
        .filter_map(|&(ours, rival, clock, goal)| {
            Some(ratio(samples_of(ours)?, samples_of(rival)?, bench.round_packets, clock, goal))
        })
        .collect();
    Ok(Outcome {
        pass_packets,
        passes,
        flows: bench.answers.get("flows").unwrap_or(0),
        bytes: bench.answers.get("bytes").unwrap_or(0),
        results,
        ratios,
        missing,
    })
}

impl Bench<'_> {
    fn source(&self) -> Result<Looped, String> {
        Looped::open(self.path, self.round_packets).map_err(|error| error.to_string())
    }

    fn check(&self, variant: &str, tally: &Tally) -> Answer {
        let Tally { packets, bytes, decoded, checksum } = *tally;
        let walked = [("packets", packets), ("bytes", bytes)];
        self.answers.check(variant, &walked)?;
        if decoded > 0 {
            self.answers.check(variant, &[("decoded packets", decoded)])?;
        }
        // Variants that read the same passes with the same seed have the same hashes.
        if checksum > 0 { self.answers.check(variant, &[("as sum of hashes", checksum)]) } else { Ok(()) }
    }

    /// Adds a variant that walks a kept mapping.
    fn walks<'b>(&'b self, rounds: Rounds<'b, Answer>) -> Result<Rounds<'b, Answer>, String> {
        let (mut walked, mut hashed) = (self.source()?, self.source()?);
        let mapped = looped::mapping(self.path)?;
        let mut buffer = vec![0; COPY_BYTES];
        Ok(rounds
            .variant_with_lap("walk", move |lap| {
                walked.rewind();
                let tally = lap.time(|| walk::walk(&mut walked)).map_err(|error| error.to_string())?;
                self.check("walk", &tally)
            })
            .variant_with_lap("walk+parse+hash", move |lap| {
                hashed.rewind();
                let tally = lap.time(|| walk_parse_hash(&mut hashed, &self.hasher));
                // Pass numbers increase from round to round and are part of the keys, so the sum
                // differs each time.
                let tally = Tally { checksum: 0, ..tally.map_err(|error| error.to_string())? };
                self.check("walk+parse+hash", &tally)
            })
            .variant_with_lap("open+walk+parse+hash", move |lap| {
                let tally = lap
                    .time(|| walk_parse_hash(&mut self.source()?, &self.hasher).map_err(|e| e.to_string()));
                self.check("open+walk+parse+hash", &tally?)
            })
            .variant_with_lap("copy-64KiB", move |lap| {
                let bytes = mapped.bytes();
                lap.time(|| walk::copy(bytes, u64::from(self.passes), &mut buffer));
                Ok(())
            }))
    }

    /// Adds the engine in its modes.
    fn engines<'b>(&'b self, rounds: Rounds<'b, Answer>) -> Result<Rounds<'b, Answer>, String> {
        let rounds = self.engine(rounds, "inline-tcp-tracker", Layout::Inline, || TcpTracker)?;
        let mut rounds = self.engine(rounds, "inline-null", Layout::Inline, || Null)?;
        let cpus = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        for workers in [1, 2, 4].into_iter().filter(|workers| *workers == 1 || *workers < cpus) {
            let name = format!("pipeline-{workers}");
            rounds = self.engine(rounds, &name, Layout::Pipeline { workers }, || TcpTracker)?;
        }
        Ok(rounds)
    }

    fn engine<'b, A: App + 'b>(
        &'b self,
        rounds: Rounds<'b, Answer>,
        name: &str,
        mode: Layout,
        app: fn() -> A,
    ) -> Result<Rounds<'b, Answer>, String> {
        let mut source = self.source()?;
        let variant = name.to_owned();
        Ok(rounds.variant_with_lap(name, move |lap| {
            let ran = self.sizing.run(&mut source, mode, app);
            // A lap without a time would conceal the error.
            lap.add(ran.as_ref().map_or_else(|_| Elapsed::default(), |ran| ran.elapsed));
            self.answers.check(&variant, &ran?.facts())
        }))
    }

    #[cfg(feature = "libpcap")]
    fn libpcap<'b>(&'b self, rounds: Rounds<'b, Answer>, _missing: &mut [String]) -> Rounds<'b, Answer> {
        rounds.variant_with_lap("libpcap", move |lap| {
            let read = || crate::libpcap::read_parse_hash(self.path, self.passes, &self.hasher);
            let tally = lap.time(read)?;
            self.check("libpcap", &tally)
        })
    }

    #[cfg(not(feature = "libpcap"))]
    #[expect(clippy::unused_self, reason = "with the feature it is used")]
    fn libpcap<'b>(&'b self, rounds: Rounds<'b, Answer>, missing: &mut Vec<String>) -> Rounds<'b, Answer> {
        missing.push(String::from("libpcap: built without the feature of that name"));
        rounds
    }
}

fn result(work: &str, item: &str, items: u64, samples: &Samples, goal: Option<f64>) -> JudgedResult {
    let mut row = ResultRow::new(work, items, items, samples);
    row.unit = format!("ns/{item}");
    JudgedResult::new(row, goal)
}

fn ring_results(work: &str, sides: &[ring::Sides]) -> [JudgedResult; 2] {
    let side = |name: &str, times: Vec<u64>| {
        let samples = Samples { name: name.to_owned(), wall_ns: times.clone(), cpu_ns: times };
        result(work, "packet", RING_ITEMS, &samples, Some(RING_GOAL_NS))
    };
    [
        side("producer", sides.iter().map(|sides| sides.producer_ns).collect()),
        side("consumer", sides.iter().map(|sides| sides.consumer_ns).collect()),
    ]
}

fn ratio(ours: &Samples, rival: &Samples, items: u64, clock: Clock, goal: Option<f64>) -> JudgedRow {
    let (ours_ns, rival_ns) = match clock {
        Clock::Cpu => (&ours.cpu_ns, &rival.cpu_ns),
        Clock::Wall => (&ours.wall_ns, &rival.wall_ns),
    };
    let row = RatioRow::of_times(&ours.name, items, &rival.name, rival_ns, ours_ns)
        .with_items(items, rival_ns, ours_ns);
    JudgedRow::new(row, clock, goal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_on_a_small_capture_has_its_rows() {
        let capture = CaptureFile::generate(100_000, 1000).unwrap();
        let outcome = run(&capture, 1).unwrap();
        assert_eq!((outcome.passes, outcome.flows), (8, 8000));
        let rows: Vec<&str> = outcome.ratios.iter().map(|judged| judged.row.work.as_str()).collect();
        for work in ["walk", "walk+parse+hash", "inline-null", "inline-tcp-tracker", "pipeline-1"] {
            assert!(rows.contains(&work), "{work} in {rows:?}");
        }
    }
}
