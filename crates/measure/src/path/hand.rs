//! A special-purpose version of the path of inline mode: no stages, no counters by reason, no
//! report.

use flowloom_engine::App;
use flowloom_flow_key::{FlowHasher, FlowKey};
use flowloom_flow_table::{FlowTable, Tick, TimeoutClass};
use flowloom_packet::{
    BATCH_PACKETS, Fill, Headers, PacketBatch, PacketSource, PacketView, RawPacket, SourceError,
};

use super::walk::headers_of;

/// The results of the loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Handled {
    /// Packets.
    pub packets: u64,
    /// Packets with a flow key.
    pub decoded: u64,
    /// Flows.
    pub flows: u64,
}

/// Reads and decodes packets, hashes and looks up their flows in batches, inserts new flows, and
/// runs `app` on them.
///
/// # Errors
///
/// Returns the errors of the source, and an error if the table rejects a flow.
pub fn hand_loop<A: App, T: FlowTable<FlowKey, A::Flow>>(
    source: &mut impl PacketSource,
    hasher: &FlowHasher,
    table: &mut T,
    app: &mut A,
) -> Result<Handled, SourceError> {
    let mut handled = Handled::default();
    let mut batch = PacketBatch::new();
    let mut keys = Vec::with_capacity(BATCH_PACKETS);
    let mut hashes = Vec::with_capacity(BATCH_PACKETS);
    let mut found: Vec<(Headers, RawPacket)> = Vec::with_capacity(BATCH_PACKETS);
    let mut ids = [None; BATCH_PACKETS];
    while source.next_batch(&mut batch)? == Fill::Packets {
        let Some(block) = &batch.block else { continue };
        let block = block.bytes();
        let mut ahead = batch.lookahead();
        keys.clear();
        hashes.clear();
        found.clear();
        for raw in &batch.packets {
            ahead.request(block);
            if let Some(headers) = headers_of(raw.link, raw.bytes_in(block), batch.pass) {
                let hash = hasher.hash(&headers.key).table;
                table.prefetch(hash);
                keys.push(headers.key);
                hashes.push(hash);
                found.push((headers, *raw));
            }
        }
        table.lookup_batch_prefetched(&keys, &hashes, &mut ids[..keys.len()], |_, _| {});
        for (i, (headers, raw)) in found.iter().enumerate() {
            // Approximately milliseconds, which is the resolution of the engine.
            let now = Tick(raw.time_ns >> 20);
            let id = if let Some(id) = ids[i] {
                id
            } else {
                let entry = table
                    .entry_with(keys[i], hashes[i], TimeoutClass(0), now, Default::default)
                    .map_err(|error| SourceError(error.to_string().into()))?;
                handled.flows += u64::from(entry.is_new);
                entry.id
            };
            let view = PacketView::new(raw.bytes_in(block), *headers, raw.time_ns, raw.wire_bytes);
            if let Some((state, _)) = table.get_mut_touch(id, now) {
                app.on_packet(&view, state);
            }
        }
        handled.packets += batch.packets.len() as u64;
        handled.decoded += keys.len() as u64;
    }
    Ok(handled)
}

#[cfg(test)]
mod tests {
    use flowloom_apps::{TcpFlow, TcpTracker};
    use flowloom_flow_table::{LineHash, TableOptions};

    use super::super::input::CaptureFile;
    use super::super::looped::Looped;
    use super::super::walk::walk_parse_hash;
    use super::*;

    #[test]
    fn handwritten_loop_finds_every_packet_and_flow() {
        let capture = CaptureFile::generate(2000, 100).unwrap();
        let mut source = Looped::open(capture.path(), 4000).unwrap();
        let mut table = LineHash::<FlowKey, TcpFlow>::try_new(&TableOptions::for_flows(500)).unwrap();
        let hasher = FlowHasher::with_seed(1);
        let handled = hand_loop(&mut source, &hasher, &mut table, &mut TcpTracker).unwrap();
        source.rewind();
        let walked = walk_parse_hash(&mut source, &hasher).unwrap();
        assert_eq!(handled, Handled { packets: 4000, decoded: walked.decoded, flows: 200 });
    }
}
