//! Rules that are loaded again while packets flow.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::exit::Failure;
use crate::render::say;

/// How often a watched file is looked at.
const INTERVAL: Duration = Duration::from_millis(200);

/// How often rules were loaded again.
#[derive(Debug, Default)]
pub(crate) struct ReloadCounts {
    taken: AtomicU64,
    failed: AtomicU64,
}

impl ReloadCounts {
    /// Returns how often rules took effect, and how often they could not be loaded.
    pub(crate) fn get(&self) -> (u64, u64) {
        (self.taken.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }
}

/// A file of rules, and what to do with it.
pub(crate) struct Reload {
    pub(crate) path: PathBuf,
    /// Load it when it has changed, not only when asked.
    pub(crate) watch: bool,
    /// Say nothing about it.
    pub(crate) quiet: bool,
    /// Reads the file and puts its rules in place, or leaves all as it is.
    pub(crate) load: Box<dyn FnMut() -> Result<(), Failure> + Send>,
    /// What the file was when it was loaded first.
    pub(crate) stamp: Stamp,
}

/// What changes when a file does: `None` where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(Option<(SystemTime, u64, u64)>);

impl Stamp {
    /// Returns the stamp of a file as it is now.
    pub(crate) fn of(path: &Path) -> Self {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(path).ok();
        Self(metadata.and_then(|file| Some((file.modified().ok()?, file.len(), file.ino()))))
    }
}

impl Reload {
    /// Loads the rules whenever `asked`, or when the file has changed and then stayed as it is for a moment: a writer may not be
    /// done. Returns when nobody can ask any more.
    pub(super) fn run(mut self, asked: &Receiver<()>, counts: &ReloadCounts) {
        let mut settling = None;
        loop {
            let waited = if self.watch {
                asked.recv_timeout(INTERVAL)
            } else {
                asked.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            let now = Stamp::of(&self.path);
            let is_due = match waited {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => {
                    let is_settled = settling == Some(now);
                    settling = (now != self.stamp).then_some(now);
                    is_settled && settling.is_some()
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if is_due {
                settling = None;
                self.stamp = now;
                self.again(counts);
            }
        }
    }

    fn again(&mut self, counts: &ReloadCounts) {
        // A pipe would be waited for, perhaps for ever.
        let is_other = std::fs::metadata(&self.path).is_ok_and(|file| !file.is_file());
        let loaded = if is_other {
            Err(Failure::Input(format!("{} is not a regular file", self.path.display())))
        } else {
            (self.load)()
        };
        match loaded {
            Ok(()) => {
                counts.taken.fetch_add(1, Ordering::Relaxed);
                if !self.quiet {
                    say(&format!("rules loaded again from {}", self.path.display()));
                }
            }
            Err(failure) => {
                counts.failed.fetch_add(1, Ordering::Relaxed);
                if !self.quiet {
                    say(&format!("warning: the rules stay as they were: {}", failure.text()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::*;
    use crossbeam_channel::bounded;

    /// Waits for something that another thread does.
    fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(20), "never: {what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn files_are_loaded_when_asked_or_changed_and_bad_ones_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules");
        std::fs::write(&path, "good").unwrap();
        let counts = Arc::new(ReloadCounts::default());
        let (ask, asked) = bounded(1);
        let reload = Reload {
            stamp: Stamp::of(&path),
            path: path.clone(),
            watch: true,
            quiet: true,
            load: Box::new({
                let path = path.clone();
                move || match std::fs::read_to_string(&path).as_deref() {
                    Ok("good" | "better") => Ok(()),
                    _ => Err(Failure::Input(String::from("bad"))),
                }
            }),
        };
        let thread = std::thread::spawn({
            let counts = Arc::clone(&counts);
            move || reload.run(&asked, &counts)
        });
        std::thread::sleep(3 * INTERVAL);
        assert_eq!(counts.get(), (0, 0), "nothing has changed");
        ask.send(()).unwrap();
        wait_for("asked", || counts.get() == (1, 0));
        std::fs::write(&path, "better").unwrap();
        wait_for("changed", || counts.get() == (2, 0));
        std::fs::write(&path, "worse!").unwrap();
        wait_for("bad", || counts.get() == (2, 1));
        std::fs::remove_file(&path).unwrap();
        wait_for("gone", || counts.get() == (2, 2));
        std::fs::create_dir(&path).unwrap();
        wait_for("no file", || counts.get() == (2, 3));
        std::thread::sleep(3 * INTERVAL);
        assert_eq!(counts.get(), (2, 3), "once for each change");
        drop(ask);
        thread.join().unwrap();
    }
}
