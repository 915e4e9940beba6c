//! The layer two tunneling protocol: version 2 over UDP, version 3 over UDP and IP.

use super::layers::{Decoded, Layers};
use crate::drop_reason::DropReason;

const CUT: DropReason = DropReason::TruncatedTunnel;
/// Offsets of a session's frame from the session ID: cookies of 0, 4 or 8 bytes, with or without
/// the four bytes of a sublayer. Both ends agree on them in advance, so no field indicates which
/// one applies.
const OFFSETS: [usize; 4] = [4, 8, 12, 16];

/// Bits of the first byte [RFC 2661 §3.1].
mod bit {
    pub(super) const CONTROL: u8 = 0x80;
    pub(super) const LENGTH: u8 = 0x40;
    pub(super) const SEQUENCE: u8 = 0x08;
    pub(super) const OFFSET: u8 = 0x02;
}

impl Layers<'_> {
    pub(super) fn l2tp_over_udp(self, at: usize) -> Decoded {
        let header = self.take::<2>(at, CUT)?;
        if header[0] & bit::CONTROL != 0 {
            return self.message();
        }
        match header[1] & 0xF {
            2 => {
                let flags = header[0];
                let mut end = at + 2 + if flags & bit::LENGTH != 0 { 2 } else { 0 } + 4;
                end += if flags & bit::SEQUENCE != 0 { 4 } else { 0 };
                if flags & bit::OFFSET != 0 {
                    end += 2 + usize::from(self.half(end, CUT)?);
                }
                self.ppp(end)
            }
            3 => self.session(at + 4),
            _ => Err(DropReason::MalformedTunnel),
        }
    }

    pub(super) fn l2tp_over_ip(self, at: usize) -> Decoded {
        // Session 0 is the control channel.
        if *self.take::<4>(at, CUT)? == [0; 4] { self.message() } else { self.session(at) }
    }

    /// Decodes from a session ID on.
    fn session(self, at: usize) -> Decoded {
        self.take::<4>(at, CUT)?;
        let found = self.first_of(OFFSETS.map(|offset| at + offset));
        // A record counts as truncated if it ends before any frame can be recognised.
        if found.is_err() && self.bytes.len() < at + OFFSETS[3] + 14 { Err(CUT) } else { found }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ethernet, inner, ipv4, on, ports, query, udp};
    use crate::link::LinkType;

    #[test]
    fn optional_fields_of_version_2_are_skipped() {
        let read = |header: &[u8]| {
            let carried = on(header, &on(&[0xFF, 3, 0, 0x21], &query()));
            ports(inner(LinkType::RAW, &ipv4(17, &udp(1701, 1701, &carried))))
        };
        assert_eq!(read(&[0, 2, 0, 5, 0, 6]), QUERY);
        assert_eq!(read(&[0x40, 2, 0, 46, 0, 5, 0, 6]), QUERY, "a length");
        assert_eq!(read(&[0x48, 2, 0, 46, 0, 5, 0, 6, 0, 1, 0, 2]), QUERY, "sequence numbers");
        assert_eq!(read(&[0x02, 2, 0, 5, 0, 6, 0, 3, 7, 7, 7]), QUERY, "an offset");
        assert_eq!(read(&[0x02, 2, 0, 5, 0, 6, 0xFF, 0xFF]), Ok((1701, 1701)), "one that leads out");
        assert_eq!(read(&[0xC8, 2, 0, 46, 0, 5, 0, 6, 0, 1, 0, 2]), Ok((1701, 1701)), "control");
        assert_eq!(read(&[0, 7, 0, 5, 0, 6]), Ok((1701, 1701)), "no version");
    }

    #[test]
    fn frame_of_version_3_is_found_after_any_cookie() {
        let frame = ethernet(0x0800, &query());
        for cookie in [0, 4, 8] {
            for sublayer in [0, 4] {
                let session = on(&[0, 0, 0, 7], &vec![0xC5; cookie + sublayer]);
                for carried in [&frame, &on(&[0xFF, 3, 0, 0x21], &query()), &query()] {
                    let bytes = on(&session, carried);
                    assert_eq!(ports(inner(LinkType::RAW, &ipv4(115, &bytes))), QUERY);
                    let over_udp = ipv4(17, &udp(1701, 1701, &on(&[0, 3, 0, 0], &bytes)));
                    assert_eq!(ports(inner(LinkType::RAW, &over_udp)), QUERY);
                }
            }
        }
        let control = on(&[0, 0, 0, 0], &frame);
        assert_eq!(ports(inner(LinkType::RAW, &ipv4(115, &control))), Ok((0, 0)));
    }
}
