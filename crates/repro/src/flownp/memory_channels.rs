//! Threads of a network processor and its memories, in virtual time [FLOWNP Tab. 1, §6.3].
//!
//! ```text
//!  thread ─▶ other work of a packet ─▶ command ─▶ command ─▶ … ─▶ next packet
//!                                         │ waits behind those that came before
//!                                         ▼
//!                                 channel of SRAM, one of three of DRAM
//! ```
//!
//! The rate of a channel is from the paper's table of its hardware: QDR SRAM reads a long-word of
//! four bytes in each clock of 233 MHz, RDRAM sixteen bytes in each of 127.3 MHz. The model
//! contains no other hardware: latencies and the scheduling of the microengines count as other
//! work, which takes equally long for every table.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flowloom::flow_key::hash::fold::split_mix;

/// Picoseconds that a channel of SRAM takes per long-word of four bytes, at 233 MHz [FLOWNP Tab.
/// 1].
pub(super) const LONG_WORD_PS: u64 = 4_292;

/// Picoseconds that a channel of DRAM takes per sixteen bytes, at 127.3 MHz [FLOWNP Tab. 1].
pub(super) const SIXTEEN_BYTES_PS: u64 = 7_855;

/// Number of DRAM channels, over which states are spread evenly.
const DRAM_CHANNELS: usize = 3;

/// A memory command of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Reads a number of long-words of SRAM; the thread waits.
    ReadSram(u32),
    /// Writes a number of long-words of SRAM; the thread does not wait, but the channel is
    /// occupied.
    WriteSram(u32),
    /// Reads a number of sixteen-byte units of DRAM; the thread waits.
    ReadDram(u32),
    /// Writes a number of sixteen-byte units of DRAM; the thread does not wait.
    WriteDram(u32),
}

impl Command {
    /// Returns how long the command occupies its channel, and whether its thread waits.
    fn picoseconds(self) -> (u64, bool) {
        match self {
            Self::ReadSram(words) => (u64::from(words) * LONG_WORD_PS, true),
            Self::WriteSram(words) => (u64::from(words) * LONG_WORD_PS, false),
            Self::ReadDram(parts) => (u64::from(parts) * SIXTEEN_BYTES_PS, true),
            Self::WriteDram(parts) => (u64::from(parts) * SIXTEEN_BYTES_PS, false),
        }
    }

    fn is_sram(self) -> bool {
        matches!(self, Self::ReadSram(_) | Self::WriteSram(_))
    }
}

/// Returns how long a packet's commands make its thread wait if there is no other thread.
pub(super) fn alone_ps(commands: &[Command]) -> u64 {
    commands.iter().map(|command| command.picoseconds()).filter(|timed| timed.1).map(|timed| timed.0).sum()
}

/// The progress of a thread.
struct Thread {
    packet: usize,
    next: usize,
}

/// Returns the packets per second of a number of threads, each of which takes the next of `packets`
/// packets when it has completed one.
///
/// `other_ps` is the mean time of a packet's work apart from its commands; the model draws a value
/// between half and one and a half of it. The cost is proportional to the number of packets and to
/// the logarithm of the number of threads.
pub(super) fn packets_per_second(
    threads: usize,
    packets: &[Vec<Command>],
    other_ps: u64,
    seed: u64,
) -> f64 {
    let mut state = seed;
    let mut other = || other_ps / 2 + split_mix(&mut state) % other_ps.max(1);
    let mut place = !seed;
    let (mut sram, mut dram) = (0_u64, [0_u64; DRAM_CHANNELS]);
    let mut taken = threads.min(packets.len());
    let mut state: Vec<Thread> = (0..taken).map(|packet| Thread { packet, next: 0 }).collect();
    // The first packets start spread over the time of one packet.
    let mut events: BinaryHeap<Reverse<(u64, usize)>> =
        (0..taken).map(|thread| Reverse((other(), thread))).collect();
    let mut end = 0;
    while let Some(Reverse((now, thread))) = events.pop() {
        let at = &mut state[thread];
        let Some(&command) = packets[at.packet].get(at.next) else {
            end = now;
            if taken < packets.len() {
                *at = Thread { packet: taken, next: 0 };
                taken += 1;
                events.push(Reverse((now + other(), thread)));
            }
            continue;
        };
        at.next += 1;
        let free = if command.is_sram() {
            &mut sram
        } else {
            &mut dram[usize::try_from(split_mix(&mut place) % DRAM_CHANNELS as u64).unwrap_or(0)]
        };
        let (taking, waits) = command.picoseconds();
        *free = now.max(*free) + taking;
        events.push(Reverse((if waits { *free } else { now }, thread)));
    }
    // The last writes have also reached their memory.
    let end = dram.into_iter().fold(end.max(sram), u64::max);
    packets.len() as f64 * 1e12 / end.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER_PS: u64 = 1_000_000;

    fn entry_reads(count: usize) -> Vec<Vec<Command>> {
        vec![vec![Command::ReadSram(8)]; count]
    }

    #[test]
    fn time_of_one_thread_is_its_work_plus_its_memory_commands() {
        let rate = packets_per_second(1, &entry_reads(4000), OTHER_PS, 1);
        let alone = 1e12 / (OTHER_PS + alone_ps(&entry_reads(1)[0])) as f64;
        assert!((rate / alone - 1.0).abs() < 0.02, "{rate} {alone}");
    }

    #[test]
    fn memory_channel_limits_the_rate_of_many_threads() {
        let limit = 1e12 / (8 * LONG_WORD_PS) as f64;
        let rate = packets_per_second(200, &entry_reads(40_000), OTHER_PS, 1);
        assert!(rate <= limit && rate > 0.95 * limit, "{rate} {limit}");
        // Half of the channel's time allows twice the packets, if there are enough threads.
        let halves = vec![vec![Command::ReadSram(4)]; 40_000];
        let twice = packets_per_second(400, &halves, OTHER_PS, 1);
        assert!((twice / rate - 2.0).abs() < 0.1, "{twice} {rate}");
    }

    #[test]
    fn writes_occupy_the_channel_but_do_not_block_the_thread() {
        let writes = vec![vec![Command::ReadSram(8), Command::WriteSram(8)]; 20_000];
        assert_eq!(alone_ps(&writes[0]), alone_ps(&entry_reads(1)[0]));
        let limit = 1e12 / (16 * LONG_WORD_PS) as f64;
        let rate = packets_per_second(200, &writes, OTHER_PS, 1);
        assert!(rate <= limit && rate > 0.95 * limit, "{rate} {limit}");
    }

    #[test]
    fn three_dram_channels_share_the_load() {
        let bursts = vec![vec![Command::ReadDram(2)]; 60_000];
        let one = 1e12 / (2 * SIXTEEN_BYTES_PS) as f64;
        let rate = packets_per_second(600, &bursts, OTHER_PS, 1);
        assert!(rate > 2.5 * one && rate <= 3.0 * one, "{rate} {one}");
    }

    #[test]
    fn run_is_deterministic_and_an_empty_one_ends() {
        let packets = entry_reads(1000);
        let runs = [1, 1, 2].map(|seed| packets_per_second(16, &packets, OTHER_PS, seed));
        assert!(runs[0].to_bits() == runs[1].to_bits() && runs[0].to_bits() != runs[2].to_bits());
        assert!(packets_per_second(16, &[], OTHER_PS, 1).abs() < 1e-9);
    }
}
