//! The options of the decoder.

use std::num::NonZeroU8;

use super::custom::CustomEncapsulations;

/// The treatment of tunnels, and encapsulations in addition to the tables.
///
/// # Examples
///
/// ```
/// use flowloom_packet::DecodeOptions;
/// let options = DecodeOptions::new().with_decap(true);
/// assert!(options.decap && options != DecodeOptions::default());
/// ```
#[expect(clippy::struct_excessive_bools, reason = "independent options")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DecodeOptions {
    /// Follow tunnels to the innermost IP header instead of stopping at the outermost.
    pub decap: bool,
    /// With [`decap`](Self::decap): the number of tunnels, one within the other, that are followed
    /// at most; `None` for all. The key is then that of the packet in the last of them.
    pub decap_depth: Option<NonZeroU8>,
    /// Read ESP as unencrypted if its trailer fits. The payload must then be plain.
    pub esp_null: bool,
    /// Give an ICMP error the key of the flow that it concerns, if it quotes a packet with a key.
    /// The error then finds its flow in the flow table, regardless of the host that sent it.
    pub errors_by_flow: bool,
    /// Leave VLAN IDs out of the key: packets with other tags, or without, belong to the same flow.
    pub ignore_vlan: bool,
    /// Divide ESP flows by their security parameters index, which takes the place of both ports.
    /// The two directions of a tunnel have different indices, so they are two flows.
    pub esp_spi: bool,
    /// Tag types and tunnel ports in addition to those of the tables.
    pub custom: Option<&'static CustomEncapsulations>,
}

impl DecodeOptions {
    /// Returns the default options, which do not follow tunnels.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            decap: false,
            decap_depth: None,
            esp_null: false,
            errors_by_flow: false,
            ignore_vlan: false,
            esp_spi: false,
            custom: None,
        }
    }

    /// Sets [`esp_spi`](Self::esp_spi).
    #[must_use]
    pub const fn with_esp_spi(mut self, esp_spi: bool) -> Self {
        self.esp_spi = esp_spi;
        self
    }

    /// Sets [`esp_null`](Self::esp_null).
    #[must_use]
    pub const fn with_esp_null(mut self, esp_null: bool) -> Self {
        self.esp_null = esp_null;
        self
    }

    /// Sets [`errors_by_flow`](Self::errors_by_flow).
    #[must_use]
    pub const fn with_errors_by_flow(mut self, errors_by_flow: bool) -> Self {
        self.errors_by_flow = errors_by_flow;
        self
    }

    /// Sets [`ignore_vlan`](Self::ignore_vlan).
    #[must_use]
    pub const fn with_ignore_vlan(mut self, ignore_vlan: bool) -> Self {
        self.ignore_vlan = ignore_vlan;
        self
    }

    /// Sets further tag types and tunnel ports.
    #[must_use]
    pub const fn with_custom(mut self, custom: &'static CustomEncapsulations) -> Self {
        self.custom = Some(custom);
        self
    }

    /// Sets [`decap_depth`](Self::decap_depth).
    #[must_use]
    pub const fn with_decap_depth(mut self, depth: Option<NonZeroU8>) -> Self {
        self.decap_depth = depth;
        self
    }

    /// Returns the options for what a tunnel carries.
    pub(super) fn within_tunnel(mut self) -> Self {
        if let Some(depth) = self.decap_depth {
            self.decap_depth = NonZeroU8::new(depth.get() - 1);
            self.decap = self.decap_depth.is_some();
        }
        self
    }

    /// Sets [`decap`](Self::decap).
    #[must_use]
    pub const fn with_decap(mut self, decap: bool) -> Self {
        self.decap = decap;
        self
    }
}
