//! Decodes a record's bytes to [`Headers`].
//!
//! ```text
//!  link layer ─▶ tags and labels ─▶ IP ─▶ transport ─▶ Headers
//!                     ▲                      │
//!                     └────── tunnel ◀───────┘   only with `decap`
//! ```
//!
//! Encapsulations other than Ethernet and IP are data: the [tables](table) define how to recognise
//! and read each. [`explain`] lists the encapsulations of a packet.
//!
//! Almost every packet is Ethernet, perhaps with one VLAN tag, IP without options, and TCP or UDP.
//! A fast path reads those with one length check. The layers, one file each, decode all other
//! packets. A property test checks that both agree on the packets that both can decode.
//!
//! The key is that of the *outermost* IP header. With [`DecodeOptions::decap`] the decoder follows
//! tunnels to the innermost IP header. If the payload is not a valid tunnel or carries no IP, the
//! outer key stays. If the record was cut inside the inner headers, the result is
//! [`DropReason::TruncatedTunnel`].

mod bridged;
mod cooked;
mod custom;
mod enter;
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
mod options;
mod ppp;
mod quoted;
mod recorded;
mod rings;
mod security;
mod service_chain;
pub mod table;
mod trace;
mod transport;
mod tunnel;
mod vlan;
mod wide_area;
mod wrapped;
mod zone;

pub use custom::{CustomEncapsulations, CustomError};
pub use explain::{Explanation, explain};
pub use options::DecodeOptions;
pub use trace::Unknown;
pub(crate) use trace::{Steps, Trace, has_ports};

use crate::drop_reason::DropReason;
use crate::link::LinkType;
use crate::view::Headers;

use layers::Layers;

/// Decodes a packet. Returns its headers and flow key, or the reason why it has no key.
///
/// It takes a few nanoseconds for the usual packet, and does not allocate.
///
/// # Errors
///
/// The [`DropReason`] under which to count the packet. It never panics, for any bytes.
///
/// # Examples
///
/// ```
/// use flowloom_packet::{DecodeOptions, DropReason, LinkType, decode};
///
/// let mut frame = vec![0; 12];
/// frame.extend([0x08, 0x06]); // ARP
/// let result = decode(LinkType::ETHERNET, &frame, DecodeOptions::default());
/// assert_eq!(result, Err(DropReason::NotIp));
/// ```
#[inline(always)]
pub fn decode(link: LinkType, bytes: &[u8], options: DecodeOptions) -> Result<Headers, DropReason> {
    match decode_usual(link, bytes, &options) {
        Some(headers) => Ok(headers),
        None => decode_layered(link, bytes, options),
    }
}

/// Decodes a usual packet. Returns `None` for other packets.
#[inline(always)]
pub(crate) fn decode_usual(link: LinkType, bytes: &[u8], options: &DecodeOptions) -> Option<Headers> {
    if link != LinkType::ETHERNET || options.decap {
        return None;
    }
    let mut headers = fast::ethernet(bytes)?;
    if options.ignore_vlan {
        headers.key = headers.key.with_zone(0);
    }
    Some(headers)
}

/// Decodes through the layers and records the steps. Errors keep their own keys.
pub(crate) fn decode_traced(
    link: LinkType,
    bytes: &[u8],
    options: DecodeOptions,
    trace: &Trace,
) -> Result<Headers, DropReason> {
    Layers::new(bytes, options, Some(trace)).link(link, 0)
}

/// Decodes through the layers only: the same result as [`decode`], without its fast path.
///
/// # Errors
///
/// Returns the same errors as [`decode`].
#[inline(never)]
pub fn decode_layered(link: LinkType, bytes: &[u8], options: DecodeOptions) -> Result<Headers, DropReason> {
    let mut decoded = Layers::new(bytes, options, None).link(link, 0);
    key_errors(bytes, options, &mut decoded);
    decoded
}

/// Gives an ICMP error the key of the flow that it is about, if the options say so.
#[inline]
pub(crate) fn key_errors(bytes: &[u8], options: DecodeOptions, decoded: &mut Result<Headers, DropReason>) {
    if let Ok(headers) = decoded
        && options.errors_by_flow
    {
        quoted::key_by_flow(bytes, headers);
    }
}
