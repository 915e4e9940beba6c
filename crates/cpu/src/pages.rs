//! Zeroed memory that takes no physical pages until it is touched.
//!
//! A table is sized for the busiest hour but mostly used at a tenth of its size. Zeroed memory from
//! the kernel is not resident before its first write. Therefore all arrays here define a meaning
//! for all-zero bytes and write nothing when they are built.
//!
//! * [`LineArray`]: plain words that start on a cache line, all zero.
//! * [`SlotArray`]: cells with or without a value, marked by a generation; all vacant at first.
//!
//! Huge pages are requested where they can matter (2 MiB and more; a remainder also gets one if it
//! fills half of it). The result can be queried, because the kernel may refuse at any time.
#![expect(unsafe_code, reason = "raw allocation")]

use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::fmt;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::num::NonZeroUsize;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use core::slice;

use crate::prefetch::LINE_BYTES;

mod slots;

pub use slots::{Generation, SlotArray, SlotView, SlotWalkMut};

/// Size of a huge page in bytes: the common size on supported machines.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Whether to request huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum HugePages {
    /// Use the kernel's default.
    #[default]
    No,
    /// Request them for arrays of at least [`HUGE_PAGE_BYTES`]; a refusal is not an error.
    Try,
}

/// Size in bytes of two lines, the first of which has an even number.
const PAIR_BYTES: usize = 2 * LINE_BYTES;

/// Size of the smallest page in bytes: touching one word in each page makes an array resident.
const PAGE_BYTES: usize = 4096;

/// Alignment that is requested from the allocator.
const BLOCK_ALIGN: usize = size_of::<usize>();

/// The allocator could not provide the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AllocError {
    /// Requested bytes; `u64::MAX` if the number exceeds the address range.
    pub bytes: u64,
}

impl fmt::Display for AllocError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot allocate {} bytes", self.bytes)
    }
}

impl core::error::Error for AllocError {}

/// The huge pages that were requested and obtained for an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PageReport {
    /// Reserved bytes. Only touched pages are resident; with huge pages, up to a megabyte more.
    pub bytes: u64,
    /// Whether huge pages were requested, and the kernel accepted the request.
    pub huge_requested: bool,
    /// Whether huge pages back at least a part of it; `None` if the kernel was not asked, as for a
    /// small array, or does not report it.
    pub huge_obtained: Option<bool>,
}

impl PageReport {
    /// Returns the combined report of two arrays; huge pages count as obtained if either array
    /// obtained them.
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
/// The block is larger than needed by one alignment, and the start is rounded up manually.
/// Allocators return the pages of a large block zeroed and untouched, but write the zeros for a
/// block with *unusual alignment*, which would make all of it resident.
struct ZeroedMemory {
    block: NonNull<u8>,
    /// Size of the block; 0 if nothing is allocated, because there are no bytes.
    block_bytes: usize,
    start: NonNull<u8>,
    bytes: usize,
    huge_requested: bool,
}

impl ZeroedMemory {
    /// `element_bytes` and `align` are the size and alignment of the element type. No bytes need no
    /// allocation.
    ///
    /// Elements of an even number of lines begin at an odd line, by memory address. If all first
    /// lines are even, a Zen 4 ignores [early prefetches](crate::prefetch::read_later) of them:
    /// reading then takes 12 to 36 ns per line, as without a prefetch. It takes 5 to 11 ns if the
    /// first lines are odd or mixed, or elements have an odd number of lines.
    fn try_new(
        element_bytes: usize,
        len: usize,
        align: usize,
        huge: HugePages,
    ) -> Result<Self, AllocError> {
        let too_large = AllocError { bytes: u64::MAX };
        let bytes = element_bytes.checked_mul(len).ok_or(too_large)?;
        if bytes == 0 {
            let start =
                NonNull::without_provenance(NonZeroUsize::new(align.max(LINE_BYTES)).ok_or(too_large)?);
            return Ok(Self { block: start, block_bytes: 0, start, bytes, huge_requested: false });
        }
        let is_even = element_bytes != 0 && element_bytes.is_multiple_of(PAIR_BYTES) && align <= LINE_BYTES;
        let (lead, align) = if is_even { (LINE_BYTES, PAIR_BYTES) } else { (0, align.max(LINE_BYTES)) };
        let reserved = bytes.checked_add(lead).ok_or(too_large)?;
        let large = huge == HugePages::Try && bytes >= HUGE_PAGE_BYTES;
        let start_align = if large { align.max(HUGE_PAGE_BYTES) } else { align };
        let huge_bytes = if large { huge_pages_of(reserved).ok_or(too_large)? } else { 0 };
        let block_bytes = reserved.max(huge_bytes).checked_add(start_align).ok_or(too_large)?;
        let layout = Layout::from_size_align(block_bytes, BLOCK_ALIGN).map_err(|_| too_large)?;
        // SAFETY: the layout is not empty, because `start_align` is at least a line.
        let block = unsafe { alloc_zeroed(layout) };
        let block = NonNull::new(block).ok_or(AllocError { bytes: bytes as u64 })?;
        let skip = block.addr().get().wrapping_neg() & (start_align - 1);
        // SAFETY: `skip` is below `start_align`, and the block is longer than `reserved` and
        // `huge_bytes` by `start_align`.
        let aligned = unsafe { block.add(skip) };
        let huge_requested = large && advise_huge(aligned, huge_bytes);
        // SAFETY: `reserved` is the sum of `lead` and `bytes`.
        let start = unsafe { aligned.add(lead) };
        Ok(Self { block, block_bytes, start, bytes, huge_requested })
    }

    /// Writes one byte of each page, with its present value.
    fn prefault(&mut self) {
        // The first element need not begin at a page boundary, so the last page may contain less
        // than one step.
        for place in (0..self.bytes).step_by(PAGE_BYTES).chain(self.bytes.checked_sub(1)) {
            // SAFETY: `place` is below `bytes`, all of which this value owns, and `&mut self`
            // excludes other accesses. The byte is read and written as `MaybeUninit`, so it need
            // not be initialised.
            unsafe {
                let byte = self.start.add(place).cast::<MaybeUninit<u8>>();
                byte.write_volatile(byte.read_volatile());
            }
        }
    }

    fn report(&self) -> PageReport {
        PageReport { bytes: self.bytes as u64, huge_requested: self.huge_requested, huge_obtained: None }
    }

    fn report_obtained(&self) -> PageReport {
        // To write its map, the kernel walks the pages of the whole process, so this is skipped for
        // an array without space for a huge page.
        let huge_obtained = if self.bytes < HUGE_PAGE_BYTES {
            None
        } else {
            huge_obtained(self.start.addr().get(), self.bytes)
        };
        PageReport { huge_obtained, ..self.report() }
    }
}

impl Drop for ZeroedMemory {
    fn drop(&mut self) {
        if self.block_bytes != 0 {
            // SAFETY: `try_new` made a layout of this size and alignment, so both are valid;
            // `block` came from `alloc_zeroed` with it and is freed only here.
            unsafe {
                let layout = Layout::from_size_align_unchecked(self.block_bytes, BLOCK_ALIGN);
                dealloc(self.block.as_ptr(), layout);
            }
        }
    }
}

/// Returns the number of bytes of the huge pages for this many bytes, if the last page is at least
/// half used.
fn huge_pages_of(bytes: usize) -> Option<usize> {
    Some(bytes.checked_add(HUGE_PAGE_BYTES / 2)? & !(HUGE_PAGE_BYTES - 1))
}

/// Requests huge pages for a range of whole huge pages. Returns whether the kernel accepted.
fn advise_huge(start: NonNull<u8>, bytes: usize) -> bool {
    #[cfg(all(feature = "std", target_os = "linux", not(miri)))]
    {
        // SAFETY: the range lies in an owned block and consists of whole huge pages (`start` is
        // aligned to one). This advice changes how pages are backed, not their contents.
        let advised =
            unsafe { rustix::mm::madvise(start.as_ptr().cast(), bytes, rustix::mm::Advice::LinuxHugepage) };
        advised.is_ok()
    }
    #[cfg(not(all(feature = "std", target_os = "linux", not(miri))))]
    {
        let _ = (start, bytes);
        false
    }
}

/// Determines from the kernel's map of this process whether huge pages back a part of a range.
fn huge_obtained(start: usize, bytes: usize) -> Option<bool> {
    #[cfg(all(feature = "std", target_os = "linux", not(miri)))]
    {
        huge_in(std::io::BufReader::new(std::fs::File::open("/proc/self/smaps").ok()?), start, bytes)
    }
    #[cfg(not(all(feature = "std", target_os = "linux", not(miri))))]
    {
        let _ = (start, bytes);
        None
    }
}

/// Determines the same from the text of such a map.
#[cfg(all(feature = "std", target_os = "linux", not(miri)))]
fn huge_in(smaps: impl std::io::BufRead, start: usize, bytes: usize) -> Option<bool> {
    let mut inside = false;
    let mut found = None;
    for line in smaps.lines().map_while(Result::ok) {
        if let Some((low, high)) = mapping(&line) {
            // The map is sorted, and the kernel walks the pages of each mapping when its
            // description is read.
            if low >= start + bytes {
                break;
            }
            inside = start < high;
        } else if let (true, Some(size)) = (inside, line.strip_prefix("AnonHugePages:")) {
            found = Some(size.trim() != "0 kB");
            if found == Some(true) {
                break;
            }
        }
    }
    found
}

/// Parses the address range at the beginning of a mapping's description.
#[cfg(all(feature = "std", target_os = "linux", not(miri)))]
fn mapping(line: &str) -> Option<(usize, usize)> {
    let (low, high) = line.split_once(' ')?.0.split_once('-')?;
    Some((usize::from_str_radix(low, 16).ok()?, usize::from_str_radix(high, 16).ok()?))
}

/// A type for which all-zero bytes are a valid value, without padding, pointers or drop glue.
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

/// A value that begins at a cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(C, align(64))]
pub struct CacheLine<T>(pub T);

/// A fixed-length array of plain words that begins at a cache line, initially all zero.
///
/// It dereferences to a slice.
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
    /// Returns [`AllocError`] if the allocator refuses the memory.
    pub fn try_new(len: usize, huge: HugePages) -> Result<Self, AllocError> {
        let memory = ZeroedMemory::try_new(size_of::<T>(), len, align_of::<T>(), huge)?;
        Ok(Self { memory, len, elements: PhantomData })
    }

    /// Makes the whole array resident, so that no first touch interrupts later work.
    pub fn prefault(&mut self) {
        self.memory.prefault();
    }

    /// Returns the huge pages that were requested.
    pub fn pages(&self) -> PageReport {
        self.memory.report()
    }

    /// Returns the huge pages that were requested and obtained. It reads the process's map, which
    /// is slow.
    pub fn pages_obtained(&self) -> PageReport {
        self.memory.report_obtained()
    }
}

impl<T> Deref for LineArray<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `start` is aligned for T and followed by `len` elements (`try_new` of this type,
        // the only constructor); they were zeroed, which `Zeroable` makes valid values, and written
        // only as T.
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

/// Elements that are selected by a fraction of 2³², such as the upper half of a hash. This takes a
/// multiplication instead of a remainder, and no bounds check.
///
/// # Examples
///
/// ```
/// use flowloom_cpu::pages::Fractions;
/// let thirds = Fractions::new(&['a', 'b', 'c']).expect("neither empty nor too long");
/// assert_eq!(thirds.at(0), (0, &'a'));
/// assert_eq!(thirds.at(u32::MAX / 2), (1, &'b'));
/// assert_eq!(thirds.at(u32::MAX), (2, &'c'));
/// ```
#[derive(Debug)]
pub struct Fractions<'a, T>(&'a [T]);

impl<T> Clone for Fractions<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Fractions<'_, T> {}

impl<'a, T> Fractions<'a, T> {
    /// Returns a slice to select from; `None` if it is empty, or longer than 32-bit numbers allow.
    #[inline]
    pub fn new(elements: &'a [T]) -> Option<Self> {
        (!elements.is_empty() && u32::try_from(elements.len()).is_ok()).then_some(Self(elements))
    }

    /// Returns the element of a fraction, and its number: `fraction · length / 2³²`, rounded down.
    #[inline(always)]
    pub fn at(self, fraction: u32) -> (u32, &'a T) {
        let number = (u64::from(fraction) * self.0.len() as u64) >> 32;
        // SAFETY: the length is from 1 to 2³² - 1 (`new`) and the fraction below 2³², so the
        // product does not overflow and is below 2³² · length; shifted, it is below the length.
        (number as u32, unsafe { self.0.get_unchecked(number as usize) })
    }

    /// Returns all elements.
    #[inline(always)]
    pub fn as_slice(self) -> &'a [T] {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// Page faults of this thread.
    #[cfg(all(feature = "std", target_os = "linux", target_arch = "x86_64", not(any(miri, sanitized))))]
    pub(super) fn faults() -> u32 {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let after_name = stat.rsplit(')').next().unwrap();
        after_name.split(' ').nth(8).unwrap().parse().unwrap()
    }

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
    fn elements_of_an_even_number_of_lines_begin_at_an_odd_line() {
        fn odd<T: Zeroable>(len: usize, huge: HugePages) -> bool {
            let array = LineArray::<T>::try_new(len, huge).unwrap();
            assert_eq!(array.pages().bytes, (len * size_of::<T>()) as u64);
            array.as_ptr().addr() % PAIR_BYTES == LINE_BYTES
        }
        for huge in [HugePages::No, HugePages::Try] {
            for len in [1, 2, 33, 3 * HUGE_PAGE_BYTES / PAIR_BYTES] {
                assert!(odd::<CacheLine<[u64; 16]>>(len, huge), "{len} of two lines");
                assert!(odd::<CacheLine<[u64; 32]>>(len, huge), "{len} of four lines");
            }
            assert!(!odd::<CacheLine<[u64; 8]>>(HUGE_PAGE_BYTES, HugePages::Try));
            assert!(!odd::<u64>(HUGE_PAGE_BYTES, HugePages::Try));
        }
        let mut slots = SlotArray::<[u64; 15]>::try_new(3, HugePages::No).unwrap();
        slots.occupy(2, Generation::FIRST, |_| 0, [7; 15]).unwrap();
        let address = core::ptr::from_ref(slots.get(2, Generation::FIRST).unwrap()).addr();
        assert_eq!(address % PAIR_BYTES, LINE_BYTES + 8);
    }

    #[test]
    fn a_fraction_is_never_past_the_end() {
        assert!(Fractions::<u8>::new(&[]).is_none());
        for len in [1_u32, 2, 3, 30, 1000] {
            let elements: Vec<u32> = (0..len).collect();
            let fractions = Fractions::new(&elements).unwrap();
            let near =
                |part: u64| [part.saturating_sub(1), part, part + 1].map(|part| part.min(0xFFFF_FFFF));
            for fraction in (0..=u64::from(len)).flat_map(|i| near((i << 32) / u64::from(len))) {
                let expected = u32::try_from((fraction * u64::from(len)) >> 32).unwrap();
                assert_eq!(fractions.at(u32::try_from(fraction).unwrap()), (expected, &expected));
            }
        }
    }

    #[test]
    fn an_impossible_size_is_an_error() {
        assert_eq!(
            LineArray::<[u64; 1 << 20]>::try_new(usize::MAX / 16, HugePages::No).err(),
            Some(AllocError { bytes: u64::MAX })
        );
    }

    #[test]
    fn huge_pages_are_at_least_half_used() {
        const HALF: usize = HUGE_PAGE_BYTES / 2;
        for (bytes, pages) in
            [(2 * HALF, 1), (3 * HALF - 1, 1), (3 * HALF, 2), (4 * HALF + 1, 2), (7 * HALF, 4)]
        {
            assert_eq!(huge_pages_of(bytes), Some(pages * HUGE_PAGE_BYTES), "{bytes}");
        }
        assert_eq!(huge_pages_of(usize::MAX), None);
    }

    // A sanitizer uses additional pages.
    #[cfg(all(feature = "std", target_os = "linux", target_arch = "x86_64", not(any(miri, sanitized))))]
    #[test]
    fn prefaulted_arrays_are_resident() {
        const ARRAYS: u32 = 64;
        let mut words: Vec<_> =
            (0..ARRAYS).map(|_| LineArray::<u64>::try_new(40 * 512, HugePages::No).unwrap()).collect();
        let mut slots: Vec<_> =
            (0..ARRAYS).map(|_| SlotArray::<[u64; 15]>::try_new(40 * 32, HugePages::No).unwrap()).collect();
        words.iter_mut().for_each(LineArray::prefault);
        slots.iter_mut().for_each(SlotArray::prefault);
        let before = faults();
        for (words, slots) in words.iter_mut().zip(&mut slots) {
            *words.last_mut().unwrap() = 1;
            slots.occupy(slots.len() - 1, Generation::FIRST, |_| 1, [1; 15]).unwrap();
        }
        let after = faults() - before;
        assert!(after < ARRAYS / 2, "{after} faults for the ends of {ARRAYS} arrays of each kind");
    }

    #[cfg(all(feature = "std", target_os = "linux", not(miri)))]
    #[test]
    fn huge_pages_are_reported_as_the_kernel_reports_them() {
        let mut words = LineArray::<u64>::try_new(HUGE_PAGE_BYTES / 2, HugePages::Try).unwrap();
        assert_eq!(words.as_ptr().addr() % HUGE_PAGE_BYTES, 0);
        words.iter_mut().step_by(512).for_each(|word| *word = 1);
        let report = words.pages_obtained();
        assert_eq!(report, PageReport { huge_obtained: report.huge_obtained, ..words.pages() });
        assert_eq!(report.bytes, 4 * HUGE_PAGE_BYTES as u64);
        let kernel_has_them = std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists();
        assert!(report.huge_requested || !kernel_has_them);
        if report.huge_requested {
            assert!(report.huge_obtained.is_some());
            // Emulated machines have their own maps.
            if cfg!(all(target_arch = "x86_64", not(sanitized))) {
                let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
                let at = words.as_ptr().addr();
                let mut lines = smaps
                    .lines()
                    .skip_while(|line| mapping(line).is_none_or(|(low, high)| !(low..high).contains(&at)));
                let flags = lines.find_map(|line| line.strip_prefix("VmFlags:")).unwrap();
                assert!(
                    flags.split(' ').any(|flag| flag == "hg"),
                    "the kernel did not get the request: {flags}"
                );
            }
        }
        let small = LineArray::<u8>::try_new(HUGE_PAGE_BYTES - 1, HugePages::Try).unwrap();
        assert_eq!(small.pages_obtained(), small.pages(), "there is no space for one");
        let unasked = LineArray::<u8>::try_new(HUGE_PAGE_BYTES, HugePages::No).unwrap();
        assert!(!small.pages().huge_requested && !unasked.pages().huge_requested);
    }

    #[cfg(all(feature = "std", target_os = "linux", not(miri)))]
    #[test]
    fn one_huge_page_counts_as_partly_huge() {
        let smaps = "1000-3000 rw-p 00000000 00:00 0\nAnonHugePages:      2048 kB\n\
                     3000-5000 rw-p 00000000 00:00 0\nRss: 4 kB\nAnonHugePages:         0 kB\n\
                     5000-6000 rw-p 00000000 00:00 0\nAnonHugePages:      4096 kB\n\
                     6000-7000 rw-p 00000000 00:00 0\nAnonHugePages:         0 kB\n";
        let huge = |start, end| huge_in(smaps.as_bytes(), start, end - start);
        assert_eq!(
            huge(0x3000, 0x5000),
            Some(false),
            "neither what ends where it begins nor what begins where it ends"
        );
        assert_eq!([huge(0x2FFF, 0x5000), huge(0x3000, 0x5001), huge(0x3000, 0x7000)], [Some(true); 3]);
        assert_eq!([huge(0x0, 0x1000), huge(0x7000, 0x8000)], [None; 2]);
    }

    #[test]
    fn reports_of_two_arrays_add_up() {
        let report =
            |bytes, huge_requested, huge_obtained| PageReport { bytes, huge_requested, huge_obtained };
        let (no, yes) = (report(3, false, Some(false)), report(4, true, Some(true)));
        assert_eq!(no.and(yes), report(7, true, Some(true)));
        assert_eq!(yes.and(no), no.and(yes));
        assert_eq!(no.and(no), report(6, false, Some(false)));
        assert_eq!(
            report(1, true, None).and(no),
            report(4, true, Some(false)),
            "one that was not asked about"
        );
        assert_eq!(AllocError { bytes: 7 }.to_string(), "cannot allocate 7 bytes");
    }

    #[cfg(all(
        feature = "std",
        target_os = "linux",
        target_pointer_width = "64",
        not(any(miri, sanitized))
    ))]
    #[test]
    fn memory_is_returned_to_the_system() {
        let reserved = || {
            let status = std::fs::read_to_string("/proc/self/status").unwrap();
            let size = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
            size.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
        };
        let before = reserved();
        for _ in 0..64 {
            drop(LineArray::<u8>::try_new(1 << 26, HugePages::No).unwrap());
            drop(SlotArray::<u64>::try_new(1 << 20, HugePages::No).unwrap());
        }
        // Other tests use memory too, but not gigabytes.
        assert!(reserved() < before + (2 << 20), "{before} kB before, {} after", reserved());
    }
}
