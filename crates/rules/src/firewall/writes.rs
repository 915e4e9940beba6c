//! Rules that write a field which later rules ask for.
//!
//! After a rule that writes a field where its conditions hold, a later test of the field asks for
//! these conditions and the written value, or for neither and the value before:
//!
//! ```text
//!  tcp dport 22 ip dscp set 46
//!  ip dscp 46 drop               =  tcp dport 22, or not tcp dport 22 and dscp 46
//! ```

use alloc::string::String;
use alloc::vec::Vec;

use super::conditions::Conditions;
use super::packet::ConnectionState;
use super::ranges::Ranges;
use super::test::{HeaderField, Test, TestKind};

/// A field that rules can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenField {
    /// A number in the headers.
    Number(HeaderField),
    /// The mark of the packet, or of its connection.
    Mark {
        /// The connection's.
        is_connection: bool,
    },
    /// The state of the connection.
    State,
}

/// The value of a field that a rule has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WrittenValue {
    /// The bits of `keep` of the value before, then exclusive-or.
    Bits {
        /// Bits that remain.
        keep: u128,
        /// Bits that change after that.
        flip: u128,
    },
    /// The other mark.
    OtherMark,
    /// Of a packet in one of the states `from`, as [`ConnectionState::bit`]s, this state.
    State {
        /// States that change.
        from: u8,
        /// The new state.
        to: ConnectionState,
    },
    /// A value that depends on other data: the text comes from the file.
    Unknown(String),
}

/// A field and its new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// The field.
    pub field: WrittenField,
    /// Its value.
    pub value: WrittenValue,
}

impl Write {
    /// Returns what `notrack` does to a packet that has passed connection tracking: only one
    /// without a connection is not tracked then.
    pub(crate) const fn untrack() -> Self {
        let value =
            WrittenValue::State { from: ConnectionState::Invalid.bit(), to: ConnectionState::Untracked };
        Self { field: WrittenField::State, value }
    }
}

/// The writes of rules that packets have passed.
#[derive(Debug, Default)]
pub(crate) struct Writes(pub(super) Vec<Written>);

impl Writes {
    /// Adds a field that other rules may have written.
    pub(crate) fn add_unknown(&mut self, field: WrittenField) {
        let value = WrittenValue::Unknown(String::from("earlier rules change it"));
        self.0.push(Written::new(Write { field, value }, Conditions::default()));
    }

    /// Adds that packets without a connection may have become untracked.
    #[cfg(feature = "std")]
    pub(crate) fn add_untracked(&mut self) {
        let mut conditions = Conditions::default();
        conditions.ask(TestKind::Unknowable(String::from("earlier rules leave it untracked")));
        self.0.push(Written::new(Write::untrack(), conditions));
    }

    /// Begins a base chain, to which packets may come before connection tracking. They are invalid
    /// there.
    pub(crate) fn enter(&mut self, is_before_tracking: bool) {
        let value = WrittenValue::State { from: u8::MAX, to: ConnectionState::Invalid };
        let write = Write { field: WrittenField::State, value };
        if is_before_tracking {
            self.0.push(Written::new(write, Conditions::default()));
        } else if self.0.iter().any(|written| written.write == write) {
            self.0.retain(|written| written.write.field != WrittenField::State);
        }
    }
}

/// A write, and the packets for which it happens.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) write: Write,
    pub(super) conditions: Conditions,
}

/// Maximum number of tests that one test becomes; beyond it the test is unknown.
const TESTS_MAX: usize = 256;

/// Maximum number of values of a field that are looked at one by one.
const VALUES_MAX: u128 = 256;

/// Maximum number of tests on which a write may depend; beyond it, whether it happens is unknown.
const WRITE_TESTS_MAX: usize = 128;

/// Returns the number of tests of conditions, with those inside.
fn tests(conditions: &Conditions) -> usize {
    let inside = |test: &Test| match &test.kind {
        TestKind::AnyOf(all) => all.iter().map(tests).sum(),
        _ => 1,
    };
    1 + conditions.tests.iter().map(inside).sum::<usize>()
}

impl Written {
    /// Returns a write for packets that meet conditions.
    pub(super) fn new(write: Write, mut conditions: Conditions) -> Self {
        if tests(&conditions) > WRITE_TESTS_MAX {
            conditions.tests.clear();
            conditions.ask(TestKind::Unknowable(String::from("whether a rule writes a field")));
        }
        Self { write, conditions }
    }
}

/// Returns conditions as they are after some writes, for packets that meet those of `callers`.
pub(super) fn after(conditions: &Conditions, writes: &[Written], callers: &Conditions) -> Conditions {
    if writes.is_empty() {
        return conditions.clone();
    }
    let mut kept = Conditions { tests: Vec::new(), ..conditions.clone() };
    // A write for other packets than those of the rule does not matter.
    let callers = &callers.and(&kept);
    for test in &conditions.tests {
        if let TestKind::AnyOf(all) = &test.kind {
            let all = all.iter().map(|one| after(one, writes, callers)).collect();
            kept.ask(Test::new(TestKind::AnyOf(all), test.is_negated));
            continue;
        }
        let mut alternatives = Vec::new();
        let has_other_header = writes.iter().any(|w| matches!(w.write.field, WrittenField::Number(_)));
        if matches!(&test.kind, TestKind::Contents(read) if read.reads_network_header()) && has_other_header
        {
            kept.ask(TestKind::Unknowable(alloc::format!("{test}, on a packet that earlier rules change")));
            continue;
        }
        if is_written(test, writes) && !resolve(test, writes, callers, &mut alternatives) {
            kept.ask(TestKind::Unknowable(alloc::format!("{test}, which rules write")));
            continue;
        }
        match &alternatives[..] {
            _ if !is_written(test, writes) => kept.ask(test.clone()),
            [one] => kept = kept.and(one),
            _ => kept.ask(TestKind::AnyOf(alternatives)),
        }
    }
    kept
}

fn field_of(test: &Test) -> Option<WrittenField> {
    match &test.kind {
        TestKind::Number(field, _) => Some(WrittenField::Number(*field)),
        TestKind::Mark { is_connection, .. } => Some(WrittenField::Mark { is_connection: *is_connection }),
        TestKind::State(_) => Some(WrittenField::State),
        _ => None,
    }
}

fn is_written(test: &Test, writes: &[Written]) -> bool {
    field_of(test).is_some_and(|field| writes.iter().any(|written| written.write.field == field))
}

/// Appends the conditions under which a test holds after some writes; returns whether there are few
/// enough.
fn resolve(test: &Test, writes: &[Written], callers: &Conditions, found: &mut Vec<Conditions>) -> bool {
    let field = field_of(test);
    let Some(last) = writes.iter().rposition(|written| Some(written.write.field) == field) else {
        let mut own = Conditions::default();
        own.ask(test.clone());
        found.push(own);
        return true;
    };
    let Written { write, conditions } = &writes[last];
    let before = &writes[..last];
    let mut there = Vec::new();
    let applied = applied(&write.value, test);
    if matches!(&applied, After::Asks(same) if same == test) {
        return resolve(test, before, callers, found);
    }
    let is_few = match applied {
        After::Holds(true) => {
            there.push(Conditions::default());
            true
        }
        After::Holds(false) => true,
        After::Asks(test) => resolve(&test, before, callers, &mut there),
    };
    // A write that happens for all packets that come here leaves nothing of the value before.
    let is_always = conditions.and(callers) == *callers;
    if is_always || !is_few {
        found.append(&mut there);
        return is_few;
    }
    let can_hold = |one: &Conditions| !one.and(callers).is_empty();
    found.extend(there.iter().map(|one| one.and(conditions)).filter(can_hold));
    let mut elsewhere = Vec::new();
    let is_few = is_few && resolve(test, before, callers, &mut elsewhere);
    let not_written = Test::new(TestKind::AnyOf(Vec::from([conditions.clone()])), true);
    for mut one in elsewhere.into_iter().filter(can_hold) {
        if can_hold(&one.and(conditions)) {
            one.ask(not_written.clone());
        }
        found.push(one);
    }
    is_few && found.iter().map(tests).sum::<usize>() <= TESTS_MAX
}

/// What a test asks for of the value before a write.
enum After {
    Holds(bool),
    Asks(Test),
}

fn applied(value: &WrittenValue, test: &Test) -> After {
    let (keep, flip) = match (value, &test.kind) {
        (WrittenValue::Bits { keep, flip }, _) => (*keep, *flip),
        (WrittenValue::OtherMark, TestKind::Mark { is_connection, mask, values }) => {
            let kind =
                TestKind::Mark { is_connection: !is_connection, mask: *mask, values: values.clone() };
            return After::Asks(Test::new(kind, test.is_negated));
        }
        (WrittenValue::State { from, to }, TestKind::State(states)) => {
            let states = states & !from | if states & to.bit() == 0 { 0 } else { *from };
            return match ConnectionState::ALL.iter().filter(|state| states & state.bit() != 0).count() {
                0 => After::Holds(test.is_negated),
                5 => After::Holds(!test.is_negated),
                _ => After::Asks(Test::new(TestKind::State(states), test.is_negated)),
            };
        }
        (WrittenValue::OtherMark | WrittenValue::State { .. }, _) => return After::Asks(test.clone()),
        (WrittenValue::Unknown(text), _) => {
            let text = alloc::format!("{test}, {text}");
            return After::Asks(TestKind::Unknowable(text).into());
        }
    };
    let (mask, values) = match &test.kind {
        TestKind::Number(field, values) => (field.max(), values),
        TestKind::Mark { mask, values, .. } => (u128::from(*mask), values),
        _ => return After::Asks(test.clone()),
    };
    if keep & mask == 0 {
        return After::Holds(values.contains(flip & mask) != test.is_negated);
    }
    let count = |set: &Ranges| set.as_slice().iter().map(|(low, high)| high - low + 1).sum::<u128>();
    let others = values.complement(mask);
    let (values, is_negated) = match (count(values), count(&others)) {
        (0..=VALUES_MAX, _) => (values, test.is_negated),
        (_, 0..=VALUES_MAX) => (&others, !test.is_negated),
        _ => {
            let text = alloc::format!("{test}, on a field that earlier rules change in part");
            return After::Asks(TestKind::Unknowable(text).into());
        }
    };
    // What the bits that remain must have been, for each value.
    let all = values.as_slice().iter().flat_map(|&(low, high)| low..=high);
    let asked = all.map(|value| (value ^ flip) & mask).filter(|asked| asked & !keep == 0);
    let asked = Ranges::new(asked.map(|asked| (asked, asked)));
    let kind = match &test.kind {
        _ if asked.is_empty() => return After::Holds(is_negated),
        TestKind::Mark { is_connection, .. } => {
            let mask = (mask & keep) as u32;
            TestKind::Mark { is_connection: *is_connection, mask, values: asked }
        }
        TestKind::Number(field, _) => {
            let values = (0..=field.max()).filter(|value| asked.contains(value & keep));
            TestKind::Number(*field, Ranges::new(values.take(256).map(|value| (value, value))))
        }
        _ => return After::Asks(test.clone()),
    };
    After::Asks(Test::new(kind, is_negated))
}
