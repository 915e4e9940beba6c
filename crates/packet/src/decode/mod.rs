//! From a record's bytes to [`Headers`].
//!
//! ```text
//!  link layer ─▶ tags and labels ─▶ IP ─▶ transport ─▶ Headers
//!                     ▲                      │
//!                     └────── tunnel ◀───────┘   only with `decap`
//! ```
//!
//! What wraps packets besides Ethernet and IP is data: the [tables](table) of encapsulations say how each is recognised
//! and read. [`explain`] says which of them a packet is made of.
//!
//! Almost every packet is Ethernet, perhaps one VLAN tag, IP without options, TCP or UDP: a shortcut reads those with one
//! length check. Everything else takes the layered way, a file per layer; on what both know they agree, which a
//! property test holds.
//!
//! The key is that of the *outermost* IP header. With [`DecodeOptions::decap`] tunnels are followed to the innermost
//! one; a tunnel that turns out to be none, or that carries no IP, leaves the outer key, and one whose inner
//! headers are missing because the record was cut is [`DropReason::TruncatedTunnel`].

mod bridged;
mod cooked;
mod custom;
mod ethernet;
mod explain;
mod fabric;
mod fast;
#[cfg(test)]
pub(crate) mod frames;
mod gre;
mod guess;
mod ieee80211;
mod ipv4;
mod ipv6;
mod l2tp;
mod layers;
mod mirrored;
mod mpls;
mod ppp;
mod recorded;
mod rings;
mod security;
mod service_chain;
pub mod table;
mod transport;
mod tunnel;
mod vlan;
mod wide_area;
mod wrapped;

pub use custom::{CustomEncapsulations, CustomError};
pub use explain::{Explanation, Unknown, explain};

use crate::link::LinkType;
use crate::reason::DropReason;
use crate::view::Headers;

use layers::Layers;

/// What the decoder does with tunnels, and what it knows besides its tables.
///
/// # Examples
///
/// ```
/// use flowloom_packet::DecodeOptions;
/// let options = DecodeOptions::new().with_decap(true);
/// assert!(options.decap && options != DecodeOptions::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodeOptions {
    /// Follow tunnels to the innermost IP header instead of stopping at the outermost.
    pub decap: bool,
    /// Read ESP as if it were not encrypted, where its trailer says so.
    pub esp_null: bool,
    /// Tag types and tunnel ports besides those of the tables.
    pub custom: Option<&'static CustomEncapsulations>,
}

impl DecodeOptions {
    /// Returns the options that are taken where nothing is asked for: tunnels are not followed.
    #[must_use]
    pub const fn new() -> Self {
        Self { decap: false, esp_null: false, custom: None }
    }

    /// Returns them with [`esp_null`](Self::esp_null) as given.
    #[must_use]
    pub const fn with_esp_null(mut self, esp_null: bool) -> Self {
        self.esp_null = esp_null;
        self
    }

    /// Returns them with tag types and tunnel ports of one's own.
    #[must_use]
    pub const fn with_custom(mut self, custom: &'static CustomEncapsulations) -> Self {
        self.custom = Some(custom);
        self
    }

    /// Returns them with [`decap`](Self::decap) as given.
    #[must_use]
    pub const fn with_decap(mut self, decap: bool) -> Self {
        self.decap = decap;
        self
    }
}

/// Returns what a packet is: its headers and flow key, or the reason why it has none.
///
/// Cost: a few nanoseconds for the usual packet, without allocation.
///
/// # Errors
///
/// The [`DropReason`] to count the packet under. Never panics, whatever the bytes.
///
/// # Examples
///
/// ```
/// use flowloom_packet::{DecodeOptions, DropReason, LinkType, decode};
///
/// let mut frame = vec![0; 12];
/// frame.extend([0x08, 0x06]); // ARP
/// assert_eq!(decode(LinkType::ETHERNET, &frame, DecodeOptions::default()), Err(DropReason::NotIp));
/// ```
#[inline(always)]
pub fn decode(link: LinkType, bytes: &[u8], options: DecodeOptions) -> Result<Headers, DropReason> {
    let usual = if link == LinkType::ETHERNET && !options.decap { fast::ethernet(bytes) } else { None };
    match usual {
        Some(headers) => Ok(headers),
        None => decode_layered(link, bytes, options),
    }
}

/// Decodes layer by layer: all that [`decode`] knows, without its shortcut.
///
/// # Errors
///
/// As [`decode`].
#[inline(never)]
pub fn decode_layered(link: LinkType, bytes: &[u8], options: DecodeOptions) -> Result<Headers, DropReason> {
    Layers::new(bytes, options, None).link(link, 0)
}
