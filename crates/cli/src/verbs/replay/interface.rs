//! An interface as the source of a run: by the kernel's packet sockets, or by libpcap.

use flowloom::packet::{DropCounts, Fill, LinkType, PacketBatch, PacketSource, SourceError};
use flowloom::traffic::capture::FileSummary;

use crate::args::live::Live;
use crate::exit::Failure;

/// An open interface.
pub(super) struct Interface {
    source: Box<dyn PacketSource + Send>,
    name: String,
    link: LinkType,
    snaplen_bytes: u32,
    packets: u64,
}

impl Interface {
    /// Opens the interface. Capturing starts immediately.
    #[cfg(target_os = "linux")]
    pub(super) fn open(name: &str, live: &Live) -> Result<Self, Failure> {
        match Self::by_packet_socket(name, live) {
            // libpcap knows devices that are no interfaces.
            Err(error @ flowloom::io::IoError::NoInterface { .. }) => {
                Self::by_libpcap(name, live, &error.to_string())
            }
            opened => opened.map_err(|error| Failure::Input(error.to_string())),
        }
    }

    /// Opens the interface. Capturing starts immediately.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn open(name: &str, live: &Live) -> Result<Self, Failure> {
        let why = "this flowloom was built without libpcap\n  cargo build --release --features live (needs \
                   libpcap and its headers)";
        Self::by_libpcap(name, live, &format!("cannot capture on {name}: {why}"))
    }

    #[cfg(any(target_os = "linux", feature = "live"))]
    fn new(
        name: &str,
        link: LinkType,
        snaplen_bytes: u32,
        source: impl PacketSource + Send + 'static,
    ) -> Self {
        Self { source: Box::new(source), name: name.to_owned(), link, snaplen_bytes, packets: 0 }
    }

    #[cfg(target_os = "linux")]
    fn by_packet_socket(name: &str, live: &Live) -> Result<Self, flowloom::io::IoError> {
        let usual = flowloom::io::CaptureOptions::default();
        let options = flowloom::io::CaptureOptions {
            snaplen_bytes: live.snaplen.unwrap_or(usual.snaplen_bytes),
            is_promiscuous: live.promiscuous,
            ring_bytes: live.kernel_buffer.unwrap_or(usual.ring_bytes),
        };
        let source = flowloom::io::InterfaceSource::open(name, &options)?;
        Ok(Self::new(name, source.link(), options.snaplen_bytes, source))
    }

    #[cfg(feature = "live")]
    fn by_libpcap(name: &str, live: &Live, _why_not: &str) -> Result<Self, Failure> {
        let usual = flowloom::traffic::live::LiveOptions::default();
        let options = flowloom::traffic::live::LiveOptions {
            snaplen_bytes: live.snaplen.unwrap_or(usual.snaplen_bytes),
            promiscuous: live.promiscuous,
            buffer_bytes: live
                .kernel_buffer
                .map_or(usual.buffer_bytes, |bytes| u32::try_from(bytes).unwrap_or(u32::MAX)),
            filter: live.filter.clone().unwrap_or_default(),
        };
        let source = flowloom::traffic::live::LiveSource::open(name, &options)
            .map_err(|error| Failure::Input(error.to_string()))?;
        Ok(Self::new(name, source.link(), options.snaplen_bytes, source))
    }

    #[cfg(not(feature = "live"))]
    fn by_libpcap(_name: &str, _live: &Live, why_not: &str) -> Result<Self, Failure> {
        Err(Failure::Input(why_not.to_owned()))
    }

    /// Describes the interface in the report.
    pub(super) fn summary(&self) -> FileSummary {
        let format = format!("interface, at most {} bytes per packet", self.snaplen_bytes);
        let mut summary = FileSummary::of_interface(&self.name, format, self.link);
        summary.packets = self.packets;
        summary
    }
}

impl PacketSource for Interface {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        let filled = self.source.next_batch(batch)?;
        if filled == Fill::Packets {
            self.packets += batch.packets.len() as u64;
        }
        Ok(filled)
    }

    fn withheld(&mut self) -> DropCounts {
        self.source.withheld()
    }
}
