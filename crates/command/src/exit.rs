//! The end of a command: the exit statuses that scripts rely on, and the failures behind them.

use std::io::ErrorKind;
use std::process::ExitCode;

use flowloom::engine::{ConfigError, StartError};
use flowloom::flow_table::BuildError;
use flowloom::packet::SourceError;
use flowloom::traffic::capture::CaptureError;

use crate::other_file::explained;

/// The exit status of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// The run finished, and a check failed.
    CheckFailed = 1,
    /// Invalid usage or configuration.
    Usage = 2,
    /// Input cannot be read.
    Input = 3,
    /// Input was read only in part, with `--strict`.
    PartialInput = 4,
    /// Output could not be written; the result was printed nevertheless.
    Output = 5,
    /// The engine stopped on a fault; the report is balanced.
    Fault = 6,
    /// The memory that the process may use is exhausted; there is no result.
    Exhausted = 7,
    /// A signal stopped the command.
    Interrupted = 130,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(status as u8)
    }
}

/// The reason why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The arguments contradict each other or do not suit the machine.
    Usage(String),
    /// The input cannot be read.
    Input(String),
    /// Some output cannot be written.
    Output(String),
    /// An experiment could not be carried out.
    Experiment(String),
    /// A signal ended the command before it had a result.
    Interrupted(String),
    /// The reader of standard output closed the pipe.
    BrokenPipe,
}

impl Failure {
    pub fn status(&self) -> Status {
        match self {
            Self::Usage(_) => Status::Usage,
            Self::Input(_) => Status::Input,
            Self::Output(_) => Status::Output,
            Self::Experiment(_) => Status::Fault,
            Self::Interrupted(_) => Status::Interrupted,
            Self::BrokenPipe => Status::Ok,
        }
    }

    /// Returns the error message.
    pub fn text(&self) -> &str {
        match self {
            Self::Usage(text)
            | Self::Input(text)
            | Self::Output(text)
            | Self::Experiment(text)
            | Self::Interrupted(text) => text,
            Self::BrokenPipe => "broken pipe",
        }
    }
}

/// Appends the exit status to the first line of a message.
pub fn with_status(text: &str, status: Status) -> String {
    let (first, rest) = text.split_once('\n').map_or((text, None), |(first, rest)| (first, Some(rest)));
    let head = format!("{first}   [exit {}]", status as u8);
    rest.map_or(head.clone(), |rest| format!("{head}\n{rest}"))
}

/// Words of an expression that a shell has split.
const OPERATORS: [&str; 9] = ["==", "!=", "=", "&", "&&", "||", "and", "or", "in"];

impl From<CaptureError> for Failure {
    fn from(error: CaptureError) -> Self {
        match error {
            CaptureError::ReadOnce { .. } => Self::Usage(error.to_string()),
            CaptureError::Io { path, source }
                if source.kind() == ErrorKind::NotFound
                    && path.to_str().is_some_and(|word| OPERATORS.contains(&word)) =>
            {
                Self::Input(format!(
                    "there is no capture {}\n  quote a whole expression, as in --where 'port == 443'",
                    path.display()
                ))
            }
            error => Self::Input(explained(&error)),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        Self::Usage(match &error {
            // The engine does not know the options of the command, so the advice is added here.
            StartError::Config(error @ ConfigError::NoOrder { .. }) => {
                config_message(error, "use --order external, which any policy supports, or --order none")
            }
            StartError::Config(error @ (ConfigError::Topology { .. } | ConfigError::Unpinnable { .. })) => {
                config_message(error, "use --no-pin to run without pinning")
            }
            StartError::Table(table) => match table.downcast_ref() {
                Some(TableError::Given(error)) => {
                    no_memory(error, "use a smaller --table-flows; the table grows as needed")
                }
                Some(TableError::Estimated(error)) => {
                    no_memory(error, "use fewer workers, or a process with more memory")
                }
                None => error.to_string(),
            },
            error => error.to_string(),
        })
    }
}

/// Why a flow table could not be built.
#[derive(Debug)]
pub enum TableError {
    /// An option gives its size.
    Given(BuildError),
    /// Its size is an estimate, which yields to the memory that there is.
    Estimated(BuildError),
}

impl std::fmt::Display for TableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Given(error) | Self::Estimated(error)) = self;
        error.fmt(f)
    }
}

impl std::error::Error for TableError {}

/// Returns why a flow table gets no memory, and what to do.
fn no_memory(error: &BuildError, advice: &str) -> String {
    match error {
        BuildError::TooLarge { needed_bytes, limit_bytes } => format!(
            "a flow table takes {needed_bytes} bytes, but its share of the free memory is {limit_bytes}\n  {advice}"
        ),
        error => format!("{error}\n  {advice}"),
    }
}

/// Returns the error, with advice in terms of the command instead of the library.
fn config_message(error: &ConfigError, advice: &str) -> String {
    let text = error.to_string();
    format!("{}\n  {advice}", text.lines().next().unwrap_or(&text))
}

/// Turns a source's error after `packets` into a failure if it means that the input is unusable.
/// Any other error is a fault of the run, reported with its result.
pub fn check_decodable(packets: u64, error: &SourceError) -> Result<(), Failure> {
    match error.0.downcast_ref() {
        Some(error @ CaptureError::NothingDecodable { .. }) => Err(Failure::Input(error.to_string())),
        // A pipe is examined only when its turn comes; regular files were examined before the run.
        Some(
            error @ (CaptureError::NotACapture { .. }
            | CaptureError::Empty { .. }
            | CaptureError::Io { .. }),
        ) if packets == 0 => Err(Failure::Input(explained(error))),
        _ => Ok(()),
    }
}

/// Turns an error of writing to standard output into a failure.
pub fn stdout_failure(error: &std::io::Error) -> Failure {
    if error.kind() == ErrorKind::BrokenPipe {
        Failure::BrokenPipe
    } else {
        let closed = crate::closed_output::check().err();
        Failure::Output(format!("cannot write to standard output: {}", closed.as_ref().unwrap_or(error)))
    }
}
