//! `classify`, `rules`, `generate rules` and `generate headers`.

use std::io::{self, Read, Write};

use crate::support::{Folder, flowloom, flowloom_fed, number};

/// Five rules: the second is inside the first, and the fourth equals the third.
const RULES: &str = "\
@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t
@10.1.0.0/16\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t
@0.0.0.0/0\t192.0.2.0/24\t0 : 65535\t53 : 53\t0x11/0xFF\t0x0000/0x0000\t
@0.0.0.0/0\t192.0.2.0/24\t0 : 65535\t53 : 53\t0x11/0xFF\t
@172.16.0.0/12\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00
";

#[test]
fn a_file_of_rules_or_headers_that_is_no_text_is_told_what_it_should_be() {
    let folder = Folder::new();
    let bytes = folder.write("bytes", &[b'1', 0xD4, 0xC3]);
    let rules = folder.write("one.rules", b"@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00\n");
    flowloom(["rules", "check", &bytes])
        .ends(3)
        .says(&["byte 1, in line 1, is not UTF-8", "a ClassBench filter file, TOML, Cisco access lists"]);
    flowloom(["classify", &bytes, "--rules", &rules])
        .ends(3)
        .says(&["byte 1, in line 1, is not UTF-8", "five numbers per line"]);
}

#[test]
fn headers_hit_the_rules_that_they_should() {
    let folder = Folder::new();
    let rules = folder.write("r", RULES.as_bytes());
    // 10.0.0.1 > 1.2.3.4:80 tcp, twice; 10.1.0.1 likewise; 8.8.8.8 > 192.0.2.1:53 udp; 1.1.1.1 >
    // 2.2.2.2.
    let trace = folder.write(
        "t",
        b"167772161 16909060 1 80 6\n167772161 16909060 1 80 6\n167837697 16909060 1 80 6\n\
          134744072 3221225985 9 53 17 0 99\n16843009 33686018 1 2 6\n",
    );
    let document = flowloom(["classify", &trace, "-r", &rules, "--verify", "--unused", "--format", "json"])
        .ends(0)
        .silent()
        .json();
    assert_eq!((number(&document, "matched"), number(&document, "unmatched")), (4, 1));
    let top =
        |i: usize| (number(&document["top"][i], "packets"), number(&document["top"][i]["rule"], "number"));
    assert_eq!((top(0), top(1)), ((3, 1), (1, 3)));
    let unused: Vec<u64> =
        document["unused_listed"].as_array().unwrap().iter().map(|rule| number(rule, "number")).collect();
    assert_eq!(unused, [2, 4, 5]);
    flowloom(["classify", &trace, "-r", &rules, "--algorithm", "linear"])
        .ends(0)
        .shows(&["4 matched (80.00 %), 1 not"]);
}

#[test]
fn a_capture_is_classified_as_replay_decodes_it() {
    let folder = Folder::new();
    let rules = folder.write(
        "r.toml",
        b"default_action = 'none'\n[[rule]]\nprotocol = 'udp'\nvalue = 3\n[[rule]]\nsource = '::/0'\n",
    );
    let trace = folder.trace("t.pcap", &[]);
    let document =
        flowloom(["classify", &trace, "-r", &rules, "--verify", "--format", "json"]).ends(0).json();
    let replayed = crate::support::replay(&[&trace]);
    assert_eq!(number(&document, "packets"), number(&replayed, "packets"));
    assert_eq!(
        number(&document, "packets") - number(&document, "undecoded"),
        number(&document, "matched") + number(&document, "unmatched")
    );
    assert_eq!(
        number(&document, "packets") - number(&document, "undecoded"),
        number(&replayed, "decoded"),
        "both decode the same packets"
    );
}

#[test]
fn the_flags_column_is_matched_unless_it_is_left_out() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let any = "0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x06/0xFF\t";
    let text = format!("@{any}0x0200/0x1200\n@{any}0x1000/0x1000\n@{any}0x0000/0x0000\n");
    let rules = folder.write("r", text.as_bytes());
    let packets = |options: &[&str]| {
        let base = ["classify", &trace, "-r", &rules, "--verify", "--format", "json"];
        let document = flowloom([&base[..], options].concat()).ends(0).json();
        let top = document["top"].as_array().unwrap();
        let of = |number: u64| {
            top.iter()
                .find(|rule| rule["rule"]["number"] == number)
                .map_or(0, |rule| self::number(rule, "packets"))
        };
        ([of(1), of(2), of(3)], number(&document, "matched"))
    };
    let (plain, matched) = packets(&["--ignore-flags"]);
    assert_eq!(plain, [matched, 0, 0], "the column takes no part");
    let (flagged, same) = packets(&[]);
    assert_eq!((flagged.iter().sum::<u64>(), same), (matched, matched));
    assert!(flagged[0] > 0 && flagged[1] > flagged[0], "{flagged:?}: connections are opened, then used");
    let header = folder.write("h", b"167772161 16909060 1 80 6\n");
    flowloom(["classify", &header, "-r", &rules]).ends(0).says(&["flags of 2 rules are not compared"]);
    let document =
        flowloom(["replay", &trace, "--rules", &rules, "--verify", "--format", "json"]).ends(0).json();
    let hits: Vec<u64> =
        document["firewall"]["top"].as_array().unwrap().iter().map(|rule| number(rule, "number")).collect();
    assert!(hits.contains(&1) && hits.contains(&2), "{hits:?}: replay matches the column too");
}

#[test]
fn rules_that_never_win_are_found() {
    let folder = Folder::new();
    let rules = folder.write("r", RULES.as_bytes());
    let document = flowloom(["rules", "check", &rules, "--format", "json"]).ends(0).silent().json();
    assert_eq!((number(&document, "shadowed"), number(&document, "duplicates")), (1, 1));
    assert_eq!(document["listed"][0]["rule"]["number"], 2);
    assert_eq!(document["listed"][1]["by"]["number"], 3);
    flowloom(["rules", "check", &rules, "--strict"]).ends(1);
    flowloom(["rules", "check", &rules, "--steps-max", "1"])
        .ends(0)
        .shows(&["undecided: a larger --steps-max may decide"]);
    flowloom(["rules", "explain", &rules, "10.1.2.3", "1.2.3.4", "icmp"]).ends(1);
    flowloom(["rules", "explain", &rules, "somewhere", "1.2.3.4", "icmp"])
        .ends(2)
        .says(&["'somewhere' is not an address with a port", "192.0.2.1:80"]);
    let explained =
        flowloom(["rules", "explain", &rules, "10.1.2.3:5", "1.2.3.4:80", "tcp", "--format", "json"])
            .ends(0)
            .json();
    assert_eq!(number(&explained, "matching"), 2);
    assert_eq!(explained["listed"][0]["number"], 1);
    // The winner does not depend on the length of the list, which may be empty.
    for (top, more) in [("0", "2 more; --top lists them"), ("1", "1 more; --top lists them")] {
        flowloom(["rules", "explain", &rules, "10.1.2.3:5", "1.2.3.4:80", "tcp", "--top", top])
            .ends(0)
            .shows(&[more, "rule #1 wins; 2 rules in all match"]);
    }
    let stats = flowloom(["rules", "stats", &rules, "--format", "json"]).ends(0).json();
    assert_eq!((number(&stats, "rules"), number(&stats, "any_protocol")), (5, 1));
}

#[test]
fn generated_rules_and_headers_are_read_again() {
    let folder = Folder::new();
    let (rules, six, trace) = (folder.path("r"), folder.path("six"), folder.path("t"));
    let made = flowloom([
        "generate",
        "rules",
        "--profile",
        "fw",
        "--rules",
        "200",
        "-o",
        &rules,
        "--format",
        "json",
    ])
    .ends(0)
    .json();
    assert_eq!(number(&made, "lines"), 200);
    let again = flowloom(["generate", "rules", "--profile", "fw", "--rules", "200", "-o", "-"]).ends(0);
    assert_eq!(again.stdout, std::fs::read(&rules).unwrap());
    flowloom(["generate", "headers", &rules, "--count", "3k", "--traffic", "zipf", "-o", &trace]).ends(0);
    let document =
        flowloom(["classify", &trace, "-r", &rules, "--verify", "--format", "json"]).ends(0).json();
    assert_eq!((number(&document, "packets"), number(&document, "wrong")), (3000, 0));
    flowloom(["generate", "rules", "--rules", "50", "--v6", "-o", &six]).ends(0);
    let stats = flowloom(["rules", "stats", &six, "--format", "json"]).ends(0).json();
    assert_eq!(number(&stats, "v6"), 50);
    let text = flowloom(["rules", "stats", &six]).ends(0);
    // The first line begins with the path.
    let lengths = text.text().lines().skip(1).filter(|line| line.trim_start().starts_with('/'));
    assert!(lengths.clone().count() > 5 && lengths.clone().all(|line| line.ends_with(" of IPv6")));
    let headers = folder.path("h.trace");
    flowloom(["generate", "headers", &six, "-o", &headers]).ends(2).says(&["six has only IPv6 rules"]);
    assert!(!std::fs::exists(&headers).unwrap());
    let before = std::fs::read(&rules).unwrap();
    flowloom(["generate", "headers", &rules, "-o", &rules]).ends(2).says(&["would overwrite the rules"]);
    assert_eq!(std::fs::read(&rules).unwrap(), before);
    let mixed = folder.write(
        "mixed.toml",
        b"default_action = 'none'\n[[rule]]\nsource = '::1'\n[[rule]]\nsource = '10.0.0.1'\n",
    );
    flowloom(["generate", "headers", &mixed, "-o", &headers, "--count", "10"])
        .ends(0)
        .says(&["1 of the 2 rules", "are for IPv6: no header matches them"]);
    assert!(std::fs::read_to_string(&headers).unwrap().lines().all(|line| line.starts_with("167772161\t")));
}

#[test]
fn forms_are_converted_and_back() {
    let folder = Folder::new();
    let rules = folder.write("r", RULES.as_bytes());
    let toml = folder.path("r.toml");
    let made =
        flowloom(["rules", "convert", &rules, "--to", "toml", "-o", &toml, "--format", "json"]).ends(0);
    made.json();
    let back = flowloom(["rules", "convert", &toml]).ends(0);
    let twice = flowloom_fed(["rules", "convert", "-"], &back.stdout).ends(0);
    assert_eq!(back.stdout, twice.stdout);
    assert!(back.text().starts_with("@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF"));
}

#[test]
fn a_form_is_written_as_the_file_is_named_and_what_it_cannot_say_is_warned_of() {
    let folder = Folder::new();
    let saved =
        folder.write("saved", b"*filter\n:INPUT DROP [0:0]\n-A INPUT -s 10.0.0.1 -j ACCEPT\nCOMMIT\n");
    let (toml, lines) = (folder.path("a.toml"), folder.path("a.rules"));
    flowloom(["rules", "convert", &saved, "-o", &toml]).ends(0).silent();
    let before = std::fs::read(&toml).unwrap();
    flowloom(["rules", "convert", &toml, "-o", &toml]).ends(2).says(&["would overwrite the rules"]);
    assert_eq!(std::fs::read(&toml).unwrap(), before);
    assert!(std::fs::read_to_string(&toml).unwrap().contains("action = \"accept\""));
    flowloom(["rules", "convert", &saved, "-o", &lines])
        .ends(0)
        .says(&["2 rules without action", "--to toml keeps that"]);
    let shown = flowloom(["rules", "convert", &toml, "-qq", "-o", "-"]).ends(0).silent();
    assert_eq!(shown.text(), std::fs::read_to_string(&lines).unwrap());
    let flags =
        folder.write("flags", b"@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x06/0xFF 0x0200/0x0200\n");
    flowloom(["rules", "convert", &flags, "--to", "toml"]).ends(0).shows(&["flags = \"0x0200/0x0200\""]);
}

#[test]
fn rules_are_shown_with_their_lines_and_flags_tell_them_apart() {
    let folder = Folder::new();
    let rule = "@10.0.0.0/8 0.0.0.0/0 0 : 65535 80 : 80 0x06/0xFF";
    let text = format!("# web\n\n{rule} 0x1000/0x1000\n{rule} 0x0200/0x0200\n{rule} 0x1200/0x1200\n");
    let rules = folder.write("r", text.as_bytes());
    flowloom(["rules", "check", &rules, "--strict"]).ends(1).shows(&[
        "shadowed  #3 (line 5) 10.0.0.0/8",
        "by  #1 (line 3) 10.0.0.0/8",
        "1 rule never wins",
    ]);
    let document = flowloom(["rules", "check", &rules, "--format", "json"]).ends(0).json();
    assert_eq!((number(&document, "with_tests"), number(&document["listed"][0]["rule"], "line")), (3, 5));
    flowloom(["rules", "check", &rules, "--format", "csv"]).ends(0).shows(&[
        "kind,number,rule,by_number,by_rule,line,by_line\nshadowed,3,",
        ",1,10.0.0.0/8",
        ",5,3\n",
    ]);
    let distinct = text.rsplit_once(rule).unwrap().0;
    let rules = folder.write("distinct", distinct.as_bytes());
    flowloom(["rules", "check", &rules, "--strict"]).ends(0).shows(&["0 rules never win"]);
}

#[test]
fn check_tells_why_a_rule_never_wins() {
    let folder = Folder::new();
    let text = "*filter\n:INPUT DROP [0:0]\n:web - [0:0]\n-A INPUT -p tcp -j web\n\
                -A INPUT -p tcp -j ACCEPT\n-A INPUT -p tcp -j DROP\n-A INPUT -p tcp -s 10.0.0.0/8 -j ACCEPT\n\
                -A web -p udp -j DROP\nCOMMIT\n";
    let rules = folder.write("r", text.as_bytes());
    flowloom(["rules", "check", &rules]).ends(0).shows(&[
        "unreachable  #2 (line 8) [web] deny",
        "because  no packet meets its conditions and those of the jumps that lead to it",
        "duplicate  #4 (line 6) [INPUT] deny tcp",
        "opposed by  #3 (line 5) [INPUT] accept tcp",
        "by  #3 (line 5)",
    ]);
}

#[test]
fn a_chain_that_has_no_rules_is_told_which_others_there_are() {
    let folder = Folder::new();
    let saved = folder.write(
        "saved",
        b"*nat\n:POSTROUTING ACCEPT [0:0]\nCOMMIT\n*filter\n:FORWARD DROP [0:0]\n:web - [0:0]\nCOMMIT\n",
    );
    flowloom(["rules", "check", &saved])
        .ends(3)
        .says(&["no rules in chain INPUT, which does not exist", "--chain names another: FORWARD, web\n"]);
    flowloom(["rules", "check", &saved, "--chain", "web"]).ends(3).says(&["in chain web, which is empty"]);
    let nat = folder.write("nat", b"*nat\n:POSTROUTING ACCEPT [0:0]\nCOMMIT\n");
    flowloom(["rules", "check", &nat]).ends(3).says(&["the filter table has no chain"]);
    let toml = folder.write("rules.toml", b"[[rule]]\nprotocol = 'tcp'\naction = 'deny'\n");
    flowloom(["rules", "check", &toml, "--chain", "INPUT"])
        .ends(2)
        .says(&["is read as TOML, which has no chains", "omit --chain"]);
}

#[test]
fn lists_show_what_rules_do_where_they_say_so() {
    let folder = Folder::new();
    let saved = "*filter\n:INPUT DROP [0:0]\n-A INPUT -p tcp --dport 22 -j ACCEPT\n-A INPUT -p icmp -j REJECT\nCOMMIT\n";
    let rules = folder.write("saved", saved.as_bytes());
    let (ssh, ping) = (["10.0.0.1:9", "10.0.0.2:22", "tcp"], ["10.0.0.1", "10.0.0.2", "icmp"]);
    flowloom([&["rules", "explain", &rules][..], &ssh].concat())
        .ends(0)
        .shows(&["wins  #1 (line 3) [INPUT] accept tcp any IPv4 > any dport 22"])
        .shows(&[
            "would match  #3 (line 2) [INPUT] deny all any IPv4",
            "\naccept: rule #1 wins; 2 rules in all match\n",
        ]);
    let explained =
        flowloom([&["rules", "explain", &rules, "--format", "json"][..], &ping].concat()).ends(1);
    let document = explained.json();
    assert_eq!(document["listed"][0]["action"], "deny", "{document:#}");
    let trace = folder.trace("t.pcap", &["--packets", "1000"]);
    let classify = ["classify", &trace, "-r", &rules, "--unused", "--format"];
    flowloom([&classify[..], &["json"]].concat()).ends(0).json();
    flowloom([&classify[..], &["csv"]].concat())
        .ends(0)
        .shows(&["packets,number,rule,action,line\n", ",3,all any IPv4 > any,deny,2\n"]);
    let plain = folder.write("r", RULES.as_bytes());
    let document = flowloom(["classify", &trace, "-r", &plain, "--format", "json"]).ends(0).json();
    assert!(document["top"][0]["rule"].get("action").is_none(), "ClassBench says nothing of actions");
}

#[test]
fn header_traces_and_rules_come_from_where_they_can() {
    let folder = Folder::new();
    let rules = folder.write("r", RULES.as_bytes());
    let headers = b"167772161 167772162 1024 80 6\n";
    let plain = folder.write("h.trace", headers);
    flowloom(["classify", &plain, "-r", &rules, "-q"]).ends(0).shows(&["1 matched"]);
    let traces = "header traces are accepted too: files, plain or compressed, not mixed with captures";
    flowloom_fed(["classify", "-", "-r", &rules], headers).ends(3).says(&["is not a capture file", traces]);
    let capture = folder.trace("t.pcap", &["--packets", "1000"]);
    flowloom(["classify", &capture, &plain, "-r", &rules])
        .ends(3)
        .says(&["h.trace is not a capture", traces]);
    for verb in [["classify", "-r"], ["replay", "--rules"]] {
        flowloom_fed([verb[0], "-", verb[1], "-"], RULES.as_bytes())
            .ends(2)
            .says(&["rules and packets cannot both come from standard input"]);
    }
}

#[test]
fn rules_and_header_traces_may_be_packed() {
    let folder = Folder::new();
    let gzip = |bytes: &[u8]| {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    };
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let headers = b"167772161 167772162 1024 80 6\n";
    let rules = folder.write("r", RULES.as_bytes());
    let trace = folder.write("h.trace", headers);
    let figures = |trace: &str, rules: &str| {
        let document = flowloom(["classify", trace, "-r", rules, "--format", "json"]).ends(0).json();
        (document["top"].clone(), document["packets"].clone())
    };
    let plain = figures(&trace, &rules);
    assert_eq!(plain.1, 1);
    for (ending, pack) in [("gz", &gzip as &dyn Fn(&[u8]) -> Vec<u8>), ("zst", &zstd)] {
        let packed_rules = folder.write(&format!("r.{ending}"), &pack(RULES.as_bytes()));
        let packed_trace = folder.write(&format!("h.{ending}"), &pack(headers));
        assert_eq!(figures(&packed_trace, &packed_rules), plain, "{ending}");
        flowloom_fed(["rules", "stats", "-"], &pack(RULES.as_bytes())).ends(0);
        let toml = folder.write(&format!("r.toml.{ending}"), &pack(b"# none yet\n"));
        flowloom(["rules", "check", &toml]).ends(3).says(&["has no rules"]);
    }
    let packed = gzip(RULES.repeat(100).as_bytes());
    let cut = folder.write("cut.gz", &packed[..packed.len() / 2]);
    flowloom(["rules", "check", &cut]).ends(3).says(&["cannot read", "cut.gz"]);
    // Half a gigabyte of zeros, and a little more.
    let large = folder.write("large.zst", &zstd::encode_all(io::repeat(b'\n').take(513 << 20), 1).unwrap());
    flowloom(["rules", "check", &large]).ends(3).says(&["large.zst: more than 536870912 bytes"]);
}

#[test]
fn mistakes_are_shown_in_their_place() {
    let folder = Folder::new();
    let bad = folder.write("bad", b"@10.0.0.0/8 1.2.3.4/32 0 : 65535 80 : 70 6/255\n");
    flowloom(["rules", "stats", &bad]).ends(3).says(&[
        "bad:1:34: port range 80 : 70 ends before it begins",
        "[exit 3]",
        "\n  @10.0.0.0/8",
    ]);
    let saved = folder.write(
        "saved",
        b"*filter\n:INPUT DROP [0:0]\n-A INPUT -s ten -j ACCEPT\n-A INPUT -j NOSUCH\nCOMMIT\n",
    );
    flowloom(["rules", "check", &saved])
        .ends(3)
        .says(&["saved:3:13:", "saved:4:13: unsupported target 'NOSUCH'"]);
    let elsewhere = folder.write("elsewhere", b"permit all\n");
    let forms = "a rule file is a ClassBench filter file, TOML, Cisco access lists, Kubernetes";
    flowloom(["rules", "check", &elsewhere])
        .ends(3)
        .says(&["elsewhere:1:1: this text is in no format of rules that is known here", forms]);
    let nft = folder.write("nft", b"table inet filter {\n chain forward {\n }\n}\n");
    flowloom(["rules", "check", &nft]).ends(3).says(&["has no rules in chain or hook input", "forward"]);
    let script = folder.write("script", b"#!/bin/sh\niptables -P INPUT DROP\n");
    flowloom(["rules", "check", &script]).ends(3).says(&["script:2:1: this is a script", "iptables-save"]);
    let packed = folder.write("packed.gz", &[0x1F, 0x8B, 8, 0]);
    flowloom(["rules", "check", &packed]).ends(3).says(&["cannot read", "packed.gz"]);
    let empty = folder.write("empty", b"# nothing\n");
    flowloom(["rules", "check", &empty]).ends(3).says(&["has no rules"]);
    flowloom(["rules", "check", &folder.path("none")]).ends(3).says(&["cannot read"]);
    let wide = folder.write("wide", b"\xff\xfe*\0");
    flowloom(["rules", "check", &wide]).ends(3).says(&["it is UTF-16", "iconv"]);
    let good = folder.write("good", RULES.as_bytes());
    flowloom(["rules", "stats", &good, "--memory-max", "1"]).ends(2).says(&["raise the limit"]);
    flowloom(["rules", "explain", &good, "1.1.1.1:1", "[::1]:1", "tcp"])
        .ends(2)
        .says(&["different address families"]);
    flowloom(["generate", "rules", "--rules", "17M", "-o", "-"]).ends(2).says(&["more than"]);
}

#[test]
fn a_bench_compares_answers_before_times() {
    let folder = Folder::new();
    let rules = folder.write("r", RULES.as_bytes());
    let document = flowloom([
        "bench",
        "classify",
        "--rules",
        &rules,
        "--headers",
        "2k",
        "--rounds",
        "2",
        "--traffic",
        "misses",
        "--format",
        "json",
    ])
    .ends(0)
    .json();
    let variants = document["results"].as_array().unwrap();
    assert!(variants.len() >= 5 && document["ratios"].as_array().unwrap().len() == variants.len() - 1);
    flowloom([
        "bench",
        "classify",
        "--sizes",
        "100",
        "--headers",
        "1k",
        "--rounds",
        "1",
        "--traffic",
        "hits",
    ])
    .ends(0)
    .shows(&["aggrecuts-8", "linear", "flowcuts, scalar"]);
    flowloom(["bench", "classify", "--rounds", "0"]).ends(2);
}
