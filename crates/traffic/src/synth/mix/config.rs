//! The parameters of a mixture, and the reasons why they may be rejected.

use std::str::FromStr;

use thiserror::Error;

use crate::synth::START_NS;

/// Maximum number of flows of a mixture.
pub const FLOWS_MAX: u64 = 1 << 26;
/// Maximum number of packets of a mixture.
pub const PACKETS_MAX: u64 = u32::MAX as u64;
/// Minimum and maximum length of fixed frames in bytes.
pub const FIXED_BYTES: (u16, u16) = (64, 9018);
/// Maximum exponent of the flows' popularity.
pub const ZIPF_MAX: f64 = 4.0;
/// Maximum mean number of packets in a burst.
pub const BURST_PACKETS_MAX: u32 = 256;

/// The length of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum FrameSize {
    /// IP lengths of at most 64, 576 and 1,500 bytes in the ratio 7 : 4 : 1.
    #[default]
    Imix,
    /// Frames of this many bytes (without check sequence), 64 to 9,018.
    ///
    /// Data fills the frame. Packets without data are padded to 64 bytes, and longer headers remain
    /// as they are (74 bytes for TCP in IPv6).
    Fixed(u16),
}

impl FromStr for FrameSize {
    type Err = MixError;

    /// Reads `imix` or a number of bytes.
    fn from_str(text: &str) -> Result<Self, MixError> {
        if text.eq_ignore_ascii_case("imix") {
            return Ok(Self::Imix);
        }
        match text.parse() {
            // The standard library would also accept a plus sign.
            Ok(bytes) if !text.starts_with('+') && (FIXED_BYTES.0..=FIXED_BYTES.1).contains(&bytes) => {
                Ok(Self::Fixed(bytes))
            }
            _ => Err(MixError::Size { value: text.to_owned() }),
        }
    }
}

/// The parameters of a mixture. Only [`Mix::new`](super::Mix::new) validates them.
///
/// Any version may add fields, so end a literal with `..MixConfig::default()`.
///
/// # Examples
///
/// ```
/// use flowloom_traffic::synth::{Mix, MixConfig};
/// let config = MixConfig { flows: 100, packets: 1000, zipf: 1.1, ..MixConfig::default() };
/// assert!(Mix::new(config).is_ok());
/// let error = Mix::new(MixConfig { flows: 9, packets: 4, ..MixConfig::default() }).unwrap_err();
/// assert_eq!(error.to_string(), "4 packets cannot contain 9 flows: each flow needs at least one");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MixConfig {
    /// Exact number of distinct flow keys: 1 to [`FLOWS_MAX`].
    pub flows: u64,
    /// Exact number of packets: `flows` to [`PACKETS_MAX`].
    pub packets: u64,
    /// Exponent of the flows' popularity: 0 (all equal) to [`ZIPF_MAX`].
    pub zipf: f64,
    /// Length of frames.
    pub size: FrameSize,
    /// IPv6 flows, per thousand.
    pub v6_permille: u16,
    /// Flows with a VLAN tag, per thousand. One in eight of these has two tags.
    pub vlan_permille: u16,
    /// Flows of fragmented datagrams, per thousand; at most one in 32.
    pub fragment_permille: u16,
    /// Packets other than IP (ARP, LLDP, spanning tree), per thousand.
    pub other_permille: u16,
    /// Mean number of packets that a flow sends in one burst: 1 to [`BURST_PACKETS_MAX`].
    pub burst_packets: u32,
    /// Flows of one SYN each to a single victim, in the middle fifth of the trace. Must be less
    /// than `flows`, which includes them.
    pub syn_flood: u64,
    /// Mean number of packets per second, above 0.
    pub rate_pps: u64,
    /// Time of the first packet, in nanoseconds since 1970.
    pub start_ns: u64,
    /// The same seed and parameters give the same bytes.
    pub seed: u64,
}

impl Default for MixConfig {
    /// A million packets of a hundred thousand flows, at one million packets per second.
    fn default() -> Self {
        Self {
            flows: 100_000,
            packets: 1_000_000,
            zipf: 1.0,
            size: FrameSize::Imix,
            v6_permille: 100,
            vlan_permille: 20,
            fragment_permille: 2,
            other_permille: 4,
            burst_packets: 1,
            syn_flood: 0,
            rate_pps: 1_000_000,
            start_ns: START_NS,
            seed: 1,
        }
    }
}

/// The reason why a mixture cannot be generated.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum MixError {
    /// No flow, or too many flows.
    #[error("{flows} flows: a mixture has at least 1 and at most {FLOWS_MAX}")]
    Flows {
        /// The requested number.
        flows: u64,
    },
    /// Too many packets.
    #[error("{packets} packets: a mixture has at most {PACKETS_MAX}")]
    Packets {
        /// The requested number.
        packets: u64,
    },
    /// Some flow would have no packet.
    #[error(
        "{packets} packet{} cannot contain {flows} flows: each flow needs at least one",
        if *packets == 1 { "" } else { "s" }
    )]
    FewerPacketsThanFlows {
        /// The requested packets.
        packets: u64,
        /// The requested flows.
        flows: u64,
    },
    /// The exponent is not a number, is negative, or is too large.
    #[error("invalid zipf exponent {value}: must be from 0 (all flows equal) to {ZIPF_MAX}")]
    Zipf {
        /// The requested exponent.
        value: f64,
    },
    /// The size is neither `imix` nor within the limits.
    #[error("invalid frame size {value}: must be 'imix' or a number of bytes from {} to {}", FIXED_BYTES.0, FIXED_BYTES.1)]
    Size {
        /// The requested size.
        value: String,
    },
    /// A share exceeds 1000 per thousand.
    #[error("invalid {name} of {value} per thousand: must be at most 1000")]
    Share {
        /// The name of the share.
        name: &'static str,
        /// The requested share.
        value: u16,
    },
    /// A burst has no packets, or too many.
    #[error("invalid burst of {value} packets: must be from 1 to {BURST_PACKETS_MAX}")]
    Burst {
        /// The requested mean.
        value: u32,
    },
    /// The flood leaves no ordinary flow.
    #[error("a flood of {flood} of {flows} flows: at least one ordinary flow must remain")]
    Flood {
        /// Flows of the flood.
        flood: u64,
        /// All flows.
        flows: u64,
    },
    /// The rate is not above zero.
    #[error("invalid rate of 0 packets per second: no packet would ever be sent")]
    Rate,
    /// The time of the last packet exceeds the range of a capture's time stamps.
    #[error(
        "{packets} packets at {rate_pps} per second end after the year 2106, the limit of pcap's \
        time stamps"
    )]
    Span {
        /// The requested packets.
        packets: u64,
        /// The requested rate.
        rate_pps: u64,
    },
}

impl MixConfig {
    /// Returns the first invalid parameter, if there is one.
    pub(super) fn validate(&self) -> Result<(), MixError> {
        let Self { flows, packets, .. } = *self;
        if !(1..=FLOWS_MAX).contains(&flows) {
            return Err(MixError::Flows { flows });
        }
        if packets > PACKETS_MAX {
            return Err(MixError::Packets { packets });
        }
        if packets < flows {
            return Err(MixError::FewerPacketsThanFlows { packets, flows });
        }
        if !(0.0..=ZIPF_MAX).contains(&self.zipf) {
            return Err(MixError::Zipf { value: self.zipf });
        }
        if let FrameSize::Fixed(bytes) = self.size
            && !(FIXED_BYTES.0..=FIXED_BYTES.1).contains(&bytes)
        {
            return Err(MixError::Size { value: bytes.to_string() });
        }
        let shares = [
            ("IPv6 share", self.v6_permille),
            ("VLAN share", self.vlan_permille),
            ("share of fragmented flows", self.fragment_permille),
            ("share of other packets", self.other_permille),
        ];
        if let Some(&(name, value)) = shares.iter().find(|(_, value)| *value > 1000) {
            return Err(MixError::Share { name, value });
        }
        if !(1..=BURST_PACKETS_MAX).contains(&self.burst_packets) {
            return Err(MixError::Burst { value: self.burst_packets });
        }
        if self.syn_flood >= flows {
            return Err(MixError::Flood { flood: self.syn_flood, flows });
        }
        if self.rate_pps == 0 {
            return Err(MixError::Rate);
        }
        let end_ns = u128::from(self.start_ns) + self.span_ns();
        if end_ns >= 1_000_000_000 << 32 {
            return Err(MixError::Span { packets, rate_pps: self.rate_pps });
        }
        Ok(())
    }

    /// Nanoseconds from the first packet to the end.
    pub(super) fn span_ns(&self) -> u128 {
        u128::from(self.packets) * 1_000_000_000 / u128::from(self.rate_pps.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut MixConfig)) -> String {
        let mut config = MixConfig::default();
        change(&mut config);
        config.validate().unwrap_err().to_string()
    }

    #[test]
    fn every_limit_is_named_in_the_refusal() {
        assert!(refused(|c| c.flows = 0).contains("at least 1"));
        assert!(refused(|c| c.flows = FLOWS_MAX + 1).contains("67108864"));
        assert!(refused(|c| c.packets = 1 << 32).contains("4294967295"));
        assert!(refused(|c| c.packets = 5).contains("each flow needs at least one"));
        assert!(refused(|c| c.zipf = f64::NAN).contains("from 0 (all flows equal) to 4"));
        assert!(refused(|c| c.zipf = -0.1).contains("-0.1"));
        assert!(refused(|c| c.size = FrameSize::Fixed(63)).contains("from 64 to 9018"));
        assert!(refused(|c| c.v6_permille = 1001).contains("IPv6 share of 1001"));
        assert!(refused(|c| c.burst_packets = 0).contains("must be from 1"));
        assert!(refused(|c| c.syn_flood = c.flows).contains("at least one ordinary flow"));
        assert!(refused(|c| c.rate_pps = 0).contains("no packet would ever be sent"));
        assert!(refused(|c| (c.rate_pps, c.packets) = (1, 3_000_000_000)).contains("2106"));
    }

    #[test]
    fn sizes_are_read_from_text() {
        assert_eq!("IMIX".parse(), Ok(FrameSize::Imix));
        assert_eq!("1514".parse(), Ok(FrameSize::Fixed(1514)));
        for bad in ["63", "9019", "-1", "+64", "", "64b"] {
            assert_eq!(bad.parse::<FrameSize>(), Err(MixError::Size { value: bad.to_owned() }));
        }
    }
}
