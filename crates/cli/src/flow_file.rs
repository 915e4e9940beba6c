//! Destinations and formats of flow records: files, standard output, collectors.

mod formatter;
mod held;
mod lasting;
mod target;

use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowloom::apps::EndedFlow;
use flowloom::traffic::capture::InterfaceLosses;
#[cfg(feature = "arrow")]
use flowloom_export::ArrowWriter;
use flowloom_export::{
    CaptureLosses, IpfixWriter, Netflow9Writer, RecordWriter, TcpCollector, TextRows, TextWriter,
    UdpCollector, UdpCounters, UdpOptions,
};
#[cfg(feature = "parquet")]
use flowloom_export::{ParquetFile, ParquetWriter};

use crate::args::Common;
use crate::closed_output;
use crate::compressed_file::{Compression, PackedFile, is_closed};
use crate::output::OutputFile;
use crate::record_format::Format;
use crate::record_view::{FilterCounts, RecordPlan, RecordView};
use crate::render::{counted, warn};
use formatter::text_rows;
pub(crate) use formatter::{Formatted, Formatter};
use held::HeldBytes;
#[cfg(target_os = "linux")]
pub(crate) use lasting::LastingWriter;

/// Maximum size of a message, so that its datagram fits an Ethernet frame.
const DATAGRAM_BYTES: usize = 1400;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Endpoint {
    File(PathBuf, Compression),
    StandardOutput,
    Udp(String),
    Tcp(String),
}

/// A destination of records and their format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    place: Endpoint,
    pub(crate) format: Format,
}

impl Destination {
    /// Parses a destination: a path, `-`, or a collector such as `ipfix://HOST:PORT`,
    /// `ipfix+tcp://` or `netflow9://`.
    ///
    /// # Errors
    ///
    /// A message that names the mistake and the valid values.
    pub(crate) fn parse(path: &Path, format: Option<Format>) -> Result<Self, String> {
        let shown = path.display();
        if let Some((scheme, collector)) = path.to_str().and_then(|text| text.split_once("://")) {
            let (place, of_scheme) = match scheme {
                "ipfix" | "ipfix+udp" => (Endpoint::Udp(collector.into()), Format::Ipfix),
                "ipfix+tcp" => (Endpoint::Tcp(collector.into()), Format::Ipfix),
                "netflow9" => (Endpoint::Udp(collector.into()), Format::Netflow9),
                _ => {
                    return Err(format!(
                        "--flows {shown}: unknown collector '{scheme}'\n  use ipfix://HOST:PORT, \
                         ipfix+tcp://HOST:PORT or netflow9://HOST:PORT"
                    ));
                }
            };
            if format.is_some_and(|format| format != of_scheme) {
                return Err(format!(
                    "--flows {shown}: the collector determines the format\n  omit --flows-format"
                ));
            }
            return Ok(Self { place, format: of_scheme });
        }
        if let Some((_, port)) = path.to_str().and_then(|text| text.rsplit_once(':'))
            && port.parse::<u16>().is_ok()
            && path.components().count() == 1
        {
            return Err(format!(
                "--flows {shown} is not a file and lacks the protocol of a collector\n  use ipfix://{shown}, \
                 ipfix+tcp://{shown} or netflow9://{shown}; a file of that name is ./{shown}"
            ));
        }
        if path.as_os_str() == "-" {
            let format = format.unwrap_or(Format::Csv);
            check_arrow(path, format)?;
            return Ok(Self { place: Endpoint::StandardOutput, format });
        }
        let ending =
            |path: &Path| path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        let (compression, inner) = Compression::from_path(path);
        // The name that Suricata gives its log, alone or among others: edge-eve.json.
        let is_eve = ending(inner).as_deref() == Some("json")
            && inner.file_stem().is_some_and(|stem| {
                let stem = stem.to_string_lossy().to_ascii_lowercase();
                stem.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == "eve")
            });
        let of_ending = match ending(inner).as_deref() {
            _ if is_eve => Some(Format::Eve),
            None | Some("csv") => Some(Format::Csv),
            Some("jsonl" | "json" | "ndjson") => Some(Format::Jsonl),
            Some("ipfix") => Some(Format::Ipfix),
            Some("nf9") => Some(Format::Netflow9),
            Some("parquet") => Some(Format::Parquet),
            Some("arrows") => Some(Format::Arrow),
            Some("log") => Some(Format::Zeek),
            Some("eve") => Some(Format::Eve),
            Some(_) => None,
        };
        let format = format.or(of_ending).ok_or_else(|| {
            format!(
                "--flows {shown}: unknown extension .{}\n  use .csv or none, .jsonl, .ipfix, .nf9, \
                 .parquet, .arrows, .log (Zeek) or .eve, optionally followed by .gz or .zst; or add \
                 --flows-format",
                ending(inner).unwrap_or_default()
            )
        })?;
        if format == Format::Parquet && compression != Compression::None {
            return Err(format!(
                "--flows {shown}: Parquet compresses its own data\n  omit the last extension"
            ));
        }
        if format == Format::Parquet && cfg!(not(feature = "parquet")) {
            return Err(format!(
                "--flows {shown}: this flowloom was built without Parquet\n  build it with --features parquet"
            ));
        }
        check_arrow(path, format)?;
        Ok(Self { place: Endpoint::File(path.to_path_buf(), compression), format })
    }

    /// Returns whether records go to standard output.
    pub(crate) fn is_standard_output(&self) -> bool {
        self.place == Endpoint::StandardOutput
    }

    /// Opens the destination.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub(crate) fn open(self) -> io::Result<Opened> {
        let is_whole = self.format == Format::Parquet;
        self.open_as(is_whole)
    }

    /// Opens the destination of data that are useful only when they are complete.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub(crate) fn open_whole(self) -> io::Result<Opened> {
        self.open_as(true)
    }

    fn open_as(self, is_whole: bool) -> io::Result<Opened> {
        let mut counters = None;
        let out = match self.place {
            Endpoint::File(path, compression) => {
                let open = if is_whole { OutputFile::open_whole } else { OutputFile::open };
                Raw::File(open(&path)?, compression)
            }
            Endpoint::StandardOutput => {
                closed_output::check()?;
                Raw::Other(Box::new(io::stdout()))
            }
            Endpoint::Udp(collector) => {
                let udp = UdpCollector::connect(resolved(&collector)?, UdpOptions::default())?;
                counters = Some(udp.counters());
                Raw::Udp(udp)
            }
            Endpoint::Tcp(collector) => Raw::Other(Box::new(TcpCollector::connect(resolved(&collector)?)?)),
        };
        Ok(Opened { out, format: self.format, counters })
    }
}

/// Refuses Arrow where the command was built without it.
fn check_arrow(path: &Path, format: Format) -> Result<(), String> {
    if format == Format::Arrow && cfg!(not(feature = "arrow")) {
        return Err(format!(
            "--flows {}: this flowloom was built without Arrow\n  build it with --features arrow",
            path.display()
        ));
    }
    Ok(())
}

fn resolved(collector: &str) -> io::Result<SocketAddr> {
    let none = || io::Error::new(io::ErrorKind::NotFound, format!("'{collector}' has no address"));
    let named = |error: io::Error| {
        let what = if error.kind() == io::ErrorKind::InvalidInput {
            format!("'{collector}' is not a host and a port: write HOST:PORT, such as localhost:4739")
        } else {
            format!("the address of '{collector}' is not found: {error}")
        };
        io::Error::new(error.kind(), what)
    };
    collector.to_socket_addrs().map_err(named)?.next().ok_or_else(none)
}

/// A destination that is open but not yet written to.
pub(crate) struct Opened {
    out: Raw,
    format: Format,
    counters: Option<Arc<UdpCounters>>,
}

impl Opened {
    /// Returns a plain stream of bytes to a file or to standard output, and the file, which
    /// [`finish`](OutputFile::finish) completes.
    ///
    /// # Errors
    ///
    /// A collector takes no other stream than its own; and what the system says.
    #[cfg(feature = "arrow")]
    pub(crate) fn into_stream(self) -> io::Result<(Box<dyn Write + Send>, Option<OutputFile>)> {
        match self.out {
            Raw::File(file, compression) => {
                let stream = Box::new(PackedFile::new(file.clone(), compression)?);
                Ok((stream, Some(file)))
            }
            Raw::Other(out) => Ok((out, None)),
            Raw::Held(..) | Raw::Udp(_) => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, "a collector takes no parts"))
            }
        }
    }

    /// Returns whether this is the same file as another.
    pub(crate) fn is_same(&self, other: &OutputFile) -> bool {
        matches!(&self.out, Raw::File(file, _) if file.is_same(other))
    }
}

enum Raw {
    File(OutputFile, Compression),
    /// Bytes that a [`LastingWriter`] writes.
    Held(HeldBytes, Compression),
    Udp(UdpCollector),
    Other(Box<dyn Write + Send>),
}

/// A file of which Parquet replaces the end at each flush.
#[cfg(feature = "parquet")]
struct Rewound(OutputFile);

#[cfg(feature = "parquet")]
impl Write for Rewound {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(feature = "parquet")]
impl ParquetFile for Rewound {
    fn rewind(&mut self, position: u64) -> io::Result<bool> {
        self.0.truncate_to(position)
    }
}

/// Records from one flush to the next. A file that cannot be written further ends after the last
/// flush. The frames of a compressed file end there too, so they need more.
const FLUSH_RECORDS: u64 = 256;
const FLUSH_RECORDS_COMPRESSED: u64 = 2048;

/// Writes the records of an application.
pub(crate) struct FlowWriter {
    out: Out,
    /// The file, unless records go elsewhere.
    file: Option<OutputFile>,
    view: RecordView,
    plan: RecordPlan,
    counters: Option<Arc<UdpCounters>>,
    /// Records and datagrams that earlier sockets were refused.
    refused_before: (u64, u64),
    written: u64,
    /// Of these, records that a flush has passed on.
    flushed: u64,
    unflushed: u64,
    /// Records after which the writer flushes by itself, if it does.
    flush_at: u64,
    keeps_old: bool,
}

/// What became of the records that a writer has received.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WriterCounts {
    /// Records written, or sent to a collector.
    pub(crate) written: u64,
    /// Of these, records that a collector's host refused.
    pub(crate) refused: u64,
    /// Datagrams of these records.
    pub(crate) refused_datagrams: u64,
    /// Writing never began, so an earlier file is unchanged.
    pub(crate) kept_old: bool,
}

impl WriterCounts {
    /// Warns of records that a collector has not received.
    pub(crate) fn warn_of_refused(&self, common: &Common) {
        if self.refused > 0 {
            let (records, datagrams) =
                (counted(self.refused, "record"), counted(self.refused_datagrams, "datagram"));
            warn(
                &format!("{records} in {datagrams} did not reach the collector; is it listening?"),
                common,
            );
        }
    }
}

enum Out {
    /// Nothing has been written yet, so a refused run leaves an existing file unchanged.
    Waiting(Option<Opened>),
    Text(TextWriter<Box<dyn Write + Send>, Box<dyn TextRows>>),
    Records(Box<dyn RecordWriter>),
}

impl FlowWriter {
    /// Returns a writer of records to an open destination.
    pub(crate) fn new(opened: Opened, plan: RecordPlan) -> Self {
        let counters = opened.counters.clone();
        let file = if let Raw::File(file, _) = &opened.out { Some(file.clone()) } else { None };
        let flush_at = match (opened.format, &opened.out) {
            // Its batches, and groups, have their own size.
            (Format::Arrow | Format::Parquet, _) => u64::MAX,
            (_, Raw::File(_, packing) | Raw::Held(_, packing)) if *packing != Compression::None => {
                FLUSH_RECORDS_COMPRESSED
            }
            _ => FLUSH_RECORDS,
        };
        let out = Out::Waiting(Some(opened));
        Self {
            out,
            file,
            view: plan.view(),
            plan,
            counters,
            refused_before: (0, 0),
            written: 0,
            flushed: 0,
            unflushed: 0,
            flush_at,
            keeps_old: false,
        }
    }

    /// Leaves an existing file unchanged unless a record is written, because the user selects
    /// records or packets, and may have selected none by mistake.
    pub(crate) fn keep_old_if_empty(&mut self) {
        self.keeps_old = self.file.as_ref().is_some_and(OutputFile::has_old_contents);
    }

    /// Returns how many records `--where` selected and rejected, if it was given.
    pub(crate) fn filter_counts(&self) -> Option<FilterCounts> {
        self.view.counts()
    }

    /// Returns what became of the records.
    pub(crate) fn counts(&self) -> WriterCounts {
        let counters = self.counters.as_ref();
        WriterCounts {
            written: self.file.as_ref().map_or(self.flushed, OutputFile::records),
            refused: self.refused_before.0 + counters.map_or(0, |counters| counters.lost_records()),
            refused_datagrams: self.refused_before.1 + counters.map_or(0, |counters| counters.refused()),
            kept_old: matches!(self.out, Out::Waiting(_)) && self.keeps_old,
        }
    }

    /// Returns the rest of an error message: what the output contains after an error.
    pub(crate) fn remains(&self) -> Option<String> {
        self.file.as_ref().map(OutputFile::remains)
    }

    /// Writes to another destination from now on, as if no record had been written.
    fn restart(&mut self, opened: Opened) {
        let counts = self.counts();
        self.refused_before = (counts.refused, counts.refused_datagrams);
        self.counters.clone_from(&opened.counters);
        self.out = Out::Waiting(Some(opened));
    }

    /// Passes on what has been written.
    ///
    /// # Errors
    ///
    /// Returns the error of the file or the collector.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if self.keeps_old && matches!(self.out, Out::Waiting(_)) {
            return Ok(());
        }
        self.note_records();
        self.out.writer(&self.plan)?.flush()?;
        self.flushed = self.written;
        Ok(())
    }

    /// Tells the file how many records the next flush completes.
    fn note_records(&mut self) {
        let records = std::mem::take(&mut self.unflushed);
        if let Some(file) = &self.file {
            file.add_records(records);
        }
    }

    /// Writes what the interfaces of the captures lost, if the format can hold it.
    ///
    /// # Errors
    ///
    /// Returns the error of the file or the collector.
    pub(crate) fn write_losses(&mut self, losses: &[InterfaceLosses]) -> io::Result<()> {
        if losses.is_empty() || (self.keeps_old && matches!(self.out, Out::Waiting(_))) {
            return Ok(());
        }
        let figures = |one: &InterfaceLosses| CaptureLosses {
            interface: one.number,
            name: crate::render::losses::name(one),
            lost: one.lost(),
        };
        let losses: Vec<_> = losses.iter().map(figures).collect();
        self.out.writer(&self.plan)?.write_losses(&losses)
    }

    /// Writes the data that follow the last record.
    ///
    /// # Errors
    ///
    /// Returns the error of the file or the collector.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        if self.keeps_old && matches!(self.out, Out::Waiting(_)) {
            return Ok(());
        }
        self.note_records();
        self.out.writer(&self.plan)?.finish()?;
        self.flushed = self.written;
        self.file.as_ref().map_or(Ok(()), OutputFile::finish)
    }

    /// Returns what formats records on other threads, if the format is one of text.
    pub(crate) fn formatter(&self) -> Option<Formatter> {
        let rows = match &self.out {
            Out::Waiting(opened) => text_rows(opened.as_ref()?.format, &self.plan).ok()??,
            Out::Text(_) | Out::Records(_) => return None,
        };
        Some(Formatter { view: self.plan.view(), rows })
    }

    /// Writes records that a [`Formatter`] has formatted.
    ///
    /// # Errors
    ///
    /// Returns the error of the file or the collector.
    pub(crate) fn write_formatted(&mut self, formatted: &Formatted) -> io::Result<()> {
        let Formatted { bytes, rows, counts } = formatted;
        self.view.add_counts(*counts);
        if *rows == 0 {
            return Ok(());
        }
        self.written += rows;
        self.unflushed += rows;
        self.out.writer(&self.plan)?;
        let Out::Text(out) = &mut self.out else { return Err(is_closed()) };
        out.write_rows(bytes)?;
        if self.unflushed >= self.flush_at { self.flush() } else { Ok(()) }
    }

    /// Writes a record, if `--where` selects it.
    ///
    /// # Errors
    ///
    /// Returns the error of the file or the collector.
    pub(crate) fn write(&mut self, record: &dyn EndedFlow) -> io::Result<()> {
        let Some(row) = self.view.row(record) else { return Ok(()) };
        self.written += 1;
        self.unflushed += 1;
        self.out.writer(&self.plan)?.write(row)?;
        if self.unflushed >= self.flush_at { self.flush() } else { Ok(()) }
    }
}

impl Out {
    /// Returns the writer of records. Writing begins at the first call.
    fn writer(&mut self, plan: &RecordPlan) -> io::Result<&mut dyn RecordWriter> {
        if let Self::Waiting(opened) = self {
            *self = Self::begin(opened.take().ok_or_else(is_closed)?, plan)?;
            if let (Self::Records(out), Some(sampling)) = (&mut *self, plan.sampling) {
                out.write_sampling(sampling.one_of())?;
            }
        }
        match self {
            Self::Text(out) => Ok(out),
            Self::Records(out) => Ok(&mut **out),
            Self::Waiting(_) => Err(is_closed()),
        }
    }

    fn begin(opened: Opened, plan: &RecordPlan) -> io::Result<Self> {
        let Opened { out, format, .. } = opened;
        let (schema, columns) = (&plan.schema, &plan.columns[..]);
        let out: Box<dyn Write + Send> = match out {
            #[cfg(feature = "parquet")]
            Raw::File(file, _) if format == Format::Parquet => {
                let writer = ParquetWriter::new(Rewound(file), columns)?;
                return Ok(Self::Records(Box::new(writer)));
            }
            #[cfg(feature = "parquet")]
            Raw::Held(bytes, _) if format == Format::Parquet => {
                let writer = ParquetWriter::new(bytes, columns)?;
                return Ok(Self::Records(Box::new(writer)));
            }
            Raw::File(file, compression) => Box::new(PackedFile::new(file, compression)?),
            Raw::Held(bytes, compression) => Box::new(PackedFile::new(bytes, compression)?),
            Raw::Udp(udp) => {
                return Ok(Self::Records(match format {
                    Format::Ipfix => {
                        let writer = IpfixWriter::new(udp, 0, &plan.all_columns());
                        Box::new(writer.for_datagrams(DATAGRAM_BYTES))
                    }
                    _ => Box::new(Netflow9Writer::new(udp, schema).map_err(io::Error::other)?),
                }));
            }
            Raw::Other(out) => out,
        };
        if let Some(rows) = text_rows(format, plan)? {
            return Ok(Self::Text(TextWriter::of_rows(out, rows)));
        }
        Ok(Self::Records(match format {
            Format::Ipfix => Box::new(IpfixWriter::new(out, 0, &plan.all_columns())),
            Format::Netflow9 => Box::new(Netflow9Writer::new(out, schema).map_err(io::Error::other)?),
            #[cfg(feature = "arrow")]
            Format::Arrow => Box::new(ArrowWriter::new(out, columns)?),
            #[cfg(not(feature = "arrow"))]
            Format::Arrow => return Err(is_closed()),
            Format::Csv | Format::Jsonl | Format::Zeek | Format::Eve => return Err(is_closed()),
            Format::Parquet => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "Parquet is written to files, not to standard output",
                ));
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_or_scheme_selects_the_output_format() {
        let format_of =
            |text: &str| Destination::parse(Path::new(text), None).map(|destination| destination.format);
        for (text, format) in [
            ("flows", Format::Csv),
            ("a/flows.CSV.gz", Format::Csv),
            ("flows.jsonl.zst", Format::Jsonl),
            ("flows.ipfix", Format::Ipfix),
            ("flows.arrows", Format::Arrow),
            ("conn.log", Format::Zeek),
            ("flows.eve.gz", Format::Eve),
            ("a/eve.json", Format::Eve),
            ("edge-EVE.2026.json.gz", Format::Eve),
            ("evening.json", Format::Jsonl),
            ("eve/flows.json", Format::Jsonl),
            ("eve.csv", Format::Csv),
            ("flows.nf9", Format::Netflow9),
            ("./localhost:9995", Format::Csv),
            ("-", Format::Csv),
            ("ipfix://[::1]:4739", Format::Ipfix),
            ("ipfix+tcp://localhost:4739", Format::Ipfix),
            ("netflow9://127.0.0.1:2055", Format::Netflow9),
        ] {
            assert_eq!(format_of(text), Ok(format), "{text}");
        }
        let named = Destination::parse(Path::new("flows.txt"), Some(Format::Eve)).unwrap();
        assert_eq!(named.format, Format::Eve);
    }
}
