//! Reads pipes that may be silent for hours. A thread that waits for a pipe periodically checks
//! whether it should continue to wait.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
#[cfg(unix)]
use std::os::fd::AsFd as _;
#[cfg(unix)]
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
#[cfg(windows)]
use std::os::windows::io::AsHandle as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(unix)]
use rustix::event::{PollFd, PollFlags, Timespec, poll};
#[cfg(unix)]
use rustix::fs::OFlags;

#[cfg(not(any(unix, windows)))]
compile_error!("flowloom-traffic supports files and pipes of Unix and Windows only");

/// The longest single wait for a silent pipe.
#[cfg(unix)]
const LOOK_UP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Duration of the wait of a caller that has other work meanwhile.
#[cfg(unix)]
const MOMENT: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Callback that returns whether to stop waiting.
#[derive(Clone, Default)]
pub(crate) struct GiveUp(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl std::fmt::Debug for GiveUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GiveUp").field("can", &self.0.is_some()).finish()
    }
}

impl GiveUp {
    pub(crate) fn when(stopped: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(stopped)))
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.0.as_ref().is_some_and(|stopped| stopped())
    }
}

/// Opens a file. It opens a named pipe without waiting for its other end.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    if std::fs::metadata(path)?.file_type().is_fifo() {
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    }
    options.open(path)
}

/// A pipe, a terminal, a socket or a file, which ends when its owner stops waiting for it.
///
/// On Windows, `stopped` is checked only before each read, so a silent pipe blocks.
///
/// ```
/// use std::io::Read;
/// use flowloom_traffic::capture::Patient;
///
/// let mut text = String::new();
/// Patient::open("Cargo.toml".as_ref(), || false)?.read_to_string(&mut text)?;
/// assert!(text.contains("flowloom"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Patient {
    file: File,
    give_up: GiveUp,
    /// Whether the caller polls again, in which case a silent pipe returns
    /// [`io::ErrorKind::WouldBlock`].
    asks_again: Arc<AtomicBool>,
}

impl Patient {
    pub(crate) fn new(file: File, give_up: GiveUp) -> Self {
        Self { file, give_up, asks_again: Arc::default() }
    }

    /// Opens a file. It opens a named pipe immediately, without waiting for its other end.
    ///
    /// It calls `stopped` about twenty times per second while no data arrives. When `stopped`
    /// returns `true`, the file ends there.
    ///
    /// # Errors
    ///
    /// Returns the error of opening the file.
    pub fn open(path: &Path, stopped: impl Fn() -> bool + Send + Sync + 'static) -> io::Result<Self> {
        Ok(Self::new(open(path)?, GiveUp::when(stopped)))
    }

    /// Returns standard input. `stopped` acts as in [`Patient::open`].
    ///
    /// # Errors
    ///
    /// Returns an error when standard input is closed.
    pub fn stdin(stopped: impl Fn() -> bool + Send + Sync + 'static) -> io::Result<Self> {
        Self::stdin_until(GiveUp::when(stopped))
    }

    /// Returns standard input without the buffer of the standard library, which cannot be polled.
    pub(crate) fn stdin_until(give_up: GiveUp) -> io::Result<Self> {
        #[cfg(unix)]
        let stdin = io::stdin().as_fd().try_clone_to_owned()?;
        #[cfg(windows)]
        let stdin = io::stdin().as_handle().try_clone_to_owned()?;
        Ok(Self::new(File::from(stdin), give_up))
    }

    /// Returns whether it is a regular file, which is never silent.
    pub(crate) fn is_file(&self) -> bool {
        self.file.metadata().is_ok_and(|metadata| metadata.is_file())
    }

    /// Returns a flag for a caller that polls again. Once the flag is set, a silent pipe returns
    /// instead of waiting.
    pub(crate) fn asks_again(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.asks_again)
    }

    /// Waits for bytes, an error or the end. Returns whether one of these may have occurred.
    #[cfg(unix)]
    fn wait(&self) -> io::Result<bool> {
        // Relaxed: the reading thread itself sets the flag.
        let asks_again = self.asks_again.load(Ordering::Relaxed);
        let look_up = if asks_again { Some(&MOMENT) } else { self.give_up.0.as_ref().map(|_| &LOOK_UP) };
        loop {
            // A named pipe that has had no writer would read as ended.
            let mut pipe = [PollFd::new(&self.file, PollFlags::IN)];
            match poll(&mut pipe, look_up) {
                Ok(0) if self.give_up.is_stopped() => return Ok(false),
                Ok(0) if asks_again => return Err(io::ErrorKind::WouldBlock.into()),
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                // If the file cannot be polled, read it: the read returns the error.
                Ok(_) | Err(_) => return Ok(true),
            }
        }
    }

    #[cfg(not(unix))]
    fn wait(&self) -> io::Result<bool> {
        Ok(!self.give_up.is_stopped())
    }
}

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.wait()? {
                return Ok(0);
            }
            match self.file.read(buffer) {
                // Another reader was faster.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_silent_pipe_ends_when_stopped_and_after_the_bytes_it_holds() {
        let (reader, mut writer) = io::pipe().unwrap();
        let stopped = Arc::new(AtomicBool::new(true));
        let give_up = GiveUp::when({
            let stopped = Arc::clone(&stopped);
            move || stopped.load(Ordering::Relaxed)
        });
        let file = File::from(std::os::fd::OwnedFd::from(reader));
        let mut patient = Patient::new(file, give_up);
        writer.write_all(b"held").unwrap();
        let mut buffer = [0; 16];
        assert_eq!(patient.read(&mut buffer).unwrap(), 4, "there is something to read");
        let begun = Instant::now();
        assert_eq!(patient.read(&mut buffer).unwrap(), 0);
        assert!(begun.elapsed() < Duration::from_secs(20));
        stopped.store(false, Ordering::Relaxed);
        let writes = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(120));
            writer.write_all(b"late").unwrap();
        });
        assert_eq!(patient.read(&mut buffer).unwrap(), 4, "the read waits without a stop");
        writes.join().unwrap();
        assert_eq!(patient.read(&mut buffer).unwrap(), 0, "the other end is closed");
    }

    #[test]
    fn a_caller_that_asks_again_learns_that_a_pipe_is_silent() {
        let (reader, mut writer) = io::pipe().unwrap();
        let file = File::from(std::os::fd::OwnedFd::from(reader));
        let mut patient = Patient::new(file, GiveUp::default());
        patient.asks_again().store(true, Ordering::Relaxed);
        let mut buffer = [0; 16];
        for _ in 0..2 {
            let silent = patient.read(&mut buffer).unwrap_err();
            assert_eq!(silent.kind(), io::ErrorKind::WouldBlock);
        }
        writer.write_all(b"more").unwrap();
        assert_eq!(patient.read(&mut buffer).unwrap(), 4);
        drop(writer);
        assert_eq!(patient.read(&mut buffer).unwrap(), 0, "the other end is closed");
    }

    #[test]
    fn unreadable_file_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = File::open(folder.path()).unwrap();
        let error = Patient::new(file, GiveUp::default()).read(&mut [0; 16]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
    }

    #[test]
    fn opening_a_named_pipe_waits_for_its_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
        let mut stopped = Patient::new(open(&path).unwrap(), GiveUp::when(|| true));
        assert_eq!(stopped.read(&mut [0; 16]).unwrap(), 0, "no writer, and no wait after a stop");
        let mut stopped = Patient::open(&path, || true).unwrap();
        assert_eq!(stopped.read(&mut [0; 16]).unwrap(), 0, "nor from outside");
        for give_up in [GiveUp::default(), GiveUp::when(|| false)] {
            let mut patient = Patient::new(open(&path).unwrap(), give_up);
            let writes = std::thread::spawn({
                let path = path.clone();
                move || {
                    std::thread::sleep(Duration::from_millis(120));
                    let mut pipe = OpenOptions::new().write(true).open(path).unwrap();
                    pipe.write_all(b"some").unwrap();
                    std::thread::sleep(Duration::from_millis(120));
                    pipe.write_all(b"more").unwrap();
                }
            });
            let mut all = Vec::new();
            patient.read_to_end(&mut all).unwrap();
            assert_eq!(all, b"somemore");
            writes.join().unwrap();
        }
    }
}
