//! The replacement policies, by name.

use core::fmt;
use core::str::FromStr;

use crate::banked::access_count::Counted;
use crate::banked::fewer_on::Tie;
use crate::trace::number;

/// A replacement policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Policy {
    /// Evicts the oldest of all candidates.
    Lru,
    /// Evicts the candidate that was filled first.
    Fifo,
    /// Evicts a random candidate that was not recently used: the paper's *2-hash* [TCBCACHE §4.1].
    Enru,
    /// TCB(RR): the banks alternate [TCBCACHE §4.4].
    RoundRobin,
    /// TCB(Access): evicts from the bank whose set had fewer accesses [TCBCACHE §4.4].
    AccessCount {
        /// The events that count as an access.
        counted: Counted,
    },
    /// TCB(n): LRU by time stamps that wrap, compared plainly [TCBCACHE §4.4].
    Timestamp {
        /// Bits of a stamp, 1 to 32.
        bits: u32,
    },
    /// The same, compared by their distance to the counter.
    TimestampDistance {
        /// Bits of a stamp, 1 to 32.
        bits: u32,
    },
    /// Evicts from the bank with fewer ON lines [TCBCACHE §3.4].
    NoMigrate {
        /// The bank that evicts in a tie.
        tie: Tie,
    },
    /// The paper's policy: *no-migrate*, and ON lines are saved by migration [TCBCACHE §3.4].
    Speculative {
        /// The bank that evicts in a tie.
        tie: Tie,
    },
    /// Static re-reference interval prediction.
    Srrip,
    /// Dynamic re-reference interval prediction.
    Drrip,
    /// Signature-based hit prediction.
    Ship,
    /// Evicts the oldest line that one relocation can reach.
    Zcache,
    /// Flowloom's policy: the oldest candidate after one step of relocation; sessions that have
    /// ended are dropped.
    FlowLru,
    /// FlowLRU with eight-bit ages, as hardware would keep them.
    FlowLruCoarse,
    /// Least recently used, over the whole cache.
    FullLru,
    /// First in, first out, over the whole cache.
    FullFifo,
    /// Second chance, over the whole cache.
    Clock,
    /// SIEVE: a hand that moves over a queue and leaves visited lines in place.
    Sieve,
    /// S3-FIFO: a small queue, a main queue, and the keys that left the small queue.
    S3Fifo,
    /// ARC: recency and frequency, balanced by the misses on evicted keys of each list.
    Arc,
    /// 2Q: keys used once in a FIFO, others under LRU.
    TwoQ,
    /// LIRS: keys with low inter-reference recency stay.
    Lirs,
    /// W-TinyLFU: a window, and admission by estimated frequency.
    WTinyLfu,
    /// Belady's MIN over the whole cache: the minimum number of misses without knowledge of ended
    /// sessions.
    Min,
    /// Evicts the candidate with the latest next use. This is greedy, and therefore near the
    /// minimum for banks but not a bound.
    GreedyOpt,
}

impl Policy {
    /// All policies. Of those with a parameter, the variants that the paper or Flowloom compares.
    pub const ALL: [Self; 33] = [
        Self::Lru,
        Self::Fifo,
        Self::Enru,
        Self::RoundRobin,
        Self::AccessCount { counted: Counted::Searches },
        Self::AccessCount { counted: Counted::Uses },
        Self::Timestamp { bits: 8 },
        Self::Timestamp { bits: 16 },
        Self::Timestamp { bits: 24 },
        Self::Timestamp { bits: 32 },
        Self::NoMigrate { tie: Tie::Left },
        Self::NoMigrate { tie: Tie::Older },
        Self::NoMigrate { tie: Tie::RoundRobin },
        Self::Speculative { tie: Tie::Left },
        Self::Speculative { tie: Tie::Older },
        Self::Speculative { tie: Tie::RoundRobin },
        Self::Srrip,
        Self::Drrip,
        Self::Ship,
        Self::Zcache,
        Self::FlowLru,
        Self::FlowLruCoarse,
        Self::FullLru,
        Self::FullFifo,
        Self::Clock,
        Self::Sieve,
        Self::S3Fifo,
        Self::Arc,
        Self::TwoQ,
        Self::Lirs,
        Self::WTinyLfu,
        Self::Min,
        Self::GreedyOpt,
    ];

    /// Returns whether the policy treats the cache as one set, regardless of banks, ways and index
    /// function.
    #[must_use]
    pub const fn is_fully_associative(self) -> bool {
        matches!(
            self,
            Self::FullLru
                | Self::FullFifo
                | Self::Clock
                | Self::Sieve
                | Self::S3Fifo
                | Self::Arc
                | Self::TwoQ
                | Self::Lirs
                | Self::WTinyLfu
                | Self::Min
        )
    }

    /// Returns whether the policy must know future accesses.
    #[must_use]
    pub const fn needs_future(self) -> bool {
        matches!(self, Self::Min | Self::GreedyOpt)
    }

    /// Returns whether the policy always drops sessions that have ended.
    #[must_use]
    pub const fn always_drops_closed(self) -> bool {
        matches!(self, Self::FlowLru | Self::FlowLruCoarse)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tied = |name: &str, tie: Tie, f: &mut fmt::Formatter<'_>| match tie {
            Tie::Left => f.write_str(name),
            Tie::Older => write!(f, "{name}-older"),
            Tie::RoundRobin => write!(f, "{name}-turns"),
        };
        match *self {
            Self::Lru => f.write_str("lru"),
            Self::Fifo => f.write_str("fifo"),
            Self::Enru => f.write_str("2-hash"),
            Self::RoundRobin => f.write_str("rr"),
            Self::AccessCount { counted: Counted::Searches } => f.write_str("access"),
            Self::AccessCount { counted: Counted::Uses } => f.write_str("access-uses"),
            Self::Timestamp { bits } => write!(f, "ts-{bits}"),
            Self::TimestampDistance { bits } => write!(f, "ts-{bits}-distance"),
            Self::NoMigrate { tie } => tied("no-migrate", tie, f),
            Self::Speculative { tie } => tied("spec", tie, f),
            Self::Srrip => f.write_str("srrip"),
            Self::Drrip => f.write_str("drrip"),
            Self::Ship => f.write_str("ship"),
            Self::Zcache => f.write_str("zcache"),
            Self::FlowLru => f.write_str("flowlru"),
            Self::FlowLruCoarse => f.write_str("flowlru-8"),
            Self::FullLru => f.write_str("fa-lru"),
            Self::FullFifo => f.write_str("fa-fifo"),
            Self::Clock => f.write_str("clock"),
            Self::Sieve => f.write_str("sieve"),
            Self::S3Fifo => f.write_str("s3-fifo"),
            Self::Arc => f.write_str("arc"),
            Self::TwoQ => f.write_str("2q"),
            Self::Lirs => f.write_str("lirs"),
            Self::WTinyLfu => f.write_str("w-tinylfu"),
            Self::Min => f.write_str("min"),
            Self::GreedyOpt => f.write_str("opt"),
        }
    }
}

/// The name of a policy is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownPolicy {
    /// The given name.
    pub name: String,
    /// The policy with the most similar name.
    pub nearest: Policy,
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown policy '{}'; did you mean '{}'? Policies: ", self.name, self.nearest)?;
        for (i, policy) in Policy::ALL.iter().enumerate() {
            write!(f, "{}{policy}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownPolicy {}

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        let name = text.trim().to_ascii_lowercase();
        if let Some(policy) = Self::ALL.into_iter().find(|policy| policy.to_string() == name) {
            return Ok(policy);
        }
        if let Some(bits) = name.strip_prefix("ts-").and_then(number::decimal)
            && (1..=32).contains(&bits)
        {
            return Ok(Self::Timestamp { bits });
        }
        if let Some(bits) = name
            .strip_prefix("ts-")
            .and_then(|rest| rest.strip_suffix("-distance"))
            .and_then(number::decimal)
            && (1..=32).contains(&bits)
        {
            return Ok(Self::TimestampDistance { bits });
        }
        match name.as_str() {
            "enru" => return Ok(Self::Enru),
            "belady" => return Ok(Self::Min),
            _ => {}
        }
        let nearest = Self::ALL
            .into_iter()
            .min_by_key(|policy| distance(policy.to_string().as_bytes(), name.as_bytes()))
            .unwrap_or(Self::Lru);
        Err(UnknownPolicy { name: text.to_owned(), nearest })
    }
}

/// Returns the number of insertions, deletions and exchanges between two words.
fn distance(a: &[u8], b: &[u8]) -> usize {
    // A longer name is similar to none, and need not be compared completely.
    let b = &b[..b.len().min(64)];
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let exchanged = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = exchanged.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_written() {
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert_eq!("TS-12".parse(), Ok(Policy::Timestamp { bits: 12 }));
        let distance = Policy::TimestampDistance { bits: 16 };
        assert_eq!(distance.to_string().parse(), Ok(distance));
        assert!("ts-33-distance".parse::<Policy>().is_err());
        assert_eq!("enru".parse(), Ok(Policy::Enru));
    }

    #[test]
    fn edit_distance_counts_typed_changes() {
        for (a, b, expected) in
            [("", "", 0), ("abc", "", 3), ("", "abc", 3), ("kitten", "sitting", 3), ("lru", "ulr", 2)]
        {
            assert_eq!(distance(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
        }
    }

    #[test]
    fn an_unknown_name_gets_a_suggestion() {
        let error = "specc".parse::<Policy>().unwrap_err();
        assert_eq!(error.nearest, Policy::Speculative { tie: Tie::Left });
        assert!(error.to_string().contains("did you mean 'spec'? Policies: lru, fifo"), "{error}");
        assert_eq!("flow-lru".parse::<Policy>().unwrap_err().nearest, Policy::FlowLru);
        assert!("ts-33".parse::<Policy>().is_err() && "ts-+8".parse::<Policy>().is_err());
        assert!("".parse::<Policy>().is_err());
        assert!("x".repeat(1 << 20).parse::<Policy>().is_err());
    }
}
