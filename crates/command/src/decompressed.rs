//! Files and standard input, decompressed if they are in gzip or zstd, up to a limit.

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use flowloom::engine::Control;
use flowloom::traffic::capture::{GzipReader, Patient};

/// Bytes of an input that can be examined before it is read.
const HEAD_BYTES: usize = 64 << 10;

/// An opened input.
pub struct Unpacked {
    /// The first decompressed bytes.
    pub head: Vec<u8>,
    /// All decompressed bytes, from the first one on.
    pub input: Box<dyn Read>,
}

/// Returns an error after `left` bytes.
struct Limited<R> {
    inner: R,
    left: u64,
    max: u64,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.left = self.left.checked_sub(bytes as u64).ok_or_else(|| {
            io::Error::other(format!("more than {} unpacked bytes; --unpack-max allows more", self.max))
        })?;
        Ok(bytes)
    }
}

/// Opens a path, or standard input for `-`. Waiting for a silent input ends when the run is
/// stopped.
pub fn open(path: &Path, bytes_max: u64, control: &Arc<Control>) -> io::Result<Unpacked> {
    let control = Arc::clone(control);
    let stopped = move || control.is_stopped();
    let raw = if path.as_os_str() == "-" { Patient::stdin(stopped) } else { Patient::open(path, stopped) }?;
    let mut limited = Limited { inner: unpack(raw)?, left: bytes_max, max: bytes_max };
    let mut head = vec![0; HEAD_BYTES];
    let mut have = 0;
    while have < head.len() {
        match limited.read(&mut head[have..]) {
            Ok(0) => break,
            Ok(bytes) => have += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    head.truncate(have);
    let input = Box::new(io::Cursor::new(head.clone()).chain(limited));
    Ok(Unpacked { head, input })
}

/// Returns the bytes of an input, decompressed if it starts with the magic number of gzip or zstd.
pub fn unpack(raw: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    let mut raw = BufReader::with_capacity(256 << 10, raw);
    let magic = raw.fill_buf()?;
    Ok(if magic.starts_with(&[0x1F, 0x8B]) {
        Box::new(GzipReader::new(raw))
    } else if magic.starts_with(&[0x28, 0xB5, 0x2F, 0xFD]) {
        Box::new(zstd::stream::read::Decoder::with_buffer(raw)?)
    } else {
        Box::new(raw)
    })
}

/// Returns the name of a file without the extension of its compression.
pub fn plain_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let plain = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).map(str::to_owned);
    plain.unwrap_or(name)
}
