//! Headers that protect their payload: the IP authentication header, ESP with null encryption, and
//! `MACsec`.

use super::layers::{Decoded, Layers};
use super::table::{self, AUTHENTICATION};
use super::transport::Network;
use crate::drop_reason::DropReason;
pub(super) use flowloom_flow_key::protocol::ESP;

/// Maximum number of consecutive authentication headers that the decoder follows.
const AUTHENTICATIONS_MAX: usize = 8;
const ESP_BYTES: usize = 8;
/// Lengths of the integrity check value after an ESP trailer, the usual ones first [RFC 8221 §5,
/// §6].
const CHECK_BYTES: [usize; 6] = [12, 16, 24, 32, 8, 0];
/// Protocols inside ESP: those with ports or an identifier, and IP in tunnel mode.
const CARRIED: [u8; 8] = [1, 4, 6, 17, 41, 47, 58, 132];

/// Bits of `MACsec`'s tag control information [IEEE 802.1AE-2018 §9.5].
mod control {
    pub(super) const VERSION: u8 = 0x80;
    pub(super) const CHANNEL: u8 = 0x20;
    pub(super) const ENCRYPTED: u8 = 0x08;
    pub(super) const CHANGED: u8 = 0x04;
}

impl Layers<'_> {
    /// Removes authentication headers, and on request null-encryption headers, from an IP packet.
    pub(super) fn unprotected(self, network: Network, cut: DropReason) -> Result<Network, DropReason> {
        if network.later_fragment || ![AUTHENTICATION, ESP].contains(&network.protocol) {
            return Ok(network);
        }
        self.without_protection(network, cut)
    }

    #[cold]
    fn without_protection(self, network: Network, cut: DropReason) -> Result<Network, DropReason> {
        let mut network = network;
        for _ in 0..AUTHENTICATIONS_MAX {
            if network.protocol != AUTHENTICATION {
                break;
            }
            let header = self.take::<2>(network.transport_at, cut)?;
            self.note(AUTHENTICATION);
            network.protocol = header[0];
            network.transport_at += (usize::from(header[1]) + 2) * 4;
            if network.transport_at > self.bytes.len() {
                return Err(cut);
            }
        }
        if network.protocol == ESP
            && self.options.esp_null
            && let Some((protocol, end)) = self.null_encrypted(network.transport_at, network.end)
        {
            self.note(ESP);
            network.protocol = protocol;
            network.transport_at += ESP_BYTES;
            network.end = end;
        }
        Ok(network)
    }

    /// Records that a header of this protocol was removed.
    pub(super) fn note(self, protocol: u8) {
        if let (Some(trace), Some(entry)) = (self.trace, table::of_protocol(protocol)) {
            trace.enter(entry);
        }
    }

    /// Returns the protocol inside an unencrypted ESP packet, and where its payload ends.
    ///
    /// No field says that the packet is unencrypted. Its trailer must be that of a plain packet,
    /// with the padding 1, 2, 3, … of RFC 4303 §2.4, and the whole packet must be captured.
    fn null_encrypted(self, at: usize, end: usize) -> Option<(u8, usize)> {
        let packet = self.bytes.get(at..end)?;
        CHECK_BYTES.into_iter().find_map(|check| {
            let inner = packet.get(ESP_BYTES..packet.len().checked_sub(check)?)?;
            let (trailer, data) = (inner.last_chunk::<2>()?, inner.len() - 2);
            let [padding, protocol] = *trailer;
            let payload = data.checked_sub(usize::from(padding))?;
            let is_counted = inner[payload..data].iter().zip(1_u8..).all(|(&byte, count)| byte == count);
            let is_plain = match protocol {
                4 | 41 => self.is_ip(at + ESP_BYTES) == Some(if protocol == 4 { 4 } else { 6 }),
                _ => CARRIED.contains(&protocol) && padding > 0,
            };
            (inner.len().is_multiple_of(4) && is_counted && is_plain)
                .then_some((protocol, at + ESP_BYTES + payload))
        })
    }

    /// Decodes ESP after a UDP header: in tunnel mode and unencrypted, on request.
    pub(super) fn esp_in_udp(self, at: usize) -> Decoded {
        if *self.take::<4>(at, DropReason::TruncatedTunnel)? == [0; 4] {
            return self.message(); // The marker of a key exchange.
        }
        if self.options.esp_null {
            // The end of the datagram is unknown here. The end of the record may lie after a
            // link-layer trailer.
            let longest = self.bytes.len();
            let shortest = longest.saturating_sub(64).max(at);
            for end in (shortest..=longest).rev() {
                match self.null_encrypted(at, end) {
                    Some((4, _)) => return self.ipv4(at + ESP_BYTES),
                    Some((41, _)) => return self.ipv6(at + ESP_BYTES),
                    _ => {}
                }
            }
        }
        Err(DropReason::Encrypted)
    }

    /// Skips a `MACsec` tag, if its payload is neither encrypted nor changed.
    pub(super) fn macsec(self, at: usize) -> Decoded {
        let tag = self.take::<6>(at, DropReason::TruncatedLink)?;
        if tag[0] & control::VERSION != 0 {
            return Err(DropReason::MalformedLink);
        }
        if tag[0] & (control::ENCRYPTED | control::CHANGED) != 0 {
            return Err(DropReason::Encrypted);
        }
        let at = at + if tag[0] & control::CHANNEL != 0 { 14 } else { 6 };
        let ether_type = self.half(at, DropReason::TruncatedLink)?;
        self.deeper()?.ether_type(ether_type, at + 2)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ethernet, inner, ipv4, ipv6, on, plain, ports, query, udp};
    use crate::decode::{DecodeOptions, decode};
    use crate::drop_reason::DropReason;
    use crate::link::LinkType;

    fn authenticated(next: u8, words: u8, carried: &[u8]) -> Vec<u8> {
        on(&on(&[next, words, 0, 0], &vec![7; usize::from(words) * 4 + 4]), carried)
    }

    #[test]
    fn authentication_is_skipped_in_both_families() {
        let read = |packet: &[u8]| ports(plain(LinkType::RAW, packet));
        let datagram = udp(1000, 53, b"ask?");
        for words in [1, 4, 7] {
            assert_eq!(read(&ipv4(51, &authenticated(17, words, &datagram))), QUERY);
            assert_eq!(read(&ipv6(51, &authenticated(17, words, &datagram))), QUERY);
        }
        let twice = authenticated(51, 4, &authenticated(17, 1, &datagram));
        assert_eq!(read(&ipv4(51, &twice)), QUERY);
        assert_eq!(ports(inner(LinkType::RAW, &ipv4(51, &authenticated(4, 4, &query())))), QUERY);
        let endless = (0..9).fold(datagram.clone(), |carried, level| {
            authenticated(if level == 0 { 17 } else { 51 }, 1, &carried)
        });
        let protocol = plain(LinkType::RAW, &ipv4(51, &endless)).map(|headers| headers.tuple().protocol);
        assert_eq!(protocol, Ok(51), "more than are followed");
        let whole = ipv4(51, &authenticated(17, 4, &datagram));
        assert_eq!(read(&whole[..30]), Err(DropReason::TruncatedIpv4));
        assert_eq!(read(&whole[..21]), Err(DropReason::TruncatedIpv4));
    }

    #[test]
    fn null_encryption_is_read_only_on_request() {
        let datagram = udp(1000, 53, b"ask?");
        let check = [9; 16];
        for (next, carried) in [(4, query()), (17, datagram)] {
            for check_bytes in [12, 16] {
                let padding: &[u8] = &[1, 2];
                let body = [&[0, 0, 1, 0, 0, 0, 0, 1], &carried[..], padding, &[2, next]].concat();
                let packet = ipv4(50, &on(&body, &check[..check_bytes]));
                let asked = DecodeOptions::new().with_decap(true).with_esp_null(true);
                assert_eq!(ports(decode(LinkType::RAW, &packet, asked)), QUERY, "{next}, {check_bytes}");
                assert_eq!(ports(inner(LinkType::RAW, &packet)), Ok((0, 0)), "not on request");
                let cut = &packet[..packet.len() - 30];
                assert_eq!(ports(decode(LinkType::RAW, cut, asked)), Ok((0, 0)), "its trailer is cut");
            }
        }
        let random: Vec<u8> = (0_u8..64).map(|i| i.wrapping_mul(167) ^ 0x5A).collect();
        let asked = DecodeOptions::new().with_decap(true).with_esp_null(true);
        assert_eq!(ports(decode(LinkType::RAW, &ipv4(50, &random), asked)), Ok((0, 0)), "encrypted");
    }

    #[test]
    fn security_indices_separate_flows_on_request() {
        let packet = |index: u32| ipv4(50, &[&index.to_be_bytes()[..], &[0, 0, 0, 1], &[7; 40]].concat());
        let asked = DecodeOptions::new().with_esp_spi(true);
        let key = |index| decode(LinkType::RAW, &packet(index), asked).map(|headers| headers.key);
        assert!(key(123).is_ok() && key(123) == key(123));
        assert_ne!(key(123), key(321));
        assert_eq!(ports(decode(LinkType::RAW, &packet(0x0001_0203), asked)), Ok((1, 0x0203)));
        assert_eq!(ports(plain(LinkType::RAW, &packet(7))), Ok((0, 0)), "not on request");
        let cut = decode(LinkType::RAW, &packet(7)[..23], asked);
        assert_eq!(cut, Err(DropReason::TruncatedTransport));
    }

    #[test]
    fn macsec_without_encryption_is_skipped_like_a_tag() {
        let read = |bytes: &[u8]| ports(plain(LinkType::ETHERNET, &ethernet(0x88E5, bytes)));
        let rest = on(&[0x08, 0x00], &query());
        for association in 0..4 {
            for flags in [0x00, 0x40, 0x10] {
                assert_eq!(read(&on(&[flags | association, 0, 0, 0, 0, 7], &rest)), QUERY);
            }
            let with_channel = on(&[0x20 | association, 48, 0, 0, 0, 7, 2, 0, 0, 0, 0, 1, 0, 1], &rest);
            assert_eq!(read(&with_channel), QUERY);
            for hidden in [0x04, 0x08, 0x0C] {
                let bytes = on(&[hidden | association, 0, 0, 0, 0, 7], &rest);
                assert_eq!(read(&bytes), Err(DropReason::Encrypted));
            }
        }
        assert_eq!(read(&on(&[0x80, 0, 0, 0, 0, 7], &rest)), Err(DropReason::MalformedLink));
        assert_eq!(read(&[0x20, 0, 0, 0, 0, 7, 2, 0]), Err(DropReason::TruncatedLink));
    }
}
