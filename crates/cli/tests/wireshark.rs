//! Real captures: records have the packets, bytes and times of Wireshark's conversations, and the
//! application fields that its dissectors find. Needs `FLOWLOOM_DATA` and tshark.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::support::{Folder, number, real_captures, replay};

/// Captures without tunnels, in which a Wireshark conversation corresponds to a Flowloom flow.
const CAPTURES: [&str; 9] = [
    "gnutella_p2p_truncated4.pcap",
    "many_flows_echo_gz.pcap.gz",
    "pcapng_multi_if_mixed_linktype.pcapng",
    "ppp.pcap",
    "radiotap_http.pcap",
    "rawip.pcap",
    "realistic_1kxun.pcap",
    "realistic_alexa_pcapng.pcapng",
    "sll.pcap",
];

/// Accepted differences with the reason: the capture, the beginning of the column names, and the
/// maximum number of values, because versions of Wireshark differ too.
const EXPLAINED: [(&str, &str, usize, &str); 2] = [
    ("gnutella_p2p_truncated4.pcap", "tls_", 8, "the handshakes begin behind requests of Gnutella"),
    ("realistic_1kxun.pcap", "http_status", 3, "the capture begins in the middle of an answer"),
];

/// An endpoint: address and port.
type End = (String, u16);

/// The requested columns of tshark, one packet per line.
fn tshark(path: &Path, options: &[&str], columns: &[&str]) -> Option<Vec<Vec<String>>> {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(path).args(options).args(["-T", "fields", "-E", "separator=/t"]);
    command.args(["-E", "occurrence=a", "-E", "aggregator=,"]);
    for column in columns {
        command.args(["-e", column]);
    }
    let out = command.output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let row = |line: &str| line.split('\t').map(str::to_owned).collect();
    Some(text.lines().map(row).collect())
}

fn first(list: &str) -> &str {
    list.split(',').next().unwrap_or_default()
}

const ENDS: [&str; 8] = [
    "ip.src", "ipv6.src", "ip.dst", "ipv6.dst", "tcp.srcport", "udp.srcport", "tcp.dstport", "udp.dstport",
];

/// Returns sender and receiver from the columns [`ENDS`].
fn ends(row: &[String]) -> Option<[End; 2]> {
    let either = |at: usize| if row[at].is_empty() { first(&row[at + 1]) } else { first(&row[at]) };
    let end = |address: usize| Some((either(address).to_owned(), either(address + 4).parse().ok()?));
    Some([end(0)?, end(2)?])
}

/// Returns source and destination of a record.
fn record_ends(record: &Value) -> [End; 2] {
    ["source", "destination"].map(|end| {
        let port = number(record, &format!("{end}_port"));
        (record[end].as_str().unwrap().to_owned(), u16::try_from(port).unwrap())
    })
}

fn records(path: &Path, options: &[&str]) -> Vec<Value> {
    let folder = Folder::new();
    let flows = folder.path("flows.jsonl");
    replay(&[&[path.to_str().unwrap(), "--flows", &flows], options].concat());
    let text = std::fs::read_to_string(flows).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the captures, or prints why nothing is compared.
fn captures() -> Vec<std::path::PathBuf> {
    let Some(data) = real_captures() else { return Vec::new() };
    if Command::new("tshark").arg("--version").output().is_err() {
        eprintln!("tshark is not installed: nothing is compared");
        return Vec::new();
    }
    CAPTURES.iter().map(|name| data.join("nasty").join(name)).collect()
}

/// Packets and bytes from the first end and from the second, and the times of the first and last
/// packet.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Sums {
    first_ns: u64,
    last_ns: u64,
    packets: [u64; 2],
    bytes: [u64; 2],
}

fn ns(epoch: &str) -> Option<u64> {
    let (seconds, fraction) = epoch.split_once('.')?;
    Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + format!("{fraction:0<9}").parse::<u64>().ok()?)
}

#[test]
fn records_of_real_captures_have_packets_bytes_and_times_of_wiresharks_conversations() {
    let (mut compared, mut differ) = (0, Vec::new());
    for path in captures() {
        let columns =
            [&["frame.time_epoch", "frame.len", "tcp.stream", "udp.stream"][..], &ENDS, &["tcp.flags"]];
        let columns = columns.concat();
        // An ICMP error shows the conversation that it concerns, but belongs to none.
        let options = ["-o", "ip.defragment:FALSE", "-o", "tcp.desegment_tcp_streams:FALSE"];
        let options = [&options[..], &["-Y", "not icmp and not icmpv6"]].concat();
        let Some(rows) = tshark(&path, &options, &columns) else { continue };
        let mut streams: BTreeMap<(bool, String, u32), ([End; 2], Sums)> = BTreeMap::new();
        // How often a SYN came behind an RST, by stream of TCP: then another connection begins.
        let mut openings: BTreeMap<String, (bool, u32)> = BTreeMap::new();
        for row in &rows {
            let time_ns = ns(&row[0]).unwrap_or(0);
            let is_tcp = !row[2].is_empty();
            let stream = if is_tcp { &row[2] } else { &row[3] };
            let (Some(mut ends), false) = (ends(&row[4..]), stream.is_empty()) else { continue };
            let way = usize::from(ends[0] > ends[1]);
            ends.sort();
            let (is_reset, opening) =
                openings.entry(if is_tcp { stream.clone() } else { String::new() }).or_default();
            let flags =
                row.last().and_then(|flags| u16::from_str_radix(flags.strip_prefix("0x")?, 16).ok());
            let flags = flags.unwrap_or_default();
            if flags & 0x12 == 2 && std::mem::take(is_reset) {
                *opening += 1;
            }
            *is_reset |= flags & 4 != 0;
            let (_, sums) = streams
                .entry((is_tcp, stream.clone(), *opening))
                .or_insert_with(|| (ends, Sums { first_ns: time_ns, ..Sums::default() }));
            sums.first_ns = sums.first_ns.min(time_ns);
            sums.last_ns = sums.last_ns.max(time_ns);
            sums.packets[way] += 1;
            sums.bytes[way] += row[1].parse::<u64>().unwrap();
        }
        let mut theirs: Vec<_> =
            streams.into_iter().map(|((is_tcp, ..), (ends, sums))| (is_tcp, ends, sums)).collect();
        theirs.sort();
        let values = |record: &Value| {
            let mut ends = record_ends(record);
            let is_reversed = ends[0] > ends[1];
            ends.sort();
            let mut pairs = ["packets", "bytes"]
                .map(|name| [number(record, name), number(record, &format!("reverse_{name}"))]);
            if is_reversed {
                for pair in &mut pairs {
                    pair.reverse();
                }
            }
            let [packets, bytes] = pairs;
            let [first_ns, last_ns] = [number(record, "start"), number(record, "end")];
            (number(record, "protocol") == 6, ends, Sums { first_ns, last_ns, packets, bytes })
        };
        let records = records(&path, &[]);
        let has_ports = |record: &&Value| {
            matches!(number(record, "protocol"), 6 | 17) && number(record, "destination_port") > 0
        };
        let mut ours: Vec<_> = records.iter().filter(has_ports).map(values).collect();
        ours.sort();
        compared += theirs.len();
        let [mine, other]: [BTreeSet<_>; 2] = [ours, theirs].map(|all| all.into_iter().collect());
        differ.extend(mine.symmetric_difference(&other).map(|one| format!("{}: {one:?}", path.display())));
    }
    assert!(differ.is_empty(), "of {compared}:\n{}", differ.join("\n"));
    assert!(compared == 0 || compared > 1000, "{compared}");
}

/// Returns the JA4 fingerprint from tshark's lists, or `None` if another extension also contains
/// signature algorithms, because tshark lists them together.
fn ja4(row: &[String]) -> Option<String> {
    let numbers = |list: &str| -> Vec<u32> {
        let number = |text: &str| match text.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).unwrap(),
            None => text.parse().unwrap(),
        };
        let numbers = list.split(',').filter(|text| !text.is_empty()).map(number);
        numbers.filter(|number| number & 0x0F0F != 0x0A0A || number >> 8 != number & 0xFF).collect()
    };
    let [ciphers, extensions, algorithms, versions, version] = [0, 1, 2, 3, 4].map(|at| numbers(&row[at]));
    if extensions.contains(&34) || extensions.contains(&50) {
        return None;
    }
    let version = match versions.iter().max().or(version.first())? {
        0x304 => "13",
        0x303 => "12",
        0x302 => "11",
        0x301 => "10",
        _ => "s3",
    };
    let alpn = first(&row[5]);
    let alpn =
        if alpn.is_empty() { "00".into() } else { format!("{}{}", &alpn[..1], &alpn[alpn.len() - 1..]) };
    let list = |mut numbers: Vec<u32>, is_sorted: bool| {
        if is_sorted {
            numbers.sort_unstable();
        }
        numbers.iter().map(|number| format!("{number:04x}")).collect::<Vec<_>>().join(",")
    };
    let hash = |list: String| {
        let digest = Sha256::digest(list.as_bytes());
        let hex = digest.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"));
        if list.is_empty() { "0".repeat(12) } else { hex[..12].to_owned() }
    };
    let sni = if extensions.contains(&0) { 'd' } else { 'i' };
    let counts = format!("{:02}{:02}", ciphers.len().min(99), extensions.len().min(99));
    let mut rest = list(extensions.into_iter().filter(|kind| ![0, 16].contains(kind)).collect(), true);
    if !algorithms.is_empty() {
        rest = format!("{rest}_{}", list(algorithms, false));
    }
    Some(format!("t{version}{sni}{counts}{alpn}_{}_{}", hash(list(ciphers, true)), hash(rest)))
}

/// The fields that tshark finds, by column, for the ends of the packet in which they first occur.
type Found = BTreeMap<(&'static str, End, End), String>;

fn note(found: &mut Found, name: &'static str, ends: &[End; 2], value: &str) {
    if !value.is_empty() {
        found.entry((name, ends[0].clone(), ends[1].clone())).or_insert_with(|| value.to_owned());
    }
}

fn dissected(path: &Path) -> Option<Found> {
    let mut found = Found::new();
    let columns_of =
        |filter: &str, columns: &[&str]| tshark(path, &["-Y", filter], &[&ENDS[..], columns].concat());
    for row in columns_of(
        "tcp && tls.handshake.type == 1",
        &[
            "tls.handshake.ciphersuite",
            "tls.handshake.extension.type",
            "tls.handshake.sig_hash_alg",
            "tls.handshake.extensions.supported_version",
            "tls.handshake.version",
            "tls.handshake.extensions_alpn_str",
            "tls.handshake.extensions_server_name",
        ],
    )? {
        let Some(ends) = ends(&row) else { continue };
        note(&mut found, "tls_sni", &ends, first(&row[14]));
        note(&mut found, "tls_alpn", &ends, &row[13]);
        note(&mut found, "tls_ja4", &ends, &ja4(&row[8..]).unwrap_or_default());
    }
    for row in columns_of("tcp && tls.handshake.type == 2", &["tls.handshake.version"])? {
        let Some([server, client]) = ends(&row) else { continue };
        let version = match first(&row[8]) {
            "0x0300" => "SSLv3",
            "0x0301" => "TLSv1",
            "0x0302" => "TLS 1.1",
            "0x0303" => "TLS 1.2",
            _ => continue,
        };
        note(&mut found, "tls_version", &[client, server], version);
    }
    for row in columns_of(
        "http.request && tcp",
        &["http.request.method", "http.host", "http.request.uri", "http.user_agent"],
    )? {
        let Some(ends) = ends(&row) else { continue };
        // A second request in the same packet would be listed after a comma.
        for (at, name) in
            [(8, "http_method"), (9, "http_host"), (10, "http_target"), (11, "http_user_agent")]
        {
            note(&mut found, name, &ends, &row[at]);
        }
    }
    // The final status.
    let final_status = "http.response && tcp && (http.response.code >= 200 || http.response.code == 101)";
    for row in columns_of(final_status, &["http.response.code"])? {
        let Some([server, client]) = ends(&row) else { continue };
        note(&mut found, "http_status", &[client, server], first(&row[8]));
    }
    for row in
        columns_of("dns || mdns || llmnr", &["dns.flags.response", "dns.qry.name", "dns.flags.rcode"])?
    {
        let Some(ends) = ends(&row) else { continue };
        note(&mut found, "dns_query", &ends, first(&row[9]));
    }
    for row in columns_of("ssh.protocol", &["ssh.protocol"])? {
        let Some([sender, receiver]) = ends(&row) else { continue };
        let software = row[8].splitn(3, '-').nth(2).unwrap_or_default();
        note(&mut found, "ssh_client", &[sender.clone(), receiver.clone()], software);
        note(&mut found, "ssh_server", &[receiver, sender], software);
    }
    for row in columns_of("quic.long.packet_type", &["quic.version"])? {
        let Some(ends) = ends(&row) else { continue };
        let version = match first(&row[8]) {
            "0x00000001" => "1",
            "0x6b3343cf" => "2",
            _ => continue,
        };
        note(&mut found, "quic_version", &ends, version);
    }
    Some(found)
}

/// Returns whether Flowloom's text equals tshark's or is its beginning.
fn agrees(ours: &str, theirs: &str) -> bool {
    // Both programs escape differently.
    let is_plain = |text: &str| !text.contains('\\');
    ours == theirs
        || !is_plain(ours)
        || !is_plain(theirs)
        || ours.strip_suffix('…').is_some_and(|begin| theirs.starts_with(begin))
}

#[test]
fn application_fields_of_real_captures_are_those_that_wiresharks_dissectors_find() {
    let (mut compared, mut differ) = (BTreeMap::<&str, u64>::new(), Vec::new());
    let mut explained = [0; EXPLAINED.len()];
    let captures = captures();
    for path in &captures {
        let Some(theirs) = dissected(path) else { continue };
        let records = records(path, &["--fields", "tls,dns,http,quic,ssh"]);
        // Only the first record of a connection whose ports are reused.
        let mut ours: BTreeMap<[End; 2], &Value> = BTreeMap::new();
        for record in &records {
            let place = ours.entry(record_ends(record)).or_insert(record);
            if number(record, "start") < number(place, "start") {
                *place = record;
            }
        }
        for ((name, from, to), value) in theirs {
            // If the first packet was lost, the source may be the other end.
            let pair = [from.clone(), to.clone()];
            let Some(record) = ours.get(&pair).or_else(|| ours.get(&[to.clone(), from.clone()])) else {
                differ.push(format!("{}: no record for {name} {value} {from:?}", path.display()));
                continue;
            };
            if name.starts_with("ssh") && record_ends(record)[0] != from {
                continue;
            }
            *compared.entry(name).or_default() += 1;
            let text = match &record[name] {
                Value::String(text) => text.clone(),
                Value::Null => String::new(),
                number => number.to_string(),
            };
            if agrees(&text, &value) {
                continue;
            }
            let is_known = |(capture, column, ..): &(&str, &str, usize, &str)| {
                path.ends_with(capture) && name.starts_with(column) && text.is_empty()
            };
            if let Some(at) = EXPLAINED.iter().position(is_known) {
                explained[at] += 1;
            } else {
                differ.push(format!("{}: {name} '{text}', tshark '{value}' {from:?}", path.display()));
            }
        }
    }
    assert!(differ.is_empty(), "of {compared:?}:\n{}", differ.join("\n"));
    if !captures.is_empty() {
        assert!(compared.len() > 8, "{compared:?}");
        let is_within = explained.iter().zip(&EXPLAINED).all(|(found, (.., most, _))| found <= most);
        assert!(is_within, "{explained:?} of {EXPLAINED:?}");
    }
}
