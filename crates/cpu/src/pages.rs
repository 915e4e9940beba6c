//! Zeroed memory that costs nothing until it is touched.
//!
//! A table is sized for the worst hour and used at a tenth of it. Memory that comes zeroed from the
//! kernel is not resident before its first write, so both arrays here give a meaning to all-zero
//! bytes and write nothing when they are built.
//!
//! * [`LineArray`]: plain words that start on a cache line, all zero.
//! * [`SlotArray`]: cells that hold a value or none, told by a generation; all vacant.
//!
//! Huge pages are asked for where they can matter (2 MiB and more), and what was obtained can be
//! read back: an answer that depends on the kernel's mood should not be guessed.
#![expect(unsafe_code, reason = "raw allocation, and cells whose occupancy decides what may be read")]

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::num::NonZeroU32;
use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};
use core::slice;

use crate::prefetch::{self, LINE_BYTES};

/// Bytes of a huge page: the one size worth asking for on the machines we know.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Whether to ask the kernel for huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum HugePages {
    /// Leave it to the kernel's default.
    #[default]
    No,
    /// Ask, for arrays of at least [`HUGE_PAGE_BYTES`]; being refused is not an error.
    Try,
}

/// Bytes of the smallest page: touching one word in each makes an array resident.
const PAGE_BYTES: usize = 4096;

/// The allocator could not provide the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocError {
    /// Bytes that were asked for; `u64::MAX` if the number does not fit an address.
    pub bytes: u64,
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot allocate {} bytes", self.bytes)
    }
}

impl core::error::Error for AllocError {}

/// What an array asked for and what it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PageReport {
    /// Bytes reserved; resident only as far as they were touched.
    pub bytes: u64,
    /// Huge pages were asked for, and the request was accepted.
    pub huge_requested: bool,
    /// Huge pages back at least a part of it; `None` if nobody looked or the system cannot tell.
    pub huge_obtained: Option<bool>,
}

impl PageReport {
    /// Returns the report of two arrays taken together: obtained if either did.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            huge_requested: self.huge_requested || other.huge_requested,
            huge_obtained: match (self.huge_obtained, other.huge_obtained) {
                (Some(a), Some(b)) => Some(a || b),
                (known, None) | (None, known) => known,
            },
        }
    }
}

/// An owned, zeroed, aligned run of bytes.
///
/// The block is larger than what is used, by one alignment, and the start is rounded up by hand: allocators
/// get pages for a *large* block already zeroed and leave them untouched, but for a block with
/// *unusual alignment* they write the zeros themselves, which would make all of it resident.
struct ZeroedMemory {
    block: NonNull<u8>,
    layout: Layout,
    start: NonNull<u8>,
    bytes: usize,
    huge_requested: bool,
}

impl ZeroedMemory {
    /// `element_bytes` and `align` are a type's size and alignment.
    fn try_new(
        element_bytes: usize,
        len: usize,
        align: usize,
        huge: HugePages,
    ) -> Result<Self, AllocError> {
        let too_large = AllocError { bytes: u64::MAX };
        let bytes = element_bytes.checked_mul(len).ok_or(too_large)?;
        let align = align.max(LINE_BYTES);
        let large = huge == HugePages::Try && bytes >= HUGE_PAGE_BYTES;
        let start_align = if large { align.max(HUGE_PAGE_BYTES) } else { align };
        let block_bytes = bytes.checked_add(start_align).ok_or(too_large)?;
        let layout = Layout::from_size_align(block_bytes, size_of::<usize>()).map_err(|_| too_large)?;
        // SAFETY: the layout is not empty, as `start_align` is at least a line.
        let block = unsafe { alloc_zeroed(layout) };
        let block = NonNull::new(block).ok_or(AllocError { bytes: bytes as u64 })?;
        let skip = block.addr().get().wrapping_neg() & (start_align - 1);
        // SAFETY: `skip` is below `start_align`, by which the block is longer than `bytes`.
        let start = unsafe { block.add(skip) };
        let huge_requested = large && advise_huge(start, bytes);
        Ok(Self { block, layout, start, bytes, huge_requested })
    }

    fn report(&self) -> PageReport {
        PageReport { bytes: self.bytes as u64, huge_requested: self.huge_requested, huge_obtained: None }
    }

    fn report_obtained(&self) -> PageReport {
        PageReport { huge_obtained: huge_obtained(self.start.addr().get(), self.bytes), ..self.report() }
    }
}

impl Drop for ZeroedMemory {
    fn drop(&mut self) {
        // SAFETY: `block` came from `alloc_zeroed` with this very layout and is freed only here.
        unsafe { dealloc(self.block.as_ptr(), self.layout) };
    }
}

/// Asks for huge pages behind the whole pages of a run; returns whether the kernel accepted.
fn advise_huge(start: NonNull<u8>, bytes: usize) -> bool {
    #[cfg(all(feature = "std", target_os = "linux", not(miri)))]
    {
        let whole = bytes & !(HUGE_PAGE_BYTES - 1);
        // SAFETY: the range lies in a block that we own and is made of whole huge pages (`start` is
        // aligned to one); this advice changes how pages are backed, not what they hold.
        let advised =
            unsafe { rustix::mm::madvise(start.as_ptr().cast(), whole, rustix::mm::Advice::LinuxHugepage) };
        advised.is_ok()
    }
    #[cfg(not(all(feature = "std", target_os = "linux", not(miri))))]
    {
        let _ = (start, bytes);
        false
    }
}

/// Reads from the kernel's map of this process whether huge pages back a part of a run.
fn huge_obtained(start: usize, bytes: usize) -> Option<bool> {
    #[cfg(all(feature = "std", target_os = "linux", not(miri)))]
    {
        use std::io::{BufRead, BufReader};
        let smaps = BufReader::new(std::fs::File::open("/proc/self/smaps").ok()?);
        let mut inside = false;
        let mut found = None;
        for line in smaps.lines().map_while(Result::ok) {
            if let Some((low, high)) = mapping(&line) {
                inside = low < start + bytes && start < high;
            } else if let (true, Some(size)) = (inside, line.strip_prefix("AnonHugePages:")) {
                found = Some(found == Some(true) || size.trim() != "0 kB");
            }
        }
        found
    }
    #[cfg(not(all(feature = "std", target_os = "linux", not(miri))))]
    {
        let _ = (start, bytes);
        None
    }
}

/// Reads the address range that begins the description of a mapping.
#[cfg(all(feature = "std", target_os = "linux", not(miri)))]
fn mapping(line: &str) -> Option<(usize, usize)> {
    let (low, high) = line.split_once(' ')?.0.split_once('-')?;
    Some((usize::from_str_radix(low, 16).ok()?, usize::from_str_radix(high, 16).ok()?))
}

/// A type for which all-zero bytes are a value, without padding, pointers or drop glue.
///
/// # Safety
///
/// Zero bytes must be a valid value of the type.
pub unsafe trait Zeroable: Copy {}

// SAFETY: zero is a value of every unsigned integer.
unsafe impl Zeroable for u8 {}
// SAFETY: as above.
unsafe impl Zeroable for u16 {}
// SAFETY: as above.
unsafe impl Zeroable for u32 {}
// SAFETY: as above.
unsafe impl Zeroable for u64 {}
// SAFETY: an array of zero bytes is an array of zero elements.
unsafe impl<T: Zeroable, const N: usize> Zeroable for [T; N] {}
// SAFETY: a line is its only field, and padding after it.
unsafe impl<T: Zeroable> Zeroable for CacheLine<T> {}

/// A value that begins on a cache line of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C, align(64))]
pub struct CacheLine<T>(pub T);

/// A fixed-length array of plain words that begins on a cache line; all zero when built.
///
/// It is a slice, by `Deref`.
///
/// # Examples
///
/// ```
/// use flowloom_cpu::pages::{HugePages, LineArray};
/// let mut words = LineArray::<u32>::try_new(1000, HugePages::No)?;
/// words[999] = 7;
/// assert_eq!(words.iter().sum::<u32>(), 7);
/// # Ok::<(), flowloom_cpu::pages::AllocError>(())
/// ```
pub struct LineArray<T> {
    memory: ZeroedMemory,
    len: usize,
    elements: PhantomData<T>,
}

// SAFETY: the array owns its elements as a `Vec<T>` would.
unsafe impl<T: Send> Send for LineArray<T> {}
// SAFETY: shared access gives `&[T]` and nothing else.
unsafe impl<T: Sync> Sync for LineArray<T> {}

impl<T: Zeroable> LineArray<T> {
    /// Returns `len` zeros.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if the allocator has no room.
    pub fn try_new(len: usize, huge: HugePages) -> Result<Self, AllocError> {
        let memory = ZeroedMemory::try_new(size_of::<T>(), len, align_of::<T>(), huge)?;
        Ok(Self { memory, len, elements: PhantomData })
    }

    /// Makes all of it resident now, so that no first touch interrupts later work.
    pub fn prefault(&mut self) {
        for element in self.iter_mut().step_by((PAGE_BYTES / size_of::<T>().max(1)).max(1)) {
            // SAFETY: a reference is valid for writing; the value written is the one that is there.
            unsafe { ptr::write_volatile(element, *element) };
        }
    }

    /// Returns what was asked for.
    pub fn pages(&self) -> PageReport {
        self.memory.report()
    }

    /// Returns what was asked for and what the kernel gave; reads the process's map, which is slow.
    pub fn pages_obtained(&self) -> PageReport {
        self.memory.report_obtained()
    }
}

impl<T> Deref for LineArray<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `start` is aligned for T and followed by `len` elements (`try_new` of this type, the
        // only constructor); they were zeroed, which `Zeroable` makes values, and written only as T.
        unsafe { slice::from_raw_parts(self.memory.start.as_ptr().cast(), self.len) }
    }
}

impl<T> DerefMut for LineArray<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; `&mut self` makes the access exclusive.
        unsafe { slice::from_raw_parts_mut(self.memory.start.as_ptr().cast(), self.len) }
    }
}

impl<T> fmt::Debug for LineArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineArray").field("len", &self.len).field("pages", &self.memory.report()).finish()
    }
}

/// Which tenant of a cell: an odd number, as that of every tenant is.
///
/// A cell that has this generation is occupied, so whoever compares generations need not ask for more.
///
/// # Examples
///
/// ```
/// use flowloom_cpu::pages::Generation;
/// assert_eq!(Generation::new(3).map(Generation::get), Some(3));
/// assert_eq!(Generation::new(4), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(NonZeroU32);

impl Generation {
    /// The first tenant of every cell.
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// Returns the generation of this number; `None` if it is even.
    #[inline(always)]
    #[must_use]
    pub const fn new(number: u32) -> Option<Self> {
        if number & 1 == 0 { None } else { Some(Self::of_vacant(number)) }
    }

    /// Returns the generation of a vacant cell's next tenant, or of an odd number itself.
    #[inline(always)]
    const fn of_vacant(number: u32) -> Self {
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

/// A place that holds a value or none.
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
}

/// A fixed-length array of cells, each vacant or holding a value, on cache lines of their own.
///
/// ```text
/// cell   | generation u32 | tag u32 | value T … |   a multiple of 64 bytes; T of 56 bytes: one line
/// ```
///
/// The *generation* counts both occupations and vacations: odd while occupied. Whoever remembers
/// (index, generation) can tell its value from a later one in the same cell. It wraps after 2³¹
/// occupations of one cell; a memory that is older than that may be mistaken. The *tag* is the
/// user's word and survives vacation.
///
/// Indices past the end behave as cells that are vacant and cannot be occupied: nothing panics.
///
/// # Examples
///
/// ```
/// use flowloom_cpu::pages::{HugePages, SlotArray};
/// let mut slots = SlotArray::try_new(4, HugePages::No)?;
/// let generation = slots.occupy(2, 0, "flow").expect("cell 2 is vacant");
/// assert_eq!(slots.get(2, generation), Some(&"flow"));
/// assert_eq!(slots.vacate(2), Some("flow"));
/// assert_eq!(slots.get(2, generation), None);
/// # Ok::<(), flowloom_cpu::pages::AllocError>(())
/// ```
pub struct SlotArray<T> {
    memory: ZeroedMemory,
    len: u32,
    cells: PhantomData<Cell<T>>,
}

// SAFETY: the array owns its values as a `Vec<T>` would.
unsafe impl<T: Send> Send for SlotArray<T> {}
// SAFETY: shared access gives `&T` and copies of plain words.
unsafe impl<T: Sync> Sync for SlotArray<T> {}

impl<T> SlotArray<T> {
    /// Bytes from one cell to the next.
    pub const CELL_BYTES: usize = size_of::<Cell<T>>();

    /// Returns `len` vacant cells.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if the allocator has no room.
    pub fn try_new(len: u32, huge: HugePages) -> Result<Self, AllocError> {
        let memory = ZeroedMemory::try_new(Self::CELL_BYTES, len as usize, align_of::<Cell<T>>(), huge)?;
        Ok(Self { memory, len, cells: PhantomData })
    }

    /// Makes all of it resident now, so that no first touch interrupts later work.
    ///
    /// Of a cell that is larger than a page only the first page is touched.
    pub fn prefault(&mut self) {
        for cell in self.cells_mut().iter_mut().step_by((PAGE_BYTES / Self::CELL_BYTES).max(1)) {
            // SAFETY: a reference is valid for writing; the word written is the one that is there.
            unsafe { ptr::write_volatile(&raw mut cell.generation, cell.generation) };
        }
    }

    /// Returns the number of cells.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Returns whether there are no cells at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    fn cells(&self) -> &[Cell<T>] {
        // SAFETY: `start` is aligned for and followed by `len` cells (`try_new`). Zero bytes are a cell:
        // two zero words and an uninitialised value; later writes went through `cells_mut`.
        unsafe { slice::from_raw_parts(self.memory.start.as_ptr().cast(), self.len as usize) }
    }

    #[inline(always)]
    fn cells_mut(&mut self) -> &mut [Cell<T>] {
        // SAFETY: as in `cells`; `&mut self` makes the access exclusive.
        unsafe { slice::from_raw_parts_mut(self.memory.start.as_ptr().cast(), self.len as usize) }
    }

    /// Puts a value into a vacant cell and returns the cell's generation.
    ///
    /// # Errors
    ///
    /// Gives the value back if the cell is occupied or there is no such cell.
    #[inline]
    pub fn occupy(&mut self, index: u32, tag: u32, value: T) -> Result<Generation, T> {
        match self.cells_mut().get_mut(index as usize) {
            Some(cell) if !cell.is_occupied() => {
                let generation = Generation::of_vacant(cell.generation);
                cell.value.write(value);
                cell.tag = tag;
                cell.generation = generation.get();
                Ok(generation)
            }
            _ => Err(value),
        }
    }

    /// Takes the value out of a cell, if there is one.
    #[inline]
    pub fn vacate(&mut self, index: u32) -> Option<T> {
        let cell = self.cells_mut().get_mut(index as usize)?;
        if !cell.is_occupied() {
            return None;
        }
        cell.generation = cell.generation.wrapping_add(1);
        // SAFETY: the generation was odd, so the value is initialised (`occupy` writes it before making
        // the generation odd); it is even now, so the value cannot be taken twice.
        Some(unsafe { cell.value.assume_init_read() })
    }

    /// Takes the value out of a cell, if it is still the one of that generation.
    #[inline]
    pub fn vacate_tenant(&mut self, index: u32, generation: Generation) -> Option<T> {
        let cell = self.cells_mut().get_mut(index as usize)?;
        if cell.generation != generation.get() {
            return None;
        }
        cell.generation = cell.generation.wrapping_add(1);
        // SAFETY: as in `vacate`: the generation was odd, as every `Generation` is (its one public constructor), and is
        // even now.
        Some(unsafe { cell.value.assume_init_read() })
    }

    /// Returns the value of a cell, if it is still the one of that generation.
    #[inline(always)]
    pub fn get(&self, index: u32, generation: Generation) -> Option<&T> {
        let cell = self.cells().get(index as usize)?;
        if cell.generation != generation.get() {
            return None;
        }
        // SAFETY: a `Generation` is odd, so the cell is occupied, hence initialised.
        Some(unsafe { cell.value.assume_init_ref() })
    }

    /// Returns the value of a cell for changing, if it is still the one of that generation.
    #[inline(always)]
    pub fn get_mut(&mut self, index: u32, generation: Generation) -> Option<&mut T> {
        let cell = self.cells_mut().get_mut(index as usize)?;
        if cell.generation != generation.get() {
            return None;
        }
        // SAFETY: a `Generation` is odd, so the cell is occupied, hence initialised.
        Some(unsafe { cell.value.assume_init_mut() })
    }

    /// Returns whatever an occupied cell holds, with its generation.
    #[inline(always)]
    pub fn get_live(&self, index: u32) -> Option<(Generation, &T)> {
        self.view().get_live(index)
    }

    /// Returns the cells to look at, for loops: where they are and how many is then known, whatever the loop writes.
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

    /// Returns what was asked for.
    pub fn pages(&self) -> PageReport {
        self.memory.report()
    }

    /// Returns what was asked for and what the kernel gave; reads the process's map, which is slow.
    pub fn pages_obtained(&self) -> PageReport {
        self.memory.report_obtained()
    }
}

/// The cells of a [`SlotArray`], to look at.
pub struct SlotView<'a, T>(&'a [Cell<T>]);

impl<T> Clone for SlotView<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SlotView<'_, T> {}

impl<'a, T> SlotView<'a, T> {
    /// Returns whatever an occupied cell holds, with its generation.
    #[inline(always)]
    pub fn get_live(self, index: u32) -> Option<(Generation, &'a T)> {
        let cell = self.0.get(index as usize)?;
        let generation = Generation::new(cell.generation)?;
        // SAFETY: the generation is odd, so the cell is occupied, hence initialised.
        Some((generation, unsafe { cell.value.assume_init_ref() }))
    }

    /// Hints that a cell will be read soon: all its lines, but at most four.
    #[inline(always)]
    pub fn prefetch(self, index: u32) {
        let cell = self.0.as_ptr().wrapping_add(index as usize);
        for line in 0..(size_of::<Cell<T>>() / LINE_BYTES).min(4) {
            prefetch::read(cell.wrapping_byte_add(line * LINE_BYTES));
        }
    }
}

impl<T> fmt::Debug for SlotView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotView").field("len", &self.0.len()).finish()
    }
}

impl<T> Drop for SlotArray<T> {
    fn drop(&mut self) {
        if !core::mem::needs_drop::<T>() {
            return;
        }
        for index in 0..self.len {
            drop(self.vacate(index));
        }
    }
}

impl<T> fmt::Debug for SlotArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotArray").field("len", &self.len).field("pages", &self.memory.report()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::rc::Rc;

    #[test]
    fn arrays_begin_on_a_line_and_are_zero() {
        for len in [0, 1, 15, 1000] {
            let words = LineArray::<u32>::try_new(len, HugePages::Try).unwrap();
            assert_eq!(words.as_ptr().addr() % LINE_BYTES, 0);
            assert_eq!(words.len(), len);
            assert!(words.iter().all(|&word| word == 0));
        }
        let lines = LineArray::<CacheLine<[u32; 16]>>::try_new(3, HugePages::No).unwrap();
        assert_eq!(lines.pages().bytes, 3 * 64);
    }

    #[test]
    fn a_cell_of_56_bytes_is_one_line() {
        assert_eq!(SlotArray::<[u64; 7]>::CELL_BYTES, 64);
        assert_eq!(SlotArray::<[u64; 8]>::CELL_BYTES, 128);
        assert_eq!(SlotArray::<()>::CELL_BYTES, 64);
    }

    #[test]
    fn a_stale_generation_finds_nothing() {
        let mut slots = SlotArray::try_new(2, HugePages::No).unwrap();
        let old = slots.occupy(1, 9, 10_u64).unwrap();
        assert_eq!(slots.occupy(1, 9, 11), Err(11));
        assert_eq!(slots.tag(1), 9);
        assert_eq!(slots.vacate_tenant(1, Generation::new(old.get() + 2).unwrap()), None);
        assert_eq!(slots.vacate_tenant(1, old), Some(10));
        assert_eq!(slots.vacate_tenant(1, old), None);
        assert_eq!(slots.vacate(1), None);
        let new = slots.occupy(1, 0, 12).unwrap();
        assert_ne!(old, new);
        assert_eq!(slots.get(1, old), None);
        assert_eq!(slots.get_mut(1, old), None);
        *slots.get_mut(1, new).unwrap() += 1;
        assert_eq!(slots.get(1, new), Some(&13));
        assert_eq!(slots.get_live(1), Some((new, &13)));
        assert_eq!((old.get(), new.get()), (1, 3));
    }

    #[test]
    fn prefaulting_changes_nothing() {
        let mut slots = SlotArray::try_new(200, HugePages::No).unwrap();
        let generation = slots.occupy(64, 3, 'x').unwrap();
        slots.prefault();
        assert_eq!(slots.get_live(64), Some((generation, &'x')));
        assert_eq!(slots.get_live(65), None);
        let mut words = LineArray::<u64>::try_new(2000, HugePages::No).unwrap();
        words[512] = 9;
        words.prefault();
        assert_eq!(words.iter().sum::<u64>(), 9);
    }

    #[test]
    fn past_the_end_is_vacant_and_stays_so() {
        let mut slots = SlotArray::try_new(1, HugePages::No).unwrap();
        assert_eq!(slots.occupy(1, 0, 'x'), Err('x'));
        assert_eq!(slots.get_live(1), None);
        assert_eq!(slots.vacate(u32::MAX), None);
        slots.set_tag(1, 1);
        assert_eq!(slots.tag(1), 0);
        slots.prefetch(u32::MAX);
    }

    #[test]
    fn the_generation_wraps_and_stays_odd_while_occupied() {
        let mut slots = SlotArray::try_new(1, HugePages::No).unwrap();
        slots.cells_mut()[0].generation = u32::MAX - 1;
        assert_eq!(slots.occupy(0, 0, 1_u8).map(Generation::get), Ok(u32::MAX));
        assert_eq!(slots.vacate(0), Some(1));
        assert_eq!(slots.occupy(0, 0, 2), Ok(Generation::FIRST));
    }

    #[test]
    fn values_are_dropped_once() {
        let value = Rc::new(());
        let mut slots = SlotArray::try_new(8, HugePages::No).unwrap();
        for index in 0..6 {
            slots.occupy(index, 0, Rc::clone(&value)).unwrap();
        }
        drop(slots.vacate(3));
        assert_eq!(Rc::strong_count(&value), 6);
        drop(slots);
        assert_eq!(Rc::strong_count(&value), 1);
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        assert_eq!(
            LineArray::<[u64; 1 << 20]>::try_new(usize::MAX / 16, HugePages::No).err(),
            Some(AllocError { bytes: u64::MAX })
        );
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

    #[cfg(all(feature = "std", target_os = "linux", not(miri)))]
    #[test]
    fn huge_pages_are_reported_as_the_kernel_tells() {
        let mut words = LineArray::<u64>::try_new(HUGE_PAGE_BYTES / 2, HugePages::Try).unwrap();
        assert_eq!(words.as_ptr().addr() % HUGE_PAGE_BYTES, 0);
        words.iter_mut().step_by(512).for_each(|word| *word = 1);
        let report = words.pages_obtained();
        if report.huge_requested {
            assert!(report.huge_obtained.is_some());
        }
    }
}
