//! Rules as boxes, which the algorithms of the papers cut.

use alloc::vec::Vec;

use crate::key::{KeyV4, Span};
use crate::rule::ProtocolMatch;
use crate::rule_set::RuleSet;

/// The box of an IPv4 rule, or a part of it if its protocol mask has holes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RuleBox {
    pub(crate) spans: [Span; 5],
    pub(crate) id: u32,
}

/// Returns the boxes of all rules that match IPv4 packets, in matching order.
pub(crate) fn boxes(rules: &RuleSet) -> Vec<RuleBox> {
    let mut boxes = Vec::new();
    for rule in rules.flatten::<KeyV4>() {
        for protocol in protocol_spans(rule.protocol) {
            let mut spans = rule.spans;
            spans[4] = protocol;
            boxes.push(RuleBox { spans, id: rule.id });
        }
    }
    boxes
}

/// Returns the intervals of protocols that match: one, unless the mask has holes.
fn protocol_spans(protocol: ProtocolMatch) -> Vec<Span> {
    if protocol.is_interval() {
        return Vec::from([protocol.span()]);
    }
    let mut spans: Vec<Span> = Vec::new();
    for value in (0..=255_u8).filter(|&value| protocol.contains(value)).map(u32::from) {
        match spans.last_mut() {
            Some(span) if span.high + 1 == value => span.high = value,
            _ => spans.push(Span { low: value, high: value }),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Rule;

    #[test]
    fn a_mask_with_holes_becomes_several_boxes() {
        let odd = Rule { protocol: ProtocolMatch::new(1, 1), ..Rule::ANY };
        let set = RuleSet::new(alloc::vec![odd, Rule::ANY]).unwrap();
        let boxes = boxes(&set);
        assert_eq!(boxes.len(), 129);
        assert_eq!((boxes[1].spans[4], boxes[1].id), (Span { low: 3, high: 3 }, 0));
        assert_eq!((boxes[128].spans[4], boxes[128].id), (Span { low: 0, high: 255 }, 1));
        // Values with a zero in bit 6 are two runs, not 128 values.
        let spans = protocol_spans(ProtocolMatch::new(0, 0x40));
        assert_eq!(spans, [Span { low: 0, high: 63 }, Span { low: 128, high: 191 }]);
    }
}
