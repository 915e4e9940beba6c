//! Reloading of rules while packets flow.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::exit::Failure;
use crate::render::say;

/// How often the thread checks a watched file.
const INTERVAL: Duration = Duration::from_millis(200);

/// How long a file that is written in place must stay unchanged. A writer may pause, and half a
/// file may be well formed. A file put in place by renaming is complete at once.
const SETTLED: Duration = Duration::from_secs(2);

/// Counts of reloads.
#[derive(Debug, Default)]
pub(crate) struct ReloadCounts {
    taken: AtomicU64,
    failed: AtomicU64,
}

impl ReloadCounts {
    /// Returns how many reloads took effect and how many failed.
    pub(crate) fn get(&self) -> (u64, u64) {
        (self.taken.load(Ordering::Relaxed), self.failed.load(Ordering::Relaxed))
    }
}

/// A rule file, and the action on a reload.
pub(crate) struct Reload {
    pub(crate) path: PathBuf,
    /// Reload the file when it changes, not only on request.
    pub(crate) watch: bool,
    /// Print no messages.
    pub(crate) quiet: bool,
    /// Reads the file and activates its rules, or leaves the active rules unchanged.
    pub(crate) load: Box<dyn FnMut() -> Result<(), Failure> + Send>,
    /// The stamp of the file at its first load.
    pub(crate) stamp: Stamp,
}

/// File metadata that changes when the file changes; `None` if the file does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(Option<(SystemTime, u64, u64)>);

impl Stamp {
    /// Returns the present stamp of a file.
    pub(crate) fn of(path: &Path) -> Self {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(path).ok();
        Self(metadata.and_then(|file| Some((file.modified().ok()?, file.len(), file.ino()))))
    }
}

impl Stamp {
    /// Returns whether a different file has replaced an earlier one.
    fn is_other_file(self, earlier: Self) -> bool {
        match (self.0, earlier.0) {
            (Some((.., now)), Some((.., before))) => now != before,
            (now, before) => now.is_some() != before.is_some(),
        }
    }
}

impl Reload {
    /// Reloads the rules on each request through `asked`. Also reloads them when the file has
    /// changed and then stayed unchanged for a while, because its writer may not have finished.
    /// Returns when all senders are dropped.
    pub(super) fn run(mut self, asked: &Receiver<()>, counts: &ReloadCounts) {
        // The newest stamp of a changed file, and the time at which it appeared.
        let mut settling: Option<(Stamp, Instant)> = None;
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
                    let since = settling.filter(|&(stamp, _)| stamp == now).map(|(_, since)| since);
                    settling = (now != self.stamp).then(|| (now, since.unwrap_or_else(Instant::now)));
                    let enough = if now.is_other_file(self.stamp) { INTERVAL / 2 } else { SETTLED };
                    settling.is_some() && since.is_some_and(|since| since.elapsed() >= enough)
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
        // Opening a pipe could block forever.
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
                    say(&format!("rules reloaded from {}", self.path.display()));
                }
            }
            Err(failure) => {
                counts.failed.fetch_add(1, Ordering::Relaxed);
                if !self.quiet {
                    say(&format!("warning: the rules stay unchanged: {}", failure.text()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crossbeam_channel::bounded;

    /// Waits for an action of another thread.
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
        std::fs::write(&path, "good").unwrap();
        std::thread::sleep(Duration::from_millis(1500));
        assert_eq!(counts.get(), (2, 0), "its writer may go on");
        std::fs::write(&path, "worse!").unwrap();
        wait_for("bad", || counts.get() == (2, 1));
        let beside = folder.path().join("beside");
        std::fs::write(&beside, "better").unwrap();
        std::fs::rename(&beside, &path).unwrap();
        let begun = Instant::now();
        wait_for("renamed", || counts.get() == (3, 1));
        assert!(begun.elapsed() < SETTLED, "what is renamed is whole");
        std::fs::remove_file(&path).unwrap();
        wait_for("gone", || counts.get() == (3, 2));
        std::fs::create_dir(&path).unwrap();
        wait_for("no file", || counts.get() == (3, 3));
        std::thread::sleep(3 * INTERVAL);
        assert_eq!(counts.get(), (3, 3), "once for each change");
        drop(ask);
        thread.join().unwrap();
    }
}
