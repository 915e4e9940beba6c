//! How a command ends: the statuses that scripts rely on, and the failures behind them.

use std::process::ExitCode;

use flowloom::engine::{ConfigError, StartError};
use flowloom::flow_table::BuildError;
use flowloom::packet::SourceError;
use flowloom::traffic::capture::CaptureError;

/// The exit status of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    /// All is well.
    Ok = 0,
    /// The run finished, a check failed.
    CheckFailed = 1,
    /// Usage or configuration.
    Usage = 2,
    /// Input cannot be read.
    Input = 3,
    /// Input was read only in part, and `--strict` was asked for.
    PartialInput = 4,
    /// Output could not be written; the result was printed all the same.
    Output = 5,
    /// The engine stopped on a fault; the report is balanced.
    Fault = 6,
    /// Stopped by a signal.
    Interrupted = 130,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments contradict themselves or the machine.
    Usage(String),
    /// The input cannot be read.
    Input(String),
    /// Something cannot be written.
    Output(String),
    /// An experiment of ours could not be carried out.
    Experiment(String),
    /// The reader of standard output went away.
    BrokenPipe,
}

impl Failure {
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Usage(_) => Status::Usage,
            Self::Input(_) => Status::Input,
            Self::Output(_) => Status::Output,
            Self::Experiment(_) => Status::Fault,
            Self::BrokenPipe => Status::Ok,
        }
    }

    /// Returns what went wrong.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Usage(text) | Self::Input(text) | Self::Output(text) | Self::Experiment(text) => text,
            Self::BrokenPipe => "broken pipe",
        }
    }
}

/// Appends the exit status to the first line of a message.
pub(crate) fn with_status(text: &str, status: Status) -> String {
    let (first, rest) = text.split_once('\n').map_or((text, None), |(first, rest)| (first, Some(rest)));
    let head = format!("{first}   [exit {}]", status as u8);
    rest.map_or(head.clone(), |rest| format!("{head}\n{rest}"))
}

impl From<CaptureError> for Failure {
    fn from(error: CaptureError) -> Self {
        match error {
            CaptureError::ReadOnce { .. } => Self::Usage(error.to_string()),
            error => Self::Input(error.to_string()),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Self::Usage(match &error {
            // The engine knows of no options: the way out is named here.
            StartError::Config(error @ ConfigError::NoOrder { .. }) => said(
                error,
                "external order (--order external) keeps it for any policy, none (--order none) does without",
            ),
            StartError::Config(error @ (ConfigError::Topology { .. } | ConfigError::Unpinnable { .. })) => {
                said(error, "--no-pin runs without pinning")
            }
            StartError::Table(table) => match table.downcast_ref() {
                Some(BuildError::TooLarge { needed_bytes, limit_bytes }) => format!(
                    "a flow table takes {needed_bytes} bytes, and its share of the memory that is free is {limit_bytes}\n  \
                     use a smaller --table-flows: it grows when there are more"
                ),
                Some(BuildError::OutOfMemory { .. }) => {
                    format!("{error}\n  use a smaller --table-flows: it grows when there are more")
                }
                _ => error.to_string(),
            },
            error => error.to_string(),
        })
    }
}

/// Returns what went wrong, with advice in the command's terms in the place of the library's.
fn said(error: &ConfigError, advice: &str) -> String {
    let text = error.to_string();
    format!("{}\n  {advice}", text.lines().next().unwrap_or(&text))
}

/// Passes a source's error, which came after `packets`, on as a failure where it means that the
/// input is nothing for us; anything else is a fault of the run, to be reported with its result.
pub(crate) fn check_decodable(packets: u64, error: &SourceError) -> Result<(), Failure> {
    match error.0.downcast_ref() {
        Some(error @ CaptureError::NothingDecodable { .. }) => Err(Failure::Input(error.to_string())),
        // A pipe is looked at only when its turn comes; a regular file was, before the run.
        Some(
            error @ (CaptureError::NotACapture { .. }
            | CaptureError::Empty { .. }
            | CaptureError::Io { .. }),
        ) if packets == 0 => Err(Failure::Input(error.to_string())),
        _ => Ok(()),
    }
}

/// Turns an error of writing to standard output into a failure.
pub(crate) fn stdout_failure(error: &std::io::Error) -> Failure {
    if error.kind() == std::io::ErrorKind::BrokenPipe {
        Failure::BrokenPipe
    } else {
        Failure::Output(format!("cannot write to standard output: {error}"))
    }
}
