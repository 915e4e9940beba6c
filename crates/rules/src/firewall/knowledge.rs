//! What a user of a policy knows of packets, and which rules need more.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::conditions::Conditions;
use super::entries::Policy;
use super::test::{Test, TestKind};

/// A field of a packet that not every user of a policy knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Field {
    /// TCP flags, and type and code of ICMP.
    Headers,
    /// State of the connection.
    State,
    /// Interface by which a packet entered.
    Input,
    /// Interface by which a packet leaves.
    Output,
    /// VLAN, DSCP, length, and the bytes of the packet.
    Frame,
    /// The sender's MAC address.
    Mac,
    /// Data that packets do not contain.
    Nothing,
}

/// The fields that are known of every packet.
#[expect(clippy::struct_excessive_bools, reason = "a set of fields, by name")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Knowledge {
    /// TCP flags, and type and code of ICMP.
    pub headers: bool,
    /// State of the connection.
    pub state: bool,
    /// Interface by which packets enter.
    pub input: bool,
    /// Interface by which packets leave.
    pub output: bool,
    /// VLAN, DSCP, length.
    pub frame: bool,
    /// The sender's MAC address.
    pub mac: bool,
}

impl Knowledge {
    fn has(self, field: Field) -> bool {
        match field {
            Field::Headers => self.headers,
            Field::State => self.state,
            Field::Input => self.input,
            Field::Output => self.output,
            Field::Frame => self.frame,
            Field::Mac => self.mac,
            Field::Nothing => false,
        }
    }
}

/// A rule that cannot be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undecidable {
    /// Index of the rule among the policy's sources.
    pub source: usize,
    /// The field that would have to be known.
    pub field: Field,
    /// The rule's condition.
    pub text: String,
}

impl Policy {
    /// Returns the rules that may match, given what is known of packets; each condition of each
    /// rule of the file occurs once.
    #[must_use]
    pub fn undecidable(&self, known: Knowledge) -> Vec<Undecidable> {
        let mut found: Vec<Undecidable> = Vec::new();
        if self.is_plain() {
            let first = self
                .set()
                .rules()
                .iter()
                .position(|rule| rule.flags.is_some_and(|column| column.mask != 0) && !known.headers);
            found.extend(first.map(|source| Undecidable {
                source,
                field: Field::Headers,
                text: String::from("flags"),
            }));
            return found;
        }
        // States are known if it is known which packets are not tracked.
        let known_before = Knowledge { output: true, ..known };
        let of_untracked = self.untracked().iter().flat_map(|way| way.undecidable(known_before));
        let open = of_untracked.min_by_key(|one| one.field);
        let known = Knowledge { state: known.state && open.is_none(), ..known };
        for entry in self.entries() {
            ask(&entry.conditions, known, &mut |field, test| {
                if let (Field::State, Some(open)) = (field, &open) {
                    let text = alloc::format!("{test}, unless {} leaves it untracked", open.text);
                    found.push(Undecidable { source: entry.source as usize, field: open.field, text });
                    return;
                }
                let one = Undecidable { source: entry.source as usize, field, text: test.to_string() };
                // Entries of one rule are close together.
                if !found.iter().rev().take(64).any(|other| *other == one) {
                    found.push(one);
                }
            });
        }
        found.sort_by_key(|one| (one.source, one.field));
        found.dedup();
        found
    }

    /// Returns whether a rule asks for the state of connections.
    #[must_use]
    pub fn asks_state(&self) -> bool {
        self.asks(&|field| field == Field::State)
    }

    /// Returns whether a rule asks for the bytes of packets.
    #[must_use]
    pub fn asks_contents(&self) -> bool {
        fn does(conditions: &Conditions) -> bool {
            conditions.tests.iter().any(|test| match &test.kind {
                TestKind::Contents(_) => true,
                TestKind::AnyOf(all) => all.iter().any(does),
                _ => false,
            })
        }
        !self.is_plain() && self.entries().any(|entry| does(&entry.conditions))
    }

    /// Returns whether a rule depends on properties that differ among the packets of one flow:
    /// flags, state, lengths, MAC addresses, or fragments.
    #[must_use]
    pub fn asks_per_packet(&self) -> bool {
        self.asks(&|field| matches!(field, Field::Headers | Field::State | Field::Frame | Field::Mac))
            || self.entries().any(|entry| {
                let asks = |test: &Test| matches!(test.kind, TestKind::Fragment(_));
                entry.conditions.reads_later || entry.conditions.tests.iter().any(asks)
            })
    }

    fn asks(&self, wanted: &dyn Fn(Field) -> bool) -> bool {
        let mut does = false;
        if self.is_plain() {
            return wanted(Field::Headers)
                && self.set().rules().iter().any(|rule| rule.flags.is_some_and(|column| column.mask != 0));
        }
        for entry in self.entries() {
            ask(&entry.conditions, Knowledge::default(), &mut |field, _| does |= wanted(field));
        }
        does
    }
}

/// Passes on each test of a field that is not known.
fn ask(conditions: &Conditions, known: Knowledge, found: &mut dyn FnMut(Field, &Test)) {
    for test in &conditions.tests {
        let field = match &test.kind {
            TestKind::TcpFlags { .. } | TestKind::Column(_) | TestKind::Icmp { .. } => Field::Headers,
            TestKind::State(_) => Field::State,
            TestKind::Input(_) => Field::Input,
            TestKind::Output(_) => Field::Output,
            TestKind::Number(..) | TestKind::Contents(_) => Field::Frame,
            TestKind::SourceMac { .. } => Field::Mac,
            TestKind::Mark { .. } | TestKind::Unknowable(_) => Field::Nothing,
            TestKind::Fragment(_) | TestKind::Address { .. } | TestKind::EitherPort(_) => continue,
            TestKind::AnyOf(all) => {
                for one in all {
                    ask(one, known, found);
                }
                continue;
            }
        };
        if !known.has(field) {
            found(field, test);
        }
    }
}
