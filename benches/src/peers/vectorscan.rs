//! Vectorscan, the portable Hyperscan, through the shim in `c/vectorscan.c`.
#![expect(unsafe_code, reason = "calls of a C library")]

use std::ffi::{CString, c_char, c_int, c_uint};
use std::ptr::NonNull;

use anyhow::{Context, Result, bail};

#[repr(C)]
struct Vs {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn flowloom_vs_new(
        patterns: *const *const c_char,
        ids: *const c_uint,
        count: c_uint,
        streaming: c_int,
        bad: *mut c_int,
    ) -> *mut Vs;
    fn flowloom_vs_free(vs: *mut Vs);
    fn flowloom_vs_blocks(
        vs: *mut Vs,
        base: *const u8,
        bounds: *const [u64; 2],
        count: u64,
        out: *mut u32,
    ) -> c_int;
    fn flowloom_vs_streams(
        vs: *mut Vs,
        base: *const u8,
        pieces: *const [u64; 2],
        first: *const u64,
        count: u64,
        out: *mut u32,
    ) -> c_int;
}

/// A compiled set of patterns, with its scratch space.
#[derive(Debug)]
pub struct Vectorscan(NonNull<Vs>);

impl Drop for Vectorscan {
    fn drop(&mut self) {
        // SAFETY: it came from `flowloom_vs_new` and is freed once.
        unsafe { flowloom_vs_free(self.0.as_ptr()) }
    }
}

impl Vectorscan {
    /// Compiles patterns with their ids, for whole buffers or for streams.
    ///
    /// # Errors
    ///
    /// Returns the index of the pattern that it cannot compile.
    pub fn new(patterns: &[(u32, String)], streaming: bool) -> Result<Self, usize> {
        let texts: Vec<CString> = patterns
            .iter()
            .enumerate()
            .map(|(i, (_, text))| CString::new(text.as_str()).map_err(|_| i))
            .collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        let ids: Vec<c_uint> = patterns.iter().map(|(id, _)| *id).collect();
        let mut bad = -1;
        let count = c_uint::try_from(patterns.len()).unwrap_or(0);
        // SAFETY: both lists have `count` entries, and the texts end with zeros and outlive the
        // call.
        let vs = unsafe {
            flowloom_vs_new(pointers.as_ptr(), ids.as_ptr(), count, c_int::from(streaming), &raw mut bad)
        };
        NonNull::new(vs).map(Self).ok_or(usize::try_from(bad).unwrap_or(usize::MAX))
    }

    /// Scans each buffer completely, and writes the lowest id that matched, or `u32::MAX`.
    ///
    /// # Errors
    ///
    /// Returns an error if a range lies outside `bytes`, or vectorscan fails.
    pub fn blocks(&mut self, bytes: &[u8], bounds: &[[u64; 2]], out: &mut [u32]) -> Result<()> {
        check(bytes, bounds)?;
        if out.len() != bounds.len() {
            bail!("{} places for {} answers", out.len(), bounds.len());
        }
        // SAFETY: every bound lies within the bytes, and `out` has a place for each.
        let status = unsafe {
            flowloom_vs_blocks(
                self.0.as_ptr(),
                bytes.as_ptr(),
                bounds.as_ptr(),
                bounds.len() as u64,
                out.as_mut_ptr(),
            )
        };
        if status == 0 { Ok(()) } else { bail!("vectorscan cannot scan a buffer") }
    }

    /// Scans streams piece by piece; stream `i` has the pieces `first[i]..first[i + 1]`.
    ///
    /// # Errors
    ///
    /// Returns an error if a range lies outside `bytes`, or vectorscan fails.
    pub fn streams(
        &mut self,
        bytes: &[u8],
        pieces: &[[u64; 2]],
        first: &[u64],
        out: &mut [u32],
    ) -> Result<()> {
        check(bytes, pieces)?;
        let last = first.last().context("no streams")?;
        if !first.is_sorted() || *last > pieces.len() as u64 || out.len() + 1 != first.len() {
            bail!("streams without their pieces");
        }
        // SAFETY: every piece lies within the bytes, `first` rises up to the number of pieces, and
        // `out` has a place for each stream.
        let status = unsafe {
            flowloom_vs_streams(
                self.0.as_ptr(),
                bytes.as_ptr(),
                pieces.as_ptr(),
                first.as_ptr(),
                out.len() as u64,
                out.as_mut_ptr(),
            )
        };
        if status == 0 { Ok(()) } else { bail!("vectorscan cannot scan a stream") }
    }
}

/// The C side does not check ranges, so this function does; lengths must fit into 32 bits.
fn check(bytes: &[u8], bounds: &[[u64; 2]]) -> Result<()> {
    for &[from, to] in bounds {
        if from > to || to > bytes.len() as u64 || to - from > u64::from(u32::MAX) {
            bail!("bytes {from} to {to} of {}", bytes.len());
        }
    }
    Ok(())
}
