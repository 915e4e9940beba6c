//! `cargo xtask matrix`: every tag in every tunnel behind every link type, beside tshark.
//!
//! A test of `flowloom-packet` writes the packets and checks that the decoder leads to the
//! innermost five-tuple. tshark reads the same capture, with the encapsulations it must be told of.
//! A packet on which it differs must have a header that `docs/tshark-differences.csv` lists, with
//! the document that decides.

#![expect(clippy::print_stdout, reason = "the result of the verb")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};

/// Headers that tshark follows only if told.
const TOLD: [&str; 16] = [
    "-d",
    "ethertype==0x9200,vlan",
    "-d",
    "ethertype==0x9300,vlan",
    "-d",
    "ethertype==0xdadb,vlan",
    "-d",
    "ethertype==0x893b,vlan",
    "-d",
    "udp.port==8472,vxlan",
    "-d",
    "udp.port==7932,hp_erm",
    "-d",
    "ip.proto==94,ip",
    "-o",
    "esp.enable_null_encryption_decode_heuristic:TRUE",
];
const FIELDS: [&str; 6] = ["ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "tcp.srcport", "tcp.dstport"];
/// The most packets that are listed as unexplained.
const LISTED_MAX: usize = 20;

/// A header that tshark does not follow.
#[derive(Debug)]
struct Exception {
    /// The name of the header before it, `file` for none, or `*` for any.
    within: String,
    /// The name of the header, or `tag` for any that an Ethertype announces.
    what: String,
    why: String,
}

/// Writes the packets and compares.
pub(crate) fn run(root: &Path) -> Result<ExitCode> {
    let folder = root.join("target/matrix");
    std::fs::create_dir_all(&folder)?;
    let written = Command::new("cargo")
        .args(["test", "--locked", "-q", "-p", "flowloom-packet", "--test", "encapsulations", "--"])
        .args(["--exact", "--ignored", "write_the_matrix"])
        .env("FLOWLOOM_MATRIX", &folder)
        .current_dir(root)
        .status()?;
    ensure!(written.success(), "the decoder does not lead to the innermost packet, as listed above");
    let mut tshark = Command::new("tshark");
    tshark.arg("-r").arg(folder.join("matrix.pcapng")).args(["-n", "-T", "fields", "-E", "occurrence=l"]);
    let found = tshark
        .args(TOLD)
        .args(FIELDS.iter().flat_map(|field| ["-e", field]))
        .output()
        .context("tshark cannot be run: install it (Debian: tshark)")?;
    let found = String::from_utf8(found.stdout)?;
    let packets = std::fs::read_to_string(folder.join("matrix.tsv"))?;
    let exceptions = exceptions(&std::fs::read_to_string(root.join("docs/tshark-differences.csv"))?)?;
    let encapsulations = std::fs::read_to_string(root.join("docs/encapsulations.csv"))?;
    let tags = tags(&encapsulations);
    let counts = (packets.lines().count(), found.lines().count());
    ensure!(counts.0 == counts.1, "of {} packets tshark answered for {}", counts.0, counts.1);

    let (mut equal, mut unexplained) = (0_u64, Vec::new());
    let mut explained: BTreeMap<&str, u64> = BTreeMap::new();
    for (packet, found) in packets.lines().zip(found.lines()) {
        let chain: Vec<&str> = packet.split('\t').collect();
        if is_innermost(chain[0], &found.split('\t').collect::<Vec<_>>()) {
            equal += 1;
            continue;
        }
        let headers: Vec<&str> = chain[1..4].iter().copied().filter(|name| *name != "-").collect();
        match exceptions.iter().find(|exception| exception.is_in(&headers, &tags)) {
            Some(exception) => *explained.entry(&exception.why).or_default() += 1,
            None => unexplained.push(packet),
        }
    }
    for (why, packets) in &explained {
        println!("{packets:>7}  {why}");
    }
    for packet in unexplained.iter().take(LISTED_MAX) {
        println!("unexplained: {packet}");
    }
    println!(
        "{} packets: {equal} equal, {} explained by {} reasons, {} unexplained",
        counts.0,
        explained.values().sum::<u64>(),
        explained.len(),
        unexplained.len()
    );
    Ok(crate::program::exit_code(unexplained.is_empty()))
}

/// Returns whether these fields are the five-tuple of the innermost packet.
fn is_innermost(family: &str, fields: &[&str]) -> bool {
    let (addresses, expected) = match family {
        "4" => (fields.get(..2), ["10.9.9.1", "10.9.9.2"]),
        _ => (fields.get(2..4), ["2001:db8::901", "2001:db8::902"]),
    };
    addresses == Some(&expected) && fields.get(4..6) == Some(&["57600", "80"])
}

fn exceptions(table: &str) -> Result<Vec<Exception>> {
    let row = |line: &str| {
        let mut fields = line.splitn(3, ',').map(|field| field.trim_matches('"').to_owned());
        let (within, what, why) = (fields.next()?, fields.next()?, fields.next()?);
        Some(Exception { within, what, why })
    };
    let rows = table
        .lines()
        .skip(1)
        .map(|line| row(line).with_context(|| format!("docs/tshark-differences.csv: {line}")));
    rows.collect()
}

/// Returns the names of the headers that an Ethertype announces.
fn tags(table: &str) -> BTreeSet<&str> {
    let rows = table.lines().filter_map(|line| line.strip_prefix("ethertype,"));
    // The fragment of a multilink bundle stands behind the Ethertype of PPPoE.
    rows.filter_map(|row| row.split(',').next()).chain(["ppp_multilink"]).collect()
}

impl Exception {
    /// Returns whether the header is among these, outermost first.
    fn is_in(&self, headers: &[&str], tags: &BTreeSet<&str>) -> bool {
        let before = std::iter::once("file").chain(headers.iter().copied());
        before.zip(headers).any(|(before, header)| {
            let is_what = if self.what == "tag" {
                tags.contains(name(header))
            } else {
                matches_header(header, &self.what)
            };
            is_what && (self.within == "*" || matches_header(before, &self.within))
        })
    }
}

fn name(header: &str) -> &str {
    header.split('#').next().unwrap_or(header)
}

/// Returns whether a header such as `vlan#1:33024` is meant by `vlan`, `vlan#1`, `vlan:33024` or
/// its whole name.
fn matches_header(header: &str, pattern: &str) -> bool {
    let (kind, number) = header.split_once(':').unwrap_or((header, ""));
    let (pattern, wanted) = pattern.split_once(':').unwrap_or((pattern, number));
    number == wanted && (pattern == kind || pattern == name(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_name_a_header_and_the_one_before_it() {
        let table = "within,what,why\n*,gue,\"a, b\"\nfile,link_erf:175,c\ngre,tag,d\n*,l2tp#4,e\n";
        let exceptions = exceptions(table).unwrap();
        let tags = tags("kind,name\nethertype,vlan,1\nip_protocol,gre,47\n");
        let found = |headers: &[&str]| {
            let exception = exceptions.iter().find(|exception| exception.is_in(headers, &tags));
            exception.map(|exception| exception.why.as_str())
        };
        assert_eq!(found(&["link_ethernet#1:1", "gue#2:6080"]), Some("a, b"));
        assert_eq!(found(&["link_erf#2:175", "vlan#1:33024"]), Some("c"));
        assert_eq!(found(&["link_erf#2:197", "vlan#1:33024"]), None);
        assert_eq!(found(&["link_ethernet#1:1", "gre#1:47", "vlan#1:33024"]), Some("d"));
        assert_eq!(found(&["link_ethernet#1:1", "vlan#1:33024", "gre#1:47"]), None);
        assert_eq!(found(&["link_ethernet#1:1", "l2tp#4:1701"]), Some("e"));
        assert_eq!(found(&["link_ethernet#1:1", "l2tp#3:1701"]), None);
        assert!(super::exceptions("within,what,why\nfile\n").is_err());
    }
}
