//! Optional fields of records. Each is a type, and costs nothing in a program that does not use it.
//!
//! | fields | content |
//! | --- | --- |
//! | [`PacketSizes`] | minimum, mean, maximum and deviation of packet sizes, by direction |
//! | [`PacketGaps`] | the same for the times between packets |
//! | [`FirstPackets`] | sizes and directions of the first packets |
//! | [`Handshake`] | round-trip times of the handshake of TCP |
//! | [`TcpTrouble`] | retransmissions, out-of-order segments and closed windows, by direction |
//! | [`PayloadRtt`] | times from data of TCP to its acknowledgement, by direction |
//! | [`Tls`] | server name, ALPN and fingerprint of the client, version of the server |
//! | [`Dns`] | first question, and its response code |
//! | [`Http`] | first request and first status code of HTTP/1 |
//! | [`Quic`] | version |
//! | [`Ssh`] | software of both ends |
//!
//! A pair of fields is itself a field type, so all of them combine:
//! `(PacketSizes, (PacketGaps, Handshake))`. [`AllFields`] combines all of them, [`FieldGroup`]
//! names their groups, and a [`FieldSet`] selects groups at run time.
//!
//! The fields from [`Tls`] on read payload with the readers of [`application`]: the first bytes of
//! each direction, at most 4 KiB, while up to as many out-of-order bytes wait. A decided direction
//! keeps only its values. A [`FieldMemory`] limits the memory of both in a run; fields whose bytes
//! or values were dropped are [`NO_MEMORY`].

pub mod application;
mod dns;
mod field_set;
mod first_packets;
mod group;
mod handshake;
mod http;
pub(super) mod memory;
mod moments;
mod packet_gaps;
mod packet_sizes;
mod payload_rtt;
mod quic;
mod ssh;
mod tcp_trouble;
mod tls;

use std::fmt;

use flowloom_engine::{App, FlowState, Verdict};
use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;
use flowloom_record::{Column, Value};

use super::{Accounted, Accounting};

pub use dns::Dns;
pub use field_set::FieldSet;
pub use first_packets::FirstPackets;
pub use group::{AllFields, ApplicationFields, FieldGroup, all_columns};
pub use handshake::Handshake;
pub use http::Http;
pub use memory::{FieldMemory, FieldStore, NO_MEMORY};
pub use packet_gaps::PacketGaps;
pub use packet_sizes::PacketSizes;
pub use payload_rtt::PayloadRtt;
pub use quic::Quic;
pub use ssh::Ssh;
pub use tcp_trouble::TcpTrouble;
pub use tls::Tls;

/// A column of additional fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FieldColumn {
    /// The name: the heading in CSV, and the key in JSON.
    pub name: &'static str,
    /// The unit.
    pub unit: &'static str,
    /// The number and name of the IPFIX element for the value, if IANA has one. An element whose
    /// name begins with `reverse` has the enterprise number 29305.
    pub ipfix: Option<(u16, &'static str)>,
    /// The meaning of the value, in one sentence.
    pub description: &'static str,
}

impl FieldColumn {
    const fn new(name: &'static str, unit: &'static str, description: &'static str) -> Self {
        Self { name, unit, ipfix: None, description }
    }

    const fn with_ipfix(self, number: u16, name: &'static str) -> Self {
        Self { ipfix: Some((number, name)), ..self }
    }

    /// Returns whether its values are numbers; otherwise they are text.
    #[must_use]
    pub fn is_number(&self) -> bool {
        matches!(self.unit, "bytes" | "ns" | "packets" | "number")
    }
}

/// One value of additional fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldValue {
    /// A number in the unit of its column.
    Number(u64),
    /// Text.
    Text(String),
    /// A text that was dropped for lack of memory, shown as [`NO_MEMORY`].
    Dropped,
    /// The record has no such value.
    None,
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
            Self::Dropped => NO_MEMORY.fmt(f),
            Self::None => Ok(()),
        }
    }
}

impl FieldValue {
    /// Returns the text as it is shown, if the value is a text, or was one that was dropped.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Dropped => Some(NO_MEMORY),
            Self::Number(_) | Self::None => None,
        }
    }

    fn of_text(text: Option<String>, is_dropped: bool) -> Self {
        match text {
            Some(text) => Self::Text(text),
            None if is_dropped => Self::Dropped,
            None => Self::None,
        }
    }
}

impl From<Option<u64>> for FieldValue {
    fn from(number: Option<u64>) -> Self {
        number.map_or(Self::None, Self::Number)
    }
}

impl From<Option<String>> for FieldValue {
    fn from(text: Option<String>) -> Self {
        text.map_or(Self::None, Self::Text)
    }
}

/// The data that accounting keeps per record in addition to its sums.
pub trait Fields: Clone + fmt::Debug + Default + Send + Sync + 'static {
    /// The group of the fields, if they are one of this crate's groups.
    const GROUP: Option<FieldGroup> = None;

    /// Adds a packet of the record, if `asked` has the [group](Self::GROUP) of the fields. Fields
    /// without a group are always added.
    #[inline(always)]
    fn on_packet_of(&mut self, packet: &PacketView<'_>, asked: FieldSet, store: &FieldStore) {
        if Self::GROUP.is_none_or(|group| asked.contains(group)) {
            self.on_packet(packet, store);
        }
    }

    /// Adds a packet of the record. What the fields keep outside of themselves is taken from
    /// `store`.
    fn on_packet(&mut self, packet: &PacketView<'_>, store: &FieldStore);

    /// Appends the columns.
    fn columns(out: &mut Vec<FieldColumn>);

    /// Appends one value per column. `source` is the direction of packets from the source.
    fn values(&self, way: Direction, out: &mut Vec<FieldValue>);
}

impl<A: Fields, B: Fields> Fields for (A, B) {
    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, store: &FieldStore) {
        self.0.on_packet(packet, store);
        self.1.on_packet(packet, store);
    }

    #[inline(always)]
    fn on_packet_of(&mut self, packet: &PacketView<'_>, asked: FieldSet, store: &FieldStore) {
        self.0.on_packet_of(packet, asked, store);
        self.1.on_packet_of(packet, asked, store);
    }

    fn columns(out: &mut Vec<FieldColumn>) {
        A::columns(out);
        B::columns(out);
    }

    fn values(&self, way: Direction, out: &mut Vec<FieldValue>) {
        self.0.values(way, out);
        self.1.values(way, out);
    }
}

/// A record with additional fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Detailed<F> {
    record: Accounted,
    fields: F,
}

impl<F> Detailed<F> {
    /// Returns the record without the fields.
    pub fn record(&self) -> &Accounted {
        &self.record
    }

    /// Returns the fields.
    pub fn fields(&self) -> &F {
        &self.fields
    }
}

impl<F: Fields> FlowState for Detailed<F> {
    const COLUMNS: &'static [Column] = Accounted::COLUMNS_AND_FIELDS;

    fn is_closed(&self) -> bool {
        self.record.is_closed()
    }

    /// The digest of the fields represents them here.
    fn values(&self, out: &mut Vec<Value>) {
        self.record.values(out);
        let mut fields = Vec::new();
        self.fields.values(self.record.source_direction(), &mut fields);
        let mut digest = 0xCBF2_9CE4_8422_2325_u64;
        for byte in fields.iter().flat_map(|value| format!("{value};").into_bytes()) {
            digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
        out.push(Value::Bits(digest));
    }
}

/// [`Accounting`] with optional fields. The fields belong to one record and start anew with the
/// next.
///
/// # Examples
///
/// ```
/// use flowloom_apps::Accounting;
/// use flowloom_apps::accounting::fields::{DetailedAccounting, Handshake, PacketSizes};
/// type Fields = (PacketSizes, Handshake);
/// let app = |_worker: usize| DetailedAccounting::<Fields>::new(Accounting::new(None));
/// # let _ = app(0);
/// ```
#[derive(Debug)]
pub struct DetailedAccounting<F> {
    accounting: Accounting,
    asked: FieldSet,
    store: FieldStore,
    fields: std::marker::PhantomData<fn() -> F>,
}

// Derived implementations would require the same of the fields, which the application does not
// contain.
impl<F> Clone for DetailedAccounting<F> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), ..*self }
    }
}

impl<F> Default for DetailedAccounting<F> {
    fn default() -> Self {
        Self::new(Accounting::default())
    }
}

impl<F> DetailedAccounting<F> {
    /// Returns the application that adds fields to `accounting`.
    #[must_use]
    pub fn new(accounting: Accounting) -> Self {
        let (asked, store) = (FieldSet::ALL, FieldStore::default());
        Self { accounting, asked, store, fields: std::marker::PhantomData }
    }

    /// Keeps only the fields of these groups. The others cost nothing per packet, and stay as in a
    /// record without packets.
    #[must_use]
    pub fn with_groups(self, asked: FieldSet) -> Self {
        Self { asked, ..self }
    }

    /// Takes the memory for text and collected bytes from a limit. By default there is none. Call
    /// it once per worker.
    #[must_use]
    pub fn with_memory(self, memory: &FieldMemory) -> Self {
        Self { store: memory.store(), ..self }
    }
}

impl<F: Fields> App for DetailedAccounting<F> {
    type Flow = Detailed<F>;

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Detailed<F>) -> Verdict {
        flow.fields.on_packet_of(packet, self.asked, &self.store);
        self.accounting.on_packet(packet, &mut flow.record)
    }

    #[inline(always)]
    fn next_record(&self, packet: &PacketView<'_>, flow: &mut Detailed<F>) -> Option<Detailed<F>> {
        let record = self.accounting.next_record(packet, &mut flow.record)?;
        Some(Detailed { record, fields: F::default() })
    }
}

#[cfg(test)]
mod tests;
