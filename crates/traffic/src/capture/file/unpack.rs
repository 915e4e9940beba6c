//! Decompresses with limits, so that a small file cannot expand endlessly.

use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::capture::format::Packing;
use crate::capture::gzip::GzipReader;

/// Limits on unpacking a compressed capture.
///
/// Any version may add fields, so end a literal with `..UnpackLimits::default()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpackLimits {
    /// Maximum number of unpacked bytes.
    pub bytes_max: u64,
    /// Maximum number of unpacked bytes per packed byte, checked after `ratio_after_bytes` were
    /// unpacked; `None` for any ratio.
    pub ratio_max: Option<u64>,
    /// Number of unpacked bytes after which the ratio is checked.
    pub ratio_after_bytes: u64,
}

impl Default for UnpackLimits {
    /// 1 TiB at any ratio. A ratio, if set, applies after 256 MiB.
    ///
    /// A capture of one repeated packet compresses as well as a decompression bomb, so a ratio
    /// alone proves nothing. Unpacking uses streams: `bytes_max` limits the output, and the buffers
    /// limit the memory.
    fn default() -> Self {
        Self { bytes_max: 1 << 40, ratio_max: None, ratio_after_bytes: 256 << 20 }
    }
}

/// The limit that an input exceeded, carried through [`io::Error`].
#[derive(Debug)]
pub(crate) struct LimitBroken {
    pub(crate) packed_bytes: u64,
    pub(crate) unpacked_bytes: u64,
    pub(crate) limit: String,
}

impl std::fmt::Display for LimitBroken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "unpack limit: {}", self.limit)
    }
}

impl std::error::Error for LimitBroken {}

/// The memory limit of unpacking xz, in KiB: a header may require a dictionary of 4 GiB. `xz -9`
/// needs 65 MiB.
const XZ_MEMORY_KIB_MAX: u32 = 300 << 10;

/// Reads consecutive lz4 frames.
struct Lz4Frames<R: Read> {
    inner: lz4_flex::frame::FrameDecoder<R>,
}

impl<R: Read> Read for Lz4Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // A read of zero bytes marks the end of a frame and of the input; only two consecutive ones
        // mark the end of the input.
        match self.inner.read(buffer)? {
            0 => self.inner.read(buffer),
            bytes => Ok(bytes),
        }
    }
}

/// Counts the bytes that pass.
pub(crate) struct Counting<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R> Counting<R> {
    pub(crate) fn new(inner: R, count: Arc<AtomicU64>) -> Self {
        Self { inner, count }
    }
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.count.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

/// Unpacks a stream and keeps it within its limits.
struct Limited<R> {
    inner: R,
    packed: Arc<AtomicU64>,
    unpacked: u64,
    limits: UnpackLimits,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.unpacked += bytes as u64;
        let packed = self.packed.load(Ordering::Relaxed);
        let limit = if self.unpacked > self.limits.bytes_max {
            format!("{} bytes", self.limits.bytes_max)
        } else if self.unpacked > self.limits.ratio_after_bytes
            && let Some(ratio_max) = self.limits.ratio_max
            && self.unpacked / packed.max(1) > ratio_max
        {
            format!("{ratio_max} to 1")
        } else {
            return Ok(bytes);
        };
        Err(io::Error::other(LimitBroken { packed_bytes: packed, unpacked_bytes: self.unpacked, limit }))
    }
}

/// Returns a reader of the unpacked bytes. `packed` counts the packed bytes read from `inner`,
/// `buffer_bytes` at a time.
pub(crate) fn unpack<'a>(
    packing: Packing,
    inner: impl Read + Send + 'a,
    packed: &Arc<AtomicU64>,
    limits: UnpackLimits,
    buffer_bytes: usize,
) -> io::Result<Box<dyn Read + Send + 'a>> {
    let counted = BufReader::with_capacity(buffer_bytes, Counting::new(inner, Arc::clone(packed)));
    let packed = Arc::clone(packed);
    Ok(match packing {
        Packing::Gzip => {
            let inner = GzipReader::new(counted);
            Box::new(Limited { inner, packed, unpacked: 0, limits })
        }
        Packing::Zstd => {
            let inner = zstd::stream::read::Decoder::with_buffer(counted)?;
            Box::new(Limited { inner, packed, unpacked: 0, limits })
        }
        Packing::Xz => {
            // Streams may be concatenated.
            let inner = lzma_rust2::XzReader::new_mem_limit(counted, true, XZ_MEMORY_KIB_MAX);
            Box::new(Limited { inner, packed, unpacked: 0, limits })
        }
        Packing::Lz4 => {
            let inner = Lz4Frames { inner: lz4_flex::frame::FrameDecoder::new(counted) };
            Box::new(Limited { inner, packed, unpacked: 0, limits })
        }
    })
}
