//! Flow records in the formats of collectors and analysis tools.
//!
//! | format | writer | where to |
//! | --- | --- | --- |
//! | CSV, JSON lines | [`CsvWriter`], [`JsonWriter`] | anything that is [`Write`](std::io::Write) |
//! | IPFIX (RFC 7011) | [`IpfixWriter`] | a file, or a collector over UDP or TCP |
//! | NetFlow v9 (RFC 3954) | [`Netflow9Writer`] | a file, or a collector over UDP |
//! | Parquet | [`ParquetWriter`] (feature `parquet`) | a file |
//! | Arrow (IPC stream) | [`ArrowWriter`] (feature `arrow`) | anything that is `Write` |
//! | `conn.log` of Zeek, flow events of Suricata's EVE | [`ZeekWriter`], [`EveWriter`] | anything that is `Write` |
//!
//! Each is a [`RecordWriter`]: records are written as flows end, and [`flush`](RecordWriter::flush)
//! makes all records written so far readable.
//!
//! A writer is created with columns of a [`Schema`](record::Schema), and takes a
//! [`Row`] of values in the order of that schema. Formats with fixed columns look up
//! those that they need when they are created. [`RecordFilter`] selects records by an expression
//! over their columns.
//!
//! # Examples
//!
//! ```
//! use flowloom_apps::accounting::{AccountingRecord, EndedBy};
//! use flowloom_export::record::GroupSet;
//! use flowloom_export::{CsvWriter, RecordWriter};
//! use flowloom_flow_key::FlowKey;
//!
//! let columns = AccountingRecord::schema().of_groups(GroupSet::SHOWN);
//! let mut writer = CsvWriter::new(Vec::new(), &columns);
//! let (key, _) = FlowKey::from_v4(0x0A00_0001, 0x0A00_0002, 40_000, 443, 6);
//! let record = AccountingRecord::new(&key, &Default::default(), EndedBy::EndOfInput);
//! writer.write(&record.row())?;
//! writer.finish()?;
//! # Ok::<(), std::io::Error>(())
//! ```

#[cfg(feature = "arrow")]
mod arrow;
#[cfg(feature = "arrow")]
mod arrow_packets;
mod collector;
mod csv;
mod eve;
mod filter;
mod flow_columns;
mod ipfix;
mod json;
mod netflow9;
#[cfg(feature = "parquet")]
mod parquet;
mod service;
mod text;
mod zeek;

use std::io;

use flowloom_record::Row;

pub use flowloom_record as record;

#[cfg(feature = "arrow")]
pub use arrow::{ArrowWriter, read_fragments};
#[cfg(feature = "arrow")]
pub use arrow_packets::{ArrowPacketWriter, PacketHeaders, PacketRow};
pub use collector::{TcpCollector, UdpCollector, UdpCounters, UdpOptions};
pub use csv::{CsvRows, CsvWriter};
pub use eve::{EveRows, EveWriter};
pub use filter::{RecordFilter, RecordFilterError};
pub use flow_columns::MissingColumns;
pub use ipfix::{IpfixWriter, MessageSink, TimePrecision};
pub use json::{JsonRows, JsonWriter};
pub use netflow9::Netflow9Writer;
#[cfg(feature = "parquet")]
pub use parquet::{ParquetFile, ParquetWriter};
pub use text::{TextRows, TextWriter};
pub use zeek::{ZeekRows, ZeekWriter};

/// What an interface lost while its packets were captured, according to the capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureLosses {
    /// Number of the interface in its capture.
    pub interface: u32,
    /// Its name; if it has none, its number as text.
    pub name: String,
    /// Packets that it lost.
    pub lost: u64,
}

/// Writes records in one format.
pub trait RecordWriter: Send {
    /// Writes a record, whose values are in the order of the schema with which the writer was
    /// created. It may wait in a buffer until [`flush`](Self::flush).
    ///
    /// # Errors
    ///
    /// Returns the error of the file or the collector.
    fn write(&mut self, row: &Row) -> io::Result<()>;

    /// Makes all records so far readable.
    ///
    /// # Errors
    ///
    /// Returns the error of the file or the collector.
    fn flush(&mut self) -> io::Result<()>;

    /// Writes what the interfaces of the captures lost, before the end, if the format can hold it.
    ///
    /// # Errors
    ///
    /// Returns the error of the file or the collector.
    fn write_losses(&mut self, _losses: &[CaptureLosses]) -> io::Result<()> {
        Ok(())
    }

    /// Writes that one of so many packets was sampled, before the first record, if the format can
    /// hold it.
    ///
    /// # Errors
    ///
    /// Returns the error of the file or the collector.
    fn write_sampling(&mut self, _one_of: u32) -> io::Result<()> {
        Ok(())
    }

    /// Writes the data that follow the last record.
    ///
    /// # Errors
    ///
    /// Returns the error of the file or the collector.
    fn finish(&mut self) -> io::Result<()> {
        self.flush()
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
