//! Ports of servers, by which Zeek finds the responder of a flow whose beginning was not captured.

use std::net::{IpAddr, Ipv4Addr};

use flowloom_packet::Headers;

use super::{TCP, UDP};
use crate::accounting::connection::{ACK, SYN};

/// The ports for which Zeek has an analyzer, in ascending order.
const TCP_SERVERS: [u16; 53] = [
    21, 22, 25, 53, 80, 81, 88, 110, 135, 139, 143, 389, 443, 445, 502, 563, 585, 587, 614, 631, 636, 989,
    990, 992, 993, 995, 1080, 1434, 1883, 2811, 3128, 3268, 3306, 3389, 5060, 5222, 5223, 5269, 5432, 5900,
    6379, 6666, 6667, 6668, 6669, 8000, 8080, 8443, 8883, 8888, 9092, 20000, 25565,
];
const UDP_SERVERS: [u16; 24] = [
    53, 67, 80, 88, 123, 137, 161, 162, 389, 443, 514, 1812, 2123, 2152, 3544, 4011, 4789, 5060, 5072,
    5353, 5355, 6081, 20000, 34980,
];

/// Returns whether the first packet of a flow comes from its responder.
pub(super) fn is_answer(protocol: u8, headers: &Headers) -> bool {
    let tuple = headers.key.tuple(headers.direction);
    let [from, to] = [tuple.source_port, tuple.destination_port];
    match protocol {
        TCP => {
            let is_server = |port: u16| TCP_SERVERS.binary_search(&port).is_ok();
            let flags = headers.tcp_flags & (SYN | ACK);
            flags != SYN && is_server(from) && (!is_server(to) || (flags & SYN == 0 && from < to))
        }
        UDP => {
            let is_server = |port: u16| UDP_SERVERS.binary_search(&port).is_ok();
            let broadcast = IpAddr::V4(Ipv4Addr::BROADCAST);
            is_server(from) && !is_server(to) && tuple.destination != broadcast
        }
        _ => false,
    }
}

#[test]
fn ports_are_sorted() {
    assert!(TCP_SERVERS.is_sorted() && UDP_SERVERS.is_sorted());
}
