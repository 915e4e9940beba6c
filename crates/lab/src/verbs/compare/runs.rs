//! Compares two saved runs of `replay`: their packets, protocols and talkers, and the flows of
//! their records, if the folders hold those.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use flowloom::flow_key::protocol::has_ports;
use serde_json::Value;

use crate::decompressed::unpack;
use crate::exit::Failure;
use crate::render::compare_runs::{Amount, Amounts, CompareRuns, Conversations, HandshakeTimes, Run};

/// The names that records may have in a folder.
const RECORDS: [&str; 3] = ["flows.csv", "flows.csv.zst", "flows.csv.gz"];
/// Maximum number of conversations of a run. The flows of further ones are counted together.
const CONVERSATIONS_MAX: usize = 1 << 20;

/// Maximum number of handshakes whose times are kept, the first ones of a run.
const HANDSHAKES_MAX: usize = 1 << 22;

/// The hosts, the port and the protocol of a conversation: what its flows have in common.
type Key = [String; 4];

/// Compares two documents of `replay`, which lie at these paths.
pub(super) fn compare(paths: [&Path; 2], documents: [&Value; 2]) -> Result<CompareRuns, Failure> {
    let [base, new] = [0, 1].map(|i| run(paths[i], documents[i]));
    let mut hosts = amounts(documents, "talkers", "host");
    let beside = paths.map(records_beside);
    let mut without_records = Vec::new();
    let mut records = Vec::new();
    for (side, path) in beside.iter().enumerate() {
        let Some(path) = path else {
            without_records.push(paths[side].display().to_string());
            continue;
        };
        let read = read(path)?;
        read.complete(&mut hosts, side);
        records.push(read);
    }
    let conversations = <[Records; 2]>::try_from(records).ok().map(conversations);
    let same_records = [0, 1].map(|i| &documents[i]["digest"]);
    Ok(CompareRuns {
        schema: "flowloom/compare-runs/1",
        same_records: !same_records[0].is_null() && same_records[0] == same_records[1],
        base,
        new,
        protocols: amounts(documents, "protocols", "protocol"),
        hosts,
        conversations,
        without_records,
    })
}

fn number(document: &Value, name: &str) -> u64 {
    document[name].as_u64().unwrap_or(0)
}

fn run(path: &Path, document: &Value) -> Run {
    Run {
        path: path.display().to_string(),
        packets: document["sampling"]["packets"].as_u64().unwrap_or_else(|| number(document, "packets")),
        one_of: document["sampling"]["one_of"].as_u64(),
        bytes: number(document, "bytes_on_wire"),
        flows: number(document, "flows"),
        span_ns: number(document, "last_ns").saturating_sub(number(document, "first_ns")),
        begin_ns: number(document, "first_ns"),
        is_complete: document["complete"] == true,
    }
}

/// Returns the amounts of a list of each run, the largest first. A name that a list lacks may have
/// been cut off, as only the largest talkers are listed.
fn amounts(documents: [&Value; 2], list: &str, name: &str) -> Vec<Amounts> {
    let mut found: Vec<Amounts> = Vec::new();
    let mut places = HashMap::new();
    for (side, document) in documents.iter().enumerate() {
        let list = &document["sums"][list];
        let rows = list.as_array().or_else(|| list["rows"].as_array());
        for row in rows.into_iter().flatten() {
            let Some(name) = row[name].as_str() else { continue };
            let place = *places.entry(name.to_owned()).or_insert_with(|| {
                found.push(Amounts { name: name.to_owned(), base: None, new: None });
                found.len() - 1
            });
            let [flows, packets, bytes] = ["flows", "packets", "bytes"].map(|name| number(row, name));
            *found[place].side(side) = Some(Amount { flows, packets, bytes, handshake_ns: None });
        }
    }
    found.sort_by(|a, b| b.largest().cmp(&a.largest()).then_with(|| a.name.cmp(&b.name)));
    found
}

/// Returns the file of records that lies in the folder of a result.
fn records_beside(path: &Path) -> Option<PathBuf> {
    let folder = if path.is_dir() { path } else { path.parent()? };
    RECORDS.iter().map(|name| folder.join(name)).find(|path| path.is_file())
}

/// The conversations of a run.
#[derive(Default)]
struct Records {
    /// By key, and of records that may have their ends the wrong way round by source port, which is
    /// empty for a protocol without ports.
    sums: HashMap<(Key, Option<String>), Sum>,
    beyond: u64,
    handshakes: Vec<u64>,
}

#[derive(Default)]
struct Sum {
    amount: Amount,
    handshakes: u64,
    handshake_ns: u64,
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.amount.flows += other.amount.flows;
        self.amount.packets = self.amount.packets.saturating_add(other.amount.packets);
        self.amount.bytes = self.amount.bytes.saturating_add(other.amount.bytes);
        self.handshakes += other.handshakes;
        self.handshake_ns = self.handshake_ns.saturating_add(other.handshake_ns);
    }

    fn into_amount(self) -> Amount {
        Amount { handshake_ns: self.handshake_ns.checked_div(self.handshakes), ..self.amount }
    }
}

impl Records {
    /// Adds the amounts of hosts that the run does not list among its largest. If some flows belong
    /// to no conversation, they remain unknown.
    fn complete(&self, hosts: &mut [Amounts], side: usize) {
        if self.beyond > 0 {
            return;
        }
        let mut missing: HashMap<&str, Amount> = HashMap::new();
        let lacking = hosts.iter_mut().filter_map(|host| host.side(side).is_none().then_some(&*host));
        missing.extend(lacking.map(|host| (host.name.as_str(), Amount::default())));
        for (([source, destination, ..], _), sum) in &self.sums {
            let is_same = source == destination;
            for end in [Some(source), Some(destination).filter(|_| !is_same)].into_iter().flatten() {
                if let Some(amount) = missing.get_mut(end.as_str()) {
                    amount.flows += sum.amount.flows;
                    amount.packets += sum.amount.packets;
                    amount.bytes += sum.amount.bytes;
                }
            }
        }
        let found: HashMap<String, Amount> =
            missing.into_iter().map(|(name, amount)| (name.to_owned(), amount)).collect();
        for host in hosts {
            if let Some(amount) = found.get(&host.name) {
                *host.side(side) = Some(amount.clone());
            }
        }
    }
}

/// Reads records as `replay --flows` writes them.
fn read(path: &Path) -> Result<Records, Failure> {
    let failed = |why: &dyn std::fmt::Display| {
        Failure::Input(format!(
            "{} holds no records that can be compared: {why}\n  write them with replay --flows",
            path.display()
        ))
    };
    let file = std::fs::File::open(path).and_then(unpack).map_err(|error| failed(&error))?;
    let mut lines = csv::Reader::from_reader(file);
    let head = lines.headers().map_err(|error| failed(&error))?.clone();
    let place = |name: &str| head.iter().position(|column| column == name);
    let wanted = |name: &str| place(name).ok_or_else(|| failed(&format!("it has no column {name}")));
    let [source, destination, port, protocol] =
        [wanted("source")?, wanted("destination")?, wanted("destination_port")?, wanted("protocol_name")?];
    let [number, packets, bytes] = [wanted("protocol")?, wanted("packets")?, wanted("bytes")?];
    let back = ["reverse_packets", "reverse_bytes"].map(place);
    let handshake = place("handshake_rtt");
    let [source_port, direction, icmp_type] = ["source_port", "direction", "icmp_type"].map(place);
    let mut records = Records::default();
    let mut line = csv::StringRecord::new();
    while lines.read_record(&mut line).map_err(|error| failed(&error))? {
        let text = |at: usize| line.get(at).unwrap_or_default();
        let number_at = |at: usize| match text(at) {
            "" => Ok(None),
            digits => digits.parse::<u64>().map(Some).map_err(|_| {
                let line = line.position().map_or(0, csv::Position::line);
                failed(&format!("line {line} has '{digits}' for {}", &head[at]))
            }),
        };
        let sum_of = |at: usize, back: Option<usize>| -> Result<u64, Failure> {
            let back = back.map_or(Ok(None), number_at)?;
            Ok(number_at(at)?.unwrap_or(0).saturating_add(back.unwrap_or(0)))
        };
        let mut key = [source, destination, port, protocol].map(|at| text(at).to_owned());
        if key[3].is_empty() {
            key[3] = format!("protocol {}", text(number));
        }
        let ports = [source_port, Some(port)].map(|at| text(at?).parse::<u16>().ok());
        let has_ports = text(number).parse().is_ok_and(has_ports);
        // The first captured packet is more often a request: its source has the higher port, or it
        // is an echo request of ICMP.
        let may_be_answer = if has_ports {
            ports[0] <= ports[1]
        } else {
            !icmp_type.is_some_and(|at| matches!(text(at), "8" | "128"))
        };
        let turnable = match direction.map(text) {
            Some("arbitrary") => true,
            Some("first_packet") => may_be_answer,
            _ => false,
        };
        if !has_ports {
            key[2].clear();
        }
        let turnable = (turnable && (ports[0].is_some() || !has_ports))
            .then(|| source_port.filter(|_| has_ports).map_or_else(String::new, |at| text(at).to_owned()));
        let key = (key, turnable);
        let is_full = records.sums.len() >= CONVERSATIONS_MAX && !records.sums.contains_key(&key);
        if is_full {
            records.beyond += 1;
            continue;
        }
        let took = handshake.map_or(Ok(None), number_at)?;
        let (packets, bytes) = (sum_of(packets, back[0])?, sum_of(bytes, back[1])?);
        records.sums.entry(key).or_default().add(&Sum {
            amount: Amount { flows: 1, packets, bytes, handshake_ns: None },
            handshakes: u64::from(took.is_some()),
            handshake_ns: took.unwrap_or(0),
        });
        records.handshakes.extend(took.filter(|_| records.handshakes.len() < HANDSHAKES_MAX));
    }
    Ok(records)
}

fn conversations(mut records: [Records; 2]) -> Conversations {
    let beyond = records.each_ref().map(|records| records.beyond);
    let handshakes = records
        .each_mut()
        .map(|records| HandshakeTimes::from_times(std::mem::take(&mut records.handshakes)));
    let sums = (0..).zip(records).flat_map(|(side, records)| {
        records.sums.into_iter().map(move |((key, source_port), sum)| (source_port, key, side, sum))
    });
    let mut sums: Vec<(Option<String>, Key, usize, Sum)> = sums.collect();
    // Those whose direction is known come first, then those of the base.
    sums.sort_unstable_by(|a, b| (a.0.is_some(), a.2, &a.0, &a.1).cmp(&(b.0.is_some(), b.2, &b.0, &b.1)));
    let (mut both, mut turned): (HashMap<Key, [Option<Sum>; 2]>, _) = (HashMap::new(), 0);
    for (source_port, mut key, side, sum) in sums {
        if let Some(source_port) = source_port
            && !both.contains_key(&key)
        {
            let [source, destination, _, protocol] = key.clone();
            let other = [destination, source, source_port, protocol];
            if both.contains_key(&other) {
                key = other;
                turned += sum.amount.flows;
            }
        }
        both.entry(key).or_default()[side].get_or_insert_default().add(&sum);
    }
    let named = both.into_iter().map(|([source, destination, port, protocol], sides)| {
        let port = if port.is_empty() { port } else { format!(" port {port}") };
        let [base, new] = sides.map(|side| side.map(Sum::into_amount));
        Amounts { name: format!("{source} → {destination}{port} {protocol}"), base, new }
    });
    Conversations::new(named.collect(), beyond, turned, handshakes)
}
