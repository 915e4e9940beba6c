//! Errors of building a table.

use core::fmt;

use flowloom_cpu::features::Isa;
use flowloom_cpu::pages::AllocError;

use crate::options::TableOptions;
use crate::state::wheel::SLOTS_MAX;

/// The reason why a table cannot be built with these parameters on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The table has space for no flow.
    NoCapacity,
    /// There are more flows than slot numbers.
    TooManyFlows {
        /// The requested number of flows.
        flows: u64,
        /// The maximum.
        flows_max: u64,
    },
    /// Buckets and pool together have fewer slots than there are flows.
    TooFewPlaces {
        /// The requested number of flows.
        flows: u64,
        /// Number of slots in buckets and pool.
        places: u64,
    },
    /// There are more buckets and pool states than slot numbers.
    TooManyPlaces {
        /// Number of slots that buckets and pool would have.
        places: u64,
        /// The maximum.
        places_max: u64,
    },
    /// There are more slots than list links can name: the flows of `baseline::Chained`, or the
    /// buckets and flows of `baseline::DirectTable`.
    TooManyLinks {
        /// Number of slots that links would have to name.
        places: u64,
        /// The maximum.
        places_max: u64,
    },
    /// The table would exceed the memory limit.
    TooLarge {
        /// Bytes that the table would need.
        needed_bytes: u64,
        /// Bytes that the parameters allow.
        limit_bytes: u64,
    },
    /// The allocator refused the memory.
    ///
    /// Building a table reserves memory; flows, or the option `prefault`, touch its pages. An
    /// allocator may therefore grant more than is free, as Linux does up to the machine's whole
    /// memory, and the kernel may kill a process that touches all of it. To get
    /// [`TooLarge`](Self::TooLarge) instead, set a limit in the table's configuration, such as
    /// [`available_bytes`](https://docs.rs/flowloom-cpu/latest/flowloom_cpu/memory/fn.available_bytes.html).
    /// A library cannot know the memory needs of other programs.
    OutOfMemory {
        /// Bytes of the array that could not be allocated.
        bytes: u64,
    },
    /// The number of shards is not a power of two, or is too large.
    InvalidShards {
        /// The requested number of shards.
        shards: u64,
        /// The maximum.
        shards_max: u64,
    },
    /// The timeout of all flows is 0 ticks.
    ZeroTimeout,
    /// This processor lacks the requested instruction set.
    IsaUnavailable {
        /// The requested instruction set.
        isa: Isa,
    },
}

/// Returns the number of states, if the numbers of a configuration are consistent and within the
/// limit.
pub(crate) fn check_size(
    options: &TableOptions,
    places: u64,
    needed_bytes: u64,
) -> Result<u32, BuildError> {
    let (flows, flows_max) = (options.flows, TableOptions::FLOWS_MAX);
    let limit_bytes = options.memory_limit_bytes;
    if flows == 0 {
        return Err(BuildError::NoCapacity);
    }
    if flows > flows_max {
        return Err(BuildError::TooManyFlows { flows: flows.into(), flows_max: flows_max.into() });
    }
    let count = match u32::try_from(places) {
        Ok(count) if count <= SLOTS_MAX => count,
        _ => return Err(BuildError::TooManyPlaces { places, places_max: SLOTS_MAX.into() }),
    };
    if places < u64::from(flows) {
        return Err(BuildError::TooFewPlaces { flows: flows.into(), places });
    }
    if needed_bytes > limit_bytes {
        return Err(BuildError::TooLarge { needed_bytes, limit_bytes });
    }
    Ok(count)
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCapacity => f.write_str(
                "a table needs space for at least one flow; set its number of flows to 1 or more",
            ),
            Self::TooManyFlows { flows, flows_max } => {
                write!(
                    f,
                    "{flows} flows are more than the {flows_max} that one table can number: build it for fewer"
                )
            }
            Self::TooFewPlaces { flows, places } => {
                write!(
                    f,
                    "{flows} flows do not fit the {places} places of buckets and pool: give it more buckets, or a larger pool"
                )
            }
            Self::TooManyPlaces { places, places_max } => {
                write!(
                    f,
                    "{places} places of buckets and pool are more than the {places_max} that a table can number: build it for fewer \
                     flows, or give it fewer buckets or a smaller pool"
                )
            }
            Self::TooManyLinks { places, places_max } => {
                write!(
                    f,
                    "{places} places are more than the {places_max} that a link of this table's lists \
                     can name, in 27 bits: build it for fewer flows or buckets, or use LineHash, \
                     which has no such lists"
                )
            }
            Self::TooLarge { needed_bytes, limit_bytes } => {
                write!(
                    f,
                    "table needs {needed_bytes} bytes, the limit is {limit_bytes}: build it for fewer flows, or raise the limit"
                )
            }
            Self::OutOfMemory { bytes } => {
                write!(f, "no memory for an array of {bytes} bytes: build the table for fewer flows")
            }
            Self::InvalidShards { shards, shards_max } => {
                write!(f, "{shards} shards are not a power of two up to {shards_max}: give one that is")
            }
            Self::ZeroTimeout => f.write_str(
                "a timeout of 0 ticks would end each flow at once: give 1 or more ticks, or set no timeout",
            ),
            Self::IsaUnavailable { isa } => {
                write!(
                    f,
                    "this processor does not support {isa}: choose another instruction set, or none for \
                     the best one"
                )
            }
        }
    }
}

impl core::error::Error for BuildError {}

impl From<AllocError> for BuildError {
    fn from(error: AllocError) -> Self {
        Self::OutOfMemory { bytes: error.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn size_errors_have_numbers_and_advice() {
        let errors = [
            (BuildError::TooManyFlows { flows: 77, flows_max: 55 }, vec!["77", "55"]),
            (BuildError::TooFewPlaces { flows: 77, places: 55 }, vec!["77", "55"]),
            (BuildError::TooManyPlaces { places: 77, places_max: 55 }, vec!["77", "55"]),
            (BuildError::TooManyLinks { places: 77, places_max: 55 }, vec!["77", "55"]),
            (BuildError::TooLarge { needed_bytes: 77, limit_bytes: 55 }, vec!["77", "55"]),
            (BuildError::OutOfMemory { bytes: 77 }, vec!["77"]),
            (BuildError::InvalidShards { shards: 77, shards_max: 55 }, vec!["77", "55"]),
            (BuildError::ZeroTimeout, vec!["0 ticks"]),
            (BuildError::IsaUnavailable { isa: Isa::Neon }, vec![]),
        ];
        for (error, numbers) in errors {
            let text = error.to_string();
            let (what, to_do) = text.split_once(": ").expect(&text);
            assert!(numbers.iter().all(|number| what.contains(number)), "{text}");
            assert!(["build", "give", "choose"].iter().any(|verb| to_do.starts_with(verb)), "{text}");
        }
    }
}
