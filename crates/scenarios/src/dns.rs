//! Messages of DNS [RFC 1035 §4.1], and what a meter can read in them.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::contents::{CUT, Facts, label, some};
use crate::random::Random;
use crate::script::{CLIENT, SERVER};

/// The most bytes of a list in a record.
const LIST_BYTES_MAX: usize = 4096;

/// Types and their names. The first ones have names or addresses as their contents.
const TYPES: [(u16, &str); 36] = [
    (1, "A"),
    (2, "NS"),
    (5, "CNAME"),
    (12, "PTR"),
    (15, "MX"),
    (28, "AAAA"),
    (33, "SRV"),
    (39, "DNAME"),
    (6, "SOA"),
    (10, "NULL"),
    (13, "HINFO"),
    (16, "TXT"),
    (29, "LOC"),
    (35, "NAPTR"),
    (43, "DS"),
    (44, "SSHFP"),
    (46, "RRSIG"),
    (47, "NSEC"),
    (48, "DNSKEY"),
    (50, "NSEC3"),
    (51, "NSEC3PARAM"),
    (52, "TLSA"),
    (59, "CDS"),
    (60, "CDNSKEY"),
    (61, "OPENPGPKEY"),
    (64, "SVCB"),
    (65, "HTTPS"),
    (99, "SPF"),
    (249, "TKEY"),
    (250, "TSIG"),
    (251, "IXFR"),
    (252, "AXFR"),
    (255, "ANY"),
    (256, "URI"),
    (257, "CAA"),
    (4242, "TYPE4242"),
];
const CODES: [&str; 16] = [
    "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET", "NXRRSET",
    "NOTAUTH", "NOTZONE", "DSOTYPENI", "RCODE12", "RCODE13", "RCODE14", "RCODE15",
];

/// Labels that need escapes [RFC 1035 §5.1], or are too long for a record, and how it shows them.
const ODD_NAMES: [(&[&[u8]], &str); 5] = [
    (&[b"a.b;c\\", b"\xC3 _-9", b"example"], r"a\.b\059c\\.\195\032_-9.example"),
    (&[&[b'x'; 63], &[b'y'; 63], &[b'z'; 63], &[b'w'; 61]], LONG_NAME),
    (&[&[0xFF; 63], b"xyzw"], WIDE_NAME),
    (&[&[0xFF; 60], b"abcdefg", b"hi"], WIDE_NAME_2),
    (&[&[0xFF; 62], b"ab", b"c", b"de"], WIDE_NAME_3),
];
const LONG_NAME: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx.yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy.zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz.wwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwwww";
const WIDE_NAME: &str = "\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255…";
const WIDE_NAME_3: &str = "\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255.ab…";
const WIDE_NAME_2: &str = "\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255\\255.abcdefg.hi";

/// A message that repeats names by pointers [RFC 1035 §4.1.4].
struct Message {
    bytes: Vec<u8>,
    /// Names and where they begin.
    names: Vec<(String, usize)>,
}

impl Message {
    fn new(identifier: u16, flags: u16, counts: [u16; 2]) -> Self {
        let words = [identifier, flags, counts[0], counts[1], 0, 0];
        Self { bytes: words.into_iter().flat_map(u16::to_be_bytes).collect(), names: Vec::new() }
    }

    /// Adds a name of these labels, which no pointer means.
    fn labels(&mut self, labels: &[&[u8]]) {
        for label in labels {
            self.bytes.push(label.len() as u8);
            self.bytes.extend(*label);
        }
        self.bytes.push(0);
    }

    fn name(&mut self, mut name: &str) {
        while !name.is_empty() {
            if let Some((_, at)) = self.names.iter().find(|(known, _)| known == name) {
                self.bytes.extend((0xC000 | *at as u16).to_be_bytes());
                return;
            }
            self.names.push((name.to_owned(), self.bytes.len()));
            let (first, rest) = name.split_once('.').unwrap_or((name, ""));
            self.bytes.push(first.len() as u8);
            self.bytes.extend(first.bytes());
            name = rest;
        }
        self.bytes.push(0);
    }

    fn question(&mut self, name: &str, kind: u16) {
        match ODD_NAMES.iter().find(|(_, shown)| *shown == name) {
            Some((labels, _)) => self.labels(labels),
            None => self.name(name),
        }
        self.bytes.extend([kind, 1].into_iter().flat_map(u16::to_be_bytes));
    }

    fn record(&mut self, name: &str, kind: u16, ttl: u32, data: impl FnOnce(&mut Self)) {
        self.question(name, kind);
        self.bytes.extend(ttl.to_be_bytes());
        let at = self.bytes.len();
        self.bytes.extend([0, 0]);
        data(self);
        let length = (self.bytes.len() - at - 2) as u16;
        self.bytes[at..at + 2].copy_from_slice(&length.to_be_bytes());
    }
}

/// Returns the contents of an answer as a record shows them, and puts the record into a message.
fn answer(random: &mut Random, message: &mut Message, owner: &str, kind: u16, target: &str) -> String {
    let ttl = random.pick(&[0, 60, 300, 86_400, u32::MAX]);
    let numbers: Vec<u16> = (0..3).map(|_| random.next() as u16).collect();
    let bytes = random.bytes(16);
    let name = TYPES.iter().find(|(number, _)| *number == kind).map_or("", |(_, name)| name);
    let put = |count: usize| {
        let numbers = &numbers[..count];
        move |message: &mut Message| {
            message.bytes.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
            message.name(target);
        }
    };
    let text = match kind {
        1 => {
            message.record(owner, kind, ttl, |message| message.bytes.extend(&bytes[..4]));
            format!(" {}", Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3]))
        }
        28 => {
            message.record(owner, kind, ttl, |message| message.bytes.extend(&bytes));
            format!(" {}", Ipv6Addr::from(<[u8; 16]>::try_from(&*bytes).expect("16 bytes")))
        }
        2 | 5 | 12 | 39 => {
            message.record(owner, kind, ttl, put(0));
            format!(" {target}")
        }
        15 => {
            message.record(owner, kind, ttl, put(1));
            format!(" {} {target}", numbers[0])
        }
        33 => {
            message.record(owner, kind, ttl, put(3));
            format!(" {} {} {} {target}", numbers[0], numbers[1], numbers[2])
        }
        _ => {
            let bytes = &bytes[..random.within(0, 16) as usize];
            message.record(owner, kind, ttl, |message| message.bytes.extend(bytes));
            String::new()
        }
    };
    format!("{owner} {ttl} {name}{text}")
}

/// A list of a record: different items up to a length.
#[derive(Default)]
struct List(Vec<String>);

impl List {
    fn push(&mut self, item: String) {
        let bytes: usize = self.0.iter().map(|item| item.len() + 1).sum();
        if self.0.contains(&item) || self.0.last().is_some_and(|item| item == CUT) {
        } else if bytes + item.len() + 1 + CUT.len() <= LIST_BYTES_MAX {
            self.0.push(item);
        } else {
            self.0.push(CUT.to_owned());
        }
    }

    fn text(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.join(";"))
    }
}

/// What an exchange of DNS consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One question and its answer.
    One,
    /// Questions of all types, with all codes; some have no response.
    Types,
    /// A few of these.
    Few,
    /// More questions and answers than a record lists.
    Many,
    /// Announcements without questions, as of multicast DNS.
    Announcements,
}

/// Returns messages with their senders, and what a meter can read in them.
pub(crate) fn messages(random: &mut Random, kind: Kind) -> (Vec<(usize, Vec<u8>)>, Facts) {
    let first = random.within(0, 35) as usize;
    let count = match kind {
        Kind::One => 1,
        Kind::Types => 36,
        Kind::Few | Kind::Announcements => 5,
        Kind::Many => 150,
    };
    let [mut queries, mut responses, mut unanswered, mut answers] = [(); 4].map(|()| List::default());
    let (mut messages, mut code_of_first, mut first_question) = (Vec::new(), None, None);
    let codes = random.within(0, 15) as usize;
    // An exact fit of the list of questions, or one byte more.
    let fit = random.within(0, 1) as usize;
    for nth in 0..count {
        let (number, type_name) = if kind == Kind::One { TYPES[0] } else { TYPES[(first + nth) % 36] };
        let mut name = format!("{}.{}.example", label(random, 8), label(random, 8));
        if kind == Kind::Many {
            let used: usize = queries.0.iter().map(|item| item.len() + 1).sum();
            let left = (LIST_BYTES_MAX - 1 - CUT.len()).saturating_sub(used);
            name = format!("{}.{}", "m".repeat(30), label(random, 9));
            if (36..95).contains(&left) && !queries.0.iter().any(|item| item == CUT) {
                let long = left + fit - type_name.len() - 1;
                name = format!("{}.{}", "n".repeat(long / 2), "o".repeat(long - long / 2 - 1));
            }
        } else if nth == 3 {
            name = String::new();
        } else if (4..9).contains(&nth) && kind == Kind::Types {
            ODD_NAMES[nth - 4].1.clone_into(&mut name);
        }
        let shown = if name.is_empty() { String::from(".") } else { name.clone() };
        let question = format!("{shown} {type_name}");
        let identifier = random.next() as u16;
        if kind != Kind::Announcements {
            let mut message = Message::new(identifier, 0x0100, [1, 0]);
            message.question(&name, number);
            messages.push((CLIENT, message.bytes.clone()));
            if random.chance(10) {
                messages.push((CLIENT, message.bytes));
            }
            queries.push(question.clone());
            first_question.get_or_insert((shown.clone(), type_name));
        }
        // The second question waits in vain.
        if !matches!(kind, Kind::One | Kind::Announcements) && nth % 7 == 1 {
            unanswered.push(question);
            continue;
        }
        let is_odd = ODD_NAMES.iter().any(|(_, shown)| *shown == name);
        let code = if random.chance(50) && !is_odd { 0 } else { (codes + nth) % 15 + 1 };
        let mut records = if code == 0 { random.within(1, 2) as u16 } else { 0 };
        let alias = (records > 1).then(|| format!("{}.{name}", label(random, 5)));
        let alias = alias.filter(|_| !name.is_empty());
        records = if records > 0 { 1 + u16::from(alias.is_some()) } else { 0 };
        let asked = u16::from(kind != Kind::Announcements);
        let flags = 0x8100 | if asked == 0 { 0x0400 } else { 0x0080 } | code as u16;
        let mut message = Message::new(identifier, flags, [asked, records]);
        if asked == 1 {
            message.question(&name, number);
            responses.push(format!("{question} {}", CODES[code]));
            if nth == 0 {
                code_of_first = Some(CODES[code]);
            }
        }
        if records > 0 {
            let owner = alias.as_deref().unwrap_or(&name);
            if let Some(alias) = &alias {
                let shown = answer(random, &mut message, &name, 5, alias);
                answers.push(shown);
            }
            let target =
                format!("{}.{}", label(random, 5), if name.is_empty() { "example" } else { &name });
            let shown = answer(random, &mut message, owner, number, &target);
            answers.push(if owner.is_empty() { format!(".{shown}") } else { shown });
        }
        messages.push((SERVER, message.bytes));
    }
    if responses.0.last().is_some_and(|item| item == CUT) {
        // The responses that the list lacks may be those.
        unanswered = List(vec![CUT.to_owned()]);
    }
    let (name, type_name) = first_question.unzip();
    let facts = vec![
        ("dns_query", name),
        ("dns_query_type", type_name.map(str::to_owned)),
        ("dns_response_code", code_of_first.and_then(some)),
        ("dns_queries", queries.text()),
        ("dns_responses", responses.text()),
        ("dns_unanswered", unanswered.text()),
        ("dns_answers", answers.text()),
    ];
    (messages, facts)
}
