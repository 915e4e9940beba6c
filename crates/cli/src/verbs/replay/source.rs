//! What a run takes its packets from: captures, or an interface.

use std::sync::Arc;

use flowloom::engine::Control;
use flowloom::packet::{DecodeOptions, DropCounts, Fill, PacketBatch, PacketSource, SourceError};
use flowloom::traffic::capture::{CaptureSet, FileSummary, Input, Notice, SetOptions, SetProgress};
use flowloom::traffic::defrag::{Defrag, DefragLimits};
#[cfg(feature = "live")]
use flowloom::traffic::live::{LiveOptions, LiveSource};

use crate::args::replay::Replay;
use crate::exit::Failure;

/// Captures, or an interface.
pub(super) enum Source {
    Captures(Box<CaptureSet>),
    #[cfg(feature = "live")]
    Live(LiveSource),
}

impl Source {
    /// Opens what the arguments name.
    pub(super) fn open(arguments: &Replay, inputs: &[Input], options: SetOptions) -> Result<Self, Failure> {
        if let Some(option) = arguments.live.idle_option() {
            return Err(Failure::Usage(format!("{option} is for captures on an interface, with --iface")));
        }
        match &arguments.live.iface {
            None => Ok(Self::Captures(Box::new(CaptureSet::open(inputs, options)?))),
            Some(_) if arguments.verify => Err(Failure::Usage(String::from(
                "--verify reads the input twice, what arrives at an interface comes once\n  save it to a file first",
            ))),
            Some(interface) => Self::live(interface, arguments),
        }
    }

    #[cfg(feature = "live")]
    fn live(interface: &str, arguments: &Replay) -> Result<Self, Failure> {
        let live = &arguments.live;
        let usual = LiveOptions::default();
        let options = LiveOptions {
            snaplen_bytes: live.snaplen.unwrap_or(usual.snaplen_bytes),
            promiscuous: live.promiscuous,
            buffer_bytes: live
                .kernel_buffer
                .map_or(usual.buffer_bytes, |bytes| u32::try_from(bytes).unwrap_or(u32::MAX)),
            filter: live.filter.clone().unwrap_or_default(),
        };
        LiveSource::open(interface, &options)
            .map(Self::Live)
            .map_err(|error| Failure::Input(error.to_string()))
    }

    #[cfg(not(feature = "live"))]
    fn live(interface: &str, _: &Replay) -> Result<Self, Failure> {
        Err(Failure::Usage(format!(
            "this flowloom was built without libpcap and cannot capture on {interface}\n  \
             cargo build --release --features live (needs libpcap and its headers, on Debian libpcap-dev)"
        )))
    }

    /// Waits for silent pipes only until the run is stopped; an interface looks by itself.
    pub(super) fn stop_with(&mut self, control: &Arc<Control>) {
        let control = Arc::clone(control);
        match self {
            Self::Captures(set) => set.stop_when(move || control.is_stopped()),
            #[cfg(feature = "live")]
            Self::Live(_) => {}
        }
    }

    /// Returns the captures, where they are the source.
    #[cfg_attr(not(feature = "live"), expect(clippy::unnecessary_wraps, reason = "an interface is none"))]
    pub(super) fn captures(&self) -> Option<&CaptureSet> {
        match self {
            Self::Captures(set) => Some(set),
            #[cfg(feature = "live")]
            Self::Live(_) => None,
        }
    }

    /// Returns the counters that a progress bar reads; nothing is known of what an interface will bring.
    pub(super) fn progress(&self) -> Arc<SetProgress> {
        self.captures().map_or_else(Arc::default, CaptureSet::progress)
    }

    /// Returns what is to be known about the inputs.
    pub(super) fn notices(&self) -> &[Notice] {
        self.captures().map_or(&[], CaptureSet::notices)
    }

    /// Returns the files in reading order, or the interface.
    pub(super) fn files(&self) -> Vec<FileSummary> {
        match self {
            Self::Captures(set) => set.files(),
            #[cfg(feature = "live")]
            Self::Live(live) => {
                let format = format!("interface, at most {} bytes a packet", live.snaplen_bytes());
                let mut summary = FileSummary::of_interface(live.interface(), format, live.link());
                summary.packets = live.packets();
                vec![summary]
            }
        }
    }
}

impl PacketSource for Source {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        match self {
            Self::Captures(set) => set.next_batch(batch),
            #[cfg(feature = "live")]
            Self::Live(live) => live.next_batch(batch),
        }
    }

    fn withheld(&mut self) -> DropCounts {
        match self {
            Self::Captures(set) => set.withheld(),
            #[cfg(feature = "live")]
            Self::Live(live) => live.withheld(),
        }
    }
}

/// Returns the source, or what joins its fragments, decoded like this.
pub(super) fn feed<'a>(
    source: &'a mut (impl PacketSource + Send),
    defrag: Option<DecodeOptions>,
) -> Box<dyn PacketSource + Send + 'a> {
    match defrag {
        Some(decode) => Box::new(Defrag::new(source, decode, DefragLimits::default())),
        None => Box::new(source),
    }
}
