//! Rulesets in the style of the programs that write them: each loads completely, and the same lines
//! decide packets as in the kernel.
#![cfg(feature = "std")]

use std::path::Path;

use expect_test::expect_file;
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

/// Returns the line that decides the packet of a question.
fn answer(question: &str) -> String {
    let words: Vec<&str> = question.split(' ').collect();
    let [file, table, chain, source, destination, protocol, port, state, input, output, assume] = words[..]
    else {
        panic!("{question}")
    };
    let policy = policy_of(file, (table != "-").then_some(table), chain);
    let mut packet = Packet::new(FiveTuple {
        source: source.parse().expect("an address"),
        destination: destination.parse().expect("an address"),
        source_port: 40_000,
        destination_port: port.parse().expect("a port"),
        protocol: protocol.parse().expect("a protocol"),
    });
    let states = [("new", ConnectionState::New), ("established", ConnectionState::Established)];
    let (_, state) = states.into_iter().find(|(name, _)| *name == state).expect("a state");
    packet.state = Some(state);
    let interface = |name| Some(if name == "-" { "" } else { name });
    (packet.input, packet.output) = (interface(input), interface(output));
    (packet.tcp_flags, packet.icmp) = (Some(2), Some((8, 0)));
    let assume = if assume == "match" { Assume::Match } else { Assume::NoMatch };
    let found = policy.first_match(&packet, assume).expect("a chain has a policy");
    let line = policy.source(found).map_or(0, |source| source.line);
    text_of(file).lines().nth(line - 1).unwrap_or_default().trim().to_owned()
}

/// The answers are those of the kernel, as far as the programs that write the rulesets say.
#[test]
fn firewalls_of_hosts_routers_and_containers_decide_as_in_the_kernel() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dumps.txt");
    let asked = std::fs::read_to_string(&path).expect("the questions");
    let mut answered = String::new();
    for line in asked.lines().filter(|line| !line.starts_with(' ')) {
        answered.extend([line, "\n"]);
        if !line.starts_with('#') {
            answered.extend(["  ", &answer(line), "\n"]);
        }
    }
    expect_file![path].assert_eq(&answered);
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
