//! A count of one has a singular noun.

use crate::support::{Folder, flowloom};

/// Returns a count of one with a plural noun, such as `1 packets`.
fn wrong(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let said = |words: &&[&str]| {
        let word = words[1].trim_matches(|c: char| !c.is_alphabetic());
        words[0].trim_start_matches('(') == "1"
            && word.len() > 2
            && word.ends_with('s')
            && !word.ends_with("ss")
    };
    words.windows(2).filter(said).map(|words| words.join(" ")).collect()
}

#[test]
fn what_is_one_is_not_called_many() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name);
    let trace = folder.trace("one.pcap", &["--flows", "1", "--packets", "1"]);
    let rules = folder.write("one.rules", b"@0.0.0.0/0 0.0.0.0/0 0 : 65535 0 : 65535 0x00/0x00\n");
    let rows: [&[&str]; 14] = [
        &["generate", "trace", "--flows", "1", "--packets", "1", "-o", &path("two.pcap")],
        &["generate", "trace", "--flows", "2", "--packets", "1", "-o", &path("none.pcap")],
        &["generate", "rules", "--rules", "1", "-o", &path("two.rules")],
        &["generate", "headers", &rules, "--count", "1", "-o", &path("headers")],
        &["inspect", &trace, "--top", "1"],
        &["replay", &trace, "--verify", "--tcb-cache", "8k"],
        &[
            "replay",
            &trace,
            "--workers",
            "2",
            "--no-pin",
            "--write",
            &path("out.pcapng"),
            "--order",
            "external",
        ],
        &["replay", &trace, "--app", "l7"],
        &["replay", &trace, "--rules", &rules, "--default", "deny"],
        &["classify", &trace, "--rules", &rules, "--verify"],
        &["rules", "check", &rules],
        &["rules", "stats", &rules],
        &["reproduce", "tcbcache/fig17"],
        &[
            "simulate",
            "tcb-cache",
            "--model",
            "s",
            "--overlap",
            "1",
            "--accesses",
            "100",
            "--policy",
            "spec",
        ],
    ];
    for arguments in rows {
        let outcome = flowloom(arguments);
        let shown = format!("{}\n{}", outcome.text(), outcome.stderr);
        assert_eq!(wrong(&shown), Vec::<String>::new(), "{arguments:?}:\n{shown}");
    }
    assert_eq!(
        wrong("1 packets in (1 flows), 1 rule, 1 access, 21 s, 2 rules"),
        ["1 packets", "(1 flows),"]
    );
}
