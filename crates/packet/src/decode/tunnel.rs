//! Tunnels, followed only when asked for: IP in IP, GRE with all that rides on it, and those over UDP.
//!
//! A port number is no proof: where the bytes behind it are not what the tunnel would have, or carry no IP,
//! the answer is `None` and the packet keeps its outer key.

use super::ethernet::{IPV4, IPV6, TRANSPARENT_ETHERNET};
use super::layers::{Decoded, Layers};
use super::transport::Network;
use crate::reason::DropReason;

const IPV4_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
const UDP: u8 = 17;
const UDP_BYTES: usize = 8;
const CUT: DropReason = DropReason::TruncatedTunnel;

const VXLAN_PORTS: [u16; 2] = [4789, 8472];
const GENEVE_PORT: u16 = 6081;
const GTPU_PORT: u16 = 2152;
const TEREDO_PORT: u16 = 3544;

impl Layers<'_> {
    /// Decodes what is inside a tunnel; `None` where there is none.
    pub(super) fn tunnel(self, network: Network, (source, destination): (u16, u16)) -> Option<Decoded> {
        let is_tunnel = match network.protocol {
            IPV4_IN_IP | IPV6_IN_IP | GRE => true,
            UDP => {
                let ports = [source, destination];
                VXLAN_PORTS.contains(&destination)
                    || [GENEVE_PORT].contains(&destination)
                    || ports.contains(&GTPU_PORT)
                    || ports.contains(&TEREDO_PORT)
            }
            _ => false,
        };
        if !is_tunnel {
            return None;
        }
        let at = network.transport_at;
        let inner = self.deeper().and_then(|layers| match network.protocol {
            IPV4_IN_IP => layers.ipv4(at),
            IPV6_IN_IP => layers.ipv6(at),
            GRE => layers.gre(at),
            _ if VXLAN_PORTS.contains(&destination) => layers.vxlan(at + UDP_BYTES),
            _ if destination == GENEVE_PORT => layers.geneve(at + UDP_BYTES),
            _ if [source, destination].contains(&GTPU_PORT) => layers.gtpu(at + UDP_BYTES),
            _ => layers.teredo(at + UDP_BYTES),
        });
        match inner {
            Ok(headers) => Some(Ok(headers)),
            Err(DropReason::Depth) => Some(Err(DropReason::Depth)),
            Err(reason) if reason.is_truncated() => Some(Err(CUT)),
            Err(_) => None,
        }
    }

    fn gre(self, at: usize) -> Decoded {
        let header = self.take::<4>(at, CUT)?;
        let (flags, version) = (header[0], header[1] & 7);
        let protocol = u16::from_be_bytes([header[2], header[3]]);
        let field = |bit: u8| if flags & bit != 0 { 4 } else { 0 };
        let (key, sequence) = (field(0x20), field(0x10));
        match (version, protocol) {
            (0, _) => {
                // Checksum and routing share one word.
                let at = at + 4 + field(0x80).max(field(0x40)) + key + sequence;
                match protocol {
                    TRANSPARENT_ETHERNET => self.ethernet(at),
                    0x88BE if sequence == 0 => self.ethernet(at), // ERSPAN I: no header of its own.
                    0x88BE => self.ethernet(at + 8),              // ERSPAN II.
                    0x22EB => {
                        // ERSPAN III: twelve bytes, and eight more when the last bit says so.
                        let optional = self.take::<12>(at, CUT)?[11] & 1;
                        self.ethernet(at + 12 + usize::from(optional) * 8)
                    }
                    _ => self.ether_type(protocol, at),
                }
            }
            // The enhanced form of PPTP: always a key, perhaps an acknowledgement; PPP inside.
            (1, 0x880B) => {
                let acknowledgement = if header[1] & 0x80 != 0 { 4 } else { 0 };
                self.ppp(at + 8 + sequence + acknowledgement)
            }
            _ => Err(DropReason::MalformedTunnel),
        }
    }

    fn vxlan(mut self, at: usize) -> Decoded {
        let header = self.take::<8>(at, CUT)?;
        if header[0] & 0x08 == 0 {
            return Err(DropReason::MalformedTunnel);
        }
        self.zone = self.zone.mixed(u32::from_be_bytes([0, header[4], header[5], header[6]]));
        self.ethernet(at + 8)
    }

    fn geneve(mut self, at: usize) -> Decoded {
        let header = self.take::<8>(at, CUT)?;
        if header[0] >> 6 != 0 {
            return Err(DropReason::MalformedTunnel);
        }
        let options = usize::from(header[0] & 0x3F) * 4;
        self.zone = self.zone.mixed(u32::from_be_bytes([0, header[4], header[5], header[6]]));
        match u16::from_be_bytes([header[2], header[3]]) {
            TRANSPARENT_ETHERNET => self.ethernet(at + 8 + options),
            ether_type @ (IPV4 | IPV6) => self.ether_type(ether_type, at + 8 + options),
            _ => Err(DropReason::NotIp),
        }
    }

    fn gtpu(self, at: usize) -> Decoded {
        let header = self.take::<8>(at, CUT)?;
        // Version 1, protocol type GTP, message "G-PDU".
        if header[0] >> 4 != 3 || header[1] != 255 {
            return Err(DropReason::MalformedTunnel);
        }
        let mut inner = at + 8;
        if header[0] & 7 != 0 {
            let mut next = self.take::<4>(inner, CUT)?[3];
            inner += 4;
            let mut layers = self;
            while header[0] & 4 != 0 && next != 0 {
                layers = layers.deeper()?;
                let words = usize::from(layers.take::<1>(inner, CUT)?[0]);
                if words == 0 {
                    return Err(DropReason::MalformedTunnel);
                }
                inner += words * 4;
                next = layers.take::<1>(inner - 1, CUT)?[0];
            }
        }
        self.ip_by_version(inner, CUT)
    }

    fn teredo(self, at: usize) -> Decoded {
        let mut at = at;
        // An authentication header, then the origin's address: either may be missing.
        if *self.take::<2>(at, CUT)? == [0, 1] {
            let lengths = self.take::<4>(at, CUT)?;
            at += 13 + usize::from(lengths[2]) + usize::from(lengths[3]);
        }
        if *self.take::<2>(at, CUT)? == [0, 0] {
            at += 8;
        }
        match self.take::<1>(at, CUT)?[0] >> 4 {
            6 => self.ipv6(at),
            _ => Err(DropReason::MalformedTunnel),
        }
    }
}
