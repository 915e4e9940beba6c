//! Payload that the L7 filter scans in captures: the first data of each direction in sequence, and
//! the first datagrams.

use std::collections::HashMap;
use std::path::PathBuf;

use anyhow::Result;
use flowloom::dpi::Transport;
use flowloom::dpi::stream::{Piece, Segment, Sequencer, Window};
use flowloom::flow_key::FlowKey;
use flowloom::packet::{DecodeOptions, Fill, Headers, PacketBatch, PacketSource as _, PacketView, decode};
use flowloom::traffic::capture::{CaptureSet, Input, SetOptions};

/// Maximum number of data packets per flow that are scanned.
const PACKETS_MAX: u32 = 8;
const SYN: u16 = 2;

/// Payload in one allocation; the data of one buffer is contiguous.
#[derive(Debug, Default)]
pub struct Payloads {
    /// All bytes.
    pub bytes: Vec<u8>,
    /// Ranges of the directions of TCP connections.
    pub streams: Vec<[u64; 2]>,
    /// Ranges of their pieces, in order of arrival.
    pub pieces: Vec<[u64; 2]>,
    /// The first piece of each stream, and the end of the last.
    pub first: Vec<u64>,
    /// Ranges of the datagrams.
    pub datagrams: Vec<[u64; 2]>,
}

impl Payloads {
    /// Returns the total length of a list of ranges in bytes.
    #[must_use]
    pub fn total(bounds: &[[u64; 2]]) -> u64 {
        bounds.iter().map(|[from, to]| to - from).sum()
    }

    fn append(&mut self, bytes: &[u8]) -> [u64; 2] {
        let from = self.bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        [from, self.bytes.len() as u64]
    }
}

/// Calls `each` with every packet of the captures that has a flow key, and with its number in its
/// file, starting at 1.
///
/// # Errors
///
/// Returns an error if a capture cannot be read.
pub fn for_each_packet(
    paths: &[PathBuf],
    decap: bool,
    mut each: impl FnMut(u64, Option<PacketView<'_>>),
) -> Result<()> {
    let inputs: Vec<Input> = paths.iter().map(|path| Input::from_argument(path)).collect();
    let mut source = CaptureSet::open(&inputs, SetOptions::default())?;
    let mut batch = PacketBatch::new();
    let mut number = 0;
    loop {
        match source.next_batch(&mut batch) {
            Ok(Fill::Packets) => {}
            Ok(Fill::Starved) => continue,
            Ok(Fill::End) => return Ok(()),
            // A truncated capture has been read up to that point.
            Err(_) if number > 0 => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let Some(block) = &batch.block else { continue };
        for raw in &batch.packets {
            number += 1;
            let bytes = slice(block.bytes(), [raw.position, raw.position + u64::from(raw.captured_bytes)]);
            let view = decode(raw.link, bytes, DecodeOptions::new().with_decap(decap))
                .ok()
                .map(|headers| PacketView::new(bytes, headers, raw.time_ns, raw.wire_bytes));
            each(number, view);
        }
    }
}

/// Returns the bytes within a range.
///
/// # Panics
///
/// Panics if the range is outside `bytes`.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "bounds of bytes in memory")]
pub fn slice(bytes: &[u8], bounds: [u64; 2]) -> &[u8] {
    &bytes[bounds[0] as usize..bounds[1] as usize]
}

#[derive(Default)]
struct Side {
    order: Sequencer,
    window: Option<Window>,
    pieces: Vec<Vec<u8>>,
    over: bool,
}

#[derive(Default)]
struct Flow {
    packets: u32,
    sides: [Side; 2],
}

/// Collects the payload that the filter would scan.
///
/// # Errors
///
/// Returns an error if a capture cannot be read.
pub fn collect(paths: &[PathBuf]) -> Result<Payloads> {
    let mut flows: HashMap<FlowKey, Flow> = HashMap::new();
    let mut payloads = Payloads::default();
    for_each_packet(paths, true, |_, view| {
        let Some(view) = view else { return };
        let Some(transport) = Transport::of_ip_protocol(view.headers.key.protocol()) else { return };
        if view.headers.later_fragment {
            return;
        }
        let flow = flows.entry(view.headers.key).or_default();
        let payload = view.payload();
        if flow.packets >= PACKETS_MAX {
            return;
        }
        flow.packets += u32::from(!payload.is_empty());
        match transport {
            Transport::Udp if !payload.is_empty() => {
                let bounds = payloads.append(payload);
                payloads.datagrams.push(bounds);
            }
            Transport::Udp => {}
            Transport::Tcp => push(&mut flow.sides[view.headers.direction.index()], &view, &view.headers),
        }
    })?;
    let mut ordered: Vec<(FlowKey, Flow)> = flows.into_iter().collect();
    ordered.sort_by_key(|(key, _)| *key);
    for side in ordered.iter().flat_map(|(_, flow)| &flow.sides).filter(|side| !side.pieces.is_empty()) {
        payloads.first.push(payloads.pieces.len() as u64);
        let begin = payloads.bytes.len() as u64;
        for piece in &side.pieces {
            let bounds = payloads.append(piece);
            payloads.pieces.push(bounds);
        }
        payloads.streams.push([begin, payloads.bytes.len() as u64]);
    }
    payloads.first.push(payloads.pieces.len() as u64);
    Ok(payloads)
}

fn push(side: &mut Side, view: &PacketView<'_>, headers: &Headers) {
    let at = headers.transport_offset as usize + 4;
    let Some(sequence) = view.bytes.get(at..).and_then(|bytes| bytes.first_chunk()) else { return };
    let segment = Segment {
        sequence: u32::from_be_bytes(*sequence),
        syn: headers.tcp_flags & SYN != 0,
        payload: view.payload(),
    };
    let window = side.window.get_or_insert_with(|| Window::new(16 << 10));
    let (pieces, over) = (&mut side.pieces, &mut side.over);
    side.order.push(segment, Some(window), |piece| match piece {
        Piece::Data(bytes) if !*over => pieces.push(bytes.to_vec()),
        Piece::Data(_) => {}
        Piece::Gap(_) => *over = true,
    });
}
