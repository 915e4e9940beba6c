//! A sensor: names the protocol of each connection by its payload, on any port.
#![expect(clippy::print_stdout, reason = "an example says what it found")]
#![expect(clippy::cast_possible_truncation, reason = "the packets are short")]

use flowloom::flow_key::protocol::{TCP, UDP};
use std::collections::BTreeMap;

use flowloom::apps::{L7Options, L7Plan};
use flowloom::dpi::builtin;
use flowloom::engine::{Control, EngineConfig, Layout, run};
use flowloom::flow_table::{LineHash, TableOptions};
use flowloom::scheduler::{DirectHash, WorkerCount};
use flowloom::traffic::synth::{Generate, Generated, Meta};

/// What connections say first: protocol, port of the server, request, answer.
const TALKS: [(u8, u16, &[u8], &[u8]); 3] = [
    (TCP, 8081, b"GET /index.html HTTP/1.1\r\nHost: www.example.net\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"),
    (TCP, 2222, b"SSH-2.0-client_1.0\r\n", b"SSH-2.0-server_1.0\r\n"),
    (UDP, 9, b"nothing that a pattern knows", b"still nothing known"),
];

/// Connections that begin one after another.
struct Talks {
    packets: Vec<(u16, bool, u8, Vec<u8>)>,
    at: usize,
}

impl Talks {
    fn new(connections: u16) -> Self {
        let mut packets = Vec::new();
        for number in 0..connections {
            let (protocol, _, request, answer) = TALKS[usize::from(number) % TALKS.len()];
            if protocol == TCP {
                packets.extend([(number, true, 2, vec![]), (number, false, 18, vec![])]);
            }
            packets.extend([(number, true, 24, request.to_vec()), (number, false, 24, answer.to_vec())]);
        }
        Self { packets, at: 0 }
    }
}

impl Generate for Talks {
    fn next_into(&mut self, frame: &mut Vec<u8>) -> Option<Meta> {
        let (number, is_request, flags, payload) = self.packets.get(self.at)?;
        self.at += 1;
        let (protocol, server, request, _) = TALKS[usize::from(*number) % TALKS.len()];
        let mut ends = [([10, 0, 0, 1], 20_000 + number), ([192, 0, 2, 1], server)];
        // The handshake takes one number; then each end has sent its text.
        let data = u32::from(*flags & 2 == 0);
        let mut numbers = [100 + data, 500 + data];
        if !is_request {
            ends.reverse();
            numbers = [numbers[1], numbers[0] + if data == 1 { request.len() as u32 } else { 1 }];
        }
        let mut transport = [ends[0].1.to_be_bytes(), ends[1].1.to_be_bytes()].concat();
        if protocol == TCP {
            transport.extend(numbers.map(u32::to_be_bytes).concat());
            transport.extend([0x50, *flags, 0xFF, 0xFF, 0, 0, 0, 0]);
        } else {
            transport.extend([(8 + payload.len() as u16).to_be_bytes(), [0; 2]].concat());
        }
        let length = (20 + transport.len() + payload.len()) as u16;
        *frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
        frame.extend(length.to_be_bytes());
        frame.extend([0, 1, 0, 0, 64, protocol, 0, 0]);
        frame.extend([ends[0].0, ends[1].0].concat());
        frame.extend(transport);
        frame.extend(payload);
        let time_ns = 1_000_000_000 + 1_000_000 * self.at as u64;
        Some(Meta { time_ns, wire_bytes: frame.len() as u32, flow: Some(u32::from(*number)) })
    }

    fn packets(&self) -> u64 {
        self.packets.len() as u64
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut source = Generated::new(Talks::new(900));
    let plan = L7Plan::new(&builtin(), L7Options::default())?;
    let config = EngineConfig::new(Layout::Pipeline { workers: 2 });
    let mut placement = DirectHash::new(WorkerCount::new(2)?);
    let table = |_| LineHash::try_new(&TableOptions::for_flows(10_000));
    let report = run(&config, &mut source, &mut placement, table, |_| plan.app(), &Control::default())?;
    let mut names: BTreeMap<&str, u32> = BTreeMap::new();
    for flow in &report.flows {
        *names.entry(flow.state.protocol().unwrap_or("unknown")).or_default() += 1;
    }
    println!("{} connections: {names:?}", report.flows.len());
    assert_eq!(names, BTreeMap::from([("http", 300), ("ssh", 300), ("unknown", 300)]));
    Ok(())
}
