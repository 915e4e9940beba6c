//! A position in a line.

use super::error::{LoadError, LoadErrorKind};

/// A position in a line that moves forward.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(line: usize, text: &'a str) -> Self {
        Self { text, at: 0, line }
    }

    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Returns the error at this position.
    pub(super) fn error(&self, kind: LoadErrorKind) -> LoadError {
        self.error_at(self.at, kind)
    }

    pub(super) fn error_at(&self, at: usize, kind: LoadErrorKind) -> LoadError {
        LoadError::new(self.line, self.text, at, kind)
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at == self.text.len()
    }

    /// Skips blanks; returns whether there were any.
    pub(super) fn blanks(&mut self) -> bool {
        let before = self.at;
        self.at = self.text.len() - self.rest().trim_start_matches([' ', '\t', '\r']).len();
        self.at > before
    }

    /// Skips a character if it is the next one.
    pub(super) fn take(&mut self, character: char) -> bool {
        let found = self.rest().starts_with(character);
        if found {
            self.at += character.len_utf8();
        }
        found
    }

    /// Skips a required character, and blanks on both sides of it.
    pub(super) fn require(&mut self, character: char, what: &'static str) -> Result<(), LoadError> {
        self.blanks();
        if !self.take(character) {
            return Err(self.error(LoadErrorKind::Expected(what)));
        }
        self.blanks();
        Ok(())
    }

    /// Skips characters as long as they satisfy a predicate, and returns them.
    pub(super) fn while_of(&mut self, is_of: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !is_of(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Reads a decimal number, or a hexadecimal one after `0x`.
    pub(super) fn number(&mut self, max: u64, what: &'static str) -> Result<u64, LoadError> {
        let start = self.at;
        let hexadecimal = self.rest().starts_with("0x") || self.rest().starts_with("0X");
        let radix = if hexadecimal {
            self.at += 2;
            16
        } else {
            10
        };
        let digits = self.while_of(|c| c.is_digit(radix));
        if digits.is_empty() {
            return Err(self.error_at(start, LoadErrorKind::Expected(what)));
        }
        match u64::from_str_radix(digits, radix) {
            Ok(number) if number <= max => Ok(number),
            _ => Err(self.error_at(start, LoadErrorKind::NumberTooLarge { max })),
        }
    }
}
