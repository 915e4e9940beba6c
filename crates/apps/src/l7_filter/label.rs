//! A flow's label, derived from the matches in its two directions.

use flowloom_dpi::{Match, PatternId};
use flowloom_flow_key::{Direction, FiveTuple};

use super::plan::Shared;

/// The confidence of a label.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Confidence {
    /// The matching expression checks few bits and the flow uses no usual port of the protocol, or
    /// the other side answered with another protocol.
    #[default]
    Guess,
    /// One direction matches, and the other does not contradict it.
    OneSide,
    /// Both directions match the protocol, or the answer matches a pattern that the protocol lists
    /// as its answer.
    BothSides,
}

impl Confidence {
    /// All values, the lowest first.
    pub const ALL: [Self; 3] = [Self::Guess, Self::OneSide, Self::BothSides];

    /// Returns the name that flow files use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Guess => "guess",
            Self::OneSide => "one side",
            Self::BothSides => "both sides",
        }
    }
}

/// The match in a direction, in two bytes: zero if there was none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Evidence(u16);

const WEAK: u16 = 1 << 15;
const _: () = assert!(flowloom_dpi::PATTERNS_MAX < WEAK as usize, "a number and a mark fit into 16 bits");

impl Evidence {
    pub(super) fn new(found: Match) -> Self {
        Self((found.pattern.0 + 1) | if found.weak { WEAK } else { 0 })
    }

    pub(super) fn is_some(self) -> bool {
        self.0 != 0
    }

    pub(super) fn get(self) -> Option<Match> {
        let pattern = PatternId((self.0 & !WEAK).checked_sub(1)?);
        Some(Match { pattern, weak: self.0 & WEAK != 0 })
    }
}

/// The label of one direction so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    pub(super) found: Option<Match>,
    /// It has sent data from its beginning on, and no pattern has matched.
    pub(super) unknown: bool,
}

/// Returns the label of a flow from both directions.
///
/// If both match and differ, the answer decides, because the request may be a probe; unless the
/// answer is a weak match and the request is not.
pub(super) fn judge(
    shared: &Shared,
    tuple: FiveTuple,
    client: Direction,
    seen: [Seen; 2],
) -> Option<(PatternId, Confidence)> {
    let question = seen[client.index()];
    let answer = seen[client.reversed().index()];
    let usual = |id: PatternId| {
        let ports = &shared.protocol(id).ports;
        ports.contains(&tuple.source_port) || ports.contains(&tuple.destination_port)
    };
    let alone = |found: Match| {
        if found.weak && !usual(found.pattern) { Confidence::Guess } else { Confidence::OneSide }
    };
    let (asked, answered) = match (question.found, answer.found) {
        (None, None) => return None,
        (Some(asked), None) => {
            let contradicted = answer.unknown && shared.protocol(asked.pattern).strict;
            let confidence = if contradicted { Confidence::Guess } else { alone(asked) };
            return Some((asked.pattern, confidence));
        }
        (None, Some(answered)) => return Some((answered.pattern, alone(answered))),
        (Some(asked), Some(answered)) => (asked, answered),
    };
    if shared.is_in_kind(asked.pattern, answered.pattern) {
        return Some((asked.pattern, Confidence::BothSides));
    }
    if shared.is_in_kind(answered.pattern, asked.pattern) {
        return Some((answered.pattern, Confidence::BothSides));
    }
    let (asked_alone, answered_alone) = (alone(asked), alone(answered));
    if answered_alone < asked_alone {
        let strict = shared.protocol(asked.pattern).strict;
        return Some((asked.pattern, if strict { Confidence::Guess } else { asked_alone }));
    }
    Some((answered.pattern, answered_alone))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_names_the_pattern_and_its_strength() {
        assert_eq!(Evidence::default().get(), None);
        for weak in [false, true] {
            for id in [0, 1, 4095] {
                let found = Match { pattern: PatternId(id), weak };
                let evidence = Evidence::new(found);
                assert!(evidence.is_some());
                assert_eq!(evidence.get(), Some(found));
            }
        }
    }
}
