//! Baselines of Zeek's `conn.log`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};

use super::{Scores, output_of};

/// Columns that are compared, with their goals in per cent.
const COLUMNS: [(&str, f64); 5] = [
    ("conn_state", 97.0),
    ("history", 95.0),
    ("orig_bytes", 97.0),
    ("resp_bytes", 97.0),
    ("missed_bytes", 97.0),
];
const ENDS: [&str; 5] = ["id.orig_h", "id.orig_p", "id.resp_h", "id.resp_p", "proto"];
/// Zeek's idle timeout of TCP. It also follows tunnels, and joins fragments.
const LIKE_ZEEK: [&str; 9] =
    ["--app", "accounting", "--flows", "-", "--flows-format", "zeek", "--timeout", "300", "-qq"];

type Row = BTreeMap<String, String>;

/// Reads a table with names in its first line.
fn rows(names: &str, lines: &[&str]) -> Vec<Row> {
    let names: Vec<&str> = names.split('\t').collect();
    let row = |line: &&str| {
        names
            .iter()
            .zip(line.split('\t'))
            .map(|(name, value)| ((*name).to_owned(), value.to_owned()))
            .collect()
    };
    lines.iter().map(row).collect()
}

fn ends(row: &Row) -> Vec<&str> {
    ENDS.iter().map(|&name| value(row, name)).collect()
}

fn value<'a>(row: &'a Row, name: &str) -> &'a str {
    row.get(name).map_or("-", String::as_str)
}

/// Compares the records of every capture of a folder with the rows that Zeek's tests expect.
pub(super) fn compare(program: &Path, folder: &Path) -> Result<Scores> {
    let mut scores = Scores { columns: COLUMNS.to_vec(), ..Scores::default() };
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .with_context(|| format!("cannot read {}", folder.display()))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".conn.tsv"))
        .collect();
    files.sort();
    for file in files {
        let text = std::fs::read_to_string(folder.join(&file))?;
        let lines: Vec<&str> = text.lines().collect();
        let Some((names, lines)) = lines.split_first() else { continue };
        let stem = file.trim_end_matches(".conn.tsv");
        let capture = folder.join(stem.rsplit_once('.').map_or(stem, |(capture, _)| capture));
        // Zeek logs the connections of tunnels and those inside of them.
        let mut ours = Vec::new();
        for more in [&["--defrag"][..], &["--defrag", "--decap"]] {
            let log = output_of(program, &capture, &[&LIKE_ZEEK, more].concat())?;
            let named = log.lines().find_map(|line| line.strip_prefix("#fields\t"));
            let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with('#')).collect();
            let found = rows(named.unwrap_or_default(), &lines);
            ours.extend(found.into_iter().map(|row| (row, more.len(), false)));
        }
        for theirs in rows(names, lines) {
            compare_row(&mut scores, &file, &theirs, &mut ours);
        }
    }
    Ok(scores)
}

/// Compares a row with the record of the same ends that fits best and was not compared before.
/// Records of both runs of a capture are the same connections.
fn compare_row(scores: &mut Scores, file: &str, theirs: &Row, ours: &mut [(Row, usize, bool)]) {
    scores.rows += 1;
    let what = format!("{file}: {}", ends(theirs).join(" "));
    let fits = |row: &Row| {
        let equal = |name: &&(&str, f64)| value(row, name.0) == value(theirs, name.0);
        let packets = ["orig_pkts", "resp_pkts"].iter().all(|name| value(row, name) == value(theirs, name));
        (packets, COLUMNS.iter().filter(equal).count())
    };
    let same: Vec<usize> = (0..ours.len()).filter(|&at| ends(&ours[at].0) == ends(theirs)).collect();
    let free = same.iter().copied().filter(|&at| !ours[at].2);
    let Some(best) = free.max_by_key(|&at| (fits(&ours[at].0), std::cmp::Reverse(at))) else {
        let exchanged = ours.iter().any(|(row, ..)| {
            let [orig, orig_port, resp, resp_port, _] = ENDS.map(|name| value(row, name));
            ends(theirs)[..4] == [resp, resp_port, orig, orig_port]
        });
        let reason = if !same.is_empty() {
            "Zeek has more connections: it ends attempts and closed ones after 5 s"
        } else if exchanged {
            "the other end is the originator"
        } else if value(theirs, "proto") == "unknown_transport" {
            "no such protocol of IP"
        } else if value(theirs, "tunnel_parents") != "-" {
            "inside a tunnel that is not followed"
        } else {
            "no such record"
        };
        scores.differ(reason, what);
        return;
    };
    let (row, run, _) = ours[best].clone();
    ours[best].2 = true;
    // The other run has the same connection, unless it lies in a tunnel.
    if let Some((.., used)) = ours.iter_mut().find(|(other, of, used)| !used && *of != run && *other == row)
    {
        *used = true;
    }
    for (column, _) in COLUMNS {
        let [expected, found] = [theirs, &row].map(|row| value(row, column));
        if expected == found {
            *scores.equal.entry(column).or_default() += 1;
            continue;
        }
        let packets =
            |row: &Row| ["orig_pkts", "resp_pkts"].map(|name| value(row, name).parse().unwrap_or(0_u64));
        let (their_packets, our_packets) = (packets(theirs), packets(&row));
        let reason = if same.len() > 1 || our_packets > their_packets {
            "Zeek has fewer packets: it ended the connection, or counts fragments once"
        } else if our_packets != their_packets {
            "the packets differ"
        } else {
            "the same packets"
        };
        scores.differ(reason, format!("{what}: {column} {expected}, found {found}"));
    }
}
