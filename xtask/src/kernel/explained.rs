//! Single frames, decided by `classify` and explained by `rules explain`.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Bench, Loader, frames};

/// Frames of a file that are explained.
const SAMPLE: usize = 8;

impl Bench {
    /// Returns where `rules explain` does not name the rule that `classify` decides a frame by.
    pub(super) fn explained(
        &self,
        loader: Loader,
        rules: &Path,
        frames: &[Vec<u8>],
    ) -> Result<Vec<String>> {
        let mut differences = Vec::new();
        let trace = self.folder.join("one.pcap");
        let step = frames.len().div_ceil(SAMPLE).max(1);
        for (number, frame) in (1..).zip(frames).step_by(step) {
            let Some(packet) = described(frame) else { continue };
            std::fs::write(&trace, frames::capture(std::slice::from_ref(frame)))?;
            let decided = self
                .classify(loader, rules, &trace)?
                .counters
                .into_iter()
                .find_map(|(line, packets)| (packets > 0).then_some(line));
            let decided = decided.context("a chain with a policy decides every packet")?;
            let document = self.explain(loader, rules, &packet)?;
            let listed = document["listed"].as_array().context("explain lists rules")?;
            let may_win: Vec<u64> = listed
                .iter()
                .filter(|rule| rule["role"] == "wins" || rule["role"] == "may win")
                .filter_map(|rule| rule["line"].as_u64())
                .collect();
            let is_open = document["is_open"] == true;
            if !may_win.contains(&decided) || !is_open && may_win.len() > 1 {
                differences.push(format!(
                    "  frame {number}: classify decides by line {decided}, explain by {may_win:?}: {}",
                    packet.join(" ")
                ));
            }
        }
        Ok(differences)
    }

    fn explain(&self, loader: Loader, rules: &Path, packet: &[String]) -> Result<Value> {
        let mut command = Command::new(&self.flowloom);
        command.args(["rules", "explain"]).arg(rules).args(packet);
        command.args(self.options(loader)).args(["--in", "in0", "--out", "out0", "--top", "1000"]);
        let output = command.args(["--format", "json", "-q"]).output()?;
        let says = String::from_utf8_lossy(&output.stderr);
        // 1 says that the packet is denied, or may be.
        ensure!(matches!(output.status.code(), Some(0 | 1)), "{command:?} failed: {}", says.trim());
        Ok(serde_json::from_slice(&output.stdout)?)
    }
}

/// Returns the arguments of `rules explain` for a frame: addresses with ports, protocol, and what
/// else it takes. The state, the code point and the MAC address are left open. `None` of frames
/// with extension headers.
fn described(frame: &[u8]) -> Option<Vec<String>> {
    let packet = frame.get(14..)?;
    let word = |at: usize| Some(u16::from_be_bytes([*packet.get(at)?, *packet.get(at + 1)?]));
    let (addresses, protocol, transport, length, fragment);
    if packet.first()? >> 4 == 4 {
        let address = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
        addresses = [address(12)?.to_string(), address(16)?.to_string()];
        (protocol, transport, length) = (packet[9], usize::from(packet[0] & 15) * 4, word(2)?);
        fragment = match word(6)? & 0x3FFF {
            0 => "whole",
            0x2000 => "first",
            _ => "later",
        };
    } else {
        let address =
            |at: usize| Some(Ipv6Addr::from(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?));
        addresses = [format!("[{}]", address(8)?), format!("[{}]", address(24)?)];
        (protocol, transport, length, fragment) = (packet[6], 40, word(4)? + 40, "whole");
        if [0, 43, 44, 51, 60].contains(&protocol) {
            return None;
        }
    }
    let has_ports = [6, 17, 33, 132, 136].contains(&protocol) && fragment != "later";
    let port = |at: usize| {
        let port = if has_ports { word(transport + at) } else { None };
        port.map_or(String::new(), |port| format!(":{port}"))
    };
    let [from, to] = &addresses;
    let (from, to) = if packet[0] >> 4 == 4 || has_ports {
        (format!("{from}{}", port(0)), format!("{to}{}", port(2)))
    } else {
        // Without a port an address stands alone.
        (from.trim_matches(['[', ']']).to_owned(), to.trim_matches(['[', ']']).to_owned())
    };
    let mut words = vec![from, to, protocol.to_string()];
    let mut say = |option: &str, value: String| words.extend([option.to_owned(), value]);
    say("--fragment", fragment.to_owned());
    say("--length", length.to_string());
    if fragment != "later" {
        match protocol {
            6 => say("--tcp-flags", flag_names(*packet.get(transport + 13)?)),
            1 | 58 => {
                say("--icmp-type", format!("{}/{}", packet.get(transport)?, packet.get(transport + 1)?));
            }
            _ => {}
        }
    }
    Some(words)
}

fn flag_names(flags: u8) -> String {
    let names = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];
    let set = (0..).zip(names).filter(|(bit, _)| flags >> bit & 1 != 0).map(|(_, name)| name);
    let set: Vec<&str> = set.collect();
    if set.is_empty() { String::from("NONE") } else { set.join(",") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_is_described_in_the_syntax_of_explain() {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        frame.extend([0x45, 0, 0, 40, 0, 1, 0, 0, 64, 6, 0, 0, 10, 1, 0, 1, 192, 0, 2, 2]);
        frame.extend([4, 0, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x12, 0, 0, 0, 0, 0, 0]);
        let words = |frame: &[u8]| described(frame).map(|words| words.join(" "));
        assert_eq!(
            words(&frame).as_deref(),
            Some("10.1.0.1:1024 192.0.2.2:80 6 --fragment whole --length 40 --tcp-flags SYN,ACK")
        );
        frame[21] = 7;
        assert_eq!(words(&frame).as_deref(), Some("10.1.0.1 192.0.2.2 6 --fragment later --length 40"));
        assert_eq!(flag_names(0), "NONE");
        let mut six = frame[..14].to_vec();
        six.extend([&[0x60, 0, 0, 0, 0, 8, 58, 64][..], &[0x20; 32], &[128, 0, 0, 0, 0, 0, 0, 0]].concat());
        let host = "2020:2020:2020:2020:2020:2020:2020:2020";
        assert_eq!(
            words(&six),
            Some(format!("{host} {host} 58 --fragment whole --length 48 --icmp-type 128/0"))
        );
        six[20] = 44;
        assert_eq!(words(&six), None, "an extension header");
    }
}
