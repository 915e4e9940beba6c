//! Conditions on the bytes of a packet: what the matches `u32` and `string` of iptables and the raw
//! payload expressions of nft ask for.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::conditions::Truth;
use super::payload::PayloadBits;
use super::ranges::Ranges;

/// The bytes of an IP packet, from its header on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkBytes<'a> {
    /// Those that were captured.
    pub captured: &'a [u8],
    /// Length of the packet, whether captured or not.
    pub length: u32,
    /// Offset of the transport header. Of a later fragment of IPv6, which has none, netfilter takes
    /// the start of the packet for it.
    pub transport: u32,
    /// A router has taken one off the time to live since the capture.
    pub is_forwarded: bool,
}

impl NetworkBytes<'_> {
    /// Returns a byte that was captured, as rules find it.
    pub(super) fn byte(&self, at: usize) -> Option<u8> {
        let byte = self.captured.get(at).copied()?;
        if !self.is_forwarded {
            return Some(byte);
        }
        let captured = |at: usize| self.captured.get(at).copied().unwrap_or(0);
        // The sum of the header makes up for the difference.
        let sum = || {
            let sum = u32::from(u16::from_be_bytes([captured(10), captured(11)])) + 0x0100;
            ((sum + u32::from(sum >= 0xffff)) as u16).to_be_bytes()
        };
        Some(match (captured(0) >> 4, at) {
            (4, 8) | (6, 7) => byte.saturating_sub(1),
            (4, 10 | 11) => sum()[at - 10],
            _ => byte,
        })
    }
}

/// A condition on the bytes of a packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contents {
    asked: Asked,
    is_of_datagram: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Asked {
    /// All of these words have one of their values.
    Words(Vec<WordTest>),
    /// The packet contains a text.
    Text { text: Vec<u8>, from: u32, to: u32, ignores_case: bool },
    /// These bits have one of their values.
    Bits(PayloadBits),
}

/// A word of four bytes, the operations on it, and the values that the result may have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct WordTest {
    at: u32,
    steps: Vec<(Step, u32)>,
    values: Vec<(u32, u32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    And,
    Left,
    Right,
    /// The next word is counted from here: the offset moves by the value.
    Move,
}

/// The numbers and tests that the kernel allows.
const LISTED_MAX: usize = 10;
/// The largest end of a search, which is the default.
const TO_MAX: u32 = 65_535;

impl Contents {
    /// Reads the expression of the option `--u32`, such as `6&0xFF=17 && 0>>22&0x3C@4>>16=53`.
    /// Returns `None` if iptables refuses it, or it shifts by more than 31 bits.
    #[must_use]
    pub fn of_words(expression: &str) -> Option<Self> {
        let tests: Vec<WordTest> = expression.split("&&").map(WordTest::parse).collect::<Option<_>>()?;
        (tests.len() <= LISTED_MAX).then_some(Self { asked: Asked::Words(tests), is_of_datagram: false })
    }

    /// Returns whether a packet contains a text between two offsets. Returns `None` for an empty
    /// text or range, which iptables refuses.
    #[must_use]
    pub fn of_text(text: Vec<u8>, [from, to]: [u32; 2], ignores_case: bool) -> Option<Self> {
        const TEXT_MAX: usize = 128;
        let is_right = !text.is_empty() && text.len() <= TEXT_MAX && from <= to && to <= TO_MAX;
        let asked = Asked::Text { text, from, to, ignores_case };
        is_right.then_some(Self { asked, is_of_datagram: false })
    }

    /// Returns whether `count` bits behind the network header, or the transport header, have one of
    /// these values. Returns `None` if nft refuses it, or the bits do not fit a number.
    #[must_use]
    pub fn of_bits(is_transport: bool, at: u32, count: u32, values: Ranges) -> Option<Self> {
        let bits = PayloadBits::new(is_transport, at, count, values)?;
        Some(Self { asked: Asked::Bits(bits), is_of_datagram: false })
    }

    /// Reads bits and values as they are shown, such as `@th,16,16 0x35`.
    #[must_use]
    pub fn of_shown_bits(text: &str) -> Option<Self> {
        Some(Self { asked: Asked::Bits(PayloadBits::parse(text)?), is_of_datagram: false })
    }

    /// Returns the expression of nft that holds, or does not, for bits; `None` for other contents.
    pub(crate) fn in_nft(&self, is_negated: bool) -> Option<String> {
        struct Shown<'a>(&'a PayloadBits, &'a str);
        impl fmt::Display for Shown<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt_with(f, self.1)
            }
        }
        match &self.asked {
            Asked::Bits(bits) => {
                Some(alloc::format!("{}", Shown(bits, if is_negated { "!= " } else { "" })))
            }
            _ => None,
        }
    }

    /// Returns whether it may ask for bytes of the network header.
    pub(super) fn reads_network_header(&self) -> bool {
        !matches!(&self.asked, Asked::Bits(bits) if bits.is_transport)
    }

    /// Asks for the bytes of datagrams, because connections are tracked, which puts fragments
    /// together. It is then unknown for a fragment.
    #[must_use]
    pub fn of_datagram(self) -> Self {
        Self { is_of_datagram: true, ..self }
    }

    /// Returns whether it is unknown for fragments.
    #[must_use]
    pub fn is_of_datagram(&self) -> bool {
        self.is_of_datagram
    }

    /// Returns whether it holds for a packet; `None` if neither it nor its negation does.
    #[must_use]
    pub fn holds(&self, packet: NetworkBytes<'_>) -> Option<Truth> {
        Some(match &self.asked {
            Asked::Bits(bits) => return bits.holds(packet),
            Asked::Words(tests) => {
                tests.iter().fold(Truth::Yes, |truth, test| truth.and(test.holds(packet)))
            }
            Asked::Text { text, from, to, ignores_case } => {
                let end = packet.length.min(*to) as usize;
                let last = (packet.captured.len().min(end) + 1).saturating_sub(text.len());
                let is_same = |byte: Option<u8>, of_text: u8| {
                    byte.is_some_and(|byte| {
                        byte == of_text || *ignores_case && byte.eq_ignore_ascii_case(&of_text)
                    })
                };
                let begins = |at: usize| (at..).zip(text).all(|(at, &one)| is_same(packet.byte(at), one));
                if (*from as usize..last).any(begins) {
                    Truth::Yes
                } else if packet.captured.len() < end {
                    Truth::Maybe
                } else {
                    Truth::No
                }
            }
        })
    }
}

impl WordTest {
    fn parse(text: &str) -> Option<Self> {
        let (location, values) = text.split_once('=')?;
        let (at, mut rest) = number(location)?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, behind) = if let Some(behind) = rest.strip_prefix("<<") {
                (Step::Left, behind)
            } else if let Some(behind) = rest.strip_prefix(">>") {
                (Step::Right, behind)
            } else if let Some(behind) = rest.strip_prefix('&') {
                (Step::And, behind)
            } else {
                (Step::Move, rest.strip_prefix('@')?)
            };
            let (value, behind) = number(behind)?;
            if matches!(step, Step::Left | Step::Right) && value > 31 {
                return None;
            }
            steps.push((step, value));
            rest = behind;
        }
        let values = values.split(',').map(|range| {
            let (low, rest) = number(range)?;
            let (high, rest) = match rest.strip_prefix(':') {
                Some(high) => number(high)?,
                None => (low, rest),
            };
            rest.is_empty().then_some((low, high))
        });
        let values: Vec<(u32, u32)> = values.collect::<Option<_>>()?;
        let is_short = steps.len() < LISTED_MAX && values.len() <= LISTED_MAX;
        is_short.then_some(Self { at, steps, values })
    }

    /// Does what the kernel's `xt_u32` does.
    fn holds(&self, packet: NetworkBytes<'_>) -> Truth {
        let length = u64::from(packet.length);
        // A word that the packet does not have is no match.
        let word = |at: u64| -> Result<u32, Truth> {
            if at + 4 > length {
                return Err(Truth::No);
            }
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            let mut bytes = at..at.saturating_add(4);
            let word = bytes.try_fold(0, |word: u32, at| Some(word << 8 | u32::from(packet.byte(at)?)));
            word.ok_or(Truth::Maybe)
        };
        let value = || {
            let mut base = 0_u64;
            let mut value = word(self.at.into())?;
            for &(step, number) in &self.steps {
                match step {
                    Step::And => value &= number,
                    Step::Left => value <<= number,
                    Step::Right => value >>= number,
                    Step::Move => {
                        base += u64::from(value);
                        value = word(base + u64::from(number))?;
                    }
                }
            }
            Ok(value)
        };
        match value() {
            Ok(value) => self.values.iter().any(|&(low, high)| low <= value && value <= high).into(),
            Err(truth) => truth,
        }
    }
}

/// Reads a number of C (decimal, octal, hexadecimal) between blanks. Returns it and what follows.
fn number(text: &str) -> Option<(u32, &str)> {
    let text = text.trim_start();
    let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (digits, 16),
        None => (text, if text.starts_with('0') { 8 } else { 10 }),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let value = u32::from_str_radix(&digits[..end], radix).ok()?;
    Some((value, digits[end..].trim_start()))
}

/// Shows the match of iptables, or the expression of nft.
impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.asked {
            Asked::Bits(bits) => bits.fmt(f),
            Asked::Words(tests) => {
                f.write_str("u32 --u32 \"")?;
                for (i, test) in tests.iter().enumerate() {
                    write!(f, "{}{:#x}", if i == 0 { "" } else { "&&" }, test.at)?;
                    for (step, number) in &test.steps {
                        let step = match step {
                            Step::And => "&",
                            Step::Left => "<<",
                            Step::Right => ">>",
                            Step::Move => "@",
                        };
                        write!(f, "{step}{number:#x}")?;
                    }
                    for (i, (low, high)) in test.values.iter().enumerate() {
                        write!(f, "{}{low:#x}", if i == 0 { "=" } else { "," })?;
                        if low != high {
                            write!(f, ":{high:#x}")?;
                        }
                    }
                }
                f.write_str("\"")
            }
            Asked::Text { text, from, to, ignores_case } => {
                let is_plain = text.iter().all(u8::is_ascii_alphanumeric);
                f.write_str(if is_plain { "string --string \"" } else { "string --hex-string \"|" })?;
                for &byte in text {
                    if is_plain { write!(f, "{}", char::from(byte))? } else { write!(f, "{byte:02x}")? }
                }
                f.write_str(if is_plain { "\" --algo bm" } else { "|\" --algo bm" })?;
                if *from > 0 {
                    write!(f, " --from {from}")?;
                }
                if *to < TO_MAX {
                    write!(f, " --to {to}")?;
                }
                f.write_str(if *ignores_case { " --icase" } else { "" })
            }
        }
    }
}

/// Reads the argument of `--hex-string`: text in which digits between bars are bytes.
pub(crate) fn of_hexadecimal(argument: &str) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    for (at, part) in argument.split('|').enumerate() {
        if at % 2 == 0 {
            text.extend_from_slice(part.as_bytes());
            continue;
        }
        let digits: String = part.chars().filter(|c| !c.is_whitespace()).collect();
        if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
            return None;
        }
        for at in (0..digits.len()).step_by(2) {
            text.push(u8::from_str_radix(&digits[at..at + 2], 16).ok()?);
        }
    }
    // The bars come in pairs.
    (argument.split('|').count() % 2 == 1).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: [u8; 28] =
        [0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 9, 0, 53, 0, 8, 0, 0];

    fn holds(contents: &Contents, captured: usize) -> Truth {
        let bytes =
            NetworkBytes { captured: &PACKET[..captured], length: 28, transport: 20, is_forwarded: false };
        contents.holds(bytes).expect("words and texts hold or do not")
    }

    #[test]
    fn words_are_masked_shifted_and_followed() {
        for (expression, truth) in [
            ("6&0xFF=17", Truth::Yes),
            ("6 & 0xFF = 16:18", Truth::Yes),
            ("6&0xFF=6,1", Truth::No),
            ("0>>22&0x3C@0>>16=9 && 0>>22&0x3C@0&0xFFFF=53", Truth::Yes),
            ("0 >> 22 & 0x3C @ 0 & 0xFFFF = 065", Truth::Yes),
            // The packet ends.
            ("25=0", Truth::No),
            ("24=0x80000", Truth::Yes),
            ("0@0=1", Truth::No),
        ] {
            let contents = Contents::of_words(expression).unwrap();
            assert_eq!(holds(&contents, 28), truth, "{expression}");
            let shown = contents.to_string();
            let again = shown.strip_prefix("u32 --u32 \"").and_then(|text| text.strip_suffix('"')).unwrap();
            assert_eq!(Contents::of_words(again), Some(contents));
        }
        let port = Contents::of_words("0>>22&0x3C@0&0xFFFF=53").unwrap();
        assert_eq!(holds(&port, 20), Truth::Maybe, "the capture ends");
        for refused in ["", "6", "6&=1", "6=", "6=1&&", "6>>32=0", "x=1", "6=1:", "09=1", "6%3=1"] {
            assert_eq!(Contents::of_words(refused), None, "{refused}");
        }
    }

    #[test]
    fn match_on_contents_sees_the_decremented_time_to_live() {
        let forwarded = |captured, expression| {
            let bytes = NetworkBytes { captured, length: 28, transport: 20, is_forwarded: true };
            Contents::of_words(expression).and_then(|contents| contents.holds(bytes))
        };
        let holds = |expression| forwarded(&PACKET, expression);
        assert_eq!(holds("8>>24=63 && 8&0xFFFF=0x100 && 6&0xFF=17"), Some(Truth::Yes));
        assert_eq!(holds("8>>24=64"), Some(Truth::No));
        let mut sum = PACKET;
        sum[10..12].copy_from_slice(&[0xff, 0x80]);
        assert_eq!(forwarded(&sum, "8&0xFFFF=0x81"), Some(Truth::Yes), "the carry comes back");
        let v6 = [0x60, 0, 0, 0, 0, 8, 17, 64, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(forwarded(&v6, "4&0xFF=63 && 8=0x1020304"), Some(Truth::Yes));
    }

    #[test]
    fn a_text_lies_between_two_offsets() {
        let contents = |from, to| Contents::of_text(vec![0, 53, 0], [from, to], false).unwrap();
        for (contents, truth) in [
            (contents(0, 65_535), Truth::Yes),
            (contents(22, 25), Truth::Yes),
            (contents(23, 65_535), Truth::No),
            (contents(0, 24), Truth::No),
        ] {
            assert_eq!(holds(&contents, 28), truth, "{contents}");
        }
        assert_eq!(holds(&contents(0, 65_535), 24), Truth::Maybe, "the capture ends");
        assert_eq!(Contents::of_text(Vec::new(), [0, 9], false), None);
        assert_eq!(of_hexadecimal("a|00 35|b"), Some(vec![b'a', 0, 0x35, b'b']));
        assert_eq!((of_hexadecimal("a|0|"), of_hexadecimal("|00")), (None, None));
    }
}
