//! The L7 filter over hand-made packets: states, order, overlaps and limits, with the incremental
//! scan and the paper's scan.

use flowloom_apps::{Confidence, L7Filter, L7Flow, L7Options, L7Plan, L7State};
use flowloom_dpi::builtin;
use flowloom_dpi::load::parse_own;
use flowloom_engine::record::Value;
use flowloom_engine::{App as _, FlowState as _, Verdict};
use flowloom_flow_key::FlowKey;
use flowloom_flow_key::protocol::{TCP, UDP};
use flowloom_packet::{Headers, PacketView};
use proptest::prelude::*;

const SYN: u8 = 2;
const ACK: u8 = 16;

/// A packet as its transport header and payload.
#[derive(Clone, Debug)]
struct Packet {
    from_client: bool,
    sequence: u32,
    flags: u8,
    payload: Vec<u8>,
}

fn data(from_client: bool, sequence: u32, payload: &[u8]) -> Packet {
    Packet { from_client, sequence, flags: ACK, payload: payload.to_vec() }
}

fn feed(app: &mut L7Filter, flow: &mut L7Flow, protocol: u8, packet: &Packet) {
    let (key, direction) = if packet.from_client {
        FlowKey::from_v4(1, 2, 40_000, 80, protocol)
    } else {
        FlowKey::from_v4(2, 1, 80, 40_000, protocol)
    };
    let mut bytes = vec![0_u8; 20];
    bytes[4..8].copy_from_slice(&packet.sequence.to_be_bytes());
    bytes.extend_from_slice(&packet.payload);
    let mut headers = Headers::new(key, direction);
    headers.tcp_flags = packet.flags.into();
    headers.payload_offset = 20;
    headers.payload_bytes = u32::try_from(packet.payload.len()).expect("small packets");
    let view = PacketView::new(&bytes, headers, 1, 100);
    assert_eq!(app.on_packet(&view, flow), Verdict::Accept);
}

fn run(plan: &L7Plan, protocol: u8, packets: &[Packet]) -> L7Flow {
    let (mut app, mut flow) = (plan.app(), L7Flow::default());
    for packet in packets {
        feed(&mut app, &mut flow, protocol, packet);
    }
    flow
}

fn plan(options: L7Options) -> L7Plan {
    L7Plan::new(&builtin(), options).expect("the builtin patterns make a scanner")
}

fn values(flow: &L7Flow) -> Vec<Value> {
    let mut values = Vec::new();
    flow.values(&mut values);
    values
}

#[test]
fn connection_is_inspected_until_its_protocol_is_named() {
    let plan = plan(L7Options::default());
    let packets = [
        Packet { from_client: true, sequence: 99, flags: SYN, payload: Vec::new() },
        data(true, 100, b"GET / HT"),
        data(true, 108, b"TP/1.1\r\n"),
        data(false, 500, b"HTTP/1.1 200 OK\r\n"),
    ];
    assert_eq!(run(&plan, TCP, &packets[..2]).state(), L7State::NoMatchYet);
    let flow = run(&plan, TCP, &packets);
    assert_eq!((flow.state(), flow.protocol()), (L7State::Matched, Some("http")));
    assert_eq!((flow.inspected_packets(), flow.inspected_bytes()), (3, 33));
    assert_eq!((flow.confidence(), flow.is_decided()), (Some(Confidence::BothSides), true));
    let mut more = packets.to_vec();
    more.push(data(false, 517, b"SSH-2.0-x\r\n"));
    let later = run(&plan, TCP, &more);
    assert_eq!(later.inspected_bytes(), 33, "what comes later passes by");
    assert_eq!(values(&flow).len(), L7Flow::COLUMNS.len());
}

/// The label of a connection in which the client speaks first, and the server answers.
fn label(question: &[u8], answer: &[u8]) -> (Option<&'static str>, Option<Confidence>) {
    let packets = [
        Packet { from_client: true, sequence: 99, flags: SYN, payload: Vec::new() },
        Packet { from_client: false, sequence: 499, flags: SYN | ACK, payload: Vec::new() },
        data(true, 100, question),
        data(false, 500, answer),
    ];
    let flows = [false, true].map(|rescan| {
        let options = L7Options { rescan, ..L7Options::default() };
        run(&plan(options), TCP, &packets)
    });
    assert_eq!(values(&flows[0]), values(&flows[1]), "both ways of scanning agree");
    (flows[0].protocol(), flows[0].confidence())
}

const CLIENT_HELLO: &[u8] =
    b"\x16\x03\x01\x00\x2f\x01\x00\x00\x2b\x03\x03aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\0\0\x02\x13\x01\x01\0";
const RDP_REQUEST: &[u8] = b"\x03\0\0\x13\x0e\xe0\0\0\0\0\0\x01\0\x08\0\x03\0\0\0";
const BAD_REQUEST: &[u8] = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n";

#[test]
fn protocol_of_the_answer_overrides_the_one_of_the_question() {
    let one = Some(Confidence::OneSide);
    let smb = b"\0\0\0\x08\xffSMB\x72\0\0\0";
    let http = b"GET / HTTP/1.1\r\n\r\n";
    for (question, answer, expected) in [
        (RDP_REQUEST, BAD_REQUEST, "http"),
        (CLIENT_HELLO, BAD_REQUEST, "http"),
        (smb, &b"SSH-2.0-OpenSSH_9.6\r\n"[..], "ssh"),
        (http, b"SSH-2.0-OpenSSH_9.6\r\n", "ssh"),
    ] {
        assert_eq!(label(question, answer), (Some(expected), one), "{}", question.escape_ascii());
    }
}

#[test]
fn unknown_answer_turns_a_strict_protocol_into_a_guess() {
    for (question, name) in [(RDP_REQUEST, "rdp"), (CLIENT_HELLO, "tls")] {
        assert_eq!(label(question, b""), (Some(name), Some(Confidence::OneSide)), "no answer yet");
        assert_eq!(label(question, b"what?\r\n"), (Some(name), Some(Confidence::Guess)));
    }
}

#[test]
fn answer_of_the_same_protocol_confirms_a_label() {
    let both = Some(Confidence::BothSides);
    let confirm = b"\x03\0\0\x13\x0e\xd0\0\0\x12\x34\0\x02\x09\x08\0\x02\0\0\0";
    let plain_confirm = b"\x03\0\0\x0b\x06\xd0\0\0\x12\x34\0";
    assert_eq!(label(RDP_REQUEST, confirm), (Some("rdp"), both));
    assert_eq!(label(RDP_REQUEST, plain_confirm), (Some("rdp"), both));
    assert_eq!(label(CLIENT_HELLO, b"\x15\x03\x03\0\x02\x02\x28"), (Some("tls"), both));
}

#[test]
fn lines_before_the_banner_of_ssh_do_not_contradict_it() {
    let both = Some(Confidence::BothSides);
    assert_eq!(label(b"SSH-2.0-a\r\n", b"Welcome\r\n  to b\r\nSSH-2.0-b\r\n"), (Some("ssh"), both));
    let (name, confidence) = label(b"SSH-2.0-a\r\n", b"Welcome\0\r\nSSH-2.0-b\r\n");
    assert_eq!((name, confidence), (Some("ssh"), Some(Confidence::Guess)));
}

#[test]
fn a_weak_match_is_a_guess_unless_the_port_is_usual() {
    let patterns = parse_own("[it]\nports = 80\nregex = ^ab\n[else]\nports = 81\nregex = ^cd\n").unwrap();
    let plan = L7Plan::new(&patterns, L7Options::default()).unwrap();
    let confidence = |payload: &[u8]| run(&plan, UDP, &[data(true, 0, payload)]).confidence();
    assert_eq!(confidence(b"abc"), Some(Confidence::OneSide));
    assert_eq!(confidence(b"cde"), Some(Confidence::Guess));
    let both = run(&plan, UDP, &[data(true, 0, b"cde"), data(false, 0, b"cdf")]);
    assert_eq!(both.confidence(), Some(Confidence::BothSides));
}

#[test]
fn expected_answer_must_be_a_known_pattern() {
    let patterns = parse_own("[it]\nregex = ^a\nanswer = other\n").unwrap();
    let error = L7Plan::new(&patterns, L7Options::default()).unwrap_err();
    assert!(error.to_string().starts_with("'answer = other' of the pattern it"), "{error}");
}

#[test]
fn inspection_ends_after_eight_data_packets() {
    let plan = plan(L7Options::default());
    let mut packets: Vec<Packet> = (0..8).map(|i| data(i % 2 == 0, 100 + i / 2, b"\x01")).collect();
    assert_eq!(run(&plan, TCP, &packets[..7]).state(), L7State::NoMatchYet);
    assert_eq!(run(&plan, TCP, &packets).state(), L7State::NoMatch);
    packets.push(data(true, 1, b"GET / HTTP/1.1\r\n"));
    let flow = run(&plan, TCP, &packets);
    assert_eq!((flow.state(), flow.inspected_packets()), (L7State::NoMatch, 8));
}

#[test]
fn reordered_segments_are_sorted_and_the_first_copy_is_kept() {
    let plan = plan(L7Options::default());
    let packets = [
        Packet { from_client: true, sequence: 99, flags: SYN, payload: Vec::new() },
        data(true, 104, b"/ HTTP/1.1\r\n"),
        data(true, 104, b"/ XXXX/1.1\r\n"),
        data(true, 100, b"GET / SS"),
    ];
    let flow = run(&plan, TCP, &packets);
    assert_eq!(flow.protocol(), Some("http"));
    assert_eq!(flow.overlap_and_gap_bytes(), (16, 0));
}

#[test]
fn no_protocol_is_guessed_after_a_gap() {
    let options = L7Options { window_bytes: 64, ..L7Options::default() };
    let packets = [
        Packet { from_client: true, sequence: 99, flags: SYN, payload: Vec::new() },
        data(true, 100, b"\x01\x02"),
        data(true, 1000, b"GET / HTTP/1.1\r\n"),
    ];
    let flow = run(&plan(options), TCP, &packets);
    assert_eq!(flow.protocol(), None);
    assert_eq!(flow.overlap_and_gap_bytes(), (0, 898));
}

#[test]
fn each_datagram_is_inspected_alone() {
    let plan = plan(L7Options::default());
    let flow = run(&plan, UDP, &[data(true, 0, b"\x01noise"), data(false, 0, b"SIP/2.0 200 OK\r\n")]);
    assert_eq!(flow.protocol(), Some("sip"));
    let flow = run(&plan, UDP, &[data(true, 0, b"SIP/2."), data(true, 0, b"0 200 OK\r\n")]);
    assert_eq!(flow.protocol(), None, "two datagrams are no stream");
}

#[test]
fn only_tcp_and_udp_are_inspected() {
    let flow = run(&plan(L7Options::default()), 132, &[data(true, 0, b"SIP/2.0 200 OK\r\n")]);
    assert_eq!((flow.state(), flow.inspected_packets()), (L7State::NoMatch, 0));
}

#[test]
fn reclaimed_window_is_counted_and_its_direction_stays_unnamed() {
    let plan = plan(L7Options { windows_max: 1, ..L7Options::default() });
    let mut app = plan.app();
    let mut flows = [L7Flow::default(), L7Flow::default()];
    let syn = Packet { from_client: true, sequence: 99, flags: SYN, payload: Vec::new() };
    for flow in &mut flows {
        feed(&mut app, flow, TCP, &syn);
        feed(&mut app, flow, TCP, &data(true, 104, b"/ HTTP/1.1\r\n"));
    }
    for flow in &mut flows {
        feed(&mut app, flow, TCP, &data(true, 100, b"GET "));
    }
    assert_eq!(flows[0].protocol(), None);
    assert_eq!(flows[1].protocol(), Some("http"));
    drop(app);
    assert_eq!((plan.totals().reclaimed, plan.totals().lost), (1, 1));
}

/// Two sides of a conversation, with segments that are divided, duplicated and reordered.
fn conversation() -> impl Strategy<Value = Vec<Packet>> {
    let sides = prop_oneof![
        Just((
            &b"GET /a HTTP/1.1\r\nHost: b\r\nUpgrade: websocket\r\n\r\n"[..],
            &b"HTTP/1.1 101 X\r\n"[..]
        )),
        Just((&b"USER anna\r\n"[..], &b"220 ready\r\n331 password\r\n"[..])),
        Just((&b"EHLO a\r\n"[..], &b"220 ready\r\n250-b\r\n"[..])),
        Just((&b"\x05\x01\0\x05\x01\0\x01"[..], &b"\x05\0\x05\0"[..])),
        Just((&b"\0\x01\0\0\0\x06\x01\x03\0\0\0\x0a"[..], &b"\0\x01\0\0\0\x05\x01\x03\x02\0\0"[..])),
    ];
    let cut = (any::<bool>(), 0..60_usize, 1..20_usize, any::<bool>(), any::<u8>());
    (sides, prop::collection::vec(cut, 1..14), any::<u32>()).prop_map(|((client, server), cuts, start)| {
        let mut packets = vec![
            Packet { from_client: true, sequence: start, flags: SYN, payload: Vec::new() },
            Packet { from_client: false, sequence: !start, flags: SYN | ACK, payload: Vec::new() },
        ];
        for (from_client, from, length, mangled, byte) in cuts {
            let (side, begin) = if from_client { (client, start) } else { (server, !start) };
            let from = from % side.len();
            let mut payload = side[from..(from + length).min(side.len())].to_vec();
            if mangled {
                payload[0] = byte;
            }
            let sequence = begin.wrapping_add(1).wrapping_add(u32::try_from(from).expect("short"));
            packets.push(data(from_client, sequence, &payload));
        }
        packets
    })
}

#[test]
fn rescanning_gives_the_same_results() {
    let usual = plan(L7Options::default());
    let paper = plan(L7Options { rescan: true, ..L7Options::default() });
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(2000));
    runner
        .run(&conversation(), |packets| {
            for protocol in [TCP, UDP] {
                prop_assert_eq!(
                    values(&run(&usual, protocol, &packets)),
                    values(&run(&paper, protocol, &packets))
                );
            }
            Ok(())
        })
        .unwrap();
    assert!(paper.totals().scanned_bytes > usual.totals().scanned_bytes);
}
