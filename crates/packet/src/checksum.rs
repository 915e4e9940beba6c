//! The Internet checksum, for reports. The decoder does not refuse a packet with a wrong checksum.
//!
//! Captures from the sending host hold packets whose checksums the network card fills in later.

/// Returns whether the IPv4 header at the start of `bytes` sums to zero. Returns `false` if the
/// header is cut or its length is invalid.
#[must_use]
pub fn ipv4_header_checksum_ok(bytes: &[u8]) -> bool {
    let Some(&first) = bytes.first() else { return false };
    let length = usize::from(first & 0xF) * 4;
    if length < 20 {
        return false;
    }
    let Some(header) = bytes.get(..length) else { return false };
    let sum: u32 =
        header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    // Fold twice: the first fold of at most thirty words can carry once more.
    let folded = (sum & 0xFFFF) + (sum >> 16);
    (folded & 0xFFFF) + (folded >> 16) == 0xFFFF
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
