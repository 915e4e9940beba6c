//! Writes captures: classic pcap and pcapng.
//!
//! Both writers take one packet at a time and return the errors of the inner writer. They buffer
//! nothing: pass a [`BufWriter`](std::io::BufWriter) if this matters.

#![expect(
    clippy::cast_possible_truncation,
    reason = "lengths are limited by a 32-bit snaplen, and times are written in two halves"
)]

use std::io::{self, Write};

use flowloom_packet::LinkType;

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// Maximum number of bytes in a pcapng block. Its length has 32 bits, and readers accept no more
/// than half of that range.
const BLOCK_BYTES_MAX: u32 = 1 << 30;

/// The resolution of the time stamps in a classic pcap file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum TimeUnit {
    /// Microseconds, which every reader understands. Finer times are truncated.
    Micro,
    /// Nanoseconds.
    #[default]
    Nano,
}

/// The byte order of a classic pcap file's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ByteOrder {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

/// How a classic pcap file is written.
///
/// Any version may add fields, so end a literal with `..PcapOptions::default()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcapOptions {
    /// Resolution of the time stamps.
    pub time_unit: TimeUnit,
    /// Byte order of the fields.
    pub byte_order: ByteOrder,
    /// Link type of every packet.
    pub link: LinkType,
    /// Maximum number of bytes kept of a packet. A longer packet is truncated but keeps its length
    /// on the wire.
    pub snaplen_bytes: u32,
}

impl Default for PcapOptions {
    /// Nanoseconds, little-endian, Ethernet, 262,144 bytes.
    fn default() -> Self {
        Self {
            time_unit: TimeUnit::default(),
            byte_order: ByteOrder::default(),
            link: LinkType::ETHERNET,
            snaplen_bytes: 262_144,
        }
    }
}

/// Writes a classic pcap file.
///
/// # Examples
///
/// ```
/// use flowloom_traffic::write::{PcapOptions, PcapWriter};
/// let mut writer = PcapWriter::new(Vec::new(), PcapOptions::default())?;
/// writer.write(1_500_000_000, 60, &[0; 60])?;
/// assert_eq!(writer.finish()?.len(), 24 + 16 + 60);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct PcapWriter<W> {
    inner: W,
    options: PcapOptions,
}

impl<W: Write> PcapWriter<W> {
    /// Writes the file header and returns the writer.
    ///
    /// # Errors
    ///
    /// Returns the errors of `inner`.
    pub fn new(mut inner: W, options: PcapOptions) -> io::Result<Self> {
        let magic: u32 = match options.time_unit {
            TimeUnit::Micro => 0xA1B2_C3D4,
            TimeUnit::Nano => 0xA1B2_3C4D,
        };
        let mut header = [0; 24];
        put_u32(&mut header, 0, magic, options.byte_order);
        put_u16(&mut header, 4, 2, options.byte_order);
        put_u16(&mut header, 6, 4, options.byte_order);
        // Bytes 8 to 15, the time zone and its accuracy, have always been zero.
        put_u32(&mut header, 16, options.snaplen_bytes, options.byte_order);
        put_u32(&mut header, 20, u32::from(options.link.0), options.byte_order);
        inner.write_all(&header)?;
        Ok(Self { inner, options })
    }

    /// Appends a packet: its time in nanoseconds since 1970, its length on the wire, and its bytes.
    ///
    /// It writes at most `snaplen_bytes` of `bytes`. A `wire_bytes` below the number of written
    /// bytes remains as it is, because real files contain such records.
    ///
    /// # Errors
    ///
    /// Returns the errors of the inner writer; `InvalidInput` for a time after 2106, which the
    /// format cannot hold.
    pub fn write(&mut self, time_ns: u64, wire_bytes: u32, bytes: &[u8]) -> io::Result<()> {
        let seconds = u32::try_from(time_ns / NANOSECONDS_PER_SECOND).map_err(|_| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "time {time_ns} ns does not fit a pcap file: its seconds have 32 bits (until 2106)"
                ),
            )
        })?;
        let nanoseconds = (time_ns % NANOSECONDS_PER_SECOND) as u32;
        let fraction = match self.options.time_unit {
            TimeUnit::Micro => nanoseconds / 1000,
            TimeUnit::Nano => nanoseconds,
        };
        let kept = cut(bytes, self.options.snaplen_bytes);
        let order = self.options.byte_order;
        let mut header = [0; 16];
        put_u32(&mut header, 0, seconds, order);
        put_u32(&mut header, 4, fraction, order);
        put_u32(&mut header, 8, kept.len() as u32, order);
        put_u32(&mut header, 12, wire_bytes, order);
        self.inner.write_all(&header)?;
        self.inner.write_all(kept)
    }

    /// Flushes the inner writer, so that a reader of the file sees whole packets.
    ///
    /// # Errors
    ///
    /// Returns the errors of flushing.
    pub fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    /// Flushes and returns the inner writer.
    ///
    /// # Errors
    ///
    /// Returns the errors of flushing.
    pub fn finish(mut self) -> io::Result<W> {
        self.inner.flush()?;
        Ok(self.inner)
    }
}

/// An interface of a pcapng file.
///
/// Any version may add fields, so end a literal with `..Interface::default()`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Link type of its packets.
    pub link: LinkType,
    /// Maximum number of bytes kept of a packet; 0 means all.
    pub snaplen_bytes: u32,
    /// Its name, if any.
    pub name: Option<String>,
    /// Its additional options, encoded little-endian, such as a description. The writer sets the
    /// resolution of time stamps itself.
    pub options: Vec<u8>,
}

impl Default for Interface {
    /// Ethernet, 262,144 bytes, without a name.
    fn default() -> Self {
        Self { link: LinkType::ETHERNET, snaplen_bytes: 262_144, name: None, options: Vec::new() }
    }
}

/// Writes a pcapng file of one section: little-endian, nanoseconds, one or more interfaces.
///
/// # Examples
///
/// ```
/// use flowloom_traffic::write::{Interface, PcapngWriter};
/// let mut writer = PcapngWriter::new(Vec::new(), vec![Interface::default()])?;
/// writer.write(0, 1_500_000_000, 61, &[0; 61])?;
/// assert_eq!(writer.finish()?.len() % 4, 0);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct PcapngWriter<W> {
    inner: W,
    interfaces: Vec<Interface>,
    scratch: Vec<u8>,
}

impl<W: Write> PcapngWriter<W> {
    /// Writes the section header and the interfaces, and returns the writer.
    ///
    /// # Errors
    ///
    /// Returns the errors of `inner`, or `InvalidInput` without an interface or if a name is longer
    /// than 65,535 bytes.
    pub fn new(inner: W, interfaces: Vec<Interface>) -> io::Result<Self> {
        Self::with_section(inner, &[], interfaces)
    }

    /// Works as [`new`](Self::new) does, with options of the section, such as a comment, encoded
    /// little-endian.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`new`](Self::new).
    pub fn with_section(inner: W, options: &[u8], interfaces: Vec<Interface>) -> io::Result<Self> {
        if interfaces.is_empty() {
            return Err(invalid("a pcapng file of packets needs at least one interface".to_owned()));
        }
        let mut writer = Self { inner, interfaces, scratch: Vec::with_capacity(64) };
        let mut body = Vec::with_capacity(16);
        body.extend_from_slice(&0x1A2B_3C4D_u32.to_le_bytes());
        body.extend_from_slice(&1_u16.to_le_bytes());
        body.extend_from_slice(&0_u16.to_le_bytes());
        // The section's length is unknown before its end, which is expressed by all ones.
        body.extend_from_slice(&u64::MAX.to_le_bytes());
        if !options.is_empty() {
            body.extend_from_slice(options);
            option(&mut body, 0, &[])?;
        }
        writer.block(0x0A0D_0D0A, &body)?;
        for index in 0..writer.interfaces.len() {
            writer.describe(index)?;
        }
        Ok(writer)
    }

    /// Appends an interface and returns its index. Its packets may follow.
    ///
    /// # Errors
    ///
    /// Returns the errors of the inner writer; `InvalidInput` if the name is longer than 65,535
    /// bytes.
    pub fn add_interface(&mut self, interface: Interface) -> io::Result<usize> {
        self.interfaces.push(interface);
        let index = self.interfaces.len() - 1;
        self.describe(index).inspect_err(|_| self.interfaces.truncate(index))?;
        Ok(index)
    }

    /// Writes the block of an interface.
    fn describe(&mut self, index: usize) -> io::Result<()> {
        let interface = &self.interfaces[index];
        let mut body = Vec::with_capacity(32);
        body.extend_from_slice(&interface.link.0.to_le_bytes());
        body.extend_from_slice(&[0, 0]);
        body.extend_from_slice(&interface.snaplen_bytes.to_le_bytes());
        if let Some(name) = &interface.name {
            option(&mut body, 2, name.as_bytes())?;
        }
        body.extend_from_slice(&interface.options);
        // if_tsresol: ten to the power of minus nine.
        option(&mut body, 9, &[9])?;
        option(&mut body, 0, &[])?;
        self.block(1, &body)
    }

    /// Appends a packet of the interface with index `interface_index`.
    ///
    /// # Errors
    ///
    /// Returns the errors of the inner writer; `InvalidInput` for an unknown interface.
    pub fn write(
        &mut self,
        interface_index: usize,
        time_ns: u64,
        wire_bytes: u32,
        bytes: &[u8],
    ) -> io::Result<()> {
        self.write_with_options(interface_index, time_ns, wire_bytes, bytes, &[])
    }

    /// Appends a packet with options, encoded little-endian, such as a comment or its direction.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`write`](Self::write).
    pub fn write_with_options(
        &mut self,
        interface_index: usize,
        time_ns: u64,
        wire_bytes: u32,
        bytes: &[u8],
        options: &[u8],
    ) -> io::Result<()> {
        let Some(interface) = self.interfaces.get(interface_index) else {
            let count = self.interfaces.len();
            return Err(invalid(format!("interface {interface_index} of a file with {count} interfaces")));
        };
        let snaplen = if interface.snaplen_bytes == 0 { BLOCK_BYTES_MAX } else { interface.snaplen_bytes };
        let kept = cut(bytes, snaplen.min(BLOCK_BYTES_MAX));
        let mut header = [0; 28];
        let padding = kept.len().next_multiple_of(4) - kept.len();
        // An empty option ends the options.
        let options_bytes = if options.is_empty() { 0 } else { options.len() + 4 };
        let total = (header.len() + kept.len() + padding + options_bytes + 4) as u32;
        let order = ByteOrder::Little;
        put_u32(&mut header, 0, 6, order);
        put_u32(&mut header, 4, total, order);
        put_u32(&mut header, 8, interface_index as u32, order);
        put_u32(&mut header, 12, (time_ns >> 32) as u32, order);
        put_u32(&mut header, 16, time_ns as u32, order);
        put_u32(&mut header, 20, kept.len() as u32, order);
        put_u32(&mut header, 24, wire_bytes, order);
        self.inner.write_all(&header)?;
        self.inner.write_all(kept)?;
        let mut tail = [0; 8];
        if !options.is_empty() {
            self.inner.write_all(&tail[..padding])?;
            self.inner.write_all(options)?;
            tail[4..].copy_from_slice(&total.to_le_bytes());
            return self.inner.write_all(&tail);
        }
        tail[4..].copy_from_slice(&total.to_le_bytes());
        self.inner.write_all(&tail[4 - padding..])
    }

    /// Appends a block of another kind, such as names or secrets, whose body has a multiple of four
    /// bytes.
    ///
    /// # Errors
    ///
    /// Returns the errors of the inner writer; `InvalidInput` for a body of another length.
    pub fn write_block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        if !body.len().is_multiple_of(4) || body.len() > BLOCK_BYTES_MAX as usize {
            return Err(invalid(format!("a block of {} bytes", body.len())));
        }
        self.block(kind, body)
    }

    /// Flushes the inner writer, so that a reader of the file sees whole packets.
    ///
    /// # Errors
    ///
    /// Returns the errors of flushing.
    pub fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    /// Flushes and returns the inner writer.
    ///
    /// # Errors
    ///
    /// Returns the errors of flushing.
    pub fn finish(mut self) -> io::Result<W> {
        self.inner.flush()?;
        Ok(self.inner)
    }

    /// Writes a block: type, length, body (a multiple of four bytes), length again.
    fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let total = (body.len() + 12) as u32;
        self.scratch.clear();
        self.scratch.extend_from_slice(&kind.to_le_bytes());
        self.scratch.extend_from_slice(&total.to_le_bytes());
        self.scratch.extend_from_slice(body);
        self.scratch.extend_from_slice(&total.to_le_bytes());
        self.inner.write_all(&self.scratch)
    }
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) -> io::Result<()> {
    let length = u16::try_from(value.len()).map_err(|_| {
        invalid(format!("option {code} of {} bytes exceeds the limit of 65535", value.len()))
    })?;
    body.extend_from_slice(&code.to_le_bytes());
    body.extend_from_slice(&length.to_le_bytes());
    body.extend_from_slice(value);
    body.resize(body.len().next_multiple_of(4), 0);
    Ok(())
}

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

fn cut(bytes: &[u8], snaplen_bytes: u32) -> &[u8] {
    &bytes[..bytes.len().min(snaplen_bytes as usize)]
}

fn put_u32(into: &mut [u8], at: usize, value: u32, order: ByteOrder) {
    let bytes = match order {
        ByteOrder::Little => value.to_le_bytes(),
        ByteOrder::Big => value.to_be_bytes(),
    };
    into[at..at + 4].copy_from_slice(&bytes);
}

fn put_u16(into: &mut [u8], at: usize, value: u16, order: ByteOrder) {
    let bytes = match order {
        ByteOrder::Little => value.to_le_bytes(),
        ByteOrder::Big => value.to_be_bytes(),
    };
    into[at..at + 2].copy_from_slice(&bytes);
}

#[cfg(test)]
mod tests {
    use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
    use pcap_parser::{Block, LegacyPcapReader, PcapBlockOwned, PcapError, PcapNGReader};

    use super::*;

    const PACKETS: [(u64, u32, &[u8]); 4] = [
        (0, 3, &[1, 2, 3]),
        (1_700_000_000_123_456_789, 1500, &[7; 96]),
        (1_700_000_000_123_456_790, 2, &[9; 5]),
        (4_294_967_295_999_999_999, 0, &[]),
    ];

    /// The values that pcap-parser reads back: seconds, fraction, captured length, wire length,
    /// bytes.
    fn read_classic(file: &[u8]) -> Vec<(u32, u32, u32, u32, Vec<u8>)> {
        let mut reader = LegacyPcapReader::new(1 << 16, file).unwrap();
        let mut found = Vec::new();
        loop {
            match reader.next() {
                Ok((consumed, block)) => {
                    if let PcapBlockOwned::Legacy(p) = block {
                        found.push((p.ts_sec, p.ts_usec, p.caplen, p.origlen, p.data.to_vec()));
                    }
                    reader.consume(consumed);
                }
                Err(PcapError::Eof) => return found,
                Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
                Err(error) => panic!("{error:?}"),
            }
        }
    }

    #[test]
    fn classic_files_read_back_in_every_unit_and_order() {
        for time_unit in [TimeUnit::Micro, TimeUnit::Nano] {
            for byte_order in [ByteOrder::Little, ByteOrder::Big] {
                let options = PcapOptions { time_unit, byte_order, link: LinkType::RAW, snaplen_bytes: 64 };
                let mut writer = PcapWriter::new(Vec::new(), options).unwrap();
                for (time_ns, wire, bytes) in PACKETS {
                    writer.write(time_ns, wire, bytes).unwrap();
                }
                let file = writer.finish().unwrap();
                let (_, header) = pcap_parser::parse_pcap_header(&file).unwrap();
                assert_eq!(header.network.0, 101);
                assert_eq!((header.version_major, header.version_minor), (2, 4));
                assert_eq!(header.snaplen, 64);
                assert_eq!(header.is_bigendian(), byte_order == ByteOrder::Big);
                assert_eq!(header.is_nanosecond_precision(), time_unit == TimeUnit::Nano);
                let unit = if time_unit == TimeUnit::Nano { 1 } else { 1000 };
                let expected: Vec<_> = PACKETS
                    .iter()
                    .map(|&(t, wire, bytes)| {
                        let kept = bytes[..bytes.len().min(64)].to_vec();
                        let (seconds, rest) = (t / NANOSECONDS_PER_SECOND, t % NANOSECONDS_PER_SECOND);
                        (seconds as u32, (rest / unit) as u32, kept.len() as u32, wire, kept)
                    })
                    .collect();
                assert_eq!(read_classic(&file), expected);
            }
        }
    }

    #[test]
    fn a_time_after_2106_is_refused() {
        let mut writer = PcapWriter::new(Vec::new(), PcapOptions::default()).unwrap();
        let error = writer.write(4_294_967_296_000_000_000, 0, &[]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn pcapng_files_read_back_with_their_interfaces() {
        let interfaces = [
            Interface { name: Some("uplink".to_owned()), ..Interface::default() },
            Interface { link: LinkType::RAW, snaplen_bytes: 4, ..Interface::default() },
        ];
        let mut writer = PcapngWriter::new(Vec::new(), interfaces[..1].to_vec()).unwrap();
        assert!(writer.write(1, 0, 0, &[]).is_err(), "it is not there yet");
        assert_eq!(writer.add_interface(interfaces[1].clone()).unwrap(), 1);
        for (index, (time_ns, wire, bytes)) in PACKETS.into_iter().enumerate() {
            writer.write(index % 2, time_ns, wire, bytes).unwrap();
        }
        assert!(writer.write(2, 0, 0, &[]).is_err());
        let file = writer.finish().unwrap();

        let mut reader = PcapNGReader::new(1 << 16, &file[..]).unwrap();
        let (mut links, mut found) = (Vec::new(), Vec::new());
        loop {
            match reader.next() {
                Ok((consumed, block)) => {
                    match block {
                        PcapBlockOwned::NG(Block::InterfaceDescription(block)) => {
                            assert_eq!(block.ts_resolution(), Some(NANOSECONDS_PER_SECOND));
                            links.push((block.linktype.0, block.snaplen));
                        }
                        PcapBlockOwned::NG(Block::EnhancedPacket(block)) => {
                            let time = u64::from(block.ts_high) << 32 | u64::from(block.ts_low);
                            let bytes = block.packet_data().to_vec();
                            found.push((block.if_id, time, block.origlen, bytes));
                        }
                        _ => {}
                    }
                    reader.consume(consumed);
                }
                Err(PcapError::Eof) => break,
                Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
                Err(error) => panic!("{error:?}"),
            }
        }
        assert_eq!(links, [(1, 262_144), (101, 4)]);
        let expected: Vec<_> = PACKETS
            .iter()
            .enumerate()
            .map(|(i, &(time, wire, bytes))| {
                let snaplen = if i % 2 == 0 { 262_144 } else { 4 };
                ((i % 2) as u32, time, wire, bytes[..bytes.len().min(snaplen)].to_vec())
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_pcapng_file_without_interfaces_is_refused() {
        assert!(PcapngWriter::new(Vec::new(), Vec::new()).is_err());
    }
}
