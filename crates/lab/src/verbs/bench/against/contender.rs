//! The programs to compare, and how to read the number of packets from their output.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::process::{Invocation, Usage, read};
use crate::args::bench::against::RivalName;

/// Folders of system programs that the search path may lack.
const SYSTEM_PROGRAMS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// `NFStream` configured to compute the equivalent of the additional fields: statistics, the first
/// twenty packets, and labels from the first twenty.
const NFSTREAM: &str = "\
import json, sys
from nfstream import NFStreamer
never = 10_000_000
flows = packets = octets = 0
for flow in NFStreamer(source=sys.argv[1], idle_timeout=never, active_timeout=never, accounting_mode=1,
                       statistical_analysis=True, splt_analysis=20, n_dissections=20, n_meters=1):
    flows += 1
    packets += flow.bidirectional_packets
    octets += flow.bidirectional_bytes
print(json.dumps({'flows': flows, 'packets': packets, 'bytes': octets}))
";

/// The work of the `flowloom` command in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ours {
    /// Track flows and write no records.
    NoRecords,
    /// Records as IPFIX.
    Ipfix,
    /// Records as Parquet.
    Parquet,
    /// Records with all additional fields.
    AllFields,
    /// A table of conversations.
    Conversations,
}

impl Ours {
    /// Returns the name in rows.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::NoRecords => "flowloom replay",
            Self::Ipfix => "flowloom, IPFIX",
            Self::Parquet => "flowloom, Parquet",
            Self::AllFields => "flowloom, all fields",
            Self::Conversations => "flowloom top",
        }
    }

    fn arguments(self) -> &'static str {
        match self {
            Self::NoRecords => "replay {capture} --layout inline --app accounting --format json",
            Self::Ipfix => "replay {capture} --layout inline --flows {out}/flows.ipfix --format json",
            Self::Parquet => "replay {capture} --layout inline --flows {out}/flows.parquet --format json",
            Self::AllFields => {
                "replay {capture} --layout inline --flows {out}/flows.csv --fields all --format json"
            }
            Self::Conversations => "top {capture} --by pair --format json",
        }
    }
}

/// How to find the number of packets.
#[derive(Debug)]
enum Reading {
    /// `packets` of the JSON on standard output.
    Json,
    Nfpcapd,
    /// The port stays bound, so that sent datagrams arrive.
    Softflowd {
        _port: UdpSocket,
    },
    Tshark,
    /// `packets` in the last line, if it is JSON.
    LastLine,
}

/// A program in the comparison.
#[derive(Debug)]
pub(super) struct Contender {
    pub(super) name: String,
    invocation: Invocation,
    reading: Reading,
    /// The row of Flowloom with which it is compared; `None` for Flowloom itself.
    pub(super) beside: Option<Ours>,
}

impl Contender {
    /// Returns the `flowloom` command.
    pub(super) fn ours(flowloom: &Path, ours: Ours) -> Self {
        Self {
            name: ours.name().to_owned(),
            invocation: Invocation::new(flowloom, ours.arguments()),
            reading: Reading::Json,
            beside: None,
        }
    }

    /// Returns a rival.
    ///
    /// # Errors
    ///
    /// The reason why it cannot run here.
    pub(super) fn rival(name: RivalName, python: &Path) -> Result<Self, String> {
        let installed = |program: &str| find(program).ok_or_else(|| String::from("it is not installed"));
        let (label, invocation, reading, beside) = match name {
            RivalName::Nfpcapd => {
                let invocation = Invocation::new(installed("nfpcapd")?, "-r {capture} -w {out}");
                ("nfpcapd", invocation, Reading::Nfpcapd, Ours::Ipfix)
            }
            RivalName::Softflowd => {
                let port = UdpSocket::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
                let target = port.local_addr().map_err(|error| error.to_string())?;
                // softflowd's default limit of 8,192 flows would end flows early, which is
                // different work.
                let arguments = format!(
                    "-d -v 9 -m 10000000 -n {target} -p {{out}}/pid -c {{out}}/control -r {{capture}}"
                );
                let invocation = Invocation::new(installed("softflowd")?, &arguments);
                ("softflowd", invocation, Reading::Softflowd { _port: port }, Ours::Ipfix)
            }
            RivalName::Tshark => {
                let arguments = "-n -r {capture} -q -z io,stat,0 -z conv,tcp -z conv,udp";
                let invocation = Invocation::new(installed("tshark")?, arguments);
                ("tshark", invocation, Reading::Tshark, Ours::Conversations)
            }
            RivalName::Nfstream => {
                let python = find(&python.to_string_lossy())
                    .ok_or_else(|| format!("{} is not installed", python.display()))?;
                let has_package = std::process::Command::new(&python)
                    .args(["-c", "import nfstream"])
                    .stderr(std::process::Stdio::null())
                    .status()
                    .is_ok_and(|status| status.success());
                if !has_package {
                    return Err(String::from("Python lacks the package: pip install nfstream"));
                }
                let arguments = ["-c", NFSTREAM, "{capture}"].map(Into::into).to_vec();
                let invocation = Invocation { program: python, arguments };
                ("NFStream", invocation, Reading::LastLine, Ours::AllFields)
            }
            RivalName::None => return Err(String::from("it is not a program")),
        };
        Ok(Self { name: label.to_owned(), invocation, reading, beside: Some(beside) })
    }

    /// Returns a program that the user named.
    pub(super) fn command(words: &[std::ffi::OsString]) -> Option<Self> {
        let (program, arguments) = words.split_first()?;
        let program = PathBuf::from(program);
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        let invocation = Invocation { program, arguments: arguments.to_vec() };
        Some(Self { name, invocation, reading: Reading::LastLine, beside: Some(Ours::Ipfix) })
    }

    /// Runs the program in a new folder, and returns its resource usage and the number of packets
    /// that it reports.
    ///
    /// # Errors
    ///
    /// A message if the program fails.
    pub(super) fn run(&self, capture: &Path) -> Result<(Usage, Option<Counts>), String> {
        let folder = || tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"));
        let (out, log) = (folder()?, folder()?);
        let usage = self.invocation.run(capture, out.path(), log.path())?;
        let [stdout, stderr] = ["stdout", "stderr"].map(|name| read(&log.path().join(name)));
        Ok((usage, self.counts(&stdout, &stderr)))
    }

    fn counts(&self, stdout: &str, stderr: &str) -> Option<Counts> {
        match self.reading {
            Reading::Json => Counts::from_json(&serde_json::from_str(stdout).ok()?),
            Reading::LastLine => {
                Counts::from_json(&serde_json::from_str(stdout.trim_end().lines().next_back()?).ok()?)
            }
            Reading::Nfpcapd => {
                let packets = number_after(stderr, "Total: Processed: ")?;
                Some(Counts { packets, tracked: None, flows: None })
            }
            Reading::Softflowd { .. } => {
                let ignored = number_after(stdout.split("Ignored packets:").nth(1)?, " (")?;
                let packets = number_after(stdout, "Packets processed: ")?;
                let flows = number_after(stdout, "Flows expired: ");
                Some(Counts { packets: packets + ignored, tracked: Some(packets), flows })
            }
            Reading::Tshark => {
                let line = stdout.lines().find(|line| line.contains("<>") && line.starts_with('|'))?;
                let packets = line.split('|').nth(2)?.trim().parse().ok()?;
                Some(Counts { packets, tracked: None, flows: None })
            }
        }
    }
}

/// The numbers that a program reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) packets: u64,
    /// The packets that belong to flows, if the program reports them.
    pub(super) tracked: Option<u64>,
    pub(super) flows: Option<u64>,
}

impl Counts {
    fn from_json(document: &Value) -> Option<Self> {
        let number = |name: &str| document.get(name).and_then(Value::as_u64);
        Some(Self {
            packets: number("packets")?,
            tracked: number("processed"),
            flows: number("flows").or_else(|| document.get("flows")?.get("total")?.as_u64()),
        })
    }

    /// Returns whether a rival counts, within 3 %, all the packets that Flowloom counts, or those
    /// with a flow key.
    pub(super) fn agrees_with(self, ours: Self) -> bool {
        let near = |theirs: u64, ours: u64| theirs.abs_diff(ours) <= ours.max(100) * 3 / 100;
        let tracked = ours.tracked.unwrap_or(ours.packets);
        near(self.packets, ours.packets) || near(self.packets, tracked)
    }
}

/// Returns the path of a program, from the search path or the system folders.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(SYSTEM_PROGRAMS.iter().map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|candidate| candidate.is_file())
}

fn number_after(text: &str, mark: &str) -> Option<u64> {
    let (_, rest) = text.split_once(mark)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(reading: Reading, stdout: &str, stderr: &str) -> Option<Counts> {
        let invocation = Invocation::new("x", "");
        Contender { name: String::new(), invocation, reading, beside: None }.counts(stdout, stderr)
    }

    #[test]
    fn packet_count_is_found_in_the_output_of_each_rival() {
        let packets = |counts: Option<Counts>| counts.map(|counts| counts.packets);
        let line = "Total: Processed: 316885, skipped: 5080, short caplen: 94, unknown: 1808\n";
        assert_eq!(packets(reading(Reading::Nfpcapd, "", line)), Some(316_885));
        let stdout = "Packets processed: 308807\nFragments: 4327\n\
                      Ignored packets: 8136 (8078 non-IP, 58 too short)\nFlows expired: 16558 (0 forced)\n";
        let port = UdpSocket::bind("127.0.0.1:0").unwrap();
        let found = reading(Reading::Softflowd { _port: port }, stdout, "").unwrap();
        assert_eq!((found.packets, found.tracked, found.flows), (316_885, Some(308_807), Some(16_558)));
        let stdout =
            "| Interval         | Frames |    Bytes   |\n|    0.0 <> 2195.0 | 316885 | 4231861 |\n";
        assert_eq!(packets(reading(Reading::Tshark, stdout, "")), Some(316_885));
        let found = reading(Reading::LastLine, "some words\n{\"packets\": 7, \"flows\": 2}\n", "").unwrap();
        assert_eq!((found.packets, found.flows), (7, Some(2)));
        for nothing in ["", "no JSON", "{\"flows\": 1}"] {
            assert_eq!(reading(Reading::LastLine, nothing, nothing), None);
        }
    }

    #[test]
    fn counts_agree_with_all_packets_or_with_those_of_flows() {
        let counts = |packets, tracked| Counts { packets, tracked, flows: None };
        let ours = counts(1000, Some(900));
        assert!(counts(1000, None).agrees_with(ours) && counts(905, None).agrees_with(ours));
        assert!(!counts(950, None).agrees_with(ours) && !counts(500, None).agrees_with(ours));
    }
}
