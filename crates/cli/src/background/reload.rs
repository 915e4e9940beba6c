//! Reloading of rules while packets flow.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, RecvTimeoutError};

use crate::exit::Failure;
use crate::render::say;

/// How often the thread checks a watched file.
const INTERVAL: Duration = Duration::from_millis(200);

/// How long a changed file must keep its size and time before it is read. A writer may pause, and
/// half a file may be well formed. Another file in its place is no sign that it is complete: some
/// editors rename the old file away, and then write a new one.
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

/// Activates rules that have been read.
pub(crate) type Activate = Box<dyn FnOnce()>;

/// A rule file, and the action on a reload.
pub(crate) struct Reload {
    pub(crate) path: PathBuf,
    /// Reload the file when it changes, not only on request.
    pub(crate) watch: bool,
    /// Print no messages.
    pub(crate) quiet: bool,
    /// Reads the file. Returns what activates its rules.
    pub(crate) load: Box<dyn FnMut() -> Result<Activate, Failure> + Send>,
    /// The stamp of the file at its first load.
    pub(crate) stamp: Stamp,
}

/// File metadata that changes when the file changes; `None` if the file does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp(Option<(SystemTime, u64, u64)>);

impl Stamp {
    /// Returns the present stamp of a file.
    pub(crate) fn read(path: &Path) -> Self {
        use std::os::unix::fs::MetadataExt;
        let metadata = std::fs::metadata(path).ok();
        Self(metadata.and_then(|file| Some((file.modified().ok()?, file.len(), file.ino()))))
    }
}

impl Reload {
    /// Reloads the rules on each request through `asked`. Also reloads them when the file has
    /// changed and then stayed unchanged for a while, because its writer may not have finished.
    /// Returns when all senders are dropped.
    pub(super) fn run(mut self, asked: &Receiver<()>, counts: &ReloadCounts) {
        // The newest stamp of a file that has changed or that a request found in change, and the
        // time at which it appeared.
        let mut settling: Option<(Stamp, Instant)> = None;
        loop {
            let waited = if self.watch || settling.is_some() {
                asked.recv_timeout(INTERVAL)
            } else {
                asked.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            let now = Stamp::read(&self.path);
            let is_due = match waited {
                Ok(()) => true,
                Err(RecvTimeoutError::Timeout) => {
                    let since = settling.filter(|&(stamp, _)| stamp == now).map(|(_, since)| since);
                    let is_pending = settling.is_some() || now != self.stamp;
                    settling = is_pending.then(|| (now, since.unwrap_or_else(Instant::now)));
                    since.is_some_and(|since| since.elapsed() >= SETTLED)
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if is_due {
                let is_whole = self.again(now, counts);
                settling = (!is_whole).then(|| (Stamp::read(&self.path), Instant::now()));
            }
        }
    }

    /// Reads the file, whose stamp is `now`, and activates its rules. Returns whether it has kept
    /// its stamp meanwhile; otherwise the content may be half a file and is ignored.
    fn again(&mut self, now: Stamp, counts: &ReloadCounts) -> bool {
        // Opening a pipe could block forever.
        let is_other = std::fs::metadata(&self.path).is_ok_and(|file| !file.is_file());
        let loaded = if is_other {
            Err(Failure::Input(format!("{} is not a regular file", self.path.display())))
        } else {
            (self.load)()
        };
        if Stamp::read(&self.path) != now {
            return false;
        }
        self.stamp = now;
        match loaded {
            Ok(activate) => {
                activate();
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
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::{Arc, Mutex};

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
    fn files_are_reloaded_on_request_or_change_and_bad_ones_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules");
        std::fs::write(&path, "good").unwrap();
        let counts = Arc::new(ReloadCounts::default());
        let (ask, asked) = bounded(1);
        let reload = Reload {
            stamp: Stamp::read(&path),
            path: path.clone(),
            watch: true,
            quiet: true,
            load: Box::new({
                let path = path.clone();
                move || match std::fs::read_to_string(&path).as_deref() {
                    Ok("good" | "better") => Ok(Box::new(|| {})),
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
        wait_for("renamed", || counts.get() == (3, 1));
        std::fs::remove_file(&path).unwrap();
        wait_for("gone", || counts.get() == (3, 2));
        std::fs::create_dir(&path).unwrap();
        wait_for("no file", || counts.get() == (3, 3));
        std::thread::sleep(3 * INTERVAL);
        assert_eq!(counts.get(), (3, 3), "once for each change");
        drop(ask);
        thread.join().unwrap();
    }

    /// Reloads a file on a thread. Returns its path, the way to request it, and what was activated.
    fn watched(
        folder: &Path,
        watch: bool,
        mut reading: impl FnMut(&Path) + Send + 'static,
    ) -> (PathBuf, crossbeam_channel::Sender<()>, Arc<Mutex<Vec<String>>>) {
        let path = folder.join("rules");
        std::fs::write(&path, "first").unwrap();
        let activated: Arc<Mutex<Vec<String>>> = Arc::default();
        let (ask, asked) = bounded(1);
        let load = {
            let (path, activated) = (path.clone(), Arc::clone(&activated));
            move || {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                reading(&path);
                let activated = Arc::clone(&activated);
                Ok(Box::new(move || activated.lock().unwrap().push(text)) as Activate)
            }
        };
        let stamp = Stamp::read(&path);
        let reload = Reload { stamp, path: path.clone(), watch, quiet: true, load: Box::new(load) };
        std::thread::spawn(move || reload.run(&asked, &ReloadCounts::default()));
        (path, ask, activated)
    }

    #[test]
    fn half_written_file_after_a_rename_is_not_activated() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _ask, activated) = watched(folder.path(), true, |_| {});
        std::fs::rename(&path, folder.path().join("backup")).unwrap();
        let mut file = std::fs::File::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        std::thread::sleep(Duration::from_millis(1400));
        file.write_all(b" and half").unwrap();
        drop(file);
        wait_for("activated", || !activated.lock().unwrap().is_empty());
        assert_eq!(*activated.lock().unwrap(), ["half and half"]);
    }

    #[test]
    fn file_that_changes_while_it_is_read_is_read_again() {
        for watch in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let mut times = 0;
            let (path, ask, activated) = watched(folder.path(), watch, move |path| {
                times += 1;
                if times == 1 {
                    std::fs::write(path, "first and second").unwrap();
                }
            });
            ask.send(()).unwrap();
            wait_for("activated", || !activated.lock().unwrap().is_empty());
            assert_eq!(*activated.lock().unwrap(), ["first and second"], "watch: {watch}");
            // A request does not wait for a file to settle.
            std::fs::write(&path, "third").unwrap();
            let begun = Instant::now();
            ask.send(()).unwrap();
            wait_for("activated again", || activated.lock().unwrap().len() == 2);
            assert!(begun.elapsed() < SETTLED);
            assert_eq!(activated.lock().unwrap()[1], "third");
        }
    }
}
