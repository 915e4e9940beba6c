//! Hints that a cache line will be read or written.

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

/// Size of a cache line in bytes.
pub const LINE_BYTES: usize = 64;

/// Hints that the line at `address` will be read soon. Any address is allowed: a prefetch never
/// faults.
#[inline(always)]
pub fn read<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    x86_64::read(address);
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    aarch64::read(address);
    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", not(miri)))))]
    let _ = address;
}

/// Hints that the line at `address` will be read later, and should be in the second-level cache
/// until then. Any address is allowed.
///
/// Use it to prefetch many lines ahead. It seems that a line on its way to the first-level cache
/// occupies one of few entries until it arrives, and a line on its way to the second-level cache
/// does not. On a Zen 4, random lines from memory, prefetched 64 to 512 lines ahead in a loop that
/// does nothing else, arrive in 4.0 ns each in this way, and in 8.0 ns with [`read`].
#[inline(always)]
pub fn read_later<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    x86_64::read_later(address);
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    aarch64::read_later(address);
    #[cfg(not(any(target_arch = "x86_64", all(target_arch = "aarch64", not(miri)))))]
    let _ = address;
}

/// Hints that element `index` of `slice` will be read soon. An index past the end is harmless.
#[inline(always)]
pub fn read_at<T>(slice: &[T], index: usize) {
    read(slice.as_ptr().wrapping_add(index));
}

/// Hints that element `index` of `slice` will be read later, like [`read_later`]. An index past the
/// end is harmless.
#[inline(always)]
pub fn read_later_at<T>(slice: &[T], index: usize) {
    read_later(slice.as_ptr().wrapping_add(index));
}

/// Hints that the line at `address`, which another CPU may hold, will be written soon. Any address
/// is allowed.
#[inline(always)]
pub fn write<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    x86_64::write(address);
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    aarch64::write(address);
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    let _ = address;
}
