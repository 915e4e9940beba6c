//! Generates traffic that resembles that of a site.
//!
//! It consists of TCP sessions, name look-ups, QUIC-like datagrams and pings between clients and
//! popular servers. Some flows use IPv6, some are tagged, some are fragmented, and some frames are
//! not IP. A few flows have most of the packets (Zipf). Each flow has its own pace, from 65 µs to
//! two seconds between packets, so that flows interleave as on a real link.
//!
//! The numbers of packets and of distinct flow keys are exact. A later fragment has no ports and
//! therefore its own key: a fragmenting flow counts as two.

mod calendar;
mod config;
mod conversation;
mod other;

use calendar::Calendar;
pub use config::{
    BURST_PACKETS_MAX, FIXED_BYTES, FLOWS_MAX, FrameSize, MixConfig, MixError, PACKETS_MAX, ZIPF_MAX,
};
use conversation::{Layout, Progress};

use super::hosts::{self, FLOWS_PER_CLIENT, Hosts};
use super::random::{Random, Stride, scale, word_of};
use super::wire::{self, Pool};
use super::{Generate, Meta, zipf};

const _: () = assert!(FLOWS_MAX <= hosts::FLOWS_MAX, "every flow has its own endpoint");

/// Minimum size of an Ethernet frame in bytes, without check sequence.
const FRAME_BYTES_MIN: usize = 60;

/// A mixture of flows, packet by packet.
///
/// It takes about 24 bytes of memory per flow, and one byte per two packets.
///
/// # Examples
///
/// ```
/// use flowloom_traffic::synth::{Generate, Mix, MixConfig};
/// let mut mix = Mix::new(MixConfig { flows: 50, packets: 400, ..MixConfig::default() })?;
/// let (mut frame, mut count) = (Vec::new(), 0);
/// while let Some(meta) = mix.next_into(&mut frame) {
///     assert_eq!(frame.len(), meta.wire_bytes as usize);
///     count += 1;
/// }
/// assert_eq!(count, 400);
/// # Ok::<(), flowloom_traffic::synth::MixError>(())
/// ```
#[derive(Clone)]
pub struct Mix {
    config: MixConfig,
    layout: Layout,
    hosts: Hosts,
    pool: Pool,
    random: Random,
    /// Ordinary flows, then the flood, then senders of other frames.
    progress: Vec<Progress>,
    calendar: Calendar,
    /// Flows of the current slot that have yet to send, last first, with the length of their burst.
    queue: Vec<(u32, u32)>,
    sending: Option<(u32, u32)>,
    slot: u64,
    clock: Clock,
    scratch: Vec<u8>,
}

impl std::fmt::Debug for Mix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mix")
            .field("config", &self.config)
            .field("slot", &self.slot)
            .finish_non_exhaustive()
    }
}

/// Spreads the packets of a slot evenly over its time.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "quantities carry their unit last")]
struct Clock {
    span_ns: u64,
    now_ns: u64,
    step_ns: u64,
}

impl Mix {
    /// Returns the mixture that `config` describes.
    ///
    /// # Errors
    ///
    /// Returns a [`MixError`] with the parameter, its value and its limits.
    pub fn new(config: MixConfig) -> Result<Self, MixError> {
        config.validate()?;
        let ordinary_keys = config.flows - config.syn_flood;
        let fragmenting = (config.flows * u64::from(config.fragment_permille) / 1000)
            .min(ordinary_keys / (2 * FLOWS_PER_CLIENT));
        let layout = Layout {
            seed: config.seed,
            fragmenting,
            ordinary: ordinary_keys - fragmenting,
            v6_permille: config.v6_permille,
            vlan_permille: config.vlan_permille,
            size: config.size,
        };
        let progress = sizes(&config, &layout);
        let mut mix = Self {
            calendar: Calendar::new(progress.len(), config.packets),
            hosts: Hosts::new(config.seed),
            pool: Pool::new(config.seed),
            random: Random::new(word_of(config.seed, 1)),
            clock: Clock { span_ns: config.span_ns() as u64, ..Clock::default() },
            layout,
            progress,
            config,
            queue: Vec::new(),
            sending: None,
            slot: 0,
            scratch: Vec::new(),
        };
        mix.schedule();
        mix.open_slot();
        Ok(mix)
    }

    /// Returns the parameters.
    pub fn config(&self) -> &MixConfig {
        &self.config
    }

    /// Assigns every flow the slot of its first packet.
    fn schedule(&mut self) {
        let slots = self.calendar.slots();
        let flood_end = self.layout.ordinary + self.config.syn_flood;
        for flow in 0..self.progress.len() as u64 {
            let left = self.progress[flow as usize].left;
            if left == 0 {
                continue;
            }
            let slot = if (self.layout.ordinary..flood_end).contains(&flow) {
                (slots * 2 / 5 + self.random.below((slots / 5).max(1))).min(slots - 1)
            } else {
                let events = u64::from(left.div_ceil(self.config.burst_packets)) - 1;
                let duration = (events * self.pace(flow)).min(slots - 1);
                self.random.below(slots - duration)
            };
            self.calendar.enter(flow as u32, slot);
        }
    }

    /// Returns the preferred slots between a flow's bursts: 2^16 to 2^31 ns, uniform on a log
    /// scale.
    fn pace(&self, flow: u64) -> u64 {
        let word = word_of(self.config.seed ^ 0x5041_4345, flow);
        let octave = 1_u64 << (16 + scale(word, 15));
        let gap_ns = octave + scale(word.rotate_left(32), octave);
        let slot_ns = (self.clock.span_ns / self.calendar.slots()).max(1);
        (gap_ns / slot_ns).max(1)
    }

    /// Takes the flows of the current slot, or of the next non-empty one. Returns `false` at the
    /// end.
    fn open_slot(&mut self) -> bool {
        let slots = self.calendar.slots();
        while self.slot < slots {
            let Self { calendar, queue, progress, random, config, slot, .. } = self;
            let remaining = u32::try_from(slots - *slot).unwrap_or(u32::MAX);
            let mut packets = 0;
            calendar.take(*slot, |flow| {
                let left = progress[flow as usize].left;
                let drawn = 1 + random.below(2 * u64::from(config.burst_packets) - 1) as u32;
                // The number of packets that must be sent now if one burst in every later slot is
                // to suffice.
                let train = drawn.max(left.div_ceil(remaining)).min(left);
                packets += u64::from(train);
                queue.push((flow, train));
            });
            if !self.queue.is_empty() {
                let begins = |slot| u128::from(self.clock.span_ns) * u128::from(slot) / u128::from(slots);
                let (start, end) = (begins(self.slot), begins(self.slot + 1));
                self.clock.now_ns = self.config.start_ns + start as u64;
                self.clock.step_ns = (end - start) as u64 / packets;
                return true;
            }
            self.slot += 1;
        }
        false
    }

    /// Returns the flow that sends next, and whether its burst ends with this packet.
    #[inline]
    fn next_flow(&mut self) -> Option<(u32, bool)> {
        loop {
            if let Some((flow, train)) = self.sending.take() {
                if train > 1 {
                    self.sending = Some((flow, train - 1));
                }
                return Some((flow, train == 1));
            }
            self.sending = self.queue.pop();
            if self.sending.is_none() {
                self.slot += 1;
                if !self.open_slot() {
                    return None;
                }
            }
        }
    }

    /// Puts a flow with packets left into a later slot, early enough for all of them.
    #[inline]
    fn reschedule(&mut self, flow: u32) {
        let left = self.progress[flow as usize].left;
        if left == 0 {
            return;
        }
        let trains = u64::from(left.div_ceil(self.config.burst_packets));
        let slots_left = self.calendar.slots() - 1 - self.slot;
        let gap = self.pace(u64::from(flow)).min(slots_left / trains).max(1);
        // Half to one and a half of the gap.
        let gap = (gap - gap / 2 + self.random.below(gap + 1)).clamp(1, slots_left.max(1));
        self.calendar.enter(flow, self.slot + gap);
    }

    fn tick(&mut self) -> u64 {
        let now_ns = self.clock.now_ns;
        self.clock.now_ns += self.clock.step_ns;
        now_ns
    }
}

impl Generate for Mix {
    #[inline]
    fn next_into(&mut self, frame: &mut Vec<u8>) -> Option<Meta> {
        let (flow, train_ends) = self.next_flow()?;
        let others_from = self.layout.ordinary + self.config.syn_flood;
        let number = u64::from(flow);
        let progress = &mut self.progress[flow as usize];
        let belongs = number < others_from;
        if belongs {
            let packet = self.layout.next(number, progress, &self.hosts, &mut self.random);
            wire::write(frame, &packet, &self.pool);
        } else {
            progress.sent += 1;
            progress.left -= 1;
            other::write(frame, number - others_from, self.random.next());
        }
        let least = match self.config.size {
            FrameSize::Imix => FRAME_BYTES_MIN,
            FrameSize::Fixed(_) => usize::from(FIXED_BYTES.0),
        };
        wire::pad(frame, least);
        if train_ends {
            self.reschedule(flow);
        }
        Some(Meta { time_ns: self.tick(), wire_bytes: frame.len() as u32, flow: belongs.then_some(flow) })
    }

    fn next_meta(&mut self) -> Option<Meta> {
        let mut frame = std::mem::take(&mut self.scratch);
        let meta = self.next_into(&mut frame);
        self.scratch = frame;
        meta
    }

    fn packets(&self) -> u64 {
        self.config.packets
    }
}

/// Returns the number of packets of each flow: at least one per key, and the rest by popularity.
fn sizes(config: &MixConfig, layout: &Layout) -> Vec<Progress> {
    let wanted = config.packets * u64::from(config.other_permille) / 1000;
    let others = wanted.min(config.packets - config.flows);
    let spare = config.packets - config.flows - others;
    let flows = layout.ordinary + config.syn_flood;
    let mut progress = vec![Progress::new(1); flows as usize];
    // Ranks are scattered over the flow numbers; otherwise the first clients would have the most
    // popular flows.
    let mut order = Stride::new(layout.ordinary, word_of(config.seed, 2));
    zipf::apportion(spare, layout.ordinary, config.zipf, |share| {
        let flow = order.advance();
        let least = 1 + u64::from(layout.is_fragmenting(flow));
        progress[flow as usize] = Progress::new((least + share) as u32);
    });
    // ARP is the most common of the other frames.
    for sender in 0..other::SENDERS {
        let share = if sender == 0 { others - others / 4 * 3 } else { others / 4 };
        progress.push(Progress::new(share as u32));
    }
    progress
}
