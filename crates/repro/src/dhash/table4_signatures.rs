//! False matches of the four signature algorithms, and their rates [DHASH §VI-C, Tab. IV].
//!
//! The rates are for [virtual cores](super::virtual_cores), based on timed lookups with a major
//! location, as in the paper.

use flowloom::flow_key::TableHash;
use std::hint::black_box;

use flowloom::flow_key::hash::crc32c::crc32c;
use flowloom::flow_key::hash::fold::split_mix;
use flowloom::flow_table::TableOptions;
use flowloom::flow_table::dhash::ReferenceDHash;
use flowloom::flow_table::dhash::major_location::{FirstSlot, Folded};
use flowloom::flow_table::dhash::reference::{ListSearch, Searched, Skipped};
use flowloom::flow_table::dhash::signature::{
    Algorithm1, Algorithm2, Algorithm3, Algorithm4, Session, Signature,
};
use flowloom::flow_table::probe::Counts;
use flowloom::flow_table::{FlowTable, Tick, TimeoutClass};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::State;
use super::virtual_cores::{MOST_CORES, TIMED, mpps, pipeline_ns};
use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::timing::{Timed, nanoseconds};
use crate::variation::Switch;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "dhash/table4_signatures",
    place: "§VI-C, Tab. IV",
    claim: "false matches in 0.18, 0.10, 0.33 and 0 % of lookups for algorithms 1 to 4, as qualitative results; \
            15.9, 16.1, 15.2 and 16.3 million packets per second of six pipelines",
    numbers: "Tab. IV as printed",
    fidelity: &[Fidelity::Simulated, Fidelity::Measured, Fidelity::Arithmetic],
    switches: &[LISTS, HALVES],
    run,
    ..Item::PLAIN
};

const LISTS: Switch = Switch::fault("lists", "lookups never search conflict lists");
const HALVES: Switch = Switch::fault("halves", "algorithm 4 takes the low half of each checksum");

const PAPER: [f64; 4] = [0.18, 0.10, 0.33, 0.0];
/// False matches on few hosts: by chance, two signatures of 32 bits are alike in fewer than one of
/// ten thousand lookups, and algorithm 3 confuses sessions of the same two hosts.
const FALSE_MATCHES: [Band; 4] = [
    Band { low: 0.0, high: 0.01 },
    Band { low: 0.0, high: 0.01 },
    Band { low: 0.1, high: 0.6 },
    Band { low: 0.0, high: 0.0 },
];
const BY_CHANCE: &str = "signatures of 32 bits meet by chance only where other bits choose the bucket";
const PAPER_MPPS: [f64; 4] = [15.9, 16.1, 15.2, 16.3];

/// Returns sessions with the hash that selects their bucket, which is the same for both directions
/// and independent of any signature.
#[expect(clippy::cast_possible_truncation, reason = "any bits of a random word will do")]
fn sessions(count: u32, seed: u64, few_hosts: bool) -> Vec<(Session, TableHash)> {
    let mut state = seed;
    let mut sessions = Vec::with_capacity(count as usize);
    let mut seen = std::collections::HashSet::new();
    while sessions.len() < count as usize {
        let (a, b) = (split_mix(&mut state), split_mix(&mut state));
        let session = if few_hosts {
            // A hundred clients of twenty servers with random addresses.
            let host = |number: u64| split_mix(&mut (seed ^ number)) as u32;
            Session {
                source: host(a % 100),
                destination: host(1000 + a / 100 % 20),
                source_port: 1024 + (b % 64_000) as u16,
                destination_port: [80, 443, 22, 25, 53][(b >> 32) as usize % 5],
            }
        } else {
            Session {
                source: a as u32,
                destination: (a >> 32) as u32,
                source_port: b as u16,
                destination_port: (b >> 16) as u16,
            }
        };
        let tuple = (session.source, session.destination, session.source_port, session.destination_port);
        if seen.insert(tuple) {
            sessions.push((session, TableHash::from_mixed(split_mix(&mut state))));
        }
    }
    sessions
}

/// Algorithm 4 with an error that keeps its symmetry: it takes the other halves.
#[derive(Clone, Copy, Default)]
struct LowHalves;

impl Signature<Session> for LowHalves {
    fn is_swapped_by_direction(self) -> bool {
        true
    }

    fn raw(self, key: &Session, _hash: TableHash) -> u32 {
        let signature = |session: &Session| crc32c(&octets(session));
        signature(key) << 16 | signature(&key.reversed()) & 0xFFFF
    }
}

fn octets(session: &Session) -> Vec<u8> {
    let addresses = [session.source, session.destination].map(u32::to_be_bytes).concat();
    let ports = [session.source_port, session.destination_port].map(u16::to_be_bytes).concat();
    [addresses, ports].concat()
}

/// Returns algorithm 4's signature by the paper's formula, with its checksum computed bit by bit.
fn by_formula(session: &Session) -> u32 {
    let checksum = |bytes: Vec<u8>| {
        !bytes.into_iter().fold(u32::MAX, |crc, byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0x82F6_3B78 * (crc & 1)))
        })
    };
    (checksum(octets(session)) & 0xFFFF_0000) | (checksum(octets(&session.reversed())) >> 16)
}

/// Returns the percentage of sessions whose signature equals that of the formula.
fn as_published<S: Signature<Session> + Default>(sessions: &[(Session, TableHash)]) -> f64 {
    let few = &sessions[..sessions.len().min(1000)];
    let right = few
        .iter()
        .filter(|(session, hash)| S::default().raw(session, *hash) == by_formula(session))
        .count();
    right as f64 * 100.0 / few.len().max(1) as f64
}

/// False matches in percent of lookups, from both directions; the number of different signatures;
/// lookups that find their session, in percent.
type Measured = (f64, usize, f64);

fn measure<S: Signature<Session> + Default, L: ListSearch>(
    sessions: &[(Session, TableHash)],
) -> Result<Measured, ItemError> {
    let count = u32::try_from(sessions.len()).unwrap_or(u32::MAX);
    let config = TableOptions { list_cap: Some(64), ..TableOptions::for_flows(count) };
    let mut table = ReferenceDHash::<Session, (), S, FirstSlot, L>::try_new(&config)
        .map_err(ItemError::during("building the reference table"))?;
    for &(session, hash) in sessions {
        table
            .insert(session, hash, (), TimeoutClass(0), Tick(0))
            .map_err(ItemError::during("filling the reference table"))?;
    }
    let mut counts = Counts::default();
    for &(session, hash) in sessions {
        table.find_counting(&session, hash, &mut counts);
        table.find_counting(&session.reversed(), hash, &mut counts);
    }
    let mut signatures: Vec<u32> =
        sessions.iter().map(|(session, hash)| S::default().raw(session, *hash)).collect();
    signatures.sort_unstable();
    signatures.dedup();
    let lookups = (counts.hits + counts.misses) as f64;
    let percent = |count: u64| count as f64 * 100.0 / lookups;
    Ok((percent(counts.false_matches), signatures.len(), percent(counts.hits)))
}

fn measure_all<A4: Signature<Session> + Default, L: ListSearch>(
    sessions: &[(Session, TableHash)],
) -> Result<[Measured; 4], ItemError> {
    Ok([
        measure::<Algorithm1, L>(sessions)?,
        measure::<Algorithm2, L>(sessions)?,
        measure::<Algorithm3, L>(sessions)?,
        measure::<A4, L>(sessions)?,
    ])
}

/// Returns the nanoseconds per lookup with each algorithm, from both directions, including the
/// state.
fn lookup_ns(context: &Context<'_>, sessions: &[(Session, TableHash)]) -> Result<Vec<f64>, ItemError> {
    let (first, second) = (filled::<Algorithm1>(sessions)?, filled::<Algorithm2>(sessions)?);
    context.check_stop()?;
    let (third, fourth) = (filled::<Algorithm3>(sessions)?, filled::<Algorithm4>(sessions)?);
    context.check_stop()?;
    let lookups = 2 * sessions.len() as u64;
    nanoseconds(
        context,
        context.scale.pick(3, 5, 9),
        vec![
            Timed::new("algorithm 1", lookups, || {
                black_box(look_up(&first, sessions));
            }),
            Timed::new("algorithm 2", lookups, || {
                black_box(look_up(&second, sessions));
            }),
            Timed::new("algorithm 3", lookups, || {
                black_box(look_up(&third, sessions));
            }),
            Timed::new("algorithm 4", lookups, || {
                black_box(look_up(&fourth, sessions));
            }),
        ],
    )
}

fn filled<S: Signature<Session> + Default>(
    sessions: &[(Session, TableHash)],
) -> Result<ReferenceDHash<Session, State, S, Folded>, ItemError> {
    let count = u32::try_from(sessions.len()).unwrap_or(u32::MAX);
    let config = TableOptions { list_cap: Some(64), ..TableOptions::for_flows(count) };
    let mut table =
        ReferenceDHash::try_new(&config).map_err(ItemError::during("building the reference table"))?;
    for &(session, hash) in sessions {
        table
            .insert(session, hash, [hash.bits(); 4], TimeoutClass(0), Tick(0))
            .map_err(ItemError::during("filling the reference table"))?;
    }
    Ok(table)
}

fn look_up(table: &impl FlowTable<Session, State>, sessions: &[(Session, TableHash)]) -> u64 {
    let state = |session: &Session, hash| {
        table.lookup(session, hash).and_then(|id| table.get(id)).map_or(0, |state| state[0])
    };
    sessions.iter().fold(0, |sum: u64, (session, hash)| {
        sum.wrapping_add(state(session, *hash)).wrapping_add(state(&session.reversed(), *hash))
    })
}

/// Returns the cost of a false match of algorithm 3 that would explain the paper's rates of
/// algorithms 3 and 4.
fn paper_false_match_ns() -> f64 {
    (pipeline_ns(PAPER_MPPS[2]) - pipeline_ns(PAPER_MPPS[3])) / (PAPER[2] / 100.0)
}

/// Returns the number of dimensions over which algorithm 3 spreads the xor of two addresses; with
/// 32, no information would be lost.
fn rank_of_algorithm_3() -> u32 {
    let image = |bit: u32| {
        let session = Session { source: 1 << bit, destination: 0, source_port: 0, destination_port: 0 };
        let zero = Session { source: 0, destination: 0, source_port: 0, destination_port: 0 };
        Algorithm3.raw(&session, TableHash::default()) ^ Algorithm3.raw(&zero, TableHash::default())
    };
    let mut rows: Vec<u32> = Vec::new();
    for bit in 0..32 {
        let reduced = rows.iter().fold(image(bit), |vector, &row| vector.min(vector ^ row));
        if reduced != 0 {
            rows.push(reduced);
            rows.sort_unstable_by_key(|&row| std::cmp::Reverse(row));
        }
    }
    u32::try_from(rows.len()).unwrap_or(0)
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let count = context.scale.pick(20_000, 200_000, 1_000_000);
    let all = match (context.is_off(&HALVES), context.is_off(&LISTS)) {
        (true, _) => measure_all::<LowHalves, Searched>,
        (false, true) => measure_all::<Algorithm4, Skipped>,
        (false, false) => measure_all::<Algorithm4, Searched>,
    };
    let as_published =
        if context.is_off(&HALVES) { as_published::<LowHalves> } else { as_published::<Algorithm4> };
    let few_sessions = sessions(count, context.seed, true);
    let (few, right) = (all(&few_sessions)?, as_published(&few_sessions));
    context.check_stop()?;
    let many = all(&sessions(count, context.seed, false))?;
    let found_least = few.iter().chain(&many).map(|measured| measured.2).fold(100.0, f64::min);
    context.check_stop()?;
    let times = lookup_ns(context, &few_sessions)?;
    let rates: Vec<f64> = times.iter().map(|&ns| mpps(ns, MOST_CORES)).collect();
    let names = ["algorithm 1", "algorithm 2", "algorithm 3", "algorithm 4"];
    let worst_is_3 = few[2].0 > few[0].0.max(few[1].0).max(few[3].0);
    let found = "at the ends of the order: algorithm 3 is worst, 4 has none. Between them the paper has 0.18 and 0.10 % for 1 and 2, which need a \
                 bucket that is chosen by the same bits as the signature; with an independent one they are all but zero, as that of 4";
    let is_right = right > 99.99 && found_least > 99.99;
    let verdict = match (
        is_right && worst_is_3 && few[3].0 == 0.0,
        rates[3] > rates[0].max(rates[1]).max(rates[2]),
    ) {
        (true, true) => Agreement::agrees(found),
        (true, false) => Agreement::differs(format!(
            "false matches agree {found}. But its rates do not come of them: for algorithm 3 to lose 1.1 million packets per second by one lookup in \
             300, a false match would have to cost 8 µs. Ours go by what a signature costs, and algorithm 4 makes two CRCs and \
             searches twice from the other direction"
        )),
        (false, _) => Agreement::differs(
            "the order of the algorithms differs, or lookups miss, or algorithm 4 is not the formula's",
        ),
    };
    let mut outcome = Outcome::new(verdict);
    for (index, name) in names.into_iter().enumerate() {
        let few_hosts = Value::new(format!("{name}: few hosts"), "%", few[index].0)
            .paper(PAPER[index])
            .within(FALSE_MATCHES[index]);
        outcome = outcome
            .value(few_hosts.apart(BY_CHANCE))
            .value(Value::new(format!("{name}: any hosts"), "%", many[index].0).band(0.0, 0.01))
            .value(
                Value::new(format!("{name}: seven cores, virtual"), "Mpps", rates[index])
                    .paper(PAPER_MPPS[index])
                    .not_comparable(TIMED)
                    .timed(),
            )
            .value(Value::new(format!("{name}: different signatures, few hosts"), "", few[index].1 as f64));
    }
    Ok(outcome
        .value(Value::new("algorithm 4, false matches", "%", few[3].0 + many[3].0).paper(0.0).band(0.0, 0.0))
        .value(Value::new("lookups that find their session, the least of all", "%", found_least).band(100.0, 100.0))
        .value(Value::new("signatures of algorithm 4 as its formula has them", "%", right).band(100.0, 100.0))
        .value(Value::new("cost of a false match for the paper's rates of 3 and 4", "ns", paper_false_match_ns()).band(8_000.0, 8_200.0))
        .value(Value::new("rank of algorithm 3 over the addresses", "", f64::from(rank_of_algorithm_3())).band(31.0, 31.0))
        .value(Value::new("signatures of algorithm 3: host pairs", "", few[2].1 as f64).band(1000.0, 2000.0))
        .chart(
            Chart::bars("False matches", names, Axis::linear("% of lookups"))
                .with(Series::bars("paper", PAPER))
                .with(Series::bars("few hosts", few.map(|measured| measured.0)))
                .with(Series::bars("any hosts", many.map(|measured| measured.0))),
        )
        .chart(
            Chart::bars("Six pipelines, in virtual time", names, Axis::linear("Mpps"))
                .with(Series::bars("paper", PAPER_MPPS))
                .with(Series::bars("few hosts", rates)),
        )
        .note("Rates: lookups timed here, one by one and with function (2) for the major location, and the other stages' cycles from Table III at \
               3 GHz, as in Fig. 6. What they differ by is the time to make a signature, and a second search from the other direction in algorithm 4.")
        .note(format!("{count} sessions; few hosts are a hundred clients of twenty servers. In algorithm 3 the ports cancel, since a CRC is affine: all sessions of two hosts share a signature.")))
}
