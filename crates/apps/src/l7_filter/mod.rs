//! Identifies the protocol of a connection by the first bytes of its payload [HRWTREE §2.1, §3.1].
//!
//! A connection is `NO_MATCH_YET` until a pattern matches, and `MATCHED` from then on. It is
//! `NO_MATCH` when its first data packets (8, both directions together) match no pattern. Unlike
//! the paper's, the scan continues in the other direction after a match: [`Confidence`] tells
//! whether both agree, and an answer that contradicts the request changes the label. The label is
//! final once both directions match, or after the first data packets. Packets of a decided
//! connection are not scanned.
//!
//! Unlike the paper's scan, this one is incremental: a few bytes of automaton state per direction
//! represent the scanned bytes, so no byte is scanned twice. [`L7Options::rescan`] selects the
//! paper's scan, with the same results. Unlike the original, each direction of a TCP connection is
//! a separate text in the order of its sequence numbers, and each datagram is a text. Zero bytes
//! are skipped only for patterns in l7-filter's format.
//!
//! - Out-of-order data waits in a window until the missing data comes. If the first bytes never
//!   arrive, or were cut off in the capture, the direction stays unidentified, because a match in
//!   the middle would be a false positive.
//! - All workers share a fixed number of windows and buffers. When all are in use, the oldest one
//!   is reclaimed ([`L7Totals::reclaimed`]). As long as no connection returns to a window that it
//!   lost ([`L7Totals::lost`]), results depend neither on the workers nor on the mode.

mod flow;
mod label;
mod names;
mod plan;
mod pool;

use flowloom_dpi::stream::{Piece, Segment, Sequencer, Window};
use flowloom_dpi::{Match, MatchState, Origin, Outcome, Role, Transport};
use flowloom_engine::{App, Verdict};
use flowloom_packet::PacketView;

pub use flow::{L7Flow, L7State};
pub use label::Confidence;
pub use plan::{L7Error, L7Options, L7Plan, L7Totals};

use crate::accounting::direction::{DirectionBasis, Initiator};
use flow::DirectionScan;
use label::{Evidence, judge};
use plan::{Loans, Shared};
use std::sync::Arc;

const SYN: u16 = 2;

/// Identifies the protocol of each flow. Each worker gets its own from [`L7Plan::app`].
#[derive(Debug)]
pub struct L7Filter {
    shared: Arc<Shared>,
    totals: L7Totals,
}

impl App for L7Filter {
    type Flow = L7Flow;

    #[inline]
    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut L7Flow) -> Verdict {
        if flow.packets == 0 || packet.headers.tcp_flags & SYN != 0 {
            flow.initiator.improve(Initiator::of_packet(packet));
        }
        flow.packets += 1;
        flow.bytes += u64::from(packet.wire_bytes);
        if !flow.decided {
            self.look(packet, flow);
        }
        Verdict::Accept
    }
}

impl L7Filter {
    fn new(shared: Arc<Shared>) -> Self {
        Self { shared, totals: L7Totals::default() }
    }

    /// Processes one packet of an undecided flow.
    fn look(&mut self, packet: &PacketView<'_>, flow: &mut L7Flow) {
        let headers = &packet.headers;
        let Some(transport) = Transport::of_ip_protocol(headers.key.protocol()) else {
            // The patterns apply to TCP and UDP only.
            flow.decided = true;
            return;
        };
        if headers.later_fragment {
            return;
        }
        let payload = packet.payload();
        let syn = transport == Transport::Tcp && headers.tcp_flags & SYN != 0;
        if payload.is_empty() && !syn {
            return;
        }
        if flow.inspected == 0 {
            flow.asker = flow.initiator;
        }
        let client = flow.asker.source_direction();
        let side = &mut flow.sides[headers.direction.index()];
        if !side.found.is_some() {
            // Only a handshake identifies client and server: a capture may begin with an answer.
            let sender = (flow.asker.basis() >= DirectionBasis::SynAck)
                .then_some(if headers.direction == client { Role::Client } else { Role::Server });
            let tuple = headers.tuple();
            let origin = Origin::UNKNOWN.from(sender).between([tuple.source_port, tuple.destination_port]);
            let found = match transport {
                Transport::Udp => self.datagram(packet, origin, side),
                Transport::Tcp => {
                    let at = headers.transport_offset as usize + 4;
                    let Some(sequence) = packet.bytes.get(at..).and_then(|bytes| bytes.first_chunk())
                    else {
                        return;
                    };
                    let segment = Segment { sequence: u32::from_be_bytes(*sequence), syn, payload };
                    let missing = headers
                        .payload_bytes
                        .saturating_sub(u32::try_from(payload.len()).unwrap_or(u32::MAX));
                    self.segment(segment, missing, origin, side)
                }
            };
            if let Some(found) = found {
                side.found = Evidence::new(found);
                give_back(&self.shared, side);
            }
        }
        flow.inspected += u32::from(!payload.is_empty());
        let found = flow.sides.each_ref().map(|side| side.found.is_some());
        if found != [false; 2]
            && let Some((pattern, confidence)) =
                judge(&self.shared, headers.tuple(), client, flow.sides.each_ref().map(DirectionScan::seen))
        {
            flow.protocol = Some(self.shared.protocol(pattern).name);
            flow.confidence = confidence;
        }
        if found == [true; 2] || flow.inspected >= self.shared.options.packets_max {
            flow.decided = true;
            flow.sides.iter_mut().for_each(|side| give_back(&self.shared, side));
        }
    }

    fn datagram(
        &mut self,
        packet: &PacketView<'_>,
        origin: Origin,
        side: &mut DirectionScan,
    ) -> Option<Match> {
        let shared = &self.shared;
        let payload = packet.payload();
        let bytes = &payload[..payload.len().min(shared.options.bytes_max)];
        side.scan.count(bytes);
        self.totals.scanned_bytes += bytes.len() as u64;
        let wire_bytes = datagram_bytes(packet);
        match &shared.rescanner {
            Some(rescanner) => rescanner.first_from(origin, Transport::Udp, bytes, wire_bytes),
            None => shared.scanner.scan_datagram(bytes, wire_bytes, origin),
        }
    }

    /// Processes a segment whose last `missing` bytes were not captured.
    fn segment(
        &mut self,
        segment: Segment<'_>,
        missing: u32,
        origin: Origin,
        side: &mut DirectionScan,
    ) -> Option<Match> {
        let shared = &*self.shared;
        let bytes_max = shared.options.bytes_max;
        if side.over {
            return None;
        }
        // A flow may move between workers, so all workers lease from the same pools. Segments in
        // sequence need no window.
        let needs_window = side.window.is_some() || !side.order.is_next(&segment);
        let mut loans = (needs_window || shared.rescanner.is_some()).then(|| shared.loans());
        let (mut windows, mut buffers) = match &mut loans {
            Some(loans) => {
                let Loans { windows, buffers } = &mut **loans;
                (Some(windows), Some(buffers))
            }
            None => (None, None),
        };
        let mut window = None;
        if let (true, Some(windows)) = (needs_window, &mut windows) {
            if side.window.is_some() && !windows.has(side.window) {
                // The window was reclaimed with its data, so bytes in the middle are missing, and
                // the direction can no longer be identified.
                self.totals.lost += 1;
                side.end();
                return None;
            }
            let window_bytes = shared.options.window_bytes;
            window = windows.get(&mut side.window, || Window::new(window_bytes), Window::clear);
        }
        let budget = bytes_max.saturating_sub(side.scan.bytes() as usize);
        let mut taken = 0;
        let mut gap = false;
        let outcome = if let (Some(rescanner), Some(buffers)) = (&shared.rescanner, &mut buffers) {
            if side.buffer.is_some() && !buffers.has(side.buffer) {
                self.totals.lost += 1;
                side.end();
                return None;
            }
            let Some(buffer) = buffers.get(&mut side.buffer, Vec::new, Vec::clear) else {
                side.end();
                return None;
            };
            let scan = &mut side.scan;
            in_order(&mut side.order, segment, window, budget, &mut taken, &mut gap, |bytes| {
                buffer.extend_from_slice(bytes);
                scan.count(bytes);
            });
            let found = (taken > 0).then(|| {
                self.totals.scanned_bytes += buffer.len() as u64;
                rescanner.first_from(origin, Transport::Tcp, buffer, buffer.len() + missing as usize)
            });
            let found = found.flatten();
            found.map_or(Outcome::Open, Outcome::Matched)
        } else {
            let mut found = MatchState::default();
            let (scanner, scan, closed) = (&shared.scanner, &mut side.scan, side.closed);
            in_order(&mut side.order, segment, window, budget, &mut taken, &mut gap, |bytes| {
                if closed {
                    scan.count(bytes);
                } else {
                    scanner.feed(Transport::Tcp, scan, &mut found, bytes);
                }
            });
            if taken == 0 || closed {
                Outcome::Open
            } else {
                self.totals.scanned_bytes += taken as u64;
                scanner.outcome(Transport::Tcp, scan, found, origin, missing)
            }
        };
        if let Some(windows) = windows
            && windows.is_empty_now(side.window, |window| window.held() == 0)
        {
            windows.give_back(&mut side.window);
        }
        drop(loans);
        match outcome {
            Outcome::Matched(found) => return Some(found),
            Outcome::Closed => side.closed = true,
            Outcome::Open => {}
        }
        if gap || side.scan.bytes() as usize >= bytes_max {
            side.end();
            give_back(shared, side);
        }
        None
    }
}

/// Passes on the bytes that a segment puts in sequence: at most `budget` bytes, and none after a
/// gap.
fn in_order(
    order: &mut Sequencer,
    segment: Segment<'_>,
    window: Option<&mut Window>,
    budget: usize,
    taken: &mut usize,
    gap: &mut bool,
    mut to: impl FnMut(&[u8]),
) {
    order.push(segment, window, |piece| match piece {
        Piece::Data(bytes) if !*gap => {
            let bytes = &bytes[..bytes.len().min(budget - *taken)];
            *taken += bytes.len();
            if !bytes.is_empty() {
                to(bytes);
            }
        }
        Piece::Data(_) => {}
        Piece::Gap(_) => *gap = true,
    });
}

/// Returns the length of a datagram by its own header, because a fragment contains only a part;
/// without a usable header, the length of the packet's payload.
fn datagram_bytes(packet: &PacketView<'_>) -> usize {
    let headers = &packet.headers;
    let at = headers.transport_offset as usize + 4;
    let field = packet.bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    field
        .and_then(|&field| u16::from_be_bytes(field).checked_sub(8))
        .map_or(headers.payload_bytes as usize, usize::from)
}

/// Returns the leases of a direction to the pools.
fn give_back(shared: &Shared, side: &mut DirectionScan) {
    if side.window.is_some() || side.buffer.is_some() {
        let mut loans = shared.loans();
        loans.windows.give_back(&mut side.window);
        loans.buffers.give_back(&mut side.buffer);
    }
}

impl Drop for L7Filter {
    fn drop(&mut self) {
        self.shared.add(self.totals);
    }
}
