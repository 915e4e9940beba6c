//! Typical rules from practice, through the command.

use flowloom::traffic::write::{Interface, PcapngWriter};
use serde_json::Value;

use crate::support::{Folder, flowloom, number, replay};

/// The action and the line of the rule that decides a packet.
fn decides(folder: &Folder, rules: &str, packet: &[&str]) -> (String, u64) {
    let _ = folder;
    let explained = flowloom([&["rules", "explain", rules, "--format", "json"][..], packet].concat());
    let document = explained.json();
    explained.ends(i32::from(document["verdict"] != "accept"));
    let listed = document["listed"].as_array().unwrap();
    let winner = listed.iter().find(|one| one["role"] == "wins");
    winner.map_or_else(
        || (String::from(if document["is_open"] == true { "open" } else { "none" }), 0),
        |one| (one["action"].as_str().unwrap_or("-").to_owned(), number(one, "line")),
    )
}

/// An Ethernet frame with an IPv4 packet.
fn frame(protocol: u8, fragment: u16, transport: &[u8], last: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    let length = u16::try_from(20 + transport.len()).unwrap();
    frame.extend([0x45, 0]);
    frame.extend(length.to_be_bytes());
    frame.extend([0, last]);
    frame.extend(fragment.to_be_bytes());
    frame.extend([64, protocol, 0, 0, 10, 0, 0, last, 192, 0, 2, 1]);
    frame.extend(transport);
    frame
}

fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(0xa1b2_c3d4_u32.to_le_bytes());
    bytes.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 0]);
    for (second, frame) in (1_u32..).zip(frames) {
        let length = u32::try_from(frame.len()).unwrap().to_le_bytes();
        bytes.extend(second.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(length);
        bytes.extend(length);
        bytes.extend(frame);
    }
    bytes
}

fn tcp(source: u16, destination: u16, flags: u8) -> Vec<u8> {
    let mut header = Vec::new();
    header.extend(source.to_be_bytes());
    header.extend(destination.to_be_bytes());
    header.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    header
}

/// Packets per line of the rules, according to `classify`.
fn hits(rules: &str, trace: &str, more: &[&str]) -> Vec<(u64, u64)> {
    let base = ["classify", trace, "-r", rules, "--verify", "--top", "100", "--format", "json"];
    let document = flowloom([&base[..], more].concat()).ends(0).json();
    let mut hits: Vec<(u64, u64)> = document["top"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (number(&one["rule"], "line"), number(one, "packets")))
        .collect();
    hits.sort_unstable();
    hits
}

#[test]
fn chains_are_explained_to_the_line_that_decides() {
    let folder = Folder::new();
    let text = "*filter\n:INPUT DROP [0:0]\n:lan - [0:0]\n-A INPUT -s 172.16.0.0/12 -j lan\n\
                -A INPUT -i lo -j ACCEPT\n-A lan -p tcp --dport 23 -j RETURN\n-A lan -p tcp -j ACCEPT\nCOMMIT\n";
    let rules = folder.write("saved", text.as_bytes());
    let ask = |source: &str, port: &str, more: &[&str]| {
        let packet = [source, port, "tcp"];
        decides(&folder, &rules, &[&packet[..], more].concat())
    };
    assert_eq!(ask("172.16.0.1:9", "192.0.2.1:25", &[]), (String::from("accept"), 7));
    assert_eq!(ask("172.16.0.1:9", "192.0.2.1:23", &["--in", "eth0"]), (String::from("deny"), 2));
    assert_eq!(ask("172.16.0.1:9", "192.0.2.1:23", &["--in", "lo"]), (String::from("accept"), 5));
    assert_eq!(ask("172.16.0.1:9", "192.0.2.1:23", &[]), (String::from("open"), 0));
    flowloom(["rules", "explain", &rules, "172.16.0.1:9", "192.0.2.1:23", "tcp"]).ends(1).shows(&[
        "passes on  #2 (line 6) [lan]",
        "may win",
        "unknown: one of the rules that may win decides; give more properties of the packet",
    ]);
}

#[test]
fn states_come_from_the_flow_table_and_from_classify_alike() {
    let folder = Folder::new();
    let text = "*filter\n:INPUT DROP [0:0]\n-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n\
                -A INPUT -m conntrack --ctstate INVALID -j DROP\n\
                -A INPUT -p tcp -m conntrack --ctstate NEW -m tcp --dport 22 -j ACCEPT\nCOMMIT\n";
    let rules = folder.write("saved", text.as_bytes());
    let mut back = frame(6, 0, &tcp(22, 1024, 0x12), 1);
    back[26..34].copy_from_slice(&[192, 0, 2, 1, 10, 0, 0, 1]);
    // ICMP errors from a router on the path: about the connection, about another one, and about the
    // connection but sent to a host that is not one of its ends.
    let error = |about: u16, to: [u8; 4]| {
        let mut quoted = vec![3, 1, 0, 0, 0, 0, 0, 0];
        quoted.extend(&frame(6, 0, &tcp(about, 22, 2), 1)[14..42]);
        let mut error = frame(1, 0, &quoted, 9);
        error[30..34].copy_from_slice(&to);
        error
    };
    let frames = [
        frame(6, 0, &tcp(1024, 22, 2), 1),
        back,
        frame(6, 0, &tcp(1024, 22, 0x10), 1),
        frame(6, 0, &tcp(1025, 22, 0x12), 2),
        frame(6, 0, &tcp(1026, 80, 2), 3),
        error(1024, [10, 0, 0, 1]),
        error(1027, [10, 0, 0, 1]),
        error(1024, [192, 0, 2, 1]),
        // It contains no quoted packet.
        frame(1, 0, &[3, 1, 0, 0, 0, 0, 0, 0], 9),
    ];
    let trace = folder.write("t.pcap", &capture(&frames));
    assert_eq!(hits(&rules, &trace, &[]), [(2, 1), (3, 3), (4, 4), (5, 1)]);
    for layout in
        [&[][..], &["--workers", "1"], &["--workers", "3"], &["--workers", "3", "--scheduler", "flowpin"]]
    {
        let document = replay(&[&[trace.as_str(), "--rules", &rules, "--verify"], layout].concat());
        let top = document["firewall"]["top"].as_array().unwrap();
        let of = |number: u64| {
            top.iter().find(|rule| rule["number"] == number).map_or(0, |rule| self::number(rule, "packets"))
        };
        assert_eq!([of(1), of(2), of(3)], [3, 4, 1], "{layout:?} {top:?}");
    }
}

#[test]
fn protocols_with_ports_and_fragments_are_told_apart() {
    let folder = Folder::new();
    let text = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -p udplite -m multiport --dports 6000 -j DROP\n\
                -A INPUT -p dccp -m multiport --dports 6001 -j DROP\n-A INPUT -p udp -m udp --sport 0:65535 -j DROP\nCOMMIT\n";
    let rules = folder.write("saved", text.as_bytes());
    let ports = |to: u16| [&[4, 0][..], &to.to_be_bytes(), &[0, 8, 0, 0]].concat();
    let mut dccp = ports(6001);
    dccp.extend([0; 8]);
    let frames = [
        frame(136, 0, &ports(6000), 1),
        frame(136, 0, &ports(6001), 2),
        frame(33, 0, &dccp, 3),
        frame(17, 0, &ports(53), 4),
        frame(17, 0x2000, &ports(53), 5),
        frame(17, 0x0007, &[1; 8], 6),
    ];
    let trace = folder.write("t.pcap", &capture(&frames));
    assert_eq!(hits(&rules, &trace, &[]), [(2, 2), (3, 1), (4, 1), (5, 2)]);
    let document = replay(&[&trace, "--rules", &rules, "--verify"]);
    assert_eq!((number(&document, "denied"), number(&document["firewall"]["accepted"], "packets")), (4, 2));
}

#[test]
fn what_cannot_be_decided_is_refused_with_its_list_and_assumed_when_asked() {
    let folder = Folder::new();
    let text = "*filter\n:INPUT DROP [0:0]\n-A INPUT -i lo -j ACCEPT\n-A INPUT -s 198.51.100.0/24\n\
                -A INPUT -p tcp -m limit --limit 3/min -j ACCEPT\nCOMMIT\n";
    let rules = folder.write("saved", text.as_bytes());
    let trace = folder.write("t.pcap", &capture(&[frame(6, 0, &tcp(1, 2, 2), 1)]));
    for command in [&["classify", &trace, "-r", &rules][..], &["replay", &trace, "--rules", &rules]] {
        flowloom(command).ends(2).says(&[
            "2 conditions cannot be decided",
            "line 3: in lo",
            "line 5: [limit --limit 3/min]",
            "--in NAME",
            "--assume no-match",
        ]);
    }
    let given = |more: &[&str]| hits(&rules, &trace, more);
    assert_eq!(given(&["--in", "lo", "--assume", "no-match"]), [(3, 1)]);
    assert_eq!(given(&["--in", "eth0", "--assume", "no-match"]), [(2, 1)]);
    assert_eq!(given(&["--in", "eth0", "--assume", "match"]), [(5, 1)]);
    flowloom(["classify", &trace, "-r", &rules, "--assume", "no-match"])
        .ends(0)
        .says(&["1 line of the rules decides nothing", "line 4"]);
}

#[test]
fn a_packet_of_a_capture_is_explained() {
    let folder = Folder::new();
    let text = "-P INPUT DROP\n-A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT\n\
                -A INPUT -p tcp -m tcp --dport 80 -j ACCEPT\n";
    let rules = folder.write("listed", text.as_bytes());
    let frames =
        [frame(6, 0, &tcp(9, 80, 2), 1), frame(6, 0, &tcp(9, 80, 2), 2), frame(6, 0, &tcp(9, 81, 2), 3)];
    let trace = folder.write("t.pcap", &capture(&frames));
    let winner = |packet: &str| {
        let command = ["rules", "explain", &rules, "--capture", &trace, "--packet", packet];
        let document = flowloom([&command[..], &["--format", "json"]].concat()).json();
        let listed = document["listed"].as_array().unwrap();
        number(listed.iter().find(|one| one["role"] == "wins").unwrap(), "number")
    };
    assert_eq!([winner("1"), winner("3")], [2, 3]);
    flowloom(["rules", "explain", &rules, "--capture", &trace, "--packet", "4"])
        .ends(2)
        .says(&["--packet 4", "3 packets"]);
    flowloom(["rules", "explain", &rules, "--capture", &trace]).ends(2).says(&["--packet"]);
}

#[test]
fn forms_of_other_firewalls_are_recognised() {
    let folder = Folder::new();
    let nft = "table inet filter {\n  chain input {\n    type filter hook input priority filter; policy drop;\n    \
               tcp dport { 25, 80-81 } accept\n    meta l4proto vmap { icmp : accept, udp : drop }\n  }\n}\n";
    let ios = "ip access-list extended BORDER\n permit tcp 172.16.0.9 0.0.255.0 any eq 443\n permit tcp any any established\n";
    let (nft, ios) = (folder.write("set.nft", nft.as_bytes()), folder.write("r1", ios.as_bytes()));
    assert_eq!(decides(&folder, &nft, &["8.8.8.8:1", "192.0.2.1:81", "tcp"]), (String::from("accept"), 4));
    assert_eq!(decides(&folder, &nft, &["8.8.8.8", "192.0.2.1", "udp"]), (String::from("deny"), 5));
    assert_eq!(decides(&folder, &nft, &["[::1]:1", "[::2]:25", "tcp"]), (String::from("accept"), 4));
    assert_eq!(
        decides(&folder, &ios, &["172.16.3.9:1", "192.0.2.1:443", "tcp"]),
        (String::from("accept"), 2)
    );
    let syn = ["172.16.3.8:1", "192.0.2.1:443", "tcp", "--tcp-flags", "SYN"];
    assert_eq!(decides(&folder, &ios, &syn), (String::from("deny"), 1));
    let ack = ["172.16.3.8:1", "192.0.2.1:443", "tcp", "--tcp-flags", "ACK"];
    assert_eq!(decides(&folder, &ios, &ack), (String::from("accept"), 3));
}

#[test]
fn rules_are_minimised_and_compared_whatever_their_form() {
    let folder = Folder::new();
    let text = "*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\n-A INPUT -p tcp -m tcp --dport 22 --syn -j DROP\n\
                -A INPUT -s 10.0.0.0/8 -p tcp -m tcp --dport 80 -j DROP\n-A INPUT -p udp -j REJECT\nCOMMIT\n";
    let rules = folder.write("saved", text.as_bytes());
    let smaller = folder.path("smaller.toml");
    let document =
        flowloom(["rules", "minimise", &rules, "-o", &smaller, "--format", "json"]).ends(0).json();
    assert_eq!((number(&document, "unreached"), number(&document, "redundant")), (1, 1), "{document:#}");
    flowloom(["rules", "equivalent", &rules, &smaller]).ends(0).shows(&["decide every packet alike"]);
    let other = text.replace("--dport 22 -j", "--dport 22:23 -j");
    let other = folder.write("other", other.as_bytes());
    let document = flowloom(["rules", "diff", &smaller, &other, "--format", "json"]).ends(1).json();
    assert_eq!(document["equivalent"], Value::Bool(false));
    let found = &document["listed"][0];
    assert!(found["packet"].as_str().unwrap().contains(":23 tcp"), "{found:#}");
    assert_eq!(
        (&found["first"]["action"], &found["second"]["action"]),
        (&Value::from("deny"), &Value::from("accept"))
    );
    flowloom(["rules", "check", &rules, "--strict"])
        .ends(1)
        .shows(&["shadowed  #2 (line 4)", "by  #1 (line 3)"]);
}

/// The same packets as pcapng, from interfaces of these names.
fn pcapng(frames: &[Vec<u8>], names: &[&str]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let length = u32::try_from(body.len().next_multiple_of(4) + 12).unwrap().to_le_bytes();
        let mut block = [&kind.to_le_bytes()[..], &length, body].concat();
        block.resize(block.len().next_multiple_of(4), 0);
        block.extend(length);
        block
    };
    let mut bytes =
        block(0x0a0d_0d0a, &[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
    for name in names {
        let length = u8::try_from(name.len()).unwrap();
        let mut body = [&[1, 0, 0, 0, 0, 0, 4, 0, 2, 0, length, 0][..], name.as_bytes()].concat();
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend([0; 4]);
        bytes.extend(block(1, &body));
    }
    for frame in frames {
        let length = u32::try_from(frame.len()).unwrap().to_le_bytes();
        bytes.extend(block(6, &[&[0; 12][..], &length, &length, frame].concat()));
    }
    bytes
}

#[test]
fn the_interface_of_a_capture_is_the_one_that_its_packets_come_in_by() {
    let folder = Folder::new();
    let text = "*filter\n:INPUT DROP [0:0]\n:OUTPUT ACCEPT [0:0]\n-A INPUT -i wan+ -p tcp -j ACCEPT\n\
                -A INPUT -i lo -j ACCEPT\n-A OUTPUT -o lan0 -j DROP\n-A OUTPUT -o wan0 -j ACCEPT\nCOMMIT\n";
    let rules = folder.write("saved", text.as_bytes());
    let frames = [frame(6, 0, &tcp(1, 2, 2), 1), frame(17, 0, &[0, 1, 0, 2, 0, 8, 0, 0], 2)];
    let one = folder.write("one.pcapng", &pcapng(&frames, &["wan0"]));
    assert_eq!(hits(&rules, &one, &[]), [(2, 1), (4, 1)]);
    assert_eq!(hits(&rules, &one, &["--in", "lo"]), [(5, 2)]);
    assert_eq!(hits(&rules, &one, &["--chain", "OUTPUT"]), [(7, 2)]);
    flowloom(["classify", &one, "-r", &rules])
        .ends(0)
        .says(&["packets come in by wan0, according to the capture"]);
    let document = replay(&[&one, "--rules", &rules, "--verify"]);
    assert_eq!(number(&document["firewall"]["accepted"], "packets"), 1);
    // A name is missing.
    let part = folder.write("part.pcapng", &pcapng(&frames, &["wan0", ""]));
    flowloom(["classify", &part, "-r", &rules]).ends(2).says(&["line 4: in wan+", "--in NAME"]);
}

/// Writes a capture of datagrams, each by one of two interfaces.
fn of_two_interfaces(folder: &Folder, file: &str, names: [&str; 2], count: u64) -> String {
    let interfaces = names.map(|name| Interface { name: Some(name.into()), ..Interface::default() });
    let mut writer = PcapngWriter::new(Vec::new(), interfaces.to_vec()).unwrap();
    for nth in 0..count {
        // Each flow has its packets by one interface; every third flow comes by the second.
        let flow = nth % 97;
        let ports = u16::try_from(flow).unwrap().to_be_bytes();
        let bytes = frame(17, 0, &[ports[0], ports[1], 0, 53, 0, 8, 0, 0], 1);
        writer.write(usize::from(flow % 3 == 0), 1_000_000 * nth, 42, &bytes).unwrap();
    }
    folder.write(file, &writer.finish().unwrap())
}

#[test]
fn packets_of_several_interfaces_come_in_by_their_own() {
    let folder = Folder::new();
    let text = "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -i lan0 -p udp -j ACCEPT\n\
                -A FORWARD -i wan0 -p udp --sport 3 -j ACCEPT\n-A FORWARD -i vpn+ -j ACCEPT\nCOMMIT\n";
    let rules = folder.write("saved", text.as_bytes());
    let both = of_two_interfaces(&folder, "both.pcapng", ["lan0", "wan0"], 9700);
    let forward = ["--chain", "FORWARD"];
    // Of 97 flows, 33 come by wan0, and one of these from port 3.
    assert_eq!(hits(&rules, &both, &forward), [(2, 3200), (3, 6400), (4, 100)]);
    assert_eq!(hits(&rules, &both, &["--chain", "FORWARD", "--in", "vpn7"]), [(5, 9700)]);
    flowloom([&["classify", &both, "-r", &rules][..], &forward].concat())
        .ends(0)
        .says(&["each packet comes in by the interface that captured it", "--in sets one"]);
    // Two inputs keep apart what they name, whatever number an interface has in its file.
    let other = of_two_interfaces(&folder, "other.pcapng", ["vpn0", "lan0"], 970);
    let accepted = |inputs: &[&str], more: &[&str]| {
        let base = ["--rules", &rules, "--chain", "FORWARD"];
        let document = replay(&[inputs, &base, more].concat());
        (number(&document["firewall"]["accepted"], "packets"), document["digest"].clone())
    };
    let layouts: [&[&str]; 4] = [
        &["--verify"],
        &["--layout", "pipeline", "--workers", "1"],
        &["--layout", "pipeline", "--workers", "3"],
        &["--layout", "sharded", "--workers", "3"],
    ];
    for inputs in [&[&both[..]][..], &[&both, &other], &[&other, &both]] {
        let expected = accepted(inputs, &[]);
        let by_packet = accepted(inputs, &["--per-packet"]);
        assert_eq!(by_packet.0, if inputs.len() == 1 { 6500 } else { 7470 }, "{inputs:?}");
        // Inputs that overlap in time are merged by one reader.
        let layouts = if inputs.len() == 1 { &layouts[..] } else { &layouts[..3] };
        for more in layouts {
            assert_eq!(accepted(inputs, more), expected, "{inputs:?} {more:?}");
            let more = [*more, &["--per-packet"]].concat();
            assert_eq!(accepted(inputs, &more), by_packet, "{inputs:?} {more:?}");
        }
    }
    assert_eq!(accepted(&[&both], &[]).0, 6500);
    assert_eq!(accepted(&[&other], &[]).0, 970);
    assert_eq!(accepted(&[&both], &["--in", "wan0"]).0, 100);
}

#[test]
fn network_policies_are_decided_by_the_addresses_of_pods() {
    let folder = Folder::new();
    let policy = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: db}\nspec:\n  podSelector:\n    \
                  matchLabels: {app: db}\n  ingress:\n  - from:\n    - podSelector: {matchLabels: {app: web}}\n    ports:\n    - port: 5432\n";
    let map = "pods:\n- {labels: {app: web}, ips: [10.1.0.5]}\n- {labels: {app: db}, ips: [10.1.0.9]}\n";
    let (policy, map) =
        (folder.write("db.yaml", policy.as_bytes()), folder.write("map.yaml", map.as_bytes()));
    let ask = |source: &str, port: &str| {
        decides(&folder, &policy, &[source, &format!("10.1.0.9:{port}"), "tcp", "--addresses", &map])
    };
    assert_eq!(ask("10.1.0.5:9", "5432"), (String::from("accept"), 9));
    assert_eq!(ask("10.1.0.5:9", "80"), (String::from("deny"), 5));
    let open = ["10.1.0.9:1", "10.1.0.5:80", "tcp", "--addresses", &map];
    assert_eq!(decides(&folder, &policy, &open).0, "accept");
    flowloom(["rules", "check", &policy]).ends(3).says(&["--addresses FILE"]);
    let toml = folder.write("same.toml", b"");
    flowloom(["rules", "convert", &policy, "--addresses", &map, "-o", &toml]).ends(0);
    flowloom(["rules", "equivalent", &policy, &toml, "--addresses", &map]).ends(0);
    flowloom(["rules", "check", &toml, "--addresses", &map])
        .ends(2)
        .says(&["--addresses", "omit --addresses"]);
}

#[test]
fn each_packet_has_a_verdict_and_an_open_one_says_what_may_decide() {
    let folder = Folder::new();
    let text = "*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp --dport 22 -m limit --limit 1/s -j ACCEPT\n\
                -A INPUT -p tcp --dport 22 -j REJECT\n-A INPUT -p tcp --dport 80 -m limit --limit 1/s -j ACCEPT\n\
                -A INPUT -p tcp --dport 80 -j ACCEPT\nCOMMIT\n";
    let rules = folder.write("saved", text.as_bytes());
    let mut frames: Vec<Vec<u8>> =
        [22, 80, 25].iter().map(|&port| frame(6, 0, &tcp(9, port, 2), 1)).collect();
    frames.insert(1, vec![0; 60]);
    let trace = folder.write("t.pcap", &capture(&frames));
    let classify = ["classify", &trace, "-r", &rules, "--per-packet", "--assume", "no-match", "--format"];
    drop(flowloom([&classify[..], &["json"]].concat()).ends(0).json());
    flowloom([&classify[..], &["csv"]].concat()).ends(0).shows(&[
        "packet,verdict,rule,line,possible,possible_verdict\n1,deny,2,4,1 2,unknown\n2,undecoded,,,,\n\
         3,accept,4,6,3 4,accept\n4,deny,5,2,,\n",
    ]);
    flowloom([&classify[..], &["plain"]].concat())
        .ends(0)
        .shows(&["packet     1  deny  by rule #2 (line 4); unknown, may be decided by #1 2\n"]);
    // The exit status of explain is the verdict.
    for (port, status) in [("22", 1), ("80", 0), ("25", 1)] {
        let to = format!("192.0.2.1:{port}");
        flowloom(["rules", "explain", &rules, "10.0.0.1:9", &to, "tcp"]).ends(status);
    }
}

#[test]
fn a_default_chain_without_rules_is_reported_if_another_has_some() {
    let folder = Folder::new();
    let file = |name: &str, filter: &str| {
        let nat = "*nat\n:POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -o eth0 -j MASQUERADE\nCOMMIT\n";
        let text = format!("{nat}*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n{filter}COMMIT\n");
        folder.write(name, text.as_bytes())
    };
    let forward = file("router.ipt", "-A FORWARD -p tcp -j ACCEPT\n");
    let warning = "chain INPUT has only its policy, and there are rules in FORWARD";
    let outcome = flowloom(["rules", "check", &forward]).says(&[warning, "choose with --chain"]);
    assert!(!outcome.stderr.contains("POSTROUTING"), "of another table");
    for quiet in [
        &["rules", "check", &forward, "--chain", "INPUT"][..],
        &["rules", "check", &file("host.ipt", "-A INPUT -p tcp -j DROP\n-A FORWARD -j DROP\n")],
        &["rules", "check", &file("bare.ipt", "")],
    ] {
        assert!(!flowloom(quiet).stderr.contains("only its policy"), "{quiet:?}");
    }
}
