//! Bits of a packet at a constant offset: the raw payload expressions of nft.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::conditions::Truth;
use super::contents::NetworkBytes;
use super::ranges::Ranges;
use crate::rule::decimal;

/// Bits of a packet, and the values that they may have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PayloadBits {
    /// Offsets are from the transport header instead of the network header.
    pub(super) is_transport: bool,
    /// The first bit.
    at: u32,
    count: u32,
    values: Ranges,
}

impl PayloadBits {
    /// Returns a condition on `count` bits; `None` if they do not fit a number, or lie further from
    /// the header than nft allows.
    pub(super) fn new(is_transport: bool, at: u32, count: u32, values: Ranges) -> Option<Self> {
        const BITS_MAX: u32 = 128;
        const OFFSET_BITS_MAX: u32 = 255 * 8;
        let is_right = count > 0 && at <= OFFSET_BITS_MAX && at % 8 + count <= BITS_MAX;
        is_right.then_some(Self { is_transport, at, count, values })
    }

    /// Reads what [`Display`](fmt::Display) shows.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (place, values) = text.split_once(' ')?;
        let mut place = place.split(',');
        let is_transport = match place.next()? {
            "@nh" => false,
            "@th" => true,
            _ => return None,
        };
        let (at, count) = (decimal(place.next()?)?, decimal(place.next()?)?);
        let number = |text: &str| u128::from_str_radix(text.trim().strip_prefix("0x")?, 16).ok();
        let range = |text: &str| {
            let (low, high) = text.split_once('-').unwrap_or((text, text));
            number(low).zip(number(high)).filter(|(low, high)| low <= high)
        };
        let values = values.trim_matches(['{', '}', ' ']).split(',').map(range);
        let values = Ranges::new(values.collect::<Option<Vec<_>>>()?);
        if place.next().is_some() { None } else { Self::new(is_transport, at, count, values) }
    }

    /// Returns whether the condition holds; `None` if the packet ends before the last bit.
    pub(super) fn holds(&self, packet: NetworkBytes<'_>) -> Option<Truth> {
        let header = if self.is_transport { packet.transport } else { 0 };
        let (first, end) = (self.at / 8, (self.at + self.count).div_ceil(8));
        if u64::from(header) + u64::from(end) > u64::from(packet.length) {
            return None;
        }
        let mut place = (header + first) as usize..(header + end) as usize;
        let all = place.try_fold(0_u128, |bits, at| Some(bits << 8 | u128::from(packet.byte(at)?)));
        let Some(all) = all else { return Some(Truth::Maybe) };
        let behind = end * 8 - (self.at + self.count);
        let value = all >> behind & u128::MAX >> (128 - self.count);
        Some(self.values.contains(value).into())
    }
}

/// Shows the expression of nft.
impl fmt::Display for PayloadBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_with(f, "")
    }
}

impl PayloadBits {
    /// Shows the expression with an operator before its values.
    pub(super) fn fmt_with(&self, f: &mut fmt::Formatter<'_>, op: &str) -> fmt::Result {
        let base = if self.is_transport { "th" } else { "nh" };
        let values = self.values.as_slice().iter().map(|&(low, high)| {
            if low == high { alloc::format!("{low:#x}") } else { alloc::format!("{low:#x}-{high:#x}") }
        });
        let values: Vec<String> = values.collect();
        write!(f, "@{base},{},{} {op}", self.at, self.count)?;
        match &values[..] {
            [one] => f.write_str(one),
            all => write!(f, "{{ {} }}", all.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_counted_from_a_header() {
        let captured: &[u8] = &[0x45, 0, 0, 28, 0xde, 0xad, 0xbe, 0xef, 0xff];
        let packet = NetworkBytes { captured, length: 12, transport: 4, is_forwarded: false };
        for (is_transport, at, count, value, truth) in [
            (false, 0, 4, 4, Some(Truth::Yes)),
            (false, 4, 4, 5, Some(Truth::Yes)),
            (false, 16, 16, 28, Some(Truth::Yes)),
            (false, 16, 16, 29, Some(Truth::No)),
            (true, 0, 16, 0xdead, Some(Truth::Yes)),
            (true, 3, 9, 0b1_1110_1010, Some(Truth::Yes)),
            (true, 0, 32, 0xdead_beef, Some(Truth::Yes)),
            (true, 32, 16, 0xff00, Some(Truth::Maybe)),
            (true, 56, 16, 0, None),
        ] {
            let bits = PayloadBits::new(is_transport, at, count, Ranges::exact(value)).unwrap();
            assert_eq!(bits.holds(packet), truth, "{bits}");
            assert_eq!(PayloadBits::parse(&alloc::format!("{bits}")), Some(bits));
        }
        let several = PayloadBits::new(false, 72, 8, Ranges::new([(6, 6), (17, 20)])).unwrap();
        assert_eq!(alloc::format!("{several}"), "@nh,72,8 { 0x6, 0x11-0x14 }");
        assert_eq!(PayloadBits::parse("@nh,72,8 { 0x6, 0x11-0x14 }"), Some(several));
        for wrong in ["@ll,0,8 0x1", "@nh,0 0x1", "@nh,0,0 0x1", "@nh,4,128 0x1", "@nh,0,8 1", "@nh,0,8"] {
            assert_eq!(PayloadBits::parse(wrong), None, "{wrong}");
        }
    }
}
