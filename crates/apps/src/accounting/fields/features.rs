//! The features that other meters call their records: `cicflowmeter` and `NFStream`.

mod dialect;
mod values;

use flowloom_flow_key::protocol::{TCP, UDP};
use flowloom_flow_key::{Direction, IpFamily};
use flowloom_packet::PacketView;
use flowloom_record::{Column, Value};

use super::memory::{Content, Held};
use super::moments::Moments;
use super::{FieldStore, Fields};
use crate::accounting::connection::Segment;

pub use dialect::{DIALECTS, dialect};

/// A longer gap ends an activity of a flow: the 5 s of the original `CICFlowMeter`.
const ACTIVITY_NS: u64 = 5_000_000_000;
/// A longer gap ends a subflow, and a bulk: the 1 s of the original `CICFlowMeter`.
const CLUMP_NS: u64 = 1_000_000_000;
/// Packets with data that make a bulk.
const BULK_PACKETS: u64 = 4;

/// The features of packets by which machines are taught, with the names and the units of other
/// meters, and by the definitions of their documentation.
#[derive(Clone, Debug, Default)]
pub struct Features(Option<Held<Both>>);

/// Successive packets with data of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    packets: u64,
    bytes: u64,
    first_ns: u64,
    last_ns: u64,
}

/// What packets of one direction have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct DirectionFeatures {
    /// Bytes on the wire.
    sizes: Moments,
    /// Nanoseconds between packets.
    gaps: Moments,
    /// The earliest and the latest stamp.
    times_ns: Option<(u64, u64)>,
    /// Packets with each flag, FIN first.
    flags: [u64; 8],
    header_bytes: u64,
    /// Transport header and payload of the smallest packet.
    segment_bytes_min: u64,
    data_packets: u64,
    /// The window of the first segment, as its header has it.
    window: Option<u16>,
    /// Runs that are bulks, and what they have.
    bulks: u64,
    bulk_packets: u64,
    bulk_bytes: u64,
    bulk_ns: u64,
    run: Run,
}

/// Both directions, the low endpoint's first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Both {
    sides: [DirectionFeatures; 2],
    gaps: Moments,
    latest_ns: u64,
    /// The start of the activity that lasts, and the activities and pauses before it.
    active_from_ns: u64,
    active: Moments,
    idle: Moments,
    subflows: u64,
    vlan: u16,
    is_v6: bool,
}

impl DirectionFeatures {
    /// Adds a packet. Returns whether it has data.
    fn add(&mut self, packet: &PacketView<'_>) -> bool {
        let (headers, stamped_ns) = (&packet.headers, packet.stamped_ns);
        let size = u64::from(packet.wire_bytes);
        if let Some((_, latest_ns)) = self.times_ns {
            self.gaps.add(stamped_ns.saturating_sub(latest_ns));
        }
        let (first_ns, latest_ns) = self.times_ns.unwrap_or((stamped_ns, stamped_ns));
        self.times_ns = Some((first_ns.min(stamped_ns), latest_ns.max(stamped_ns)));
        for (bit, packets) in self.flags.iter_mut().enumerate() {
            *packets += u64::from(headers.tcp_flags >> bit & 1);
        }
        let header = u64::from(headers.payload_offset.saturating_sub(headers.transport_offset));
        let payload = u64::from(packet.payload_bytes());
        let segment = header + payload;
        self.segment_bytes_min =
            if self.sizes.count() == 0 { segment } else { self.segment_bytes_min.min(segment) };
        self.sizes.add(size);
        self.header_bytes += header;
        let protocol = headers.key.protocol();
        if protocol == TCP && self.window.is_none() {
            self.window = Segment::from_packet(packet).map(|segment| segment.window);
        }
        let has_data = payload > 0 && matches!(protocol, TCP | UDP);
        self.data_packets += u64::from(has_data);
        if has_data {
            if stamped_ns.saturating_sub(self.run.last_ns) > CLUMP_NS {
                self.end_run();
            }
            if self.run.packets == 0 {
                self.run.first_ns = stamped_ns;
            }
            self.run.packets += 1;
            self.run.bytes += payload;
            self.run.last_ns = self.run.last_ns.max(stamped_ns);
        }
        has_data
    }

    /// Ends the run: data of the other direction comes, or nothing for long.
    fn end_run(&mut self) {
        let run = std::mem::take(&mut self.run);
        if run.packets >= BULK_PACKETS {
            self.bulks += 1;
            self.bulk_packets += run.packets;
            self.bulk_bytes += run.bytes;
            self.bulk_ns += run.last_ns.saturating_sub(run.first_ns);
        }
    }
}

impl Content for Both {
    fn heap_bytes(&self) -> usize {
        0
    }
}

impl Both {
    fn add(&mut self, packet: &PacketView<'_>) {
        let stamped_ns = packet.stamped_ns;
        if self.subflows == 0 {
            (self.latest_ns, self.active_from_ns, self.subflows) = (stamped_ns, stamped_ns, 1);
            let vlans = packet.headers.vlans;
            let outer = if vlans >> 12 == 0 { vlans } else { vlans >> 12 & 0xFFF };
            self.vlan = u16::try_from(outer).unwrap_or(0);
            self.is_v6 = packet.headers.key.family() == IpFamily::V6;
        } else {
            let gap_ns = stamped_ns.saturating_sub(self.latest_ns);
            self.gaps.add(gap_ns);
            self.subflows += u64::from(gap_ns > CLUMP_NS);
            if gap_ns > ACTIVITY_NS {
                let active_ns = self.latest_ns - self.active_from_ns;
                if active_ns > 0 {
                    self.active.add(active_ns);
                }
                self.idle.add(gap_ns);
                self.active_from_ns = stamped_ns;
            }
            self.latest_ns = self.latest_ns.max(stamped_ns);
        }
        let way = packet.headers.direction.index();
        if self.sides[way].add(packet) {
            self.sides[1 - way].end_run();
        }
    }
}

impl Fields for Features {
    const COLUMNS: &'static [Column] = values::COLUMNS;

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, store: &FieldStore) {
        let time_ns = packet.time_ns;
        let held = self.0.get_or_insert_with(|| Held::new(Both::default(), store, time_ns));
        let _ = held.change(time_ns, |both| both.add(packet));
    }

    fn values(&self, way: Direction, out: &mut Vec<Value>) {
        match self.0.as_ref().map(Held::get) {
            Some(Some(both)) => both.values(way, out),
            Some(None) => out.extend(Self::COLUMNS.iter().map(|_| Value::Dropped)),
            None => out.extend(Self::COLUMNS.iter().map(|_| Value::None)),
        }
    }
}
