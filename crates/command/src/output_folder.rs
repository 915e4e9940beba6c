//! Output folders. They are created before a run, so that errors appear before the run has lasted
//! an hour.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::exit::Failure;
use crate::output::OutputFile;

/// A folder for several files. Dropping it removes the folders that were created for it and are
/// still empty.
#[derive(Debug)]
pub struct OutputFolder {
    /// The created folders, innermost first.
    made: Vec<PathBuf>,
}

impl OutputFolder {
    /// Creates the folder if necessary, and checks that files can be created in it.
    ///
    /// # Errors
    ///
    /// Returns [`Failure::Output`], which names the path.
    pub fn open(path: &Path) -> Result<Self, Failure> {
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
    fn created_folders_that_stay_empty_are_removed() {
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
