//! The oracle of `--verify`: one thread, the standard library's map, packet after packet.
//!
//! It shares only the readers and the decoder with the engine, which have other oracles. It shares
//! no code with the engine that it checks: hash, table, placement, rings, workers, ageing.

use std::collections::{HashMap, HashSet};

use flowloom::apps::EndedFlow;
use flowloom::engine::time::tick_of;
use flowloom::engine::{App, Control, FlowState, FlowTimeouts, IdleTimeout};
use flowloom::flow_key::FlowKey;
use flowloom::packet::clock::PacketClock;
use flowloom::packet::{DecodeOptions, Fill, PacketBatch, PacketSource, PacketView, SourceError, decode};
use flowloom::record::{Column, Value};

use crate::render::counted;

/// The run that the oracle repeats.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeat {
    /// Packets that the source yielded to the run, without those withheld.
    pub(crate) packets: u64,
    /// As in the run.
    pub(crate) decode: DecodeOptions,
    /// As in the run.
    pub(crate) timeouts: FlowTimeouts,
}

/// The oracle's records of each key, in order.
pub(crate) type Records<F> = HashMap<FlowKey, Vec<F>>;

/// Returns the oracle's results; `None` if the run was stopped meanwhile.
pub(crate) fn oracle<A: App>(
    source: &mut dyn PacketSource,
    mut app: A,
    repeat: Repeat,
    control: &Control,
) -> Result<Option<Records<A::Flow>>, SourceError> {
    let mut open: HashMap<FlowKey, (u64, A::Flow)> = HashMap::new();
    let mut results = Records::new();
    let mut batch = PacketBatch::new();
    let mut left = repeat.packets;
    let mut clock = PacketClock::default();
    // An interrupted run is still compared as far as it went; only a further signal ends the
    // comparison.
    let stopped_before = control.is_stopped();
    while left > 0 {
        if control.is_stopped() && !stopped_before {
            return Ok(None);
        }
        match source.next_batch(&mut batch)? {
            Fill::Packets => {}
            Fill::Starved => continue,
            Fill::End => break,
        }
        let Some(block) = &batch.block else { continue };
        for raw in &batch.packets {
            if left == 0 {
                break;
            }
            left -= 1;
            let now = clock.tick(raw.time_ns);
            let bytes = raw.bytes_in(block.bytes());
            let Ok(mut headers) = decode(raw.link, bytes, repeat.decode) else { continue };
            let key = headers.key.with_pass(batch.pass);
            headers.key = key;
            headers.interface = raw.interface;
            let wire = headers.fit_to_wire(bytes, raw.wire_bytes);
            let view = PacketView::new(bytes, headers, now, wire)
                .with_stamp(raw.time_ns)
                .with_fragments(block.open().fragments);
            let Some((last_seen, flow)) = open.get_mut(&key) else {
                app.on_packet(&view, &mut open.entry(key).or_insert((now, A::Flow::default())).1);
                continue;
            };
            let is_idle = |timeout: IdleTimeout| timeout.is_over(tick_of(*last_seen), tick_of(now));
            let next = if repeat.timeouts.timeout(flow.is_closed()).is_some_and(is_idle) {
                Some(A::Flow::default())
            } else {
                app.next_record(&view, flow)
            };
            if let Some(next) = next {
                finish(&mut results, key, std::mem::replace(flow, next));
            }
            *last_seen = now;
            app.on_packet(&view, flow);
        }
    }
    for (key, (_, flow)) in open {
        finish(&mut results, key, flow);
    }
    Ok(Some(results))
}

fn finish<F>(results: &mut Records<F>, key: FlowKey, flow: F) {
    results.entry(key).or_default().push(flow);
}

/// Columns whose sums over the records of a flow do not depend on packet order. Columns in one list
/// are added together.
pub(crate) type Sums = &'static [&'static [&'static str]];

/// Compares what does not depend on the order of a flow's packets: the set of flows, and sums over
/// the records of each. The error names the first flow that differs, and how it differs.
pub(crate) fn compare_sums<F: FlowState>(
    records: &mut dyn Iterator<Item = &dyn EndedFlow>,
    oracle: &Records<F>,
    sums: Sums,
) -> Result<(), String> {
    let mut ours: HashMap<FlowKey, Vec<u64>> = HashMap::new();
    for record in records {
        let to = ours.entry(*record.key()).or_insert_with(|| vec![0; sums.len()]);
        add_sums(F::COLUMNS, our_values(record), sums, to);
    }
    let mut expected: Vec<_> = oracle.iter().collect();
    expected.sort_unstable_by_key(|&(key, _)| key);
    for (key, states) in expected {
        let Some(ours) = ours.remove(key) else { return Err(format!("flow {key} is missing")) };
        let mut theirs = vec![0; sums.len()];
        for state in states {
            add_sums(F::COLUMNS, values(state), sums, &mut theirs);
        }
        if let Some(at) = (0..sums.len()).find(|&at| ours[at] != theirs[at]) {
            let names = sums[at].join(" + ");
            return Err(format!("flow {key}: {names} is {}, the oracle has {}", ours[at], theirs[at]));
        }
    }
    ours.keys().min().map_or(Ok(()), |key| Err(format!("flow {key} is unknown to the oracle")))
}

/// Adds a record to the sums of a flow; the sum of sets, such as TCP flags, is their union.
fn add_sums(columns: &[Column], values: Vec<Value>, sums: Sums, to: &mut [u64]) {
    for (column, value) in columns.iter().zip(values) {
        for (sum, columns) in to.iter_mut().zip(sums) {
            match value {
                _ if !columns.contains(&column.name) => {}
                Value::Number(number) => *sum += number,
                Value::Bits(bits) => *sum |= bits,
                other => unreachable!("{} is {other:?}, which has no sum", column.name),
            }
        }
    }
}

/// Returns the number of records.
pub(crate) fn count<F>(oracle: &Records<F>) -> u64 {
    oracle.values().map(|records| records.len() as u64).sum()
}

/// Compares the engine's records with the oracle's. The error names the first flow that differs,
/// and how it differs.
pub(crate) fn compare<F: FlowState>(
    records: &mut dyn Iterator<Item = &dyn EndedFlow>,
    oracle: &Records<F>,
) -> Result<(), String> {
    let (mut before, mut count_of_ours) = ((None, 0), 0);
    let mut keys = HashSet::new();
    for record in records {
        let key = *record.key();
        keys.insert(key);
        count_of_ours += 1;
        // Records of one key follow each other.
        let place = if before.0 == Some(key) { before.1 + 1 } else { 0 };
        before = (Some(key), place);
        let Some(expected) = oracle.get(&key).and_then(|all| all.get(place)) else {
            return Err(format!("record {} of flow {key} is not the oracle's", place + 1));
        };
        let (ours, theirs) = (our_values(record), values(expected));
        if let Some(at) = (0..ours.len()).find(|&at| ours[at] != theirs[at]) {
            return Err(format!(
                "flow {key}: {} is {:?}, the oracle has {:?}",
                F::COLUMNS[at].name,
                ours[at],
                theirs[at]
            ));
        }
    }
    if count_of_ours == count(oracle) {
        return Ok(());
    }
    let missing = oracle.keys().filter(|key| !keys.contains(*key)).min();
    Err(missing.map_or_else(
        || format!("{}, the oracle has {}", counted(count_of_ours, "record"), count(oracle)),
        |key| format!("flow {key} is missing"),
    ))
}

fn our_values(record: &dyn EndedFlow) -> Vec<Value> {
    let mut values = Vec::new();
    record.state_values(&mut values);
    values
}

fn values<F: FlowState>(state: &F) -> Vec<Value> {
    let mut values = Vec::new();
    state.values(&mut values);
    values
}
