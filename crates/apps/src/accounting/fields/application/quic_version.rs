//! The version in a long header of QUIC [RFC 8999 §5.1].

/// Maximum length of a connection ID in the recognised versions, in bytes.
const ID_BYTES_MAX: usize = 20;

/// Returns the version of a datagram that begins with a long header of a known version: 1, 2, a
/// draft, Google's `Q0..` and `T05.`, or Meta's `faceb00.`. A version negotiation has no version.
///
/// Only the version and the lengths of the connection IDs are checked, so about one in several
/// hundred million random datagrams is mistaken for QUIC.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::fields::application::quic_version;
/// let initial = [0xC3, 0, 0, 0, 1, 1, 0xAA, 0, 0];
/// assert_eq!(quic_version::read(&initial), Some(1));
/// assert_eq!(quic_version::name(1), "1");
/// assert_eq!(quic_version::name(0xFF00_001D), "draft-29");
/// ```
#[must_use]
pub fn read(datagram: &[u8]) -> Option<u32> {
    let &[first, a, b, c, d, ref ids @ ..] = datagram else { return None };
    let version = u32::from_be_bytes([a, b, c, d]);
    // The bit below the highest is fixed until the endpoints have agreed to grease it [RFC 9287].
    if first & 0xC0 != 0xC0 || !is_known(version) {
        return None;
    }
    let &[bytes, ref ids @ ..] = ids else { return None };
    let rest = ids.get(usize::from(bytes)..)?;
    let is_short = |bytes: u8| usize::from(bytes) <= ID_BYTES_MAX;
    (is_short(bytes) && rest.first().is_some_and(|&bytes| is_short(bytes))).then_some(version)
}

fn is_known(version: u32) -> bool {
    let is_google = matches!(version.to_be_bytes(), [b'Q' | b'T', b'0', b'0'..=b'9', b'0'..=b'9']);
    matches!(version, 1 | 0x6B33_43CF | 0xFF00_0001..=0xFF00_0040 | 0xFACE_B000..=0xFACE_B00F) || is_google
}

/// Returns the name of a version: `1`, `2`, `draft-29`, `Q050`, or the number in hexadecimal.
#[must_use]
pub fn name(version: u32) -> String {
    match (version, version.to_be_bytes()) {
        (1, _) => String::from("1"),
        (0x6B33_43CF, _) => String::from("2"),
        (0xFF00_0001..=0xFF00_0040, [.., draft]) => format!("draft-{draft}"),
        (_, bytes @ [b'Q' | b'T', b'0', ..]) => bytes
            .iter()
            .map(|&byte| if byte.is_ascii_alphanumeric() { char::from(byte) } else { '?' })
            .collect(),
        _ => format!("{version:#010x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_long_headers_of_known_versions_count() {
        let with = |first: u8, version: u32, ids: &[u8]| {
            read(&[&[first][..], &version.to_be_bytes(), ids].concat())
        };
        let ids = [8, 1, 2, 3, 4, 5, 6, 7, 8, 0];
        for version in [1, 0x6B33_43CF, 0xFF00_001D, 0x5130_3530, 0xFACE_B002] {
            assert_eq!(with(0xC0, version, &ids), Some(version));
            assert_eq!(with(0x40, version, &ids), None, "a short header");
            assert_eq!(with(0x80, version, &ids), None, "without the fixed bit");
            assert_eq!(with(0xC0, version, &ids[..9]), None, "cut");
            assert_eq!(with(0xC0, version, &[21; 40]), None, "an ID that is too long");
        }
        assert_eq!(with(0xC0, 0, &ids), None, "a version negotiation");
        assert_eq!(with(0xC0, 0x1A2A_3A4A, &ids), None, "a reserved version");
        assert_eq!(read(&[]), None);
        assert_eq!(["Q050", "0xfaceb002"].map(String::from), [0x5130_3530, 0xFACE_B002].map(name));
    }
}
