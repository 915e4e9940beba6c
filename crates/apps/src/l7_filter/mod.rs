//! What protocol a connection speaks, by the first bytes of its payload [HRWTREE §2.1, §3.1].
//!
//! A connection is `NO_MATCH_YET` until a pattern matches, `MATCHED` from then on, and `NO_MATCH` when its first data packets
//! (8, both directions together) have shown nothing; packets of a decided connection pass by.
//!
//! Unlike the paper's, the scan is incremental: a few bytes of automaton state a direction stand for what was seen, so
//! that no byte is looked at twice. [`L7Options::rescan`] is the paper's way, with the same results. Unlike the
//! original, each direction of a TCP connection is a text of its own, in the order of its sequence numbers, and each
//! datagram is one; bytes of zero are left out for patterns in l7-filter's form only.
//!
//! - Data out of turn waits in a window until what is missing comes. Where the first bytes never come, or were cut off in
//!   the capture, the direction stays unnamed: a guess from the middle would be a false alarm.
//! - Windows and buffers are a fixed number for all workers; when all are taken, the one that was taken first is taken back
//!   ([`L7Totals::taken_back`]). As long as no connection comes back to a window that it lost
//!   ([`L7Totals::lost`]), results depend on neither the workers nor the mode.

mod flow;
mod names;
mod plan;
mod pool;

use flowloom_dpi::stream::{Piece, Segment, Sequencer, Window};
use flowloom_dpi::{Found, Outcome, Transport};
use flowloom_engine::{App, Composed, FlowState, ReprocessedPackets, Verdict};
use flowloom_packet::PacketView;

pub use flow::{L7Flow, L7State};
pub use plan::{L7Error, L7Options, L7Plan, L7Totals};

use crate::accounting::direction::Initiator;
use flow::Side;
use names::Name;
use plan::{Loans, Shared};
use std::sync::Arc;

const SYN: u16 = 2;

/// Names the protocol of each flow. One for each worker, from [`L7Plan::app`].
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
        if flow.state == L7State::NoMatchYet {
            self.look(packet, flow);
        }
        Verdict::Accept
    }

    fn compose(&mut self, flow: &mut L7Flow, later: &mut L7Flow) -> Composed {
        let composed = flow.compose(later);
        if composed == Composed::Joined {
            // Of a scan that was decided earlier, or that `flow` goes on with: then there is nothing left to give back.
            later.sides.iter_mut().for_each(|side| give_back(&self.shared, side));
        }
        composed
    }

    /// Of a flow that is decided only packets and bytes are counted.
    fn complete(&mut self, flow: &mut L7Flow, first: &L7Flow, again: ReprocessedPackets) -> bool {
        let rest = first.packets.saturating_sub(again.packets);
        if flow.state == L7State::NoMatchYet && rest > 0 {
            return false;
        }
        flow.packets += rest;
        flow.initiator.improve(first.initiator);
        flow.bytes += first.bytes.saturating_sub(again.bytes);
        true
    }

    fn retract(&mut self) {
        self.totals = L7Totals::default();
    }
}

impl L7Filter {
    fn new(shared: Arc<Shared>) -> Self {
        Self { shared, totals: L7Totals::default() }
    }

    /// Takes in one packet of a flow that is not decided.
    fn look(&mut self, packet: &PacketView<'_>, flow: &mut L7Flow) {
        let headers = &packet.headers;
        let Some(transport) = Transport::of_ip_protocol(headers.key.protocol()) else {
            // The patterns are about TCP and UDP.
            flow.state = L7State::NoMatch;
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
        let found = match transport {
            Transport::Udp => self.datagram(payload, flow),
            Transport::Tcp => {
                let at = headers.transport_offset as usize + 4;
                let Some(sequence) = packet.bytes.get(at..).and_then(|bytes| bytes.first_chunk()) else {
                    return;
                };
                let segment = Segment { sequence: u32::from_be_bytes(*sequence), syn, payload };
                self.segment(segment, &mut flow.sides[headers.direction.index()])
            }
        };
        flow.inspected += u32::from(!payload.is_empty());
        if found.is_some() {
            flow.state = L7State::Matched;
            flow.protocol = found;
        } else if flow.inspected >= self.shared.options.packets_max {
            flow.state = L7State::NoMatch;
        }
        if flow.state != L7State::NoMatchYet {
            flow.sides.iter_mut().for_each(|side| give_back(&self.shared, side));
        }
    }

    fn datagram(&mut self, payload: &[u8], flow: &mut L7Flow) -> Option<Name> {
        let shared = &self.shared;
        let bytes = &payload[..payload.len().min(shared.options.bytes_max)];
        let taken = &mut flow.sides[0].taken;
        *taken = taken.saturating_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.totals.scanned_bytes += bytes.len() as u64;
        let found = match &shared.rescanner {
            Some(rescanner) => rescanner.first(Transport::Udp, bytes),
            None => shared.scanner.scan_whole(Transport::Udp, bytes),
        };
        found.map(|id| shared.names[id.index()])
    }

    fn segment(&mut self, segment: Segment<'_>, side: &mut Side) -> Option<Name> {
        let shared = &*self.shared;
        let bytes_max = shared.options.bytes_max;
        if side.over {
            return None;
        }
        // A flow may come from another worker, so all lend from the same pools; segments in sequence need none.
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
                // What was held is gone, so the bytes in the middle are: nothing more can be said of this direction.
                self.totals.lost += 1;
                side.end();
                return None;
            }
            let window_bytes = shared.options.window_bytes;
            window = windows.get(&mut side.window, || Window::new(window_bytes), Window::clear);
        }
        let room = bytes_max - side.taken as usize;
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
            in_order(&mut side.order, segment, window, room, &mut taken, &mut gap, |bytes| {
                buffer.extend_from_slice(bytes);
            });
            let found = (taken > 0).then(|| {
                self.totals.scanned_bytes += buffer.len() as u64;
                rescanner.first(Transport::Tcp, buffer)
            });
            let found = found.flatten();
            found.map_or(Outcome::Open, Outcome::Matched)
        } else {
            let mut found = Found::default();
            let (scanner, scan, closed) = (&shared.scanner, &mut side.scan, side.closed);
            in_order(&mut side.order, segment, window, room, &mut taken, &mut gap, |bytes| {
                if !closed {
                    scanner.feed(Transport::Tcp, scan, &mut found, bytes);
                }
            });
            if taken == 0 || closed {
                Outcome::Open
            } else {
                self.totals.scanned_bytes += taken as u64;
                scanner.outcome(Transport::Tcp, scan, found)
            }
        };
        side.taken += u32::try_from(taken).unwrap_or(u32::MAX);
        if let Some(windows) = windows
            && windows.is_empty_now(side.window, |window| window.held() == 0)
        {
            windows.give_back(&mut side.window);
        }
        drop(loans);
        match outcome {
            Outcome::Matched(id) => return Some(shared.names[id.index()]),
            Outcome::Closed => side.closed = true,
            Outcome::Open => {}
        }
        if gap || side.taken as usize >= bytes_max {
            side.end();
            give_back(shared, side);
        }
        None
    }
}

/// Hands over what a segment puts in sequence: at most `room` bytes, and nothing behind a gap.
fn in_order(
    order: &mut Sequencer,
    segment: Segment<'_>,
    window: Option<&mut Window>,
    room: usize,
    taken: &mut usize,
    gap: &mut bool,
    mut to: impl FnMut(&[u8]),
) {
    order.push(segment, window, |piece| match piece {
        Piece::Data(bytes) if !*gap => {
            let bytes = &bytes[..bytes.len().min(room - *taken)];
            *taken += bytes.len();
            if !bytes.is_empty() {
                to(bytes);
            }
        }
        Piece::Data(_) => {}
        Piece::Gap(_) => *gap = true,
    });
}

/// Gives back what a direction has lent.
fn give_back(shared: &Shared, side: &mut Side) {
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
