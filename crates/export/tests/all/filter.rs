//! Compares record filters with a simple evaluation of the same expression.

use std::net::IpAddr;

use flowloom_apps::RecordState as _;
use flowloom_apps::accounting::fields::{AllFields, Detailed};
use flowloom_apps::accounting::{Accounted, AccountingRecord, EndedBy};
use flowloom_export::record::Value;
use flowloom_export::{RecordFilter, RecordFilterError};
use flowloom_flow_key::FlowKey;
use proptest::prelude::*;

fn parse(text: &str) -> Result<RecordFilter, RecordFilterError> {
    RecordFilter::parse(text, &Detailed::<AllFields>::schema())
}

/// An expression, as the oracle evaluates it.
#[derive(Clone, Debug)]
enum Plain {
    Number(&'static str, &'static str, u64),
    Ports(Vec<(u16, u16)>),
    Prefix(&'static str, [u8; 4], u8),
    Protocol(bool, &'static str, u8),
    Flags(u16),
    Rtt(&'static str, u64),
    Queries(Vec<String>),
    Not(Box<Plain>),
    And(Vec<Plain>),
    Or(Vec<Plain>),
}

fn number(name: &str, record: &AccountingRecord) -> u64 {
    match name {
        "bytes" => record.bytes,
        "reverse_packets" => record.reverse_packets,
        "total_bytes" => record.bytes + record.reverse_bytes,
        "start" => record.start_ns,
        _ => record.end_ns - record.start_ns,
    }
}

fn holds(operator: &str, value: u64, number: u64) -> bool {
    match operator {
        "==" => value == number,
        "!=" => value != number,
        "<" => value < number,
        "<=" => value <= number,
        ">" => value > number,
        _ => value >= number,
    }
}

/// A record, with the values of two additional fields.
type Case = (AccountingRecord, Option<u64>, Option<String>);

impl Plain {
    fn text(&self) -> String {
        let all = |parts: &[Self], word: &str| {
            let parts: Vec<String> = parts.iter().map(|part| format!("({})", part.text())).collect();
            parts.join(word)
        };
        match self {
            Self::Number(name, operator, number) => format!("{name} {operator} {number}"),
            Self::Ports(ranges) => {
                let ranges: Vec<String> = ranges.iter().map(|(a, b)| format!("{a}-{b}")).collect();
                format!("port in ({})", ranges.join(", "))
            }
            Self::Prefix(name, [a, b, c, d], bits) => format!("{name} in {a}.{b}.{c}.{d}/{bits}"),
            Self::Protocol(is, name, _) => format!("protocol {} \"{name}\"", if *is { "==" } else { "!=" }),
            Self::Flags(mask) => format!("tcp_flags & {mask:#x}"),
            Self::Rtt(operator, number) => format!("handshake_rtt {operator} {number}ns"),
            Self::Queries(parts) => {
                let parts: Vec<String> = parts.iter().map(|part| format!("\"{part}\"")).collect();
                format!("dns_queries contains ({})", parts.join(","))
            }
            Self::Not(part) => format!("not ({})", part.text()),
            Self::And(parts) => all(parts, " and "),
            Self::Or(parts) => all(parts, " || "),
        }
    }

    fn matches(&self, case: &Case) -> bool {
        let (record, rtt, queries) = case;
        match self {
            Self::Number(name, operator, value) => holds(operator, number(name, record), *value),
            Self::Ports(ranges) => {
                let ports = [record.source_port, record.destination_port];
                ranges.iter().any(|(first, last)| ports.iter().any(|port| (first..=last).contains(&port)))
            }
            Self::Prefix(name, network, bits) => {
                let is_in = |address: IpAddr| {
                    let IpAddr::V4(address) = address else { return false };
                    let (own, other) = (u32::from_be_bytes(*network), u32::from(address));
                    (0..*bits).all(|bit| own >> (31 - bit) & 1 == other >> (31 - bit) & 1)
                };
                match *name {
                    "source" => is_in(record.source),
                    "destination" => is_in(record.destination),
                    _ => is_in(record.source) || is_in(record.destination),
                }
            }
            Self::Protocol(is, _, protocol) => (record.protocol == *protocol) == *is,
            Self::Flags(mask) => record.tcp_flags & mask != 0,
            Self::Rtt(operator, value) => match rtt {
                Some(rtt) => holds(operator, *rtt, *value),
                None => *operator == "!=",
            },
            Self::Queries(parts) => queries.as_ref().is_some_and(|text| {
                let mut ends = (0..=text.len()).map(|at| &text[at..]);
                ends.any(|end| parts.iter().any(|part| end.starts_with(part)))
            }),
            Self::Not(part) => !part.matches(case),
            Self::And(parts) => parts.iter().all(|part| part.matches(case)),
            Self::Or(parts) => parts.iter().any(|part| part.matches(case)),
        }
    }
}

fn operator() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">="])
}

fn plain() -> impl Strategy<Value = Plain> {
    let names = prop::sample::select(vec!["bytes", "reverse_packets", "total_bytes", "start", "duration"]);
    let protocols = prop::sample::select(vec![("tcp", 6), ("udp", 17), ("icmp", 1)]);
    let small = prop_oneof![0..6_u64, Just(u64::MAX)];
    let leaf = prop_oneof![
        (names, operator(), small.clone()).prop_map(|(name, operator, n)| Plain::Number(name, operator, n)),
        prop::collection::vec((0..5_u16, 0..5_u16), 1..4).prop_map(|ranges| {
            Plain::Ports(ranges.into_iter().map(|(a, b)| (a.min(b), a.max(b))).collect())
        }),
        (prop::sample::select(vec!["source", "destination", "address"]), any::<u32>(), 0..=32_u8).prop_map(
            |(name, address, bits)| {
                let near = 0x0A00_0000 | address & 0x0000_0003;
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                Plain::Prefix(name, (near & mask).to_be_bytes(), bits)
            }
        ),
        (any::<bool>(), protocols).prop_map(|(is, (name, number))| Plain::Protocol(is, name, number)),
        (0..0x1FF_u16).prop_map(Plain::Flags),
        prop::collection::vec("[a-b.; ]{0,3}", 1..3).prop_map(Plain::Queries),
        (operator(), small).prop_map(|(operator, number)| Plain::Rtt(operator, number)),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|part| Plain::Not(Box::new(part))),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Plain::And),
            prop::collection::vec(inner, 1..4).prop_map(Plain::Or),
        ]
    })
}

fn record() -> impl Strategy<Value = AccountingRecord> {
    let protocols = prop::sample::select(vec![1_u8, 6, 17, 47]);
    let key = (0..4_u32, 0..4_u32, 0..5_u16, 0..5_u16, protocols);
    (key, [0..6_u64, 0..6, 0..6, 0..6, 0..6], 0..0x1FF_u16).prop_map(
        |((a, b, from, to, protocol), n, flags)| {
            let (key, _) = FlowKey::from_v4(0x0A00_0000 | a, 0x0A00_0000 | b, from, to, protocol);
            let mut record = AccountingRecord::new(&key, &Accounted::default(), EndedBy::EndOfInput);
            (record.bytes, record.reverse_bytes, record.reverse_packets) = (n[0], n[1], n[2]);
            (record.start_ns, record.end_ns) = (n[3], n[3] + n[4]);
            record.tcp_flags = flags;
            record
        },
    )
}

fn case() -> impl Strategy<Value = Case> {
    (record(), prop::option::of(0..6_u64), prop::option::of("[a-b.; ]{0,9}"))
}

proptest! {
    #[test]
    fn filter_matches_the_records_that_the_oracle_matches(
        expression in plain(),
        cases in prop::collection::vec(case(), 1..20),
    ) {
        let schema = Detailed::<AllFields>::schema();
        let [rtt_at, queries_at] =
            ["handshake_rtt", "dns_queries"].map(|name| schema.named(name).unwrap().index);
        let filter = RecordFilter::parse(&expression.text(), &schema).unwrap();
        for case in cases {
            let (record, rtt, queries) = &case;
            let mut row = record.row();
            row.values.resize(schema.columns().len(), Value::None);
            row.values[rtt_at] = (*rtt).into();
            row.values[queries_at] = Value::from_text(queries.clone(), false);
            prop_assert_eq!(filter.matches(&row), expression.matches(&case), "{}: {:?}", expression.text(), case);
        }
    }

    #[test]
    fn any_text_is_parsed_without_a_panic(text in "[a-z_<>=!&|()', 0-9./:\"kéM-]{0,60}") {
        if let Err(error) = parse(&text) {
            prop_assert!(error.at <= text.len());
        }
    }

    #[test]
    fn any_sequence_of_words_is_parsed_without_a_panic(words in prop::collection::vec(prop::sample::select(vec![
        "bytes", ">", "1M", "and", "or", "not", "(", ")", "in", "contains", "community_id", ",", "source", "==", "10.0.0.0/8", "!", "tcp", "&", "\"",
    ]), 0..30)) {
        let text = words.join(" ");
        if let Ok(filter) = parse(&text) {
            let (key, _) = FlowKey::from_v4(1, 2, 3, 4, 6);
            let record = AccountingRecord::new(&key, &Accounted::default(), EndedBy::EndOfInput);
            let _ = filter.matches(&record.row());
        }
    }
}

#[test]
fn words_times_and_text_are_compared() {
    let (key, _) = FlowKey::from_v4(0x0A00_0001, 0x0A00_0002, 40_000, 443, 6);
    let mut record = AccountingRecord::new(&key, &Accounted::default(), EndedBy::EndOfInput);
    record.start_ns = 1_700_000_000_000_000_000;
    record.end_ns = record.start_ns + 1_500_000_000;
    let id = record.community_id().to_string();
    for (text, expected) in [
        ("end_reason == end", true),
        ("end_reason in (fin, reset)", false),
        ("protocol_name == tcp", true),
        ("start >= 2023-11-14T22:13:20Z and start < '2023-11-14 22:13:21'", true),
        ("duration == 1.5s", true),
        ("vlan == 0 or vlan > 0", false),
        ("vlan != 5", true),
        ("bytes < 0", false),
        ("bytes > 18446744073709551615", false),
        ("low == 10.0.0.1", true),
        (&format!("community_id == '{id}'"), true),
        ("community_id contains (x:, '1:')", true),
        ("community_id contains x: or end_reason contains idle", false),
        ("tls_sni contains ''", false),
        (&format!("not community_id in ('{id}', x)"), false),
        ("bytes == 1 or bytes == 0 and packets == 1", false),
        ("bytes == 0 or bytes == 1 and packets == 1", true),
    ] {
        let filter = parse(text).unwrap();
        assert_eq!(filter.matches(&record.row()), expected, "{text}");
    }
}
