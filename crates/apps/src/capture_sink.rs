//! Writes accepted packets to a capture file.

use std::io::{self, Write};

use flowloom_engine::{PacketSink, Released, SinkError};
use flowloom_packet::LinkType;
use flowloom_traffic::write::{Interface, PcapngWriter};

/// Writes packets to a pcapng file with times in nanoseconds. Each link type has an interface.
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
    state: State<W>,
    links: Vec<LinkType>,
}

#[derive(Debug)]
enum State<W> {
    /// Nothing was written yet, because the first link type is not known.
    Empty(W),
    Open(PcapngWriter<W>),
    /// Finished, or failed.
    Closed,
}

impl<W: Write> CaptureSink<W> {
    /// Returns a sink that writes to `inner`. Pass a buffered writer: the sink writes three times
    /// per packet.
    pub fn new(inner: W) -> Self {
        Self { state: State::Empty(inner), links: Vec::new() }
    }

    /// Returns the writer, and the interface index of a link type.
    fn open(&mut self, link: LinkType) -> io::Result<(&mut PcapngWriter<W>, usize)> {
        let interface = Interface { link, snaplen_bytes: 0, name: None };
        let known = self.links.iter().position(|known| *known == link);
        if let State::Empty(_) = self.state
            && let State::Empty(inner) = std::mem::replace(&mut self.state, State::Closed)
        {
            self.state = State::Open(PcapngWriter::new(inner, vec![interface])?);
            self.links.push(link);
            return self.open(link);
        }
        let State::Open(writer) = &mut self.state else {
            return Err(io::Error::other("the file is finished"));
        };
        let index = if let Some(index) = known {
            index
        } else {
            self.links.push(link);
            writer.add_interface(interface)?
        };
        Ok((writer, index))
    }
}

impl<W: Write> PacketSink for CaptureSink<W> {
    fn take(&mut self, packet: &Released<'_>) -> Result<(), SinkError> {
        let written = self.open(packet.link).and_then(|(writer, index)| {
            writer.write(index, packet.time_ns, packet.wire_bytes, packet.bytes)
        });
        written.map_err(|error| SinkError(Box::new(error)))
    }

    /// Writes out buffered packets, so that a reader of the file sees all packets taken so far. The
    /// file stays empty before the first packet.
    fn flush(&mut self) -> Result<(), SinkError> {
        match &mut self.state {
            State::Open(writer) => writer.flush().map_err(|error| SinkError(Box::new(error))),
            State::Empty(_) | State::Closed => Ok(()),
        }
    }

    /// Writes out buffered packets. A file without packets gets an Ethernet interface, so that
    /// readers accept it.
    fn finish(&mut self) -> Result<(), SinkError> {
        let finished = self.open(self.links.first().copied().unwrap_or(LinkType::ETHERNET)).map(|_| ());
        let state = std::mem::replace(&mut self.state, State::Closed);
        let finished = finished.and_then(|()| match state {
            State::Open(writer) => writer.finish().map(|_| ()),
            State::Empty(_) | State::Closed => Ok(()),
        });
        finished.map_err(|error| SinkError(Box::new(error)))
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
        // Section, two interfaces, four packets: counted by walking the blocks.
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
    fn what_was_taken_can_be_read_once_it_is_flushed() {
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
