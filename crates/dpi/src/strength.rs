//! The strength of an expression: the number of bits of a random payload that it decides.

use regex_automata::util::syntax;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// An expression is weak if it decides fewer bits, including those of its conditions: at least one
/// of 2^24 random payloads begins alike.
const STRONG_BITS: f64 = 24.0;
/// Bits subtracted from an expression that may match anywhere in about a thousand bytes.
const ANYWHERE_BITS: f64 = 10.0;

/// Returns whether an expression is weak, together with conditions that decide `more` bits.
pub(crate) fn is_weak(regex: &str, syntax: &syntax::Config, more_bits: u32) -> bool {
    let Ok(hir) = syntax::parse_with(regex, syntax) else { return true };
    let anchored = hir.properties().look_set_prefix().contains(Look::Start);
    let lost = if anchored { 0.0 } else { ANYWHERE_BITS };
    bits(&hir) - lost + f64::from(more_bits) < STRONG_BITS
}

/// Returns the negative binary logarithm of the share of random payloads that match at their
/// beginning. An assertion alone decides nothing.
fn bits(hir: &Hir) -> f64 {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => 0.0,
        HirKind::Literal(literal) => {
            // The literal may be long; its bits need not be exact.
            8.0 * f64::from(u16::try_from(literal.0.len()).unwrap_or(u16::MAX))
        }
        HirKind::Class(class) => {
            let bytes: u32 = match class {
                Class::Bytes(class) => {
                    class.ranges().iter().map(|range| u32::from(range.end() - range.start()) + 1).sum()
                }
                Class::Unicode(class) => {
                    class.ranges().iter().map(|range| range.end() as u32 - range.start() as u32 + 1).sum()
                }
            };
            8.0 - f64::from(bytes.clamp(1, 256)).log2()
        }
        HirKind::Repetition(repetition) => {
            f64::from(repetition.min.min(u32::from(u16::MAX))) * bits(&repetition.sub)
        }
        HirKind::Capture(capture) => bits(&capture.sub),
        HirKind::Concat(list) => list.iter().map(bits).sum(),
        HirKind::Alternation(list) => {
            -list.iter().map(|hir| (-bits(hir)).exp2()).sum::<f64>().min(1.0).log2()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::Dialect;
    use crate::pattern::syntax_of;

    fn bits_of(regex: &str) -> f64 {
        bits(&syntax::parse_with(regex, &syntax_of(Dialect::Bytes)).unwrap())
    }

    #[test]
    fn strength_counts_the_bits_that_a_random_payload_must_match() {
        for (regex, expected) in [
            ("^SSH-", 32.0),
            (r"^[\x00-\x0f].[\x00-\x7f]", 5.0),
            ("^(?:a|b)c", 15.0),
            ("^a{2,5}b*", 16.0),
            ("^(?:.|abc)", 0.0),
            ("^$", 0.0),
        ] {
            assert!((bits_of(regex) - expected).abs() < 0.01, "{regex}: {}", bits_of(regex));
        }
    }

    #[test]
    fn conditions_and_an_anchor_make_an_expression_strong() {
        let weak = |regex, more| is_weak(regex, &syntax_of(Dialect::Bytes), more);
        assert!(weak("^ab", 0) && !weak("^ab", 16) && !weak("^(?:abc|def)x", 0));
        assert!(weak("abc", 0) && weak("^abc|abc", 0) && !weak("abcde", 0));
    }
}
