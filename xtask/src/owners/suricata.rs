//! Suricata's tests: filters of flow events, and how many events of a capture must match each.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value};

/// The file of a folder that has the filters.
pub(crate) const EXPECTED: &str = "expected.jsonl";

/// Fields for which records have no columns.
const WITHOUT_COLUMN: [&str; 8] = [
    "flow.alerted",
    "flow.action",
    "spi",
    "ether.",
    "metadata.",
    "tcp.tc_max_regions",
    "tcp.ts_max_regions",
    "pcap_cnt",
];

/// Reasons for which a filter matches other events than those of the capture: the capture, the
/// fields that differ, and why.
const EXPLAINED: [(&str, &[&str], &str); 7] = [
    (
        "nfs3-01",
        &["community_id", "app_proto"],
        "the test has a seed for the Community ID; NFS has no label",
    ),
    ("bug-2646-01", &["tcp.state"], "the state between a FIN and its acknowledgement is no column"),
    (
        "decode-erspan-typeII-01",
        &["flow.bytes_", "vlan"],
        "bytes are those of whole frames, not of inner ones",
    ),
    ("dns-reversed-", &["src_", "dest_"], "the source is the end that sent the first packet"),
    ("mac-eve-", &["src_", "dest_"], "the source is the end that sent the first packet"),
    ("eve-flow-esp", &["flow.pkts_"], "the SPI of ESP is no part of a flow's key"),
    ("smtp-eve", &["flow."], "errors of ICMP form flows of their own"),
];

/// Compares the flow events of each capture with the filters, prints each that another number of
/// events match, and returns how many filters there are, hold, and are explained.
///
/// Suricata makes flows of the layers of a tunnel, so the events are those of a run that follows
/// tunnels and of one that does not.
pub(crate) fn compare(program: &Path, folder: &Path) -> Result<[usize; 3]> {
    let text = std::fs::read_to_string(folder.join(EXPECTED))?;
    let (mut counts, mut reasons) = ([0; 3], BTreeMap::<&str, usize>::new());
    for line in text.lines() {
        let test: Value = serde_json::from_str(line)?;
        let capture = test["capture"].as_str().context("a test without a capture")?;
        let filters: Vec<&Value> = test["expected"].as_array().into_iter().flatten().collect();
        let filters: Vec<_> =
            filters.into_iter().filter(|filter| filter["match"]["event_type"] == "flow").collect();
        if filters.is_empty() {
            continue;
        }
        let mut events = events(program, &folder.join(capture), &[])?;
        for event in self::events(program, &folder.join(capture), &["--decap"])? {
            if events.iter().all(|known| known["flow_id"] != event["flow_id"]) {
                events.push(event);
            }
        }
        for filter in filters {
            counts[0] += 1;
            let fields = filter["match"].as_object().context("a filter without fields")?;
            let differences =
                |event: &Value| fields.iter().filter(|(name, value)| differs(event, name, value)).count();
            let matching = events.iter().filter(|event| differences(event) == 0).count();
            if filter["count"] == matching {
                counts[1] += 1;
                continue;
            }
            let nearest = events.iter().min_by_key(|event| differences(event));
            let names = differing(fields, nearest.unwrap_or(&Value::Null));
            let reason = EXPLAINED.iter().find(|(begin, known, _)| {
                capture.starts_with(begin)
                    && names.iter().all(|name| known.iter().any(|begin| name.starts_with(begin)))
            });
            if let Some((.., reason)) = reason {
                counts[2] += 1;
                *reasons.entry(reason).or_default() += 1;
            } else {
                println!(
                    "{capture}: {matching} events match, not {}: {}",
                    filter["count"],
                    names.join(", ")
                );
            }
        }
    }
    for (reason, count) in reasons {
        println!("{count:6}  {reason}");
    }
    Ok(counts)
}

/// Returns the flow events of a capture.
fn events(program: &Path, capture: &Path, options: &[&str]) -> Result<Vec<Value>> {
    let output = Command::new(program)
        .arg("replay")
        .arg(capture)
        .args(["--app", "l7", "--fields", "all", "--flows", "-", "--flows-format", "eve"])
        .args(options)
        .output()?;
    ensure!(output.status.success(), "{}: {}", capture.display(), String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    text.lines().map(|line| serde_json::from_str(line).context("an event")).collect()
}

/// Returns whether an event has another value than that of a filter, in a field that has a column.
fn differs(event: &Value, name: &str, value: &Value) -> bool {
    !WITHOUT_COLUMN.iter().any(|begin| name.starts_with(begin)) && at(event, name) != Some(value)
}

fn differing(fields: &Map<String, Value>, event: &Value) -> Vec<String> {
    let differing = fields.iter().filter(|(name, value)| differs(event, name, value));
    differing.map(|(name, _)| name.clone()).collect()
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
    fn fields_are_found_by_their_paths_and_those_without_column_do_not_differ() {
        let event = serde_json::json!({"flow": {"age": 1}, "vlan": [7, 9]});
        assert_eq!((at(&event, "flow.age"), at(&event, "vlan[1]")), (Some(&1.into()), Some(&9.into())));
        assert_eq!((at(&event, "flow.x"), at(&event, "vlan[2]")), (None, None));
        let fields = serde_json::json!({"flow.age": 2, "flow.alerted": true, "vlan[0]": 7, "proto": "TCP"});
        assert_eq!(differing(fields.as_object().unwrap(), &event), ["flow.age", "proto"]);
    }
}
