//! System calls and memory that the kernel shares with the process: all unsafe code of the crate.
//!
//! | module | holds |
//! | --- | --- |
//! | [`map`] | mappings, and the accesses to them that need no argument |
//! | [`packet_ring`] | the receive ring of `AF_PACKET`: which slots are ours |
//! | [`umem`] | the frames of `AF_XDP`: which chunks are ours |
//! | [`socket`] | options, addresses, batches of messages |
//! | [`bpf`] | programs, maps and links |

pub(crate) mod bpf;
pub(crate) mod map;
pub(crate) mod packet_ring;
pub(crate) mod socket;
pub(crate) mod umem;

/// Returns two words as eight bytes in memory order, the first word first.
pub(crate) const fn joined([first, second]: [u32; 2]) -> u64 {
    let (low, high) = if cfg!(target_endian = "little") { (first, second) } else { (second, first) };
    (high as u64) << 32 | low as u64
}

/// Returns eight bytes as two words in memory order.
pub(crate) const fn halves(whole: u64) -> [u32; 2] {
    let (low, high) = (whole as u32, (whole >> 32) as u32);
    if cfg!(target_endian = "little") { [low, high] } else { [high, low] }
}
