//! Cost of a miss: the offload engine of [TCBCACHE §2.1.1, §4.5], and an additive model of a host.
//!
//! ```text
//! T = 51.2 + (1 − m) · 6.4 + m · k · 50  ns        m misses a packet, k memory accesses a miss
//! ```
//!
//! The paper's own formula contains only misses, without the time of a hit [TCBCACHE §4.1]; this
//! corresponds to a `hit_ns` of 0. It charges one memory access per miss, but states that a lookup
//! in memory walks a list and takes more. Its CPU figures come from a full-system simulator and do
//! not follow from miss ratios. [`HostModel`] adds up the terms that the text names, and models
//! nothing else.

/// An offload engine; times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OffloadEngine {
    /// Processing time of a packet in order.
    pub packet_ns: f64,
    /// Access time of state that is in the cache.
    pub hit_ns: f64,
    /// Time of one memory access.
    pub memory_ns: f64,
    /// Accesses to memory per miss.
    pub accesses_per_miss: f64,
}

impl OffloadEngine {
    /// Returns the paper's numbers, with `k` memory accesses per miss; the paper's own figures use
    /// 1.
    #[must_use]
    pub const fn paper(accesses_per_miss: f64) -> Self {
        Self { packet_ns: 51.2, hit_ns: 6.4, memory_ns: 50.0, accesses_per_miss }
    }

    /// Returns the time of a packet at a miss ratio, in nanoseconds.
    #[must_use]
    pub fn packet_time_ns(&self, miss_ratio: f64) -> f64 {
        let miss_ns = self.accesses_per_miss * self.memory_ns;
        self.packet_ns + (1.0 - miss_ratio) * self.hit_ns + miss_ratio * miss_ns
    }

    /// Returns how much less time a packet takes at the second miss ratio than at the first, as a
    /// share of the first.
    #[must_use]
    pub fn saving(&self, before: f64, after: f64) -> f64 {
        1.0 - self.packet_time_ns(after) / self.packet_time_ns(before)
    }
}

/// A host whose time per packet consists of a fixed part and the misses on connection state; times
/// are in cycles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HostModel {
    /// Cycles per packet without connection state.
    pub packet_cycles: f64,
    /// Cycles to access state that is in the cache.
    pub hit_cycles: f64,
    /// Cycles of one miss to memory.
    pub memory_cycles: f64,
    /// Cache lines of state, and steps of the list that finds it, per miss.
    pub lines_per_miss: f64,
}

impl HostModel {
    /// Returns the latencies of [TCBCACHE Tab. 1], with a given packet time and number of lines per
    /// miss, because the paper states neither.
    #[must_use]
    pub const fn paper_latencies(packet_cycles: f64, lines_per_miss: f64) -> Self {
        Self { packet_cycles, hit_cycles: 10.0, memory_cycles: 300.0, lines_per_miss }
    }

    /// Returns the time of a packet at a miss ratio, in cycles.
    #[must_use]
    pub fn packet_cycles(&self, miss_ratio: f64) -> f64 {
        let miss = self.memory_cycles * self.lines_per_miss;
        self.packet_cycles + (1.0 - miss_ratio) * self.hit_cycles + miss_ratio * miss
    }
}

/// Returns the gates of one output bit of an H₃ function over this many key bits, and its delay in
/// gates [TCBCACHE §4.3].
///
/// An AND for each key bit and a tree of two-input XORs: 16 bits take 31 gates and 5 delays, and 48
/// bits take 95 gates and 7 delays.
#[must_use]
pub const fn h3_output_bit(key_bits: u32) -> (u32, u32) {
    if key_bits == 0 {
        return (0, 0);
    }
    (2 * key_bits - 1, 1 + key_bits.next_power_of_two().ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_arithmetic() {
        let one = OffloadEngine::paper(1.0);
        assert!((one.packet_time_ns(0.56) - 82.016).abs() < 1e-9);
        assert!((one.packet_time_ns(0.28) - 69.808).abs() < 1e-9);
        assert!((one.saving(0.56, 0.28) - 0.148_849).abs() < 1e-5);
        assert!((OffloadEngine::paper(2.0).saving(0.56, 0.28) - 0.2382).abs() < 2e-3);
        assert_eq!((h3_output_bit(16), h3_output_bit(48), h3_output_bit(0)), ((31, 5), (95, 7), (0, 0)));
        let host = HostModel::paper_latencies(5000.0, 4.0);
        assert!((host.packet_cycles(0.5) - 5605.0).abs() < 1e-9);
    }
}
