//! The Internet checksum, for reports: the decoder does not refuse a packet for a wrong one.
//!
//! Captures taken on the sending host hold packets whose checksums the network card was to fill in.

/// Says whether the IPv4 header at the start of `bytes` sums to zero; `false` where it is cut or its length cannot be.
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
    // Twice: the first fold of at most thirty words can carry once more.
    let folded = (sum & 0xFFFF) + (sum >> 16);
    (folded & 0xFFFF) + (folded >> 16) == 0xFFFF
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 1071's usual illustration: a header whose checksum field is right.
    const HEADER: [u8; 20] = [
        0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xB8, 0x61, 0xC0, 0xA8, 0x00, 0x01,
        0xC0, 0xA8, 0x00, 0xC7,
    ];

    #[test]
    fn a_right_header_is_told_from_a_wrong_one() {
        assert!(ipv4_header_checksum_ok(&HEADER));
        let mut wrong = HEADER;
        wrong[8] -= 1;
        assert!(!ipv4_header_checksum_ok(&wrong));
        assert!(!ipv4_header_checksum_ok(&HEADER[..19]));
        assert!(!ipv4_header_checksum_ok(&[]));
        assert!(!ipv4_header_checksum_ok(&[0x44; 20]));
    }
}
