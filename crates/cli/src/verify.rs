//! The oracle behind `--verify`: one thread, the standard library's map, packet after packet.
//!
//! It shares the readers and the decoder with the engine (their oracles are elsewhere) and nothing of what it checks:
//! hash, table, placement, rings, workers, ageing, the merging of results.

use std::collections::HashMap;

use flowloom::engine::time::tick_of;
use flowloom::engine::{App, Control, FlowResults, FlowState, FlowValue, IdleTimeout};
use flowloom::flow_key::FlowKey;
use flowloom::packet::{DecodeOptions, Fill, PacketBatch, PacketSource, PacketView, SourceError, decode};

/// What the oracle is to repeat.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeat {
    /// Packets that the source yielded to the run: all that it took but those withheld.
    pub(crate) packets: u64,
    /// As in the run.
    pub(crate) decode: DecodeOptions,
    /// As in the run.
    pub(crate) idle_timeout: Option<IdleTimeout>,
}

/// Returns the oracle's results, a record per distinct key; `None` when the run was stopped meanwhile.
pub(crate) fn oracle<A: App>(
    source: &mut dyn PacketSource,
    mut app: A,
    repeat: Repeat,
    control: &Control,
) -> Result<Option<HashMap<FlowKey, A::Flow>>, SourceError> {
    let mut open: HashMap<FlowKey, (u64, A::Flow)> = HashMap::new();
    let mut results: HashMap<FlowKey, A::Flow> = HashMap::new();
    let mut batch = PacketBatch::new();
    let mut left = repeat.packets;
    let mut now = 0;
    // A run that was interrupted is still compared, as far as it went; only a further signal ends the comparison.
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
            now = raw.time_ns.max(now);
            let start = raw.position as usize;
            let bytes = &block.bytes()[start..start + raw.captured as usize];
            let Ok(headers) = decode(raw.link, bytes, repeat.decode) else { continue };
            let key = headers.key.with_pass(batch.pass);
            let (last_seen, flow) = open.entry(key).or_insert_with(|| (now, A::Flow::default()));
            if repeat.idle_timeout.is_some_and(|timeout| timeout.is_over(tick_of(*last_seen), tick_of(now)))
            {
                finish(&mut results, key, std::mem::take(flow));
            }
            *last_seen = now;
            let view = PacketView { bytes, headers, time_ns: now, wire_bytes: raw.wire };
            app.on_packet(&view, flow);
        }
    }
    for (key, (_, flow)) in open {
        finish(&mut results, key, flow);
    }
    Ok(Some(results))
}

fn finish<F: FlowState>(results: &mut HashMap<FlowKey, F>, key: FlowKey, flow: F) {
    match results.entry(key) {
        std::collections::hash_map::Entry::Occupied(mut earlier) => earlier.get_mut().merge(flow),
        std::collections::hash_map::Entry::Vacant(place) => {
            place.insert(flow);
        }
    }
}

/// Compares the engine's records with the oracle's. The error names the first flow that differs, and how.
pub(crate) fn compare<F: FlowState>(
    records: &FlowResults<F>,
    oracle: &HashMap<FlowKey, F>,
) -> Result<(), String> {
    for record in records.iter() {
        let Some(expected) = oracle.get(&record.key) else {
            return Err(format!("flow {} is not the oracle's", record.key));
        };
        let (ours, theirs) = (values(&record.state), values(expected));
        if let Some(at) = (0..ours.len()).find(|&at| ours[at] != theirs[at]) {
            return Err(format!(
                "flow {}: {} is {:?}, the oracle has {:?}",
                record.key,
                F::COLUMNS[at],
                ours[at],
                theirs[at]
            ));
        }
    }
    if records.len() == oracle.len() {
        return Ok(());
    }
    let ours: std::collections::HashSet<_> = records.iter().map(|record| record.key).collect();
    let missing = oracle.keys().filter(|key| !ours.contains(*key)).min();
    Err(missing.map_or_else(
        || format!("{} records for {} flows", records.len(), oracle.len()),
        |key| format!("flow {key} is missing"),
    ))
}

fn values<F: FlowState>(state: &F) -> Vec<FlowValue> {
    let mut values = Vec::new();
    state.values(&mut values);
    values
}
