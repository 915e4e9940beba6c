//! JA4: a fingerprint of TLS clients, as defined by FoxIO.
//!
//! ```text
//!  t13d1516h2_8daaf6152771_e5627efa2ab1
//!  │└┤│└┤└┤└┤ └────┬─────┘ └────┬─────┘
//!  │ ││ │ │ │      │            SHA-256 of the sorted extensions without SNI and ALPN, then "_"
//!  │ ││ │ │ │      │            and the signature algorithms in their order
//!  │ ││ │ │ │      SHA-256 of the sorted cipher suites
//!  │ ││ │ │ first and last character of the first ALPN protocol
//!  │ ││ │ number of extensions
//!  │ ││ number of cipher suites
//!  │ │server name: "d" if the extension is there, else "i"
//!  │ highest version
//!  "t" for TCP, "q" for QUIC
//! ```
//!
//! GREASE values (RFC 8701) are always ignored. Hashes are the first twelve hexadecimal digits, or
//! zeros if there is nothing to hash.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;

/// The parts of a ClientHello that enter its fingerprint, in the order of the message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ja4Input<'a> {
    /// Whether QUIC carries the message.
    pub is_quic: bool,
    /// The version of the header.
    pub version: u16,
    /// The versions of `supported_versions`, if the extension is present.
    pub supported_versions: Option<Vec<u16>>,
    /// Cipher suites.
    pub ciphers: Vec<u16>,
    /// Types of extensions.
    pub extensions: Vec<u16>,
    /// The first ALPN protocol.
    pub alpn: Option<&'a [u8]>,
    /// Signature algorithms.
    pub signature_algorithms: Vec<u16>,
}

/// Returns whether a number is reserved to keep servers from relying on known values (RFC 8701).
#[must_use]
pub const fn is_grease(number: u16) -> bool {
    let [high, low] = number.to_be_bytes();
    high == low && high & 0xF == 0xA
}

/// Returns the fingerprint.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::fields::application::ja4::{Ja4Input, ja4};
/// let hello = Ja4Input { version: 0x0303, ciphers: vec![0x0A0A, 0xC02F], ..Ja4Input::default() };
/// assert_eq!(&ja4(&hello)[..10], "t12i010000");
/// ```
#[must_use]
pub fn ja4(hello: &Ja4Input<'_>) -> String {
    let known = |numbers: &[u16]| -> Vec<u16> {
        numbers.iter().copied().filter(|&number| !is_grease(number)).collect()
    };
    let (mut ciphers, mut extensions) = (known(&hello.ciphers), known(&hello.extensions));
    let version = match &hello.supported_versions {
        Some(versions) => known(versions).into_iter().max().unwrap_or(0),
        None => hello.version,
    };
    let mut text = format!(
        "{}{}{}{:02}{:02}{}_",
        if hello.is_quic { 'q' } else { 't' },
        version_digits(version),
        if extensions.contains(&SERVER_NAME) { 'd' } else { 'i' },
        ciphers.len().min(99),
        extensions.len().min(99),
        alpn_characters(hello.alpn),
    );
    ciphers.sort_unstable();
    text.push_str(&hash(&listed(&ciphers)));
    text.push('_');
    extensions.retain(|extension| !matches!(*extension, SERVER_NAME | ALPN));
    extensions.sort_unstable();
    let mut list = listed(&extensions);
    let algorithms = known(&hello.signature_algorithms);
    if !algorithms.is_empty() && !list.is_empty() {
        list.push('_');
        list.push_str(&listed(&algorithms));
    }
    text.push_str(&hash(&list));
    text
}

const fn version_digits(version: u16) -> &'static str {
    match version {
        0x0304 => "13",
        0x0303 => "12",
        0x0302 => "11",
        0x0301 => "10",
        0x0300 => "s3",
        0x0002 => "s2",
        _ => "00",
    }
}

/// Returns the first and last character of a protocol. If either is neither a letter nor a digit,
/// returns the first and last hexadecimal digit of its bytes.
fn alpn_characters(alpn: Option<&[u8]>) -> String {
    match alpn.and_then(|alpn| alpn.first().zip(alpn.last())) {
        None => String::from("00"),
        Some((first, last)) if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() => {
            [*first, *last].map(char::from).iter().collect()
        }
        Some((first, last)) => format!("{:x}{:x}", first >> 4, last & 0xF),
    }
}

/// Returns numbers in four hexadecimal digits each, separated by commas.
fn listed(numbers: &[u16]) -> String {
    let mut list = String::with_capacity(numbers.len() * 5);
    for (at, number) in numbers.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(list, "{}{number:04x}", if at > 0 { "," } else { "" });
    }
    list
}

fn hash(list: &str) -> String {
    if list.is_empty() {
        return String::from("000000000000");
    }
    let digest = Sha256::digest(list.as_bytes());
    digest.iter().take(6).fold(String::with_capacity(12), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example in the published definition.
    fn example() -> Ja4Input<'static> {
        Ja4Input {
            version: 0x0303,
            is_quic: false,
            supported_versions: Some(vec![0x3A3A, 0x0304, 0x0303]),
            ciphers: vec![
                0x2A2A, 0x1301, 0x1302, 0x1303, 0xC02B, 0xC02F, 0xC02C, 0xC030, 0xCCA9, 0xCCA8, 0xC013,
                0xC014, 0x009C, 0x009D, 0x002F, 0x0035,
            ],
            extensions: vec![
                0xFAFA, 0x001B, 0x0000, 0x0033, 0x0010, 0x4469, 0x0017, 0x002D, 0x000D, 0x0005, 0x0023,
                0x0012, 0x002B, 0xFF01, 0x000B, 0x000A, 0x0015,
            ],
            alpn: Some(b"h2"),
            signature_algorithms: vec![0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601],
        }
    }

    #[test]
    fn the_published_example_has_its_fingerprint() {
        assert_eq!(ja4(&example()), "t13d1516h2_8daaf6152771_e5627efa2ab1");
        let mut reordered = example();
        reordered.ciphers.reverse();
        reordered.extensions.reverse();
        assert_eq!(ja4(&reordered), ja4(&example()));
        reordered.signature_algorithms.reverse();
        assert_ne!(ja4(&reordered), ja4(&example()), "the order of signature algorithms counts");
    }

    #[test]
    fn absent_parts_of_ja4_are_zeros() {
        assert_eq!(ja4(&Ja4Input::default()), "t00i000000_000000000000_000000000000");
        let many = Ja4Input { ciphers: (0..200).collect(), version: 0x0300, ..Ja4Input::default() };
        assert!(ja4(&many).starts_with("ts3i990000_"));
    }

    #[test]
    fn a_protocol_that_is_no_text_is_shown_by_its_hexadecimal_digits() {
        for (alpn, shown) in [
            (&b"h2"[..], "h2"),
            (b"http/1.1", "h1"),
            (b"x", "xx"),
            (b"", "00"),
            (&[0xAB], "ab"),
            (&[0xAB, 0xCD], "ad"),
            (&[0x30, 0xAB], "3b"),
            (&[0x30, 0x31, 0xAB, 0xCD], "3d"),
            (&[0x30, 0xAB, 0xCD, 0x31], "01"),
        ] {
            assert_eq!(alpn_characters(Some(alpn)), shown, "{}", alpn.escape_ascii());
        }
    }
}
