//! The reason why a classifier cannot be built.

use core::fmt;

use flowloom_cpu::features::Isa;

use crate::arch::FaultyProgram;

/// A classifier cannot be built from these rules within these limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// Every tried form would exceed the memory limit.
    Memory {
        /// Minimum size of the smallest known form, in bytes.
        needed_bytes: u64,
        /// The limit.
        limit_bytes: u64,
    },
    /// The work limit was reached before any form was finished.
    Work {
        /// The allowed number of steps.
        limit_steps: u64,
    },
    /// AggreCuts' word has twenty bits for the base of a child array, which do not suffice.
    BaseOverflow {
        /// Bits that a node cuts: 8 or 4.
        stride: u32,
        /// Bytes that such bases can address.
        limit_bytes: u64,
    },
    /// The allocator has no memory.
    OutOfMemory {
        /// Bytes that could not be allocated.
        bytes: u64,
    },
    /// This processor lacks the requested instruction set.
    IsaUnavailable {
        /// The requested instruction set.
        isa: Isa,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { needed_bytes, limit_bytes } => write!(
                f,
                "the classifier needs at least {needed_bytes} bytes, the limit is {limit_bytes}; raise \
                 the limit"
            ),
            Self::Work { limit_steps } => write!(
                f,
                "no tree was finished within {limit_steps} steps; raise the limit, or use linear search"
            ),
            Self::BaseOverflow { stride, limit_bytes } => write!(
                f,
                "a tree of stride {stride} outgrows the {limit_bytes} bytes that its 20-bit bases address; share equal \
                 sub-trees, or use FlowCuts"
            ),
            Self::OutOfMemory { bytes } => write!(f, "no memory for an array of {bytes} bytes"),
            Self::IsaUnavailable { isa } => write!(f, "this processor does not support {isa}"),
        }
    }
}

impl core::error::Error for BuildError {}

impl From<FaultyProgram> for BuildError {
    fn from(error: FaultyProgram) -> Self {
        match error {
            FaultyProgram::OutOfMemory { bytes } => Self::OutOfMemory { bytes },
            faulty => unreachable!("the builders emit children before parents: {faulty:?}"),
        }
    }
}
