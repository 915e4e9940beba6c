//! Reads captures a second time, in parallel with a run, for the details of their packets other
//! than bytes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use flowloom_packet::{Fill, PacketBatch};

use crate::capture::annotations::Annotations;
use crate::capture::details::{DetailBlock, InterfaceDetails, OptionsOf, append_options};
use crate::capture::error::CaptureError;
use crate::capture::open::{Capture, CaptureOptions};
use crate::capture::set_options::SetOrder;

/// Maximum number of captures that are read a second time; each takes a mapping or a buffer.
const CAPTURES_MAX: usize = 256;

/// Finds names, comments and flags in pcapng captures for packets that a program passes on.
///
/// The packets must be passed in the order of their arrival; some may be omitted. The reader reads
/// the same captures again and skips the packets that were omitted.
///
/// # Examples
///
/// ```
/// use flowloom_traffic::capture::{CaptureOptions, DetailReader, SetOrder};
/// use flowloom_traffic::write::{Interface, PcapngWriter};
///
/// let directory = tempfile::tempdir()?;
/// let path = directory.path().join("a.pcapng");
/// let eth0 = Interface { name: Some("eth0".into()), ..Interface::default() };
/// let mut writer = PcapngWriter::new(std::fs::File::create(&path)?, vec![eth0])?;
/// writer.write(0, 5, 60, &[1; 60])?;
/// writer.write_with_options(0, 6, 60, &[2; 60], &[1, 0, 3, 0, b'w', b'h', b'y', 0])?;
/// writer.finish()?;
///
/// let options = CaptureOptions::default();
/// let mut reader = DetailReader::open(&[path], options, SetOrder::Concat)?.unwrap();
/// let details = reader.find(6, 60, &[2; 60])?.unwrap();
/// assert_eq!((details.interface, &details.options[4..7]), (Some(0), &b"why"[..]));
/// assert!(reader.interfaces()[0].options.ends_with(b"eth0"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DetailReader {
    paths: Vec<PathBuf>,
    options: CaptureOptions,
    order: SetOrder,
    /// The captures that are open, in the order in which they were named.
    cursors: Vec<Cursor>,
    /// The next capture to open, one after another.
    next_path: usize,
    interfaces: Vec<InterfaceDetails>,
    /// The index of each interface.
    known: BTreeMap<InterfaceDetails, usize>,
    section_options: Vec<u8>,
    blocks: Vec<DetailBlock>,
    scratch: Vec<u8>,
    blocks_left: u64,
    options_left: u64,
    not_found: u64,
}

/// The details of a packet other than its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacketDetails<'a> {
    /// The index of its interface in [`DetailReader::interfaces`]. `None` in a capture without
    /// interfaces.
    pub interface: Option<usize>,
    /// Its options, encoded little-endian and without their end.
    pub options: &'a [u8],
}

/// An open capture.
#[derive(Debug)]
struct Cursor {
    capture: Capture,
    batch: PacketBatch,
    /// The next packet of the batch.
    at: usize,
    /// The latest time before that packet.
    latest_ns: u64,
    /// For each interface of the capture, its index in the reader.
    interfaces: Vec<usize>,
    /// Bytes of section options, blocks left out and options left out that are already passed on.
    taken: (usize, u64, u64),
    is_ended: bool,
}

impl Cursor {
    fn new(path: &Path, options: CaptureOptions) -> Result<Option<Self>, CaptureError> {
        let Ok(mut capture) = Capture::open_unless_pipe(path, options)? else { return Ok(None) };
        capture.note_details();
        let batch = PacketBatch::new();
        Ok(Some(Self {
            capture,
            batch,
            at: 0,
            latest_ns: 0,
            interfaces: Vec::new(),
            taken: (0, 0, 0),
            is_ended: false,
        }))
    }

    /// Returns the time of the next packet.
    fn next_ns(&self) -> Option<u64> {
        self.batch.packets.get(self.at).map(|packet| packet.time_ns)
    }

    /// Returns whether the next packet may have been passed on with this time. A packet whose time
    /// goes back was then given a later time: at most the latest time of the packets before it.
    fn is_next(&self, (time_ns, latest_ns): (u64, u64), wire_bytes: u32, bytes: &[u8]) -> bool {
        self.batch.packets.get(self.at).zip(self.batch.block.as_ref()).is_some_and(|(packet, block)| {
            let is_back =
                packet.time_ns < time_ns && packet.time_ns < self.latest_ns && time_ns <= latest_ns;
            (packet.time_ns == time_ns || is_back)
                // A run bounds impossible lengths.
                && packet.wire_bytes >= wire_bytes
                && packet.bytes_in(block.bytes()) == bytes
        })
    }

    /// Skips the next packet.
    fn pass(&mut self) {
        self.latest_ns = self.latest_ns.max(self.next_ns().unwrap_or_default());
        self.at += 1;
    }
}

impl DetailReader {
    /// Opens captures that are read in this order. Returns `None` if none of them is a pcapng file,
    /// or they cannot be read a second time.
    ///
    /// # Errors
    ///
    /// Returns [`CaptureError`] for a capture that cannot be opened.
    pub fn open(
        paths: &[PathBuf],
        options: CaptureOptions,
        order: SetOrder,
    ) -> Result<Option<Self>, CaptureError> {
        if paths.len() > CAPTURES_MAX || !paths.iter().all(|path| path.is_file()) {
            return Ok(None);
        }
        let mut cursors = Vec::new();
        let mut is_some_pcapng = false;
        for path in paths {
            let Some(mut cursor) = Cursor::new(path, options)? else { return Ok(None) };
            is_some_pcapng |= cursor.capture.details().is_some();
            if order == SetOrder::ByTime {
                cursors.push(cursor);
            }
        }
        Ok(is_some_pcapng.then(|| Self {
            paths: paths.to_vec(),
            options,
            order,
            cursors,
            next_path: 0,
            interfaces: Vec::new(),
            known: BTreeMap::new(),
            section_options: Vec::new(),
            blocks: Vec::new(),
            scratch: Vec::new(),
            blocks_left: 0,
            options_left: 0,
            not_found: 0,
        }))
    }

    /// Reads up to the first packets, so that the sections that begin the captures are known.
    ///
    /// # Errors
    ///
    /// Returns [`CaptureError`] when reading fails.
    pub fn begin(&mut self) -> Result<(), CaptureError> {
        self.next().map(|_| ())
    }

    /// Returns the options of the section headers read so far, encoded little-endian and without
    /// their end.
    #[must_use]
    pub fn section_options(&self) -> &[u8] {
        &self.section_options
    }

    /// Returns the interfaces declared so far in all captures, in one list.
    #[must_use]
    pub fn interfaces(&self) -> &[InterfaceDetails] {
        &self.interfaces
    }

    /// Takes the blocks of names and secrets read since the last call.
    #[must_use]
    pub fn take_blocks(&mut self) -> Vec<DetailBlock> {
        std::mem::take(&mut self.blocks)
    }

    /// Returns the details of the next packet that was passed on with this time, length on the wire
    /// and these bytes. The time may be later than in the capture if the times of earlier packets
    /// are.
    ///
    /// Returns `None` if the captures have no further packet that matches.
    ///
    /// # Errors
    ///
    /// Returns [`CaptureError`] when reading fails.
    pub fn find(
        &mut self,
        time_ns: u64,
        wire_bytes: u32,
        bytes: &[u8],
    ) -> Result<Option<PacketDetails<'_>>, CaptureError> {
        while let Some(first) = self.next()? {
            let latest_ns = self.cursors.iter().map(|cursor| cursor.latest_ns).max().unwrap_or_default();
            if self.cursors[first].is_next((time_ns, latest_ns), wire_bytes, bytes) {
                return Ok(Some(self.details_of(first)));
            }
            self.cursors[first].pass();
        }
        self.not_found += 1;
        Ok(None)
    }

    /// Returns the details of a cursor's next packet, and skips it.
    fn details_of(&mut self, cursor: usize) -> PacketDetails<'_> {
        let Self { cursors, scratch, options_left, .. } = self;
        let cursor = &mut cursors[cursor];
        scratch.clear();
        let at = cursor.at;
        let context = cursor.capture.details().and_then(|details| details.packets.get(at)).copied();
        cursor.pass();
        let Cursor { batch, interfaces, .. } = cursor;
        let Some(context) = context else { return PacketDetails { interface: None, options: &[] } };
        let (begin, length) = context.options;
        let block = batch.block.as_ref().map_or(&[][..], |block| block.bytes());
        let options = usize::try_from(begin)
            .ok()
            .and_then(|begin| block.get(begin..)?.get(..length as usize))
            .unwrap_or_default();
        *options_left += append_options(OptionsOf::Packet, options, context.big_endian, scratch);
        let interface = context.interface.and_then(|number| interfaces.get(number)).copied();
        PacketDetails { interface, options: &self.scratch }
    }

    /// Reads the rest of the captures for their blocks, until `stopped`.
    ///
    /// # Errors
    ///
    /// Returns [`CaptureError`] when reading fails.
    pub fn finish(&mut self, stopped: &dyn Fn() -> bool) -> Result<(), CaptureError> {
        while !stopped()
            && let Some(first) = self.next()?
        {
            let cursor = &mut self.cursors[first];
            cursor.at = cursor.batch.packets.len();
        }
        Ok(())
    }

    /// Counts the details that a copy loses: blocks of statistics and of unknown kinds, and invalid
    /// options. Also returns how many packets were not found again.
    #[must_use]
    pub fn left_behind(&self) -> (Annotations, u64) {
        let left = Annotations {
            other_blocks: self.blocks_left,
            packet_options: self.options_left,
            ..Annotations::default()
        };
        (left, self.not_found)
    }

    /// Reads until each open capture has a next packet. Returns the capture whose packet comes
    /// first.
    fn next(&mut self) -> Result<Option<usize>, CaptureError> {
        loop {
            if self.order == SetOrder::Concat && self.cursors.iter().all(|cursor| cursor.is_ended) {
                let Some(path) = self.paths.get(self.next_path) else { return Ok(None) };
                self.next_path += 1;
                let latest_ns = self.cursors.first().map_or(0, |cursor| cursor.latest_ns);
                let next = Cursor::new(path, self.options)?;
                self.cursors.clear();
                self.cursors.extend(next.map(|next| Cursor { latest_ns, ..next }));
            }
            for index in 0..self.cursors.len() {
                self.fill(index)?;
            }
            let times = self
                .cursors
                .iter()
                .enumerate()
                .filter_map(|(index, cursor)| Some((cursor.next_ns()?, index)));
            if let Some((_, index)) = times.min() {
                return Ok(Some(index));
            }
            if self.order == SetOrder::ByTime {
                return Ok(None);
            }
        }
    }

    /// Reads the next packets of a capture whose packets were all taken, and the details before
    /// them.
    fn fill(&mut self, index: usize) -> Result<(), CaptureError> {
        let cursor = &mut self.cursors[index];
        if cursor.is_ended || cursor.next_ns().is_some() {
            return Ok(());
        }
        cursor.at = 0;
        cursor.is_ended = cursor.capture.next_batch(&mut cursor.batch)? == Fill::End;
        let Some(details) = cursor.capture.details() else { return Ok(()) };
        let known = cursor.interfaces.len();
        for interface in &details.interfaces[known..] {
            // The same interface in another capture or section counts as one interface.
            let known = self.known.entry(interface.clone()).or_insert_with(|| {
                self.interfaces.push(interface.clone());
                self.interfaces.len() - 1
            });
            cursor.interfaces.push(*known);
        }
        let (section_bytes, blocks, options) = &mut cursor.taken;
        self.section_options.extend_from_slice(&details.section_options[*section_bytes..]);
        *section_bytes = details.section_options.len();
        self.blocks_left += details.blocks_left - std::mem::replace(blocks, details.blocks_left);
        self.options_left += details.options_left - std::mem::replace(options, details.options_left);
        self.blocks.extend(details.take_blocks());
        Ok(())
    }
}
