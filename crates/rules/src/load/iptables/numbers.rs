//! Options that ask for a number in the headers, or for a mark.

use alloc::vec::Vec;

use super::rule::Reader;
use super::words::Word;
use super::{names, writes};
use crate::firewall::{Conditions, HeaderField, Ranges, Test, TestKind};
use crate::load::LoadError;
use crate::rule::decimal;

impl<'a> Reader<'a> {
    /// Reads an option with a number.
    pub(super) fn number(&mut self, option: &'a Word, mut not: bool) -> Result<(), LoadError> {
        match option.text.as_str() {
            "--length" => {
                let word = self.negatable(option, &mut not, "a length")?;
                let (low, high) = word.text.split_once(':').unwrap_or((&word.text, &word.text));
                let number = |text: &str, missing: u32| {
                    if text.is_empty() { Some(missing) } else { decimal(text) }
                };
                let ends = number(low, 0).zip(number(high, 65_535));
                let ends = ends.filter(|&(low, high)| low <= high && high <= 65_535);
                let (low, high) = ends.ok_or_else(|| self.expected(word.at, "a length such as 40:1500"))?;
                let set = Ranges::new([(u128::from(low), u128::from(high))]);
                self.conditions.ask(Test::new(TestKind::Number(HeaderField::Length, set), not));
            }
            "--dscp" | "--dscp-class" => {
                let word = self.negatable(option, &mut not, "a code point")?;
                let number = match word.text.strip_prefix("0x") {
                    Some(digits) => u8::from_str_radix(digits, 16).ok(),
                    None => decimal(&word.text),
                };
                let value = number.or_else(|| names::dscp_class(&word.text)).filter(|&value| value < 64);
                let value =
                    value.ok_or_else(|| self.expected(word.at, "a code point from 0 to 63, or EF"))?;
                let set = Ranges::exact(u128::from(value));
                self.conditions.ask(Test::new(TestKind::Number(HeaderField::Dscp, set), not));
            }
            "--mark" => {
                let what = "a mark such as 0x1 or 0x1/0xff";
                let word = self.negatable(option, &mut not, what)?;
                let (value, mask) =
                    writes::value_and_mask(&word.text).ok_or_else(|| self.expected(word.at, what))?;
                let values = Ranges::exact(u128::from(value));
                let kind = TestKind::Mark { is_connection: self.is_connmark, mask, values };
                self.conditions.ask(Test::new(kind, not));
            }
            "--ttl" | "--ttl-eq" | "--ttl-lt" | "--ttl-gt" | "--hl" | "--hl-eq" | "--hl-lt" | "--hl-gt" => {
                let word = self.negatable(option, &mut not, "a number from 0 to 255")?;
                let number: u8 =
                    decimal(&word.text).ok_or_else(|| self.expected(word.at, "a number from 0 to 255"))?;
                let number = u128::from(number);
                let set = match option.text.rsplit('-').next() {
                    Some("lt") => Ranges::new(number.checked_sub(1).map(|end| (0, end))),
                    Some("gt") => Ranges::new([(number + 1, 255)]),
                    Some("eq" | "ttl" | "hl") => Ranges::exact(number),
                    _ => return Err(self.expected(option.at, "--ttl-eq, --ttl-lt or --ttl-gt")),
                };
                self.conditions.ask(Test::new(TestKind::Number(HeaderField::Ttl, set), not));
            }
            "--tos" => {
                let what = "a byte such as 0x10 or 0x10/0x3f";
                let word = self.negatable(option, &mut not, what)?;
                let tests = writes::tos(&word.text).ok_or_else(|| self.expected(word.at, what))?;
                match (&tests[..], not) {
                    ([one], _) => self.conditions.ask(Test::new(one.clone(), not)),
                    (_, false) => {
                        for test in tests {
                            self.conditions.ask(test);
                        }
                    }
                    (_, true) => {
                        let mut both = Conditions::default();
                        for test in tests {
                            both.ask(test);
                        }
                        self.conditions.ask(Test::new(TestKind::AnyOf(Vec::from([both])), true));
                    }
                }
            }
            "--ecn-ip-ect" => {
                let word = self.negatable(option, &mut not, "a number from 0 to 3")?;
                let number: Option<u8> = decimal(&word.text).filter(|&number| number < 4);
                let number = number.ok_or_else(|| self.expected(word.at, "a number from 0 to 3"))?;
                let set = Ranges::exact(u128::from(number));
                self.conditions.ask(Test::new(TestKind::Number(HeaderField::Ecn, set), not));
            }
            _ => {}
        }
        Ok(())
    }
}
