//! Fields of flow contents: streams divided into arbitrary segments, with a simple reassembly as
//! the second implementation, and datagrams.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use flowloom_packet::{DecodeOptions, LinkType, decode};

use super::*;
use crate::accounting::fields::application::http_head::{self, HttpHead};
use crate::accounting::fields::application::quic_initial::tests::{crypto, protected};
use crate::accounting::fields::application::tls_hello::tests::example;
use crate::accounting::fields::application::tls_hello::{self, TlsHello, version_name};
use crate::accounting::fields::application::{Reading, dns_message, quic_version, ssh_banner};
use flowloom_record::NO_MEMORY;

type Application = (Tls, (Http, (Ssh, Dns)));

/// The first bytes of directions.
static STREAMS: LazyLock<Vec<&'static [u8]>> = LazyLock::new(|| {
    let server_hello = [&[22, 3, 3, 0, 42, 2, 0, 0, 38, 3, 3][..], &[7; 32], &[0, 0x13, 1, 0, 22]].concat();
    let streams: [Vec<u8>; 12] = [
        example("www.example.org", 1 << 14),
        example("cut.example.org", 100),
        server_hello,
        b"GET /a?b HTTP/1.1\r\nHost: example.org\r\nUser-Agent: x\r\n\r\nGET /second HTTP/1.1\r\n".to_vec(),
        b"\r\nPOST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n".to_vec(),
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n\r\n".to_vec(),
        b"All use is logged.\r\nSSH-2.0-late\r\n".to_vec(),
        b"HTTP/1.1 404 Not Found\r\nServer: y\r\n\r\n".to_vec(),
        b"SSH-2.0-OpenSSH_9.6\r\n\0\0\x05".to_vec(),
        b"SSH-1.99-server\n".to_vec(),
        b"220 example.org ESMTP\r\nSSH-2.0-x\r\n".to_vec(),
        vec![0x16; 5000],
    ];
    streams.into_iter().map(|stream| &*Box::leak(stream.into_boxed_slice())).collect()
});

/// Two directions divided into segments, some of which arrive twice, early or never.
fn talk() -> impl Strategy<Value = Vec<Sent>> {
    let stream =
        || (0..STREAMS.len(), any::<bool>(), prop::collection::vec(1..400_usize, 1..8), any::<u16>());
    let disturbance = prop::collection::vec((any::<prop::sample::Index>(), 0..4_u8), 0..4);
    (stream(), stream(), disturbance, any::<u64>()).prop_map(|(low, high, disturbances, order)| {
        let mut sides =
            [low, high].into_iter().zip([false, true]).map(|((at, has_syn, sizes, begin), is_back)| {
                let begin = u32::from(begin) << 16 | 0xFF00;
                let mut packets = Vec::new();
                let base = if is_back { back } else { there };
                if has_syn {
                    packets.push(base(SYN, begin.wrapping_sub(1), 0));
                }
                let (mut rest, mut sequence) = (STREAMS[at], begin);
                for bytes in sizes.into_iter().chain([rest.len()]) {
                    let (content, behind) = rest.split_at(bytes.min(rest.len()));
                    if !content.is_empty() {
                        packets.push(Sent { content, ..base(ACK, sequence, 1) });
                    }
                    sequence = sequence.wrapping_add(u32::try_from(content.len()).unwrap());
                    rest = behind;
                }
                packets.reverse();
                packets
            });
        let mut sides = [sides.next().unwrap(), sides.next().unwrap()];
        let mut packets = Vec::new();
        for turn in 0.. {
            let side = usize::from(order >> (turn % 64) & 1 != 0);
            let Some(packet) = sides[side].pop().or_else(|| sides[1 - side].pop()) else { break };
            packets.push(packet);
        }
        for (at, kind) in disturbances {
            let at = at.index(packets.len());
            match kind {
                0 => packets.push(packets[at]),
                1 if packets.len() > 1 => drop(packets.remove(at)),
                _ => {
                    let other = (at + 1) % packets.len();
                    packets.swap(at, other);
                }
            }
        }
        packets
    })
}

/// Returns the beginning of a direction: the first copy of each byte, from this one on.
fn reassembled(side: &[&Sent], begin: u32) -> Vec<u8> {
    let mut bytes = BTreeMap::new();
    for packet in side {
        for (at, &byte) in (0..).zip(packet.content) {
            bytes.entry(packet.sequence.wrapping_add(at).wrapping_sub(begin)).or_insert(byte);
        }
    }
    (0_u32..4096).map_while(|at| bytes.get(&at).copied()).collect()
}

/// Returns the result of a reader for a direction. It begins at the SYN, or at the first data.
/// Where this data, without a SYN, is something else, it begins anew at one of the next three
/// segments that lies before that.
fn read_side<T>(side: &[&Sent], read: impl Fn(&[u8], bool) -> Reading<T>) -> Option<T> {
    let mut rest = side;
    loop {
        let first = rest.iter().position(|packet| !packet.content.is_empty())?;
        let syn = rest[..first].iter().rfind(|packet| packet.flags & SYN != 0);
        let begin = syn.map_or(rest[first].sequence, |syn| syn.sequence.wrapping_add(1));
        let of_first = read(&reassembled(&rest[..=first], begin), false);
        if syn.is_some() || !matches!(of_first, Reading::Other) {
            let reading = read(&reassembled(rest, begin), true);
            return if let Reading::Found(found) = reading { Some(found) } else { None };
        }
        let is_earlier = |packet: &&Sent| {
            let number = packet.sequence.wrapping_add(u32::from(packet.flags & SYN != 0));
            (1..1 << 16).contains(&begin.wrapping_sub(number))
        };
        rest = &rest[first + 1..];
        rest = &rest[rest.iter().take(3).position(is_earlier)?..];
    }
}

/// Returns the results of the readers for both directions, read once.
fn expected(packets: &[Sent]) -> Vec<Value> {
    let is_read = |packet: &&Sent| packet.flags & SYN != 0 || !packet.content.is_empty();
    let sides = [false, true].map(|is_back| -> Vec<&Sent> {
        packets.iter().filter(|packet| packet.is_back == is_back).filter(is_read).collect()
    });
    let [mut client, mut version, mut request, mut status] = [const { Vec::<Value>::new() }; 4];
    for side in &sides {
        match read_side(side, tls_hello::read) {
            Some(TlsHello::Client(hello)) if client.is_empty() => {
                client = [hello.server_name, hello.alpn, hello.ja4]
                    .map(|text| Value::from_text(text, false))
                    .to_vec();
            }
            Some(TlsHello::Server(hello)) if version.is_empty() => {
                version = vec![Value::Text(version_name(hello.version).into())];
            }
            _ => {}
        }
        match read_side(side, http_head::read) {
            Some(HttpHead::Request(head)) if request.is_empty() => {
                let texts = [Some(head.method), head.host, Some(head.target), head.user_agent];
                request = texts.map(|text| Value::from_text(text, false)).to_vec();
            }
            Some(HttpHead::Response(code)) if status.is_empty() => {
                status = vec![Value::Number(code.into())];
            }
            _ => {}
        }
    }
    client.resize(3, Value::None);
    version.resize(2, Value::None);
    request.resize(4, Value::None);
    status.resize(1, Value::None);
    let software = sides.map(|side| Value::from_text(read_side(&side, ssh_banner::read), false));
    [client, version, request, status, software.to_vec()].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]
    #[test]
    fn streams_are_read_as_by_a_plain_reassembly(packets in talk()) {
        let found = shown::<(Tls, (Http, Ssh))>(&packets);
        prop_assert_eq!(found, expected(&packets));
    }

    #[test]
    fn the_version_of_quic_is_the_first_of_the_destination_or_of_the_source(
        kinds in prop::collection::vec((0..8_usize, any::<bool>()), 0..12),
    ) {
        let datagrams: Vec<(Vec<u8>, bool)> =
            kinds.into_iter().map(|(kind, is_back)| (datagram(kind), is_back)).collect();
        let mut quic = Quic::default();
        each_datagram(&datagrams, |view| quic.on_packet(view, &FieldStore::default()));
        let mut values = Vec::new();
        quic.values(Direction::LowToHigh, &mut values);
        let version = |is_back: bool| {
            // An empty datagram does not count.
            let is_read = |(bytes, back): &&(Vec<u8>, bool)| *back == is_back && !bytes.is_empty();
            datagrams.iter().filter(is_read).take(8).find_map(|(bytes, _)| quic_version::read(bytes))
        };
        let expected = version(true).or(version(false)).map(quic_version::name);
        prop_assert_eq!(&values[..1], [Value::from_text(expected, false)]);
    }

    #[test]
    fn damaged_message_reads_the_same_from_every_sufficient_prefix(
        stream in 0..STREAMS.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = STREAMS[stream].to_vec();
        for (at, byte) in damage {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let prefix = &bytes[..cut.index(bytes.len())];
        let (early, whole) = (tls_hello::read(prefix, false), tls_hello::read(&bytes, false));
        prop_assert!(early == Reading::More || early == whole, "{early:?}, then {whole:?}");
        let (early, whole) = (http_head::read(prefix, false), http_head::read(&bytes, false));
        prop_assert!(early == Reading::More || early == whole, "{early:?}, then {whole:?}");
        let (early, whole) = (ssh_banner::read(prefix, false), ssh_banner::read(&bytes, false));
        prop_assert!(early == Reading::More || early == whole, "{early:?}, then {whole:?}");
        let _ = (tls_hello::read(prefix, true), http_head::read(prefix, true));
    }

    #[test]
    fn readers_accept_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..600), is_all: bool) {
        let _ = (tls_hello::read(&bytes, is_all), http_head::read(&bytes, is_all));
        let _ = (ssh_banner::read(&bytes, is_all), quic_version::read(&bytes));
        let _ = dns_message::read(&bytes);
    }
}

/// Returns a datagram of one of eight kinds.
fn datagram(kind: usize) -> Vec<u8> {
    let dns = |id: u8, flags: [u8; 2], questions: u8, rest: &[u8]| {
        [&[0, id][..], &flags, &[0, questions, 0, 0, 0, 0, 0, 0], rest].concat()
    };
    match kind {
        0 => dns(1, [1, 0], 1, b"\x01a\0\0\x01\0\x01"),
        1 => dns(1, [0x81, 3], 1, b"\x01a\0\0\x01\0\x01"),
        2 => dns(2, [1, 0], 1, b"\x01b\0\0\x1C\0\x01"),
        3 => dns(2, [0x81, 5], 0, b""),
        4 => vec![0xC0, 0, 0, 0, 1, 0, 0],
        5 => vec![0xC0, 0x6B, 0x33, 0x43, 0xCF, 0, 0],
        6 => vec![0x40; 30],
        _ => Vec::new(),
    }
}

/// Passes each datagram between port 40000 and port 53, decoded, to `show`.
fn each_datagram(datagrams: &[(Vec<u8>, bool)], show: impl FnMut(&PacketView<'_>)) {
    each_with_surplus(datagrams, &[], show);
}

/// Works as [`each_datagram`] does, with these bytes behind each datagram in its IP packet.
fn each_with_surplus(datagrams: &[(Vec<u8>, bool)], surplus: &[u8], mut show: impl FnMut(&PacketView<'_>)) {
    for (payload, is_back) in datagrams {
        let (from, to, ports) = if *is_back { (2, 1, [0, 53, 156, 64]) } else { (1, 2, [156, 64, 0, 53]) };
        let length = u16::try_from(8 + payload.len()).unwrap().to_be_bytes();
        let ip_length = u16::try_from(8 + payload.len() + surplus.len()).unwrap().to_be_bytes();
        let mut packet = vec![0x60, 0, 0, 0, ip_length[0], ip_length[1], 17, 64];
        for host in [from, to] {
            packet.extend([&[0; 15][..], &[host]].concat());
        }
        packet.extend([&ports[..], &length, &[0, 0], payload, surplus].concat());
        let headers = decode(LinkType::RAW, &packet, DecodeOptions::default()).unwrap();
        show(&PacketView::new(&packet, headers, 1, u32::try_from(packet.len()).unwrap()));
    }
}

fn texts<F: Fields>(fields: &F) -> Vec<String> {
    let mut values = Vec::new();
    fields.values(Direction::LowToHigh, &mut values);
    values.iter().map(ToString::to_string).collect()
}

#[test]
fn bytes_behind_a_datagram_are_no_payload_of_it() {
    let datagrams = [(datagram(0), false), (datagram(1), true), (Vec::new(), false)];
    let values = |surplus: &[u8]| {
        let (mut conn, mut features, mut dns) = (Conn::default(), Features::default(), Dns::default());
        each_with_surplus(&datagrams, surplus, |view| {
            conn.on_packet(view, &FieldStore::default());
            features.on_packet(view, &FieldStore::default());
            dns.on_packet(view, &FieldStore::default());
        });
        let features: Vec<String> = Features::COLUMNS
            .iter()
            .zip(texts(&features))
            .filter(|(column, _)| ["fwd_act_data_pkts", "fwd_seg_size_min"].contains(&column.name))
            .map(|(_, text)| text)
            .collect();
        (texts(&conn), features, texts(&dns))
    };
    let without = values(&[]);
    assert_eq!(values(&[9; 16]), without);
    assert!(without.0.contains(&datagram(0).len().to_string()), "{:?}", without.0);
    assert_eq!(without.1, ["8", "1"], "the smallest datagram, and how many have payload");
}

#[test]
fn response_belongs_to_the_first_question() {
    let messages = |kinds: &[(usize, bool)]| {
        let datagrams: Vec<_> = kinds.iter().map(|&(kind, is_back)| (datagram(kind), is_back)).collect();
        let mut dns = Dns::default();
        each_datagram(&datagrams, |view| dns.on_packet(view, &FieldStore::default()));
        texts(&dns)
    };
    assert_eq!(
        messages(&[(0, false), (2, false), (3, true), (1, true)]),
        ["a", "A", "NXDOMAIN", "a A;b AAAA", "a A NXDOMAIN", "b AAAA", ""]
    );
    assert_eq!(
        messages(&[(2, false), (3, true)]),
        ["b", "AAAA", "REFUSED", "b AAAA", "", "", ""],
        "a response without a question"
    );
    assert_eq!(
        messages(&[(1, true)]),
        ["a", "A", "NXDOMAIN", "a A", "a A NXDOMAIN", "", ""],
        "a response has the question too"
    );
    assert_eq!(messages(&[(3, true), (6, false)]), [""; 7]);
    assert_eq!(messages(&[(0, false), (3, true)]), ["a", "A", "", "a A", "", "a A", ""]);
}

#[test]
fn dns_over_tcp_has_a_length_before_the_message() {
    let framed = |kind: usize, cut: usize| -> [&'static [u8]; 2] {
        let message = datagram(kind);
        let bytes = [&u16::try_from(message.len()).unwrap().to_be_bytes()[..], &message].concat();
        let bytes: &'static [u8] = Box::leak(bytes.into_boxed_slice());
        [&bytes[..cut], &bytes[cut..]]
    };
    for cut in 1..15 {
        let mut messages = FirstMessagesOf::default();
        for (content, is_back) in
            framed(0, cut).into_iter().zip([false; 2]).chain(framed(1, cut).into_iter().zip([true; 2]))
        {
            messages.push(content, is_back);
        }
        assert_eq!(messages.read(), [(1, None), (1, Some(3))], "{cut}");
    }
}

/// The first DNS message of each direction of a connection on ports other than those of [`Dns`].
#[derive(Default)]
struct FirstMessagesOf {
    packets: Vec<Sent>,
    sent: [u32; 2],
}

impl FirstMessagesOf {
    fn push(&mut self, content: &'static [u8], is_back: bool) {
        let sequence = &mut self.sent[usize::from(is_back)];
        let packet = if is_back { back(ACK, *sequence, 0) } else { there(ACK, *sequence, 0) };
        self.packets.push(Sent { content, ..packet });
        *sequence += u32::try_from(content.len()).unwrap();
    }

    fn read(&self) -> [(u16, Option<u16>); 2] {
        use crate::accounting::fields::application::first_messages::FirstMessages;
        use crate::accounting::fields::dns::DnsStream;
        let mut messages = FirstMessages::<DnsStream>::default();
        each(&self.packets, |view| messages.add(view, &FieldStore::default()));
        messages.messages().map(|stream| stream.map(|s| (s.first.id, s.first.response_code)).unwrap())
    }
}

#[test]
fn questions_of_a_socket_are_listed_up_to_the_limit() {
    let question = |nth: usize| {
        let name = format!("name-{nth:04}");
        let header = [0, nth.to_le_bytes()[0], 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 9];
        [&header[..], name.as_bytes(), &[0, 0, 28, 0, 1]].concat()
    };
    let text_of = |count: usize| {
        let datagrams: Vec<_> = (0..2 * count).map(|nth| (question(nth / 2), false)).collect();
        let mut dns = Dns::default();
        each_datagram(&datagrams, |view| dns.on_packet(view, &FieldStore::default()));
        texts(&dns)[3].clone()
    };
    let names: Vec<String> = (0..270).map(|nth| format!("name-{nth:04} AAAA")).collect();
    assert_eq!(text_of(270), names.join(";"));
    let cut = text_of(2000);
    assert!(cut.starts_with(&names.join(";")) && cut.ends_with(";…") && cut.len() <= 4096);
}

#[test]
fn first_bytes_of_a_direction_may_arrive_after_later_ones() {
    let data = |sequence: u32, content: &'static [u8]| Sent { content, ..there(ACK, sequence, 0) };
    let request = b"GET /late HTTP/1.1\r\nHost: h\r\n\r\n";
    let body: &'static [u8] = &[b'z'; 9000];
    let http = |packets: &[Sent]| texts(&fields::<Http>(packets))[..3].to_vec();
    let head = [data(1, &request[..12]), data(13, &request[12..])];
    let tail: Vec<Sent> = (0..7).map(|nth| data(34 + 9000 * nth, body)).collect();
    let late = [&[there(SYN, 0, 0)], &tail[..], &head].concat();
    assert_eq!(http(&late), ["GET", "h", "/late"], "63,000 bytes before it");
    for ahead in [60_000, 1 << 16, 70_000, 500_000, 1 << 31, (1 << 31) + 9000] {
        for stray in 1..64 {
            let stray = vec![data(1 + ahead, body); stray];
            let far = [&[there(SYN, 0, 0)], &stray[..], &head].concat();
            assert_eq!(http(&far), ["GET", "h", "/late"], "{ahead}");
            let between = [&[there(SYN, 0, 0), head[0]], &stray[..], &head[1..]].concat();
            assert_eq!(http(&between), ["GET", "h", "/late"], "{ahead}");
        }
    }
    let lost = [&[there(SYN, 0, 0)], &vec![data(1 + (1 << 16), body); 64][..], &head].concat();
    assert_eq!(http(&lost), ["", "", ""], "the bound");
    // Without a SYN the head begins the direction anew.
    let whole = data(1, request);
    assert_eq!(http(&[data(34, body), whole]), ["GET", "h", "/late"]);
    assert_eq!(http(&[data(34, body), data(1, &request[..12])]), ["GET", "…", "/late"]);
    let others: Vec<Sent> = (0..3).map(|nth| data(34 + 9000 * nth, body)).collect();
    assert_eq!(http(&[&others[..], &[whole]].concat()), ["GET", "h", "/late"]);
    assert_eq!(http(&[&others[..], &others[2..], &[whole]].concat()), ["", "", ""], "the bound");
}

/// Passes datagrams of QUIC to the fields, and returns their texts.
fn quic(datagrams: &[(Vec<u8>, bool)]) -> Vec<String> {
    let mut quic = Quic::default();
    each_datagram(datagrams, |view| quic.on_packet(view, &FieldStore::default()));
    texts(&quic)
}

/// The fingerprint of the example over QUIC.
const QUIC_JA4: &str = "q13d1516h2_8daaf6152771_e5627efa2ab1";

#[test]
fn client_hello_of_quic_split_into_any_packets_is_read() {
    let name = "quic.example.org";
    let hello = example(name, 1 << 14)[5..].to_vec();
    let middle = hello.len() / 2;
    let [id, server_id, retry_id] = [&b"original"[..], b"server", b"retry"];
    let part = |range: std::ops::Range<usize>| crypto(u16::try_from(range.start).unwrap(), &hello[range]);
    let (first, second) = (part(0..middle), part(middle..hello.len()));
    for version in [1, 0x6B33_43CF, 0xFF00_001D, 0x5430_3530, 0x1A2A_3A4A] {
        let packet =
            |ids, number: &[u8], frames: &[u8], bytes| protected(version, ids, number, frames, bytes);
        let of_client = |number: u8, frames: &[u8]| packet([id, id], &[number], frames, 1200);
        let answer = (packet([b"client", id], &[0], &[1], 1200), true);
        let small = packet([id, id], &[0], &second[..], second.len() + 50);
        let chaos: Vec<u8> = [350, 100, 0, 250]
            .into_iter()
            .flat_map(|at| {
                let part = part(at.min(hello.len())..hello.len().min(at + 260));
                [vec![0, 0, 1], part].concat()
            })
            .collect();
        let cases = [
            vec![(of_client(0, &part(0..hello.len())), false)],
            vec![(of_client(0, &first), false), (of_client(1, &second), false)],
            vec![(of_client(1, &second), false), answer.clone(), (of_client(0, &first), false)],
            vec![([small, packet([id, id], &[0, 1], &first, 700)].concat(), false)],
            vec![(of_client(0, &chaos), false)],
            // Later packets are sent to the ID of the server, with the keys of the first one.
            vec![
                (of_client(0, &first), false),
                answer.clone(),
                (packet([server_id, id], &[0, 0, 1], &second, 1200), false),
            ],
            // After a retry the handshake begins anew, with other keys.
            vec![
                (of_client(0, &first), false),
                (packet([retry_id, retry_id], &[1], &second, 1200), false),
                (packet([retry_id, retry_id], &[2], &first, 1200), false),
            ],
            vec![answer.clone(), (of_client(0, &part(0..hello.len())), false)],
        ];
        for (nth, case) in cases.iter().enumerate() {
            assert_eq!(quic(case)[1..], [name, "h2,http/1.1", QUIC_JA4, ""], "{version:x} {nth}");
            let backwards: Vec<_> = case.iter().map(|(bytes, is_back)| (bytes.clone(), !is_back)).collect();
            assert_eq!(quic(&backwards)[1..], quic(case)[1..], "either end may be the client");
        }
        let half = quic(&[(of_client(0, &first), false)]);
        assert_eq!(half[3], "…", "a part has no fingerprint");
    }
    let compatible = [
        (protected(1, [id, id], &[0], &first, 1200), false),
        (protected(0x6B33_43CF, [server_id, id], &[1], &[first, second].concat(), 1200), false),
    ];
    assert_eq!(quic(&compatible)[1], name, "version 2 with the first ID");
}

#[test]
fn the_work_for_initial_packets_of_a_flow_is_bounded() {
    let hello = example("late.example.org", 1 << 14)[5..].to_vec();
    let whole = (protected(1, [b"id", b"id"], &[0], &crypto(0, &hello), 1200), false);
    let with_other_keys = |nth: u8| (protected(1, [&[nth], b"x"], &[0], &[1], 100), false);
    for (others, expected) in [(3, "late.example.org"), (4, "")] {
        let mut datagrams: Vec<_> = (0..others).map(with_other_keys).collect();
        datagrams.push(whole.clone());
        assert_eq!(quic(&datagrams)[1], expected, "{others}");
    }
    let unknown = (vec![0xC0, 1, 2, 3, 4, 0, 0, 0, 1, 0], false);
    for (others, expected) in [(15, "late.example.org"), (16, "")] {
        let mut datagrams = vec![unknown.clone(); others];
        datagrams.push(whole.clone());
        assert_eq!(quic(&datagrams)[1], expected, "{others}");
    }
}

#[test]
fn segment_with_uncaptured_bytes_ends_the_analysis_of_its_direction() {
    let stream = example("cut.example.org", 1 << 14);
    let whole: &'static [u8] = Box::leak(stream.into_boxed_slice());
    let mut tls = Tls::default();
    each(&[Sent { content: whole, ..there(ACK, 1, 1) }], |view| {
        // As with a snapshot length that ends after the server name.
        let kept = view.bytes.len() - 120;
        tls.on_packet(
            &PacketView::new(&view.bytes[..kept], view.headers, 1, view.wire_bytes),
            &FieldStore::default(),
        );
    });
    let found = texts(&tls);
    assert_eq!((&*found[0], &*found[2]), ("cut.example.org", "…"), "no fingerprint of a part");
}

#[test]
fn only_requested_groups_are_kept() {
    let stream: &'static [u8] = STREAMS[3];
    let mut app = DetailedAccounting::<AllFields>::new(Accounting::new(None))
        .with_groups([Group::Http].into_iter().collect());
    let mut flow = Detailed::default();
    each(&[Sent { content: stream, ..there(ACK, 1, 1) }], |view| {
        app.on_packet(view, &mut flow);
    });
    let mut values = Vec::new();
    flow.fields().values(Direction::LowToHigh, &mut values);
    for (column, value) in all_columns().iter().zip(&values) {
        let is_kept = column.name.starts_with("http_");
        let is_empty = matches!(value, Value::None | Value::Number(0)) || *value == Value::Text("".into());
        assert!(is_kept || is_empty, "{}: {value}", column.name);
    }
    assert!(values.contains(&Value::Text("example.org".into())));
}

#[test]
fn fields_report_dropped_bytes_and_stay_dropped() {
    let request = b"GET /a HTTP/1.1\r\nHost: example.org\r\n\r\n";
    // The second segment comes first, so the directions wait for the first one.
    let packet = |sequence: u32, content: &'static [u8]| Sent { content, ..there(ACK, sequence, 0) };
    let early = [there(SYN, 0, 0), packet(11, &request[10..])];
    let late = [packet(1, &request[..10])];
    let memory = FieldMemory::new(1 << 20);
    let store = memory.store();
    let take = |fields: &mut Application, packets: &[Sent]| {
        each(packets, |view| fields.on_packet(view, &store));
    };
    let mut kept = Application::default();
    take(&mut kept, &early);
    let mut dropped = kept.clone();
    take(&mut kept, &late);
    assert_eq!(texts(&kept.1.0)[..3], ["GET", "example.org", "/a"]);
    memory.set_limit(0);
    assert_eq!(memory.dropped(), 4, "a text, and three groups that wait");
    take(&mut dropped, &late);
    for fields in [&kept, &dropped] {
        assert_eq!(texts(&fields.1.0)[..3], [NO_MEMORY; 3]);
    }
    assert_eq!(texts(&kept.0), [""; 5], "decided before");
    assert_eq!(texts(&dropped.0), [NO_MEMORY; 5]);
    assert_eq!(texts(&dropped.1.1.0), [NO_MEMORY, ""], "the other direction of SSH has no packets");
    assert_eq!(texts(&dropped.1.1.1), [""; 7], "not a port of DNS");
}
