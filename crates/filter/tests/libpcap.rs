//! Real captures: the number of matching packets equals that of tcpdump. Needs `FLOWLOOM_DATA` and
//! tcpdump.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::Command;

use flowloom_filter::PacketFilter;
use flowloom_packet::{Fill, PacketBatch};
use flowloom_traffic::capture::{Capture, CaptureOptions};

const FILTERS: [&str; 62] = [
    "",
    "ip",
    "ip6",
    "arp",
    "tcp",
    "udp",
    "sctp",
    "icmp",
    "icmp6",
    "igmp",
    "port 80",
    "port 53",
    "tcp port 443 or 80",
    "udp port 53",
    "src port 53 or dst port 123",
    "src or dst port 53",
    "src and dst port 123",
    "portrange 1-1023",
    "tcp portrange 1000-2000",
    "udp src portrange 1024-65535",
    "host 10.0.0.1",
    "net 10",
    "net 10.0.0.0/8",
    "src net 192.168.0.0/16 and not dst net 192.168",
    "net 192.168.0.0 mask 255.255.0.0",
    "ip6 net fe80::/10",
    "ip6 and src net 2000::/3",
    "not tcp and not udp",
    "tcp and port 80 or udp and port 53",
    "tcp and (port 80 or 443)",
    "! ip",
    "ip proto 6",
    "ip proto \\udp",
    "ip6 proto 58",
    "proto 17",
    "proto \\icmp",
    "ether proto 0x0800",
    "ether proto \\arp",
    "ether[0] & 1 = 0",
    "ether multicast",
    "ether broadcast",
    "ip multicast",
    "ip6 multicast",
    "less 100",
    "greater 1000",
    "len > 60 and len <= 200",
    "tcp[tcpflags] & (tcp-syn|tcp-fin) != 0",
    "tcp[13] == 18",
    "ip[0] & 0xf != 5",
    "ip[6:2] & 0x1fff != 0",
    "ip[2:2] - ((ip[0]&0xf)<<2) - ((tcp[12]&0xf0)>>2) > 0",
    "udp[4:2] > 100 or tcp[2:2] = 80",
    "icmp[icmptype] = icmp-echo or icmp[icmptype] = icmp-echoreply",
    "ip6[6] = 17 or icmp6[0] = 135",
    "tcp[100] = 0 or udp",
    "vlan",
    "vlan and ip",
    "vlan 1 or ip",
    "mpls",
    "mpls and ip",
    "pppoes and ip",
    "ip[-1 + 9] = 6 * 2 / 2 % 7 ^ 0",
];

/// Returns how many packets match, or `None` if the filter or the capture is rejected.
fn ours(path: &Path, filter: &str) -> Option<u64> {
    let mut filter = PacketFilter::parse(filter).unwrap();
    let mut capture = Capture::open(path, CaptureOptions::default()).ok()?;
    let (mut batch, mut found) = (PacketBatch::new(), 0);
    while capture.next_batch(&mut batch).ok()? == Fill::Packets {
        let block = batch.block.as_ref()?;
        for raw in &batch.packets {
            found += u64::from(filter.matches(raw.link, raw.bytes_in(block.bytes()), raw.wire_bytes).ok()?);
        }
    }
    Some(found)
}

fn theirs(path: &Path, filter: &str) -> Option<u64> {
    let out = Command::new("tcpdump").args(["-n", "--count", "-r"]).arg(path).arg(filter).output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    out.status.success().then(|| text.split_whitespace().next()?.parse().ok())?
}

#[test]
fn real_captures_have_as_many_matches_as_in_tcpdump() {
    let folder = std::env::var_os("FLOWLOOM_DATA").map(|data| PathBuf::from(data).join("pcaps"));
    let Some(folder) = folder.filter(|folder| folder.is_dir()) else {
        eprintln!("skipped: FLOWLOOM_DATA names no folder with captures");
        return;
    };
    if Command::new("tcpdump").arg("--version").output().is_err() {
        eprintln!("tcpdump is not installed: nothing is compared");
        return;
    }
    let mut compared = 0;
    let mut differ = Vec::new();
    for folder in [folder.clone(), folder.join("nasty")] {
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let is_small =
            |path: &PathBuf| path.metadata().is_ok_and(|file| file.is_file() && file.len() < 3 << 20);
        for path in paths.filter(is_small) {
            for filter in FILTERS {
                let (Some(ours), Some(theirs)) = (ours(&path, filter), theirs(&path, filter)) else {
                    continue;
                };
                compared += 1;
                if ours != theirs {
                    differ.push(format!("{} '{filter}': {ours}, tcpdump has {theirs}", path.display()));
                }
            }
        }
    }
    assert!(differ.is_empty(), "of {compared}:\n{}", differ.join("\n"));
    assert!(compared > 100, "only {compared} comparisons");
}
