//! TCP packets for tests of records.

use flowloom_engine::App;
use flowloom_packet::{DecodeOptions, LinkType, PacketView, decode};

use super::{Accounted, Accounting};

/// A TCP segment between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) is_back: bool,
    pub(super) flags: u16,
    pub(super) sequence: u32,
    pub(super) acknowledgement: u32,
    pub(super) window: u16,
    pub(super) payload_bytes: u16,
    /// The data, instead of `payload_bytes` arbitrary bytes.
    pub(super) content: &'static [u8],
    pub(super) scale: Option<u8>,
    /// The data offset, if it is not that of the data.
    pub(super) offset_words: Option<u16>,
    pub(super) time_ns: u64,
    /// The time stamp, if it differs from the time of the run.
    pub(super) stamped_ns: Option<u64>,
}

/// Returns a segment from the low end with these flags, number and acknowledgement.
pub(super) fn there(flags: u16, sequence: u32, acknowledgement: u32) -> Sent {
    Sent {
        is_back: false,
        flags,
        sequence,
        acknowledgement,
        window: 8192,
        payload_bytes: 0,
        content: &[],
        scale: None,
        offset_words: None,
        time_ns: 0,
        stamped_ns: None,
    }
}

/// Returns a segment from the high end.
pub(super) fn back(flags: u16, sequence: u32, acknowledgement: u32) -> Sent {
    Sent { is_back: true, ..there(flags, sequence, acknowledgement) }
}

impl Sent {
    pub(super) fn at(self, seconds: u64) -> Self {
        Self { time_ns: seconds * 1_000_000_000, ..self }
    }

    pub(super) fn stamped(self, seconds: u64) -> Self {
        Self { stamped_ns: Some(seconds * 1_000_000_000), ..self }
    }

    pub(super) fn stamp(&self) -> u64 {
        self.stamped_ns.unwrap_or(self.time_ns)
    }

    pub(super) fn with_scale(self, shift: u8) -> Self {
        Self { scale: Some(shift), ..self }
    }

    pub(super) fn ip_bytes(&self) -> u64 {
        self.bytes().len() as u64
    }

    /// Returns the IPv6 packet.
    fn bytes(&self) -> Vec<u8> {
        let mut segment = vec![0; 20];
        let (from, to) = if self.is_back { (2_u8, 1_u8) } else { (1, 2) };
        segment[..4].copy_from_slice(&[0, from, 0, to]);
        segment[4..8].copy_from_slice(&self.sequence.to_be_bytes());
        segment[8..12].copy_from_slice(&self.acknowledgement.to_be_bytes());
        let options: &[u8] = &match self.scale {
            Some(shift) => vec![2, 4, 5, 0xB4, 1, 3, 3, shift],
            None => Vec::new(),
        };
        let words = self.offset_words.unwrap_or(u16::try_from(5 + options.len() / 4).unwrap());
        segment[12..14].copy_from_slice(&(words << 12 | self.flags).to_be_bytes());
        segment[14..16].copy_from_slice(&self.window.to_be_bytes());
        segment.extend_from_slice(options);
        segment.resize(segment.len() + usize::from(self.payload_bytes), 7);
        segment.extend_from_slice(self.content);
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend(u16::try_from(segment.len()).unwrap().to_be_bytes());
        packet.extend([6, 64]);
        for host in [from, to] {
            packet.extend([&[0; 15][..], &[host]].concat());
        }
        packet.extend(segment);
        packet
    }
}

/// Passes each packet, decoded, to `each`.
pub(super) fn each(packets: &[Sent], mut show: impl FnMut(&PacketView<'_>)) {
    for packet in packets {
        let bytes = packet.bytes();
        let headers = decode(LinkType::RAW, &bytes, DecodeOptions::default()).unwrap();
        let wire_bytes = u32::try_from(bytes.len()).unwrap();
        let view = PacketView::new(&bytes, headers, packet.time_ns, wire_bytes);
        show(&view.with_stamp(packet.stamp()));
    }
}

/// Returns the records of these packets. The last one is open.
pub(super) fn records(active_seconds: Option<u64>, packets: &[Sent]) -> Vec<Accounted> {
    let mut app = Accounting::new(active_seconds.map(|seconds| seconds * 1_000_000_000));
    let (mut ended, mut open, mut is_first) = (Vec::new(), Accounted::default(), true);
    each(packets, |view| {
        if !is_first && let Some(next) = app.next_record(view, &mut open) {
            ended.push(std::mem::replace(&mut open, next));
        }
        is_first = false;
        app.on_packet(view, &mut open);
    });
    ended.push(open);
    ended
}
