//! Errors before a run, and faults during a run.

use flowloom_packet::SourceError;

/// Parameters that are invalid, contradict each other, or do not fit the machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The number of workers is invalid.
    #[error("invalid number of workers {workers}: must be from 1 to {max}")]
    Workers {
        /// The requested number.
        workers: usize,
        /// Maximum number of workers.
        max: usize,
    },
    /// The ring size is invalid.
    #[error("invalid ring size {slots}: must be a power of two from 64 to 16777216")]
    RingSlots {
        /// The requested number of slots.
        slots: usize,
    },
    /// The rings together would take too much memory.
    #[error("rings need {bytes} bytes, the limit is {max}\n  use fewer workers or smaller rings")]
    RingMemory {
        /// Bytes that the rings would take.
        bytes: u64,
        /// Maximum size in bytes.
        max: u64,
    },
    /// The run would never take a packet at this pace.
    #[error("invalid pace {number}: must be above 0")]
    Pace {
        /// The requested pace.
        number: String,
    },
    /// The process may not use this CPU.
    #[error(
        "CPU {cpu} does not exist or is not allowed for this process (allowed: {allowed})\n  in a \
         container the cgroup's cpuset determines the allowed CPUs"
    )]
    Cpu {
        /// The requested CPU.
        cpu: u32,
        /// The CPUs that the process may use, as a list of ranges.
        allowed: String,
    },
    /// The CPU list is shorter than the layout's number of threads.
    #[error(
        "too few CPUs: {named} for {threads} threads\n  list one CPU per worker, preceded by one for \
         the input thread if the layout has one"
    )]
    TooFewCpus {
        /// CPUs in the list.
        named: usize,
        /// CPUs that the layout needs.
        threads: usize,
    },
    /// The run needs internal order, but the policy keeps none.
    #[error(
        "policy {policy} does not keep the packets of a flow in order\n  use external order, which any \
         policy supports, or order none"
    )]
    NoOrder {
        /// The policy's short name.
        policy: &'static str,
    },
    /// The policy was made for another number of workers.
    #[error(
        "policy {policy} was made for {made_for} workers, but the run has {workers}\n  make it for \
         {workers} workers"
    )]
    PolicyWorkers {
        /// The policy's short name.
        policy: &'static str,
        /// Workers that the policy was made for.
        made_for: usize,
        /// Workers of the run.
        workers: usize,
    },
    /// The number of packets of a chunk is invalid.
    #[error("invalid number of packets of a chunk {packets}: must be from 1 to 65536")]
    ChunkPackets {
        /// The requested number.
        packets: usize,
    },
    /// A part of a larger input was requested from the pipeline.
    #[error("the pipeline saves no parts\n  use the inline or the sharded layout")]
    PartOfPipeline,
    /// Threads cannot be pinned to a CPU of the list.
    #[error("cannot pin a thread to CPU {cpu} on this system\n  use other CPUs, or run without pinning")]
    Unpinnable {
        /// The requested CPU.
        cpu: u32,
    },
    /// The system did not list the CPUs that the process may use.
    #[error("cannot list the CPUs that this process may use: {why}\n  run without pinning")]
    Topology {
        /// The error of the system.
        why: String,
    },
}

/// Why a run could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The parameters are invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The table function returned an error.
    #[error("cannot build the flow table: {0}")]
    Table(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The timeouts of a table are not those of the configuration, so that flows would not end when
    /// the configuration says.
    #[error(
        "the flow table and the configuration have different timeouts\n  build the table with \
         `config.timeouts().for_table()`"
    )]
    Timeouts,
    /// The system did not start a thread.
    #[error(
        "cannot start a thread: {0}\n  use fewer workers, or raise the limit (ulimit -u, pids of the control group)"
    )]
    Thread(#[from] std::io::Error),
}

/// The error of a sink.
///
/// # Examples
///
/// ```
/// use flowloom_engine::SinkError;
/// assert_eq!(SinkError("the disk is full".into()).to_string(), "the disk is full");
/// let error = SinkError::from(std::io::Error::other("no space"));
/// assert!(error.0.is::<std::io::Error>());
/// ```
#[derive(Debug)]
pub struct SinkError(pub Box<dyn std::error::Error + Send + Sync>);

impl SinkError {
    /// Returns the error for a panic of the sink.
    pub(crate) fn of_panic(message: &str) -> Self {
        Self(format!("it panicked: {message}").into())
    }
}

impl std::fmt::Display for SinkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl From<std::io::Error> for SinkError {
    fn from(error: std::io::Error) -> Self {
        Self(error.into())
    }
}

impl std::error::Error for SinkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// The reason why a run ended before its input ended. The accompanying report is balanced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The source returned an error.
    #[error("the source failed after {}: {error}", packets_of(*packets))]
    Source {
        /// Packets taken before the error.
        packets: u64,
        /// The error of the source.
        #[source]
        error: SourceError,
    },
    /// A worker panicked. The inline layout has worker 0 only.
    #[error(
        "worker {worker} panicked {} after {} of its own: {message}",
        packet.map_or_else(|| String::from("between two packets"), |packet| format!("at packet {packet}")),
        packets_of(*processed)
    )]
    WorkerPanicked {
        /// The worker, counted from 0.
        worker: usize,
        /// The packet that its application was processing, counted from 1 in the order of the
        /// source.
        packet: Option<u64>,
        /// Packets that the worker had completed.
        processed: u64,
        /// The panic's message.
        message: String,
    },
    /// The packet sink returned an error, or panicked.
    #[error("packets cannot be written: {error}")]
    Sink {
        /// The error of the sink.
        #[source]
        error: SinkError,
    },
    /// The record sink returned an error, or panicked.
    #[error("flow records cannot be written: {error}")]
    Records {
        /// The error of the sink.
        #[source]
        error: SinkError,
    },
    /// The input stage panicked.
    #[error("the input stage panicked after {}: {message}", packets_of(*packets))]
    InputPanicked {
        /// Packets taken before the panic.
        packets: u64,
        /// The panic's message.
        message: String,
    },
    /// A panic lost the flow results: while records were merged, or while a shared table was
    /// emptied. The report has no flows.
    #[error("a panic while flow results were merged lost them: {message}")]
    ResultsPanicked {
        /// The panic's message.
        message: String,
    },
}

fn packets_of(count: u64) -> String {
    if count == 1 { String::from("1 packet") } else { format!("{count} packets") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_names_no_command_line_options() {
        let errors = [
            ConfigError::NoOrder { policy: "rr" },
            ConfigError::Topology { why: String::from("no such file") },
            ConfigError::Unpinnable { cpu: 2000 },
            ConfigError::TooFewCpus { named: 1, threads: 2 },
        ];
        for error in errors {
            let text = error.to_string();
            assert!(text.contains('\n') && !text.contains(" --") && !text.contains("(--"), "{text}");
        }
    }

    #[test]
    fn error_has_its_cause_as_source() {
        use std::error::Error as _;

        let table = StartError::Table("too large".into());
        assert_eq!(table.source().map(ToString::to_string).as_deref(), Some("too large"));
        let torn = Fault::Source { packets: 1, error: SourceError("it is torn".into()) };
        assert!(torn.source().and_then(|error| error.downcast_ref::<SourceError>()).is_some());
        let full = Fault::Sink { error: SinkError("the disk is full".into()) };
        assert!(full.source().and_then(|error| error.downcast_ref::<SinkError>()).is_some());
    }

    #[test]
    fn a_fault_says_after_how_many_packets() {
        let text = |packets| Fault::InputPanicked { packets, message: String::from("why") }.to_string();
        assert_eq!(text(1), "the input stage panicked after 1 packet: why");
        assert_eq!(text(2), "the input stage panicked after 2 packets: why");
    }
}
