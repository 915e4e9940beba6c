//! Elements of sets and maps in the text format.

use alloc::borrow::ToOwned;
use alloc::vec::Vec;

use super::super::{LoadError, LoadErrorKind};
use super::ast::{Value, Verdict};
use super::statement::DEPTH_MAX;
use super::text::Parser;
use super::tokens::Kind;

impl Parser<'_> {
    /// Reads elements in braces, with the value of each for a map.
    pub(super) fn set_elements(
        &mut self,
        depth: usize,
    ) -> Result<Vec<(Value, Option<Verdict>)>, LoadError> {
        if depth > DEPTH_MAX {
            return Err(self.expected("fewer nested braces"));
        }
        let mut elements: Vec<(Value, Option<Verdict>)> = Vec::new();
        if self.is_sign("$") {
            return match self.atom(depth)? {
                Value::Set(elements) => Ok(elements),
                one => Ok(Vec::from([(one, None)])),
            };
        }
        self.need_sign("{")?;
        loop {
            while matches!(self.peek(), Some(Kind::Newline)) {
                self.next += 1;
            }
            if self.take_sign("}") {
                return Ok(elements);
            }
            self.elements += 1;
            if self.elements > self.limits.rules_max {
                return Err(super::error(
                    self.text,
                    self.at(),
                    LoadErrorKind::TooMuch { what: "elements", limit: self.limits.rules_max },
                ));
            }
            let at = self.at();
            let mut key = self.single(depth + 1)?;
            let mut verdict = None;
            // A colon adjacent to the preceding word: `icmp: accept`, `icmp:accept`.
            if let Value::Word(word) = &key
                && let Some((name, rest)) =
                    word.rsplit_once(':').filter(|(name, _)| !name.contains(':') && !name.is_empty())
            {
                let (name, rest) = (name.to_owned(), rest.to_owned());
                if rest.is_empty() {
                    verdict = self.mapped(depth)?;
                    key = Value::Word(name);
                } else if let Some(found) = Verdict::from_word(&rest) {
                    verdict = Some(found);
                    key = Value::Word(name);
                } else if matches!(rest.as_str(), "jump" | "goto") {
                    let chain = self.word("the name of a chain")?;
                    verdict =
                        Some(if rest == "jump" { Verdict::Jump(chain) } else { Verdict::Goto(chain) });
                    key = Value::Word(name);
                }
            }
            while self.newline_or_attribute() {}
            if self.take_sign(":") {
                while matches!(self.peek(), Some(Kind::Newline)) {
                    self.next += 1;
                }
                verdict = self.mapped(depth)?;
            }
            while self.newline_or_attribute() {}
            match key {
                // A variable that is a set, which contributes its elements.
                Value::Set(inner) if verdict.is_none() => elements.extend(inner),
                key => elements.push((key, verdict)),
            }
            if !self.take_sign(",") && !self.is_sign("}") {
                return Err(super::error(
                    self.text,
                    self.at().max(at),
                    LoadErrorKind::Expected("a comma or the end of the set"),
                ));
            }
        }
    }

    /// Skips the attributes of an element after its key, such as a timeout.
    fn newline_or_attribute(&mut self) -> bool {
        match self.peek() {
            Some(Kind::Newline) => {
                self.next += 1;
                true
            }
            Some(Kind::Word(word)) => match word.as_str() {
                "timeout" | "expires" | "comment" | "packets" | "bytes" => {
                    self.next += 2;
                    true
                }
                "counter" => {
                    self.next += 1;
                    true
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// Reads what a map assigns to an element; `None` if it is data, for example the address of a
    /// translation.
    fn mapped(&mut self, depth: usize) -> Result<Option<Verdict>, LoadError> {
        let Some(Kind::Word(word)) = self.peek() else {
            self.single(depth + 1)?;
            return Ok(None);
        };
        if let Some(verdict) = Verdict::from_word(word) {
            self.next += 1;
            return Ok(Some(verdict));
        }
        if !matches!(word.as_str(), "jump" | "goto") {
            self.single(depth + 1)?;
            return Ok(None);
        }
        self.next += 1;
        let chain = self.word("the name of a chain")?;
        Ok(Some(if word == "jump" { Verdict::Jump(chain) } else { Verdict::Goto(chain) }))
    }
}
