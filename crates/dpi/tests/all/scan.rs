//! The scanner gives the same answers as l7-filter, for any division of the payload and any
//! expressions.

use flowloom_dpi::condition::{Checksum, Condition, Number, Size};
use flowloom_dpi::load::parse_own;
use flowloom_dpi::reference::Rescanner;
use flowloom_dpi::{
    Budget, BuildError, Dialect, GROUPS_MAX, Match, Origin, Outcome, PATTERNS_MAX, Pattern, PatternId,
    REGEX_BYTES_MAX, Role, ScanState, Scanner, Transport, builtin,
};
use proptest::prelude::*;

/// Scans `payload` in pieces and rescans it after each piece, until a pattern matches; both must
/// always agree. In a datagram, each piece is a whole datagram.
fn compare(scanner: &Scanner, rescanner: &Rescanner, transport: Transport, payload: &[u8], cuts: &[usize]) {
    let mut state = ScanState::default();
    let mut from = 0;
    let mut ends: Vec<usize> = cuts.iter().map(|cut| cut % (payload.len() + 1)).collect();
    ends.push(payload.len());
    ends.sort_unstable();
    let mut closed = false;
    if transport == Transport::Udp {
        // A datagram arrives as a whole.
        for to in ends {
            let found = scanner.scan_whole(transport, &payload[..to]);
            let expected = rescanner.first(transport, &payload[..to]);
            assert_eq!(found, expected, "{} up to {to}", payload.escape_ascii());
        }
        return;
    }
    for to in ends {
        let outcome = scanner.scan(transport, &mut state, &payload[from..to]);
        let expected = rescanner.first(transport, &payload[..to]);
        match outcome {
            Outcome::Matched(found) => {
                assert!(!closed, "what is closed stays closed");
                assert_eq!(Some(found), expected, "{} up to {to}", payload.escape_ascii());
                return;
            }
            Outcome::Open => assert!(!closed, "what is closed stays closed"),
            Outcome::Closed => closed = true,
        }
        assert_eq!(None, expected, "{} up to {to}", payload.escape_ascii());
        from = to;
    }
}

fn pattern_id(found: Option<Match>) -> Option<PatternId> {
    found.map(|found| found.pattern)
}

/// Expressions over few letters, so that they match often and overlap.
fn expression() -> impl Strategy<Value = String> {
    let atom = prop_oneof![
        "[abc]".prop_map(|c| c),
        Just(String::from(".")),
        Just(String::from("[^a]")),
        Just(String::from("\\x00")),
        Just(String::from("ab")),
        Just(String::from("cab")),
        Just(String::from("\\b")),
        Just(String::from("(?m:^)")),
        Just(String::from("(?m:$)")),
        Just(String::from("\\B")),
        Just(String::from("\\b{start-half}")),
        Just(String::from("\\b{end}")),
        Just(String::from("(?mR:^)")),
        Just(String::from("(?mR:$)")),
        Just(String::from("[\r\n]")),
    ];
    let tail = atom.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}{b}")),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("(?:{a}|{b})")),
            inner.clone().prop_map(|a| format!("(?:{a})*")),
            inner.clone().prop_map(|a| format!("(?:{a})?")),
            inner.prop_map(|a| format!("(?:{a}){{2,3}}")),
        ]
    });
    (prop::bool::ANY, tail, prop::bool::weighted(0.3)).prop_map(|(anchored, tail, ends)| {
        format!("{}(?:{tail}){}", if anchored { "^" } else { "" }, if ends { "$" } else { "" })
    })
}

/// Conditions that hold, fail, and wait for bytes, over payloads of few letters.
fn condition() -> impl Strategy<Value = Condition> {
    let number = prop_oneof![
        Just(Number::Big { bytes: 1 }),
        Just(Number::Big { bytes: 2 }),
        Just(Number::Little { bytes: 3 }),
        Just(Number::Ber),
    ];
    let size = (number, 0..8_u16, 1..3_u16, -97..8_i16).prop_map(|(number, at, times, plus)| Size {
        number,
        at,
        times,
        plus,
    });
    prop_oneof![
        size.clone().prop_map(Condition::Length),
        (0..6_u16, size).prop_map(|(from, size)| Condition::Records { from, size }),
        (0..6_u16, 2..6_u16).prop_map(|(from, bytes)| Condition::Checksum {
            kind: Checksum::Sum,
            from,
            bytes
        }),
    ]
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(
        prop_oneof![8 => Just(b'a'), 8 => Just(b'b'), 8 => Just(b'c'), 3 => Just(0_u8), 2 => Just(b'\r'), 2 => Just(b'\n'), 1 => any::<u8>()],
        0..48,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn any_expressions_and_any_cuts_give_the_answers_of_rescanning(
        expressions in prop::collection::vec((expression(), any::<bool>()), 1..6),
        conditions in prop::collection::vec((0..6_usize, condition()), 0..5),
        payload in payload(),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let mut patterns: Vec<Pattern> = expressions
            .iter()
            .enumerate()
            .map(|(i, (regex, zeros))| {
                let mut pattern = Pattern::new(&format!("p{i}"), regex);
                if *zeros {
                    pattern.dialect = Dialect::L7Filter;
                }
                pattern
            })
            .collect();
        for (at, condition) in conditions {
            let at = at % patterns.len();
            patterns[at].expressions[0].conditions.push(condition);
        }
        match Scanner::new(&patterns) {
            Ok(scanner) => {
                let rescanner = Rescanner::new(&patterns).unwrap();
                for transport in Transport::ALL {
                    compare(&scanner, &rescanner, transport, &payload, &cuts);
                }
            }
            Err(error) => {
                prop_assert!(matches!(error, BuildError::MatchesNothing { .. }), "{error}");
                let bare: Vec<Pattern> = patterns.into_iter().map(Pattern::without_conditions).collect();
                let nothing = Rescanner::new(&bare).unwrap().first(Transport::Tcp, b"");
                prop_assert!(nothing.is_some());
            }
        }
    }

    #[test]
    fn literals_split_anywhere_are_found(
        noise in prop::collection::vec(any::<u8>(), 0..80),
        at in any::<usize>(),
        which in 0..3_usize,
        cuts in prop::collection::vec(any::<usize>(), 0..10),
    ) {
        let words = ["needle-one", "second needle", "needless"];
        let mut payload = noise;
        let at = at % (payload.len() + 1);
        payload.splice(at..at, words[which].bytes());
        let patterns: Vec<Pattern> = words.iter().map(|word| Pattern::new(word, word)).collect();
        let scanner = Scanner::new(&patterns).unwrap();
        compare(&scanner, &Rescanner::new(&patterns).unwrap(), Transport::Tcp, &payload, &cuts);
        // Nothing is known before the end: the pattern matches once all bytes are there.
        let mut state = ScanState::default();
        let found = payload.iter().find_map(|&byte| match scanner.scan(Transport::Tcp, &mut state, &[byte]) {
            Outcome::Matched(found) => Some(found.pattern),
            Outcome::Open | Outcome::Closed => None,
        });
        prop_assert!(found.is_some());
    }
}

/// Every assertion except those of Unicode.
const ASSERTIONS: [&str; 12] = [
    r"\A", r"\z", "(?m:^)", "(?m:$)", "(?mR:^)", "(?mR:$)", r"\b", r"\B", r"\b{start}", r"\b{end}",
    r"\b{start-half}", r"\b{end-half}",
];

#[test]
fn every_assertion_is_decided_by_the_bytes_around_it() {
    // One byte of each kind that an assertion distinguishes, and zero.
    let bytes = b"a-\n\r\0";
    let mut payloads: Vec<Vec<u8>> = vec![Vec::new()];
    for begin in 0..31 {
        for &byte in bytes {
            payloads.push([&payloads[begin][..], &[byte]].concat());
        }
    }
    assert_eq!(payloads.last().unwrap().len(), 3);
    for look in ASSERTIONS {
        for (before, behind) in
            [("", "."), ("^.", ""), ("^.", "."), (".", ""), ("[^-]", "a"), ("^(?:a|.)", "$")]
        {
            for dialect in [Dialect::Bytes, Dialect::L7Filter] {
                let mut pattern = Pattern::new("it", &format!("{before}{look}{behind}"));
                pattern.dialect = dialect;
                let patterns = [pattern];
                let (scanner, rescanner) =
                    (Scanner::new(&patterns).unwrap(), Rescanner::new(&patterns).unwrap());
                for payload in &payloads {
                    compare(&scanner, &rescanner, Transport::Tcp, payload, &[]);
                    compare(&scanner, &rescanner, Transport::Tcp, payload, &[1, 2, 3]);
                }
            }
        }
    }
}

/// The first bytes of many protocols, so that mutations remain close to texts that the built-in
/// patterns match.
const OPENINGS: [&[u8]; 16] = [
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n",
    b"220 mail ready\r\n250-hello\r\n",
    b"220 ready\r\n331 password\r\n",
    b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03aaaaaaaaaaaaaaaaaaaaaaaa",
    b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01",
    b"\0\x1d\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01",
    b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\0\x80\0",
    b"<?xml version='1.0'?>  <stream:stream to='a'>",
    b"\x03\0\0\x16\x11\xe0\0\0\0\x01\0\xc0\x01\x0a\xc1\x02\x01\0\xc2\x02\x01\x02\x03\0\0\x19\x02\xf0\x80\x32\x01",
    b"\x38abcdefgh\0\0\0\0\0",
    b"abcdefgh\0\0\0\0\0\0\0\0\x21\x20\x22\x08\0\0\0\0\0\0\x01\x2c",
    b"\x02\x01\0\0\x31\x20\0\0\0\0\x12\x34\0\x02en",
    b"set key 0 60 5\r\nvalue\r\n",
    b"\x04\x01\0\x50\x01\x02\x03\x04anna\0",
    b"* OK ready\r\n",
    b"0About\t/about\tgopher.example\t70\r\n",
];

#[test]
fn the_builtin_patterns_give_the_answers_of_rescanning() {
    let patterns = builtin();
    let (scanner, rescanner) = (Scanner::new(&patterns).unwrap(), Rescanner::new(&patterns).unwrap());
    let mut seed = 11_u64;
    let mut random = move |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % below
    };
    for _ in 0..4000 {
        let mut payload = OPENINGS[random(OPENINGS.len())].to_vec();
        for _ in 0..random(3) {
            let at = random(payload.len());
            payload[at] = u8::try_from(random(256)).unwrap();
        }
        if random(4) == 0 {
            payload.extend_from_slice(OPENINGS[random(OPENINGS.len())]);
        }
        let cuts: Vec<usize> = (0..random(5)).map(|_| random(payload.len() + 1)).collect();
        for transport in Transport::ALL {
            compare(&scanner, &rescanner, transport, &payload, &cuts);
        }
    }
}

#[test]
fn small_budgets_make_more_groups_and_the_same_answers() {
    let patterns = builtin();
    let usual = Scanner::new(&patterns).unwrap();
    let small =
        Scanner::with_budget(&patterns, Budget { group_bytes_max: 4 << 20, ..Budget::default() }).unwrap();
    assert!(small.size().groups[0] > usual.size().groups[0]);
    for payload in OPENINGS {
        for transport in Transport::ALL {
            assert_eq!(small.scan_whole(transport, payload), usual.scan_whole(transport, payload));
        }
    }
}

#[test]
fn the_same_patterns_make_the_same_tables() {
    let mut patterns = builtin();
    patterns.push(Pattern::new("anywhere", r"\bneedle\b"));
    let budget = Budget { group_bytes_max: 4 << 20, ..Budget::default() };
    let make = || format!("{:?}", Scanner::with_budget(&patterns, budget).unwrap());
    assert!(make() == make());
}

#[test]
fn patterns_that_cannot_be_built_are_named() {
    let build =
        |regex: &str, budget| Scanner::with_budget(&[Pattern::new("it", regex)], budget).unwrap_err();
    let name = || String::from("it");
    assert_eq!(Scanner::new(&[]).unwrap_err(), BuildError::NoPatterns);
    assert!(matches!(
        build("(", Budget::default()),
        BuildError::Syntax { name, message } if name == "it" && message.contains("unclosed group")
    ));
    assert_eq!(build("a*", Budget::default()), BuildError::MatchesNothing { name: name() });
    assert_eq!(
        build("x[^y]{200}y", Budget::default()),
        BuildError::PatternTooLarge { name: name(), group_bytes_max: Budget::default().group_bytes_max }
    );
    assert!(matches!(
        build(&"a".repeat(REGEX_BYTES_MAX + 1), Budget::default()),
        BuildError::LongRegex { bytes_max: REGEX_BYTES_MAX, .. }
    ));
    assert!(matches!(
        build("^abcdefgh", Budget { bytes_max: 100, ..Budget::default() }),
        BuildError::TooLarge { bytes_max: 100, .. }
    ));
    let many: Vec<Pattern> = (0..64).map(|i| Pattern::new("n", &format!("a{i}.{{9}}b"))).collect();
    let tight = Budget { group_bytes_max: 200 << 10, ..Budget::default() };
    // Building stops as soon as there are too many tables.
    assert!(matches!(
        Scanner::with_budget(&many, tight),
        Err(BuildError::TooManyGroups { groups, .. }) if groups == GROUPS_MAX + 1
    ));
    assert!(matches!(build("(a{1000}){1000}", Budget::default()), BuildError::Syntax { .. }));
    let text = build("a*", Budget::default()).to_string();
    assert!(text.starts_with("the expression of it matches the empty payload"), "{text}");
}

#[test]
fn priority_is_the_order_of_the_list_not_of_the_bytes() {
    let patterns = [Pattern::new("late", "^abcd"), Pattern::new("early", "^a")];
    let scanner = Scanner::new(&patterns).unwrap();
    let scan = |bytes: &[u8]| pattern_id(scanner.scan_whole(Transport::Tcp, bytes));
    assert_eq!(scan(b"abcd"), Some(PatternId(0)));
    assert_eq!(scan(b"abc"), Some(PatternId(1)));
    // In two packets the second pattern matches first, and the flow is decided.
    let mut state = ScanState::default();
    let outcome = scanner.scan(Transport::Tcp, &mut state, b"ab");
    assert!(matches!(outcome, Outcome::Matched(found) if found.pattern == PatternId(1)));
}

#[test]
fn zero_bytes_inside_a_literal_are_skipped_anywhere() {
    let mut pattern = Pattern::new("digits", "12345");
    pattern.dialect = Dialect::L7Filter;
    let scanner = Scanner::new(&[pattern]).unwrap();
    assert_eq!(pattern_id(scanner.scan_whole(Transport::Udp, b"some 12\x0034\x005")), Some(PatternId(0)));
}

#[test]
fn an_assertion_alone_matches_a_byte_and_not_nothing() {
    let scanner = Scanner::new(&[Pattern::new("edge", r"\b")]).unwrap();
    assert_eq!(pattern_id(scanner.scan_whole(Transport::Tcp, b"-a")), Some(PatternId(0)));
    assert_eq!(scanner.scan_whole(Transport::Tcp, b"--"), None);
}

#[test]
fn values_equal_to_their_limits_are_allowed() {
    let build = |patterns: &[Pattern]| Scanner::new(patterns);
    // The last of the maximum number of patterns works, and one more is refused.
    let mut many = vec![Pattern::new("many", "^a"); PATTERNS_MAX - 1];
    many.push(Pattern::new("last", "("));
    assert!(matches!(build(&many), Err(BuildError::Syntax { name, .. }) if name == "last"));
    many.push(Pattern::new("more", "^a"));
    assert_eq!(
        build(&many).unwrap_err(),
        BuildError::TooManyPatterns { patterns: PATTERNS_MAX + 1, patterns_max: PATTERNS_MAX }
    );
    let long = format!("^{}", "a".repeat(REGEX_BYTES_MAX - 1));
    assert!(build(&[Pattern::new("long", &long)]).is_ok());
    // 512 patterns fit into one group, independent of their size.
    let group: Vec<Pattern> = (0..513).map(|i| Pattern::new("n", &format!("^n{i:03}"))).collect();
    assert_eq!(build(&group[..512]).unwrap().size().groups, [1, 1]);
    assert_eq!(build(&group).unwrap().size().groups, [2, 2]);
    // Together, their automaton exceeds the limit for a single pattern.
    let large = vec![Pattern::new("large", "^a{30000}"); 6];
    assert_eq!(build(&large).unwrap().size().groups, [1, 1]);
}

#[test]
fn exact_size_limit_suffices_and_one_byte_less_fails() {
    let patterns = [Pattern::new("ab", "^ab"), Pattern::new("anywhere", "needle")];
    let size = Scanner::new(&patterns).unwrap().size();
    // The start, the dead state, and one state per letter.
    assert_eq!((size.groups, size.states), ([2, 2], 2 * (4 + 8)));
    let build = |bytes_max| Scanner::with_budget(&patterns, Budget { bytes_max, ..Budget::default() });
    assert_eq!(build(size.bytes).unwrap().size(), size);
    let bytes_max = size.bytes - 1;
    assert_eq!(build(bytes_max).unwrap_err(), BuildError::TooLarge { bytes: size.bytes, bytes_max });
}

#[test]
fn exact_step_limit_suffices_and_one_step_less_fails() {
    let patterns = [Pattern::new("ab", "^ab"), Pattern::new("anywhere", "needle")];
    let build = |steps_max| Scanner::with_budget(&patterns, Budget { steps_max, ..Budget::default() });
    let (mut few, mut enough) = (0, 1 << 20);
    while enough - few > 1 {
        let middle = few + (enough - few) / 2;
        match build(middle) {
            Ok(_) => enough = middle,
            Err(error) => {
                assert_eq!(error, BuildError::TooManySteps { steps_max: middle });
                few = middle;
            }
        }
    }
    assert!((1_000..3_000).contains(&enough), "{enough} steps");
    assert_eq!(build(enough).unwrap().size(), Scanner::new(&patterns).unwrap().size());
}

#[test]
fn failed_builds_count_as_steps() {
    // Each one fits alone; how many fit together is determined by trying.
    let patterns = vec![Pattern::new("slow", "^(a?){90}a{90}"); 64];
    let build = |steps_max| {
        let budget = Budget { group_bytes_max: 512 << 10, steps_max, ..Budget::default() };
        Scanner::with_budget(&patterns, budget)
    };
    assert!(build(u64::MAX).is_ok());
    assert_eq!(build(500_000).unwrap_err(), BuildError::TooManySteps { steps_max: 500_000 });
    // A single expression that is too large is reported as slow if there are not enough steps to
    // determine its size.
    let one = [Pattern::new("large", "x[^y]{200}y")];
    let build = |steps_max| Scanner::with_budget(&one, Budget { steps_max, ..Budget::default() });
    assert_eq!(build(10_000).unwrap_err(), BuildError::TooManySteps { steps_max: 10_000 });
    assert!(matches!(build(u64::MAX).unwrap_err(), BuildError::PatternTooLarge { .. }));
}

#[test]
fn a_pattern_whose_condition_fails_leaves_the_payload_to_the_next() {
    let text = "[long]\nregex = ^a\nlength = u8@1\n[short]\nregex = ^a.b\n[end]\nregex = ^c$\nlength = u8@0\n\
                [any]\nregex = ^c\n";
    let patterns = parse_own(text).unwrap();
    let scanner = Scanner::new(&patterns).unwrap();
    let whole = |bytes: &[u8]| pattern_id(scanner.scan_whole(Transport::Udp, bytes)).map(PatternId::index);
    assert_eq!(whole(b"a\x03b"), Some(0));
    assert_eq!(whole(b"a\x04b"), Some(1));
    assert_eq!(whole(b"a\x04c"), None);
    assert_eq!(whole(b"c"), Some(3), "an end that matches may ask for more, too");
    // A stream waits until its first record is complete, independent of its pieces.
    let mut state = ScanState::default();
    assert_eq!(scanner.scan(Transport::Tcp, &mut state, b"a"), Outcome::Open);
    assert_eq!(scanner.scan(Transport::Tcp, &mut state, b"\x05cc"), Outcome::Open);
    let outcome = scanner.scan(Transport::Tcp, &mut state, b"c");
    assert!(matches!(outcome, Outcome::Matched(found) if found.pattern == PatternId(0)));
}

#[test]
fn known_sender_selects_the_pattern() {
    let patterns = parse_own("[ask]\nclient = ^a\n[tell]\nserver = ^a\n").unwrap();
    let scanner = Scanner::new(&patterns).unwrap();
    let rescanner = Rescanner::new(&patterns).unwrap();
    for (sender, expected) in [(None, 0), (Some(Role::Client), 0), (Some(Role::Server), 1)] {
        let origin = Origin::UNKNOWN.from(sender);
        let found = scanner.scan_datagram(b"ab", 2, origin);
        assert_eq!(pattern_id(found), Some(PatternId(expected)));
        assert_eq!(found, rescanner.first_from(origin, Transport::Udp, b"ab", 2));
    }
}

#[test]
fn pattern_may_require_its_usual_port() {
    let patterns = parse_own("[it]\nports = 53\nport = usual\nregex = ^a\n[else]\nregex = ^a\n").unwrap();
    let scanner = Scanner::new(&patterns).unwrap();
    let at = |origin| pattern_id(scanner.scan_datagram(b"ab", 2, origin)).map(PatternId::index);
    assert_eq!(at(Origin::UNKNOWN.between([40_000, 53])), Some(0));
    assert_eq!(at(Origin::UNKNOWN.between([40_000, 80])), Some(1));
    assert_eq!(at(Origin::UNKNOWN), Some(1));
}

#[test]
fn a_cut_datagram_is_judged_by_its_length_on_the_wire() {
    let patterns = parse_own("[it]\nregex = ^a\nlength = u8@1\n").unwrap();
    let scanner = Scanner::new(&patterns).unwrap();
    assert!(scanner.scan_datagram(b"a\x09b", 9, Origin::UNKNOWN).is_some());
    assert!(scanner.scan_datagram(b"a\x09b", 3, Origin::UNKNOWN).is_none());
}

#[test]
fn conditions_of_a_stream_read_its_first_bytes_only() {
    let build = |text: &str| Scanner::new(&parse_own(text).unwrap());
    assert!(build("[it]\nregex = ^a\nlength = u16be@18\n").is_ok());
    assert_eq!(
        build("[it]\nregex = ^a\nlength = u16be@19\n").unwrap_err(),
        BuildError::FarField { name: String::from("it"), bytes: 21, bytes_max: 20 }
    );
    assert!(build("[it]\ntransport = udp\nregex = ^a\nlength = u16be@19\n").is_ok());
    let mut nothing = Pattern::new("it", "^a");
    nothing.expressions.clear();
    assert!(matches!(Scanner::new(&[nothing]), Err(BuildError::NoExpression { name }) if name == "it"));
}
