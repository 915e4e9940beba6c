//! Opens a pipe whose header may not have arrived. It keeps the bytes so far, and parses them again
//! when more arrive.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::capture::error::CaptureError;
use crate::capture::open::{Capture, CaptureOptions};
use crate::capture::patient::Patient;

/// Number of bytes that are read before the header is parsed again.
const PIECE_BYTES: usize = 16 << 10;
/// Number of bytes in which the header must end: compressed input may begin with any number of
/// empty parts.
const HEADER_MAX: usize = 4 << 20;

/// A capture that is being opened.
#[derive(Debug)]
pub(crate) struct Opening {
    path: PathBuf,
    options: CaptureOptions,
    kept: Arc<Mutex<Kept>>,
}

/// A pipe, and the bytes that arrived while its header was parsed.
#[derive(Debug)]
struct Kept {
    pipe: Patient,
    bytes: Vec<u8>,
    /// Whether the capture is open, so that later bytes need not be kept.
    is_open: bool,
    /// Whether the parser of the header would have had to wait.
    is_silent: bool,
}

/// Reads the kept bytes, and then from the pipe.
#[derive(Debug)]
struct FromTheFirst {
    kept: Arc<Mutex<Kept>>,
    at: usize,
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    // If a reader has panicked, the earlier bytes are still present.
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Opening {
    pub(crate) fn new(path: &Path, pipe: Patient, options: CaptureOptions) -> Self {
        pipe.asks_again().store(true, Ordering::Relaxed);
        let kept = Kept { pipe, bytes: Vec::new(), is_open: false, is_silent: false };
        Self { path: path.to_path_buf(), options, kept: Arc::new(Mutex::new(kept)) }
    }

    /// Returns the capture once its header has arrived, and `None` while the pipe is silent, after
    /// a short wait. It parses from the first byte whenever bytes have arrived.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Capture::open`].
    pub(crate) fn poll(&mut self) -> Result<Option<Capture>, CaptureError> {
        if lock(&self.kept).is_without_news() {
            return Ok(None);
        }
        let reader = FromTheFirst { kept: Arc::clone(&self.kept), at: 0 };
        let capture = Capture::read_from(&self.path, reader, self.options);
        let mut kept = lock(&self.kept);
        kept.is_open = capture.is_ok();
        match capture {
            // Without the remaining bytes, the content may look like another format.
            Err(_) if kept.is_silent => Ok(None),
            capture => capture.map(Some),
        }
    }
}

impl Kept {
    /// Reads a piece if one has arrived. Returns whether none has. The parser of the header detects
    /// the end and errors.
    fn is_without_news(&mut self) -> bool {
        let mut piece = [0; PIECE_BYTES];
        self.is_silent = false;
        loop {
            return match self.pipe.read(&mut piece) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => error.kind() == io::ErrorKind::WouldBlock,
                Ok(bytes) => {
                    self.bytes.extend_from_slice(&piece[..bytes]);
                    false
                }
            };
        }
    }
}

impl Read for FromTheFirst {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut kept = lock(&self.kept);
        if let Some(mut rest) = kept.bytes.get(self.at..).filter(|rest| !rest.is_empty()) {
            let bytes = rest.read(buffer)?;
            self.at += bytes;
            return Ok(bytes);
        }
        if kept.is_open {
            kept.bytes = Vec::new();
            return kept.pipe.read(buffer);
        }
        if kept.bytes.len() > HEADER_MAX {
            let why = format!("no header of a capture within its first {HEADER_MAX} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        match kept.pipe.read(buffer) {
            Ok(bytes) => {
                kept.bytes.extend_from_slice(&buffer[..bytes]);
                self.at += bytes;
                Ok(bytes)
            }
            Err(error) => {
                kept.is_silent = error.kind() == io::ErrorKind::WouldBlock;
                Err(error)
            }
        }
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::Write;

    use flowloom_packet::{Fill, LinkType, PacketBatch};

    use super::*;
    use crate::capture::{CaptureSet, Input, SetOptions};
    use crate::write::{Interface, PcapOptions, PcapWriter, PcapngWriter};

    const PACKETS: u64 = 100;

    /// Returns a capture in each supported form.
    fn forms() -> Vec<(&'static str, Vec<u8>)> {
        let (mut pcap, mut pcapng) = (
            PcapWriter::new(Vec::new(), PcapOptions::default()).unwrap(),
            PcapngWriter::new(Vec::new(), vec![Interface { link: LinkType::RAW, ..Interface::default() }])
                .unwrap(),
        );
        for second in 0..PACKETS {
            pcap.write(second * 1_000_000_000, 60, &[7; 60]).unwrap();
            pcapng.write(0, second * 1_000_000_000, 60, &[7; 60]).unwrap();
        }
        let (pcap, pcapng) = (pcap.finish().unwrap(), pcapng.finish().unwrap());
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
        gzip.write_all(&pcap).unwrap();
        let zstd = zstd::encode_all(&pcapng[..], 1).unwrap();
        vec![("pcap", pcap), ("pcapng", pcapng), ("gzip", gzip.finish().unwrap()), ("zstd", zstd)]
    }

    struct Pipes(tempfile::TempDir);

    impl Pipes {
        fn make(&self, name: &str) -> PathBuf {
            let path = self.0.path().join(name);
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
            path
        }
    }

    fn set(paths: &[&Path]) -> CaptureSet {
        let inputs: Vec<Input> = paths.iter().map(|path| Input::Path(path.to_path_buf())).collect();
        CaptureSet::open(&inputs, SetOptions::default()).unwrap()
    }

    /// Reads the packets that are available. Returns their number, and the reason why there are no
    /// more.
    fn take(set: &mut CaptureSet) -> (u64, Fill) {
        use flowloom_packet::PacketSource;
        let (mut batch, mut packets) = (PacketBatch::new(), 0);
        loop {
            match set.next_batch(&mut batch).unwrap() {
                Fill::Packets => packets += batch.packets.len() as u64,
                fill => {
                    assert!(batch.packets.is_empty() && batch.block.is_none());
                    return (packets, fill);
                }
            }
        }
    }

    fn write_to(path: &Path) -> File {
        OpenOptions::new().write(true).open(path).unwrap()
    }

    #[test]
    fn pipe_without_a_header_does_not_delay_other_inputs() {
        let pipes = Pipes(tempfile::tempdir().unwrap());
        for (name, bytes) in forms() {
            let file = pipes.0.path().join(format!("file.{name}"));
            std::fs::write(&file, &bytes).unwrap();
            let (first, second) = (pipes.make(&format!("1.{name}")), pipes.make(&format!("2.{name}")));
            let mut set = set(&[&file, &first, &second]);
            assert_eq!(take(&mut set), (PACKETS, Fill::Starved), "{name}");
            assert_eq!(take(&mut set), (0, Fill::Starved), "{name}: no writer yet");
            for (last, path) in [(false, first), (true, second)] {
                let mut pipe = write_to(&path);
                let mut packets = 0;
                // The header byte by byte, and some of what follows.
                for byte in &bytes[..80] {
                    pipe.write_all(&[*byte]).unwrap();
                    let (more, fill) = take(&mut set);
                    packets += more;
                    assert_eq!(fill, Fill::Starved, "{name}");
                }
                pipe.write_all(&bytes[80..]).unwrap();
                drop(pipe);
                let (more, fill) = take(&mut set);
                assert_eq!(packets + more, PACKETS, "{name}");
                assert_eq!(fill, if last { Fill::End } else { Fill::Starved }, "{name}");
            }
            assert_eq!(set.files().len(), 3, "{name}");
            let taken: Vec<u64> = set.files().iter().map(|file| file.packets).collect();
            assert_eq!(taken, [PACKETS; 3], "{name}");
            assert_eq!(set.progress().done_bytes(), 3 * bytes.len() as u64, "{name}");
        }
    }

    #[test]
    fn pipe_that_is_not_a_capture_gives_the_error_of_a_file() {
        let pipes = Pipes(tempfile::tempdir().unwrap());
        let good = forms().remove(0).1;
        let mut cut_gzip = forms().remove(2).1;
        cut_gzip.truncate(40);
        for (i, bytes) in
            [&b"GET / HTTP/1.1\r\nHost: www.example.org\r\n\r\n"[..], b"", &good[..10], &cut_gzip]
                .into_iter()
                .enumerate()
        {
            let path = pipes.make(&i.to_string());
            let mut set = set(&[&path]);
            assert_eq!(take(&mut set), (0, Fill::Starved));
            write_to(&path).write_all(bytes).unwrap();
            let mut batch = PacketBatch::new();
            let found = flowloom_packet::PacketSource::next_batch(&mut set, &mut batch);
            let file = pipes.0.path().join(format!("{i}.file"));
            std::fs::write(&file, bytes).unwrap();
            let expected = Capture::open(&file, CaptureOptions::default()).map(drop).unwrap_err();
            let (file, path) = (file.display().to_string(), path.display().to_string());
            let found = found.unwrap_err().to_string();
            assert_eq!(found, expected.to_string().replace(&file, &path), "{i}");
        }
    }

    #[test]
    fn endless_header_takes_limited_memory() {
        let nothing = {
            let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.finish().unwrap()
        };
        // A zstd frame without content, which is skipped.
        let skipped = [0x50, 0x2A, 0x4D, 0x18, 0, 0, 0, 0];
        for (name, part) in [("gzip", &nothing[..]), ("zstd", &skipped)] {
            let pipes = Pipes(tempfile::tempdir().unwrap());
            let path = pipes.make(name);
            let mut set = set(&[&path]);
            assert_eq!(take(&mut set), (0, Fill::Starved));
            let mut pipe = write_to(&path);
            let parts = part.repeat((1 << 20) / part.len());
            let writer = std::thread::spawn(move || (0..64).try_for_each(|_| pipe.write_all(&parts)));
            let error = loop {
                let mut batch = PacketBatch::new();
                match flowloom_packet::PacketSource::next_batch(&mut set, &mut batch) {
                    Ok(fill) => assert_eq!(fill, Fill::Starved, "{name}"),
                    Err(error) => break error.to_string(),
                }
            };
            assert!(error.contains("no header of a capture within its first 4194304 bytes"), "{error}");
            drop(set);
            writer.join().unwrap().expect_err("no reader is left");
        }
    }

    #[test]
    fn an_abandoned_pipe_may_be_the_decodable_input() {
        let pipes = Pipes(tempfile::tempdir().unwrap());
        let (file, path) = (pipes.0.path().join("private.pcap"), pipes.make("pipe"));
        let mut private = forms()[0].1.clone();
        private[20..24].copy_from_slice(&147_u32.to_le_bytes());
        std::fs::write(&file, private).unwrap();
        let stopped = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let mut set = set(&[&file, &path]);
        set.stop_when({
            let stopped = Arc::clone(&stopped);
            move || stopped.load(Ordering::Relaxed)
        });
        assert_eq!(take(&mut set), (PACKETS, Fill::Starved));
        set.check_decodable().unwrap();
        stopped.store(true, Ordering::Relaxed);
        assert_eq!(take(&mut set), (0, Fill::End));
        set.check_decodable().unwrap();
        // The rule does not apply to a pipe with a header whose packets cannot be decoded.
        let mut set = self::set(&[&file, &path]);
        assert_eq!(take(&mut set), (PACKETS, Fill::Starved));
        write_to(&path).write_all(&std::fs::read(&file).unwrap()).unwrap();
        let mut batch = PacketBatch::new();
        let error = loop {
            match flowloom_packet::PacketSource::next_batch(&mut set, &mut batch) {
                Ok(fill) => assert_eq!(fill, Fill::Packets),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("no interface of") && error.contains("private.pcap"), "{error}");
    }

    #[test]
    fn a_pipe_whose_header_has_not_arrived_ends_when_stopped() {
        let pipes = Pipes(tempfile::tempdir().unwrap());
        let path = pipes.make("stopped");
        let stopped = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let mut set = set(&[&path]);
        set.stop_when({
            let stopped = Arc::clone(&stopped);
            move || stopped.load(Ordering::Relaxed)
        });
        assert_eq!(take(&mut set), (0, Fill::Starved));
        let mut pipe = write_to(&path);
        pipe.write_all(&forms()[0].1[..10]).unwrap();
        assert_eq!(take(&mut set), (0, Fill::Starved));
        stopped.store(true, Ordering::Relaxed);
        assert_eq!(take(&mut set), (0, Fill::End));
    }
}
