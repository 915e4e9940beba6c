//! The Internet checksum, for reports and for generated packets. The decoder does not refuse a
//! packet with a wrong checksum.
//!
//! Captures from the sending host hold packets whose checksums the network card fills in later.
#![expect(clippy::cast_possible_truncation, reason = "a folded sum has 16 bits")]

/// Returns whether the IPv4 header at the start of `bytes` sums to zero. Returns `false` if the
/// header is truncated or its length is invalid.
#[must_use]
pub fn ipv4_header_checksum_ok(bytes: &[u8]) -> bool {
    let Some(&first) = bytes.first() else { return false };
    let length = usize::from(first & 0xF) * 4;
    if length < 20 {
        return false;
    }
    let Some(header) = bytes.get(..length) else { return false };
    internet_checksum(&[header]) == 0
}

/// Returns the Internet checksum [RFC 1071] of consecutive parts. Each part except the last has an
/// even length.
#[must_use]
pub fn internet_checksum(parts: &[&[u8]]) -> u16 {
    let word = |pair: &[u8]| u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    let mut sum: u64 = parts.iter().flat_map(|part| part.chunks(2)).map(word).sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

/// Returns a checksum after a 16-bit word of the data has changed, without the data [RFC 1624].
///
/// # Examples
///
/// ```
/// use flowloom_packet::checksum::adjusted;
/// // RFC 1624: the word 0x5555 becomes 0x3285 under the checksum 0xDD2F.
/// assert_eq!(adjusted(0xDD2F, 0x5555, 0x3285), 0x0000);
/// ```
#[must_use]
pub fn adjusted(checksum: u16, before: u16, now: u16) -> u16 {
    let mut sum = u32::from(!checksum) + u32::from(!before) + u32::from(now);
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The well-known example of RFC 1071: a header with a valid checksum.
    const HEADER: [u8; 20] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xB8, 0x61, 0xC0, 0xA8, 0x00, 0x01,
        0xC0, 0xA8, 0x00, 0xC7,
    ];

    #[test]
    fn only_a_header_with_the_right_sum_is_valid() {
        assert!(ipv4_header_checksum_ok(&HEADER));
        let mut wrong = HEADER;
        wrong[8] -= 1;
        assert!(!ipv4_header_checksum_ok(&wrong));
        assert!(!ipv4_header_checksum_ok(&HEADER[..19]));
        assert!(!ipv4_header_checksum_ok(&[]));
        assert!(!ipv4_header_checksum_ok(&[0x44; 20]));
    }
}
