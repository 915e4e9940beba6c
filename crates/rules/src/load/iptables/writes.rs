//! Targets that write a field, and marks and service bytes under masks.

use alloc::format;
use alloc::vec::Vec;

use super::names;
use super::words::Word;
use crate::firewall::{HeaderField, Ranges, TestKind, Write, WrittenField, WrittenValue};

/// Reads a number, decimal or hexadecimal.
fn number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+')),
        None => crate::rule::decimal(text),
    }
}

/// Reads `0x1/0xff`, with every bit if there is no mask.
pub(super) fn value_and_mask(text: &str) -> Option<(u32, u32)> {
    match text.split_once('/') {
        Some((value, mask)) => Some((number(value)?, number(mask)?)),
        None => Some((number(text)?, u32::MAX)),
    }
}

/// Reads a byte of service under a mask, in which a name has the mask 0x3f.
fn service(text: &str) -> Option<(u32, u32)> {
    let named = match text.to_ascii_lowercase().as_str() {
        "minimize-delay" => Some(0x10),
        "maximize-throughput" => Some(0x08),
        "maximize-reliability" => Some(0x04),
        "minimize-cost" => Some(0x02),
        "normal-service" => Some(0x00),
        _ => None,
    };
    let (value, mask) = if let Some(value) = named {
        (value, 0x3f)
    } else {
        let (value, mask) = value_and_mask(text)?;
        (value, if text.contains('/') { mask } else { 0xff })
    };
    (value <= 0xff && mask <= 0xff).then_some((value, mask))
}

/// Returns the tests of `--tos`: of the code point, and of the bits for congestion.
pub(super) fn tos(text: &str) -> Option<Vec<TestKind>> {
    let (value, mask) = service(text)?;
    let test = |field: HeaderField, value: u32, mask: u32| {
        let matching = (0..=field.max()).filter(|number| number & u128::from(mask) == u128::from(value));
        TestKind::Number(field, Ranges::new(matching.map(|number| (number, number))))
    };
    let mut tests = Vec::new();
    if mask & !3 != 0 || value & !3 != 0 {
        tests.push(test(HeaderField::Dscp, value >> 2, mask >> 2));
    }
    if mask & 3 != 0 || value & 3 != 0 || tests.is_empty() {
        tests.push(test(HeaderField::Ecn, value & 3, mask & 3));
    }
    Some(tests)
}

/// Returns whether an option says what its target writes.
pub(super) fn is_of(target: &str, option: &str) -> bool {
    match target {
        "MARK" | "CONNMARK" => {
            option.starts_with("--set-")
                || ["--and-mark", "--or-mark", "--xor-mark", "--save-mark", "--restore-mark"]
                    .contains(&option)
        }
        "DSCP" => option.starts_with("--set-dscp"),
        "TOS" => option.ends_with("-tos"),
        "TTL" => option.starts_with("--ttl-"),
        "HL" => option.starts_with("--hl-"),
        _ => false,
    }
}

/// Returns what an option of a target writes. What cannot be followed is an unknown value.
///
/// `later` has the words after the option.
pub(super) fn read(
    target: &str,
    option: &str,
    arguments: &[&str],
    later: &[Word],
    is_v6: bool,
) -> Vec<Write> {
    let text = format!("{target} {option} {}", arguments.join(" "));
    let mut writes = Vec::new();
    let mut write = |field: WrittenField, bits: Option<(u32, u32)>| {
        let value = match bits {
            Some((keep, flip)) => WrittenValue::Bits { keep: u128::from(keep), flip: u128::from(flip) },
            None => WrittenValue::Unknown(text.clone()),
        };
        writes.push(Write { field, value });
    };
    let argument = arguments.first().copied().unwrap_or("");
    match target {
        "MARK" | "CONNMARK" => {
            let is_connection = target == "CONNMARK" && option != "--restore-mark";
            let field = WrittenField::Mark { is_connection };
            let both = value_and_mask(argument);
            match option {
                "--set-mark" => write(field, both.map(|(value, mask)| (!(mask | value), value))),
                "--set-xmark" => write(field, both.map(|(value, mask)| (!mask, value))),
                "--and-mark" => write(field, number(argument).map(|bits| (bits, 0))),
                "--or-mark" => write(field, number(argument).map(|bits| (!bits, bits))),
                "--xor-mark" => write(field, number(argument).map(|bits| (u32::MAX, bits))),
                _ if later.windows(2).any(|pair| {
                    pair[0].text.ends_with("mask") && number(&pair[1].text) != Some(u32::MAX)
                }) =>
                {
                    write(field, None);
                }
                _ => writes.push(Write { field, value: WrittenValue::OtherMark }),
            }
        }
        "DSCP" => {
            let value = number(argument).or_else(|| names::dscp_class(argument).map(u32::from));
            write(WrittenField::Number(HeaderField::Dscp), value.map(|value| (0, value)));
        }
        "TOS" => {
            let both = match option {
                "--set-tos" => service(argument).map(|(value, mask)| (!mask & 0xff, value)),
                "--and-tos" => number(argument).map(|bits| (bits, 0)),
                "--or-tos" => number(argument).map(|bits| (!bits & 0xff, bits)),
                "--xor-tos" => number(argument).map(|bits| (0xff, bits)),
                _ => None,
            };
            let dscp = both.map(|(keep, flip)| (keep >> 2, flip >> 2));
            write(WrittenField::Number(HeaderField::Dscp), dscp);
            write(WrittenField::Number(HeaderField::Ecn), both.map(|(keep, flip)| (keep & 3, flip & 3)));
        }
        // TTL of IPv4, and the hop limit of IPv6.
        "TTL" | "HL" if (target == "HL") == is_v6 => {
            let value = number(argument).filter(|_| option.ends_with("-set"));
            write(WrittenField::Number(HeaderField::Ttl), value.map(|value| (0, value)));
        }
        _ => {}
    }
    writes
}
