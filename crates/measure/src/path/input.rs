//! The capture to use: a given file, an unpacked one, or a generated one.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use flowloom_traffic::synth::{Generate, Mix, MixConfig};
use flowloom_traffic::write::{PcapOptions, PcapWriter};
use tempfile::TempPath;

/// The development mixture, within the directory of real data.
const DEVELOPMENT_MIX: &str = "pcaps/dev_mix_ether.pcap.zst";

/// Number of packets of the generated mixture, which suffices for a round in one pass.
const GENERATED_PACKETS: u64 = 800_000;

/// A plain capture on disk; a temporary one is removed on drop.
#[derive(Debug)]
pub struct CaptureFile {
    path: PathBuf,
    /// Its name in rows.
    pub name: String,
    _temporary: Option<TempPath>,
}

impl CaptureFile {
    /// Returns the given capture, or else the development mixture in `data`, or else a generated
    /// one.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read or unpacked, or the temporary file cannot be
    /// written.
    pub fn choose(asked: Option<&Path>, data: Option<&Path>) -> io::Result<Self> {
        if let Some(path) = asked {
            return Self::open(path);
        }
        match data.map(|data| data.join(DEVELOPMENT_MIX)).filter(|path| path.is_file()) {
            Some(path) => Self::open(&path),
            None => Self::generate(GENERATED_PACKETS, 40_000),
        }
    }

    /// Returns a capture. A zstd file is unpacked first, so that unpacking is not timed.
    ///
    /// # Errors
    ///
    /// Returns an error if it cannot be read or unpacked.
    pub fn open(path: &Path) -> io::Result<Self> {
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("zst") => {
                let packed = File::open(path)?;
                let name = name.trim_end_matches(".zst").to_owned();
                Self::temporary(name, |out| zstd::stream::copy_decode(BufReader::new(packed), out))
            }
            Some("gz") => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{}: unpack it first (only .zst is unpacked here)", path.display()),
            )),
            _ => {
                File::open(path)?;
                Ok(Self { path: path.to_path_buf(), name, _temporary: None })
            }
        }
    }

    /// Returns a generated mixture with a number of packets and flows, which is the same on every
    /// machine.
    ///
    /// # Errors
    ///
    /// Returns an error if the temporary file cannot be written.
    pub fn generate(packets: u64, flows: u64) -> io::Result<Self> {
        let config = MixConfig { flows, packets, ..MixConfig::default() };
        let mut mix = Mix::new(config).map_err(io::Error::other)?;
        Self::temporary(format!("generated mix of {packets} packets"), |out| {
            let mut writer = PcapWriter::new(out, PcapOptions::default())?;
            let mut frame = Vec::new();
            while let Some(meta) = mix.next_into(&mut frame) {
                writer.write(meta.time_ns, meta.wire_bytes, &frame)?;
            }
            Ok(())
        })
    }

    fn temporary(
        name: String,
        fill: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()>,
    ) -> io::Result<Self> {
        let mut file = tempfile::Builder::new().prefix("flowloom-bench-").suffix(".pcap").tempfile()?;
        let mut out = BufWriter::with_capacity(1 << 20, file.as_file_mut());
        fill(&mut out)?;
        out.flush()?;
        drop(out);
        let temporary = file.into_temp_path();
        Ok(Self { path: temporary.to_path_buf(), name, _temporary: Some(temporary) })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_capture_is_deleted_with_its_owner() {
        let capture = CaptureFile::generate(500, 20).unwrap();
        let path = capture.path().to_path_buf();
        assert!(path.is_file() && capture.name.contains("500"));
        drop(capture);
        assert!(!path.exists());
    }

    #[test]
    fn compressed_captures_are_decompressed() {
        let plain = CaptureFile::generate(100, 10).unwrap();
        let packed = tempfile::Builder::new().suffix(".pcap.zst").tempfile().unwrap();
        zstd::stream::copy_encode(File::open(plain.path()).unwrap(), packed.as_file(), 1).unwrap();
        let unpacked = CaptureFile::open(packed.path()).unwrap();
        assert_eq!(std::fs::read(unpacked.path()).unwrap(), std::fs::read(plain.path()).unwrap());
    }
}
