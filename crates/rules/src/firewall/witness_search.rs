//! Searches for a packet of a region outside a list of regions.
//!
//! The search is depth first and ends at the first such packet, so it does not cut a region into
//! all of its pieces. For most rules that are reached, a few cuts suffice.

use alloc::rc::Rc;
use alloc::vec::Vec;

use super::region::{Overlap, Region, TooMuch};

/// One search may take this fraction of the remaining steps, so that a difficult region leaves
/// steps for others.
const PART_OF_STEPS: u64 = 16;

/// Steps that every search may take, if so many remain.
const SEARCH_STEPS: u64 = 1 << 20;

/// The fate of the packets of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// They are accounted for.
    Covered,
    /// They are what the search looks for.
    Free,
    /// Deciding would need too many regions.
    Unknown,
}

/// A region in matching order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layer<'a> {
    pub(super) region: &'a Region,
    pub(super) fate: Fate,
}

/// Layers; the first that contains a packet gives its fate.
#[derive(Clone, Debug)]
struct Layers<'a> {
    list: Vec<Layer<'a>>,
    /// Fate of a packet that no layer contains.
    last: Fate,
}

/// A part of the region that remains to search.
struct Part<'a> {
    region: Region,
    /// Layers that may contain some of it.
    layers: Rc<Layers<'a>>,
}

/// Returns the fate of some packet of `region` that is not covered; `None` if all are covered.
/// `last` is the fate of a packet that no layer contains. A step examines one layer.
pub(super) fn first_not_covered(
    region: Region,
    list: Vec<Layer<'_>>,
    last: Fate,
    steps: &mut u64,
) -> Result<Option<Fate>, TooMuch> {
    let steps_end = steps.saturating_sub((*steps / PART_OF_STEPS).max(SEARCH_STEPS));
    let mut open = Vec::from([Part { region, layers: Rc::new(Layers { list, last }) }]);
    let mut pieces = Vec::new();
    while let Some(Part { region, layers }) = open.pop() {
        *steps = steps.saturating_sub(1 + layers.list.len() as u64);
        if *steps <= steps_end {
            return Err(TooMuch);
        }
        let (layers, cut) = narrowed(&region, &layers);
        let Some(first) = layers.list.first() else {
            if layers.last == Fate::Covered {
                continue;
            }
            return Ok(Some(layers.last));
        };
        if first.fate != Fate::Covered {
            return Ok(Some(first.fate));
        }
        let other = layers.list[cut].region;
        region.subtract(other, &mut pieces);
        let layers = Rc::new(layers);
        open.extend(pieces.drain(..).map(|region| Part { region, layers: Rc::clone(&layers) }));
    }
    Ok(None)
}

/// Returns the layers that matter within a region, and which of the leading covered ones leaves the
/// fewest pieces when it is cut out.
fn narrowed<'a>(region: &Region, layers: &Layers<'a>) -> (Layers<'a>, usize) {
    let mut list: Vec<Layer<'a>> = Vec::new();
    let mut last = layers.last;
    let (mut cut, mut fewest, mut is_front) = (0, u32::MAX, true);
    for &layer in &layers.list {
        let pieces = match region.overlap(layer.region) {
            Overlap::None => continue,
            Overlap::Whole => {
                last = layer.fate;
                break;
            }
            Overlap::Part { pieces } => pieces,
        };
        is_front &= layer.fate == Fate::Covered;
        if is_front && pieces < fewest {
            (cut, fewest) = (list.len(), pieces);
        }
        list.push(layer);
    }
    // Trailing layers change nothing if what follows has the same fate.
    while list.last().is_some_and(|layer| layer.fate == last) {
        list.pop();
    }
    (Layers { list, last }, cut)
}

#[cfg(test)]
mod tests {
    use super::super::region::{DESTINATION_PORT, Names, SOURCE, SOURCE_PORT};
    use super::*;
    use flowloom_classifier::random::Random;

    const FIELDS: [usize; 3] = [SOURCE, SOURCE_PORT, DESTINATION_PORT];

    /// Returns a region that is a part of a cube of 6 × 6 × 6 values, with or without a variable.
    fn draw(random: &mut Random) -> Region {
        let mut region = Region::all(false, &Names::default());
        for field in FIELDS {
            let (a, b) = (u128::from(random.below(6)), u128::from(random.below(6)));
            region.intervals[field] = if random.below(3) == 0 { (0, 5) } else { (a.min(b), a.max(b)) };
        }
        if random.below(4) == 0 {
            region.variables.push((random.below(2) as u32, random.below(2) == 0));
        }
        region
    }

    fn holds(region: &Region, point: &Region) -> bool {
        region.covers(point)
    }

    /// Returns each packet of a region, with both values of two variables.
    fn points(region: &Region) -> Vec<Region> {
        let mut points = Vec::new();
        for number in 0..6 * 6 * 6 * 4_u32 {
            let mut point = Region::all(false, &Names::default());
            for (field, value) in FIELDS.into_iter().zip([number / 36 % 6, number / 6 % 6, number % 6]) {
                point.intervals[field] = (u128::from(value), u128::from(value));
            }
            let bits = number / 216;
            point.variables = Vec::from([(0, bits & 1 == 1), (1, bits & 2 == 2)]);
            if holds(region, &point) {
                points.push(point);
            }
        }
        points
    }

    #[test]
    fn witness_is_found_if_and_only_if_exhaustive_search_finds_one() {
        let mut random = Random::new(9);
        let (mut found, mut none) = (0, 0);
        for round in 0..600 {
            let region = draw(&mut random);
            let regions: Vec<Region> = (0..random.below(24)).map(|_| draw(&mut random)).collect();
            let fates = [Fate::Covered, Fate::Covered, Fate::Covered, Fate::Free, Fate::Unknown];
            let layers: Vec<Layer<'_>> = regions
                .iter()
                .map(|region| Layer { region, fate: fates[random.below(5) as usize] })
                .collect();
            let last = fates[random.below(5) as usize];
            let fate = |point: &Region| {
                layers.iter().find(|layer| holds(layer.region, point)).map_or(last, |layer| layer.fate)
            };
            let expected: Vec<Fate> = points(&region).iter().map(fate).collect();
            let answer =
                first_not_covered(region, layers.clone(), last, &mut (1 << 20)).expect("few steps");
            match answer {
                None => assert!(expected.iter().all(|&fate| fate == Fate::Covered), "round {round}"),
                Some(fate) => assert!(fate != Fate::Covered && expected.contains(&fate), "round {round}"),
            }
            (found, none) = (found + u32::from(answer.is_some()), none + u32::from(answer.is_none()));
        }
        assert!(found > 100 && none > 100, "both answers occur: {found} and {none}");
    }

    #[test]
    fn a_search_ends_at_its_limit() {
        let mut random = Random::new(3);
        let regions: Vec<Region> = (0..20).map(|_| draw(&mut random)).collect();
        let layers = regions.iter().map(|region| Layer { region, fate: Fate::Covered }).collect();
        let all = Region::all(false, &Names::default());
        assert!(first_not_covered(all, layers, Fate::Covered, &mut 5).is_err());
    }
}
