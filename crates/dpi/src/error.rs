//! The reasons why a scanner could not be built.

use std::fmt;

/// The reason why no scanner could be built from the patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// There are no patterns.
    NoPatterns,
    /// There are more patterns than can be numbered.
    TooManyPatterns {
        /// The number of patterns.
        patterns: usize,
        /// Maximum number of patterns.
        patterns_max: usize,
    },
    /// There are more expressions than can be numbered.
    TooManyExpressions {
        /// The number of expressions.
        expressions: usize,
        /// Maximum number of expressions.
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
        /// Bytes at the beginning of the stream that the condition reads.
        bytes: usize,
        /// Bytes at the beginning of a stream that are kept.
        bytes_max: usize,
    },
    /// An expression is longer than the limit.
    LongRegex {
        /// The pattern's name.
        name: String,
        /// Length in bytes.
        bytes: usize,
        /// Limit in bytes.
        bytes_max: usize,
    },
    /// An expression has a syntax error.
    Syntax {
        /// The pattern's name.
        name: String,
        /// Message of the syntax error.
        message: String,
    },
    /// An expression matches every payload, even an empty one, so no pattern after it could match.
    MatchesNothing {
        /// The pattern's name.
        name: String,
    },
    /// One pattern alone exceeds the budget of a group.
    PatternTooLarge {
        /// The pattern's name.
        name: String,
        /// Budget of a group in bytes.
        group_bytes_max: usize,
    },
    /// The patterns need more groups than a flow has states for.
    TooManyGroups {
        /// Minimum number of groups that they need: building stopped here.
        groups: usize,
        /// Maximum number of groups.
        groups_max: usize,
        /// Budget of a group in bytes.
        group_bytes_max: usize,
    },
    /// All groups together exceed the budget.
    TooLarge {
        /// Size of the tables so far in bytes.
        bytes: usize,
        /// Budget in bytes.
        bytes_max: usize,
    },
    /// Building takes more steps than the budget allows.
    TooManySteps {
        /// Budget in steps.
        steps_max: u64,
    },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPatterns => {
                write!(f, "there are no patterns\n  name a file that contains some, or use the builtin set")
            }
            Self::TooManyPatterns { patterns, patterns_max } => {
                write!(f, "{patterns} patterns exceed the limit of {patterns_max}\n  omit some")
            }
            Self::TooManyExpressions { expressions, expressions_max } => {
                write!(f, "{expressions} expressions exceed the limit of {expressions_max}\n  omit some")
            }
            Self::NoExpression { name } => {
                write!(f, "the pattern {name} has no expression\n  add one, or omit the pattern")
            }
            Self::FarField { name, bytes, bytes_max } => write!(
                f,
                "a condition of {name} needs the first {bytes} bytes of a TCP stream, more than the \
                 {bytes_max} that are kept\n  read a field that ends earlier, or limit the pattern to \
                 udp"
            ),
            Self::LongRegex { name, bytes, bytes_max } => {
                write!(
                    f,
                    "the expression of {name} has {bytes} bytes, more than the limit of \
                    {bytes_max}\n  shorten it"
                )
            }
            Self::Syntax { name, message } => {
                write!(
                    f,
                    "the expression of {name} is not valid: {message}\n  correct it, or omit the pattern"
                )
            }
            Self::MatchesNothing { name } => write!(
                f,
                "the expression of {name} matches the empty payload and therefore every flow\n  require \
                 at least one byte"
            ),
            Self::PatternTooLarge { name, group_bytes_max } => write!(
                f,
                "the automaton of {name} alone exceeds {group_bytes_max} bytes\n  anchor the expression \
                 with ^, shorten its repetitions, raise the budget, or omit the pattern"
            ),
            Self::TooManyGroups { groups, groups_max, group_bytes_max } => write!(
                f,
                "the patterns need at least {groups} automata of at most {group_bytes_max} bytes each; \
                 a flow has states for {groups_max}\n  raise the budget of a group, anchor \
                 expressions with ^, or omit patterns"
            ),
            Self::TooLarge { bytes, bytes_max } => write!(
                f,
                "the automata take {bytes} bytes, more than the limit of {bytes_max}\n  raise the \
                 budget, or omit patterns"
            ),
            Self::TooManySteps { steps_max } => write!(
                f,
                "building the automata takes more than {steps_max} steps\n  shorten repetitions, anchor \
                 expressions with ^, raise the budget, or omit patterns"
            ),
        }
    }
}

impl std::error::Error for BuildError {}
