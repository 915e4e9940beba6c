//! Information elements of IPFIX, with IANA's numbers and names.

use flowloom_flow_key::IpFamily;

/// The abstract data type of an element [RFC 7011 §6.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of RFC 7011")]
pub enum ElementType {
    Unsigned8,
    Unsigned16,
    Unsigned32,
    Unsigned64,
    Address,
    Milliseconds,
    Microseconds,
    Nanoseconds,
    String,
}

/// An information element that holds the value of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Element {
    /// The number, in IANA's registry or, of a reverse element, in enterprise 29305 [RFC 5103
    /// §6.1].
    pub number: u16,
    /// The name.
    pub name: &'static str,
    /// How it is encoded.
    pub data_type: ElementType,
    /// Whether it is of the direction from the destination to the source.
    pub is_reverse: bool,
    /// The address family of the flows that have it, if only one has.
    pub family: Option<IpFamily>,
}

const fn new(number: u16, name: &'static str, data_type: ElementType) -> Element {
    Element { number, name, data_type, is_reverse: false, family: None }
}

const fn reverse(number: u16, name: &'static str, data_type: ElementType) -> Element {
    Element { is_reverse: true, ..new(number, name, data_type) }
}

const fn of_family(family: IpFamily, element: Element) -> Element {
    Element { family: Some(family), ..element }
}

use ElementType::{
    Address, Microseconds, Milliseconds, Nanoseconds, String, Unsigned8, Unsigned16, Unsigned32, Unsigned64,
};
use IpFamily::{V4, V6};

macro_rules! elements {
    ($($(#[$doc:meta])* $name:ident = $($element:expr),+;)*) => {
        $($(#[$doc])* pub const $name: &[Element] = &[$($element),+];)*
    };
}

elements! {
    /// The address of the source.
    SOURCE = of_family(V4, new(8, "sourceIPv4Address", Address)), of_family(V6, new(27, "sourceIPv6Address", Address));
    /// The address of the destination.
    DESTINATION = of_family(V4, new(12, "destinationIPv4Address", Address)), of_family(V6, new(28, "destinationIPv6Address", Address));
    /// The port of the source.
    SOURCE_PORT = new(7, "sourceTransportPort", Unsigned16);
    /// The port of the destination.
    DESTINATION_PORT = new(11, "destinationTransportPort", Unsigned16);
    /// The IP protocol.
    PROTOCOL = new(4, "protocolIdentifier", Unsigned8);
    /// The time of the first packet.
    START = new(156, "flowStartNanoseconds", Nanoseconds), new(154, "flowStartMicroseconds", Microseconds), new(152, "flowStartMilliseconds", Milliseconds);
    /// The time of the last packet.
    END = new(157, "flowEndNanoseconds", Nanoseconds), new(155, "flowEndMicroseconds", Microseconds), new(153, "flowEndMilliseconds", Milliseconds);
    /// Packets from the source.
    PACKETS = new(2, "packetDeltaCount", Unsigned64);
    /// Their bytes on the wire.
    BYTES = new(352, "layer2OctetDeltaCount", Unsigned64);
    /// Their bytes from the IP header on.
    IP_BYTES = new(1, "octetDeltaCount", Unsigned64);
    /// Packets from the destination.
    REVERSE_PACKETS = reverse(2, "reversePacketDeltaCount", Unsigned64);
    /// Their bytes on the wire.
    REVERSE_BYTES = reverse(352, "reverseLayer2OctetDeltaCount", Unsigned64);
    /// Their bytes from the IP header on.
    REVERSE_IP_BYTES = reverse(1, "reverseOctetDeltaCount", Unsigned64);
    /// Packets that were dropped.
    DROPPED_PACKETS = new(133, "droppedPacketDeltaCount", Unsigned64);
    /// The union of the TCP flags from the source.
    TCP_FLAGS = new(6, "tcpControlBits", Unsigned16);
    /// The union of the TCP flags from the destination.
    REVERSE_TCP_FLAGS = reverse(6, "reverseTcpControlBits", Unsigned16);
    /// Type × 256 + code of a message. Two columns share it, the type first.
    ICMP = of_family(V4, new(32, "icmpTypeCodeIPv4", Unsigned16)), of_family(V6, new(139, "icmpTypeCodeIPv6", Unsigned16));
    /// The id of the only VLAN or of the outer one.
    VLAN = new(58, "vlanId", Unsigned16), new(243, "dot1qVlanId", Unsigned16);
    /// The id of the inner VLAN.
    CUSTOMER_VLAN = new(245, "dot1qCustomerVlanId", Unsigned16);
    /// What separates flows with equal addresses and ports.
    ZONE = new(234, "ingressVRFID", Unsigned32);
    /// The security parameters index of ESP.
    SPI = new(295, "IPSecSPI", Unsigned32);
    /// Whether the source is the initiator.
    DIRECTION = new(239, "biflowDirection", Unsigned8);
    /// Why the record ended.
    END_REASON = new(136, "flowEndReason", Unsigned8);
    /// The name of the application protocol.
    APPLICATION = new(96, "applicationName", String);
    /// Whether packets were forwarded or dropped.
    FORWARDING = new(89, "forwardingStatus", Unsigned8);
    /// The smallest IP packet from the source.
    SIZE_MIN = new(25, "minimumIpTotalLength", Unsigned64);
    /// The largest IP packet from the source.
    SIZE_MAX = new(26, "maximumIpTotalLength", Unsigned64);
    /// The smallest IP packet from the destination.
    REVERSE_SIZE_MIN = reverse(25, "reverseMinimumIpTotalLength", Unsigned64);
    /// The largest IP packet from the destination.
    REVERSE_SIZE_MAX = reverse(26, "reverseMaximumIpTotalLength", Unsigned64);
    /// The method of a request of HTTP.
    HTTP_METHOD = new(459, "httpRequestMethod", String);
    /// The host of a request of HTTP.
    HTTP_HOST = new(460, "httpRequestHost", String);
    /// The target of a request of HTTP.
    HTTP_TARGET = new(461, "httpRequestTarget", String);
    /// The user agent of a request of HTTP.
    HTTP_USER_AGENT = new(468, "httpUserAgent", String);
    /// The status code of a response of HTTP.
    HTTP_STATUS = new(457, "httpStatusCode", Unsigned16);
}
