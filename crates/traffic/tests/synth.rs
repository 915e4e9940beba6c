//! Reads generated traces back with a decoder that shares no code with the generators.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::unwrap_used,
    reason = "a test: small numbers compared as shares, and failures that should panic"
)]

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use flowloom_flow_key::{FiveTuple, FlowKey};
use flowloom_packet::{Fill, PacketBatch, PacketSource};
use flowloom_traffic::synth::{
    FrameSize, Generate, Generated, Mix, MixConfig, PaperTrace, Sample, TraceProfile,
};
use flowloom_traffic::write::{PcapOptions, PcapWriter};

/// The fields of a frame that the tests check.
#[derive(Debug)]
struct Decoded {
    key: FlowKey,
    tuple: FiveTuple,
    vlans: Vec<u16>,
    flags: u8,
    data_bytes: usize,
}

fn word(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Sum of big-endian words with folded carries: 0xFFFF over bytes that contain their own checksum.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0_u64;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u64::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        }
    }
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// Decodes and checks every length and checksum. Returns `None` for frames other than IP.
fn decode(frame: &[u8]) -> Option<Decoded> {
    let (mut at, mut vlans) = (12, Vec::new());
    while matches!(word(frame, at), 0x8100 | 0x88A8) {
        vlans.push(word(frame, at + 2) & 0x0FFF);
        at += 4;
    }
    let ip = &frame[at + 2..];
    let (protocol, addresses, payload, fragment) = match word(frame, at) {
        0x0800 => {
            assert_eq!(ip[0], 0x45);
            assert_eq!(sum(&[&ip[..20]]), 0xFFFF, "IPv4 header checksum");
            (ip[9], &ip[12..20], &ip[20..usize::from(word(ip, 2))], word(ip, 6) & 0x3FFF)
        }
        0x86DD => (ip[6], &ip[8..40], &ip[40..40 + usize::from(word(ip, 4))], 0),
        _ => return None,
    };
    let pseudo = [0, protocol, (payload.len() >> 8) as u8, payload.len() as u8];
    if fragment == 0 {
        let checked = if protocol == 1 { sum(&[payload]) } else { sum(&[addresses, &pseudo, payload]) };
        assert_eq!(checked, 0xFFFF, "checksum of protocol {protocol} in {} bytes", payload.len());
    }
    let later = fragment & 0x1FFF != 0;
    let (mut ports, mut flags, mut data_bytes) = ((0, 0), 0, payload.len());
    if !later {
        let header = match protocol {
            6 => usize::from(payload[12] >> 4) * 4,
            _ => 8,
        };
        data_bytes -= header;
        ports = match protocol {
            1 | 58 => (word(payload, 4), word(payload, 4)),
            _ => (word(payload, 0), word(payload, 2)),
        };
        if protocol == 6 {
            flags = payload[13];
        }
        if protocol == 17 && fragment == 0 {
            assert_eq!(usize::from(word(payload, 4)), payload.len());
        }
    }
    let tuple = if addresses.len() == 8 {
        let (from, to) = (addresses[..4].try_into().unwrap(), addresses[4..].try_into().unwrap());
        FiveTuple::v4(from, to, ports.0, ports.1, protocol)
    } else {
        let (from, to) = (addresses[..16].try_into().unwrap(), addresses[16..].try_into().unwrap());
        FiveTuple::v6(from, to, ports.0, ports.1, protocol)
    };
    Some(Decoded { key: tuple.canonical().0, tuple, vlans, flags, data_bytes })
}

/// Counts of a mixture, collected frame by frame.
#[derive(Debug, Default)]
struct Census {
    packets: u64,
    keys: HashMap<FlowKey, Vec<u16>>,
    v6_keys: HashSet<FlowKey>,
    tagged: u64,
    fragments: u64,
    other: u64,
    by_protocol: HashMap<u8, u64>,
    lengths: HashMap<usize, u64>,
    packets_of_key: HashMap<FlowKey, u64>,
    last_ns: u64,
    digest: u64,
}

fn census(config: MixConfig) -> Census {
    let mut mix = Mix::new(config).unwrap();
    let (mut frame, mut census) = (Vec::new(), Census::default());
    while let Some(meta) = mix.next_into(&mut frame) {
        assert_eq!(frame.len(), meta.wire_bytes as usize);
        assert!(meta.time_ns >= census.last_ns, "time went backwards at packet {}", census.packets);
        census.last_ns = meta.time_ns;
        census.packets += 1;
        for &byte in &frame {
            census.digest = (census.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
        *census.lengths.entry(frame.len()).or_default() += 1;
        let Some(decoded) = decode(&frame) else {
            assert_eq!(meta.flow, None);
            census.other += 1;
            continue;
        };
        assert!(meta.flow.is_some());
        let vlans = census.keys.entry(decoded.key).or_insert_with(|| decoded.vlans.clone());
        assert_eq!(*vlans, decoded.vlans, "a flow stays in its VLAN");
        *census.packets_of_key.entry(decoded.key).or_default() += 1;
        census.tagged += u64::from(!decoded.vlans.is_empty());
        if decoded.tuple.source.is_ipv6() {
            census.v6_keys.insert(decoded.key);
        }
        census.fragments += u64::from(decoded.tuple.protocol == 17 && decoded.tuple.source_port == 0);
        *census.by_protocol.entry(decoded.tuple.protocol).or_default() += 1;
    }
    assert_eq!(mix.next_into(&mut frame), None);
    census
}

#[test]
fn generated_packets_and_flows_have_the_requested_count() {
    for (flows, packets) in [(1, 1), (1, 1000), (7, 7), (64, 65), (100, 1000), (1000, 20_000), (5000, 5000)]
    {
        for burst_packets in [1, 8] {
            for syn_flood in [0, flows / 3] {
                let config = MixConfig { flows, packets, burst_packets, syn_flood, ..MixConfig::default() };
                let found = census(config);
                assert_eq!(found.packets, packets, "of {flows} flows");
                assert_eq!(found.keys.len() as u64, flows, "flows in {packets} packets, flood {syn_flood}");
            }
        }
    }
}

#[test]
fn generated_mix_contains_every_kind_of_packet() {
    let config = MixConfig {
        flows: 2000,
        packets: 100_000,
        zipf: 1.1,
        v6_permille: 150,
        vlan_permille: 50,
        ..MixConfig::default()
    };
    let found = census(config);
    assert_eq!(found.keys.len(), 2000);
    assert_eq!(found.other, 400);
    for protocol in [1, 6, 17, 58] {
        assert!(
            found.by_protocol.contains_key(&protocol),
            "protocol {protocol} in {:?}",
            found.by_protocol
        );
    }
    assert!(found.fragments > 0 && found.tagged > 0);
    let v6_share = found.v6_keys.len() as f64 / 2000.0;
    assert!((v6_share - 0.15).abs() < 0.005, "{v6_share}");

    // Simple IMIX: of twelve packets seven are small, four have 576 and one has 1500 bytes of IP.
    let share = |ip_bytes: usize| {
        let count = |bytes: usize| found.lengths.get(&bytes).copied().unwrap_or(0);
        (count(ip_bytes + 14) + count(ip_bytes + 18) + count(ip_bytes + 22)) as f64 / 100_000.0
    };
    assert!((share(576) - 4.0 / 12.0).abs() < 0.07, "{}", share(576));
    assert!((share(1500) - 1.0 / 12.0).abs() < 0.03, "{}", share(1500));

    let mut sizes: Vec<u64> = found.packets_of_key.into_values().collect();
    sizes.sort_unstable();
    assert!(sizes[1000] <= 10, "most flows are small: median {}", sizes[1000]);
    let top: u64 = sizes[1980..].iter().sum();
    assert!(top > 50_000, "one flow in a hundred has {top} of 100000 packets");
}

#[test]
fn fixed_size_frames_have_the_given_size() {
    for bytes in [64, 128, 1514, 9018] {
        let config = MixConfig {
            flows: 200,
            packets: 5000,
            size: FrameSize::Fixed(bytes),
            fragment_permille: 0,
            other_permille: 0,
            ..MixConfig::default()
        };
        let found = census(config);
        let exact = found.lengths.get(&usize::from(bytes)).copied().unwrap_or(0);
        assert!(exact >= 4000, "{exact} frames of {bytes} bytes in {:?}", found.lengths);
        assert!(found.lengths.keys().all(|&found| found <= usize::from(bytes).max(90)));
    }
}

#[test]
fn fragments_join_to_datagrams_with_valid_checksums() {
    for size in [FrameSize::Imix, FrameSize::Fixed(64), FrameSize::Fixed(1514), FrameSize::Fixed(9018)] {
        let config = MixConfig {
            flows: 640,
            packets: 20_000,
            size,
            fragment_permille: 1000,
            vlan_permille: 0,
            ..MixConfig::default()
        };
        let mut mix = Mix::new(config).unwrap();
        let (mut frame, mut waiting, mut joined) = (Vec::new(), HashMap::new(), 0);
        let mut keys = HashSet::new();
        while mix.next_into(&mut frame).is_some() {
            keys.extend(decode(&frame).map(|decoded| decoded.key));
            let flags = if frame[12..14] == [8, 0] { word(&frame, 20) & 0x3FFF } else { 0 };
            let id = (frame[26..34].to_vec(), word(&frame, 18));
            let payload = || frame[34..14 + usize::from(word(&frame, 16))].to_vec();
            if flags == 0x2000 {
                assert_eq!(waiting.insert(id, payload()), None);
            } else if flags != 0 {
                let mut datagram = waiting.remove(&id).expect("the first piece comes first");
                assert_eq!(datagram.len(), usize::from(flags) * 8);
                datagram.extend(payload());
                assert_eq!(datagram.len(), usize::from(word(&datagram, 4)));
                let pseudo = [0, 17, (datagram.len() >> 8) as u8, datagram.len() as u8];
                assert_eq!(sum(&[&id.0, &pseudo, &datagram]), 0xFFFF);
                joined += 1;
            }
        }
        assert_eq!(keys.len(), 640, "a fragmenting flow counts as two keys");
        assert!(joined >= 20, "{joined} datagrams of {size:?}");
    }
}

#[test]
fn flood_sends_one_syn_per_flow_to_one_victim() {
    let config = MixConfig { flows: 3000, packets: 10_000, syn_flood: 2000, ..MixConfig::default() };
    let mut mix = Mix::new(config).unwrap();
    let (mut frame, mut at_victim) = (Vec::new(), HashMap::new());
    while mix.next_into(&mut frame).is_some() {
        if let Some(decoded) = decode(&frame)
            && decoded.flags == 2
        {
            *at_victim.entry((decoded.tuple.destination, decoded.tuple.destination_port)).or_insert(0) += 1;
        }
    }
    // The victim has an address in each family.
    let mut counts: Vec<u32> = at_victim.into_values().collect();
    counts.sort_unstable_by(|a, b| b.cmp(a));
    assert!(counts[0] + counts[1] >= 2000, "{:?}", &counts[..2]);
    assert!(counts[2] < 100);
}

#[test]
fn each_seed_gives_its_own_trace() {
    let asked = MixConfig { flows: 7, seed: 9, ..MixConfig::default() };
    assert_eq!(*Mix::new(asked.clone()).unwrap().config(), asked);
    let config = MixConfig { flows: 300, packets: 4000, ..MixConfig::default() };
    let first = census(config.clone());
    assert_eq!(first.digest, census(config.clone()).digest);
    assert_ne!(first.digest, census(MixConfig { seed: 2, ..config }).digest);
    // The bytes must not change: a change alters every sample in the repository and its digest.
    assert_eq!(format!("{:016x}", first.digest), "a5050d8dc71a8a32");
}

#[test]
fn a_generator_as_a_source_yields_what_it_makes_in_full_batches() {
    let config = MixConfig { flows: 30, packets: 100, ..MixConfig::default() };
    let (mut mix, mut source) =
        (Mix::new(config.clone()).unwrap(), Generated::new(Mix::new(config).unwrap()));
    let (mut batch, mut frame, mut sizes, mut held) =
        (PacketBatch::new(), Vec::new(), Vec::new(), Vec::new());
    while source.next_batch(&mut batch).unwrap() == Fill::Packets {
        sizes.push((batch.block_number, batch.packets.len()));
        // A worker may still read a block when the next batch is there.
        held.push((batch.block.clone().unwrap(), batch.packets.clone()));
    }
    assert_eq!(sizes, [(1, 32), (2, 32), (3, 32), (4, 4)]);
    for (block, packets) in held {
        for packet in packets {
            let meta = mix.next_into(&mut frame).unwrap();
            assert_eq!((packet.time_ns, packet.wire_bytes), (meta.time_ns, meta.wire_bytes));
            assert_eq!(packet.bytes_in(block.bytes()), frame);
        }
    }
    assert_eq!(source.next_batch(&mut batch).unwrap(), Fill::End);
}

#[test]
fn both_directions_of_tcp_agree_on_sequence_numbers() {
    let config =
        MixConfig { flows: 50, packets: 3000, v6_permille: 0, vlan_permille: 0, ..MixConfig::default() };
    let mut mix = Mix::new(config).unwrap();
    let (mut frame, mut next, mut checked) = (Vec::new(), HashMap::new(), [0; 2]);
    while mix.next_into(&mut frame).is_some() {
        let Some(decoded) = decode(&frame) else { continue };
        if decoded.tuple.protocol != 6 {
            continue;
        }
        let sequence = u32::from_be_bytes(frame[38..42].try_into().unwrap());
        let acknowledged = u32::from_be_bytes(frame[42..46].try_into().unwrap());
        if let Some(&expected) = next.get(&decoded.tuple) {
            assert_eq!(sequence, expected, "{} flags {}", decoded.tuple, decoded.flags);
            checked[0] += 1;
        }
        if let Some(&expected) = next.get(&decoded.tuple.reversed())
            && decoded.flags & 16 != 0
        {
            assert_eq!(acknowledged, expected);
            checked[1] += 1;
        }
        let used = decoded.data_bytes as u32 + u32::from(decoded.flags & 3 != 0);
        next.insert(decoded.tuple, sequence.wrapping_add(used));
    }
    assert!(
        checked.iter().all(|&packets| packets > 1000),
        "sequence numbers, acknowledgements: {checked:?}"
    );
}

#[test]
fn files_of_the_paper_have_the_figures_of_table_two() {
    let table = [
        (1, 5_242_880, 262_144, 249_036.0_f64),
        (2, 10_485_760, 524_288, 498_073.0),
        (3, 20_971_520, 1_048_576, 996_189.0),
    ];
    for (number, packets, sessions, average) in table {
        let mut trace = PaperTrace::file(number, 1).unwrap();
        let profile = TraceProfile::from_generator(&mut trace);
        assert_eq!(profile.packets, packets);
        assert_eq!((profile.sessions, profile.sessions_max), (sessions, sessions));
        assert_eq!(profile.wire_bytes, packets * 67, "the mean length is exact");
        assert!((profile.sessions_average / average - 1.0).abs() < 1e-4, "{profile:?}");
        let distance = Some(sessions - 1);
        assert_eq!((profile.reuse_distance_min, profile.reuse_distance_max), (distance, distance));
    }
}

#[test]
fn frames_of_the_papers_trace_decode_to_their_sessions() {
    let sessions = 3000;
    let mut trace = PaperTrace::with_sessions(sessions, 5).unwrap();
    let mut frame = Vec::new();
    let mut seen: HashMap<u32, (FlowKey, Vec<u8>)> = HashMap::new();
    let (mut bytes, mut last_ns) = (0, 0);
    while let Some(meta) = trace.next_into(&mut frame) {
        bytes += frame.len();
        assert!(meta.time_ns > last_ns, "time goes on");
        last_ns = meta.time_ns;
        if word(&frame, 46) & 16 == 0 {
            assert_eq!(frame[42..46], [0; 4], "nothing is acknowledged");
        }
        let decoded = decode(&frame).unwrap();
        let (key, flags) = seen.entry(meta.flow.unwrap()).or_insert_with(|| (decoded.key, Vec::new()));
        assert_eq!(*key, decoded.key);
        flags.push(decoded.flags);
    }
    assert_eq!(bytes as u64, sessions * 20 * 67);
    assert_eq!(seen.len() as u64, sessions);
    let keys: HashSet<FlowKey> = seen.values().map(|(key, _)| *key).collect();
    assert_eq!(keys.len() as u64, sessions, "every session has its own key");
    for (_, flags) in seen.into_values() {
        assert_eq!(flags.len(), 20);
        assert_eq!(flags[..3], [2, 18, 16], "the handshake");
        assert_eq!(flags[16..], [17, 16, 17, 16], "both ends close");
    }
}

#[test]
fn the_campus_sample_lasts_a_minute() {
    let mut generator = Sample::named("campus").unwrap().generator();
    let (mut first, mut last) = (None, 0);
    while let Some(meta) = generator.next_meta() {
        first.get_or_insert(meta.time_ns);
        last = meta.time_ns;
    }
    let span = Duration::from_nanos(last - first.unwrap());
    assert!((55..=60).contains(&span.as_secs()), "{span:?}");
}

#[test]
fn committed_samples_match_their_recipes() {
    for sample in Sample::all() {
        let options = PcapOptions { snaplen_bytes: sample.snaplen_bytes, ..PcapOptions::default() };
        let mut writer = PcapWriter::new(Vec::new(), options).unwrap();
        let (mut generator, mut frame) = (sample.generator(), Vec::new());
        while let Some(meta) = generator.next_into(&mut frame) {
            writer.write(meta.time_ns, meta.wire_bytes, &frame).unwrap();
        }
        let name = sample.name;
        let path = format!("{}/../../traces/small/{name}.pcap", env!("CARGO_MANIFEST_DIR"));
        assert!(writer.finish().unwrap() == std::fs::read(path).unwrap(), "{name} is another");
    }
}
