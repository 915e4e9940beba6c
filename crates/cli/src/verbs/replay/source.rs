//! The packet source of a run: captures or an interface.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use flowloom::engine::{Control, PartSource, PartitionedSource};
use flowloom::packet::{DecodeOptions, DropCounts, Fill, PacketBatch, PacketSource, SourceError};
use flowloom::traffic::capture::{
    Boundary, CaptureError, CapturePart, CaptureParts, CaptureSet, FileSummary, Input, Notice, PartRead,
    SetOptions, SetProgress, SetSummary,
};
use flowloom::traffic::defrag::{Defrag, DefragLimits};

use super::interface::Interface;
use super::select::{Selected, Selection};
use crate::args::replay::Replay;
use crate::exit::Failure;

/// Captures, whole or in parts, or an interface.
pub(super) enum Source {
    Captures(Box<CaptureSet>),
    /// The results of the parts are known after they have been read.
    Parts(Box<CaptureParts>, Option<SetSummary>),
    Interface(Interface),
}

impl Source {
    /// Opens the inputs that the arguments name.
    pub(super) fn open(arguments: &Replay, inputs: &[Input], options: SetOptions) -> Result<Self, Failure> {
        if let Some(option) = arguments.live.idle_option() {
            return Err(Failure::Usage(format!("{option} is for live captures: add --iface")));
        }
        match &arguments.live.iface {
            None => Ok(Self::Captures(Box::new(CaptureSet::open(inputs, options)?))),
            Some(_) if arguments.verify => Err(Failure::Usage(String::from(
                "--verify reads the input twice, but packets arrive at an interface only once\n  save \
                 it to a file first",
            ))),
            Some(interface) => Interface::open(interface, &arguments.live).map(Self::Interface),
        }
    }

    /// Uses captures in parts.
    pub(super) fn of_parts(arguments: &Replay, parts: CaptureParts) -> Result<Self, Failure> {
        if let Some(option) = arguments.live.idle_option() {
            return Err(Failure::Usage(format!("{option} is for live captures: add --iface")));
        }
        Ok(Self::Parts(Box::new(parts), None))
    }

    /// Ends the wait for a silent pipe when the run is stopped. An interface checks this itself.
    pub(super) fn stop_with(&mut self, control: &Arc<Control>) {
        let control = Arc::clone(control);
        match self {
            Self::Captures(set) => set.stop_when(move || control.is_stopped()),
            // The engine checks after each batch, and neither blocks for long.
            Self::Parts(..) | Self::Interface(_) => {}
        }
    }

    /// Returns the paths of captures in reading order.
    pub(super) fn paths(&self) -> Vec<&Path> {
        match self {
            Self::Captures(set) => set.paths().collect(),
            Self::Parts(parts, _) => parts.paths().collect(),
            Self::Interface(_) => Vec::new(),
        }
    }

    /// Returns the size of the captures on disk in bytes; `None` if an input is a pipe or an
    /// interface.
    pub(super) fn bytes_on_disk(&self) -> Option<u64> {
        match self {
            Self::Captures(set) => set.bytes_on_disk(),
            Self::Parts(parts, _) => Some(parts.bytes_on_disk()),
            Self::Interface(_) => None,
        }
    }

    /// Returns how many captures overlap in time and were merged.
    pub(super) fn overlapped(&self) -> Option<usize> {
        match self {
            Self::Captures(set) => set.overlapped(),
            Self::Parts(_, summary) => summary.as_ref().and_then(SetSummary::overlapped),
            Self::Interface(_) => None,
        }
    }

    /// Fails if none of the packets read can be decoded.
    pub(super) fn check_decodable(&self) -> Result<(), CaptureError> {
        match self {
            Self::Captures(set) => set.check_decodable(),
            Self::Parts(_, summary) => summary.as_ref().map_or(Ok(()), SetSummary::check_decodable),
            Self::Interface(_) => Ok(()),
        }
    }

    /// Returns the counters for a progress bar; the total of an interface is unknown.
    pub(super) fn progress(&self) -> Arc<SetProgress> {
        match self {
            Self::Captures(set) => set.progress(),
            Self::Parts(parts, _) => parts.progress(),
            Self::Interface(_) => Arc::default(),
        }
    }

    /// Returns the notices about the inputs.
    pub(super) fn notices(&self) -> &[Notice] {
        match self {
            Self::Captures(set) => set.notices(),
            Self::Parts(_, summary) => summary.as_ref().map_or(&[], |summary| &summary.notices),
            Self::Interface(_) => &[],
        }
    }

    /// Returns the files in reading order, or the interface.
    pub(super) fn files(&self) -> Vec<FileSummary> {
        match self {
            Self::Captures(set) => set.files(),
            Self::Parts(_, summary) => summary.as_ref().map_or(Vec::new(), |summary| summary.files.clone()),
            Self::Interface(interface) => vec![interface.summary()],
        }
    }
}

impl PacketSource for Source {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        match self {
            Self::Captures(set) => set.next_batch(batch),
            Self::Parts(..) => unreachable!("the sharded layout reads each part separately"),
            Self::Interface(interface) => interface.next_batch(batch),
        }
    }

    fn withheld(&mut self) -> DropCounts {
        match self {
            Self::Captures(set) => set.withheld(),
            Self::Parts(..) => DropCounts::default(),
            Self::Interface(interface) => interface.withheld(),
        }
    }
}

/// Captures in parts, as the engine reads them.
pub(super) struct Cut<'a> {
    pub(super) parts: &'a CaptureParts,
    pub(super) selection: Option<Selection>,
}

/// One of these parts.
pub(super) struct Part(Selected<PartPackets>);

/// The packets of a part.
pub(super) struct PartPackets(CapturePart);

impl PartPackets {
    #[cfg(feature = "arrow")]
    pub(super) fn new(part: CapturePart) -> Self {
        Self(part)
    }
}

impl PacketSource for PartPackets {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        self.0.next_batch(batch)
    }
}

impl PacketSource for Part {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        self.0.next_batch(batch)
    }
}

/// The result of reading a part, and the number of packets not selected.
pub(super) type Read = (PartRead, u64);

impl PartSource for Part {
    type Read = Read;

    fn finish(self) -> Read {
        (self.0.source.0.finish(), self.0.passed_over)
    }
}

impl Cut<'_> {
    fn part(&self, part: CapturePart) -> Part {
        Part(Selected::new(PartPackets(part), self.selection.clone()))
    }
}

impl PartitionedSource for Cut<'_> {
    type Boundary = Boundary;
    type Read = Read;
    type Part = Part;

    fn parts(&self) -> usize {
        self.parts.len()
    }

    fn open(&self, part: usize) -> Result<Part, SourceError> {
        let opened = self.parts.open(part).map_err(|error| SourceError(Box::new(error)))?;
        Ok(self.part(opened))
    }

    fn open_at(&self, part: usize, begin: Boundary) -> Result<Part, SourceError> {
        let opened = self.parts.open_at(part, begin).map_err(|error| SourceError(Box::new(error)))?;
        Ok(self.part(opened))
    }

    fn begin(&self, (read, _): &Read) -> Boundary {
        read.begin().clone()
    }

    fn unconfirmed(&self, reads: &[Read]) -> Vec<(usize, Boundary)> {
        let reads: Vec<PartRead> = reads.iter().map(|(read, _)| read.clone()).collect();
        self.parts.unconfirmed(&reads)
    }
}

/// Captures that are merged by time, as the one part of an input.
pub(super) struct Whole<'a>(Mutex<Option<Selected<&'a mut Source>>>);

impl<'a> Whole<'a> {
    pub(super) fn new(source: &'a mut Source, selection: Option<Selection>) -> Self {
        Self(Mutex::new(Some(Selected::new(source, selection))))
    }
}

/// That part.
pub(super) struct WholePart<'a>(Selected<&'a mut Source>);

impl PacketSource for WholePart<'_> {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        self.0.next_batch(batch)
    }
}

impl PartSource for WholePart<'_> {
    type Read = u64;

    fn finish(self) -> u64 {
        self.0.passed_over
    }
}

impl<'a> PartitionedSource for Whole<'a> {
    type Boundary = ();
    type Read = u64;
    type Part = WholePart<'a>;

    fn parts(&self) -> usize {
        1
    }

    fn open(&self, _: usize) -> Result<WholePart<'a>, SourceError> {
        let source = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        source.map(WholePart).ok_or_else(|| SourceError("merged captures are read once".into()))
    }

    fn open_at(&self, part: usize, (): ()) -> Result<WholePart<'a>, SourceError> {
        self.open(part)
    }

    fn begin(&self, _: &u64) {}

    fn unconfirmed(&self, _: &[u64]) -> Vec<(usize, ())> {
        Vec::new()
    }
}

/// Returns the source, wrapped in defragmentation with these decoding options if requested.
pub(super) fn feed<'a>(
    source: &'a mut (impl PacketSource + Send),
    defrag: Option<DecodeOptions>,
) -> Box<dyn PacketSource + Send + 'a> {
    match defrag {
        Some(decode) => Box::new(Defrag::new(source, decode, DefragLimits::default())),
        None => Box::new(source),
    }
}
