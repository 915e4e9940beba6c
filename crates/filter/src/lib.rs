//! Packet filters in the language of pcap-filter(7), which tcpdump and Wireshark use for captures.
//!
//! A filter is compiled for each link type that it meets, and gives the answers of libpcap.
//! `host 10.0.0.1` tests IPv4, ARP and RARP; `port 80` tests TCP, UDP and SCTP except later
//! fragments. A packet that ends before a tested field is rejected. Host names are not resolved.
//! `protochain`, `gateway`, the fields of 802.11 and ATM, and `ip broadcast` are not supported; the
//! error shows the position.
//!
//! # Examples
//!
//! ```
//! use flowloom_filter::PacketFilter;
//! use flowloom_packet::LinkType;
//!
//! let mut filter = PacketFilter::parse("tcp port 80 and tcp[tcpflags] & tcp-syn != 0")?;
//! let mut frame = vec![0; 54];
//! frame[12..14].copy_from_slice(&[8, 0]);
//! frame[14] = 0x45;
//! frame[23] = 6;
//! frame[36..38].copy_from_slice(&80_u16.to_be_bytes());
//! frame[47] = 2;
//! assert!(filter.matches(LinkType::ETHERNET, &frame, 54)?);
//! frame[47] = 16;
//! assert!(!filter.matches(LinkType::ETHERNET, &frame, 54)?);
//!
//! let error = PacketFilter::parse("tcp port http and hots 10.0.0.1").unwrap_err();
//! assert!(error.to_string().contains("column 19"), "{error}");
//! # Ok::<(), flowloom_filter::FilterError>(())
//! ```

#![expect(clippy::cast_possible_truncation, reason = "numbers are checked against their widths before")]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod compile;
mod lexer;
mod names;
mod parser;
mod program;
mod syntax;

use std::fmt;

use flowloom_packet::LinkType;

use program::{Node, Packet};
use syntax::Expr;

/// The error of a filter that is invalid, or does not suit the packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// The position in the text, in bytes from 0.
    pub at: usize,
    what: String,
}

impl FilterError {
    pub(crate) fn new(at: usize, what: String) -> Self {
        Self { at, what }
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "filter, column {}: {}", self.at + 1, self.what)
    }
}

impl std::error::Error for FilterError {}

/// A compiled filter.
#[derive(Clone, Debug)]
pub struct PacketFilter {
    /// `None` accepts all packets.
    expr: Option<Expr>,
    programs: Vec<(LinkType, Result<Node, FilterError>)>,
}

impl PacketFilter {
    /// Parses a filter. An empty one accepts all packets.
    ///
    /// # Errors
    ///
    /// Returns [`FilterError`] with the position of the mistake.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        Ok(Self { expr: parser::parse(text)?, programs: Vec::new() })
    }

    /// Returns whether the filter accepts a packet of `wire_bytes` bytes, of which `bytes` were
    /// captured.
    ///
    /// # Errors
    ///
    /// Returns [`FilterError`] if the filter has no meaning for packets of this link type.
    pub fn matches(&mut self, link: LinkType, bytes: &[u8], wire_bytes: u32) -> Result<bool, FilterError> {
        let Some(expr) = &self.expr else { return Ok(true) };
        let known = self.programs.iter().position(|(known, _)| *known == link);
        let at = known.unwrap_or_else(|| {
            self.programs.push((link, compile::compile(expr, link)));
            self.programs.len() - 1
        });
        match &self.programs[at].1 {
            Ok(program) => Ok(program.run(&Packet { bytes, wire_bytes }).unwrap_or(false)),
            Err(error) => Err(error.clone()),
        }
    }
}
