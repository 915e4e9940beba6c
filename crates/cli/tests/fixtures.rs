//! Captures and rules that transcripts name, and no command of theirs can make.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use flowloom::traffic::write::{Interface, PcapngWriter};

use crate::bytes::{
    block, capture, enhanced, ethernet, gzip, ipv4, pcap, pcap_header, pcap_record, pcapng_header, tcp,
    udp, udp_frame,
};

type Fixture = (&'static str, fn() -> Vec<u8>);

/// Returns a capture of one flow with these times in seconds.
fn stamped(seconds: &[u32]) -> Vec<u8> {
    let packets = seconds.iter().flat_map(|second| pcap_record(*second, 46, 46, &udp_frame(7)));
    pcap_header(1).into_iter().chain(packets).collect()
}

/// Every file that a transcript may name.
pub(crate) const ALL: &[Fixture] = &[
    ("names.pcap", || {
        std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/small/names.pcap")).unwrap()
    }),
    ("udp-0.pcap", || pcap(0)),
    ("udp-3.pcap", || pcap(3)),
    ("udp-5.pcap", || pcap(5)),
    ("udp-10.pcap", || pcap(10)),
    ("udp-500.pcap", || pcap(500)),
    ("udp-600.pcap", || pcap(600)),
    ("udp-20000.pcap", || pcap(20_000)),
    ("whole.pcap.gz", || gzip(&pcap(5000))),
    // Captures with single errors.
    ("corrupt.pcap", || [pcap(5), pcap_record(9, 0x7FFF_FFFF, 60, &[0; 60])].concat()),
    ("block.pcapng", || {
        let first = [pcapng_header(&[1]), enhanced(0, 1, 46, &udp_frame(7))].concat();
        [first, [6_u32, 0x4000_0000].map(u32::to_le_bytes).concat(), vec![0; 200]].concat()
    }),
    ("lie.pcapng", || {
        let packets = [enhanced(0, 1, 4_000_000_000, &udp_frame(7)), enhanced(0, 2, 46, &udp_frame(8))];
        [pcapng_header(&[1]), packets.concat()].concat()
    }),
    ("odd.pcapng", || {
        let packets =
            [block(0x0BAD, &[1; 40]), enhanced(0, 1, 46, &udp_frame(7)), enhanced(9, 2, 46, &udp_frame(7))];
        [pcapng_header(&[1]), packets.concat()].concat()
    }),
    ("back.pcap", || stamped(&[10, 20, 15, 30, 5])),
    ("back-hours.pcap", || stamped(&[1_700_010_000, 1_700_000_000])),
    ("gap-years.pcap", || stamped(&[1_600_000_000, 1_700_000_000])),
    ("ahead.pcap", || stamped(&[4_200_000_000])),
    ("cut.pcap", || [pcap_header(1), pcap_record(1, 44, 46, &udp_frame(7)[..44])].concat()),
    ("more.pcap", || [pcap_header(1), pcap_record(1, 46, 40, &udp_frame(7))].concat()),
    ("ns.pcap", || {
        [0xA1B2_3C4D_u32, 2 | 4 << 16, 0, 0, 65_535, 1, 5, 999_999_999, 0, 60, 6, 1, 0, 60]
            .map(u32::to_le_bytes)
            .concat()
    }),
    ("again.pcap", || [pcap(60), pcap_record(1060, 46, 46, &udp_frame(1000))].concat()),
    ("bus.pcap", || [pcap_header(190), pcap_record(1, 16, 16, &[0; 16])].concat()),
    ("bus.pcapng", || [pcapng_header(&[190]), enhanced(0, 1, 16, &[0; 16])].concat()),
    ("mixed.pcapng", || {
        let packets = (0..10).flat_map(|i| enhanced(i % 2, i, 46, &udp_frame(7))).collect();
        [pcapng_header(&[1, 190]), packets].concat()
    }),
    ("reasons.pcapng", || {
        let frame = udp_frame(7);
        // Whole, cut inside the Ethernet header, and cut inside the IPv4 header.
        let packets = [(0, 46), (0, 10), (1, 46), (0, 20), (1, 46)];
        let packets = (1_u32..).zip(packets).flat_map(|(at, (interface, bytes))| {
            enhanced(interface, at, u32::try_from(bytes).unwrap(), &frame[..bytes])
        });
        [pcapng_header(&[1, 190]), packets.collect()].concat()
    }),
    ("bomb.gz", bomb),
    ("arp.pcap", || {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&[0x08, 0x06]);
        capture(1, &[frame])
    }),
    // Packets for rules.
    ("five.rules", || FIVE_RULES.into()),
    ("three.rules", || THREE_RULES.into()),
    ("r.zst", || zstd::encode_all(FIVE_RULES.as_bytes(), 1).unwrap()),
    ("h.zst", || zstd::encode_all(&b"167772161 16909060 1 80 6\n"[..], 1).unwrap()),
    // Half a gigabyte of empty lines, and a little more.
    ("large.zst", || zstd::encode_all(std::io::Read::take(std::io::repeat(b'\n'), 513 << 20), 1).unwrap()),
    ("tcp.pcap", || capture(1, &[(1, 80), (2, 80), (3, 81)].map(|(host, port)| syn(host, 9, port)))),
    ("open.pcap", || capture(1, &[syn(1, 9, 22), vec![0; 60], syn(1, 9, 80), syn(1, 9, 25)])),
    ("states.pcap", states),
    ("protocols.pcap", protocols),
    ("unreachable.pcap", || {
        let query = ipv4(17, 0, 1, [10, 0, 0, 2], &udp([4000, 53], b""));
        let error = ipv4(1, 0, 2, [10, 0, 0, 1], &[&[3, 3, 0, 0, 0, 0, 0, 0], &query[..]].concat());
        capture(101, &[query, error])
    }),
    ("wan.pcapng", || of_interfaces(&["wan0"], &[(0, syn(1, 1, 2)), (0, datagram(2, 1, 2))])),
    ("unnamed.pcapng", || of_interfaces(&["wan0", ""], &[(0, syn(1, 1, 2))])),
    ("both.pcapng", || two_interfaces(["lan0", "wan0"], 9700)),
    ("other.pcapng", || two_interfaces(["vpn0", "lan0"], 970)),
    // Payloads and tunnels.
    ("talk.pcap", || {
        raw(&[
            (1, 9, 6, tcp([4000, 80], [1, 0], 0x10, b"GET / HTTP/1.1\r\n")),
            (2, 9, 6, tcp([4001, 80], [1, 0], 0x10, b"GET /longer HTTP/1.1\r\n")),
            (1, 9, 17, udp([4002, 5060], b"SIP/2.0 200 OK\r\n")),
            (1, 9, 17, udp([4003, 9999], b"mine, says the payload")),
        ])
    }),
    ("sure.pcap", || {
        raw(&[
            (1, 9, 6, tcp([4000, 80], [1, 0], 0x10, b"GET / HTTP/1.1\r\n\r\n")),
            (9, 1, 6, tcp([80, 4000], [1, 0], 0x10, b"HTTP/1.1 200 OK\r\n\r\n")),
            (1, 9, 6, tcp([4001, 80], [1, 0], 0x10, b"GET / HTTP/1.1\r\n\r\n")),
            (
                1,
                9,
                6,
                tcp([4002, 8080], [1, 0], 0x10, b"\x03\0\0\x13\x0e\xe0\0\0\0\0\0\x01\0\x08\0\x03\0\0\0"),
            ),
            (9, 1, 6, tcp([8080, 4002], [1, 0], 0x10, b"what?\r\n")),
        ])
    }),
    ("http.pcap", || {
        connection(&[
            (true, 2, 99, 0, b""),
            (false, 18, 499, 100, b""),
            (true, 16, 100, 500, b""),
            (true, 24, 100, 500, b"GET /a HTTP/1.1\r\nHost: exam"),
            (true, 24, 127, 500, b"ple.org\r\nUser-Agent: t\x1b[1m\r\n\r\n"),
            (false, 24, 500, 157, b"HTTP/1.1 404 Not Found\r\n\r\n"),
        ])
    }),
    ("conn.pcap", || {
        connection(&[
            (true, 2, 100, 0, b""),
            (false, 18, 500, 101, b""),
            (true, 16, 101, 501, b""),
            (true, 24, 101, 501, b"xxxxxxxxxx"),
            (false, 16, 501, 111, b""),
            (false, 24, 501, 111, b"xxxxxxxxxxxxxxxxxxxx"),
            (true, 17, 111, 521, b""),
            (false, 17, 521, 112, b""),
        ])
    }),
    ("tunnels.pcap", || {
        let tagged = tagged(0x9901, 5, &udp_frame(9));
        capture(1, &[vxlan(4789, &udp_frame(7)), vxlan(8473, &udp_frame(8)), tagged, lldp()])
    }),
    ("many.pcap", || {
        let ip_in_ip = ethernet(&ipv4(4, 0, 3, [198, 51, 100, 2], &udp_frame(9)[14..]));
        let ask = udp_frame(7);
        let tags = [tagged(0x8100, 5, &ask), tagged(0x9901, 5, &udp_frame(9))];
        let [usual, unknown] = tags;
        let frames =
            [ask.clone(), usual, vxlan(4789, &ask), vxlan(4789, &lldp()), ip_in_ip, lldp(), unknown];
        capture(1, &(0..400).map(|at| frames[at % 7].clone()).collect::<Vec<_>>())
    }),
    // Datagrams in fragments.
    ("fragments.pcap", || {
        let frames = (0..200).flat_map(|id| fragments(1000 + id % 10, id, 4));
        capture(1, &frames.chain([lone()]).collect::<Vec<_>>())
    }),
    ("held.pcap", || {
        let frames = [lone()].into_iter().chain((0..200).flat_map(|id| fragments(1000, id, 1)));
        let records = frames.flat_map(|frame| {
            let length = u32::try_from(frame.len()).unwrap();
            pcap_record(1, length, length, &frame)
        });
        [pcap_header(1), records.collect()].concat()
    }),
    ("in-order.pcap", || capture(1, &fragments(1000, 1, 4))),
    ("out-of-order.pcap", || capture(1, &[3, 2, 1, 0].map(|at| fragments(1000, 2, 4)[at].clone()))),
    ("without-first.pcap", || capture(1, &fragments(1000, 3, 4)[1..])),
    ("overlap.pcap", || {
        let mut frames = fragments(1000, 4, 4);
        frames.insert(1, frames[0].clone());
        *frames[1].last_mut().unwrap() = 99;
        capture(1, &frames)
    }),
    ("duplicate.pcap", || capture(1, &[0, 1, 1, 2, 3].map(|at| fragments(1000, 5, 4)[at].clone()))),
    ("v6.pcap", || capture(1, &fragments_v6())),
    ("v6-out-of-order.pcap", || capture(1, &[1, 2, 0].map(|at| fragments_v6()[at].clone()))),
    ("named.pcapng", named),
    ("drops.pcapng", drops),
    ("lengths.pcap", || {
        let mut long = udp_frame(1000);
        long[16..18].copy_from_slice(&1400_u16.to_be_bytes());
        let records = [
            (46, &udp_frame(1000)),
            (46, &long),
            (4_000_000_000, &udp_frame(1000)),
            (262_144, &udp_frame(1000)),
        ];
        let records = (1..).zip(records).flat_map(|(at, (wire, frame))| pcap_record(at, 46, wire, frame));
        [pcap_header(1), records.collect()].concat()
    }),
    ("first.pcap", || capture(1, &[1, 2].map(udp_frame))),
    ("second.pcap", || capture(1, &[3, 1, 4].map(udp_frame))),
    ("tag.pcap", || capture(1, &[udp_frame(1000), tagged(0x8100, 2005, &answer()), udp_frame(1000)])),
    ("tags.pcap", || {
        let [ask, reply] = [udp_frame(1000), answer()];
        capture(1, &[tagged(0x8100, 10, &ask), tagged(0x8100, 20, &reply), tagged(0x8100, 11, &ask)])
    }),
];

/// The second rule is inside the first, and the fourth equals the third.
const FIVE_RULES: &str = "\
@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t
@10.1.0.0/16\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t
@0.0.0.0/0\t192.0.2.0/24\t0 : 65535\t53 : 53\t0x11/0xFF\t0x0000/0x0000\t
@0.0.0.0/0\t192.0.2.0/24\t0 : 65535\t53 : 53\t0x11/0xFF\t
@172.16.0.0/12\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00
";

pub(crate) const THREE_RULES: &str = "\
@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 1023\t0x06/0xFF\t
@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t53 : 53\t0x11/0xFF\t
@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x11/0xFF\t
";

/// Records of zeros of 300 MiB, beyond the size at which the ratio is checked.
fn bomb() -> Vec<u8> {
    let records = pcap_record(1, 65_000, 65_000, &vec![0; 65_000]).repeat(17);
    let mut writer = GzEncoder::new(Vec::new(), Compression::best());
    writer.write_all(&pcap_header(1)).unwrap();
    (0..285).for_each(|_| writer.write_all(&records).unwrap());
    writer.finish().unwrap()
}

const SERVER: [u8; 4] = [192, 0, 2, 1];

/// The first packet of a connection to the server.
fn syn(host: u8, from: u16, to: u16) -> Vec<u8> {
    ethernet(&ipv4(6, 0, host, SERVER, &tcp([from, to], [0, 0], 2, b"")))
}

fn datagram(host: u8, from: u16, to: u16) -> Vec<u8> {
    ethernet(&ipv4(17, 0, host, SERVER, &udp([from, to], b"")))
}

/// Raw IPv4 packets between hosts: the source, the destination, the protocol, the payload.
fn raw(packets: &[(u8, u8, u8, Vec<u8>)]) -> Vec<u8> {
    let packet = |(from, to, protocol, payload): &(u8, u8, u8, Vec<u8>)| {
        ipv4(*protocol, 0, *from, [10, 0, 0, *to], payload)
    };
    capture(101, &packets.iter().map(packet).collect::<Vec<_>>())
}

/// A connection to a web server, a packet per microsecond: whether the client sends it, its flags,
/// sequence and acknowledgement number, payload.
fn connection(packets: &[(bool, u8, u32, u32, &[u8])]) -> Vec<u8> {
    let mut file = pcap_header(1);
    for (at, &(is_client, flags, sequence, acknowledgement, payload)) in (0_u32..).zip(packets) {
        let (from, to, ports) = if is_client { (9, 1, [40_000, 80]) } else { (1, 9, [80, 40_000]) };
        let segment = tcp(ports, [sequence, acknowledgement], flags, payload);
        let frame = ethernet(&ipv4(6, 0, from, [10, 0, 0, to], &segment));
        let bytes = u32::try_from(frame.len()).unwrap();
        file.extend([1_700_000_000, at, bytes, bytes].map(u32::to_le_bytes).concat());
        file.extend(frame);
    }
    file
}

/// Packets of a connection and others, with ICMP errors from a router on the path.
fn states() -> Vec<u8> {
    let segment = |host: u8, ports: [u16; 2], flags: u8| {
        ethernet(&ipv4(6, 0, host, SERVER, &tcp(ports, [0, 0], flags, b"")))
    };
    let mut back = segment(1, [22, 1024], 0x12);
    back[26..34].copy_from_slice(&[192, 0, 2, 1, 10, 0, 0, 1]);
    let error = |about: u16, to: [u8; 4]| {
        let quoted = &segment(1, [about, 22], 2)[14..42];
        ethernet(&ipv4(1, 0, 9, to, &[&[3, 1, 0, 0, 0, 0, 0, 0], quoted].concat()))
    };
    capture(
        1,
        &[
            segment(1, [1024, 22], 2),
            back,
            segment(1, [1024, 22], 0x10),
            segment(2, [1025, 22], 0x12),
            segment(3, [1026, 80], 2),
            // About the connection, about another one, and about the connection but sent to a host
            // that is not one of its ends.
            error(1024, [10, 0, 0, 1]),
            error(1027, [10, 0, 0, 1]),
            error(1024, SERVER),
            // It contains no quoted packet.
            ethernet(&ipv4(1, 0, 9, SERVER, &[3, 1, 0, 0, 0, 0, 0, 0])),
        ],
    )
}

/// Protocols with ports, and fragments.
fn protocols() -> Vec<u8> {
    let ports = |to: u16| udp([1024, to], b"");
    let dccp = [ports(6001), vec![0; 8]].concat();
    let packets: [(u8, u16, Vec<u8>); 6] = [
        (136, 0, ports(6000)),
        (136, 0, ports(6001)),
        (33, 0, dccp),
        (17, 0, ports(53)),
        (17, 0x2000, ports(53)),
        (17, 0x0007, vec![1; 8]),
    ];
    let frames = (1..).zip(packets).map(|(host, (protocol, fragment, payload))| {
        ethernet(&ipv4(protocol, fragment, host, SERVER, &payload))
    });
    capture(1, &frames.collect::<Vec<_>>())
}

/// A capture of frames, each by one of some interfaces.
fn of_interfaces(names: &[&str], frames: &[(usize, Vec<u8>)]) -> Vec<u8> {
    let name = |name: &&str| (!name.is_empty()).then(|| (*name).into());
    let interfaces = names.iter().map(|one| Interface { name: name(one), ..Interface::default() });
    let mut writer = PcapngWriter::new(Vec::new(), interfaces.collect()).unwrap();
    for (at, (interface, frame)) in (0..).zip(frames) {
        writer.write(*interface, 1_000_000 * at, u32::try_from(frame.len()).unwrap(), frame).unwrap();
    }
    writer.finish().unwrap()
}

/// Packets of 97 flows, each of which has its packets by one interface, every third by the second.
fn two_interfaces(names: [&str; 2], count: u16) -> Vec<u8> {
    let packets =
        (0..count).map(|nth| nth % 97).map(|flow| (usize::from(flow % 3 == 0), datagram(1, flow, 53)));
    of_interfaces(&names, &packets.collect::<Vec<_>>())
}

/// A UDP frame to this port that contains another frame after a VXLAN header.
fn vxlan(port: u16, inner: &[u8]) -> Vec<u8> {
    let carried = [&[8, 0, 0, 0, 0, 0, 7, 0], inner].concat();
    ethernet(&ipv4(17, 0, 3, [198, 51, 100, 2], &udp([0xC000, port], &carried)))
}

/// A frame with a tag of this type before its own type.
fn tagged(kind: u16, vlan: u16, frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &kind.to_be_bytes(), &vlan.to_be_bytes(), &frame[12..]].concat()
}

fn lldp() -> Vec<u8> {
    [vec![0; 12], vec![0x88, 0xCC, 2, 7]].concat()
}

/// The answer to the UDP frame of port 1000.
fn answer() -> Vec<u8> {
    let mut frame = udp_frame(1000);
    frame[26..34].rotate_left(4);
    frame[34..38].rotate_left(2);
    frame
}

/// A packet with a comment and flags, by an interface with a name.
fn named() -> Vec<u8> {
    let section = [&0x1A2B_3C4D_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xFF; 8]].concat();
    let interface = [&[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 4, 0][..], b"eth0", &[0, 0, 0, 0]].concat();
    let mut packet = [0_u32, 0, 1, 46, 46].map(u32::to_le_bytes).concat();
    packet.extend(udp_frame(7));
    packet.resize(packet.len().next_multiple_of(4), 0);
    packet.extend(b"\x01\0\x04\0why?\x02\0\x04\0\x01\0\0\0\0\0\0\0");
    [block(0x0A0D_0D0A, &section), block(1, &interface), block(6, &packet)].concat()
}

/// A packet, and the statistics of two interfaces.
fn drops() -> Vec<u8> {
    let mut file = [pcapng_header(&[1, 1]), enhanced(0, 1, 46, &udp_frame(7))].concat();
    for (interface, received, dropped) in [(0_u32, 1000_u64, 37_u64), (1, 5, 0)] {
        let mut body = [&interface.to_le_bytes()[..], &[0; 8]].concat();
        for (code, count) in [(4_u16, received), (5, dropped), (7, 2)] {
            body.extend([&code.to_le_bytes()[..], &[8, 0], &count.to_le_bytes()].concat());
        }
        file.extend(block(5, &body));
    }
    file
}

/// A UDP datagram of 64 bytes from a port, divided into fragments of equal length.
fn fragments(port: u16, id: u16, count: u16) -> Vec<Vec<u8>> {
    let datagram = udp([port, 53], &[7; 56]);
    let step = 64 / count;
    let parts = (0..count).zip(datagram.chunks(step.into()));
    let frames = parts.map(|(at, part)| {
        let mut packet = ipv4(17, (at * step / 8) | (u16::from(at + 1 < count) << 13), 1, SERVER, part);
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        ethernet(&packet)
    });
    frames.collect()
}

/// The first half of a datagram that never becomes complete.
fn lone() -> Vec<u8> {
    fragments(999, 999, 2).swap_remove(0)
}

/// A UDP datagram over IPv6 in three fragments.
fn fragments_v6() -> Vec<Vec<u8>> {
    let datagram = [&[0xC0, 7, 0, 53, 0, 72, 0, 0][..], &[7; 64]].concat();
    let frames = (0_u8..3).zip(datagram.chunks(24)).map(|(at, part)| {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xDD, 0x60, 0, 0, 0, 0, 32, 44, 64];
        for host in [1, 2] {
            frame.extend([0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
        }
        frame.extend([17, 0, 0, (at * 24) | u8::from(at < 2), 0, 0, 0, 6]);
        frame.extend(part);
        frame
    });
    frames.collect()
}
