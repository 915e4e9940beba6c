//! A file that is reopened for each piece, so that any number of files can be read at the same
//! time.
//!
//! A process may have only a limited number of files open, often 1024. A merge of more files reads
//! most of them in this way. Opening and closing take a few microseconds; reading the piece takes
//! ten times as long.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
#[cfg(unix)]
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Reads a file from a given offset.
#[derive(Debug)]
pub(crate) struct Reopened {
    path: PathBuf,
    /// Device and inode, which detect that another file replaced this one.
    #[cfg(unix)]
    identity: (u64, u64),
    at: u64,
}

impl Reopened {
    /// Returns a reader of the file at `path` that starts at offset `at`. `metadata` describes the
    /// file.
    pub(crate) fn new(path: &Path, metadata: &Metadata, at: u64) -> Self {
        Self {
            path: path.to_path_buf(),
            #[cfg(unix)]
            identity: identity(metadata),
            at,
        }
    }

    #[cfg(unix)]
    fn check(&self, file: &File) -> io::Result<()> {
        if identity(&file.metadata()?) == self.identity {
            return Ok(());
        }
        Err(io::Error::other("the file was replaced while it was read"))
    }

    /// Other systems do not report whether a file was replaced.
    #[cfg(not(unix))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "one signature for all systems")]
    fn check(&self, _: &File) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

impl Read for Reopened {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut file = File::open(&self.path)?;
        self.check(&file)?;
        file.seek(SeekFrom::Start(self.at))?;
        let bytes = file.read(buffer)?;
        self.at += bytes as u64;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reopened_file_is_refused_if_it_was_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, b"0123456789").unwrap();
        let mut reader = Reopened::new(&path, &std::fs::metadata(&path).unwrap(), 2);
        let mut piece = [0; 5];
        assert_eq!((reader.read(&mut piece).unwrap(), &piece), (5, b"23456"));
        assert_eq!((reader.read(&mut piece).unwrap(), &piece[..3]), (3, &b"789"[..]));
        assert_eq!(reader.read(&mut piece).unwrap(), 0);
        let other = folder.path().join("other");
        std::fs::write(&other, b"another file, which is longer").unwrap();
        std::fs::rename(&other, &path).unwrap();
        #[cfg(unix)]
        assert!(reader.read(&mut piece).unwrap_err().to_string().contains("the file was replaced"));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(reader.read(&mut piece).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
