//! Compares Flowloom's labels with tshark's, flow by flow.
//!
//! The counting rules per capture are:
//!
//! - Flows are Flowloom's, over TCP and UDP, including those in tunnels. Packets are matched with
//!   tshark's by their number in the file, and belong to the flow that Flowloom's decoder assigns.
//! - The words of a flow are those after the last `tcp` or `udp` in tshark's `frame.protocols`,
//!   over all its packets. Words that no Flowloom pattern for that transport names do not count.
//! - A label that tshark derives from the port alone is no evidence. Therefore packets that it
//!   calls malformed do not count, and neither do `http` and `tls` in packets in which it reads no
//!   request, response, header or record.
//! - The counts include flows with such a label and at least one data packet; a flow without
//!   payload has nothing to name.
//! - A flow **agrees** if one of the words of Flowloom's label is among the flow's words. It
//!   **agrees in the first** if the first of the flow's words is a word of Flowloom's label. A flow
//!   without a Flowloom label does not agree.
//!
//! - A flow is **named by both** if Flowloom labels it too; a label that does not agree is then
//!   **wrong**. Both are also counted by the confidence of Flowloom's label.
//!
//! tshark runs with its defaults, so other labels that it derives from a port alone count against
//! Flowloom.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use flowloom::apps::{Confidence, L7Flow, L7Options, L7Plan};
use flowloom::dpi::{Pattern, Transport, builtin};
use flowloom::engine::App as _;
use flowloom::flow_key::FlowKey;
use serde::Serialize;

use super::payloads::for_each_packet;

/// Comparison of the flows of several captures.
#[derive(Debug, Default, Serialize)]
pub struct Labels {
    /// Number of counted flows.
    pub counted: u64,
    /// Those with Flowloom's label among tshark's words.
    pub agree: u64,
    /// Those whose first tshark word is a word of Flowloom's label.
    pub agree_in_the_first: u64,
    /// Agreement of the flows that both name, by the confidence of Flowloom's label, lowest first.
    pub by_confidence: [Agreement; 3],
    /// Flows that Flowloom labels, and for which tshark has no label with a Flowloom pattern.
    pub labelled_only_by_us: BTreeMap<String, u64>,
    /// Disagreements: transport, tshark's first word, Flowloom's label.
    pub confusion: Vec<Confusion>,
}

/// Comparison of the flows that both name.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Agreement {
    /// Flows with Flowloom's label among tshark's words.
    pub agree: u64,
    /// Flows with a different label.
    pub wrong: u64,
}

/// A kind of disagreement.
#[derive(Debug, Serialize)]
pub struct Confusion {
    /// `tcp` or `udp`.
    pub transport: &'static str,
    /// tshark's first word for which Flowloom has a pattern.
    pub tshark: String,
    /// Flowloom's label, or `-`.
    pub ours: String,
    /// Number of flows.
    pub flows: u64,
}

/// Returns tshark's version, or the reason why it cannot run.
///
/// # Errors
///
/// Returns an error if it is not installed.
pub fn tshark_version() -> Result<String> {
    let output = Command::new("tshark")
        .arg("--version")
        .stderr(Stdio::null())
        .output()
        .context("tshark cannot be run; install it, or compare with labels from another machine")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Returns the capture files below a directory, sorted.
///
/// # Errors
///
/// Returns an error if a directory cannot be read.
pub fn captures(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in
            std::fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))?
        {
            let path = entry?.path();
            let name = path.to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if [".pcap", ".pcapng", ".zst", ".gz"].iter().any(|end| name.ends_with(end)) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// One flow, from both sides.
struct Seen {
    key: FlowKey,
    ours: L7Flow,
    words: Vec<String>,
}

/// Adds the comparison of one capture.
///
/// # Errors
///
/// Returns an error if it cannot be read, or tshark fails.
pub fn compare(path: &Path, labels: &mut Labels) -> Result<()> {
    let patterns = builtin();
    let plan = L7Plan::new(&patterns, L7Options::default())?;
    let mut app = plan.app();
    let mut places: HashMap<FlowKey, usize> = HashMap::new();
    let mut flows: Vec<Seen> = Vec::new();
    let mut flow_of: Vec<Option<usize>> = vec![None];
    for_each_packet(&[path.to_owned()], true, |_, view| {
        flow_of.push(view.map(|view| {
            let key = view.headers.key;
            let place = *places.entry(key).or_insert_with(|| {
                flows.push(Seen { key, ours: L7Flow::default(), words: Vec::new() });
                flows.len() - 1
            });
            app.on_packet(&view, &mut flows[place].ours);
            place
        }));
    })?;
    for (number, protocols) in tshark(path)? {
        if let Some(Some(place)) = flow_of.get(number) {
            let words = &mut flows[*place].words;
            for word in behind_transport(&protocols) {
                if !words.iter().any(|known| known == word) {
                    words.push(word.to_owned());
                }
            }
        }
    }
    let mut confusion: BTreeMap<(&'static str, String, String), u64> = BTreeMap::new();
    for flow in &flows {
        judge(flow, &patterns, labels, &mut confusion);
    }
    for ((transport, tshark, ours), flows) in confusion {
        match labels
            .confusion
            .iter_mut()
            .find(|known| known.transport == transport && known.tshark == tshark && known.ours == ours)
        {
            Some(known) => known.flows += flows,
            None => labels.confusion.push(Confusion { transport, tshark, ours, flows }),
        }
    }
    labels.confusion.sort_by_key(|confusion| std::cmp::Reverse(confusion.flows));
    Ok(())
}

fn judge(
    flow: &Seen,
    patterns: &[Pattern],
    labels: &mut Labels,
    confusion: &mut BTreeMap<(&'static str, String, String), u64>,
) {
    let Some(transport) = Transport::of_ip_protocol(flow.key.protocol()) else { return };
    if flow.ours.inspected_packets() == 0 {
        return;
    }
    let named: HashSet<&str> = patterns
        .iter()
        .filter(|pattern| pattern.transports.has(transport))
        .flat_map(|pattern| pattern.tshark.iter().map(String::as_str))
        .collect();
    let words: Vec<&str> =
        flow.words.iter().map(String::as_str).filter(|word| named.contains(word)).collect();
    let ours = flow.ours.protocol();
    let Some(first) = words.first() else {
        if let Some(name) = ours {
            *labels.labelled_only_by_us.entry(name.to_owned()).or_default() += 1;
        }
        return;
    };
    labels.counted += 1;
    let of_ours = patterns.iter().find(|pattern| Some(pattern.name.as_str()) == ours);
    let has = |word: &str| of_ours.is_some_and(|pattern| pattern.tshark.iter().any(|known| known == word));
    labels.agree_in_the_first += u64::from(has(first));
    let agrees = words.iter().any(|word| has(word));
    if let Some(confidence) = flow.ours.confidence() {
        let agreement = &mut labels.by_confidence[confidence as usize];
        agreement.agree += u64::from(agrees);
        agreement.wrong += u64::from(!agrees);
    }
    if agrees {
        labels.agree += 1;
    } else {
        let transport = if transport == Transport::Tcp { "tcp" } else { "udp" };
        *confusion.entry((transport, (*first).to_owned(), ours.unwrap_or("-").to_owned())).or_default() +=
            1;
    }
}

/// Returns the words after the last transport.
fn behind_transport(protocols: &str) -> Vec<&str> {
    let words: Vec<&str> = protocols.split(':').collect();
    match words.iter().rposition(|word| matches!(*word, "tcp" | "udp")) {
        Some(at) => words[at + 1..].to_vec(),
        None => Vec::new(),
    }
}

/// Returns the number and the protocols of every packet.
fn tshark(path: &Path) -> Result<Vec<(usize, String)>> {
    let unpacked;
    let mut file = path.to_owned();
    if path.extension().is_some_and(|extension| extension == "zst") {
        unpacked = tempfile::NamedTempFile::new()?;
        zstd::stream::copy_decode(std::fs::File::open(path)?, unpacked.as_file())?;
        unpacked.path().clone_into(&mut file);
    }
    let output = Command::new("tshark")
        .args(["-n", "-T", "fields", "-e", "frame.number", "-e", "frame.protocols"])
        .args(EVIDENCE.iter().flat_map(|(_, field)| ["-e", field]))
        .arg("-r")
        .arg(&file)
        .stderr(Stdio::null())
        .output()?;
    // tshark exits with 2 on a truncated capture, after it has printed the other packets.
    if output.stdout.is_empty() && !output.status.success() {
        bail!("tshark cannot read {}", path.display());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(with_evidence).collect())
}

/// Protocols that tshark also derives from the port alone, and the fields that count as evidence
/// for them.
const EVIDENCE: [(&str, &str); 6] = [
    ("http", "http.request.method"),
    ("http", "http.response.code"),
    ("http", "http.request_number"),
    ("tls", "tls.record.content_type"),
    ("tls", "tls.record.opaque_type"),
    ("tls", "tls.handshake.type"),
];

/// Returns the number of a packet and the protocols for which there is evidence.
fn with_evidence(line: &str) -> Option<(usize, String)> {
    let mut columns = line.split('\t');
    let (number, protocols) = (columns.next()?.parse().ok()?, columns.next()?);
    if protocols.contains("_ws.malformed") {
        return Some((number, String::new()));
    }
    let read: Vec<&str> = EVIDENCE
        .iter()
        .zip(columns)
        .filter(|(_, value)| !value.is_empty())
        .map(|((word, _), _)| *word)
        .collect();
    let kept = protocols
        .split(':')
        .filter(|word| read.contains(word) || EVIDENCE.iter().all(|(known, _)| known != word));
    Some((number, kept.collect::<Vec<_>>().join(":")))
}

impl Labels {
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    fn both_to_text(&self) -> String {
        let line = |name: &str, both: Agreement| {
            let flows = both.agree + both.wrong;
            let share = 100.0 * both.wrong as f64 / flows.max(1) as f64;
            format!("named by both, {name:<14} {flows:>22}  wrong {} ({share:.2} %)\n", both.wrong)
        };
        let all = self.by_confidence.iter().fold(Agreement::default(), |all, one| Agreement {
            agree: all.agree + one.agree,
            wrong: all.wrong + one.wrong,
        });
        let kinds = Confidence::ALL.iter().zip(self.by_confidence);
        let rows = kinds.map(|(confidence, both)| line(confidence.name(), both));
        line("all", all) + &rows.collect::<String>()
    }

    /// Returns the table as text.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a share for people")]
    pub fn to_text(&self) -> String {
        let share = |part: u64| 100.0 * part as f64 / self.counted.max(1) as f64;
        let mut text = format!(
            "flows that tshark labels with a protocol we name   {}\nagree                                               {}  ({:.2} %)\nagree in the first word                             {}  ({:.2} %)\n",
            self.counted,
            self.agree,
            share(self.agree),
            self.agree_in_the_first,
            share(self.agree_in_the_first)
        );
        text += &self.both_to_text();
        text += "\nconfusion: transport, tshark's word, our label, flows\n";
        for row in &self.confusion {
            // Writing to a string cannot fail.
            let _ =
                writeln!(text, "  {:<4} {:<16} {:<16} {}", row.transport, row.tshark, row.ours, row.flows);
        }
        text += "\nlabelled by us only: label, flows\n";
        for (label, flows) in &self.labelled_only_by_us {
            let _ = writeln!(text, "  {label:<16} {flows}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_from_the_port_alone_is_not_evidence() {
        let kept = |line| with_evidence(line).map(|(_, protocols)| protocols);
        assert_eq!(kept("7\teth:ip:tcp:http\t\t\t\t\t\t").as_deref(), Some("eth:ip:tcp"));
        assert_eq!(kept("7\teth:ip:tcp:http\tGET\t\t\t\t\t").as_deref(), Some("eth:ip:tcp:http"));
        assert_eq!(kept("7\teth:ip:udp:dns:_ws.malformed\t\t\t\t\t\t").as_deref(), Some(""));
        assert_eq!(kept("7\teth:ip:udp:dns\t\t\t\t\t\t").as_deref(), Some("eth:ip:udp:dns"));
    }

    #[test]
    fn protocol_words_follow_the_last_transport_header() {
        assert_eq!(behind_transport("eth:ethertype:ip:tcp:tls"), ["tls"]);
        assert_eq!(behind_transport("eth:ip:udp:gtp:ip:tcp:nbss:smb2"), ["nbss", "smb2"]);
        assert!(behind_transport("eth:ip:icmp").is_empty());
    }
}
