//! The columns of formats whose columns are fixed.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use flowloom_record::{Row, Schema, Value};

/// Columns that a format needs, and records do not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingColumns {
    names: Vec<&'static str>,
}

impl fmt::Display for MissingColumns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the records have no {}", self.names.join(", "))
    }
}

impl std::error::Error for MissingColumns {}

macro_rules! flow {
    ($($field:ident: $type:ty = $name:literal $read:ident,)*) => {
        /// The positions of the columns in a schema.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct FlowColumns {
            $($field: usize,)*
        }

        /// What these formats show of a record.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Flow {
            $(pub(crate) $field: $type,)*
        }

        impl FlowColumns {
            /// Returns the positions.
            pub(crate) fn in_schema(schema: &Schema) -> Result<Self, MissingColumns> {
                let mut names = Vec::new();
                let mut index = |name| {
                    let found = schema.named(name).map(|found| found.index);
                    found.unwrap_or_else(|| {
                        names.push(name);
                        0
                    })
                };
                let columns = Self { $($field: index($name),)* };
                if names.is_empty() { Ok(columns) } else { Err(MissingColumns { names }) }
            }

            /// Reads a record.
            #[inline]
            pub(crate) fn read(&self, row: &Row) -> Flow {
                Flow { $($field: $read(row.value(self.$field)),)* }
            }
        }
    };
}

flow! {
    source: IpAddr = "source" address,
    destination: IpAddr = "destination" address,
    source_port: u16 = "source_port" number,
    destination_port: u16 = "destination_port" number,
    protocol: u8 = "protocol" number,
    start_ns: u64 = "start" number,
    end_ns: u64 = "end" number,
    packets: u64 = "packets" number,
    bytes: u64 = "bytes" number,
    ip_bytes: u64 = "ip_bytes" number,
    reverse_packets: u64 = "reverse_packets" number,
    reverse_bytes: u64 = "reverse_bytes" number,
    reverse_ip_bytes: u64 = "reverse_ip_bytes" number,
    tcp_flags: u16 = "tcp_flags" number,
    reverse_tcp_flags: u16 = "reverse_tcp_flags" number,
    icmp_type: Option<u8> = "icmp_type" optional,
    icmp_code: Option<u8> = "icmp_code" optional,
    vlan: Option<u16> = "vlan" optional,
    customer_vlan: Option<u16> = "customer_vlan" optional,
    direction: &'static str = "direction" word,
    end_reason: &'static str = "end_reason" word,
    spi: Option<u32> = "spi" optional,
    open_fin: &'static str = "open_fin" word,
}

impl Flow {
    /// Returns type and code of the first ICMP message.
    pub(crate) fn icmp(&self) -> Option<[u8; 2]> {
        Some([self.icmp_type?, self.icmp_code?])
    }

    /// Returns the record with its two ends exchanged.
    pub(crate) fn reversed(self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            packets: self.reverse_packets,
            bytes: self.reverse_bytes,
            ip_bytes: self.reverse_ip_bytes,
            reverse_packets: self.packets,
            reverse_bytes: self.bytes,
            reverse_ip_bytes: self.ip_bytes,
            tcp_flags: self.reverse_tcp_flags,
            reverse_tcp_flags: self.tcp_flags,
            open_fin: match self.open_fin {
                "source" => "destination",
                "destination" => "source",
                other => other,
            },
            ..self
        }
    }
}

fn address(value: &Value) -> IpAddr {
    value.address().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
}

fn optional<T: TryFrom<u64>>(value: &Value) -> Option<T> {
    value.number().and_then(|number| T::try_from(number).ok())
}

fn number<T: TryFrom<u64> + Default>(value: &Value) -> T {
    optional(value).unwrap_or_default()
}

fn word(value: &Value) -> &'static str {
    if let Value::Word(word) = value { word } else { "" }
}
