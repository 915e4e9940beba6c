//! Statements that write a field.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::super::has_word;
use super::super::iptables::dscp_class;
use super::ast::Expr;
use super::lower::{describe, ecn, number};
use crate::firewall::{HeaderField, Write, WrittenField, WrittenValue};

/// Keys of `ct` that can be written and are not compared.
const CONNECTION: &str = "event helper label timeout expectation zone secmark";

/// Returns what a statement writes; nothing if no supported comparison asks for the field. A field
/// that is not listed can be matched.
///
/// # Errors
///
/// A description of a field that comparisons ask for, but whose new value cannot be followed.
pub(super) fn write(expr: &Expr, words: &str) -> Result<Option<Write>, String> {
    let field = match expr {
        Expr::Meta(key) if key == "mark" => WrittenField::Mark { is_connection: false },
        Expr::Ct(key) if key == "mark" => WrittenField::Mark { is_connection: true },
        Expr::Payload(header, field) => match (header.as_str(), field.as_str()) {
            ("ip" | "ip6", "dscp") => WrittenField::Number(HeaderField::Dscp),
            ("ip" | "ip6", "ecn") => WrittenField::Number(HeaderField::Ecn),
            ("ip", "ttl") | ("ip6", "hoplimit") => WrittenField::Number(HeaderField::Ttl),
            // No comparison reads these.
            ("ip", "id" | "checksum")
            | ("ip6", "flowlabel")
            | ("tcp", "checksum" | "sequence" | "ackseq" | "window" | "urgptr")
            | ("udp", "checksum")
            | ("ether", "daddr") => return Ok(None),
            _ => return Err(unknown(expr)),
        },
        // No comparison of these is read.
        Expr::Meta(key) if has_word("priority pkttype nftrace secmark broute", key) => return Ok(None),
        Expr::Ct(key) if has_word(CONNECTION, key.rsplit(' ').next().unwrap_or(key)) => return Ok(None),
        Expr::Other(_) => return Ok(None),
        _ => return Err(unknown(expr)),
    };
    let value = match field {
        WrittenField::Number(HeaderField::Dscp) => {
            dscp_class(words).map(u128::from).or_else(|| number(words))
        }
        WrittenField::Number(HeaderField::Ecn) => ecn(words),
        _ => number(words),
    };
    let value = match value {
        Some(flip) => WrittenValue::Bits { keep: 0, flip },
        None => match field {
            WrittenField::Mark { is_connection } => {
                mark(words, is_connection).unwrap_or_else(|| WrittenValue::Unknown(format!("set {words}")))
            }
            _ => WrittenValue::Unknown(format!("set {words}")),
        },
    };
    Ok(Some(Write { field, value }))
}

fn unknown(expr: &Expr) -> String {
    format!("'{} set' changes what later rules see; write the rule without it", describe(expr))
}

/// Reads a mark computed from another: `meta mark & 0xff | 0x1`, `mark or 0x1`, `ct mark`.
fn mark(words: &str, is_connection: bool) -> Option<WrittenValue> {
    let mut words: Vec<&str> = words.split(' ').filter(|word| !matches!(*word, "(" | ")")).collect();
    let is_own = if words.starts_with(&["meta", "mark"]) || words.starts_with(&["ct", "mark"]) {
        let is_ct = words[0] == "ct";
        words.drain(..2);
        is_ct == is_connection
    } else if words.first() == Some(&"mark") {
        words.remove(0);
        !is_connection
    } else {
        return None;
    };
    if !is_own {
        return words.is_empty().then_some(WrittenValue::OtherMark);
    }
    let (mut keep, mut flip) = (u128::from(u32::MAX), 0);
    for pair in words.chunks(2) {
        let &[sign, value] = pair else { return None };
        let value = number(value)?;
        match sign {
            "&" | "and" => (keep, flip) = (keep & value, flip & value),
            "|" | "or" => (keep, flip) = (keep & !value, flip & !value | value),
            "^" | "xor" => flip ^= value,
            _ => return None,
        }
    }
    Some(WrittenValue::Bits { keep, flip })
}

/// Returns the text of a statement that writes.
pub(super) fn text(expr: &Expr, words: &str) -> String {
    format!("{} set {words}", describe(expr))
}
