//! The questions and answers of all messages of a DNS flow, as bounded text.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::cursor::Cursor;
use super::dns_message::{is_lookup, name, response_code, response_code_name, type_name};
use super::text::CUT;

/// Maximum length of each of the lists, in bytes.
pub const LIST_BYTES_MAX: usize = 4096;
/// Separates items. In names it is escaped.
const SEPARATOR: char = ';';

/// Lists whose items are separated by semicolons: questions such as `www.example AAAA`, responses
/// such as `www.example AAAA NOERROR`, and answers such as `www.example 300 AAAA 2001:db8::1`, with
/// the time to live in seconds. An item that occurs again is not repeated. [`CUT`] ends a list that
/// lacks items.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::fields::application::dns_names::DnsNames;
/// let mut names = DnsNames::default();
/// names.add(b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x1C\0\x01", false);
/// assert_eq!(names.questions(), "www.example AAAA");
/// assert_eq!(names.first_question(), Some(("www.example", "AAAA")));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsNames {
    questions: List,
    responses: List,
    answers: List,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct List {
    text: String,
    is_cut: bool,
}

impl List {
    fn push(&mut self, item: &str) {
        if self.is_cut || self.text.split(SEPARATOR).any(|known| known == item) {
            return;
        }
        if item == CUT || self.text.len() + item.len() + 2 + CUT.len() > LIST_BYTES_MAX {
            self.is_cut = true;
        }
        if !self.text.is_empty() {
            self.text.push(SEPARATOR);
        }
        self.text.push_str(if self.is_cut { CUT } else { item });
    }

    fn append(&mut self, other: &Self) {
        other.text.split(SEPARATOR).filter(|item| !item.is_empty()).for_each(|item| self.push(item));
    }
}

impl DnsNames {
    /// Adds the questions and the answers of a query or a response to one; other operations, such
    /// as UPDATE, have neither. `is_cut` says that the message has further bytes.
    pub fn add(&mut self, message: &[u8], is_cut: bool) {
        let mut header = Cursor::new(message);
        let [_id, flags, questions, answers] = [(); 4].map(|()| header.u16().unwrap_or_default());
        let is_response = flags >> 15 == 1;
        if message.len() < 12 && is_cut {
            self.mark_cut();
        }
        let (mut at, mut item) = (12, String::new());
        if !is_lookup(flags) {
            return;
        }
        for _ in 0..questions {
            item.clear();
            let Some(end) = question(message, at, &mut item) else {
                if is_cut {
                    self.mark_cut();
                }
                return;
            };
            self.questions.push(&item);
            if is_response {
                let _ = write!(item, " {}", response_code_name(response_code(message)));
                self.responses.push(&item);
            }
            at = end;
        }
        // In other messages than responses the second section has another meaning.
        for _ in 0..if is_response { answers } else { 0 } {
            item.clear();
            match answer(message, at, &mut item) {
                Some(end) => at = end,
                None if is_cut => CUT.clone_into(&mut item),
                None => return,
            }
            self.answers.push(&item);
            if self.answers.is_cut {
                return;
            }
        }
    }

    /// Says that all lists lack items.
    pub fn mark_cut(&mut self) {
        self.lists().into_iter().for_each(|list| list.push(CUT));
    }

    fn lists(&mut self) -> [&mut List; 3] {
        [&mut self.questions, &mut self.responses, &mut self.answers]
    }

    /// Adds the items of another flow's lists.
    pub fn append(&mut self, other: &Self) {
        self.questions.append(&other.questions);
        self.responses.append(&other.responses);
        self.answers.append(&other.answers);
    }

    /// Returns the questions.
    #[must_use]
    pub fn questions(&self) -> &str {
        &self.questions.text
    }

    /// Returns the questions of responses with the codes of these.
    #[must_use]
    pub fn responses(&self) -> &str {
        &self.responses.text
    }

    /// Returns the questions that no response repeats. The first is left out if it is known to be
    /// answered.
    #[must_use]
    pub fn unanswered(&self, is_first_answered: bool) -> String {
        let mut list = List::default();
        let responses: BTreeSet<&str> = self
            .responses()
            .split(SEPARATOR)
            .filter_map(|response| response.rsplit_once(' '))
            .map(|(question, _)| question)
            .collect();
        let questions = self.questions().split(SEPARATOR).skip(usize::from(is_first_answered));
        for question in questions.filter(|question| !question.is_empty()) {
            if !responses.contains(question) {
                // Its response may be one of those that the list lacks.
                list.push(if self.responses.is_cut { CUT } else { question });
            }
        }
        list.text
    }

    /// Returns the answers.
    #[must_use]
    pub fn answers(&self) -> &str {
        &self.answers.text
    }

    /// Returns name and type of the first question.
    #[must_use]
    pub fn first_question(&self) -> Option<(&str, &str)> {
        self.questions.text.split(SEPARATOR).next()?.rsplit_once(' ')
    }

    /// Returns whether no further item fits.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.questions.is_cut && self.responses.is_cut && self.answers.is_cut
    }

    pub(in super::super) fn heap_bytes(&self) -> usize {
        let Self { questions, responses, answers } = self;
        [questions, responses, answers].iter().map(|list| list.text.capacity()).sum()
    }
}

/// Reads a question into `item`. Returns the offset behind it.
fn question(message: &[u8], at: usize, item: &mut String) -> Option<usize> {
    let (name, at) = name(message, at)?;
    let kind = Cursor::new(message.get(at..at + 4)?).u16()?;
    // Writing to a string cannot fail.
    let _ = write!(item, "{name} {}", type_name(kind));
    Some(at + 4)
}

/// Reads a resource record into `item` [RFC 1035 §4.1.3]. Returns the offset behind it.
fn answer(message: &[u8], at: usize, item: &mut String) -> Option<usize> {
    let (owner, at) = name(message, at)?;
    let mut cursor = Cursor::new(message.get(at..)?);
    let [kind, _class, high, low] = [cursor.u16()?, cursor.u16()?, cursor.u16()?, cursor.u16()?];
    let data = cursor.list16()?.rest();
    let ttl = u32::from(high) << 16 | u32::from(low);
    let _ = write!(item, "{owner} {ttl} {}", type_name(kind));
    let data_at = at + 10;
    let domain = |skipped: usize| name(message, data_at + skipped).map(|(name, _)| name);
    let text = match kind {
        1 => <[u8; 4]>::try_from(data).ok().map(|address| Ipv4Addr::from(address).to_string()),
        28 => <[u8; 16]>::try_from(data).ok().map(|address| Ipv6Addr::from(address).to_string()),
        // NS, CNAME, PTR, DNAME.
        2 | 5 | 12 | 39 => domain(0),
        // The name of MX has a preference before it; that of SRV priority, weight and port.
        15 | 33 => {
            let numbers = if kind == 15 { 1 } else { 3 };
            let mut cursor = Cursor::new(data);
            let numbers: Vec<String> =
                (0..numbers).map_while(|_| cursor.u16()).map(|number| number.to_string()).collect();
            domain(2 * numbers.len()).map(|name| format!("{} {name}", numbers.join(" ")))
        }
        _ => None,
    };
    if let Some(text) = text {
        let _ = write!(item, " {text}");
    }
    Some(data_at + data.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a response to a question for `a.test`, with these answers.
    fn response(answers: &[Vec<u8>]) -> Vec<u8> {
        let count = u16::try_from(answers.len()).unwrap();
        let header = [7, 0x8180, 1, count, 0, 0].map(u16::to_be_bytes);
        let question = b"\x01a\x04test\0\0\x01\0\x01";
        [header.as_flattened(), question, &answers.concat()].concat()
    }

    /// Returns a record with this owner.
    fn record(owner: &[u8], kind: u16, ttl: u32, data: &[u8]) -> Vec<u8> {
        let bytes = u16::try_from(data.len()).unwrap().to_be_bytes();
        [owner, &kind.to_be_bytes(), &[0, 1], &ttl.to_be_bytes(), &bytes, data].concat()
    }

    #[test]
    fn answers_have_names_times_to_live_types_and_addresses() {
        let message = response(&[
            // The alias points to its owner; its own name is at offset 36.
            record(b"\xC0\x0C", 5, 60, b"\x01b\xC0\x0E"),
            record(b"\xC0\x24", 1, 300, &[192, 0, 2, 1]),
            record(b"\xC0\x24", 28, u32::MAX, &Ipv6Addr::from(1).octets()),
            record(b"\x02x;\0", 15, 1, b"\0\x0A\xC0\x24"),
            record(b"\0", 33, 2, b"\0\x01\0\x02\x01\xBB\xC0\x0C"),
            record(b"\0", 16, 3, b"\x03abc"),
        ]);
        let mut names = DnsNames::default();
        names.add(&message, false);
        names.add(&message, false);
        assert_eq!(names.questions(), "a.test A");
        let expected = [
            "a.test 60 CNAME b.test", "b.test 300 A 192.0.2.1", "b.test 4294967295 AAAA ::1",
            r"x\059 1 MX 10 b.test", ". 2 SRV 1 2 443 a.test", ". 3 TXT",
        ];
        assert_eq!(names.answers().split(';').collect::<Vec<_>>(), expected);
        for end in 0..message.len() {
            let mut cut = DnsNames::default();
            cut.add(&message[..end], true);
            assert!(cut.answers().ends_with(CUT), "{end}");
            let whole: Vec<&str> =
                cut.answers().split(';').filter(|item| !matches!(*item, "" | CUT)).collect();
            assert_eq!(whole, expected[..whole.len()], "{end}");
        }
    }

    #[test]
    fn questions_without_a_response_are_listed() {
        let query = |kind: u8| {
            [&[0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], b"\x01a\x04test\0\0", &[kind, 0, 1]].concat()
        };
        let mut names = DnsNames::default();
        names.add(&query(28), false);
        names.add(&query(1), false);
        assert_eq!(names.unanswered(false), "a.test AAAA;a.test A");
        assert_eq!(names.unanswered(true), "a.test A");
        let mut refused = response(&[]);
        refused[3] |= 5;
        names.add(&refused, false);
        assert_eq!(
            (names.responses(), names.unanswered(false)),
            ("a.test A REFUSED", "a.test AAAA".into())
        );
        names.mark_cut();
        assert_eq!(names.unanswered(false), CUT, "the response may be what is missing");
    }

    #[test]
    fn operations_other_than_queries_have_no_questions() {
        for operation in 1..16_u8 {
            let mut names = DnsNames::default();
            let mut message = response(&[record(b"\xC0\x0C", 1, 1, &[1, 2, 3, 4])]);
            message[2] |= operation << 3;
            names.add(&message, false);
            message[2] &= 0x7F;
            names.add(&message, false);
            assert_eq!(names, DnsNames::default(), "{operation}");
        }
    }

    #[test]
    fn endless_pointer_gives_no_name() {
        for owner in [&b"\xC0\x18"[..], b"\x01a\xC0\x18", b"\xC0\xFF", b"\x80", &[63; 300]] {
            let mut names = DnsNames::default();
            names.add(&response(&[record(owner, 1, 1, &[1, 2, 3, 4])]), false);
            assert_eq!((names.questions(), names.answers()), ("a.test A", ""), "{owner:?}");
        }
    }

    #[test]
    fn long_lists_are_cut_and_say_how_many_items_are_missing() {
        let mut names = DnsNames::default();
        for nth in 0..1000_u32 {
            let owner = [&[4][..], format!("{nth:04}").as_bytes(), &[0]].concat();
            names.add(&response(&[record(&owner, 1, nth, &nth.to_be_bytes())]), false);
        }
        assert_eq!(names.questions(), "a.test A");
        assert!(names.answers().len() <= LIST_BYTES_MAX && names.answers().len() > 4000);
        assert!(names.answers().ends_with(";…") && !names.is_full());
        let mut merged = DnsNames::default();
        merged.append(&names);
        assert_eq!(merged, names);
        names.mark_cut();
        assert!(names.is_full());
    }
}
