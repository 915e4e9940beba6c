//! Parses tokens to an expression.

use flowloom_record::{GroupSet, Kind, Schema, SchemaColumn, advice};

use super::lexer::{Comparison, Token, TokenKind};
use super::subject::Subject;
use super::{DEPTH_MAX, Node, RecordFilterError, Test, value};

pub(super) struct Parser<'a> {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token>>,
    /// The end of the text.
    end: usize,
    schema: &'a Schema,
    /// The groups of the columns that were named.
    groups: GroupSet,
    depth: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &str, tokens: Vec<Token>, schema: &'a Schema) -> Self {
        Self {
            tokens: tokens.into_iter().peekable(),
            end: text.len(),
            schema,
            groups: GroupSet::default(),
            depth: 0,
        }
    }

    /// Parses all tokens. Also returns the groups of the columns that are read.
    pub(super) fn whole(mut self) -> Result<(Node, GroupSet), RecordFilterError> {
        let node = self.any()?;
        match self.tokens.next() {
            None => Ok((node, self.groups)),
            Some(Token { at, kind: TokenKind::Close }) => {
                Err(RecordFilterError::new(at, "unmatched ')'\n  remove it, or add '('"))
            }
            Some(Token { at, kind }) => {
                let is_unit = matches!(&kind, TokenKind::Word(word) if value::is_unit(word));
                let hint = if is_unit { "\n  write a number and its unit without a space" } else { "" };
                let what = format!("expected 'and', 'or' or the end of the expression{hint}");
                Err(RecordFilterError::new(at, what))
            }
        }
    }

    fn takes(&mut self, kind: &TokenKind) -> bool {
        self.tokens.next_if(|token| token.kind == *kind).is_some()
    }

    fn at(&mut self) -> usize {
        self.tokens.peek().map_or(self.end, |token| token.at)
    }

    fn any(&mut self) -> Result<Node, RecordFilterError> {
        let mut nodes = vec![self.all()?];
        while self.takes(&TokenKind::Or) {
            nodes.push(self.all()?);
        }
        Ok(if nodes.len() == 1 { nodes.swap_remove(0) } else { Node::Any(nodes) })
    }

    fn all(&mut self) -> Result<Node, RecordFilterError> {
        let mut nodes = vec![self.one()?];
        while self.takes(&TokenKind::And) {
            nodes.push(self.one()?);
        }
        Ok(if nodes.len() == 1 { nodes.swap_remove(0) } else { Node::All(nodes) })
    }

    fn one(&mut self) -> Result<Node, RecordFilterError> {
        let at = self.at();
        let is_not = self.takes(&TokenKind::Not);
        let is_open = !is_not && self.takes(&TokenKind::Open);
        if !is_not && !is_open {
            return self.comparison();
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let what = format!("more than {DEPTH_MAX} nested parentheses and negations");
            return Err(RecordFilterError::new(at, what));
        }
        let node = if is_not { Node::Not(Box::new(self.one()?)) } else { self.any()? };
        if is_open && !self.takes(&TokenKind::Close) {
            return Err(RecordFilterError::new(at, "'(' is not closed"));
        }
        self.depth -= 1;
        Ok(node)
    }

    fn comparison(&mut self) -> Result<Node, RecordFilterError> {
        let at = self.at();
        let expected = "expected a comparison, such as bytes > 1M";
        let Some(Token { kind: TokenKind::Word(name), .. }) = self.tokens.next() else {
            return Err(RecordFilterError::new(at, expected));
        };
        let (subject, SchemaColumn { column, .. }) =
            Subject::named(&name, self.schema).ok_or_else(|| {
                let advice = match &*name.to_ascii_lowercase() {
                    protocol @ ("tcp" | "udp" | "icmp" | "sctp") => {
                        format!(
                            ": write protocol == {protocol}, or use --filter for an expression of tcpdump"
                        )
                    }
                    "net" | "src" | "dst" | "ip6" | "portrange" => {
                        String::from(": use --filter for an expression of tcpdump")
                    }
                    _ => advice(&name, &self.schema.names()),
                };
                RecordFilterError::new(at, format!("unknown name '{name}'{advice}"))
            })?;
        let kind = column.kind;
        self.groups.insert(column.group);
        let values = Values::for_kind(kind);
        let place = self.at();
        let Some(Token { kind: TokenKind::Compare(comparison), .. }) = self.tokens.next() else {
            // A shell takes > as a redirection, and the rest as other arguments.
            let cut = if place == self.end { "\n  quote the whole expression" } else { "" };
            let what =
                format!("expected a comparison of {name}: ==, !=, <, <=, >, >=, &, in, or contains{cut}");
            return Err(RecordFilterError::new(place, what));
        };
        let is_bits = comparison == Comparison::HasBits;
        let is_part = comparison == Comparison::Contains;
        let is_many = is_part || comparison == Comparison::In;
        let is_order =
            !is_bits && !is_many && !matches!(comparison, Comparison::Equal | Comparison::Unequal);
        let allowed = match values {
            Values::Address => !is_bits && !is_order && !is_part,
            Values::Text => !is_bits && !is_order,
            Values::Bits => !is_order && !is_part,
            Values::Number => !is_bits && !is_part,
        };
        if !allowed {
            let (what, operators) = match values {
                Values::Address => ("an address", "==, != and in"),
                Values::Text => ("text", "==, !=, in and contains"),
                Values::Bits => ("a set of bits", "&, ==, != and in"),
                Values::Number => ("a number", "==, !=, <, <=, >, >= and in"),
            };
            let what = format!("{name} is {what}, which has {operators}");
            return Err(RecordFilterError::new(place, what));
        }
        let texts = if is_many { self.list(&name)? } else { vec![self.value(&name)?] };
        let test = match values {
            Values::Address => {
                let many = comparison == Comparison::In;
                Test::Prefixes(each(texts, |text| value::prefix(text, many))?)
            }
            Values::Text if is_part => Test::Parts(texts.into_iter().map(|(_, text)| text).collect()),
            Values::Text => Test::Texts(each(texts, |text| word(kind, &name, text))?),
            Values::Bits | Values::Number if comparison == Comparison::In => {
                Test::Ranges(each(texts, |text| value::range(text, kind))?)
            }
            Values::Bits | Values::Number => {
                let numbers = each(texts, |text| value::number(text, kind))?;
                compare(comparison, numbers.first().copied().unwrap_or_default())
            }
        };
        let node = Node::Is(subject, test);
        Ok(if comparison == Comparison::Unequal { Node::Not(Box::new(node)) } else { node })
    }

    fn value(&mut self, name: &str) -> Result<(usize, String), RecordFilterError> {
        let at = self.at();
        match self.tokens.next() {
            Some(Token { kind: TokenKind::Word(text) | TokenKind::Quoted(text), .. }) => Ok((at, text)),
            next => {
                use TokenKind::{And, Compare, Not, Or};
                let is_word = next.is_some_and(|token| {
                    matches!(token.kind, And | Or | Not | Compare(Comparison::In | Comparison::Contains))
                });
                let hint = if is_word { "\n  quote a value that is such a word" } else { "" };
                Err(RecordFilterError::new(at, format!("expected a value of {name}{hint}")))
            }
        }
    }

    /// Parses a value, or several in parentheses.
    fn list(&mut self, name: &str) -> Result<Vec<(usize, String)>, RecordFilterError> {
        if !self.takes(&TokenKind::Open) {
            return Ok(vec![self.value(name)?]);
        }
        let mut values = vec![self.value(name)?];
        while self.takes(&TokenKind::Comma) {
            values.push(self.value(name)?);
        }
        let at = self.at();
        if self.takes(&TokenKind::Close) {
            return Ok(values);
        }
        Err(RecordFilterError::new(at, "expected ',' or ')' in a list of values"))
    }
}

/// What the values of a kind are to a comparison.
#[derive(Clone, Copy, Debug)]
enum Values {
    Address,
    Number,
    Bits,
    Text,
}

impl Values {
    fn for_kind(kind: Kind) -> Self {
        match kind {
            Kind::Address => Self::Address,
            Kind::Bits | Kind::Digest => Self::Bits,
            Kind::Word(_) | Kind::Text => Self::Text,
            Kind::Port
            | Kind::Protocol
            | Kind::Packets
            | Kind::Bytes
            | Kind::Number
            | Kind::Real
            | Kind::Time
            | Kind::Duration => Self::Number,
        }
    }
}

fn each<T>(
    values: Vec<(usize, String)>,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, RecordFilterError> {
    let read = |(at, text): (usize, String)| read(&text).map_err(|what| RecordFilterError::new(at, what));
    values.into_iter().map(read).collect()
}

/// Returns the test of a comparison with one number.
fn compare(comparison: Comparison, number: u64) -> Test {
    let range = match comparison {
        Comparison::HasBits => return Test::Bits(number),
        Comparison::Less => number.checked_sub(1).map(|last| (0, last)),
        Comparison::LessOrEqual => Some((0, number)),
        Comparison::Greater => number.checked_add(1).map(|first| (first, u64::MAX)),
        Comparison::GreaterOrEqual => Some((number, u64::MAX)),
        Comparison::Equal | Comparison::Unequal | Comparison::In | Comparison::Contains => {
            Some((number, number))
        }
    };
    Test::Ranges(range.into_iter().collect())
}

/// Parses one of the words of a kind.
fn word(kind: Kind, name: &str, text: &str) -> Result<String, String> {
    match kind {
        Kind::Word(words)
            if !words.is_empty() && !text.is_empty() && words.iter().all(|word| word.name != text) =>
        {
            let words: Vec<&str> = words.iter().map(|word| word.name).collect();
            Err(format!("'{text}' is not a value of {name}{}", advice(text, &words)))
        }
        _ => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use flowloom_apps::accounting::AccountingRecord;

    use crate::{RecordFilter, RecordFilterError};

    fn parse(text: &str) -> Result<RecordFilter, RecordFilterError> {
        RecordFilter::parse(text, &AccountingRecord::schema())
    }

    #[test]
    fn errors_state_their_position() {
        for (text, at, what) in [
            ("", 0, "expected a comparison"),
            ("bytes", 5, "expected a comparison of bytes"),
            ("bytes >", 7, "expected a value of bytes"),
            ("byts > 1", 0, "unknown name 'byts'"),
            ("bytes > 1 packets > 2", 10, "expected 'and'"),
            ("(bytes > 1", 0, "'(' is not closed"),
            ("bytes > 1)", 9, "unmatched ')'"),
            ("source > 10.0.0.1", 7, "source is an address"),
            ("end_reason == finn", 14, "'finn' is not a value of end_reason"),
            ("end_reason < fin", 11, "end_reason is text"),
            ("bytes contains 1", 6, "bytes is a number"),
            ("source contains 10", 7, "source is an address"),
            ("tcp_flags contains 1", 10, "tcp_flags is a set of bits"),
            ("community_id contains", 21, "expected a value of community_id"),
            ("community_id == IN", 16, "quote a value that is such a word"),
            ("bytes & 1", 6, "bytes is a number"),
            ("tcp_flags < 1", 10, "tcp_flags is a set of bits"),
            ("source == 10.0.0.0/8", 10, "is a prefix"),
            ("protocol == tpc", 12, "'tpc' is not a protocol"),
            ("port in (80, )", 13, "expected a value of port"),
            ("port in (80", 11, "expected ',' or ')'"),
            ("bytes = 1", 6, "write =="),
            ("\"bytes\" > 1", 0, "expected a comparison"),
            ("handshake_rtt > 1ms", 0, "unknown name 'handshake_rtt'"),
            ("not", 3, "expected a comparison"),
            ("TCP port 443", 0, "write protocol == tcp"),
        ] {
            let error = parse(text).unwrap_err();
            assert_eq!(error.at, at, "{text}: {error}");
            assert!(error.to_string().contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let nested = |depth: usize| format!("{}bytes > 1{}", "(".repeat(depth), ")".repeat(depth));
        assert!(parse(&nested(64)).is_ok());
        assert!(parse(&nested(65)).unwrap_err().to_string().contains("more than 64"));
        assert!(parse(&format!("{}bytes > 1", "not ".repeat(65))).is_err());
        let flat = |count: usize| vec!["bytes > 1"; count].join(" or ");
        assert!(parse(&flat(4000)).is_ok());
        assert!(parse(&flat(40_000)).unwrap_err().to_string().contains("the limit is"));
    }
}
