//! Output files and folders. They are opened before a run, so that errors appear before the run has
//! lasted an hour. If no run takes place, they stay unchanged.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::exit::Failure;

/// A file to write. Its old contents are removed when writing begins. A new file is removed again
/// if writing never begins.
#[derive(Debug)]
pub(crate) struct OutputFile {
    file: File,
    path: PathBuf,
    is_new: bool,
    is_begun: bool,
}

impl OutputFile {
    /// Opens a file, or creates it.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let (file, is_new) = match OpenOptions::new().write(true).create_new(true).open(path) {
            // This includes a link to a missing file; the file is created and stays.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                (OpenOptions::new().write(true).create(true).truncate(false).open(path)?, false)
            }
            made => (made?, true),
        };
        Ok(Self { file, path: path.to_path_buf(), is_new, is_begun: false })
    }

    /// Returns whether both are the same file on disk.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        is_one(self.file.metadata(), other.file.metadata())
    }

    /// Removes the data after `position`, where writing will continue. Returns whether this is
    /// possible, which it is not for devices and pipes.
    pub(crate) fn truncate_to(&mut self, position: u64) -> io::Result<bool> {
        use std::io::Seek as _;

        self.begin()?;
        if !self.file.metadata()?.is_file() {
            return Ok(false);
        }
        self.file.set_len(position)?;
        self.file.seek(io::SeekFrom::Start(position))?;
        Ok(true)
    }

    /// Returns whether data can be removed from it again, which it cannot from devices and pipes.
    pub(crate) fn is_regular(&self) -> bool {
        self.file.metadata().is_ok_and(|file| file.is_file())
    }

    /// Removes the old contents of the file.
    fn begin(&mut self) -> io::Result<()> {
        if !self.is_begun {
            // Devices and pipes have no old contents.
            let old = self.file.metadata()?;
            if old.is_file() && old.len() > 0 {
                self.file.set_len(0)?;
                // ext4 writes a truncated file to the disk at the first close after it, and the
                // close waits. A close before the first byte leaves nothing to wait for at the end
                // of the run. Without it the run is only slower to end.
                drop(OpenOptions::new().write(true).open(&self.path));
            }
            self.is_begun = true;
        }
        Ok(())
    }
}

/// Returns whether two paths, which may be links, name the same file on disk.
pub(crate) fn is_one_file(one: &Path, other: &Path) -> bool {
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
        self.file.as_fd()
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begin()?;
        self.file.write(bytes)
    }

    /// A flush also begins writing, so that a writer without data leaves an empty file.
    fn flush(&mut self) -> io::Result<()> {
        self.begin()?;
        self.file.flush()
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.is_new && !self.is_begun {
            // An empty file that remains is harmless.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A folder for several files. Dropping it removes the folders that were created for it and are
/// still empty.
#[derive(Debug)]
pub(crate) struct OutputFolder {
    /// The created folders, innermost first.
    made: Vec<PathBuf>,
}

impl OutputFolder {
    /// Creates the folder if necessary, and checks that files can be created in it.
    ///
    /// # Errors
    ///
    /// Returns [`Failure::Output`], which names the path.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
        let made = path.ancestors().take_while(is_missing).map(Path::to_path_buf).collect();
        let folder = Self { made };
        let result = path.join("result.json");
        if path.exists() && !path.is_dir() {
            return Err(cannot_write(path, &io::ErrorKind::NotADirectory.into()));
        }
        fs::create_dir_all(path).map_err(|error| cannot_write(path, &error))?;
        OutputFile::open(&result).map_err(|error| cannot_write(&result, &error))?;
        Ok(folder)
    }
}

impl Drop for OutputFolder {
    fn drop(&mut self) {
        for folder in &self.made {
            // A folder that is not empty stays.
            let _ = fs::remove_dir(folder);
        }
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Output(format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_changes_when_writing_begins_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        fs::write(&old, "what stood there").unwrap();
        for path in [&old, &new] {
            drop(OutputFile::open(path).unwrap());
        }
        assert_eq!(fs::read_to_string(&old).unwrap(), "what stood there");
        assert!(!new.exists());
        for path in [&old, &new] {
            OutputFile::open(path).unwrap().write_all(b"now").unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), "now");
            OutputFile::open(path).unwrap().flush().unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), "", "nothing was there to be written");
        }
    }

    #[test]
    fn one_file_under_two_names_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let open = |name: &str| OutputFile::open(&folder.path().join(name)).unwrap();
        let (a, b) = (OutputFile::open(&path).unwrap(), open("b"));
        assert!(a.is_same(&open("./a")) && !a.is_same(&b));
        let null = || OutputFile::open(Path::new("/dev/null")).unwrap();
        assert!(!null().is_same(&null()), "a device takes both");
    }

    #[test]
    fn folders_that_stay_empty_go_again() {
        let folder = tempfile::tempdir().unwrap();
        let (outer, inner) = (folder.path().join("a"), folder.path().join("a/b"));
        drop(OutputFolder::open(&inner).unwrap());
        assert!(!outer.exists() && folder.path().exists());
        let kept = OutputFolder::open(&inner).unwrap();
        fs::write(inner.join("result.json"), "{}").unwrap();
        drop(kept);
        drop(OutputFolder::open(&inner).unwrap());
        assert_eq!(fs::read_to_string(inner.join("result.json")).unwrap(), "{}");
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(OutputFolder::open(&folder.path().join("file/x")).is_err());
    }
}
