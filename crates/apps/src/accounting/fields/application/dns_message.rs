//! The header and the names of a DNS message [RFC 1035 §4.1].

use std::borrow::Cow;

use super::cursor::Cursor;
use super::text::DomainName;

/// Maximum length of a name in a message, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// Maximum number of pointers that are followed for one name.
const POINTERS_MAX: usize = 16;

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DnsMessage {
    /// The identifier that a response shares with its query.
    pub id: u16,
    /// The response code, if the message is the response to a query. It includes the upper eight
    /// bits of an OPT record [RFC 6891 §6.1.3], unless the bytes end before that.
    pub response_code: Option<u16>,
    /// Whether it has a question, and is a query or the response to one. What other operations
    /// have in place of a question is none: UPDATE has a zone [RFC 2136 §2.3].
    pub has_question: bool,
}

/// The operation of a query [RFC 1035 §4.1.1].
const QUERY: u16 = 0;
/// The type of a record that extends the header [RFC 6891 §6.1.1].
const OPT: u16 = 41;

/// Returns the operation of a message with these flags.
const fn operation(flags: u16) -> u16 {
    flags >> 11 & 0xF
}

/// Returns whether a message with these flags is a query or the response to one.
pub(super) const fn is_lookup(flags: u16) -> bool {
    operation(flags) == QUERY
}

/// Reads the header of a message. Returns `None` if the header or the first question is incomplete,
/// or if IANA has not assigned its operation.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::fields::application::dns_message;
/// let query = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\0\0\x1C\0\x01";
/// let message = dns_message::read(query).unwrap();
/// assert_eq!((message.id, message.response_code), (0x1234, None));
/// assert!(message.has_question);
/// assert_eq!(dns_message::read(&query[..20]), None);
/// ```
#[must_use]
pub fn read(bytes: &[u8]) -> Option<DnsMessage> {
    let mut cursor = Cursor::new(bytes);
    let (id, flags, questions) = (cursor.u16()?, cursor.u16()?, cursor.u16()?);
    cursor.bytes(6)?;
    // Query, inverse query, status, notify, update, stateful operations.
    if !matches!(operation(flags), 0..=2 | 4..=6) {
        return None;
    }
    if questions > 0 {
        let end = labels(bytes, 12, |_| {})?;
        bytes.get(end..end + 4)?;
    }
    let is_response = flags >> 15 == 1 && is_lookup(flags);
    let response_code = is_response.then(|| response_code(bytes));
    Some(DnsMessage { id, response_code, has_question: questions > 0 && is_lookup(flags) })
}

/// Returns the response code of a response: the four bits of the header, below the eight bits of
/// its OPT record if it has one.
pub(super) fn response_code(message: &[u8]) -> u16 {
    let low = message.get(3).map_or(0, |flags| u16::from(flags & 0xF));
    extended_code(message).map_or(low, |high| u16::from(high) << 4 | low)
}

/// Returns the upper bits of the response code, from the OPT record among the additional records.
fn extended_code(message: &[u8]) -> Option<u8> {
    let mut header = Cursor::new(message);
    header.bytes(4)?;
    let [questions, answers, authorities, additional] =
        [header.u16()?, header.u16()?, header.u16()?, header.u16()?];
    if additional == 0 {
        return None;
    }
    let mut at = 12;
    for _ in 0..questions {
        at = labels(message, at, |_| {})? + 4;
    }
    let before = u32::from(answers) + u32::from(authorities);
    for nth in 0..before + u32::from(additional) {
        at = labels(message, at, |_| {})?;
        let mut record = Cursor::new(message.get(at..)?);
        let (kind, _class, ttl) = (record.u16()?, record.u16()?, record.bytes(4)?);
        if kind == OPT && nth >= before {
            return Some(ttl[0]);
        }
        at += 10 + record.list16()?.rest().len();
    }
    None
}

/// Reads the name at an offset of a message, without the dot of the root; the root itself is `.`.
/// Returns it with the offset behind it.
pub(super) fn name(message: &[u8], begin: usize) -> Option<(String, usize)> {
    let mut name = DomainName::default();
    let end = labels(message, begin, |label| name.push(label))?;
    Some((name.finish(), end))
}

/// Passes on the labels at an offset of a message, where pointers may continue them
/// [RFC 1035 §4.1.4]. Returns the offset behind them.
fn labels<'a>(message: &'a [u8], begin: usize, mut to: impl FnMut(&'a [u8])) -> Option<usize> {
    let (mut wire_bytes, mut at, mut end, mut pointers) = (1, begin, None, 0);
    loop {
        let length = usize::from(*message.get(at)?);
        match length {
            0 => return Some(end.unwrap_or(at + 1)),
            1..=63 => {
                wire_bytes += 1 + length;
                to(message.get(at + 1..=at + length).filter(|_| wire_bytes <= NAME_BYTES_MAX)?);
                at += 1 + length;
            }
            0xC0.. => {
                let low = *message.get(at + 1)?;
                pointers += 1;
                if pointers > POINTERS_MAX {
                    return None;
                }
                end = end.or(Some(at + 2));
                at = (length & 0x3F) << 8 | usize::from(low);
            }
            _ => return None,
        }
    }
}

/// Returns IANA's name of a type, or `TYPE` and the number [RFC 3597 §5].
#[must_use]
pub fn type_name(kind: u16) -> Cow<'static, str> {
    let name = match kind {
        1 => "A",
        2 => "NS",
        5 => "CNAME",
        6 => "SOA",
        10 => "NULL",
        12 => "PTR",
        13 => "HINFO",
        15 => "MX",
        16 => "TXT",
        28 => "AAAA",
        29 => "LOC",
        33 => "SRV",
        35 => "NAPTR",
        39 => "DNAME",
        43 => "DS",
        44 => "SSHFP",
        46 => "RRSIG",
        47 => "NSEC",
        48 => "DNSKEY",
        50 => "NSEC3",
        51 => "NSEC3PARAM",
        52 => "TLSA",
        59 => "CDS",
        60 => "CDNSKEY",
        61 => "OPENPGPKEY",
        64 => "SVCB",
        65 => "HTTPS",
        99 => "SPF",
        249 => "TKEY",
        250 => "TSIG",
        251 => "IXFR",
        252 => "AXFR",
        255 => "ANY",
        256 => "URI",
        257 => "CAA",
        _ => return format!("TYPE{kind}").into(),
    };
    name.into()
}

/// Returns IANA's name of a response code, or `RCODE` and the number.
#[must_use]
pub fn response_code_name(code: u16) -> String {
    const NAMES: [&str; 12] = [
        "NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED", "YXDOMAIN", "YXRRSET",
        "NXRRSET", "NOTAUTH", "NOTZONE", "DSOTYPENI",
    ];
    const EXTENDED: [&str; 8] =
        ["BADVERS", "BADKEY", "BADTIME", "BADMODE", "BADNAME", "BADALG", "BADTRUNC", "BADCOOKIE"];
    let code = usize::from(code);
    let name = NAMES.get(code).or_else(|| EXTENDED.get(code.checked_sub(16)?));
    name.map_or_else(|| format!("RCODE{code}"), |name| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(flags: u16, name: &[u8]) -> Vec<u8> {
        let header = [7, flags, 1, 0, 0, 0].map(u16::to_be_bytes);
        [header.as_flattened(), name, &[0, 1, 0, 1]].concat()
    }

    #[test]
    fn names_are_printable_and_limited_in_length() {
        let name = |bytes: &[u8]| {
            let message = with(0x8183, bytes);
            read(&message).and(name(&message, 12)).map(|(name, _)| name)
        };
        assert_eq!(name(b"\0").as_deref(), Some("."));
        assert_eq!(name(b"\x04a.b\\\x02\xC3\0\0").as_deref(), Some(r"a\.b\\.\195\000"));
        assert_eq!(name(b"\xC0\x0C"), None, "a pointer");
        let long =
            [[[63].as_slice(), &[b'x'; 63]].concat().repeat(3), vec![61], vec![b'y'; 61], vec![0]].concat();
        assert_eq!(name(&long).unwrap().len(), 3 * 64 + 61);
        let longer = [[[63].as_slice(), &[b'x'; 63]].concat().repeat(4), vec![0]].concat();
        assert_eq!(name(&longer), None);
        let wide = [[[63].as_slice(), &[0xFF; 63]].concat().repeat(3), vec![0]].concat();
        assert!(name(&wide).unwrap().len() <= 255);
    }

    #[test]
    fn response_code_has_the_upper_bits_of_the_opt_record() {
        let record = |owner: &[u8], kind: u16, ttl: u32, data: &[u8]| {
            let bytes = u16::try_from(data.len()).unwrap().to_be_bytes();
            [owner, &kind.to_be_bytes(), &[4, 208], &ttl.to_be_bytes(), &bytes, data].concat()
        };
        let response = |low: u16, counts: [u16; 3], records: &[Vec<u8>]| {
            let header = [7, 0x8180 | low, 1, counts[0], counts[1], counts[2]].map(u16::to_be_bytes);
            [header.as_flattened(), b"\x01a\0\0\x01\0\x01", &records.concat()].concat()
        };
        let name = |message: &[u8]| read(message).unwrap().response_code.map(response_code_name).unwrap();
        let opt = |high: u32| record(&[0], 41, high << 24 | 0x8000, &[0, 10, 0, 2, 7, 7]);
        let address = record(b"\xC0\x0C", 1, 0x0500_0000, &[192, 0, 2, 1]);
        assert_eq!(name(&response(0, [0, 0, 1], &[opt(1)])), "BADVERS");
        assert_eq!(name(&response(7, [0, 0, 1], &[opt(1)])), "BADCOOKIE");
        assert_eq!(name(&response(15, [0, 0, 1], &[opt(255)])), "RCODE4095");
        assert_eq!(name(&response(3, [0, 0, 1], &[opt(0)])), "NXDOMAIN");
        assert_eq!(name(&response(3, [1, 0, 0], std::slice::from_ref(&address))), "NXDOMAIN");
        let many = [address.clone(), address.clone(), address.clone(), opt(1)];
        let message = response(7, [1, 1, 2], &many);
        assert_eq!(name(&message), "BADCOOKIE", "behind the other sections");
        assert_eq!(name(&message[..message.len() - 18]), "YXRRSET", "the record is not captured");
        assert_eq!(name(&response(0, [1, 0, 1], &[opt(1), address])), "NOERROR", "no place for OPT");
    }

    #[test]
    fn only_queries_have_questions_and_response_codes() {
        for operation in 0..16_u16 {
            let message = read(&with(0x8003 | operation << 11, b"\x01a\0"));
            let found = message.map(|message| (message.has_question, message.response_code));
            let expected = match operation {
                0 => Some((true, Some(3))),
                3 | 7.. => None,
                _ => Some((false, None)),
            };
            assert_eq!(found, expected, "{operation}");
        }
    }

    #[test]
    fn truncated_message_is_ignored() {
        let whole = with(0x8183, b"\x01a\0");
        assert_eq!(read(&whole).unwrap().response_code, Some(3));
        for end in 0..whole.len() {
            assert_eq!(read(&whole[..end]), None, "{end}");
        }
        assert_eq!(read(&with(0x7800, b"\x01a\0")), None, "operation 15");
        let empty = read(&[0, 9, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0]).unwrap();
        assert_eq!((empty.id, empty.has_question), (9, false));
    }
}
