//! Lines of an index, and the cells that belong to each.
#![expect(unsafe_code, reason = "bounds that apply to every bucket are checked once")]

use core::num::NonZeroU32;

use super::{Fractions, Generation, SlotView};

/// Lines with a fixed number of cells each, selected by a fraction of 2³². The constructor checks
/// once that there are enough cells, so that accesses need no check.
///
/// Cells are numbered line by line. Cells after those of the last line belong to no line.
///
/// # Examples
///
/// ```
/// use core::num::NonZeroU32;
/// use flowloom_cpu::pages::{Buckets, Generation, HugePages, SlotArray};
/// let mut slots = SlotArray::try_new(2 * 30 + 2, HugePages::No)?;
/// slots.occupy(30 + 4, Generation::FIRST, |_| 0, "flow").expect("there is a cell 34");
/// // Two lines of thirty cells, and two more cells.
/// let buckets = Buckets::new(&['a', 'b'], slots.view(), 30).expect("enough cells");
/// let second = buckets.at(u32::MAX);
/// assert_eq!((second.line(), second.first_cell()), (&'b', 30));
/// let lanes = NonZeroU32::new(0b10_1001_0000).expect("not zero");
/// assert_eq!(second.lowest(lanes), Some((34, Generation::FIRST, &"flow")));
/// # Ok::<(), flowloom_cpu::pages::AllocError>(())
/// ```
#[derive(Debug)]
pub struct Buckets<'a, L, T> {
    lines: Fractions<'a, L>,
    cells: SlotView<'a, T>,
    cells_per_line: u32,
}

impl<L, T> Clone for Buckets<'_, L, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<L, T> Copy for Buckets<'_, L, T> {}

/// A line, and the number of its first cell.
#[derive(Debug)]
pub struct Bucket<'a, L, T> {
    line: &'a L,
    /// At most the number of the first cell of the last line; only `Buckets::at` sets it.
    first_cell: u32,
    /// All cells: at least [`u32::BITS`] starting with the first cell.
    cells: SlotView<'a, T>,
}

impl<L, T> Clone for Bucket<'_, L, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<L, T> Copy for Bucket<'_, L, T> {}

impl<'a, L, T> Buckets<'a, L, T> {
    /// Returns lines and their cells.
    ///
    /// Returns `None` if there is no line, or if there are fewer than 32 cells from the first cell
    /// of the last line to the end. A mask of 32 lanes can select 32 cells of any line, so if lines
    /// have fewer cells, unused cells must follow.
    #[inline(always)]
    pub fn new(lines: &'a [L], cells: SlotView<'a, T>, cells_per_line: u32) -> Option<Self> {
        let fractions = Fractions::new(lines)?;
        // Both factors have 32 bits.
        let last = (lines.len() as u64 - 1) * u64::from(cells_per_line);
        let end = last.checked_add(u64::from(u32::BITS))?;
        (end <= cells.cells().len() as u64).then_some(Self { lines: fractions, cells, cells_per_line })
    }

    /// Returns the bucket of a fraction: number `fraction · lines / 2³²`, rounded down.
    #[inline(always)]
    pub fn at(self, fraction: u32) -> Bucket<'a, L, T> {
        let (number, line) = self.lines.at(fraction);
        // It is not above the first cell of the last line, which exists (`new`).
        Bucket { line, first_cell: number.wrapping_mul(self.cells_per_line), cells: self.cells }
    }

    /// Hints that the cell that a fraction selects among all cells that belong to lines will be
    /// read soon; it is a cell of the fraction's bucket.
    #[inline(always)]
    pub fn prefetch_cell(self, fraction: u32) {
        self.cells.prefetch(self.cell_of(fraction));
    }

    /// Returns the number of the cell that a fraction selects among all cells that belong to lines.
    #[inline(always)]
    fn cell_of(self, fraction: u32) -> u32 {
        let lines = self.lines.as_slice().len() as u64;
        // The bucket's product is reused, so that it is computed once; it wraps only if there are
        // more than 2³² - 1 cells.
        let product = (u64::from(fraction) * lines).wrapping_mul(u64::from(self.cells_per_line));
        (product >> 32) as u32
    }
}

impl<'a, L, T> Bucket<'a, L, T> {
    /// Returns the line.
    #[inline(always)]
    pub fn line(self) -> &'a L {
        self.line
    }

    /// Returns the number of the line's first cell.
    #[inline(always)]
    pub fn first_cell(self) -> u32 {
        self.first_cell
    }

    /// Returns the value of the cell in the lowest of these lanes, with the cell's number and
    /// generation; `None` if the cell is vacant.
    #[inline(always)]
    pub fn lowest(self, lanes: NonZeroU32) -> Option<(u32, Generation, &'a T)> {
        let number = self.first_cell.wrapping_add(lanes.trailing_zeros());
        // SAFETY: a nonzero word has fewer than 32 trailing zeros. The first cell of a line is at
        // most that of the last line, which at least 31 cells follow (`Buckets::new`). Neither sum
        // nor product wraps, because cell numbers have 32 bits.
        let cell = unsafe { self.cells.cells().get_unchecked(number as usize) };
        let (generation, value) = cell.tenant()?;
        Some((number, generation, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::{HugePages, SlotArray};
    use alloc::vec::Vec;

    #[test]
    fn there_must_be_a_line_and_32_cells_from_the_first_of_the_last() {
        let slots = SlotArray::<u8>::try_new(100, HugePages::No).unwrap();
        let fits = |lines: usize, per_line| {
            let lines: Vec<u8> = (0..lines).map(|_| 0).collect();
            Buckets::new(&lines, slots.view(), per_line).is_some()
        };
        assert!(!fits(0, 1));
        assert!(fits(1, 0) && fits(1, 1) && fits(1, u32::MAX));
        assert!(fits(2, 68) && !fits(2, 69));
        assert!(fits(69, 1) && !fits(70, 1));
        assert!(!fits(2, u32::MAX) && fits(1000, 0));
        let few = SlotArray::<u8>::try_new(31, HugePages::No).unwrap();
        assert!(Buckets::new(&[0], few.view(), 1).is_none());
    }

    #[test]
    fn every_lane_of_every_bucket_is_the_cell_that_the_line_has() {
        for (lines, per_line) in [(1_u32, 30), (2, 30), (7, 5), (3, 32), (40, 1)] {
            let mut slots = SlotArray::try_new((lines - 1) * per_line + 32, HugePages::No).unwrap();
            for number in (0..slots.len()).filter(|number| number % 3 != 0) {
                slots.occupy(number, Generation::after(u64::from(number)), |_| 0, number).unwrap();
            }
            let numbers: Vec<u32> = (0..lines).collect();
            let buckets = Buckets::new(&numbers, slots.view(), per_line).unwrap();
            for line in 0..lines {
                // The lowest and the highest fraction that selects the line.
                let first = (u64::from(line) << 32).div_ceil(u64::from(lines));
                let last = (u64::from(line + 1) << 32).div_ceil(u64::from(lines)) - 1;
                for fraction in [first, last].map(|fraction| u32::try_from(fraction).unwrap()) {
                    let bucket = buckets.at(fraction);
                    assert_eq!((*bucket.line(), bucket.first_cell()), (line, line * per_line));
                    let favourite = buckets.cell_of(fraction) - bucket.first_cell();
                    assert_eq!(favourite, if u64::from(fraction) == first { 0 } else { per_line - 1 });
                    buckets.prefetch_cell(fraction);
                    for lane in 0..32 {
                        let number = line * per_line + lane;
                        let lanes = NonZeroU32::new(u32::MAX << lane).unwrap();
                        let expected =
                            slots.get_live(number).map(|(tenant, value)| (number, tenant, value));
                        assert_eq!(bucket.lowest(lanes), expected);
                        assert_eq!(expected.is_some(), number % 3 != 0);
                    }
                }
            }
        }
    }
}
