//! Cells with or without a value, marked by a generation.
#![expect(unsafe_code, reason = "the occupancy of a cell decides what may be read")]

use core::fmt;
use core::marker::PhantomData;
use core::mem::{MaybeUninit, needs_drop};
use core::num::NonZeroU32;
use core::ptr::NonNull;
use core::slice;

use super::{AllocError, HugePages, PageReport, ZeroedMemory};
use crate::prefetch::{self, LINE_BYTES};

/// Identifies an occupant of a cell by an odd number.
///
/// A cell with this generation is occupied, so comparing generations is sufficient.
///
/// # Examples
///
/// ```
/// use flowloom_cpu::pages::Generation;
/// assert_eq!(Generation::new(3).map(Generation::get), Some(3));
/// assert_eq!(Generation::new(4), None);
/// assert_eq!(Generation::after(1).get(), 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(NonZeroU32);

impl Generation {
    /// The first generation.
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// Returns the generation with this number; `None` if it is even.
    #[inline(always)]
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        if number & 1 == 0 { None } else { Some(Self::or_next(number)) }
    }

    /// Returns the generation after `n` others, starting at [`FIRST`](Self::FIRST); generations
    /// repeat after 2³¹.
    #[inline(always)]
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "generations repeat")]
    pub const fn after(others: u64) -> Self {
        Self::or_next((others as u32) << 1)
    }

    /// Returns the generation with an odd number, or with the number after an even one.
    #[inline(always)]
    const fn or_next(number: u32) -> Self {
        match NonZeroU32::new(number | 1) {
            Some(odd) => Self(odd),
            None => Self::FIRST,
        }
    }

    /// Returns the number.
    #[inline(always)]
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0.get()
    }
}

/// A cell that may contain a value.
#[repr(C, align(64))]
struct Cell<T> {
    /// Odd while `value` is initialised.
    generation: u32,
    tag: u32,
    value: MaybeUninit<T>,
}

impl<T> Cell<T> {
    #[inline(always)]
    fn is_occupied(&self) -> bool {
        self.generation & 1 == 1
    }

    /// Returns the value of an occupied cell, with its generation.
    #[inline(always)]
    fn tenant(&self) -> Option<(Generation, &T)> {
        let generation = Generation::new(self.generation)?;
        // SAFETY: the generation is odd, so the cell is occupied and therefore initialised.
        Some((generation, unsafe { self.value.assume_init_ref() }))
    }
}

/// A fixed-length array of cells, each on its own cache lines, which are vacant or contain a value.
///
/// ```text
/// cell   | generation u32 | tag u32 | value T … |  a multiple of 64 bytes; T of 56 bytes: one line
/// ```
///
/// The *generation* is odd while the cell is occupied; the caller that stores a value chooses it.
/// If it chooses a different one each time, (index, generation) distinguishes a value from a later
/// one in the same cell. The *tag* is a word for the user that is kept when the cell becomes
/// vacant.
///
/// Indices past the end behave like vacant cells that cannot be occupied: nothing panics.
///
/// # Examples
///
/// ```
/// use flowloom_cpu::pages::{Generation, HugePages, SlotArray};
/// let mut slots = SlotArray::try_new(4, HugePages::No)?;
/// let generation = Generation::FIRST;
/// slots.occupy(2, generation, |_| 0, "flow").expect("there is a cell 2");
/// assert_eq!(slots.get(2, generation), Some(&"flow"));
/// assert_eq!(slots.vacate(2), Some("flow"));
/// assert_eq!(slots.get(2, generation), None);
/// # Ok::<(), flowloom_cpu::pages::AllocError>(())
/// ```
pub struct SlotArray<T> {
    owned: OwnedCells,
    /// Its drop drops values, and is no other use of them: an array of references may outlive what
    /// they refer to, as a `Vec` may.
    values: PhantomData<T>,
}

/// The memory of cells. It drops their values.
///
/// The value type is not a parameter, because a generic type that implements `Drop` counts as
/// a user of whatever its parameter borrows.
struct OwnedCells {
    memory: ZeroedMemory,
    len: u32,
    /// Drops the values of this many cells; `None` if no value needs it.
    drop_values: Option<unsafe fn(NonNull<u8>, u32)>,
}

impl Drop for OwnedCells {
    fn drop(&mut self) {
        if let Some(drop_values) = self.drop_values {
            // SAFETY: `SlotArray::try_new` gives the function of the type for whose cells it
            // allocated the memory, which is not used after this.
            unsafe { drop_values(self.memory.start, self.len) };
        }
    }
}

/// Drops the values of all occupied cells.
///
/// # Safety
///
/// `start` is followed by `len` cells of this type, and nothing uses them during or after the call.
unsafe fn drop_values<T>(start: NonNull<u8>, len: u32) {
    // SAFETY: the caller's promise.
    let cells = unsafe { slice::from_raw_parts_mut(start.cast::<Cell<T>>().as_ptr(), len as usize) };
    for cell in cells.iter_mut().filter(|cell| cell.is_occupied()) {
        // SAFETY: an occupied cell is initialised, and it is visited once.
        unsafe { cell.value.assume_init_drop() };
    }
}

// SAFETY: the array owns its values as a `Vec<T>` would.
unsafe impl<T: Send> Send for SlotArray<T> {}
// SAFETY: shared access gives `&T` and copies of plain words.
unsafe impl<T: Sync> Sync for SlotArray<T> {}

impl<T> SlotArray<T> {
    /// Distance between two cells in bytes.
    pub const CELL_BYTES: usize = size_of::<Cell<T>>();

    /// Returns `len` vacant cells.
    ///
    /// # Errors
    ///
    /// Returns [`AllocError`] if the allocator refuses the memory.
    pub fn try_new(len: u32, huge: HugePages) -> Result<Self, AllocError> {
        let memory = ZeroedMemory::try_new(Self::CELL_BYTES, len as usize, align_of::<Cell<T>>(), huge)?;
        let drop_values = needs_drop::<T>().then_some(drop_values::<T> as unsafe fn(_, _));
        Ok(Self { owned: OwnedCells { memory, len, drop_values }, values: PhantomData })
    }

    /// Makes the whole array resident, so that no first touch interrupts later work.
    pub fn prefault(&mut self) {
        self.owned.memory.prefault();
    }

    /// Returns the number of cells.
    #[inline]
    pub fn len(&self) -> u32 {
        self.owned.len
    }

    /// Returns whether there are no cells.
    pub fn is_empty(&self) -> bool {
        self.owned.len == 0
    }

    #[inline(always)]
    fn cells(&self) -> &[Cell<T>] {
        // SAFETY: `start` is aligned for and followed by `len` cells (`try_new`). Zero bytes are a
        // valid cell: two zero words and an uninitialised value. Later writes went through
        // `cells_mut`.
        unsafe { slice::from_raw_parts(self.owned.memory.start.as_ptr().cast(), self.owned.len as usize) }
    }

    #[inline(always)]
    fn cells_mut(&mut self) -> &mut [Cell<T>] {
        // SAFETY: as in `cells`; `&mut self` makes the access exclusive.
        unsafe {
            slice::from_raw_parts_mut(self.owned.memory.start.as_ptr().cast(), self.owned.len as usize)
        }
    }

    /// Stores a value in a vacant cell, with the given generation. `tag` computes the cell's new
    /// tag from its old one.
    ///
    /// If `tag` ignores the old tag, nothing of the cell is read: the store does not wait for the
    /// line, and the first touch of a fresh page is a write. The kernel then maps the page once,
    /// without an interrupt to other CPUs. The caller must ensure that the cell is vacant; the
    /// value of an occupied cell is overwritten without being dropped.
    ///
    /// # Errors
    ///
    /// Returns the value if there is no such cell.
    #[inline(always)]
    pub fn occupy(
        &mut self,
        index: u32,
        generation: Generation,
        tag: impl FnOnce(u32) -> u32,
        value: T,
    ) -> Result<(), T> {
        let Some(cell) = self.cells_mut().get_mut(index as usize) else { return Err(value) };
        cell.value.write(value);
        debug_assert!(!cell.is_occupied(), "cell {index} is occupied");
        cell.tag = tag(cell.tag);
        cell.generation = generation.get();
        Ok(())
    }

    /// Removes the value from an occupied cell.
    #[inline]
    pub fn vacate(&mut self, index: u32) -> Option<T> {
        let cell = self.cells_mut().get_mut(index as usize)?;
        if !cell.is_occupied() {
            return None;
        }
        cell.generation = cell.generation.wrapping_add(1);
        // SAFETY: the generation was odd, so the value is initialised (`occupy` writes it before
        // making the generation odd); it is even now, so the value cannot be taken twice.
        Some(unsafe { cell.value.assume_init_read() })
    }

    /// Removes the value from a cell if the cell is occupied and the generation matches, and
    /// returns the result of `then`.
    ///
    /// `then` gets the value in place, without a copy, so parts that it does not use are not read.
    #[inline(always)]
    pub fn vacate_if<R>(
        &mut self,
        index: u32,
        is_meant: impl FnOnce(&T) -> bool,
        then: impl FnOnce(T) -> R,
    ) -> Option<R> {
        let cell = self.cells_mut().get_mut(index as usize)?;
        if !is_meant(cell.tenant()?.1) {
            return None;
        }
        cell.generation = cell.generation.wrapping_add(1);
        // SAFETY: as in `vacate`: the generation was odd (`tenant`), and is even now.
        Some(then(unsafe { cell.value.assume_init_read() }))
    }

    /// Removes the value from a cell, if it still has this generation.
    #[inline]
    pub fn vacate_tenant(&mut self, index: u32, generation: Generation) -> Option<T> {
        let cell = self.cells_mut().get_mut(index as usize)?;
        if cell.generation != generation.get() {
            return None;
        }
        cell.generation = cell.generation.wrapping_add(1);
        // SAFETY: as in `vacate`: the generation was odd, as every `Generation` is (only `or_next`
        // and `FIRST` create them), and is now even.
        Some(unsafe { cell.value.assume_init_read() })
    }

    /// Returns the value of a cell, if it still has this generation.
    #[inline(always)]
    pub fn get(&self, index: u32, generation: Generation) -> Option<&T> {
        let cell = self.cells().get(index as usize)?;
        if cell.generation != generation.get() {
            return None;
        }
        // SAFETY: a `Generation` is odd, so the cell is occupied and therefore initialised.
        Some(unsafe { cell.value.assume_init_ref() })
    }

    /// Returns the value of a cell mutably, if it still has this generation.
    #[inline(always)]
    pub fn get_mut(&mut self, index: u32, generation: Generation) -> Option<&mut T> {
        let cell = self.cells_mut().get_mut(index as usize)?;
        if cell.generation != generation.get() {
            return None;
        }
        // SAFETY: a `Generation` is odd, so the cell is occupied and therefore initialised.
        Some(unsafe { cell.value.assume_init_mut() })
    }

    /// Returns a mutable walk over the values, in ascending order of cells.
    pub fn walk_mut(&mut self) -> SlotWalkMut<'_, T> {
        SlotWalkMut { cells: self.cells_mut().iter_mut(), next: 0 }
    }

    /// Returns the value of an occupied cell, with its generation.
    #[inline(always)]
    pub fn get_live(&self, index: u32) -> Option<(Generation, &T)> {
        self.view().get_live(index)
    }

    /// Returns a view of the cells, for loops: the compiler then knows that their address and
    /// number do not change, independent of the loop's writes.
    #[inline(always)]
    pub fn view(&self) -> SlotView<'_, T> {
        SlotView(self.cells())
    }

    /// Returns the tag of a cell; 0 past the end.
    #[inline]
    pub fn tag(&self, index: u32) -> u32 {
        self.cells().get(index as usize).map_or(0, |cell| cell.tag)
    }

    /// Sets the tag of a cell.
    #[inline]
    pub fn set_tag(&mut self, index: u32, tag: u32) {
        if let Some(cell) = self.cells_mut().get_mut(index as usize) {
            cell.tag = tag;
        }
    }

    /// Hints that a cell will be read soon: all its lines, but at most four.
    #[inline(always)]
    pub fn prefetch(&self, index: u32) {
        self.view().prefetch(index);
    }

    /// Hints that a cell will be read later, like [`prefetch::read_later`].
    #[inline(always)]
    pub fn prefetch_later(&self, index: u32) {
        self.view().prefetch_later(index);
    }

    /// Returns the huge pages that were requested.
    pub fn pages(&self) -> PageReport {
        self.owned.memory.report()
    }

    /// Returns the huge pages that were requested and obtained. It reads the process's map, which
    /// is slow.
    pub fn pages_obtained(&self) -> PageReport {
        self.owned.memory.report_obtained()
    }
}

/// A view of the cells of a [`SlotArray`].
pub struct SlotView<'a, T>(&'a [Cell<T>]);

impl<T> Clone for SlotView<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SlotView<'_, T> {}

impl<'a, T> SlotView<'a, T> {
    /// Returns the value of an occupied cell, with its generation.
    #[inline(always)]
    pub fn get_live(self, index: u32) -> Option<(Generation, &'a T)> {
        self.0.get(index as usize)?.tenant()
    }

    /// Hints that a cell will be read soon: all its lines, but at most four.
    #[inline(always)]
    pub fn prefetch(self, index: u32) {
        self.prefetch_by(index, prefetch::read);
    }

    /// Hints that a cell will be read later, like [`prefetch::read_later`].
    #[inline(always)]
    pub fn prefetch_later(self, index: u32) {
        self.prefetch_by(index, prefetch::read_later);
    }

    #[inline(always)]
    fn prefetch_by(self, index: u32, hint: impl Fn(*const Cell<T>)) {
        let cell = self.0.as_ptr().wrapping_add(index as usize);
        for line in 0..(size_of::<Cell<T>>() / LINE_BYTES).min(4) {
            hint(cell.wrapping_byte_add(line * LINE_BYTES));
        }
    }
}

impl<T> fmt::Debug for SlotView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotView").field("len", &self.0.len()).finish()
    }
}

/// A walk over the values of a [`SlotArray`] that the caller controls: it names each cell in
/// ascending order, and cells in between are not read.
///
/// # Examples
///
/// ```
/// use flowloom_cpu::pages::{Generation, HugePages, SlotArray};
/// let mut slots = SlotArray::try_new(4, HugePages::No)?;
/// slots.occupy(1, Generation::FIRST, |_| 0, 10).expect("there is a cell 1");
/// slots.occupy(3, Generation::FIRST, |_| 0, 30).expect("there is a cell 3");
/// let mut walk = slots.walk_mut();
/// let both = [walk.take(1), walk.take(3)].map(|value| *value.expect("there is one"));
/// assert_eq!((both, walk.take(3)), ([10, 30], None));
/// # Ok::<(), flowloom_cpu::pages::AllocError>(())
/// ```
pub struct SlotWalkMut<'a, T> {
    cells: slice::IterMut<'a, Cell<T>>,
    next: u32,
}

impl<'a, T> SlotWalkMut<'a, T> {
    /// Returns the value of a cell; `None` if the cell is vacant or the walk has passed it.
    #[inline(always)]
    pub fn take(&mut self, index: u32) -> Option<&'a mut T> {
        let cell = self.cells.nth(index.checked_sub(self.next)? as usize)?;
        self.next = index + 1;
        if !cell.is_occupied() {
            return None;
        }
        // SAFETY: an occupied cell is initialised.
        Some(unsafe { cell.value.assume_init_mut() })
    }
}

impl<T> fmt::Debug for SlotWalkMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotWalkMut").field("next", &self.next).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for SlotArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotArray")
            .field("len", &self.owned.len)
            .field("pages", &self.owned.memory.report())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::super::LineArray;
    #[cfg(all(
        feature = "std",
        target_os = "linux",
        target_arch = "x86_64",
        not(any(miri, sanitized))
    ))]
    use super::super::tests::faults;
    use super::*;
    use alloc::rc::Rc;
    use core::ptr;

    #[test]
    fn a_cell_of_56_bytes_is_one_line() {
        assert_eq!(SlotArray::<[u64; 7]>::CELL_BYTES, 64);
        assert_eq!(SlotArray::<[u64; 8]>::CELL_BYTES, 128);
        assert_eq!(SlotArray::<()>::CELL_BYTES, 64);
    }

    #[test]
    fn a_stale_generation_finds_nothing() {
        let mut slots = SlotArray::try_new(2, HugePages::No).unwrap();
        let (old, new) = (Generation::FIRST, Generation::after(1));
        slots.occupy(1, old, |_| 9, 10_u64).unwrap();
        assert_eq!(slots.tag(1), 9);
        assert_eq!(slots.vacate_tenant(1, Generation::new(old.get() + 2).unwrap()), None);
        assert_eq!(slots.vacate_tenant(1, old), Some(10));
        assert_eq!(slots.vacate_tenant(1, old), None);
        assert_eq!(slots.vacate(1), None);
        slots.occupy(1, new, |tag| tag + 1, 12).unwrap();
        assert_eq!(slots.tag(1), 10);
        assert_eq!(slots.get(1, old), None);
        assert_eq!(slots.get_mut(1, old), None);
        *slots.get_mut(1, new).unwrap() += 1;
        assert_eq!(slots.get(1, new), Some(&13));
        assert_eq!(slots.get_live(1), Some((new, &13)));
    }

    #[test]
    fn take_removes_only_the_addressed_value() {
        let mut slots = SlotArray::try_new(2, HugePages::No).unwrap();
        slots.occupy(1, Generation::FIRST, |_| 0, Rc::new(7)).unwrap();
        let mut take =
            |index, wanted| slots.vacate_if(index, |value| **value == wanted, |value| *value + 1);
        assert_eq!([take(0, 7), take(1, 8), take(2, 7)], [None; 3]);
        assert_eq!(take(1, 7), Some(8));
        assert_eq!(take(1, 7), None);
        assert!(slots.get_live(1).is_none());
    }

    #[test]
    fn an_array_knows_its_length() {
        for len in [0, 3] {
            let slots = SlotArray::<u64>::try_new(len, HugePages::No).unwrap();
            assert_eq!((slots.len(), slots.is_empty()), (len, len == 0));
            assert_eq!(slots.pages_obtained().bytes, u64::from(len) * 64);
            assert!(
                alloc::format!("{slots:?}")
                    .starts_with(&alloc::format!("SlotArray {{ len: {len}, pages: "))
            );
            assert_eq!(alloc::format!("{:?}", slots.view()), alloc::format!("SlotView {{ len: {len} }}"));
        }
        let words = LineArray::<u64>::try_new(3, HugePages::No).unwrap();
        assert!(alloc::format!("{words:?}").starts_with("LineArray { len: 3, pages: "));
        assert_eq!(crate::pages::Fractions::new(&words).unwrap().as_slice(), [0; 3]);
    }

    #[test]
    fn prefaulting_changes_nothing() {
        let mut slots = SlotArray::try_new(200, HugePages::No).unwrap();
        slots.occupy(64, Generation::FIRST, |_| 3, 'x').unwrap();
        slots.prefault();
        assert_eq!(slots.get_live(64), Some((Generation::FIRST, &'x')));
        assert_eq!(slots.get_live(65), None);
        let mut words = LineArray::<u64>::try_new(2000, HugePages::No).unwrap();
        words[512] = 9;
        words.prefault();
        assert_eq!(words.iter().sum::<u64>(), 9);
    }

    #[test]
    fn cells_past_the_end_are_always_vacant() {
        let mut slots = SlotArray::try_new(1, HugePages::No).unwrap();
        assert_eq!(slots.occupy(1, Generation::FIRST, |_| 0, 'x'), Err('x'));
        assert_eq!(slots.get_live(1), None);
        assert_eq!(slots.vacate(u32::MAX), None);
        slots.set_tag(0, 5);
        slots.set_tag(1, 1);
        assert_eq!((slots.tag(0), slots.tag(1)), (5, 0));
        slots.prefetch(u32::MAX);
    }

    #[test]
    fn generations_are_successive_odd_numbers_that_wrap() {
        let numbers = [0, 1, 2, (1 << 31) - 1, 1 << 31].map(|others| Generation::after(others).get());
        assert_eq!(numbers, [1, 3, 5, u32::MAX, 1]);
        let mut slots = SlotArray::try_new(1, HugePages::No).unwrap();
        let last = Generation::after((1 << 31) - 1);
        slots.occupy(0, last, |_| 0, 1_u8).unwrap();
        assert_eq!(slots.vacate(0), Some(1));
        assert_eq!((slots.get(0, last), slots.get_live(0)), (None, None));
    }

    #[test]
    fn values_are_dropped_once() {
        let value = Rc::new(());
        let mut slots = SlotArray::try_new(8, HugePages::No).unwrap();
        for index in 0..6 {
            slots.occupy(index, Generation::FIRST, |_| 0, Rc::clone(&value)).unwrap();
        }
        drop(slots.vacate(3));
        assert_eq!(Rc::strong_count(&value), 6);
        drop(slots);
        assert_eq!(Rc::strong_count(&value), 1);
    }

    /// Counts its drops.
    #[cfg(feature = "std")]
    struct Ending<'a>(&'a core::cell::Cell<u32>);

    #[cfg(feature = "std")]
    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }

    #[cfg(feature = "std")]
    #[test]
    fn overwritten_cell_is_not_dropped() {
        let (first, second) = (core::cell::Cell::new(0), core::cell::Cell::new(0));
        let mut slots = SlotArray::try_new(1, HugePages::No).unwrap();
        assert!(slots.occupy(0, Generation::FIRST, |_| 0, Ending(&first)).is_ok());
        let again = || slots.occupy(0, Generation::after(1), |_| 0, Ending(&second)).is_ok();
        // An error, which causes a panic with debug assertions.
        let said = std::panic::catch_unwind(core::panic::AssertUnwindSafe(again));
        assert_eq!(said.is_err(), cfg!(debug_assertions));
        drop(slots);
        assert_eq!((first.get(), second.get()), (0, 1));
    }

    #[cfg(feature = "std")]
    #[test]
    fn a_tag_that_panics_leaves_the_cell_vacant() {
        let ended = core::cell::Cell::new(0);
        let mut slots = SlotArray::try_new(1, HugePages::No).unwrap();
        let occupy = || slots.occupy(0, Generation::FIRST, |_| panic!("no tag"), Ending(&ended)).is_ok();
        assert!(std::panic::catch_unwind(core::panic::AssertUnwindSafe(occupy)).is_err());
        assert!(slots.get_live(0).is_none() && slots.vacate(0).is_none());
        drop(slots);
        assert_eq!(ended.get(), 0, "forgotten");
    }

    #[test]
    fn every_alignment_of_values_is_kept() {
        #[repr(align(4096))]
        struct Page<T>(T);
        let mut slots = SlotArray::try_new(3, HugePages::Try).unwrap();
        for index in 0..3 {
            assert!(slots.occupy(index, Generation::FIRST, |_| 0, Page(index)).is_ok());
        }
        slots.prefault();
        for index in 0..3 {
            let (_, value) = slots.get_live(index).unwrap();
            assert_eq!((ptr::from_ref(value).addr() % 4096, value.0), (0, index));
        }
        assert_eq!(SlotArray::<Page<u32>>::CELL_BYTES, 8192);
        assert_eq!(SlotArray::<Page<()>>::CELL_BYTES, 4096);
    }

    // A sanitizer uses additional pages.
    #[cfg(all(feature = "std", target_os = "linux", target_arch = "x86_64", not(any(miri, sanitized))))]
    #[test]
    fn each_page_is_allocated_once() {
        const PAGES: u32 = 512;
        let mut slots = SlotArray::<[u64; 7]>::try_new(PAGES * 64, HugePages::No).unwrap();
        let before = faults();
        for page in 0..PAGES {
            slots.occupy(page * 64, Generation::FIRST, |_| 1, [0; 7]).unwrap();
        }
        let after = faults() - before;
        assert!(after < PAGES * 3 / 2, "{after} faults for {PAGES} pages");
    }

    #[cfg(all(feature = "std", target_os = "linux", not(miri)))]
    #[test]
    fn untouched_memory_is_not_resident() {
        let resident = || {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
        };
        let before = resident();
        let slots = SlotArray::<[u64; 7]>::try_new(4 << 20, HugePages::No).unwrap();
        assert_eq!(slots.pages().bytes, 256 << 20);
        assert!(resident() < before + (128 << 20), "256 MiB of vacant cells became resident");
    }
}
