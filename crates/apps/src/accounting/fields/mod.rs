//! Optional fields of records. Each is a type, and costs nothing in a program that does not use it.
//!
//! | fields | content |
//! | --- | --- |
//! | [`PacketSizes`] | minimum, mean, maximum and deviation of packet sizes, by direction |
//! | [`PacketGaps`] | the same for the times between packets |
//! | [`FirstPackets`] | sizes and directions of the first packets |
//! | [`VlanTags`] | VLAN tags, by direction |
//! | [`FileName`] | the capture of the first packet |
//! | [`Features`] | the columns of `cicflowmeter` and `NFStream` |
//! | [`Handshake`] | round-trip times of the handshake of TCP |
//! | [`TcpTrouble`] | retransmissions, out-of-order segments, probes, closed windows and duplicate acknowledgements, by direction |
//! | [`PayloadRtt`] | times from data of TCP to its acknowledgement, by direction |
//! | [`Conn`] | state, history and payload bytes in Zeek's terms |
//! | [`Tls`] | server name, ALPN and fingerprint of the client, version of the server |
//! | [`Dns`] | questions and answers, and the code of the first response |
//! | [`Http`] | first request and first status code of HTTP/1 |
//! | [`Quic`] | version, and server name, ALPN and fingerprint of the client |
//! | [`Ssh`] | software of both ends |
//!
//! A pair of fields is itself a field type, so all of them combine:
//! `(PacketSizes, (PacketGaps, Handshake))`. [`AllFields`] combines all of them, and a [`GroupSet`]
//! selects groups at run time.
//!
//! The fields from [`Tls`] on read payload with the readers of [`application`]: the first bytes of
//! each direction, at most 4 KiB, while up to as many out-of-order bytes wait. A decided direction
//! keeps only its values. A [`FieldMemory`] limits the memory of both in a run; fields whose bytes
//! or values were dropped are [`Value::Dropped`].

pub mod application;
mod conn;
mod dns;
mod features;
mod file_name;
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
mod vlan_tags;

use std::fmt;

use flowloom_engine::{App, FlowState, Verdict};
use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;
use flowloom_record::{Column, Group, GroupSet, Value};

use super::{Accounted, Accounting};

pub use conn::Conn;
pub use dns::Dns;
pub use features::{DIALECTS, Features, dialect};
pub use file_name::FileName;
pub use first_packets::FirstPackets;
pub use group::{AllFields, ApplicationFields, all_columns};
pub use handshake::Handshake;
pub use http::Http;
pub use memory::{FieldMemory, FieldStore};
pub use packet_gaps::PacketGaps;
pub use packet_sizes::PacketSizes;
pub use payload_rtt::PayloadRtt;
pub use quic::Quic;
pub use ssh::Ssh;
pub use tcp_trouble::TcpTrouble;
pub use tls::Tls;
pub use vlan_tags::VlanTags;

/// The data that accounting keeps per record in addition to its sums.
pub trait Fields: Clone + fmt::Debug + Default + Send + Sync + 'static {
    /// The columns, which are all of one group.
    const COLUMNS: &'static [Column];

    /// Adds a packet of the record. What the fields keep outside of themselves is taken from
    /// `store`.
    fn on_packet(&mut self, packet: &PacketView<'_>, store: &FieldStore);

    /// Returns whether the record ends before this packet, because the fields are of something that
    /// is over.
    #[inline(always)]
    fn ends_before(&self, _packet: &PacketView<'_>) -> bool {
        false
    }

    /// Appends one value per column. `way` is the direction of packets from the source.
    fn values(&self, way: Direction, out: &mut Vec<Value>);

    /// Adds a packet of the record, if the group of the fields was requested or is [`Group::Own`].
    #[inline(always)]
    fn on_packet_of(&mut self, packet: &PacketView<'_>, asked: GroupSet, store: &FieldStore) {
        if is_asked(Self::COLUMNS, asked) {
            self.on_packet(packet, store);
        }
    }

    /// Appends one value per column. They are missing if the group of the fields was not requested.
    fn values_of(&self, way: Direction, asked: GroupSet, out: &mut Vec<Value>) {
        if is_asked(Self::COLUMNS, asked) {
            self.values(way, out);
        } else {
            out.extend(Self::COLUMNS.iter().map(|_| Value::None));
        }
    }

    /// Appends the columns.
    fn columns(out: &mut Vec<Column>) {
        out.extend(Self::COLUMNS);
    }
}

#[inline(always)]
const fn is_asked(columns: &[Column], asked: GroupSet) -> bool {
    match columns {
        [first, ..] => matches!(first.group, Group::Own) || asked.contains(first.group),
        [] => true,
    }
}

impl<A: Fields, B: Fields> Fields for (A, B) {
    const COLUMNS: &'static [Column] = &[];

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, store: &FieldStore) {
        self.0.on_packet(packet, store);
        self.1.on_packet(packet, store);
    }

    #[inline(always)]
    fn on_packet_of(&mut self, packet: &PacketView<'_>, asked: GroupSet, store: &FieldStore) {
        self.0.on_packet_of(packet, asked, store);
        self.1.on_packet_of(packet, asked, store);
    }

    #[inline(always)]
    fn ends_before(&self, packet: &PacketView<'_>) -> bool {
        self.0.ends_before(packet) || self.1.ends_before(packet)
    }

    fn values(&self, way: Direction, out: &mut Vec<Value>) {
        self.0.values(way, out);
        self.1.values(way, out);
    }

    fn values_of(&self, way: Direction, asked: GroupSet, out: &mut Vec<Value>) {
        self.0.values_of(way, asked, out);
        self.1.values_of(way, asked, out);
    }

    fn columns(out: &mut Vec<Column>) {
        A::columns(out);
        B::columns(out);
    }
}

/// Returns the digest that represents fields in the digest of a run.
pub(crate) fn digest(fields: &[Value]) -> Value {
    let mix = |digest: u64, word: u64| (digest ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let bytes = |digest: u64, bytes: &[u8]| {
        let words =
            bytes.chunks(8).map(|part| part.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)));
        words.fold(mix(digest, bytes.len() as u64), mix)
    };
    Value::Bits(fields.iter().fold(0, |digest, value| match value {
        Value::None => mix(digest, 1),
        Value::Number(number) | Value::Bits(number) | Value::Real(number) => mix(mix(digest, 2), *number),
        Value::Word(text) => bytes(mix(digest, 3), text.as_bytes()),
        Value::Text(text) => bytes(mix(digest, 3), text.as_bytes()),
        other => bytes(mix(digest, 4), other.to_string().as_bytes()),
    }))
}

/// Returns whether one TCP sequence number lies before another [RFC 9293 §3.4].
fn is_before(one: u32, other: u32) -> bool {
    one != other && other.wrapping_sub(one) < 1 << 31
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
        out.push(digest(&fields));
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
    asked: GroupSet,
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
        let (asked, store) = (GroupSet::ALL, FieldStore::default());
        Self { accounting, asked, store, fields: std::marker::PhantomData }
    }

    /// Keeps only the fields of these groups. The others cost nothing per packet, and stay as in a
    /// record without packets.
    #[must_use]
    pub fn with_groups(self, asked: GroupSet) -> Self {
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
        // An error about a flow has another protocol than the flow.
        if !packet.headers.is_error_of_flow {
            flow.fields.on_packet_of(packet, self.asked, &self.store);
        }
        self.accounting.on_packet(packet, &mut flow.record)
    }

    #[inline(always)]
    fn next_record(&self, packet: &PacketView<'_>, flow: &mut Detailed<F>) -> Option<Detailed<F>> {
        let ended = self.accounting.next_record(packet, &mut flow.record);
        let record =
            ended.or_else(|| flow.fields.ends_before(packet).then(|| flow.record.end_connection()))?;
        Some(Detailed { record, fields: F::default() })
    }
}

#[cfg(test)]
mod tests;
