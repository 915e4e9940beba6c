//! What can go wrong before a run, and during one.

use flowloom_packet::SourceError;

/// Parameters that contradict themselves or the machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A number of workers that cannot be.
    #[error("{workers} workers cannot be run: between 1 and {max} can")]
    Workers {
        /// What was asked for.
        workers: usize,
        /// The most there may be.
        max: usize,
    },
    /// A ring size that cannot be.
    #[error("a ring of {slots} slots cannot be: a power of two between 64 and 16777216 can")]
    RingSlots {
        /// What was asked for.
        slots: usize,
    },
    /// Rings that together would take too much memory.
    #[error("the rings would take {bytes} bytes, {max} are allowed\n  fewer workers or slots will do")]
    RingMemory {
        /// What they would take.
        bytes: u64,
        /// The most they may take.
        max: u64,
    },
    /// A pace at which no packet would ever be taken.
    #[error("a pace of {number} cannot be: a number above zero can")]
    Pace {
        /// What was asked for.
        number: String,
    },
    /// A CPU that this process may not use.
    #[error(
        "CPU {cpu} does not exist or is not allowed for this process (allowed: {allowed})\n  in a container the cgroup cpuset decides"
    )]
    Cpu {
        /// What was asked for.
        cpu: u32,
        /// The CPUs that may be used, as a list of ranges.
        allowed: String,
    },
    /// Fewer CPUs were named than the mode has threads.
    #[error(
        "too few CPUs are named: {named} for {threads} threads\n  \
         name one for each worker, and before them one for the input if it is to have a thread of its own"
    )]
    TooFewCpus {
        /// How many were named.
        named: usize,
        /// How many are needed.
        threads: usize,
    },
    /// Internal order was asked for of a policy that keeps none.
    #[error(
        "{policy} keeps no order among the packets of a flow\n  external order keeps it for any policy, order none does without"
    )]
    NoOrder {
        /// The policy's short name.
        policy: &'static str,
    },
    /// The policy was made for another number of workers.
    #[error("{policy} was made for {made_for} workers, and the run has {workers}\n  make it for as many")]
    PolicyWorkers {
        /// The policy's short name.
        policy: &'static str,
        /// How many it was made for.
        made_for: usize,
        /// How many there are.
        workers: usize,
    },
    /// The sharded layout was asked for of a function that is given one source.
    #[error("the sharded layout needs an input in parts\n  `run_sharded` takes one")]
    NotPartitioned,
    /// The sharded layout cannot run as it is configured.
    #[error("the sharded layout cannot be used: {why}\n  the inline and the pipeline layouts can")]
    Sharded {
        /// What it cannot do.
        why: &'static str,
    },
    /// A CPU is named that threads cannot be pinned to.
    #[error("threads cannot be pinned to CPU {cpu} on this system\n  name others, or run without pinning")]
    Unpinnable {
        /// The CPU.
        cpu: u32,
    },
    /// The machine's CPUs cannot be found out.
    #[error("cannot find out which CPUs may be used: {why}\n  a run that pins no thread does not ask")]
    Topology {
        /// What failed.
        why: String,
    },
}

/// A run that could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The parameters are not sound.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A flow table could not be built.
    #[error("cannot build the flow table: {0}")]
    Table(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// A sink that cannot take a packet.
///
/// # Examples
///
/// ```
/// use flowloom_engine::SinkError;
/// assert_eq!(SinkError("the disk is full".into()).to_string(), "the disk is full");
/// let error = SinkError(Box::new(std::io::Error::other("no space")));
/// assert!(error.0.is::<std::io::Error>());
/// ```
#[derive(Debug)]
pub struct SinkError(pub Box<dyn std::error::Error + Send + Sync>);

impl SinkError {
    /// Returns the error that a panic of the sink is.
    pub(crate) fn of_panic(message: &str) -> Self {
        Self(format!("it panicked: {message}").into())
    }
}

impl std::fmt::Display for SinkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for SinkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

/// What ended a run before its input did. The report beside it is balanced all the same.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The source broke.
    #[error("the source failed after {}: {error}", packets_of(*packets))]
    Source {
        /// Packets taken before.
        packets: u64,
        /// What it said.
        #[source]
        error: SourceError,
    },
    /// A worker panicked, in the inline layout worker 0.
    #[error(
        "worker {worker} panicked {} after {} of its own: {message}",
        packet.map_or_else(|| String::from("between two packets"), |packet| format!("at packet {packet}")),
        packets_of(*processed)
    )]
    WorkerPanicked {
        /// Which one, counted from 0.
        worker: usize,
        /// The packet that its application had in hand, counted from 1 in the order of the source.
        packet: Option<u64>,
        /// Packets it had completed.
        processed: u64,
        /// The panic's message.
        message: String,
    },
    /// The sink broke, or panicked.
    #[error("packets cannot be written any more: {error}")]
    Sink {
        /// What it said.
        #[source]
        error: SinkError,
    },
    /// The sink of flow records broke, or panicked.
    #[error("flow records cannot be written: {error}")]
    Records {
        /// What it said.
        #[source]
        error: SinkError,
    },
    /// The input stage panicked.
    #[error("the input stage panicked after {}: {message}", packets_of(*packets))]
    InputPanicked {
        /// Packets taken before.
        packets: u64,
        /// The panic's message.
        message: String,
    },
    /// What the flows came to panicked while it was put together: when records were merged, or a table of all workers' was taken
    /// apart. No flow is in the report.
    #[error("the results of flows are lost, a panic while they were put together: {message}")]
    ResultsPanicked {
        /// The panic's message.
        message: String,
    },
}

impl Fault {
    /// Returns the fault of part `worker` of an input, before which so many packets were taken.
    pub(crate) fn in_part(self, before: u64, worker: usize) -> Self {
        match self {
            Self::Source { packets, error } => Self::Source { packets: before + packets, error },
            Self::InputPanicked { packets, message } => {
                Self::InputPanicked { packets: before + packets, message }
            }
            Self::WorkerPanicked { packet, processed, message, .. } => {
                let packet = packet.map(|packet| before + packet);
                Self::WorkerPanicked { worker, packet, processed, message }
            }
            other => other,
        }
    }
}

fn packets_of(count: u64) -> String {
    if count == 1 { String::from("1 packet") } else { format!("{count} packets") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_given_in_the_words_of_this_library() {
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
    fn what_caused_an_error_is_its_source() {
        use std::error::Error as _;

        let table = StartError::Table("no room".into());
        assert_eq!(table.source().map(ToString::to_string).as_deref(), Some("no room"));
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
