//! Rulesets in the style of the programs that write them: each loads completely, and the same lines
//! decide packets as in the kernel.
#![cfg(feature = "std")]

use std::path::Path;

use flowloom_classifier::FiveTuple;
use flowloom_rules::firewall::{Assume, ConnectionState, Field, Packet, Policy};
use flowloom_rules::load::{LoadOptions, RuleFormat, load};

fn text_of(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dumps").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn policy_of(file: &str, table: Option<&str>, chain: &str) -> Policy {
    let text = text_of(file);
    let options = LoadOptions {
        table: table.map(str::to_owned),
        chain: Some(chain.to_owned()),
        ..LoadOptions::default()
    };
    load(&text, RuleFormat::detect(file, &text), &options)
        .unwrap_or_else(|errors| panic!("{file}: {errors}"))
}

/// Checks the line of a ruleset that decides a packet. A row has what its head names; `-` is none.
fn check(row: &str) {
    let mut rest = row;
    let mut next = || {
        let (word, later) = rest.trim_start().split_once(' ').expect("a row has twelve columns");
        rest = later;
        Some(word).filter(|word| *word != "-")
    };
    let (file, table, chain) = (next().expect("a file"), next(), next().expect("a chain"));
    let (source, destination) = (next().expect("an address"), next().expect("an address"));
    let [protocol, destination_port] =
        [(); 2].map(|()| next().and_then(|n| n.parse::<u16>().ok()).expect("a number"));
    let tuple = FiveTuple {
        source: source.parse().expect("an address"),
        destination: destination.parse().expect("an address"),
        source_port: 40_000,
        destination_port,
        protocol: u8::try_from(protocol).expect("a protocol"),
    };
    let mut packet = Packet::new(tuple);
    packet.state = Some(match next() {
        Some("established") => ConnectionState::Established,
        state => {
            assert_eq!(state, Some("new"), "{row}");
            ConnectionState::New
        }
    });
    (packet.input, packet.output) = (next(), next().or(Some("")));
    (packet.tcp_flags, packet.icmp) = (Some(2), Some((8, 0)));
    let assume = if next().is_some() { Assume::Match } else { Assume::NoMatch };
    let policy = policy_of(file, table, chain);
    let found = policy.first_match(&packet, assume).expect("a chain has a policy");
    let line = policy.source(found).map_or(0, |source| source.line);
    let text = text_of(file);
    let shown = text.lines().nth(line - 1).unwrap_or("");
    assert!(shown.contains(rest.trim()), "{row}\ndecided by line {line}: {shown}");
}

#[test]
fn rulesets_of_known_programs_decide_as_in_the_kernel() {
    include_str!("../dumps.txt").lines().skip(1).for_each(check);
}

#[test]
fn every_chain_of_every_table_loads() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dumps");
    let (mut files, mut decidable) = (0, 0);
    for entry in std::fs::read_dir(folder).expect("the folder of rulesets") {
        let path = entry.expect("a file").path();
        let file = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
        let text = text_of(&file);
        files += 1;
        let mut needs_nothing = true;
        if RuleFormat::detect(&file, &text) == RuleFormat::Iptables {
            for table in text.lines().filter_map(|line| line.strip_prefix('*')) {
                for chain in flowloom_rules::load::iptables::chains(&text, table) {
                    let policy = policy_of(&file, Some(table), chain);
                    needs_nothing &= policy
                        .undecidable(flowloom_rules::firewall::Knowledge::default())
                        .iter()
                        .all(|one| one.field != Field::Nothing);
                }
            }
        } else {
            for chain in flowloom_rules::load::nft::chains(&text) {
                policy_of(&file, None, &chain);
            }
            needs_nothing = false;
        }
        decidable += usize::from(needs_nothing);
    }
    assert!(files >= 27, "{files}");
    assert!(decidable >= 2, "some ask for nothing but headers, states and interfaces: {decidable}");
}
