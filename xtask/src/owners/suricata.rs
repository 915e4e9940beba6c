//! Suricata's tests: filters of flow events, and how many events of a capture must match each.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Map, Value};
use sha1::{Digest as _, Sha1};

use super::output_of;

/// The file of a folder that has the filters.
pub(crate) const EXPECTED: &str = "expected.jsonl";

/// Beginnings of fields for which records have no columns: what rules, bypasses, policies and other
/// outputs do, Ethernet addresses, and what Suricata expected of a protocol before it knew it.
const WITHOUT_COLUMN: [&str; 19] = [
    "flow.alerted", "flow.action", "flow.bypass", "flow.exception_policy", "flow.tx_cnt", "flow.elephant",
    "app_proto_", "ether.", "metadata.", "tcp.tc_max_regions", "tcp.ts_max_regions", "tcp.ts_urgent",
    "tcp.tc_urgent", "tcp.ts_gap", "tcp.tc_gap", "pcap_", "parent_id", "in_iface", "host",
];
const TUNNEL: &str = "in a tunnel: bytes are those of whole frames, VLANs those outside and inside";
const MIDDLE: &str = "from the middle of a connection, which the test does not follow";
const SEED: &str = "the test has another seed for the Community ID, which the ID shows";
/// Suricata's flows: ESP by its index, ICMP errors with the flow that they quote.
const LIKE_SURICATA: [&str; 10] = [
    "--app", "l7", "--fields", "all", "--flows-format", "eve", "--esp-spi", "--errors-by-flow", "--flows",
    "-",
];

/// An event, and whether it is of a flow in a tunnel.
struct Event {
    fields: Value,
    is_inner: bool,
}

/// How a field of an event compares with that of a filter.
enum Comparison {
    Equal,
    /// Not judged, for this reason.
    Apart(&'static str),
    Differs,
}

/// Compares the flow events of each capture with the filters, prints each that another number of
/// events match, and returns how many filters there are and hold. The filter and the event alone
/// determine which comparisons are skipped; these are counted by reason.
///
/// Suricata makes flows of the layers of a tunnel, so the events are those of a run that follows
/// tunnels and of one that does not.
pub(crate) fn compare(program: &Path, folder: &Path) -> Result<[usize; 2]> {
    let text = std::fs::read_to_string(folder.join(EXPECTED))?;
    let (mut counts, mut reasons) = ([0; 2], BTreeMap::<&str, usize>::new());
    for line in text.lines() {
        let test: Value = serde_json::from_str(line)?;
        let capture = test["capture"].as_str().context("a test without a capture")?;
        let filters: Vec<&Value> = test["expected"].as_array().into_iter().flatten().collect();
        let filters: Vec<_> =
            filters.into_iter().filter(|filter| filter["match"]["event_type"] == "flow").collect();
        if filters.is_empty() {
            continue;
        }
        let mut all = events(program, &folder.join(capture), false)?;
        for event in events(program, &folder.join(capture), true)? {
            if all.iter().all(|known| known.fields["flow_id"] != event.fields["flow_id"]) {
                all.push(event);
            }
        }
        for filter in filters {
            counts[0] += 1;
            let fields = filter["match"].as_object().context("a filter without fields")?;
            let matching: Vec<_> =
                all.iter().filter(|event| differing(fields, event).0.is_empty()).collect();
            if filter["count"] == matching.len() {
                counts[1] += 1;
                let apart: BTreeSet<_> =
                    matching.iter().flat_map(|event| differing(fields, event).1).collect();
                for reason in apart {
                    *reasons.entry(reason).or_default() += 1;
                }
                continue;
            }
            let nearest = all.iter().map(|event| differing(fields, event).0).min_by_key(Vec::len);
            let (found, names) = (matching.len(), nearest.unwrap_or_default().join(", "));
            println!("{capture}: {found} events match, not {}: {names}", filter["count"]);
        }
    }
    for (reason, count) in reasons {
        println!("{count:6}  hold, without what is {reason}");
    }
    Ok(counts)
}

/// Returns the flow events of a capture, of outer or of inner packets.
fn events(program: &Path, capture: &Path, is_inner: bool) -> Result<Vec<Event>> {
    let decap = if is_inner { &["--decap"][..] } else { &[] };
    let text = output_of(program, capture, &[&LIKE_SURICATA[..], decap].concat())?;
    let event =
        |line: &str| Ok(Event { fields: serde_json::from_str(line).context("an event")?, is_inner });
    text.lines().map(event).collect()
}

fn compare_field(fields: &Map<String, Value>, event: &Event, name: &str, value: &Value) -> Comparison {
    let begins = |beginnings: &[&str]| beginnings.iter().any(|begin| name.starts_with(begin));
    let is_middle = fields.get("tcp.tcp_flags").is_some_and(|flags| flags == "00");
    let is_seeded =
        || name == "community_id" && value.as_str().is_some_and(|id| seed(&event.fields, id).is_some());
    if at(&event.fields, name) == Some(value) {
        Comparison::Equal
    } else if begins(&WITHOUT_COLUMN) {
        Comparison::Apart("in fields for which records have no column")
    } else if event.is_inner && begins(&["flow.bytes_", "vlan"]) {
        Comparison::Apart(TUNNEL)
    } else if is_middle && begins(&["tcp.", "flow.state", "app_proto"]) {
        Comparison::Apart(MIDDLE)
    } else if is_seeded() {
        Comparison::Apart(SEED)
    } else {
        Comparison::Differs
    }
}

/// Returns the names of fields that differ, and the reasons of those that are not judged.
fn differing<'a>(fields: &'a Map<String, Value>, event: &Event) -> (Vec<&'a str>, Vec<&'static str>) {
    let (mut differing, mut apart) = (Vec::new(), Vec::new());
    for (name, value) in fields {
        match compare_field(fields, event, name, value) {
            Comparison::Equal => {}
            Comparison::Apart(reason) => apart.push(reason),
            Comparison::Differs => differing.push(name.as_str()),
        }
    }
    (differing, apart)
}

/// Returns the seed with which the Community ID of an event of TCP or UDP equals `id`.
fn seed(event: &Value, id: &str) -> Option<u16> {
    let end = |address: &str, port: &str| -> Option<(IpAddr, u16)> {
        Some((event[address].as_str()?.parse().ok()?, u16::try_from(event[port].as_u64()?).ok()?))
    };
    let mut ends = [end("src_ip", "src_port")?, end("dest_ip", "dest_port")?];
    ends.sort_unstable();
    let protocol = ["TCP", "UDP"].iter().position(|name| event["proto"] == *name)?;
    let octets = |address| match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let [low, high] = ends.map(|(_, port)| port.to_be_bytes());
    let rest = [&octets(ends[0].0)[..], &octets(ends[1].0), &[[6, 17][protocol], 0], &low, &high].concat();
    let wanted = from_base64(id.strip_prefix("1:")?)?;
    (0..=u16::MAX).find(|seed| {
        let hash = Sha1::new().chain_update(seed.to_be_bytes()).chain_update(&rest);
        hash.finalize()[..] == wanted[..]
    })
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bytes, mut word, mut bits) = (Vec::new(), 0_u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        let value = DIGITS.iter().position(|known| *known == digit)?;
        (word, bits) = (word << 6 | u32::try_from(value).ok()?, bits + 6);
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits).to_le_bytes()[0]);
        }
    }
    Some(bytes)
}

/// Returns the value at a path such as `flow.age` or `vlan[0]`.
fn at<'a>(event: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(event, |value, name| {
        match name.strip_suffix(']').and_then(|n| n.split_once('[')) {
            Some((name, index)) => value.get(name)?.get(index.parse::<usize>().ok()?),
            None => value.get(name),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_paths_and_judged_by_their_kind() {
        let event = |is_inner| Event {
            fields: serde_json::json!({"flow": {"age": 1, "bytes_toserver": 9}, "vlan": [7, 9]}),
            is_inner,
        };
        let fields = &event(false).fields;
        assert_eq!((at(fields, "flow.age"), at(fields, "vlan[1]")), (Some(&1.into()), Some(&9.into())));
        assert_eq!((at(fields, "flow.x"), at(fields, "vlan[2]")), (None, None));
        let filter = serde_json::json!(
            {"flow.age": 2, "flow.alerted": true, "vlan[0]": 7, "proto": "TCP", "flow.bytes_toserver": 5});
        let filter = filter.as_object().unwrap();
        assert_eq!(differing(filter, &event(false)).0, ["flow.age", "flow.bytes_toserver", "proto"]);
        assert_eq!(differing(filter, &event(true)).0, ["flow.age", "proto"]);
    }

    #[test]
    fn seed_is_found_from_a_community_id() {
        let event = serde_json::json!({"src_ip": "128.232.110.120", "src_port": 34855,
            "dest_ip": "66.35.250.204", "dest_port": 80, "proto": "TCP"});
        assert_eq!(seed(&event, "1:LQU9qZlK+B5F3KDmev6m5PMibrg="), Some(0));
        assert_eq!(seed(&event, "1:3V71V58M3Ksw/yuFALMcW0LAHvc="), Some(1));
        assert_eq!(seed(&event, "1:LQU9qZlK+B5F3KDmev6m5PMibrQ="), None);
    }
}
