//! Runs the command and reads its output.

use std::ffi::OsStr;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::schema::assert_conforms;

/// The command with arguments, which can be run or changed.
pub(crate) fn command<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flowloom"));
    command.args(arguments).env_remove("NO_COLOR").stdin(Stdio::null());
    command
}

/// The exit and the output of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) line: String,
    pub(crate) status: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Outcome {
    pub(crate) fn new(command: &Command, output: Output) -> Self {
        let arguments: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        Self {
            line: format!("flowloom {}", arguments.join(" ")),
            status: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).unwrap()
    }

    /// Asserts the exit status.
    #[track_caller]
    pub(crate) fn ends(self, status: i32) -> Self {
        assert_eq!(
            self.status,
            Some(status),
            "{}\nstdout: {}\nstderr: {}",
            self.line,
            String::from_utf8_lossy(&self.stdout),
            self.stderr
        );
        self
    }

    /// Asserts that stderr has all of these.
    #[track_caller]
    pub(crate) fn says(self, parts: &[&str]) -> Self {
        for part in parts {
            assert!(self.stderr.contains(part), "{}\nno {part:?} in: {}", self.line, self.stderr);
        }
        self
    }

    /// Asserts that stderr is empty.
    #[track_caller]
    pub(crate) fn silent(self) -> Self {
        assert_eq!(self.stderr, "", "{}", self.line);
        self
    }

    /// Returns the document on stdout, which conforms to the schema that it names.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let document: Value = serde_json::from_slice(&self.stdout).unwrap_or_else(|error| {
            panic!("{}\n{error}\nstdout: {}", self.line, String::from_utf8_lossy(&self.stdout))
        });
        assert_conforms(&document);
        document
    }
}

/// Runs the command to its end.
pub(crate) fn flowloom<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Outcome {
    let mut command = command(arguments);
    let output = command.output().unwrap();
    Outcome::new(&command, output)
}

/// Runs the command with these bytes on standard input.
pub(crate) fn flowloom_fed<S: AsRef<OsStr>>(
    arguments: impl IntoIterator<Item = S>,
    input: &[u8],
) -> Outcome {
    let mut command = command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        // The command may stop reading early; only its output matters.
        scope.spawn(move || stdin.write_all(input).ok());
        child.wait_with_output().unwrap()
    });
    Outcome::new(&command, output)
}

/// Runs `replay` with these arguments. Returns its report after the checks that apply to every
/// report.
#[track_caller]
pub(crate) fn replay(arguments: &[&str]) -> Value {
    let outcome = flowloom([&["replay", "--format", "json", "--no-pin"], arguments].concat()).ends(0);
    let document = outcome.json();
    check_balance(&document);
    document
}

/// Asserts that every packet of a `replay` report was processed or has a reason why not.
#[track_caller]
pub(crate) fn check_balance(document: &Value) {
    assert_eq!(document["schema"], "flowloom/replay/1");
    let packets = number(document, "packets");
    assert_eq!(packets, number(document, "processed") + no_result(document), "{document:#}");
    assert_eq!(document["balanced"], true, "{document:#}");
    let workers = document["workers"].as_array().unwrap();
    let processed: u64 = workers.iter().map(|worker| number(worker, "processed")).sum();
    assert_eq!(processed, number(document, "processed"), "{document:#}");
}

/// Returns an integer of a document.
#[track_caller]
pub(crate) fn number(document: &Value, field: &str) -> u64 {
    document[field].as_u64().unwrap_or_else(|| panic!("no number {field} in {document:#}"))
}

/// Returns how many packets of a report are not tracked or were dropped, for any reason.
pub(crate) fn no_result(document: &Value) -> u64 {
    let sum = |name: &str| -> u64 {
        document[name].as_object().unwrap().values().map(|packets| packets.as_u64().unwrap()).sum()
    };
    sum("not_tracked") + sum("dropped")
}

/// A directory for one test.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> String {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Creates a named pipe.
    pub(crate) fn named_pipe(&self) -> String {
        let path = self.path("fifo");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    /// Creates a trace of 5000 packets of 300 flows; a later element of `options` overrides an
    /// earlier one.
    #[track_caller]
    pub(crate) fn trace(&self, name: &str, options: &[&str]) -> String {
        let path = self.path(name);
        let size: &[&str] = if options.is_empty() { &["--flows", "300", "--packets", "5000"] } else { &[] };
        flowloom([&["generate", "trace", "-q", "-o", &path], size, options].concat()).ends(0);
        path
    }
}

/// The directory of real data, or a message if there is none. CI selects the tests that use it by
/// `real` in their names.
pub(crate) fn real_data() -> Option<PathBuf> {
    // A single test thread is the main thread.
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    assert!(name == "main" || name.contains("real"), "{name} uses real data, and its name lacks `real`");
    let Some(data) = std::env::var_os("FLOWLOOM_DATA") else {
        eprintln!("skipped: FLOWLOOM_DATA is not set (the folder of real data)");
        return None;
    };
    Some(PathBuf::from(data))
}

/// The directory of real captures, or a message if there is none.
pub(crate) fn real_captures() -> Option<PathBuf> {
    Some(real_data()?.join("pcaps"))
}
