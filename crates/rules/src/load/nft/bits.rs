//! Comparisons of bits: TCP flags, and fields under a mask.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::ast::{Expr, Op, Table, Value};
use super::lower::{Refusal, describe, mark_test, needs, number, values};
use crate::firewall::{Conditions, Ranges, Test, TestKind};

fn flag_bits(value: &Value) -> Result<u8, Refusal> {
    let one = |word: &str| {
        super::super::iptables::tcp_flags(word)
            .filter(|_| !matches!(word, "ALL" | "NONE"))
            .or_else(|| number(word).and_then(|number| u8::try_from(number).ok()))
            .ok_or_else(|| format!("'{word}' is not a TCP flag"))
    };
    match value {
        Value::Word(word) => one(word),
        Value::Flags(words) => words.iter().try_fold(0, |bits, word| Ok(bits | one(word)?)),
        _ => Err("expected flags such as syn,ack".to_owned()),
    }
}

/// Returns the test of flags under a mask, which equal one of the values.
fn flags_of(table: &Table, mask: u8, value: &Value) -> Result<TestKind, Refusal> {
    let kind = |value: &Value| Ok(TestKind::TcpFlags { mask, value: flag_bits(value)? });
    let values = values(table, value)?;
    if let [one] = values[..] {
        return kind(one);
    }
    let alone =
        |one| Ok(Conditions { tests: Vec::from([Test::from(kind(one)?)]), ..Conditions::default() });
    Ok(TestKind::AnyOf(values.into_iter().map(alone).collect::<Result<_, Refusal>>()?))
}

pub(super) fn tcp_flags(table: &Table, op: Op, value: &Value) -> Result<Conditions, Refusal> {
    let mut conditions = Conditions::default();
    conditions.ask_protocol(&Ranges::exact(6));
    let not = op == Op::NotEqual;
    if not && table.is_tracked {
        conditions.ask(TestKind::Fragment(3));
    }
    match value {
        // nft takes the braces from around a single element.
        Value::Set(all) if op == Op::In && all.len() == 1 => return tcp_flags(table, op, &all[0].0),
        Value::Slash(value, mask) => {
            let (value, mask) = (flag_bits(value)?, flag_bits(mask)?);
            conditions.ask(Test::new(TestKind::TcpFlags { mask, value }, not));
        }
        // Names only: one of the bits is set.
        Value::Word(_) | Value::Flags(_) if op == Op::In => {
            conditions.ask(Test::new(TestKind::TcpFlags { mask: flag_bits(value)?, value: 0 }, true));
        }
        value => conditions.ask(Test::new(flags_of(table, 0xff, value)?, not)),
    }
    Ok(conditions)
}

pub(super) fn masked(
    table: &Table,
    inner: &Expr,
    mask: &Value,
    op: Op,
    value: &Value,
) -> Result<Conditions, Refusal> {
    let not = op == Op::NotEqual;
    let mut conditions = needs(core::slice::from_ref(inner));
    match inner {
        Expr::Payload(header, field) if header == "tcp" && field == "flags" => {
            conditions.ask(Test::new(flags_of(table, flag_bits(mask)?, value)?, not));
        }
        Expr::Payload(header, field) if header == "ip" && field == "frag-off" => {
            let bits = |value: &Value| match value {
                Value::Word(word) => number(word),
                _ => None,
            };
            match (bits(mask), bits(value)) {
                (Some(0x1fff), Some(0)) => conditions.ask(Test::new(TestKind::Fragment(12), !not)),
                (Some(0x1fff), Some(1)) => conditions.ask(Test::new(TestKind::Fragment(8), not)),
                (Some(0x3fff), Some(0x2000)) => {
                    conditions.ask(Test::new(TestKind::Fragment(2), not));
                }
                (Some(0x3fff), Some(0)) => conditions.ask(Test::new(TestKind::Fragment(14), !not)),
                _ => conditions.ask(TestKind::Unknowable(describe(inner))),
            }
        }
        Expr::Payload(header, field)
            if matches!(field.as_str(), "saddr" | "daddr") && matches!(header.as_str(), "ip" | "ip6") =>
        {
            let is_v6 = header == "ip6";
            let address = |value: &Value| match value {
                Value::Word(word) => word
                    .parse::<IpAddr>()
                    .ok()
                    .filter(|a| a.is_ipv6() == is_v6)
                    .map(crate::firewall::bits_of),
                _ => None,
            };
            let both = address(mask).zip(address(value));
            let (mask, value) =
                both.ok_or_else(|| format!("{}: expected an address and a mask", describe(inner)))?;
            let kind = TestKind::Address { is_destination: field == "daddr", value, mask };
            conditions.ask(Test::new(kind, not));
        }
        Expr::Meta(key) | Expr::Ct(key) if key == "mark" => {
            let bits = |value: &Value| match value {
                Value::Word(word) => number(word).and_then(|number| u32::try_from(number).ok()),
                _ => None,
            };
            let both = bits(mask).zip(bits(value));
            let Some((mask, value)) = both else {
                let text = format!("{} under a mask", describe(inner));
                conditions.ask(Test::new(TestKind::Unknowable(text), not));
                return Ok(conditions);
            };
            let kind = mark_test(matches!(inner, Expr::Ct(_)), mask, Ranges::exact(u128::from(value)));
            conditions.ask(Test::new(kind, not));
        }
        _ => conditions
            .ask(Test::new(TestKind::Unknowable(format!("{} under a mask", describe(inner))), not)),
    }
    Ok(conditions)
}
