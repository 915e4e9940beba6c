//! Selection of input packets by filter and time.

use std::any::Any;

use flowloom::filter::PacketFilter;
use flowloom::packet::clock::PacketClock;
use flowloom::packet::{DropCounts, Fill, PacketBatch, PacketSource, Segment, SourceError};
use flowloom::traffic::capture::{Capture, CaptureOptions};

use crate::args::parse::Instant;
use crate::args::replay::Replay;
use crate::exit::Failure;
use crate::part_file::Times;
use crate::render::{date, dates};

/// Batches without a selected packet after which the source returns to the engine, which may want
/// to stop.
const BATCHES_MAX: u32 = 256;

/// The conditions on packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    filter: Option<PacketFilter>,
    /// Times in nanoseconds since 1970; the second is excluded.
    from_ns: Option<u64>,
    to_ns: Option<u64>,
    /// The clock of the run, by whose time the packets of a part are selected. It ticks for all
    /// packets that the filter matches.
    clock: Option<PacketClock>,
    /// Whether no later packet can be selected.
    is_over: bool,
    /// The first and the last time of packets, if a time selects, and whether it selected any.
    seen: Seen,
}

/// The times of packets that a selection has looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    span_ns: Option<(u64, u64)>,
    any_in: bool,
}

impl Seen {
    fn add(&mut self, time_ns: u64, is_in: bool) {
        let (first, last) = self.span_ns.unwrap_or((time_ns, time_ns));
        self.span_ns = Some((first.min(time_ns), last.max(time_ns)));
        self.any_in |= is_in;
    }

    fn merge(&mut self, other: Self) {
        if let Some((first, last)) = other.span_ns {
            self.add(first, other.any_in);
            self.add(last, other.any_in);
        }
    }
}

impl Selection {
    /// Returns the selection that the arguments specify; `None` if all packets are selected.
    /// `paths` are those of the captures.
    pub(crate) fn from_arguments(
        arguments: &Replay,
        paths: &[&std::path::Path],
    ) -> Result<Option<Self>, Failure> {
        let filter = arguments.live.filter.as_deref().map(PacketFilter::parse).transpose();
        let filter = filter.map_err(|error| Failure::Usage(format!("--filter: {error}")))?;
        let is_relative = |instant: &Option<Instant>| matches!(instant, Some(Instant::After(_)));
        let mut first_ns = 0;
        if is_relative(&arguments.from) || is_relative(&arguments.to) {
            first_ns = first_of(paths).ok_or_else(|| {
                Failure::Usage(String::from(
                    "--from and --to with + count from the first packet, which cannot be read from a \
                     pipe in advance\n  use a date and time",
                ))
            })?;
        }
        let absolute = |instant: Instant| match instant {
            Instant::At(ns) => ns,
            Instant::After(ns) => first_ns.saturating_add(ns),
        };
        let selection = Self {
            filter,
            from_ns: arguments.from.map(absolute),
            to_ns: arguments.to.map(absolute),
            clock: arguments.is_part_by_time().then(PacketClock::default),
            is_over: false,
            seen: Seen::default(),
        };
        if let (Some(from), Some(to)) = (selection.from_ns, selection.to_ns)
            && from >= to
        {
            return Err(Failure::Usage(String::from("--from is not before --to: no packet is selected")));
        }
        let is_any = selection.filter.is_some() || selection.from_ns.is_some() || selection.to_ns.is_some();
        Ok(is_any.then_some(selection))
    }

    /// Returns why no packet was selected, if the time is to blame.
    fn outside(&self) -> Option<String> {
        let (first, last) = self.seen.span_ns.filter(|_| !self.seen.any_in)?;
        let of = if self.is_over { "begins at" } else { "goes" };
        let span = if self.is_over { date(first) } else { dates(first, last) };
        let option = match (self.from_ns, self.to_ns) {
            (Some(from), None) => format!("--from {}", date(from)),
            (None, Some(to)) => format!("--to {}", date(to)),
            (from, to) => {
                format!("--from {} --to {}", date(from.unwrap_or(0)), date(to.unwrap_or(u64::MAX)))
            }
        };
        Some(format!("no packet was selected by {option}\n  the capture {of} {span}"))
    }

    /// Returns the range of time of a part.
    pub(crate) fn times_of_part(&self) -> Option<Times> {
        self.clock.as_ref().map(|_| Times { from_ns: self.from_ns, to_ns: self.to_ns })
    }

    /// Keeps the selected packets of a batch, and returns how many it removed. For a live source,
    /// time passes with the others too: the batch keeps the time up to which it goes.
    fn select(&mut self, batch: &mut PacketBatch) -> Result<u64, SourceError> {
        let Some(block) = &batch.block else { return Ok(0) };
        let (block, before) = (block.bytes(), batch.packets.len());
        let mut failed = None;
        let is_by_time = self.from_ns.is_some() || self.to_ns.is_some();
        batch.packets.retain(|raw| {
            let is_in = |time_ns: u64| {
                self.from_ns.is_none_or(|from| time_ns >= from) && self.to_ns.is_none_or(|to| time_ns < to)
            };
            if is_by_time {
                self.seen.add(raw.time_ns, is_in(raw.time_ns));
            }
            if self.clock.is_none() && !is_in(raw.time_ns) {
                return false;
            }
            if let Some(filter) = &mut self.filter {
                let matches = filter.matches(raw.link, raw.bytes_in(block), raw.wire_bytes);
                let is_matched = matches.unwrap_or_else(|error| {
                    failed = Some(error);
                    false
                });
                if !is_matched {
                    return false;
                }
            }
            let Some(clock) = &mut self.clock else { return true };
            let time_ns = clock.tick(raw.time_ns);
            self.is_over |= self.to_ns.is_some_and(|to| time_ns >= to);
            is_in(time_ns)
        });
        let passed_over = (before - batch.packets.len()) as u64;
        failed.map_or(Ok(passed_over), |error| Err(SourceError(Box::new(error))))
    }
}

/// Returns the earliest first time of several captures.
fn first_of(paths: &[&std::path::Path]) -> Option<u64> {
    let first = |path: &&std::path::Path| {
        let mut capture = Capture::open(path, CaptureOptions::default()).ok()?;
        let mut batch = PacketBatch::new();
        match capture.next_batch(&mut batch).ok()? {
            Fill::Packets => batch.packets.first().map(|raw| raw.time_ns),
            _ => None,
        }
    };
    paths.iter().filter_map(first).min()
}

/// A source that yields only selected packets.
pub(crate) struct Selected<S> {
    pub(crate) source: S,
    selection: Option<Selection>,
    /// Packets that were not selected.
    pub(crate) passed_over: u64,
}

impl<S> Selected<S> {
    pub(crate) fn new(source: S, selection: Option<Selection>) -> Self {
        Self { source, selection, passed_over: 0 }
    }

    /// Returns why no packet was selected, if all are outside of the selected time.
    pub(crate) fn outside(&self) -> Option<String> {
        self.selection.as_ref().and_then(Selection::outside)
    }
}

impl<S: PacketSource> PacketSource for Selected<S> {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        let Some(selection) = &mut self.selection else { return self.source.next_batch(batch) };
        for _ in 0..BATCHES_MAX {
            if selection.is_over {
                batch.packets.clear();
                batch.block = None;
                batch.ahead = 0..0;
                return Ok(Fill::End);
            }
            match self.source.next_batch(batch)? {
                Fill::Packets => self.passed_over += selection.select(batch)?,
                other => return Ok(other),
            }
            if !batch.packets.is_empty() {
                return Ok(Fill::Packets);
            }
        }
        Ok(Fill::Starved)
    }

    fn withheld(&mut self) -> DropCounts {
        self.source.withheld()
    }

    /// Splits the source if each packet is selected for itself.
    fn split(&mut self, bytes: u64) -> Option<Box<dyn Segment>> {
        let Some(selection) = &self.selection else { return self.source.split(bytes) };
        if selection.clock.is_some() {
            return None;
        }
        let source = self.source.split(bytes)?;
        Some(Box::new(Selected::new(source, Some(selection.clone()))))
    }

    fn rejoin(&mut self, segment: Box<dyn Segment>) -> bool {
        if self.selection.is_none() {
            return self.source.rejoin(segment);
        }
        let Ok(selected) = segment.into_any().downcast::<Selected<Box<dyn Segment>>>() else {
            return false;
        };
        let Selected { source, passed_over, selection } = *selected;
        let is_right = self.source.rejoin(source);
        if is_right {
            self.passed_over += passed_over;
            if let (Some(own), Some(other)) = (&mut self.selection, selection) {
                own.seen.merge(other.seen);
            }
        }
        is_right
    }
}

impl Segment for Selected<Box<dyn Segment>> {
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use flowloom::packet::{Block, InterfaceName, LinkType, RawPacket};

    use super::*;

    /// A live source whose packets never end.
    struct Busy(u64);

    impl PacketSource for Busy {
        fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
            self.0 += 1;
            batch.packets = vec![RawPacket {
                position: 0,
                captured_bytes: 14,
                wire_bytes: 14,
                time_ns: self.0,
                link: LinkType::ETHERNET,
                interface: InterfaceName::UNKNOWN,
            }];
            batch.block = Some(Arc::new(Block::Owned(vec![0; 14])));
            batch.block_number = self.0;
            batch.yielded_until_ns = Some(self.0);
            Ok(Fill::Packets)
        }
    }

    #[test]
    fn time_passes_with_the_packets_of_a_live_source_that_are_not_selected() {
        let filter = Some(PacketFilter::parse("tcp port 80").unwrap());
        let mut selected = Selected::new(Busy(0), Some(Selection { filter, ..Selection::default() }));
        let mut batch = PacketBatch::new();
        for times in 1..=2 {
            assert_eq!(selected.next_batch(&mut batch).unwrap(), Fill::Starved);
            let packets = times * u64::from(BATCHES_MAX);
            assert_eq!((batch.yielded_until_ns, selected.passed_over), (Some(packets), packets));
        }
    }
}
