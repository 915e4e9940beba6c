//! Whole programs, ours and rivals, by the processor time of all their threads, start-up included.
//!
//! The system counts the time of children in ticks of 10 ms, so a quick program is run several
//! times a round.

use std::ffi::OsString;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use flowloom_measure::{Elapsed, clock};

/// Time that the runs of a round should take together.
const ROUND_NS: u64 = 400_000_000;
const REPEATS_MAX: u64 = 40;

/// Where programs lie; `None` where one is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Programs {
    /// Our command.
    pub flowloom: Option<PathBuf>,
    /// The capture daemon of nfdump.
    pub nfpcapd: Option<PathBuf>,
    /// The exporter of that name.
    pub softflowd: Option<PathBuf>,
}

/// A program that reads a capture.
#[derive(Debug)]
pub enum Program {
    /// `flowloom replay --layout inline`: flows tracked, counted, reported as JSON.
    Flowloom(PathBuf),
    /// The same, with every flow written into a file.
    FlowloomToFile(PathBuf),
    /// `nfpcapd -r`: flows written into files.
    Nfpcapd(PathBuf),
    /// `softflowd -r`: flows sent as NetFlow 9 to a local port without a listener.
    Softflowd(PathBuf, UdpSocket),
}

impl Program {
    fn command(&self, capture: &Path, dir: &Path) -> Command {
        let (path, arguments): (_, Vec<OsString>) = match self {
            Self::Flowloom(path) | Self::FlowloomToFile(path) => {
                let mut arguments = words("replay --layout inline --format json -q");
                if matches!(self, Self::FlowloomToFile(_)) {
                    arguments.extend(["--flows".into(), dir.join("flows.csv").into()]);
                }
                arguments.push(capture.into());
                (path, arguments)
            }
            Self::Nfpcapd(path) => (path, vec!["-r".into(), capture.into(), "-w".into(), dir.into()]),
            Self::Softflowd(path, port) => {
                let target = port.local_addr().map_or_else(|_| String::new(), |addr| addr.to_string());
                // Its own limit of 8,192 flows would make it end flows early, which is other work.
                let mut arguments = words("-d -v 9 -m 1000000 -n");
                arguments.push(target.into());
                for (option, file) in [("-p", "pid"), ("-c", "ctl")] {
                    arguments.extend([option.into(), dir.join(file).into()]);
                }
                arguments.extend(["-r".into(), capture.into()]);
                (path, arguments)
            }
        };
        let mut command = Command::new(path);
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Returns the number of packets that the program reports; `None` if it reports none.
    fn packets(&self, output: &Output) -> Option<u64> {
        match self {
            Self::Flowloom(_) | Self::FlowloomToFile(_) => {
                let value: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
                value.get("packets")?.as_u64()
            }
            Self::Nfpcapd(_) => {
                let output_text = String::from_utf8_lossy(&output.stderr);
                number_after(&output_text, "Total: Processed: ")
            }
            Self::Softflowd(..) => {
                let output_text = String::from_utf8_lossy(&output.stdout);
                let ignored = output_text.split("Ignored packets:").nth(1)?;
                Some(number_after(&output_text, "Packets processed: ")? + number_after(ignored, " (")?)
            }
        }
    }
}

/// A program, and how often it is run in a round.
#[derive(Debug)]
pub struct Repeated {
    program: Program,
    capture: PathBuf,
    repeats: u64,
    /// Packets that it reports.
    pub packets: Option<u64>,
}

impl Repeated {
    /// Runs a program once, to see that it works and how long it takes.
    ///
    /// # Errors
    ///
    /// Where it fails.
    pub fn try_new(program: Program, capture: &Path) -> Result<Self, String> {
        let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut command = program.command(capture, dir.path());
        let begun = clock::wall_ns();
        let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
        let elapsed = (clock::wall_ns() - begun).max(1);
        if !output.status.success() {
            let output_text = String::from_utf8_lossy(&output.stderr);
            let last = output_text.trim_end().lines().next_back().unwrap_or("no output").to_owned();
            return Err(format!("{command:?}: {}: {last}", output.status));
        }
        let packets = program.packets(&output);
        let repeats = ROUND_NS.div_ceil(elapsed).clamp(1, REPEATS_MAX);
        Ok(Self { program, capture: capture.to_path_buf(), repeats, packets })
    }

    /// Runs the program, and returns the mean time of a run. Each run has a new folder; the output
    /// is not read.
    ///
    /// # Errors
    ///
    /// Where it fails.
    pub fn run(&self) -> Result<Elapsed, String> {
        let text = |error: std::io::Error| error.to_string();
        let mut wall_ns = 0;
        let before = clock::children_cpu_ns().map_err(text)?;
        for _ in 0..self.repeats {
            let dir = tempfile::tempdir().map_err(text)?;
            let mut command = self.program.command(&self.capture, dir.path());
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let begun = clock::wall_ns();
            let status = command.status().map_err(text)?;
            wall_ns += clock::wall_ns() - begun;
            if !status.success() {
                return Err(format!("{command:?}: {status}"));
            }
        }
        let cpu_ns = clock::children_cpu_ns().map_err(text)? - before;
        Ok(Elapsed { cpu_ns: cpu_ns / self.repeats, wall_ns: wall_ns / self.repeats })
    }
}

fn words(line: &str) -> Vec<OsString> {
    line.split(' ').map(Into::into).collect()
}

fn number_after(text: &str, mark: &str) -> Option<u64> {
    let (_, rest) = text.split_once(mark)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_behind_their_words() {
        assert_eq!(number_after("Total: Processed: 316885, skipped: 5", "Processed: "), Some(316_885));
        assert_eq!(number_after("Ignored packets: 9 (8 non-IP, 1 too short)", " ("), Some(8));
        assert_eq!(number_after("nothing", "Processed: "), None);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let program = Program::Nfpcapd(PathBuf::from("no-such-program"));
        let error = Repeated::try_new(program, Path::new("a.pcap")).unwrap_err();
        assert!(error.contains("no-such-program"), "{error}");
    }
}
