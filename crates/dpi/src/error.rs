//! Why a scanner was not built.

use std::fmt;

/// Why patterns give no scanner.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// There are no patterns.
    NoPatterns,
    /// More patterns than can be numbered.
    TooManyPatterns {
        /// The number of patterns.
        patterns: usize,
        /// How many there may be.
        patterns_max: usize,
    },
    /// More expressions than can be numbered.
    TooManyExpressions {
        /// The number of expressions.
        expressions: usize,
        /// How many there may be.
        expressions_max: usize,
    },
    /// A pattern has no expression.
    NoExpression {
        /// The pattern's name.
        name: String,
    },
    /// A condition of a pattern for TCP reads bytes that a stream does not keep.
    FarField {
        /// The pattern's name.
        name: String,
        /// Bytes at the beginning of the stream that the condition needs.
        bytes: usize,
        /// Bytes that are kept.
        bytes_max: usize,
    },
    /// An expression is longer than the limit.
    LongRegex {
        /// The pattern's name.
        name: String,
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// An expression is not one.
    Syntax {
        /// The pattern's name.
        name: String,
        /// The error of the expression.
        message: String,
    },
    /// An expression matches everything, even nothing: no pattern after it would ever match.
    MatchesNothing {
        /// The pattern's name.
        name: String,
    },
    /// One pattern alone exceeds the budget of a group.
    PatternTooLarge {
        /// The pattern's name.
        name: String,
        /// The budget.
        group_bytes_max: usize,
    },
    /// The patterns need more groups than a flow has states for.
    TooManyGroups {
        /// How many groups they need at least: none is built after these.
        groups: usize,
        /// How many there may be.
        groups_max: usize,
        /// The budget of each.
        group_bytes_max: usize,
    },
    /// All groups together exceed the budget.
    TooLarge {
        /// The bytes of the tables so far.
        bytes: usize,
        /// The budget.
        bytes_max: usize,
    },
    /// Building takes longer than it may.
    TooManySteps {
        /// The budget.
        steps_max: u64,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPatterns => {
                write!(
                    f,
                    "there are no patterns to look for\n  name a file that holds some, or use the builtin set"
                )
            }
            Self::TooManyPatterns { patterns, patterns_max } => {
                write!(f, "{patterns} patterns are more than {patterns_max}\n  leave some out")
            }
            Self::TooManyExpressions { expressions, expressions_max } => {
                write!(f, "{expressions} expressions are more than {expressions_max}\n  leave some out")
            }
            Self::NoExpression { name } => {
                write!(f, "the pattern {name} has no expression\n  add one, or leave the pattern out")
            }
            Self::FarField { name, bytes, bytes_max } => write!(
                f,
                "a condition of {name} needs the first {bytes} bytes of a TCP stream, more than the {bytes_max} that are \
                 kept\n  read a field that ends before, or look for the pattern on udp only"
            ),
            Self::LongRegex { name, bytes, bytes_max } => {
                write!(f, "the expression of {name} has {bytes} bytes, more than {bytes_max}\n  shorten it")
            }
            Self::Syntax { name, message } => {
                write!(
                    f,
                    "the expression of {name} is not valid: {message}\n  fix it, or leave the pattern out"
                )
            }
            Self::MatchesNothing { name } => write!(
                f,
                "the expression of {name} matches the empty payload, and so every flow\n  ask for at least one byte"
            ),
            Self::PatternTooLarge { name, group_bytes_max } => write!(
                f,
                "the automaton of {name} alone exceeds {group_bytes_max} bytes\n  anchor the expression with ^, shorten \
                 its repetitions, raise the budget, or leave the pattern out"
            ),
            Self::TooManyGroups { groups, groups_max, group_bytes_max } => write!(
                f,
                "the patterns make {groups} automata or more, of at most {group_bytes_max} bytes each; a flow has states for \
                 {groups_max}\n  raise the budget of a group, anchor expressions with ^, or leave patterns out"
            ),
            Self::TooLarge { bytes, bytes_max } => write!(
                f,
                "the automata take {bytes} bytes, more than {bytes_max}\n  raise the budget, or leave patterns out"
            ),
            Self::TooManySteps { steps_max } => write!(
                f,
                "building the automata takes more than {steps_max} steps\n  shorten repetitions, anchor expressions with ^, raise \
                 the budget, or leave patterns out"
            ),
        }
    }
}

impl std::error::Error for BuildError {}
