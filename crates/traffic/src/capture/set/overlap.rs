//! Estimates whether captures overlap in time, from their first and last records.

use crate::capture::boundary::{Budget, FileHead};
use crate::capture::error::CaptureError;
use crate::capture::members::Member;
use crate::capture::open::{Capture, CaptureOptions};
use crate::capture::stop::Stop;
use crate::capture::walk::Walk;

/// Bytes at the end of a file in which the estimate searches for the last times.
const TAIL_BYTES: usize = 64 << 10;

/// How captures overlap in time, estimated from their first and last records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overlap {
    /// Number of files that overlap another file.
    pub files: usize,
    /// Number of files whose last time is unknown unless they are read completely: compressed
    /// files, and files whose last records are not found. They count as ending with their first
    /// packet.
    pub unknown: usize,
}

/// Sorts files as a merge opens them: by first time, then in the order in which they were named.
pub(crate) fn sort_by_first_time(files: &mut [Member]) {
    files.sort_by_key(|file| (file.first_ns, file.named));
}

/// Estimates how files overlap; they must be sorted by their first times.
pub(crate) fn estimate(files: &[Member], options: CaptureOptions) -> Result<Overlap, CaptureError> {
    let mut times = Vec::with_capacity(files.len());
    let (mut unknown, mut budget) = (0, Budget::default());
    for file in files {
        let last_ns = match file.bytes {
            Some(_) if files.len() > 1 => last_time(file, options, &mut budget)?,
            _ => None,
        };
        unknown += usize::from(last_ns.is_none());
        let first_ns = file.first_ns.unwrap_or(0);
        times.push(Times { named: file.named, first_ns, last_ns: last_ns.unwrap_or(0).max(first_ns) });
    }
    Ok(Overlap { files: overlapping(&times), unknown })
}

/// The times of one file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// Its index among the files in the order in which they were named.
    pub(crate) named: usize,
    /// Time of its first packet.
    pub(crate) first_ns: u64,
    /// The latest time in the file.
    pub(crate) last_ns: u64,
}

/// Returns how many files overlap an earlier one, including the files that they overlap. `times`
/// must be sorted by first time. 0 means that a merge reads them one after another.
pub(crate) fn overlapping(times: &[Times]) -> usize {
    let mut overlaps = vec![false; times.len()];
    // The file with the latest end so far.
    let mut longest: Option<usize> = None;
    for (file, next) in times.iter().enumerate() {
        if let Some(before) = longest
            && (times[before].last_ns, times[before].named) > (next.first_ns, next.named)
        {
            (overlaps[before], overlaps[file]) = (true, true);
        }
        let last = |file: usize| (times[file].last_ns, times[file].named);
        if longest.is_none_or(|before| last(before) < last(file)) {
            longest = Some(file);
        }
    }
    overlaps.into_iter().filter(|overlaps| *overlaps).count()
}

/// Returns the latest time among the last records of a plain file, or `None` if they are not found.
fn last_time(
    file: &Member,
    options: CaptureOptions,
    budget: &mut Budget,
) -> Result<Option<u64>, CaptureError> {
    let Ok(capture) = Capture::open_unless_pipe(file.path(), options)? else { return Ok(None) };
    let Some(mapping) = capture.mapping() else { return Ok(None) };
    let bytes = mapping.block().bytes();
    let Some(head) = FileHead::parse(bytes) else { return Ok(None) };
    let Some(start) = head.record_from(bytes, bytes.len().saturating_sub(TAIL_BYTES), budget) else {
        return Ok(None);
    };
    let mut walk = Walk::resume(head.state_at(bytes, start), start);
    let (mut at, mut packets, mut latest_ns) = (start, Vec::new(), None);
    loop {
        packets.clear();
        let (next, stop) = walk.step(bytes, at, true, &mut packets);
        latest_ns = latest_ns.max(packets.iter().map(|packet| packet.time_ns).max());
        at = next;
        if stop != Stop::Full {
            return Ok(latest_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(files: &[(u64, u64)]) -> Vec<Times> {
        (0..).zip(files).map(|(named, &(first_ns, last_ns))| Times { named, first_ns, last_ns }).collect()
    }

    #[test]
    fn files_overlap_if_one_begins_before_another_ends() {
        assert_eq!(overlapping(&times(&[])), 0);
        assert_eq!(overlapping(&times(&[(0, 9)])), 0);
        assert_eq!(
            overlapping(&times(&[(0, 4), (4, 8), (9, 9)])),
            0,
            "of equal times the first named comes first"
        );
        assert_eq!(overlapping(&times(&[(0, 5), (4, 8), (9, 9)])), 2);
        assert_eq!(overlapping(&times(&[(0, 9), (1, 2), (3, 4), (9, 9)])), 3, "one spans two");
        let mut swapped = times(&[(0, 4), (4, 8)]);
        (swapped[0].named, swapped[1].named) = (1, 0);
        assert_eq!(overlapping(&swapped), 2, "the other was named first");
    }
}
