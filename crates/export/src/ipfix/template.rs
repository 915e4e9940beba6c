//! The template of an address family: which elements its records have, and how they are written.

use std::net::IpAddr;

use flowloom_flow_key::IpFamily;
use flowloom_record::{Element, ElementType, Kind, Row, SchemaColumn, Value, Word, element};

use super::TimePrecision;

/// The private enterprise number of the reverse elements.
const REVERSE: u32 = 29305;
/// The length of an element in a template whose records have variable lengths [RFC 7011 §7].
const VARIABLE_LENGTH: u16 = u16::MAX;
/// Longest text of a record. A text field of an application has no more.
const TEXT_BYTES_MAX: usize = 255;
/// The elements of accounting records in their order; a negative number is a reverse element.
/// Others follow in the order of their columns.
///
/// nfdump has one field for the TCP flags, and the last one counts.
const ORDER: [i32; 29] = [
    8, 27, 12, 28, 7, 11, 4, 152, 153, 154, 156, 155, 157, -2, -1, -352, -6, 2, 1, 352, 6, 32, 139, 58,
    243, 245, 234, 136, 239,
];

/// How a value is written.
#[derive(Clone, Copy, Debug)]
enum Encoding {
    Address(IpFamily),
    Unsigned8,
    Unsigned16,
    Unsigned32,
    Unsigned64,
    /// The code of a word.
    Code(&'static [Word]),
    Milliseconds,
    Ntp(TimePrecision),
    /// Type and code of an ICMP message, the code in another column.
    Message(usize),
    Text,
}

/// An element of the records of a template.
#[derive(Clone, Copy, Debug)]
struct Field {
    element: Element,
    /// The position of its value.
    index: usize,
    encoding: Encoding,
}

#[derive(Clone, Debug)]
pub(super) struct Template {
    fields: Vec<Field>,
    /// The bytes of fields other than texts.
    fixed_bytes: usize,
    /// The positions of texts.
    texts: Vec<usize>,
}

impl Field {
    fn new(found: &SchemaColumn, element: Element, family: IpFamily, precision: TimePrecision) -> Self {
        let number = match element.data_type {
            ElementType::Unsigned8 => Encoding::Unsigned8,
            ElementType::Unsigned16 => Encoding::Unsigned16,
            ElementType::Unsigned32 => Encoding::Unsigned32,
            _ => Encoding::Unsigned64,
        };
        let encoding = match found.column.kind {
            Kind::Address => Encoding::Address(family),
            Kind::Time if element.data_type == ElementType::Milliseconds => Encoding::Milliseconds,
            Kind::Time => Encoding::Ntp(precision),
            Kind::Word(words) if element.data_type == ElementType::Unsigned8 => Encoding::Code(words),
            Kind::Word(_) | Kind::Text => Encoding::Text,
            Kind::Port
            | Kind::Protocol
            | Kind::Packets
            | Kind::Bytes
            | Kind::Number
            | Kind::Bits
            | Kind::Digest
            | Kind::Real
            | Kind::Duration => number,
        };
        Self { element, index: found.index, encoding }
    }

    const fn bytes(&self) -> u16 {
        match self.encoding {
            Encoding::Address(IpFamily::V4) | Encoding::Unsigned32 => 4,
            Encoding::Address(IpFamily::V6) => 16,
            Encoding::Unsigned8 | Encoding::Code(_) => 1,
            Encoding::Unsigned16 | Encoding::Message(_) => 2,
            Encoding::Unsigned64 | Encoding::Milliseconds | Encoding::Ntp(_) => 8,
            Encoding::Text => VARIABLE_LENGTH,
        }
    }

    fn rank(&self) -> usize {
        let number = i32::from(self.element.number) * if self.element.is_reverse { -1 } else { 1 };
        ORDER.iter().position(|&known| known == number).unwrap_or(ORDER.len())
    }

    #[inline]
    fn put(&self, row: &Row, out: &mut Vec<u8>) {
        let value = row.value(self.index);
        let number = || value.number().unwrap_or(0);
        match self.encoding {
            Encoding::Address(family) => match (family, value.address()) {
                (IpFamily::V4, Some(IpAddr::V4(address))) => out.extend_from_slice(&address.octets()),
                (IpFamily::V6, Some(IpAddr::V6(address))) => out.extend_from_slice(&address.octets()),
                _ => out.extend(std::iter::repeat_n(0, usize::from(self.bytes()))),
            },
            Encoding::Unsigned8 => out.push(u8::try_from(number()).unwrap_or(u8::MAX)),
            Encoding::Unsigned16 => {
                out.extend_from_slice(&u16::try_from(number()).unwrap_or(u16::MAX).to_be_bytes());
            }
            Encoding::Unsigned32 => {
                out.extend_from_slice(&u32::try_from(number()).unwrap_or(u32::MAX).to_be_bytes());
            }
            Encoding::Unsigned64 => out.extend_from_slice(&number().to_be_bytes()),
            Encoding::Code(words) => {
                let code = |shown| words.iter().find(|word| word.name == shown).map(|word| word.code);
                out.push(if let Value::Word(shown) = *value { code(shown).unwrap_or(0) } else { 0 });
            }
            Encoding::Milliseconds => out.extend_from_slice(&(number() / 1_000_000).to_be_bytes()),
            Encoding::Ntp(precision) => out.extend_from_slice(&precision.ntp(number()).to_be_bytes()),
            Encoding::Message(code) => {
                let byte = |number: u64| u8::try_from(number).unwrap_or(u8::MAX);
                out.extend_from_slice(&[byte(number()), byte(row.value(code).number().unwrap_or(0))]);
            }
            Encoding::Text => {
                put_text(&value.text().unwrap_or_default(), out);
            }
        }
    }
}

impl Template {
    pub(super) fn new(columns: &[SchemaColumn], family: IpFamily, precision: TimePrecision) -> Self {
        let other = match precision {
            TimePrecision::Microseconds => ElementType::Nanoseconds,
            TimePrecision::Nanoseconds => ElementType::Microseconds,
        };
        let mut fields: Vec<Field> = Vec::new();
        for found in columns {
            for &element in found.column.elements {
                if element.family.is_some_and(|of| of != family) || element.data_type == other {
                    continue;
                }
                // An element holds the first column that has it, but the one of ICMP messages two.
                match fields.iter_mut().find(|field| field.element == element) {
                    Some(field) if element::ICMP.contains(&element) => {
                        field.encoding = Encoding::Message(found.index);
                    }
                    Some(_) => {}
                    None => fields.push(Field::new(found, element, family, precision)),
                }
            }
        }
        fields.sort_by_key(Field::rank);
        let (texts, fixed): (Vec<Field>, _) =
            fields.iter().partition(|field| matches!(field.encoding, Encoding::Text));
        Self {
            fields,
            fixed_bytes: fixed.iter().map(|field| usize::from(field.bytes())).sum(),
            texts: texts.iter().map(|field| field.index).collect(),
        }
    }

    pub(super) fn has_text(&self) -> bool {
        !self.texts.is_empty()
    }

    /// Returns the bytes that a record takes at most.
    pub(super) fn record_bytes(&self, row: &Row) -> usize {
        let text = |&index: &usize| row.value(index).text().map_or(1, |text| 3 + text_of(&text).len());
        self.fixed_bytes + self.texts.iter().map(text).sum::<usize>()
    }

    /// Writes the template.
    pub(super) fn put(&self, id: u16, out: &mut Vec<u8>) {
        out.extend_from_slice(&id.to_be_bytes());
        let count = u16::try_from(self.fields.len()).expect("there are some hundred columns at most");
        out.extend_from_slice(&count.to_be_bytes());
        for field in &self.fields {
            let Element { number, is_reverse, .. } = field.element;
            out.extend_from_slice(&(number | if is_reverse { 1 << 15 } else { 0 }).to_be_bytes());
            out.extend_from_slice(&field.bytes().to_be_bytes());
            if is_reverse {
                out.extend_from_slice(&REVERSE.to_be_bytes());
            }
        }
    }

    /// Writes the values of a record. A missing value is 0 or an empty string.
    #[inline]
    pub(super) fn put_record(&self, row: &Row, out: &mut Vec<u8>) {
        for field in &self.fields {
            field.put(row, out);
        }
    }
}

/// Appends a text of variable length [RFC 7011 §7].
pub(super) fn put_text(text: &str, out: &mut Vec<u8>) {
    let text = text_of(text).as_bytes();
    match u8::try_from(text.len()) {
        Ok(length) if length < u8::MAX => out.push(length),
        _ => out.extend_from_slice(&[u8::MAX, 0, u8::MAX]),
    }
    out.extend_from_slice(text);
}

/// Returns the text, limited to the 255 bytes of an element.
fn text_of(text: &str) -> &str {
    let end = (0..=text.len().min(TEXT_BYTES_MAX)).rfind(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}
