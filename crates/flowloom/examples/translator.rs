//! A network address translator: hosts of a private network share one public address. Connections
//! keep their public port while packets flow, and return it after a minute of silence.
#![expect(clippy::print_stdout, reason = "an example says what it found")]

use std::net::{IpAddr, Ipv4Addr};

use flowloom::flow_key::FiveTuple;
use flowloom::flow_table::{FlowMap, Tick};
use flowloom::packet::rewrite::Rewrite;
use flowloom::packet::{DecodeOptions, LinkType, decode};
use flowloom::traffic::synth::{Generate, Mix, MixConfig};

const PUBLIC: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
/// Seconds after which a silent connection returns its port.
const TIMEOUT: u64 = 60;

struct Nat {
    /// The public port of a private connection.
    out: FlowMap<FiveTuple, u16>,
    /// The private connection of the answers to a public port.
    back: FlowMap<FiveTuple, FiveTuple>,
    free: Vec<u16>,
}

impl Nat {
    fn new() -> Result<Self, Box<dyn std::error::Error>> {
        let (out, back) = (FlowMap::builder().timeout(TIMEOUT).build()?, FlowMap::builder().build()?);
        Ok(Self { out, back, free: (1024..=u16::MAX).rev().collect() })
    }

    /// Translates the sender of a packet from the private network; `None` if it is to be dropped.
    fn outbound(&mut self, frame: &mut [u8], second: u64) -> Option<()> {
        self.out.set_now(Tick(second));
        let Self { out, back, free } = self;
        out.expire(16, |_, tuple, port| {
            back.remove(&answer(tuple, port));
            free.push(port);
        });
        let headers = decode(LinkType::ETHERNET, frame, DecodeOptions::default()).ok()?;
        let tuple = headers.tuple();
        if !tuple.source.is_ipv4() || !matches!(tuple.protocol, 6 | 17) || headers.later_fragment {
            return None;
        }
        let port = if let Some(port) = out.get_mut(&tuple) { *port } else { free.pop()? };
        out.insert(tuple, port).ok()?;
        back.insert(answer(tuple, port), tuple).ok()?;
        Rewrite::new().source(PUBLIC.into()).source_port(port).apply(frame, &headers, None).then_some(())
    }

    /// Translates the receiver of a packet from outside; `None` if no connection asked for it.
    fn inbound(&mut self, frame: &mut [u8]) -> Option<()> {
        let headers = decode(LinkType::ETHERNET, frame, DecodeOptions::default()).ok()?;
        let tuple = *self.back.get(&headers.tuple())?;
        self.out.get_mut(&tuple)?;
        let back = Rewrite::new().destination(tuple.source).destination_port(tuple.source_port);
        back.apply(frame, &headers, None).then_some(())
    }
}

/// Returns the addresses of the answers to a translated connection.
fn answer(tuple: FiveTuple, port: u16) -> FiveTuple {
    let (source, source_port) = (tuple.destination, tuple.destination_port);
    FiveTuple { source, destination: PUBLIC.into(), source_port, destination_port: port, ..tuple }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut traffic = Mix::new(MixConfig { flows: 2000, packets: 50_000, ..MixConfig::default() })?;
    let (mut nat, mut frame, mut translated) = (Nat::new()?, Vec::new(), 0_u32);
    while let Some(meta) = traffic.next_into(&mut frame) {
        let mut sent = frame.clone();
        if nat.outbound(&mut sent, meta.time_ns / 1_000_000_000).is_none() {
            continue; // Neither TCP nor UDP over IPv4.
        }
        let outside = decode(LinkType::ETHERNET, &sent, DecodeOptions::default());
        let outside = outside.map_err(|reason| reason.to_string())?;
        assert_eq!(outside.tuple().source, IpAddr::V4(PUBLIC));
        // Its receiver answers with the same packet.
        let (ip, ports) = (outside.network_offset as usize, outside.transport_offset as usize);
        sent[ip + 12..ip + 20].rotate_left(4);
        sent[ports..ports + 4].rotate_left(2);
        nat.inbound(&mut sent).ok_or("an answer was dropped")?;
        sent[ip + 12..ip + 20].rotate_left(4);
        sent[ports..ports + 4].rotate_left(2);
        assert_eq!(sent, frame, "it arrives as it left, checksums included");
        translated += 1;
    }
    let unasked = nat.inbound(&mut frame);
    println!("{translated} packets and answers, {} connections now", nat.out.len());
    assert!(translated > 10_000 && unasked.is_none());
    Ok(())
}
