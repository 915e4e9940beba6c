//! VLAN tag types and tunnel ports of one network, added to the tables by options.

use super::table::{self, Announced, Encapsulation};

/// Maximum number of entries of each kind.
const ENTRIES_MAX: usize = 16;
/// The first Ethertype. Smaller numbers are lengths.
const ETHER_TYPE_MIN: u16 = 0x0600;

/// Tag types and tunnel ports in addition to those of the [table](super::table).
///
/// # Examples
///
/// ```
/// use flowloom_packet::decode::CustomEncapsulations;
/// use flowloom_packet::{DecodeOptions, LinkType, decode};
///
/// let mut custom = CustomEncapsulations::new();
/// custom.add_tag_type(0x9901)?;
/// custom.add_tunnel("vxlan", 8473)?;
/// // Options are copied for each packet, so they refer to what lives as long as the process.
/// let options = DecodeOptions::new().with_custom(Box::leak(Box::new(custom)));
/// assert!(options.custom.is_some_and(|custom| custom.tag_types() == [0x9901]));
/// # Ok::<(), flowloom_packet::decode::CustomError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CustomEncapsulations {
    tag_types: Vec<u16>,
    /// Pairs of an index into [`table::UDP`] and a port.
    tunnels: Vec<(usize, u16)>,
}

/// The reason why an encapsulation cannot be added.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CustomError {
    /// The tag type is in the range of frame lengths.
    Length(u16),
    /// The tag type announces another protocol.
    Taken(u16, &'static str),
    /// No tunnel over UDP has this name.
    UnknownTunnel(String),
    /// The port is 0.
    NoPort,
    /// The list is full.
    TooMany,
}

impl CustomEncapsulations {
    /// Returns an empty list.
    #[must_use]
    pub const fn new() -> Self {
        Self { tag_types: Vec::new(), tunnels: Vec::new() }
    }

    /// Adds an Ethertype that announces a VLAN tag.
    ///
    /// # Errors
    ///
    /// Returns an error if the number is a length or announces another protocol, or the list is
    /// full.
    pub fn add_tag_type(&mut self, ether_type: u16) -> Result<(), CustomError> {
        if ether_type < ETHER_TYPE_MIN {
            return Err(CustomError::Length(ether_type));
        }
        match (ether_type, table::of_ether_type(ether_type)) {
            (0x0800, _) => return Err(CustomError::Taken(ether_type, "ipv4")),
            (0x86DD, _) => return Err(CustomError::Taken(ether_type, "ipv6")),
            (_, Some(entry)) if entry.name != "vlan" => {
                return Err(CustomError::Taken(ether_type, entry.name));
            }
            _ => {}
        }
        add(&mut self.tag_types, ether_type)
    }

    /// Adds a UDP port of the tunnel with this name in the table.
    ///
    /// # Errors
    ///
    /// Returns an error if no tunnel has the name, the port is 0, or the list is full.
    pub fn add_tunnel(&mut self, name: &str, port: u16) -> Result<(), CustomError> {
        let Some(index) = table::UDP.iter().position(|entry| entry.name == name) else {
            return Err(CustomError::UnknownTunnel(name.to_owned()));
        };
        if port == 0 {
            return Err(CustomError::NoPort);
        }
        add(&mut self.tunnels, (index, port))
    }

    /// Returns the Ethertypes that announce a VLAN tag.
    pub fn tag_types(&self) -> &[u16] {
        &self.tag_types
    }

    /// Returns the tunnels, each with a port.
    pub fn tunnels(&self) -> impl Iterator<Item = (&'static Encapsulation, u16)> + '_ {
        self.tunnels.iter().map(|&(index, port)| (&table::UDP[index], port))
    }

    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.tag_types.is_empty() && self.tunnels.is_empty()
    }

    /// Returns the tunnel of a pair of ports.
    pub(super) fn tunnel_of(&self, source: u16, destination: u16) -> Option<&'static Encapsulation> {
        self.tunnels().find_map(|(entry, port)| {
            let either = matches!(entry.announced, Announced::UdpEither(_));
            (port == destination || either && port == source).then_some(entry)
        })
    }
}

/// Adds an entry unless the list has it.
fn add<T: PartialEq>(entries: &mut Vec<T>, entry: T) -> Result<(), CustomError> {
    if entries.contains(&entry) {
        return Ok(());
    }
    if entries.len() == ENTRIES_MAX {
        return Err(CustomError::TooMany);
    }
    entries.push(entry);
    Ok(())
}

impl std::error::Error for CustomError {}

impl std::fmt::Display for CustomError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Length(number) => {
                write!(f, "invalid tag type {number:#06x}: below 0x0600 it is the length of a frame")
            }
            Self::Taken(number, name) => {
                write!(f, "invalid tag type {number:#06x}: it announces {name}; choose another number")
            }
            Self::UnknownTunnel(name) => {
                let known: Vec<&str> = table::UDP.iter().map(|entry| entry.name).collect();
                write!(f, "unknown tunnel '{name}': must be one of {}", known.join(", "))
            }
            Self::NoPort => f.write_str("invalid tunnel port 0: must be from 1 to 65535"),
            Self::TooMany => {
                write!(
                    f,
                    "too many tag types or tunnel ports: at most {ENTRIES_MAX} of each; leave some out"
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ethernet, ipv4, on, ports, query, tag, udp};
    use super::*;
    use crate::decode::{DecodeOptions, decode};
    use crate::drop_reason::DropReason;
    use crate::link::LinkType;

    #[test]
    fn added_tags_and_ports_are_followed() {
        let mut custom = CustomEncapsulations::new();
        custom.add_tag_type(0x9901).unwrap();
        custom.add_tunnel("vxlan", 8473).unwrap();
        custom.add_tunnel("l2tp", 1702).unwrap();
        let options = DecodeOptions::new().with_decap(true).with_custom(Box::leak(Box::new(custom)));
        let tagged = ethernet(0x9901, &tag(5, 0x0800, &query()));
        assert_eq!(ports(decode(LinkType::ETHERNET, &tagged, options)), QUERY);
        let without = decode(LinkType::ETHERNET, &tagged, DecodeOptions::new());
        assert_eq!(without, Err(DropReason::NotIp));
        let vxlan = on(&[8, 0, 0, 0, 0, 0, 1, 0], &ethernet(0x0800, &query()));
        let read = |source, destination, bytes: &[u8], options| {
            ports(decode(LinkType::RAW, &ipv4(17, &udp(source, destination, bytes)), options))
        };
        assert_eq!(read(40_000, 8473, &vxlan, options), QUERY);
        assert_eq!(read(8473, 40_000, &vxlan, options), Ok((8473, 40_000)), "only to the port");
        assert_eq!(read(40_000, 4789, &vxlan, options), QUERY, "the table's port stays");
        let l2tp = on(&[0, 2, 0, 5, 0, 6, 0xFF, 3, 0, 0x21], &query());
        assert_eq!(read(1702, 40_000, &l2tp, options), QUERY, "either port");
        let decap = DecodeOptions::new().with_decap(true);
        assert_eq!(read(40_000, 8473, &vxlan, decap), Ok((40_000, 8473)), "not added");
    }

    #[test]
    fn refused_encapsulation_has_a_reason() {
        let mut custom = CustomEncapsulations::new();
        let text = |result: Result<(), CustomError>| result.unwrap_err().to_string();
        assert!(text(custom.add_tag_type(1500)).contains("0x05dc: below 0x0600"));
        assert!(text(custom.add_tag_type(0x0800)).contains("announces ipv4"));
        assert!(text(custom.add_tag_type(0x88E5)).contains("announces macsec"));
        assert!(text(custom.add_tunnel("vlxan", 1)).contains("one of vxlan, vxlan_gpe"));
        assert!(text(custom.add_tunnel("vxlan", 0)).contains("port 0"));
        assert_eq!(custom.add_tag_type(0x8100), Ok(()), "it is a tag already");
        for number in 0..15 {
            custom.add_tag_type(0xA000 + number).unwrap();
        }
        assert_eq!(custom.add_tag_type(0xA000), Ok(()), "twice is once");
        assert_eq!(custom.add_tag_type(0xB000), Err(CustomError::TooMany));
    }
}
