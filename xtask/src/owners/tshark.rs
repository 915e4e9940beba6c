//! Counters of `tcp.analysis` by direction, as tshark finds them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::{Scores, output_of};

/// The columns of a direction, with the flags of tshark that they count, and the goal in per cent.
const COUNTERS: [(&str, &[&str]); 6] = [
    ("retransmissions", &["retransmission", "fast_retransmission", "spurious_retransmission"]),
    ("out_of_order", &["out_of_order"]),
    ("keep_alives", &["keep_alive"]),
    ("window_probes", &["zero_window_probe"]),
    ("zero_windows", &["zero_window"]),
    ("duplicate_acks", &["duplicate_ack"]),
];
const GOAL: f64 = 98.0;
const ALL: &str = "all six";
/// Both join fragments, follow tunnels, and leave VLANs out of the key.
const OURS: [&str; 10] = [
    "--defrag", "--decap", "--ignore-vlan", "--app", "accounting", "--fields", "tcp", "--flows", "-", "-qq",
];

/// Sender and receiver of a direction.
type Way = [(String, String); 2];

/// The values of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    counters: [u64; COUNTERS.len()],
    /// Records, or packets of tshark.
    entries: u64,
}

/// Compares the counters of every capture in a folder and its folders, and of a file.
pub(super) fn compare(program: &Path, folder: &Path) -> Result<Scores> {
    let mut scores = Scores {
        columns: COUNTERS.iter().map(|(name, _)| (*name, GOAL)).chain([(ALL, GOAL)]).collect(),
        ..Scores::default()
    };
    let mut captures = Vec::new();
    find(folder, &mut captures)?;
    for capture in captures {
        let Some(theirs) = of_tshark(&capture)? else {
            println!("not compared: {}", capture.display());
            continue;
        };
        compare_capture(&mut scores, &capture, &theirs, &of_records(program, &capture)?);
    }
    Ok(scores)
}

fn find(path: &Path, captures: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_dir() {
        let entries = std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        paths.sort();
        return paths.iter().try_for_each(|path| find(path, captures));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if [".pcap", ".pcapng", ".cap"].iter().any(|end| name.trim_end_matches(".gz").ends_with(end)) {
        captures.push(path.to_owned());
    }
    Ok(())
}

fn compare_capture(
    scores: &mut Scores,
    capture: &Path,
    theirs: &BTreeMap<Way, Counts>,
    ours: &BTreeMap<Way, Counts>,
) {
    let file = capture.file_name().unwrap_or_default().to_string_lossy();
    for way in theirs.keys().chain(ours.keys()).collect::<BTreeSet<_>>() {
        scores.rows += 1;
        let [from, to] = way;
        let name = format!("{file}: {}:{} to {}:{}", from.0, from.1, to.0, to.1);
        let (Some(theirs), Some(ours)) = (theirs.get(way), ours.get(way)) else {
            let side = if ours.contains_key(way) { "only a record has it" } else { "only tshark has it" };
            scores.differ(side, name);
            continue;
        };
        let mut is_equal = true;
        for (at, (column, _)) in COUNTERS.iter().enumerate() {
            let [expected, found] = [theirs, ours].map(|counts| counts.counters[at]);
            if expected == found {
                *scores.equal.entry(column).or_default() += 1;
                continue;
            }
            is_equal = false;
            let reason = if ours.entries > 1 { "several records" } else { "one record" };
            scores.differ(reason, format!("{name}: {column} {expected}, found {found}"));
        }
        *scores.equal.entry(ALL).or_default() += u32::from(is_equal);
    }
}

/// Returns the values of the records, or an empty map without records.
fn of_records(program: &Path, capture: &Path) -> Result<BTreeMap<Way, Counts>> {
    let text = output_of(program, capture, &OURS)?;
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().unwrap_or_default();
    let mut found = BTreeMap::<Way, Counts>::new();
    for line in lines {
        let value = |name: &str| {
            let at = names.iter().position(|known| *known == name);
            at.map_or("", |at| line[at])
        };
        if value("protocol") != "6" {
            continue;
        }
        let ends = ["source", "destination"]
            .map(|end| (value(end).to_owned(), value(&format!("{end}_port")).to_owned()));
        for (reverse, way) in [("", ends.clone()), ("reverse_", [ends[1].clone(), ends[0].clone()])] {
            if value(&format!("{reverse}packets")) == "0" {
                continue;
            }
            let counts = found.entry(way).or_default();
            counts.entries += 1;
            for (sum, (column, _)) in counts.counters.iter_mut().zip(COUNTERS) {
                *sum += value(&format!("{reverse}{column}")).parse::<u64>().unwrap_or(0);
            }
        }
    }
    Ok(found)
}

/// Returns what tshark says, or `None` if it cannot read the capture. TCP that an ICMP error quotes
/// is of no direction.
fn of_tshark(capture: &Path) -> Result<Option<BTreeMap<Way, Counts>>> {
    const ENDS: [&str; 7] =
        ["frame.protocols", "ip.src", "ipv6.src", "tcp.srcport", "ip.dst", "ipv6.dst", "tcp.dstport"];
    let flags = COUNTERS.iter().flat_map(|(_, flags)| *flags);
    let fields = ENDS.iter().map(|name| (*name).to_owned());
    let fields = fields.chain(flags.map(|flag| format!("tcp.analysis.{flag}")));
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(capture).args(["-Y", "tcp && !icmp && !icmpv6"]);
    command.args(["-T", "fields", "-E", "separator=/t", "-E", "occurrence=l"]);
    fields.for_each(|field| {
        command.arg("-e").arg(field);
    });
    let output = command.stderr(Stdio::null()).output().context("cannot start tshark")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() && text.is_empty() {
        return Ok(None);
    }
    let mut found = BTreeMap::<Way, Counts>::new();
    for line in text.lines() {
        let values: Vec<&str> = line.split('\t').collect();
        ensure!(values.len() == ENDS.len() + 8, "tshark wrote a line of {} values", values.len());
        let inside =
            values[0].rsplit(':').skip_while(|name| *name != "tcp").find(|name| name.starts_with("ip"));
        let at = if inside == Some("ipv6") { 2 } else { 1 };
        let way =
            [at, at + 3].map(|at| (values[at].to_owned(), values[if at > 2 { 6 } else { 3 }].to_owned()));
        let counts = found.entry(way).or_default();
        counts.entries += 1;
        let mut flags = values[ENDS.len()..].iter();
        for (sum, (_, names)) in counts.counters.iter_mut().zip(COUNTERS) {
            // All flags of a counter are read.
            let is_set =
                names.iter().filter(|_| flags.next().is_some_and(|flag| !flag.is_empty())).count() > 0;
            *sum += u64::from(is_set);
        }
    }
    Ok(Some(found))
}
