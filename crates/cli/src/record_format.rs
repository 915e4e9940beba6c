//! The file formats of records, and which columns each can hold.

use std::io;

use clap::ValueEnum;
use flowloom::record::{Column, Group, GroupSet, Schema};
use flowloom_export::{EveRows, EveWriter, Netflow9Writer, ZeekRows, ZeekWriter};

/// Formats of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated values
    Csv,
    /// One JSON object per line
    Jsonl,
    /// IPFIX messages (RFC 7011), both directions in one record
    Ipfix,
    /// NetFlow v9 packets, one record per direction
    Netflow9,
    /// Apache Parquet
    Parquet,
    /// A stream of Apache Arrow (IPC)
    Arrow,
    /// Zeek's conn.log
    Zeek,
    /// Flow events of Suricata's EVE log
    Eve,
}

impl Format {
    /// Returns whether this format has a place for a column, in addition to those that every record
    /// has in it.
    pub(crate) fn takes(self, column: &Column) -> bool {
        match self {
            Self::Csv | Self::Jsonl | Self::Parquet | Self::Arrow => true,
            Self::Ipfix => !column.elements.is_empty(),
            Self::Netflow9 => false,
            Self::Zeek => ZeekWriter::takes(column),
            Self::Eve => EveWriter::takes(column),
        }
    }

    /// Returns the groups of columns that records in this format have by default.
    pub(crate) fn implied_groups(self) -> GroupSet {
        match self {
            Self::Zeek => [Group::Extra, Group::Conn].into_iter().collect(),
            _ => GroupSet::NONE,
        }
    }

    /// Refuses records without the columns that this format needs.
    pub(crate) fn check(self, schema: &Schema) -> Result<(), String> {
        let checked = match self {
            Self::Csv | Self::Jsonl | Self::Parquet | Self::Arrow | Self::Ipfix => Ok(()),
            Self::Netflow9 => Netflow9Writer::new(io::sink(), schema).map(|_| ()),
            Self::Zeek => ZeekRows::new(schema, &[]).map(|_| ()),
            Self::Eve => EveRows::new(schema, &[]).map(|_| ()),
        };
        checked.map_err(|missing| {
            format!(
                "{} is for --app accounting: {missing}\n  write the records of other applications to \
                 .csv, .jsonl, .parquet, .arrows or .ipfix",
                self.name()
            )
        })
    }

    /// Returns whether `--columns` selects the columns of this format.
    pub(crate) fn has_columns(self) -> bool {
        matches!(self, Self::Csv | Self::Jsonl | Self::Parquet | Self::Arrow)
    }

    /// Returns the name of the format for messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Csv => "CSV",
            Self::Jsonl => "JSON lines",
            Self::Ipfix => "IPFIX",
            Self::Netflow9 => "NetFlow v9",
            Self::Parquet => "Parquet",
            Self::Arrow => "Arrow",
            Self::Zeek => "Zeek's conn.log",
            Self::Eve => "EVE",
        }
    }
}
