//! Sets of packets as products of sets, one per field, which the analyses cut.
//!
//! A condition on a header that a packet may lack is also a condition on the protocol and the
//! fragment, so that a packet without that header lies outside. Data that packets do not contain is
//! a separate variable, which may be true or false.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::conditions::Conditions;
use super::ranges::Ranges;
use super::test::{HeaderField, InterfacePattern, Test, TestKind};
use flowloom_flow_key::protocol::WITH_PORTS;

/// Fields that are intervals.
pub(super) const SOURCE: usize = 0;
pub(super) const DESTINATION: usize = 1;
pub(super) const PROTOCOL: usize = 2;
pub(super) const SOURCE_PORT: usize = 3;
pub(super) const DESTINATION_PORT: usize = 4;
pub(super) const ICMP: usize = 5;
pub(super) const MAC: usize = 6;
/// The first of the numbers in the headers.
const NUMBERS: usize = 7;
const INTERVALS: usize = NUMBERS + HeaderField::ALL.len();

/// The maximum of each interval; for IPv4 addresses it is less.
const MAX: [u128; INTERVALS] = {
    let mut max = [u128::MAX, u128::MAX, 255, 65_535, 65_535, 65_535, (1 << 48) - 1, 0, 0, 0, 0, 0, 0];
    let mut field = 0;
    while field < HeaderField::ALL.len() {
        max[NUMBERS + field] = HeaderField::ALL[field].max();
        field += 1;
    }
    max
};

/// Returns the interval of a number in the headers.
pub(super) const fn interval(field: HeaderField) -> usize {
    NUMBERS + field as usize
}

/// Fields that are sets of a few values.
pub(super) const FRAGMENT: usize = 0;
const STATE: usize = 1;
pub(super) const INPUT: usize = 2;
pub(super) const OUTPUT: usize = 3;
const SETS: usize = 4;

/// A product of sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) is_v6: bool,
    /// First and last value.
    pub(super) intervals: [(u128, u128); INTERVALS],
    /// TCP flag values, one bit each.
    pub(super) flags: [u64; 4],
    /// Bits of the other fields.
    pub(super) sets: [u128; SETS],
    /// Variables that are true or false in it, in ascending order.
    pub(super) variables: Vec<(u32, bool)>,
}

/// How much of a region lies in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Overlap {
    /// No packet.
    None,
    /// Some packets.
    Part {
        /// Number of pieces that remain when the other region is cut out.
        pieces: u32,
    },
    /// Every packet.
    Whole,
}

/// More pieces than the analysis accepts, or a condition that it does not express.
#[derive(Clone, Copy, Debug)]
pub(super) struct TooMuch;

/// Maximum number of pieces of one condition.
const PIECES_MAX: usize = 1 << 14;

impl Region {
    /// Returns all packets of a family, with these names of interfaces.
    pub(super) fn all(is_v6: bool, names: &Names) -> Self {
        let mut intervals = MAX.map(|max| (0, max));
        if !is_v6 {
            intervals[SOURCE].1 = 0xffff_ffff;
            intervals[DESTINATION].1 = 0xffff_ffff;
        }
        let interfaces = names.all();
        Self {
            is_v6,
            intervals,
            flags: [u64::MAX; 4],
            sets: [15, 31, interfaces, interfaces],
            variables: Vec::new(),
        }
    }

    fn is_empty(&self) -> bool {
        self.intervals.iter().any(|(low, high)| low > high)
            || self.flags == [0; 4]
            || self.sets.contains(&0)
            || self.variables.windows(2).any(|pair| pair[0].0 == pair[1].0)
    }

    /// Returns the packets in both; `None` if there are none.
    pub(super) fn intersection(&self, other: &Self) -> Option<Self> {
        if !self.meets(other) {
            return None;
        }
        let mut common = self.clone();
        for (mine, theirs) in common.intervals.iter_mut().zip(&other.intervals) {
            *mine = (mine.0.max(theirs.0), mine.1.min(theirs.1));
        }
        for (mine, theirs) in common.flags.iter_mut().zip(&other.flags) {
            *mine &= theirs;
        }
        for (mine, theirs) in common.sets.iter_mut().zip(&other.sets) {
            *mine &= theirs;
        }
        common.variables.extend_from_slice(&other.variables);
        common.variables.sort_unstable();
        common.variables.dedup();
        (!common.is_empty()).then_some(common)
    }

    /// Returns whether some packet is in both, ignoring variables.
    pub(super) fn meets(&self, other: &Self) -> bool {
        self.is_v6 == other.is_v6
            && self.intervals.iter().zip(&other.intervals).all(|(a, b)| a.0 <= b.1 && b.0 <= a.1)
            && self.flags.iter().zip(&other.flags).any(|(a, b)| a & b != 0)
            && self.sets.iter().zip(&other.sets).all(|(a, b)| a & b != 0)
    }

    /// Returns whether it contains every packet of `other`.
    pub(super) fn covers(&self, other: &Self) -> bool {
        self.is_v6 == other.is_v6
            && self.intervals.iter().zip(&other.intervals).all(|(a, b)| a.0 <= b.0 && b.1 <= a.1)
            && self.flags.iter().zip(&other.flags).all(|(a, b)| b & !a == 0)
            && self.sets.iter().zip(&other.sets).all(|(a, b)| b & !a == 0)
            && self.variables.iter().all(|variable| other.variables.contains(variable))
    }

    /// Returns how much of it lies in another region.
    pub(super) fn overlap(&self, other: &Self) -> Overlap {
        if self.is_v6 != other.is_v6 {
            return Overlap::None;
        }
        let mut pieces = 0;
        for (mine, theirs) in self.intervals.iter().zip(&other.intervals) {
            if mine.1 < theirs.0 || theirs.1 < mine.0 {
                return Overlap::None;
            }
            pieces += u32::from(mine.0 < theirs.0) + u32::from(theirs.1 < mine.1);
        }
        for (mine, theirs) in self.sets.iter().zip(&other.sets) {
            if mine & theirs == 0 {
                return Overlap::None;
            }
            pieces += u32::from(mine & !theirs != 0);
        }
        let flags = || self.flags.iter().zip(&other.flags);
        if flags().all(|(mine, theirs)| mine & theirs == 0) {
            return Overlap::None;
        }
        pieces += u32::from(flags().any(|(mine, theirs)| mine & !theirs != 0));
        for &(variable, value) in &other.variables {
            match self.variables.iter().find(|&&(known, _)| known == variable) {
                Some(&(_, known)) if known != value => return Overlap::None,
                Some(_) => {}
                None => pieces += 1,
            }
        }
        if pieces == 0 { Overlap::Whole } else { Overlap::Part { pieces } }
    }

    /// Appends the difference between it and another region.
    pub(super) fn subtract(mut self, other: &Self, left: &mut Vec<Self>) {
        if self.overlap(other) == Overlap::None {
            left.push(self);
            return;
        }
        for field in 0..INTERVALS {
            let (mine, theirs) = (self.intervals[field], other.intervals[field]);
            if mine.0 < theirs.0 {
                let mut below = self.clone();
                below.intervals[field].1 = theirs.0 - 1;
                left.push(below);
                self.intervals[field].0 = theirs.0;
            }
            if theirs.1 < mine.1 {
                let mut above = self.clone();
                above.intervals[field].0 = theirs.1 + 1;
                left.push(above);
                self.intervals[field].1 = theirs.1;
            }
        }
        for field in 0..SETS {
            let outside = self.sets[field] & !other.sets[field];
            if outside != 0 {
                let mut rest = self.clone();
                rest.sets[field] = outside;
                left.push(rest);
                self.sets[field] &= other.sets[field];
            }
        }
        let outside: [u64; 4] = core::array::from_fn(|i| self.flags[i] & !other.flags[i]);
        if outside != [0; 4] {
            let mut rest = self.clone();
            rest.flags = outside;
            left.push(rest);
            self.flags = core::array::from_fn(|i| self.flags[i] & other.flags[i]);
        }
        for &(variable, value) in &other.variables {
            if self.variables.iter().any(|&(known, _)| known == variable) {
                continue;
            }
            let mut rest = self.clone();
            rest.variables.push((variable, !value));
            rest.variables.sort_unstable();
            left.push(rest);
            self.variables.push((variable, value));
            self.variables.sort_unstable();
        }
    }
}

/// The interface names that conditions distinguish: every name, a name for every prefix, and one
/// other name.
#[derive(Debug, Default)]
pub(super) struct Names {
    names: Vec<String>,
}

impl Names {
    /// Returns the names in conditions; `None` if there are too many to distinguish.
    pub(super) fn collect<'a>(all: impl Iterator<Item = &'a Conditions>) -> Result<Self, TooMuch> {
        let mut names: Vec<String> = Vec::from([String::from("other")]);
        let mut add = |pattern: &InterfacePattern| {
            let mut name = pattern.name.clone();
            if pattern.is_prefix {
                name.push_str("0other");
            }
            if !names.contains(&name) {
                names.push(name);
            }
        };
        for conditions in all {
            visit(conditions, &mut add);
        }
        while names[1..].contains(&names[0]) {
            names[0].push('_');
        }
        if names.len() > 128 { Err(TooMuch) } else { Ok(Self { names }) }
    }

    fn all(&self) -> u128 {
        u128::MAX >> (128 - self.names.len().clamp(1, 128))
    }

    fn matching(&self, patterns: &[InterfacePattern]) -> u128 {
        let matches = |name: &String| patterns.iter().any(|pattern| pattern.matches(name));
        self.names
            .iter()
            .enumerate()
            .filter(|(_, name)| matches(name))
            .fold(0, |bits, (i, _)| bits | 1 << i)
    }

    /// Returns the name of the lowest bit.
    pub(super) fn name(&self, bits: u128) -> &str {
        self.names.get(bits.trailing_zeros() as usize).map_or("other", String::as_str)
    }
}

fn visit(conditions: &Conditions, found: &mut dyn FnMut(&InterfacePattern)) {
    for test in &conditions.tests {
        match &test.kind {
            TestKind::Input(patterns) | TestKind::Output(patterns) => patterns.iter().for_each(&mut *found),
            TestKind::AnyOf(all) => all.iter().for_each(|one| visit(one, found)),
            _ => {}
        }
    }
}

/// Variables for data that packets do not contain.
#[derive(Debug, Default)]
pub(super) struct Variables {
    numbers: BTreeMap<(String, u32), u32>,
    /// How often each text occurred in the current policy.
    counts: BTreeMap<String, u32>,
}

impl Variables {
    /// Starts another policy; its first condition with a text is that of the first policy.
    pub(super) fn restart(&mut self) {
        self.counts.clear();
    }

    /// Returns the variable of a text. The same text in two rules gives two variables, because a
    /// limit counts separately for each rule.
    fn number(&mut self, text: String) -> u32 {
        let count = self.counts.entry(text.clone()).or_default();
        *count += 1;
        let next = self.numbers.len() as u32;
        *self.numbers.entry((text, *count)).or_insert(next)
    }

    /// Returns the text of a variable.
    pub(super) fn text(&self, variable: u32) -> &str {
        self.numbers
            .iter()
            .find(|&(_, &number)| number == variable)
            .map_or("", |((text, _), _)| text.as_str())
    }
}

/// Returns the packets that meet conditions, as regions that may overlap.
pub(super) fn regions(
    conditions: &Conditions,
    names: &Names,
    variables: &mut Variables,
) -> Result<Vec<Region>, TooMuch> {
    let mut pieces = Vec::new();
    if conditions.is_empty() {
        return Ok(pieces);
    }
    for (is_asked, is_v6) in [(conditions.families.v4, false), (conditions.families.v6, true)] {
        if is_asked {
            pieces.push(Region::all(is_v6, names));
        }
    }
    let fields = [
        (SOURCE, &conditions.source),
        (DESTINATION, &conditions.destination),
        (PROTOCOL, &conditions.protocols),
        (SOURCE_PORT, &conditions.source_ports),
        (DESTINATION_PORT, &conditions.destination_ports),
    ];
    for (field, set) in fields {
        if let Some(set) = set {
            pieces = cut_each(pieces, set, field)?;
        }
    }
    if conditions.names_ports() {
        pieces = with_ports(pieces, conditions.reads_later)?;
    }
    for test in &conditions.tests {
        pieces = restrict_tests(pieces, test, conditions.reads_later, names, variables)?;
    }
    Ok(pieces)
}

/// Returns the parts of pieces in which a field is in a set.
fn cut_each(pieces: Vec<Region>, set: &Ranges, field: usize) -> Result<Vec<Region>, TooMuch> {
    let mut parts = Vec::new();
    for piece in pieces {
        let (low, high) = piece.intervals[field];
        for &(first, last) in set.as_slice() {
            let common = (first.max(low), last.min(high));
            if common.0 <= common.1 {
                let mut part = piece.clone();
                part.intervals[field] = common;
                parts.push(part);
            }
            if parts.len() > PIECES_MAX {
                return Err(TooMuch);
            }
        }
    }
    Ok(parts)
}

fn with_ports(pieces: Vec<Region>, reads_later: bool) -> Result<Vec<Region>, TooMuch> {
    let set = Ranges::new(WITH_PORTS.map(|protocol| (u128::from(protocol), u128::from(protocol))));
    Ok(not_later(cut_each(pieces, &set, PROTOCOL)?, reads_later))
}

/// Returns the parts of pieces that have a transport header, or whose payload is read for one.
fn not_later(mut pieces: Vec<Region>, reads_later: bool) -> Vec<Region> {
    if reads_later {
        return pieces;
    }
    for piece in &mut pieces {
        piece.sets[FRAGMENT] &= 3;
    }
    pieces.retain(|piece| piece.sets[FRAGMENT] != 0);
    pieces
}

/// Returns the parts of pieces for which a test holds.
fn restrict_tests(
    mut pieces: Vec<Region>,
    test: &Test,
    reads_later: bool,
    names: &Names,
    variables: &mut Variables,
) -> Result<Vec<Region>, TooMuch> {
    let not = test.is_negated;
    let not_later = |pieces| not_later(pieces, reads_later);
    let set = |mut pieces: Vec<Region>, field: usize, bits: u128| {
        for piece in &mut pieces {
            piece.sets[field] &= if not { !bits } else { bits };
        }
        pieces.retain(|piece| piece.sets[field] != 0);
        Ok(pieces)
    };
    let ranges = |pieces: Vec<Region>, field: usize, ranges: &Ranges| {
        let ranges = if not { ranges.complement(MAX[field]) } else { ranges.clone() };
        cut_each(pieces, &ranges, field)
    };
    match &test.kind {
        TestKind::TcpFlags { mask, value } => {
            let pieces = not_later(cut_each(pieces, &Ranges::exact(6), PROTOCOL)?);
            Ok(with_flags(pieces, |flags| (flags & mask == *value) != not))
        }
        TestKind::Column(column) => {
            // A packet with neither flags nor a type meets a column without conditions.
            if column.mask == 0 {
                return Ok(if not { Vec::new() } else { pieces });
            }
            if not {
                return Err(TooMuch);
            }
            let mut parts = Vec::new();
            let flags = not_later(cut_each(pieces.clone(), &Ranges::exact(6), PROTOCOL)?);
            parts.extend(with_flags(flags, |flags| {
                (u16::from_be_bytes([flags, 0]) ^ column.value) & column.mask == 0
            }));
            let codes = Ranges::under_mask(u128::from(column.value), u128::from(column.mask), 16, 1 << 12);
            let codes = codes.ok_or(TooMuch)?;
            for protocol in [1, 58] {
                let icmp = not_later(cut_each(pieces.clone(), &Ranges::exact(protocol), PROTOCOL)?);
                parts.extend(cut_each(icmp, &codes, ICMP)?);
            }
            Ok(parts)
        }
        TestKind::Icmp { is_v6, codes } => {
            let protocol = Ranges::exact(if *is_v6 { 58 } else { 1 });
            ranges(not_later(cut_each(pieces, &protocol, PROTOCOL)?), ICMP, codes)
        }
        TestKind::Fragment(parts) => set(pieces, FRAGMENT, u128::from(*parts)),
        TestKind::State(states) => set(pieces, STATE, u128::from(*states)),
        TestKind::Input(patterns) => set(pieces, INPUT, names.matching(patterns)),
        TestKind::Output(patterns) => set(pieces, OUTPUT, names.matching(patterns)),
        TestKind::Number(HeaderField::NextHeader, set) => {
            let mut pieces = ranges(pieces, interval(HeaderField::NextHeader), set)?;
            pieces.retain(|piece| piece.is_v6);
            Ok(pieces)
        }
        TestKind::Number(field, set) => ranges(pieces, interval(*field), set),
        TestKind::SourceMac { value, mask } => {
            let set =
                Ranges::under_mask(u128::from(*value), u128::from(*mask), 48, 1 << 12).ok_or(TooMuch)?;
            ranges(pieces, MAC, &set)
        }
        TestKind::EitherPort(ports) => {
            let pieces = with_ports(pieces, reads_later)?;
            if not {
                let outside = ports.complement(65_535);
                return cut_each(cut_each(pieces, &outside, SOURCE_PORT)?, &outside, DESTINATION_PORT);
            }
            let mut parts = cut_each(pieces.clone(), ports, SOURCE_PORT)?;
            parts.extend(cut_each(pieces, ports, DESTINATION_PORT)?);
            Ok(parts)
        }
        TestKind::AnyOf(all) => {
            let mut inside = Vec::new();
            for one in all {
                inside.extend(regions(one, names, variables)?);
                if inside.len() > PIECES_MAX {
                    return Err(TooMuch);
                }
            }
            if not {
                return without(pieces, &inside);
            }
            let mut parts = Vec::new();
            for piece in &pieces {
                parts.extend(inside.iter().filter_map(|one| piece.intersection(one)));
                if parts.len() > PIECES_MAX {
                    return Err(TooMuch);
                }
            }
            Ok(parts)
        }
        // An address under a mask with many holes is a variable. Equal masks get different
        // variables, which only loses precision.
        TestKind::Address { .. }
        | TestKind::Contents(_)
        | TestKind::Mark { .. }
        | TestKind::Unknowable(_) => {
            let kind = Test::from(test.kind.clone());
            let variable = variables.number(alloc::format!("{kind}"));
            for piece in &mut pieces {
                piece.variables.push((variable, !not));
                piece.variables.sort_unstable();
            }
            Ok(pieces)
        }
    }
}

fn with_flags(mut pieces: Vec<Region>, holds: impl Fn(u8) -> bool) -> Vec<Region> {
    let mut bits = [0_u64; 4];
    for flags in (0..=255_u8).filter(|&flags| holds(flags)) {
        bits[usize::from(flags >> 6)] |= 1 << (flags & 63);
    }
    for piece in &mut pieces {
        piece.flags = core::array::from_fn(|i| piece.flags[i] & bits[i]);
    }
    pieces.retain(|piece| piece.flags != [0; 4]);
    pieces
}

/// Returns the difference between two lists of pieces.
pub(super) fn without(mut pieces: Vec<Region>, others: &[Region]) -> Result<Vec<Region>, TooMuch> {
    for other in others {
        let mut left = Vec::with_capacity(pieces.len());
        for piece in pieces {
            piece.subtract(other, &mut left);
        }
        if left.len() > PIECES_MAX {
            return Err(TooMuch);
        }
        pieces = left;
        if pieces.is_empty() {
            break;
        }
    }
    Ok(pieces)
}
