//! Output files that are compressed according to their names.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::write::GzEncoder;

use crate::exit::Failure;
use crate::output::OutputFile;

/// The compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// Returns the compression that the extension of a name selects, and the name without that
    /// extension.
    pub fn from_path(path: &Path) -> (Self, &Path) {
        let packing = match path.extension() {
            Some(ending) if ending.eq_ignore_ascii_case("gz") => Self::Gzip,
            Some(ending) if ending.eq_ignore_ascii_case("zst") => Self::Zstd,
            _ => return (Self::None, path),
        };
        (packing, path.file_stem().map_or(path, Path::new))
    }
}

/// Refuses a name that selects a compression that cannot be written, instead of a file whose
/// contents are not what its name says.
///
/// # Errors
///
/// Returns [`Failure::Usage`] with the extensions that can be written.
pub fn check_compression(option: &str, path: &Path) -> Result<(), Failure> {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if !["xz", "lz4", "bz2", "br", "lzma", "zip", "7z"].contains(&ending.as_str()) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{option} {}: .{ending} cannot be written\n  use .gz or .zst, or no compression",
        path.display()
    )))
}

/// A file in which each flush ends a member (gzip) or a frame (zstd), so that flushed data can
/// always be read.
pub enum PackedFile<W: Write = OutputFile> {
    Plain(BufWriter<W>),
    Gzip(Option<GzEncoder<W>>),
    Zstd(Option<zstd::Encoder<'static, W>>),
}

impl<W: Write> PackedFile<W> {
    pub fn new(file: W, compression: Compression) -> io::Result<Self> {
        Ok(match compression {
            Compression::None => Self::Plain(BufWriter::with_capacity(1 << 18, file)),
            Compression::Gzip => Self::Gzip(Some(GzEncoder::new(file, flate2::Compression::fast()))),
            Compression::Zstd => Self::Zstd(Some(zstd::Encoder::new(file, 3)?)),
        })
    }
}

/// The error of a write after an earlier error.
pub fn is_closed() -> io::Error {
    io::Error::other("the file was closed after an error")
}

impl<W: Write> Write for PackedFile<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(out) => out.write(bytes),
            Self::Gzip(out) => out.as_mut().ok_or_else(is_closed)?.write(bytes),
            Self::Zstd(out) => out.as_mut().ok_or_else(is_closed)?.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(out) => out.flush(),
            Self::Gzip(out) => {
                let mut file = out.take().ok_or_else(is_closed)?.finish()?;
                file.flush()?;
                *out = Some(GzEncoder::new(file, flate2::Compression::fast()));
                Ok(())
            }
            Self::Zstd(out) => {
                let mut file = out.take().ok_or_else(is_closed)?.finish()?;
                file.flush()?;
                *out = Some(zstd::Encoder::new(file, 3)?);
                Ok(())
            }
        }
    }
}
