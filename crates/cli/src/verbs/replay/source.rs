//! The packet source of a run: captures or an interface.

use std::path::Path;
use std::sync::Arc;

use flowloom::engine::Control;
use flowloom::packet::{DecodeOptions, DropCounts, Fill, PacketBatch, PacketSource, Segment, SourceError};
use flowloom::traffic::capture::{
    CaptureError, CapturePart, CaptureParts, CaptureSet, FileSummary, Input, Notice, SetOptions,
    SetProgress, SetSummary,
};
use flowloom::traffic::dedup::Dedup;
use flowloom::traffic::defrag::{Defrag, DefragLimits};
use flowloom::traffic::sample::Sample;

use super::interface::Interface;
use crate::args::replay::Replay;
use crate::exit::Failure;
use crate::part_file;

/// Captures, a range of one, or an interface.
pub(super) enum Source {
    Captures(Box<CaptureSet>),
    Range(Box<CaptureRange>),
    Interface(Interface),
}

/// A range of the bytes of a capture.
pub(super) struct CaptureRange {
    range: CaptureParts,
    /// `None` once it is read.
    part: Option<CapturePart>,
    summary: Option<SetSummary>,
}

impl CaptureRange {
    pub(super) fn new(range: CaptureParts) -> Result<Self, CaptureError> {
        let part = range.open(0)?;
        Ok(Self { range, part: Some(part), summary: None })
    }

    /// Ends reading. Returns where the range began and ended, if it was read to its end.
    fn finish(&mut self) -> Option<part_file::Range> {
        let read = self.part.take()?.finish();
        self.summary = Some(self.range.summary(std::slice::from_ref(&read)));
        let end = read.end()?.token();
        Some(part_file::Range { begin: self.range.begin(0).token(), end })
    }
}

impl Source {
    /// Opens the inputs that the arguments name.
    pub(super) fn open(arguments: &Replay, inputs: &[Input], options: SetOptions) -> Result<Self, Failure> {
        match &arguments.live.iface {
            None => Ok(Self::Captures(Box::new(CaptureSet::open(inputs, options)?))),
            Some(interface) => Interface::open(interface, &arguments.live).map(Self::Interface),
        }
    }

    /// Ends reading. Returns where the range of a capture began and ended, if it was read to its
    /// end.
    pub(super) fn finish(&mut self) -> Option<part_file::Range> {
        if let Self::Range(range) = self { range.finish() } else { None }
    }

    /// Ends the wait for a silent pipe when the run is stopped. An interface checks this itself.
    pub(super) fn stop_with(&mut self, control: &Arc<Control>) {
        let control = Arc::clone(control);
        match self {
            Self::Captures(set) => set.stop_when(move || control.is_stopped()),
            // The engine checks after each batch, and neither blocks for long.
            Self::Range(_) | Self::Interface(_) => {}
        }
    }

    /// Returns the paths of captures in reading order.
    pub(super) fn paths(&self) -> Vec<&Path> {
        match self {
            Self::Captures(set) => set.paths().collect(),
            Self::Range(range) => range.range.paths().collect(),
            Self::Interface(_) => Vec::new(),
        }
    }

    /// Returns the size of the captures on disk in bytes; `None` if an input is a pipe or an
    /// interface.
    pub(super) fn bytes_on_disk(&self) -> Option<u64> {
        match self {
            Self::Captures(set) => set.bytes_on_disk(),
            Self::Range(range) => Some(range.range.bytes_on_disk()),
            Self::Interface(_) => None,
        }
    }

    /// Returns whether a thread besides those of the engine reads or unpacks the input.
    pub(super) fn is_read_apart(&self) -> bool {
        matches!(self, Self::Captures(set) if set.is_read_apart())
    }

    /// Returns how many captures overlap in time and were merged.
    pub(super) fn overlapped(&self) -> Option<usize> {
        match self {
            Self::Captures(set) => set.overlapped(),
            Self::Range(_) | Self::Interface(_) => None,
        }
    }

    /// Fails if none of the packets read can be decoded.
    pub(super) fn check_decodable(&self) -> Result<(), CaptureError> {
        match self {
            Self::Captures(set) => set.check_decodable(),
            Self::Range(range) => range.summary.as_ref().map_or(Ok(()), SetSummary::check_decodable),
            Self::Interface(_) => Ok(()),
        }
    }

    /// Returns the counters for a progress bar; the total of an interface is unknown.
    pub(super) fn progress(&self) -> Arc<SetProgress> {
        match self {
            Self::Captures(set) => set.progress(),
            Self::Range(range) => range.range.progress(),
            Self::Interface(_) => Arc::default(),
        }
    }

    /// Returns the notices about the inputs.
    pub(super) fn notices(&self) -> &[Notice] {
        match self {
            Self::Captures(set) => set.notices(),
            Self::Range(range) => range.summary.as_ref().map_or(&[], |summary| &summary.notices),
            Self::Interface(_) => &[],
        }
    }

    /// Returns the files in reading order, or the interface.
    pub(super) fn files(&self) -> Vec<FileSummary> {
        match self {
            Self::Captures(set) => set.files(),
            Self::Range(range) => {
                range.summary.as_ref().map_or(Vec::new(), |summary| summary.files.clone())
            }
            Self::Interface(interface) => vec![interface.summary()],
        }
    }
}

impl PacketSource for Source {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        match self {
            Self::Captures(set) => set.next_batch(batch),
            Self::Range(range) => match &mut range.part {
                Some(part) => part.next_batch(batch),
                None => Ok(Fill::End),
            },
            Self::Interface(interface) => interface.next_batch(batch),
        }
    }

    fn withheld(&mut self) -> DropCounts {
        match self {
            Self::Captures(set) => set.withheld(),
            Self::Range(_) => DropCounts::default(),
            Self::Interface(interface) => interface.withheld(),
        }
    }

    fn split(&mut self, bytes: u64) -> Option<Box<dyn Segment>> {
        if let Self::Captures(set) = self { set.split(bytes) } else { None }
    }

    fn rejoin(&mut self, segment: Box<dyn Segment>) -> bool {
        if let Self::Captures(set) = self { set.rejoin(segment) } else { false }
    }
}

/// Returns the source without copies, and wrapped in defragmentation with these decoding options,
/// if requested.
pub(super) fn feed<'a>(
    source: &'a mut (impl PacketSource + Send),
    Replay { dedup, sample, .. }: &Replay,
    defrag: Option<DecodeOptions>,
) -> Box<dyn PacketSource + Send + 'a> {
    let source: Box<dyn PacketSource + Send + 'a> = match dedup {
        Some(window) => Box::new(Dedup::new(source, *window)),
        None => Box::new(source),
    };
    let source = match sample {
        Some(sampling) => Box::new(Sample::new(source, *sampling)),
        None => source,
    };
    match defrag {
        Some(decode) => Box::new(Defrag::new(source, decode, DefragLimits::default())),
        None => source,
    }
}
