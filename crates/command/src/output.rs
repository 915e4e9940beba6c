//! Output files. They are opened before a run, so that errors appear before the run has lasted an
//! hour. If no run takes place, they stay unchanged.
//!
//! ```text
//!  streamed  records ─▶ buffers ─▶ the file itself  a flush marks the end of a whole record;
//!                                                   a failed write cuts the file there
//!  whole     data ─▶ buffers ─▶ .NAME.partial-PID   finish() renames it to NAME; otherwise it is
//!                                                   removed, and NAME stays as it was
//! ```
//!
//! [`abandon_all`] does the same for a process that ends at once.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;

use crate::render::{counted, say};

/// The files that are open, for [`abandon_all`]; `None` once it has ended them. It is locked while
/// a file is created, so that none exists without being here.
static OPEN: Mutex<Option<Vec<Weak<OpenFile>>>> = Mutex::new(Some(Vec::new()));

/// Maximum time that [`abandon_all`] waits for a write to a file to return.
const ABANDON_PATIENCE: Duration = Duration::from_millis(200);

/// How long the reader of a pipe may come after a writer that does not wait.
const READER_PATIENCE: Duration = Duration::from_secs(1);

/// Names the folder of a file that cannot be created because the folder is missing.
fn without_folder(path: &Path, error: io::Error) -> io::Error {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() && !folder.exists() => {
            let text = format!("the folder {} does not exist\n  make it first", folder.display());
            io::Error::new(error.kind(), text)
        }
        _ => error,
    }
}

/// A file to write. Copies refer to the same file.
///
/// A [flush](Write::flush) states that all data so far form whole records. The old contents of the
/// file are removed when writing begins. A new file is removed again if writing never begins.
#[derive(Clone, Debug)]
pub struct OutputFile(Arc<OpenFile>);

#[derive(Debug)]
struct OpenFile {
    /// The path as given, for messages.
    path: PathBuf,
    /// The file behind links.
    target: PathBuf,
    /// Written with the state locked.
    file: File,
    /// No file of this name existed.
    is_new: bool,
    is_regular: bool,
    state: Mutex<OutputState>,
}

#[derive(Debug)]
struct OutputState {
    /// The path of the data until they are complete.
    partial: Option<PathBuf>,
    is_begun: bool,
    /// A write failed, or the process ends: nothing more is written.
    is_closed: bool,
    /// The writer handles failed writes itself, and goes on.
    lasts: bool,
    position: u64,
    /// The data up to here are whole records. `None` while a file that is rewritten is not
    /// readable.
    whole: Option<u64>,
    /// Records up to `whole`, and records after it, if the writer counts them.
    records: u64,
    records_after: u64,
}

/// Opens a named pipe, whose reader may come later: at any time, or within a second.
fn open_fifo(path: &Path, waits: bool) -> io::Result<File> {
    let begun = Instant::now();
    let file = loop {
        let mut options = OpenOptions::new();
        let opened = options.write(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path);
        let error = match opened {
            Ok(file) => break file,
            Err(error) => error,
        };
        if error.raw_os_error() != Some(Errno::NXIO.raw_os_error()) {
            return Err(error);
        }
        if waits {
            say(&format!("waiting for a process that reads {}", path.display()));
            return OpenOptions::new().write(true).open(path);
        }
        if begun.elapsed() > READER_PATIENCE {
            return Err(io::Error::new(
                error.kind(),
                "no process reads this pipe\n  start its reader first",
            ));
        }
        std::thread::sleep(READER_PATIENCE / 100);
    };
    fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}

impl OutputFile {
    /// Opens a file for records that are useful without those that follow, or creates it.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_with(path, true)
    }

    /// Like [`open`](Self::open), but waits at most a second for the reader of a named pipe.
    ///
    /// # Errors
    ///
    /// Returns the error of the system, also where no process reads the pipe.
    pub fn open_at_once(path: &Path) -> io::Result<Self> {
        Self::open_with(path, false)
    }

    fn open_with(path: &Path, waits: bool) -> io::Result<Self> {
        if fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo()) {
            let file = open_fifo(path, waits)?;
            return Self::registered(path, None, || Ok((file, false)));
        }
        let open = || match OpenOptions::new().write(true).create_new(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(without_folder(path, error)),
            // This includes a link to a missing file; the file is created and stays.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Ok((OpenOptions::new().write(true).create(true).truncate(false).open(path)?, false))
            }
            made => Ok((made?, true)),
        };
        Self::registered(path, None, open)
    }

    /// Opens a file that is useful only when it is complete. Its data go to a file beside it, and
    /// [`finish`](Self::finish) puts that in its place. Devices and pipes are written directly.
    ///
    /// # Errors
    ///
    /// Returns the error of the system, also where no file can be created in the folder.
    pub fn open_whole(path: &Path) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let probed = Self::open(path)?;
        if !probed.0.is_regular {
            return Ok(probed);
        }
        let (target, is_new) = (probed.0.target.clone(), probed.0.is_new);
        let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // The name of a file has at most 255 bytes.
        let name: String = name.chars().take(48).collect();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let partial = target.with_file_name(format!(".{name}.partial-{}-{number}", std::process::id()));
        let create = || {
            let file = OpenOptions::new().write(true).create_new(true).open(&partial)?;
            Ok((file, is_new))
        };
        let whole = match Self::registered(path, Some(&partial), create) {
            // The file may be written, but its folder may not: without space for a second file, an
            // error leaves it empty, because only its end is flushed.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !is_new => return Ok(probed),
            whole => whole?,
        };
        // Removes a new file again: its name is taken at the end.
        drop(probed);
        if let Ok(old) = fs::metadata(&target) {
            // A file system without owners and permissions keeps its own.
            let _ = fchown(&whole.0.file, Some(old.uid()), Some(old.gid()));
            let _ = whole.0.file.set_permissions(old.permissions());
        }
        Ok(whole)
    }

    /// Opens or creates a file, with `partial` as the place of its data if there is one, and
    /// registers it for [`abandon_all`].
    fn registered(
        path: &Path,
        partial: Option<&Path>,
        open: impl FnOnce() -> io::Result<(File, bool)>,
    ) -> io::Result<Self> {
        let mut registry = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(all) = &mut *registry else {
            drop(registry);
            // The process is about to exit on another thread.
            loop {
                std::thread::park();
            }
        };
        let (file, is_new) = open()?;
        let is_regular = file.metadata()?.is_file();
        let target = match fs::canonicalize(path) {
            Ok(target) => target,
            Err(_) => match (path.parent().map(fs::canonicalize), path.file_name()) {
                (Some(Ok(folder)), Some(name)) => folder.join(name),
                (_, _) => std::path::absolute(path)?,
            },
        };
        let state = OutputState {
            partial: partial.map(Path::to_path_buf),
            is_begun: false,
            is_closed: false,
            lasts: false,
            position: 0,
            whole: Some(0),
            records: 0,
            records_after: 0,
        };
        let open = Arc::new(OpenFile {
            path: path.to_path_buf(),
            target,
            file,
            is_new,
            is_regular,
            state: Mutex::new(state),
        });
        all.push(Arc::downgrade(&open));
        Ok(Self(open))
    }

    /// Returns whether both are the same file on disk.
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.is_regular && other.0.is_regular && self.0.target == other.0.target
            || is_one_file(&self.0.target, &other.0.target)
    }

    /// Returns whether the file held other data before this run.
    pub fn has_old_contents(&self) -> bool {
        self.0.is_regular && !self.0.is_new
    }

    /// Returns whether it holds other data than this run's, because writing never began.
    pub fn is_unchanged(&self) -> bool {
        self.has_old_contents() && !self.0.lock().is_begun
    }

    /// Counts records that were passed to a writer of this file, for messages.
    pub fn add_records(&self, records: u64) {
        self.0.lock().records_after += records;
    }

    /// Returns how many whole records the file contains.
    pub fn records(&self) -> u64 {
        self.0.lock().records
    }

    /// Removes the data after `position`, where writing will continue. Returns whether this is
    /// possible, which it is not for devices and pipes.
    pub fn truncate_to(&mut self, position: u64) -> io::Result<bool> {
        let mut state = self.0.lock();
        self.0.begin(&mut state)?;
        if !self.0.is_regular {
            return Ok(false);
        }
        if position < state.position {
            state.whole = None;
        }
        self.0.cut(&mut state, position)?;
        Ok(true)
    }

    /// Completes the file after its last flush: puts the data of a [whole](Self::open_whole) file
    /// in its place.
    ///
    /// # Errors
    ///
    /// Returns the error of the system; the old file, if any, is unchanged.
    pub fn finish(&self) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.is_closed {
            return Err(closed());
        }
        self.0.begin(&mut state)?;
        self.0.put_in_place(&mut state)
    }

    /// Lets the writer go on after a failed write, which it undoes itself.
    #[must_use]
    pub fn lasting(self) -> Self {
        self.0.lock().lasts = true;
        self
    }

    /// Returns whether data can be removed from it again, which it cannot from devices and pipes.
    pub fn is_regular(&self) -> bool {
        self.0.is_regular
    }

    /// Returns the rest of an error message: what the file contains after an error.
    pub fn remains(&self) -> String {
        self.0.remains(&self.0.lock())
    }
}

impl OpenFile {
    fn lock(&self) -> MutexGuard<'_, OutputState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the old contents of the file.
    fn begin(&self, state: &mut OutputState) -> io::Result<()> {
        if state.is_closed {
            return Err(closed());
        }
        if !state.is_begun {
            // Devices and pipes have no old contents.
            if state.partial.is_none() && self.is_regular && self.file.metadata()?.len() > 0 {
                self.file.set_len(0)?;
                // ext4 writes a truncated file to the disk at the first close after it, and the
                // close waits. A close before the first byte leaves nothing to wait for at the end
                // of the run. Without it the run is only slower to end.
                drop(OpenOptions::new().write(true).open(&self.target));
            }
            state.is_begun = true;
        }
        Ok(())
    }

    fn cut(&self, state: &mut OutputState, position: u64) -> io::Result<()> {
        self.file.set_len(position)?;
        (&self.file).seek(SeekFrom::Start(position))?;
        state.position = position;
        Ok(())
    }

    /// Ends writing after an error, and cuts the file after its last whole record.
    fn close(&self, state: &mut OutputState) {
        state.is_closed = true;
        state.records_after = 0;
        if state.is_begun
            && self.is_regular
            && state.partial.is_none()
            && let Some(whole) = state.whole
            && whole < state.position
        {
            // Where even this fails, the file ends within a record.
            let _ = self.cut(state, whole);
        }
    }

    fn put_in_place(&self, state: &mut OutputState) -> io::Result<()> {
        let Some(partial) = &state.partial else { return Ok(()) };
        fs::rename(partial, &self.target)?;
        state.partial = None;
        Ok(())
    }

    fn remains(&self, state: &OutputState) -> String {
        match (&state.partial, self.is_new, state.is_begun, self.is_regular) {
            (Some(_), false, _, _) => String::from("the earlier file is unchanged"),
            (Some(_), true, _, _) => String::from("no file was created"),
            (None, _, false, _) => String::from("nothing was written"),
            (None, _, true, false) => String::from("earlier output may be incomplete"),
            (None, _, true, true) => {
                let whole = state.whole.unwrap_or(0);
                let records = match state.records {
                    0 => String::new(),
                    records => format!("{}, ", counted(records, "record")),
                };
                if state.position == whole {
                    format!("it ends after {records}{}", counted(whole, "byte"))
                } else {
                    format!("of it, {records}{} are whole", counted(whole, "byte"))
                }
            }
        }
    }

    /// Removes what this run has created and not written.
    fn remove_unused(&self, state: &mut OutputState) {
        // A file that remains is harmless.
        if let Some(partial) = state.partial.take() {
            let _ = fs::remove_file(partial);
        } else if self.is_new && !state.is_begun {
            let _ = fs::remove_file(&self.target);
        }
    }
}

fn closed() -> io::Error {
    io::Error::other("the file was closed after an error")
}

/// Ends all open files because the process ends. Returns a line for each that writing had begun on,
/// and the number of whole records in all of them.
///
/// Streamed files end after their last whole record. Whole files that are readable as they are, are
/// put in place, and the others are removed.
pub fn abandon_all() -> (Vec<String>, u64) {
    let (mut lines, mut records) = (Vec::new(), 0);
    let until = Instant::now() + ABANDON_PATIENCE;
    let all = loop {
        let all = match OPEN.try_lock() {
            Err(TryLockError::WouldBlock) => None,
            Err(TryLockError::Poisoned(all)) => Some(all.into_inner()),
            Ok(all) => Some(all),
        };
        // A file that nothing refers to any more is being removed, or put in its place.
        let is_settled = |all: &Vec<Weak<OpenFile>>| all.iter().all(|open| open.strong_count() > 0);
        let is_late = Instant::now() > until;
        match all {
            Some(mut all) if is_late || all.as_ref().is_none_or(is_settled) => {
                break all.take().unwrap_or_default();
            }
            // A thread waits for a device to open.
            None if is_late => break Vec::new(),
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    'files: for open in all.iter().filter_map(Weak::upgrade) {
        let path = open.path.display();
        let mut state = loop {
            match open.state.try_lock() {
                Ok(state) => break state,
                Err(TryLockError::Poisoned(state)) => break state.into_inner(),
                // A thread waits in a write, as to a pipe without a reader.
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(TryLockError::WouldBlock) => {
                    lines.push(format!("{path}: a write does not return; the file may be incomplete"));
                    continue 'files;
                }
            }
        };
        let is_readable = state.whole.is_some_and(|whole| whole > 0 && whole == state.position);
        if is_readable && !state.is_closed {
            // Data that cannot be put in place are removed below.
            let _ = open.put_in_place(&mut state);
        }
        open.close(&mut state);
        records += state.records;
        if state.is_begun {
            lines.push(format!("{path}: {}", open.remains(&state)));
        }
        open.remove_unused(&mut state);
    }
    (lines, records)
}

/// Returns whether two paths, which may be links, name the same file on disk.
pub fn is_one_file(one: &Path, other: &Path) -> bool {
    is_one(fs::metadata(one), fs::metadata(other))
}

/// A device or a missing file has no contents to lose.
fn is_one(one: io::Result<Metadata>, other: io::Result<Metadata>) -> bool {
    let place = |metadata: Metadata| metadata.is_file().then(|| (metadata.dev(), metadata.ino()));
    let [one, other] = [one, other].map(|metadata| metadata.ok().and_then(place));
    one.is_some() && one == other
}

impl AsFd for OutputFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.file.as_fd()
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock();
        self.0.begin(&mut state)?;
        loop {
            match (&self.0.file).write(bytes) {
                Ok(0) if !bytes.is_empty() && !state.lasts => {
                    self.0.close(&mut state);
                    return Err(io::ErrorKind::WriteZero.into());
                }
                Ok(written) => {
                    state.position += written as u64;
                    return Ok(written);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    if !state.lasts {
                        self.0.close(&mut state);
                    }
                    return Err(error);
                }
            }
        }
    }

    /// A flush also begins writing, so that a writer without data leaves an empty file.
    fn flush(&mut self) -> io::Result<()> {
        let mut state = self.0.lock();
        self.0.begin(&mut state)?;
        state.whole = Some(state.position);
        state.records += std::mem::take(&mut state.records_after);
        Ok(())
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.remove_unused(&mut self.lock());
        let this: *const Self = self;
        if let Some(all) = &mut *OPEN.lock().unwrap_or_else(PoisonError::into_inner) {
            all.retain(|open| !std::ptr::eq(open.as_ptr(), this));
        }
    }
}

/// Writes a whole file.
///
/// # Errors
///
/// Returns the error of the system; the old file, if any, is unchanged.
pub fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OutputFile::open_whole(path)?;
    file.write_all(bytes)?;
    file.flush()?;
    file.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_changes_when_writing_begins_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        fs::write(&old, "what stood there").unwrap();
        for path in [&old, &new] {
            drop(OutputFile::open(path).unwrap());
            drop(OutputFile::open_whole(path).unwrap());
        }
        assert_eq!(fs::read_to_string(&old).unwrap(), "what stood there");
        assert_eq!(names(folder.path()), ["old"]);
        for path in [&old, &new] {
            OutputFile::open(path).unwrap().write_all(b"now").unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), "now");
            OutputFile::open(path).unwrap().flush().unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), "", "nothing was there to be written");
        }
    }

    #[test]
    fn a_whole_file_appears_when_it_is_finished() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        for old in [None, Some("old")] {
            let mut file = OutputFile::open_whole(&path).unwrap();
            file.write_all(b"half").unwrap();
            assert_eq!(fs::read_to_string(&path).ok().as_deref(), old);
            drop(file);
            assert_eq!(fs::read_to_string(&path).ok().as_deref(), old, "it was not finished");
            write_whole(&path, b"whole").unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), "whole");
            assert_eq!(names(folder.path()), ["a"]);
            fs::write(&path, "old").unwrap();
        }
    }

    #[test]
    fn a_whole_file_replaces_what_a_link_names_and_keeps_its_permissions() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a"), folder.path().join("link"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("a", &link).unwrap();
        write_whole(&link, b"new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        write_whole(Path::new("/dev/null"), b"a device is written directly").unwrap();
        assert!(OutputFile::open_whole(&folder.path().join("none/a")).is_err());
        let pipe = folder.path().join("pipe");
        let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, fifo, mode, 0).unwrap();
        let error = OutputFile::open_at_once(&pipe).unwrap_err();
        assert!(error.to_string().starts_with("no process reads this pipe"), "{error}");
    }

    #[test]
    fn no_file_exists_that_a_signal_would_leave_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::thread::scope(|scope| {
            let opening =
                scope.spawn(|| (0..2000).for_each(|_| drop(OutputFile::open_whole(&path).unwrap())));
            while !opening.is_finished() {
                let all = OPEN.lock().unwrap();
                let (existing, known) = (names(folder.path()), all.as_ref().unwrap().len());
                assert!(existing.len() <= known, "{known} of {existing:?} are known");
            }
        });
    }

    #[test]
    fn a_failed_write_leaves_whole_records() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut file = OutputFile::open(&path).unwrap();
        file.add_records(2);
        file.write_all(b"1\n2\n").unwrap();
        file.flush().unwrap();
        file.add_records(1);
        file.write_all(b"3 is cut he").unwrap();
        file.0.close(&mut file.0.lock());
        assert!(file.write(b"re\n").is_err() && file.finish().is_err(), "it stays closed");
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "1\n2\n");
    }

    #[test]
    fn file_under_two_names_is_recognised() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let open = |name: &str| OutputFile::open(&folder.path().join(name)).unwrap();
        let (a, b) = (OutputFile::open(&path).unwrap(), open("b"));
        assert!(a.is_same(&open("./a")) && !a.is_same(&b));
        let whole = OutputFile::open_whole(&folder.path().join("c")).unwrap();
        let again = OutputFile::open_whole(&folder.path().join("./c")).unwrap();
        assert!(whole.is_same(&again) && !whole.is_same(&a));
        let null = || OutputFile::open(Path::new("/dev/null")).unwrap();
        assert!(!null().is_same(&null()), "a device takes both");
    }
}
