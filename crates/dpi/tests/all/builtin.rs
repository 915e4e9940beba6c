//! The built-in patterns: texts that they match, texts that they do not, and the size of their
//! tables.

use std::collections::HashSet;

use flowloom_dpi::reference::Rescanner;
use flowloom_dpi::{MatchState, Origin, Outcome, ScanState, Scanner, Transport, builtin};

/// First bytes of one side, written by hand from the specifications, with the expected label.
const TCP: &[(&str, &[u8])] = &[
    ("http", b"GET /index.html HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("http", b"HTTP/1.0 404 Not Found\r\n"),
    ("websocket", b"GET /chat HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n"),
    ("http2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("rtsp", b"OPTIONS rtsp://a/b RTSP/1.0\r\nCSeq: 1\r\n"),
    ("sip", b"REGISTER sip:a.example SIP/2.0\r\n"),
    ("tls", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
    ("tls", b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10"),
    ("ssh", b"SSH-2.0-OpenSSH_9.6\r\n"),
    ("ssh", b"\tall use is logged\n\r\nSSH \r\nSSH-1.99-Cisco-1.25\n"),
    ("ssh", "Grüße\r\nSSH-2.0-OpenSSH_9.6\r\n".as_bytes()),
    ("http", b"POST / HTTP/1.1\r\nHost: a\r\n\r\nSSH-2.0-a\r\n"),
    ("smtp", b"220 mx.example ESMTP\r\nSSH-2.0-a\r\n"),
    ("ftp", b"220 ProFTPD ready\r\n"),
    ("ftp", b"220 ready\r\n331 password please\r\n"),
    ("smtp", b"220 mx.example ESMTP\r\n"),
    ("smtp", b"EHLO client.example\r\n"),
    ("pop3", b"+OK ready <1.2@example>\r\n"),
    ("imap", b"* OK IMAP4rev2 ready\r\n"),
    ("nntp", b"200 news.example posting allowed\r\n"),
    ("irc", b"NICK anna\r\nUSER anna 0 * :Anna\r\n"),
    ("xmpp", b"<?xml version='1.0'?><stream:stream to='a'"),
    ("telnet", b"\xff\xfd\x18\xff\xfd\x20"),
    ("vnc", b"RFB 003.008\n"),
    ("rsync", b"@RSYNCD: 31.0\n"),
    ("git", b"0032git-upload-pack /project.git\0host=a\0"),
    ("x11", b"l\0\x0b\0\0\0\0\0\0\0\0\0"),
    ("bittorrent", b"\x13BitTorrent protocol\0\0\0\0"),
    ("dns-tcp", b"\0\x1d\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01"),
    ("ldap", b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\0\x80\0"),
    ("bgp", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0\x13\x04"),
    ("postgresql", b"\0\0\0\x08\x04\xd2\x16\x2f"),
    ("redis", b"*1\r\n$4\r\nPING\r\n"),
    ("memcached", b"set key 0 60 5\r\nvalue\r\n"),
    ("amqp", b"AMQP\0\0\x09\x01"),
    ("nfs-tcp", b"\x80\0\0\x18\x12\x34\x56\x78\0\0\0\0\0\0\0\x02\0\x01\x86\xa3\0\0\0\x03\0\0\0\x01"),
    ("whatsapp", b"ED\0\x01\0\0\x04\x08\x05\x08\x02WA\x02\x01\0\0\xee"),
    ("alicloud", b"\xce\xfa\xbe\xba\x80\0\0\0"),
    ("tplink-smart-home-tcp", b"\0\0\0\x04\xd0\xf2\x81\xf8"),
    ("mqtt", b"\x10\x10\0\x04MQTT\x04\x02\0\x3c\0\x04abcd"),
    ("rdp", b"\x03\0\0\x13\x0e\xe0\0\0\0\0\0\x01\0\x08\0\x03\0\0\0"),
    ("s7comm", b"\x03\0\0\x19\x02\xf0\x80\x32\x01\0\0\0\0\0\x08\0\0\xf0"),
    ("modbus", b"\0\x01\0\0\0\x06\x01\x03\0\0\0\x0a"),
    ("dnp3", b"\x05\x64\x05\xc0\x01\0\0\x04\xe9\x21"),
    ("socks", b"\x05\x01\0"),
    ("socks", b"\x04\x01\0\x50\x01\x02\x03\x04anna\0"),
    ("gopher", b"0About\t/about\tgopher.example\t70\r\n"),
    ("whois", b"% This is the EXAMPLE whois server\r\n"),
];

const UDP: &[(&str, &[u8])] = &[
    ("dns", b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01"),
    ("llmnr", b"\x12\x34\0\0\0\x01\0\0\0\0\0\0\x04wpad\0\0\x01\0\x01"),
    ("mdns", b"\0\0\0\0\0\x01\0\0\0\0\0\0\x05_http\x04_tcp\x05local\0\0\x0c\0\x01"),
    ("netbios-ns", b"\x12\x34\x01\x10\0\x01\0\0\0\0\0\0\x20EKEGEEELCACACACACACACACACACACACA\0\0\x20\0\x01"),
    ("ssdp", b"M-SEARCH * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\n"),
    ("stun", b"\0\x01\0\0\x21\x12\xa4\x42abcdefghijkl"),
    ("quic", b"\xc3\0\0\0\x01\x08abcdefgh\0\0\x44\x9e"),
    ("syslog", b"<34>1 2026-01-02T03:04:05Z host app - - - text"),
    ("tftp", b"\0\x01boot.img\0octet\0"),
    ("bittorrent-dht", b"d1:ad2:id20:abcdefghij0123456789e1:q4:ping1:t2:aa1:y1:qe"),
    ("sip", b"SIP/2.0 200 OK\r\n"),
    ("coap", b"\x40\x01\x12\x34\xb4test"),
    ("bacnet", b"\x81\x0b\0\x0c\x01\x20\xff\xff\0\xff\x10\x08"),
    ("nfs", b"\x12\x34\x56\x78\0\0\0\0\0\0\0\x02\0\x01\x86\xa3\0\0\0\x03\0\0\0\x06"),
    ("sunrpc", b"\x12\x34\x56\x78\0\0\0\0\0\0\0\x02\0\x01\x86\xa3\0\0\0\x03\0\0\0\0"),
    ("bjnp", b"BJNP\x01\x01\0\0\0\0\0\0\0\0\0\0"),
    ("bsdp", b"SEARCH BSDP/0.1\nDEVICE=0\n"),
    ("tplink-smart-home", b"\xd0\xf2\x81\xf8\x8b\xff\x9a\xf7"),
    ("tuya-lan", b"\0\0\x55\xaa\0\0\0\0\0\0\0\x13\0\0\0\x08abcdefgh"),
    ("sunrpc", b"\x12\x34\x56\x78\0\0\0\0\0\0\0\x02\0\x01\x86\xa0\0\0\0\x02\0\0\0\0"),
    ("radius", b"\x01\x05\0\x2cabcdefghijklmnop\x01\x06anna\x02\x12abcdefghijklmnop"),
];

/// The same, truncated: with the length of the datagram, or of the first record of the stream.
const CUT: &[(Transport, &str, &[u8], usize)] = &[
    (Transport::Tcp, "diameter", b"\x01\0\0\x98\x80\0\x01\x01\0\0\0\0", 152),
    (Transport::Tcp, "smb", b"\0\0\0\x85\xffSMB\x72\0\0\0\0", 137),
    (Transport::Tcp, "smb", b"\0\0\0\xe4\xfeSMB\x40\0\0\0", 232),
    (Transport::Tcp, "mysql", b"\x4a\0\0\0\x0a8.0.36\0\x08\0\0\0", 78),
    (Transport::Tcp, "postgresql", b"\0\0\0\x29\0\x03\0\0user\0anna\0", 41),
    (Transport::Tcp, "mongodb", b"\x3a\0\0\0\x01\0\0\0\0\0\0\0\xd4\x07\0\0\0\0\0\0", 58),
    (Transport::Udp, "snmp", b"\x30\x29\x02\x01\x01\x04\x06public\xa0\x1c", 43),
    (Transport::Udp, "kerberos", b"\x6a\x81\xb0\x30\x81\xad\xa1\x03\x02\x01\x05\xa2\x03\x02\x01\x0a", 179),
    (Transport::Udp, "slp", b"\x02\x01\0\0\x31\x20\0\0\0\0\x12\x34\0\x02en", 49),
    (Transport::Udp, "dtls", b"\x16\xfe\xfd\0\0\0\0\0\0\0\0\0\x9a\x01\0\0\x8e", 167),
];

fn name(scanner: &Scanner, transport: Transport, payload: &[u8]) -> Option<String> {
    scanner.scan_whole(transport, payload).map(|found| scanner.name(found.pattern).to_owned())
}

#[test]
fn protocols_are_named_by_the_first_bytes_of_their_specification() {
    let scanner = Scanner::new(&builtin()).unwrap();
    let mut wrong = Vec::new();
    for (transport, list) in [(Transport::Tcp, TCP), (Transport::Udp, UDP)] {
        for &(expected, payload) in list {
            let found = name(&scanner, transport, payload);
            if found.as_deref() != Some(expected) {
                wrong.push(format!("{expected}, not {found:?}: {}", payload.escape_ascii()));
            }
        }
    }
    for &(transport, expected, payload, size) in CUT {
        let at = |size: usize| {
            let found = match transport {
                Transport::Udp => scanner.scan_datagram(payload, size, Origin::UNKNOWN),
                Transport::Tcp => {
                    let mut stream = payload.to_vec();
                    stream.resize(size, 0);
                    scanner.scan_whole(transport, &stream)
                }
            };
            found.map(|found| scanner.name(found.pattern))
        };
        if at(size) != Some(expected) || at(size - 1) == Some(expected) {
            wrong.push(format!("{expected}, not {:?}: {}", at(size), payload.escape_ascii()));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn datagram_longer_than_its_length_field_loses_its_label() {
    let scanner = Scanner::new(&builtin()).unwrap();
    let tell_their_length = ["stun", "bacnet", "slp", "radius", "tftp"];
    let mut checked = 0;
    for &(label, payload) in UDP.iter().filter(|(label, _)| tell_their_length.contains(label)) {
        for more in [1, 2, 40] {
            let mut longer = payload.to_vec();
            longer.resize(payload.len() + more, b'x');
            assert_ne!(name(&scanner, Transport::Udp, &longer).as_deref(), Some(label));
            checked += 1;
        }
    }
    assert_eq!(checked, 12);
    for &(transport, label, payload, size) in CUT.iter().filter(|cut| cut.0 == Transport::Udp) {
        let found = scanner.scan_datagram(payload, size + 1, Origin::UNKNOWN);
        assert_ne!(found.map(|found| scanner.name(found.pattern)), Some(label), "{transport:?}");
    }
}

#[test]
fn exact_lengths_are_required() {
    let scanner = Scanner::new(&builtin()).unwrap();
    let mut packet = vec![1, 0, 0, 0];
    packet.resize(148, 7);
    assert_eq!(name(&scanner, Transport::Udp, &packet).as_deref(), Some("wireguard"));
    packet.push(7);
    assert_ne!(name(&scanner, Transport::Udp, &packet).as_deref(), Some("wireguard"));
    let mut dhcp = vec![1, 1, 6, 0];
    dhcp.resize(236, 0);
    dhcp.extend([0x63, 0x82, 0x53, 0x63, 0x35, 1, 1]);
    assert_eq!(name(&scanner, Transport::Udp, &dhcp).as_deref(), Some("dhcp"));
    let mut ntp = vec![0x23, 0, 6, 0xec];
    ntp.resize(48, 0);
    assert_eq!(at(&scanner, 123, &ntp), Some("ntp"));
    assert_eq!(at(&scanner, 124, &ntp), None);
    ntp.push(0);
    assert_eq!(at(&scanner, 123, &ntp), None);
}

/// Returns the label of a datagram to a port.
fn at<'a>(scanner: &'a Scanner, port: u16, payload: &[u8]) -> Option<&'a str> {
    let origin = Origin::UNKNOWN.between([40_000, port]);
    scanner.scan_datagram(payload, payload.len(), origin).map(|found| scanner.name(found.pattern))
}

#[test]
fn headers_without_a_magic_number_match_only_on_their_ports() {
    let scanner = Scanner::new(&builtin()).unwrap();
    let stream = |port: u16, bytes: &[u8]| {
        let (mut state, mut found) = (ScanState::default(), MatchState::default());
        scanner.feed(Transport::Tcp, &mut state, &mut found, bytes);
        match scanner.outcome(Transport::Tcp, &state, found, Origin::UNKNOWN.between([40_000, port]), 0) {
            Outcome::Matched(found) => Some(scanner.name(found.pattern)),
            _ => None,
        }
    };
    let method = b"\x01\0\x01\0\0\0\x08\0\x3c\0\x15\0\0\0\0\xce";
    let point = [&[1, 2, 4][..], &[0x5A; 257]].concat();
    for (label, port, bytes) in [("amqp", 5672, &method[..]), ("ethereum-rlpx", 30303, &point)] {
        assert_eq!(stream(port, bytes), Some(label));
        assert_eq!(stream(port, &bytes[..bytes.len() - 2]), None, "cut");
        assert_ne!(stream(8801, bytes), Some(label));
    }
    // RLP lists with a length in their first byte, and in one and two bytes after it.
    for (head, bytes) in [(&[0xE6][..], 38), (&[0xF8, 0x54], 0x54), (&[0xF9, 1, 4], 0x104)] {
        let ping = [&[0x5A; 97], &[1][..], head, &vec![0x5A; bytes]].concat();
        assert_eq!(at(&scanner, 30_303, &ping), Some("ethereum-discovery"));
        assert_ne!(at(&scanner, 8801, &ping), Some("ethereum-discovery"));
        assert_ne!(at(&scanner, 30_303, &ping[..ping.len() - 1]), Some("ethereum-discovery"));
    }
}

#[test]
fn short_headers_match_ntp_and_radius_only_on_their_ports() {
    let scanner = Scanner::new(&builtin()).unwrap();
    let accounted = [&b"\x05\x07\0\x14"[..], &[0x5A; 16]].concat();
    for (label, port, payload) in [
        ("ntp", 123, &b"\x17\0\x03\x2a\0\0\0\0"[..]),
        ("ntp", 123, b"\x16\x02\0\x01\0\0\0\0\0\0\0\0"),
        ("radius", 1813, &accounted),
    ] {
        assert_eq!(at(&scanner, port, payload), Some(label));
        assert_ne!(at(&scanner, 8801, payload), Some(label));
    }
    // With a User-Name, it is RADIUS on any port.
    assert_eq!(at(&scanner, 8801, UDP[UDP.len() - 1].1), Some("radius"));
}

#[test]
fn every_pattern_has_a_specification_and_a_name_of_its_own() {
    let patterns = builtin();
    let names: HashSet<&str> = patterns.iter().map(|pattern| pattern.name.as_str()).collect();
    assert_eq!(names.len(), patterns.len());
    assert!(names.len() >= 200, "{}", names.len());
    for pattern in &patterns {
        assert!(!pattern.spec.is_empty(), "{} names no specification", pattern.name);
    }
}

#[test]
fn every_builtin_pattern_is_anchored_and_the_tables_are_small() {
    let scanner = Scanner::new(&builtin()).unwrap();
    let size = scanner.size();
    eprintln!("{size:?}");
    assert!(size.groups[0] <= 4 && size.groups[1] <= 4, "{size:?}");
    assert!(size.bytes <= 17 << 20, "{size:?}");
    // Anchored automata end early: on noise, no pattern can match after a few hundred bytes.
    let mut seed = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 56) as u8
    })
    .take(4096)
    .collect();
    for start in 0..64 {
        for transport in Transport::ALL {
            let mut state = ScanState::default();
            assert_ne!(scanner.scan(transport, &mut state, &noise[start..start + 2048]), Outcome::Open);
        }
    }
}

#[test]
fn random_payload_rarely_gets_a_label() {
    let rescanner = Rescanner::new(&builtin()).unwrap();
    let scanner = Scanner::new(&builtin()).unwrap();
    let mut seed = 7_u64;
    let mut named = [0_u32; 2];
    let rounds = 20_000;
    for _ in 0..rounds {
        let payload: Vec<u8> = (0..64)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (seed >> 56) as u8
            })
            .collect();
        for transport in Transport::ALL {
            let found = scanner.scan_whole(transport, &payload);
            assert_eq!(found, rescanner.first(transport, &payload));
            named[transport as usize] += u32::from(found.is_some());
        }
    }
    eprintln!("{named:?} of {rounds} random payloads were named");
    assert!(named[0] < rounds / 500 && named[1] < rounds / 200, "{named:?}");
}
