//! A program, run once and timed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use flowloom_measure::{Elapsed, clock};
use wait4::Wait4;

/// The resource usage of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// Processor time of all threads and waited-for children, and wall time.
    pub(super) elapsed: Elapsed,
    /// Largest resident set. On Linux this includes the parent's set before `exec`, so it is at
    /// least that of this process.
    pub(super) resident_bytes: u64,
}

/// A program with its arguments, in which `{capture}` and `{out}` are placeholders for paths.
#[derive(Clone, Debug)]
pub(super) struct Invocation {
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
}

impl Invocation {
    /// Returns the invocation of a program with arguments that spaces separate.
    pub(super) fn new(program: impl Into<PathBuf>, arguments: &str) -> Self {
        let arguments = arguments.split(' ').map(OsString::from).collect();
        Self { program: program.into(), arguments }
    }

    /// Runs the program, with its output in the files `stdout` and `stderr` of `log`.
    ///
    /// # Errors
    ///
    /// A message if the program cannot be run or does not exit with status 0.
    pub(super) fn run(&self, capture: &Path, out: &Path, log: &Path) -> Result<Usage, String> {
        let name = self.program.display();
        let text = |error: io::Error| format!("{name}: {error}");
        let mut command = Command::new(&self.program);
        command
            .args(self.arguments.iter().map(|argument| filled(argument, capture, out)))
            .current_dir(out)
            .stdin(Stdio::null())
            .stdout(File::create(log.join("stdout")).map_err(text)?)
            .stderr(File::create(log.join("stderr")).map_err(text)?);
        let begun = clock::wall_ns();
        let ended = command.spawn().map_err(text)?.wait4().map_err(text)?;
        let wall_ns = clock::wall_ns() - begun;
        if !ended.status.success() {
            let output = read(&log.join("stderr"));
            let last = output.trim_end().lines().next_back().unwrap_or("no output").to_owned();
            return Err(format!("{name}: {}: {last}", ended.status));
        }
        let cpu = ended.rusage.utime + ended.rusage.stime;
        let cpu_ns = u64::try_from(cpu.as_nanos()).unwrap_or(u64::MAX);
        Ok(Usage { elapsed: Elapsed { cpu_ns, wall_ns }, resident_bytes: ended.rusage.maxrss })
    }
}

/// Returns the valid UTF-8 of a file; an empty text if the file is missing.
pub(super) fn read(path: &Path) -> String {
    std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Returns an argument with its placeholders replaced.
fn filled(argument: &OsStr, capture: &Path, out: &Path) -> OsString {
    let Some(mut rest) = argument.to_str() else { return argument.to_owned() };
    let mut filled = OsString::new();
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        filled.push(before);
        let (path, length) = if from.starts_with("{capture}") {
            (Some(capture), "{capture}".len())
        } else if from.starts_with("{out}") {
            (Some(out), "{out}".len())
        } else {
            (None, 1)
        };
        let (name, after) = from.split_at(length);
        filled.push(path.map_or(OsStr::new(name), Path::as_os_str));
        rest = after;
    }
    filled.push(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_paths_and_other_braces_stay() {
        let fill = |text: &str| filled(OsStr::new(text), Path::new("/c d"), Path::new("/o"));
        assert_eq!(fill("{capture}"), "/c d");
        assert_eq!(fill("-w={out}/x{}{out}"), "-w=/o/x{}/o");
        assert_eq!(fill("awk '{print}'"), "awk '{print}'");
    }

    #[test]
    fn failed_program_is_named_with_its_last_output() {
        let folder = tempfile::tempdir().unwrap();
        let run = |program: &str, arguments: &[&str]| {
            let arguments = arguments.iter().map(OsString::from).collect();
            Invocation { program: program.into(), arguments }.run(
                folder.path(),
                folder.path(),
                folder.path(),
            )
        };
        assert!(run("no-such-program", &[]).unwrap_err().contains("no-such-program"));
        let error = run("sh", &["-c", "echo it broke >&2; exit 3"]).unwrap_err();
        assert!(error.contains('3') && error.ends_with("it broke"), "{error}");
        let usage = run("sh", &["-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"]).unwrap();
        assert!(usage.elapsed.cpu_ns > 0 && usage.resident_bytes > 100_000, "{usage:?}");
    }
}
