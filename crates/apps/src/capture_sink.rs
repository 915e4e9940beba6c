//! Writes accepted packets to a capture file.

use std::io::{self, Write};

use flowloom_engine::{PacketSink, Released, SinkError};
use flowloom_packet::LinkType;
use flowloom_traffic::capture::{Annotations, DetailReader, InterfaceDetails};
use flowloom_traffic::write::{Interface, PcapOptions, PcapWriter, PcapngWriter};

/// Bytes of packets from one flush of the output to the next. An output that fails is good up to
/// its last flush.
const FLUSH_BYTES: usize = 1 << 20;

/// Writes packets to a capture file with times in nanoseconds.
///
/// The sink flushes its output after whole packets only, at least once per MiB.
///
/// In a pcapng file each link type has an interface. With [`with_details`](Self::with_details) the
/// file also has the interfaces, comments, flags, names and secrets of the captures that the
/// packets come from.
///
/// # Examples
///
/// ```
/// use flowloom_apps::CaptureSink;
/// use flowloom_engine::{PacketSink, Released};
/// use flowloom_packet::LinkType;
///
/// let mut file = Vec::new();
/// let mut sink = CaptureSink::new(&mut file);
/// sink.take(&Released::new(&[0; 60], 60, 5, LinkType::ETHERNET))?;
/// sink.finish()?;
/// assert!(file.starts_with(&[0x0A, 0x0D, 0x0D, 0x0A]));
/// # Ok::<(), flowloom_engine::SinkError>(())
/// ```
#[derive(Debug)]
pub struct CaptureSink<W> {
    state: SinkState<W>,
    /// The interface of each link type that the captures do not describe.
    links: Vec<(LinkType, usize)>,
    details: Option<Details>,
    /// The reason why the details could not be read further.
    failed: Option<String>,
    writes_empty: bool,
    unflushed_bytes: usize,
}

#[derive(Debug)]
enum SinkState<W> {
    /// Nothing was written yet, because the first link type is not known.
    Empty(W, SinkFormat),
    Pcapng(PcapngWriter<W>),
    Pcap(PcapWriter<W>, LinkType),
    /// Finished, or failed.
    Closed,
}

#[derive(Clone, Copy, Debug)]
enum SinkFormat {
    Pcap,
    Pcapng,
}

/// The data in the captures other than packets.
struct Details {
    reader: DetailReader,
    /// For each interface of the reader, its index in the file.
    interfaces: Vec<usize>,
    is_stopped: Box<dyn Fn() -> bool + Send>,
}

impl std::fmt::Debug for Details {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Details").field("reader", &self.reader).finish_non_exhaustive()
    }
}

fn described(interface: &InterfaceDetails) -> Interface {
    Interface {
        link: interface.link,
        // Packets are written unchanged, even if they are longer than the declared snaplen.
        snaplen_bytes: 0,
        options: interface.options.clone(),
        ..Interface::default()
    }
}

fn plain(link: LinkType) -> Interface {
    Interface { link, snaplen_bytes: 0, ..Interface::default() }
}

impl<W: Write> CaptureSink<W> {
    /// Returns a sink that writes a pcapng file to `inner`. Pass a buffered writer: the sink writes
    /// three times per packet.
    pub fn new(inner: W) -> Self {
        Self::with_form(inner, SinkFormat::Pcapng)
    }

    /// Returns a sink that writes a classic pcap file to `inner`. All packets must have one link
    /// type. Pass a buffered writer.
    pub fn pcap(inner: W) -> Self {
        Self::with_form(inner, SinkFormat::Pcap)
    }

    fn with_form(inner: W, form: SinkFormat) -> Self {
        let state = SinkState::Empty(inner, form);
        let (links, details, failed) = (Vec::new(), None, None);
        Self { state, links, details, failed, writes_empty: true, unflushed_bytes: 0 }
    }

    /// Writes nothing, instead of a capture without packets, if no packet arrives.
    #[must_use]
    pub fn without_empty_capture(self) -> Self {
        Self { writes_empty: false, ..self }
    }

    /// Adds the data other than packets in the captures of `reader` to a pcapng file. The packets
    /// must arrive in their original order.
    ///
    /// At the end the sink reads the rest of the captures for names and secrets, unless
    /// `is_stopped`.
    #[must_use]
    pub fn with_details(
        mut self,
        reader: DetailReader,
        is_stopped: impl Fn() -> bool + Send + 'static,
    ) -> Self {
        let interfaces = Vec::new();
        self.details = Some(Details { reader, interfaces, is_stopped: Box::new(is_stopped) });
        self
    }

    /// Returns the data in the captures that the file lacks: the counts, how many packets were not
    /// found again, and the error if reading failed. `None` without
    /// [`with_details`](Self::with_details).
    pub fn left_behind(&self) -> Option<(Annotations, u64, Option<&str>)> {
        let (annotations, not_found) = self.details.as_ref()?.reader.left_behind();
        Some((annotations, not_found, self.failed.as_deref()))
    }

    /// Writes the header of the file, if it is not written yet.
    fn begin(&mut self, link: LinkType) -> io::Result<()> {
        let SinkState::Empty(..) = &self.state else { return Ok(()) };
        let SinkState::Empty(inner, form) = std::mem::replace(&mut self.state, SinkState::Closed) else {
            return Ok(());
        };
        if let SinkFormat::Pcap = form {
            // Some readers interpret a snaplen of 0 as empty packets.
            let options = PcapOptions { link, snaplen_bytes: u32::MAX >> 1, ..PcapOptions::default() };
            self.state = SinkState::Pcap(PcapWriter::new(inner, options)?, link);
            return Ok(());
        }
        let (mut section, mut interfaces) = (Vec::new(), Vec::new());
        if let Some(details) = &mut self.details {
            if let Err(error) = details.reader.begin() {
                self.failed.get_or_insert(error.to_string());
            }
            section.extend_from_slice(details.reader.section_options());
            interfaces.extend(details.reader.interfaces().iter().map(described));
            details.interfaces.extend(0..interfaces.len());
        }
        if interfaces.is_empty() {
            interfaces.push(plain(link));
            self.links.push((link, 0));
        }
        self.state = SinkState::Pcapng(PcapngWriter::with_section(inner, &section, interfaces)?);
        Ok(())
    }

    fn write(&mut self, packet: &Released<'_>) -> io::Result<()> {
        self.begin(packet.link)?;
        let (link, time_ns, wire_bytes, bytes) =
            (packet.link, packet.time_ns, packet.wire_bytes, packet.bytes);
        let writer = match &mut self.state {
            SinkState::Pcapng(writer) => writer,
            SinkState::Pcap(writer, first) if *first == link => {
                return writer.write(time_ns, wire_bytes, bytes);
            }
            SinkState::Pcap(_, first) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!(
                        "packet {} has link type {}, but earlier packets have {}, and a pcap file has a \
                         single link type; write pcapng instead",
                        packet.number + 1,
                        link.0,
                        first.0
                    ),
                ));
            }
            SinkState::Empty(..) | SinkState::Closed => {
                return Err(io::Error::other("the file is finished"));
            }
        };
        let mut found = None;
        if let Some(details) = self.details.as_mut().filter(|_| self.failed.is_none()) {
            match details.reader.find(time_ns, wire_bytes, bytes) {
                Ok(packet) => found = packet.map(|packet| (packet.interface, packet.options.to_vec())),
                Err(error) => self.failed = Some(error.to_string()),
            }
            details.write_news(writer)?;
        }
        let (interface, options) = found.unwrap_or_default();
        let known = interface.and_then(|index| self.details.as_ref()?.interfaces.get(index).copied());
        let of_link =
            || self.links.iter().find(|(known, _)| *known == link).map(|(_, interface)| *interface);
        let interface = if let Some(interface) = known.or_else(of_link) {
            interface
        } else {
            let interface = writer.add_interface(plain(link))?;
            self.links.push((link, interface));
            interface
        };
        writer.write_with_options(interface, time_ns, wire_bytes, bytes, &options)
    }

    fn end(&mut self) -> io::Result<()> {
        if !self.writes_empty && matches!(self.state, SinkState::Empty(..)) {
            self.state = SinkState::Closed;
            return Ok(());
        }
        // A file without packets gets an Ethernet interface, so that readers accept it.
        self.begin(LinkType::ETHERNET)?;
        if let (SinkState::Pcapng(writer), Some(details)) = (&mut self.state, &mut self.details) {
            if self.failed.is_none()
                && let Err(error) = details.reader.finish(&*details.is_stopped)
            {
                self.failed = Some(error.to_string());
            }
            details.write_news(writer)?;
        }
        match std::mem::replace(&mut self.state, SinkState::Closed) {
            SinkState::Pcapng(writer) => writer.finish().map(|_| ()),
            SinkState::Pcap(writer, _) => writer.finish().map(|_| ()),
            SinkState::Empty(..) | SinkState::Closed => Ok(()),
        }
    }
}

impl Details {
    /// Writes the interfaces and blocks that the reader has passed.
    fn write_news<W: Write>(&mut self, writer: &mut PcapngWriter<W>) -> io::Result<()> {
        let known = self.interfaces.len();
        for interface in &self.reader.interfaces()[known..] {
            self.interfaces.push(writer.add_interface(described(interface))?);
        }
        for block in self.reader.take_blocks() {
            writer.write_block(block.kind, &block.body)?;
        }
        Ok(())
    }
}

impl<W: Write> PacketSink for CaptureSink<W> {
    fn take(&mut self, packet: &Released<'_>) -> Result<(), SinkError> {
        self.write(packet).map_err(|error| SinkError(Box::new(error)))?;
        self.unflushed_bytes += packet.bytes.len();
        if self.unflushed_bytes >= FLUSH_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes out buffered packets, so that a reader of the file sees all packets taken so far. The
    /// file stays empty before the first packet.
    fn flush(&mut self) -> Result<(), SinkError> {
        self.unflushed_bytes = 0;
        let flushed = match &mut self.state {
            SinkState::Pcapng(writer) => writer.flush(),
            SinkState::Pcap(writer, _) => writer.flush(),
            SinkState::Empty(..) | SinkState::Closed => Ok(()),
        };
        flushed.map_err(|error| SinkError(Box::new(error)))
    }

    /// Writes out buffered packets. A file without packets gets an Ethernet interface, so that
    /// readers accept it, or nothing [without an empty capture](Self::without_empty_capture).
    fn finish(&mut self) -> Result<(), SinkError> {
        let ended = self.end();
        if ended.is_err() {
            self.state = SinkState::Closed;
        }
        ended.map_err(|error| SinkError(Box::new(error)))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    fn packet(bytes: &[u8], time_ns: u64, link: LinkType) -> Released<'_> {
        Released::new(bytes, 1500, time_ns, link)
    }

    #[test]
    fn each_link_type_gets_an_interface_once() {
        let mut file = Vec::new();
        let mut sink = CaptureSink::new(&mut file);
        for (i, link) in
            [LinkType::ETHERNET, LinkType(101), LinkType::ETHERNET, LinkType(101)].iter().enumerate()
        {
            sink.take(&packet(&[7; 20], i as u64, *link)).unwrap();
        }
        sink.finish().unwrap();
        assert!(sink.take(&packet(&[7; 20], 9, LinkType::ETHERNET)).is_err(), "it is finished");
        // Section, two interfaces, four packets, as counted by walking the blocks.
        let (mut at, mut kinds) = (0, Vec::new());
        while at < file.len() {
            let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
            kinds.push(word(at));
            at += word(at + 4) as usize;
        }
        assert_eq!(kinds, [0x0A0D_0D0A, 1, 6, 1, 6, 6, 6]);
    }

    #[test]
    fn a_file_without_packets_can_be_read() {
        let mut file = Vec::new();
        CaptureSink::new(&mut file).finish().unwrap();
        assert_eq!(file[..4], [0x0A, 0x0D, 0x0D, 0x0A]);
        assert_eq!(file[28..32], [1, 0, 0, 0], "an interface");
    }

    #[test]
    fn flushed_packets_can_be_read() {
        #[derive(Clone, Default)]
        struct File(Rc<RefCell<Vec<u8>>>);
        impl Write for File {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.borrow_mut().write(bytes)
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let file = File::default();
        let bytes = || file.0.borrow().len();
        let mut sink = CaptureSink::new(io::BufWriter::with_capacity(1 << 16, file.clone()));
        sink.flush().unwrap();
        assert_eq!(bytes(), 0, "the first link type is not known");
        sink.take(&packet(&[7; 20], 0, LinkType::ETHERNET)).unwrap();
        assert_eq!(bytes(), 0);
        sink.flush().unwrap();
        assert_eq!(bytes(), 28 + 20 + 12 + 32 + 20, "a section, an interface, a packet");
        sink.finish().unwrap();
        sink.flush().unwrap();
    }

    #[test]
    fn a_full_disk_is_an_error() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut sink = CaptureSink::new(Full);
        assert!(sink.take(&packet(&[7; 20], 0, LinkType::ETHERNET)).is_err());
        assert!(sink.take(&packet(&[7; 20], 0, LinkType::ETHERNET)).is_err());
    }
}
