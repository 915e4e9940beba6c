//! Counts as lines of text, for files that later runs read.
//!
//! ```text
//! followed vxlan 12 1,2,3,9        name, packets, first packet numbers
//! left gre not_asked 3 4,5,6       name, reason, …
//! nested gre gre 3 4,5,6           outer name, inner name, …
//! unknown ether_type 2054 7 1,8    layer, number, …
//! no_key not_ip 9 1,8              reason, …
//! others 5
//! ip_beyond_frame 2 7,8           packets, first packet numbers
//! wire_impossible 1 9
//! wire_replaced 1514             bytes that count for those
//! ```

use super::{EncapsulationCounts, FIRST_PACKETS_MAX, NotFollowed, Tally, UNKNOWN_MAX};
use crate::decode::{Unknown, table};
use crate::drop_reason::DropReason;

impl EncapsulationCounts {
    /// Returns the counts as lines of text.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_packet::census::Census;
    /// use flowloom_packet::{DecodeOptions, EncapsulationCounts, LinkType};
    ///
    /// let mut census = Census::default();
    /// let arp = [&[0; 12][..], &[0x08, 0x06]].concat();
    /// let _ = census.decode(1, LinkType::ETHERNET, &arp, &DecodeOptions::new());
    /// let lines = census.counts().to_lines();
    /// assert_eq!(lines, ["unknown ether_type 2054 1 1", "no_key not_ip 1 1"]);
    /// assert_eq!(EncapsulationCounts::from_lines(&lines).as_ref(), Some(census.counts()));
    /// ```
    pub fn to_lines(&self) -> Vec<String> {
        let followed = self.followed.iter().map(|(name, tally)| format!("followed {name} {tally}"));
        let left = self
            .not_followed
            .iter()
            .map(|((name, reason), tally)| format!("left {name} {} {tally}", reason.name()));
        let nested = self.nested.iter();
        let nested = nested.map(|((outer, inner), tally)| format!("nested {outer} {inner} {tally}"));
        let unknown = self.unknown.iter().map(|(unknown, tally)| {
            let (layer, number) = unknown.layer_and_number();
            format!("unknown {layer} {number} {tally}")
        });
        let no_key = self.no_key.iter().map(|(reason, tally)| format!("no_key {reason} {tally}"));
        let others = (self.other_unknown > 0).then(|| format!("others {}", self.other_unknown));
        let lengths =
            [("ip_beyond_frame", &self.ip_beyond_frame), ("wire_impossible", &self.wire_impossible)];
        let lengths = lengths.into_iter().filter(|(_, tally)| tally.packets > 0);
        let lengths = lengths.map(|(name, tally)| format!("{name} {tally}"));
        let replaced = (self.wire_replaced > 0).then(|| format!("wire_replaced {}", self.wire_replaced));
        let tunnels = followed.chain(left).chain(nested);
        tunnels.chain(unknown).chain(no_key).chain(others).chain(lengths).chain(replaced).collect()
    }

    /// Reads counts from lines of text. Returns `None` if a line is not in the format of
    /// [`to_lines`](Self::to_lines).
    pub fn from_lines(lines: &[String]) -> Option<Self> {
        let mut counts = Self::default();
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["followed", name, packets, first] => {
                    counts.followed.insert(header_name(name)?, tally(packets, first)?);
                }
                ["left", name, reason, packets, first] => {
                    let reason = match reason {
                        "not_asked" => NotFollowed::NotAsked,
                        reason => NotFollowed::Inner(reason_of(reason)?),
                    };
                    counts.not_followed.insert((header_name(name)?, reason), tally(packets, first)?);
                }
                ["nested", outer, inner, packets, first] => {
                    let pair = (header_name(outer)?, header_name(inner)?);
                    counts.nested.insert(pair, tally(packets, first)?);
                }
                ["unknown", layer, number, packets, first] if counts.unknown.len() < UNKNOWN_MAX => {
                    let unknown = Unknown::of_layer(layer, number.parse().ok()?)?;
                    counts.unknown.insert(unknown, tally(packets, first)?);
                }
                ["no_key", reason, packets, first] => {
                    counts.no_key.insert(reason_of(reason)?, tally(packets, first)?);
                }
                ["ip_beyond_frame", packets, first] => counts.ip_beyond_frame = tally(packets, first)?,
                ["wire_impossible", packets, first] => counts.wire_impossible = tally(packets, first)?,
                ["wire_replaced", bytes] => counts.wire_replaced = bytes.parse().ok()?,
                ["others", packets] => counts.other_unknown = packets.parse().ok()?,
                _ => return None,
            }
        }
        Some(counts)
    }
}

fn header_name(name: &str) -> Option<&'static str> {
    table::all().map(|entry| entry.name).find(|known| *known == name)
}

fn reason_of(name: &str) -> Option<DropReason> {
    DropReason::ALL.iter().copied().find(|reason| reason.name() == name)
}

fn tally(packets: &str, first: &str) -> Option<Tally> {
    let first_packets: Option<Vec<u64>> = first.split(',').map(|number| number.parse().ok()).collect();
    let first_packets = first_packets.filter(|first| first.len() <= FIRST_PACKETS_MAX)?;
    Some(Tally { packets: packets.parse().ok()?, first_packets })
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let first: Vec<String> = self.first_packets.iter().map(ToString::to_string).collect();
        write!(f, "{} {}", self.packets, first.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::LinkType;

    #[test]
    fn saved_counts_read_back_as_written() {
        let mut counts = EncapsulationCounts::default();
        let tally = |packets| Tally { packets, first_packets: vec![1, packets] };
        counts.followed.insert("vxlan", tally(2));
        counts.not_followed.insert(("gre", NotFollowed::NotAsked), tally(3));
        counts.nested.insert(("gre", "vxlan"), tally(2));
        counts.not_followed.insert(("esp", NotFollowed::Inner(DropReason::Encrypted)), tally(4));
        for unknown in [
            Unknown::EtherType(0x88CC),
            Unknown::LinkControl(0x4242),
            Unknown::Snap { organisation: [0, 0, 0x0C], kind: 0x2000 },
            Unknown::Ppp(0xC021),
            Unknown::UnderLabels(7),
            Unknown::IpProtocol(89),
            Unknown::Link(LinkType(147)),
        ] {
            counts.unknown.insert(unknown, tally(5));
        }
        counts.no_key.insert(DropReason::NotIp, tally(6));
        counts.other_unknown = 7;
        (counts.wire_impossible, counts.wire_replaced) = (tally(3), 900);
        assert_eq!(EncapsulationCounts::from_lines(&counts.to_lines()), Some(counts));
    }

    #[test]
    fn other_lines_are_refused() {
        for line in [
            "", "followed", "followed nothing 1 1", "followed vxlan x 1", "followed vxlan 1 ",
            "followed vxlan 5 1,2,3,4,5", "left gre because 1 1", "unknown ether_type 65536 1 1",
            "unknown weather 1 1 1", "no_key because 1 1", "others -1", "others 1 1",
        ] {
            assert_eq!(EncapsulationCounts::from_lines(&[line.to_owned()]), None, "{line}");
        }
    }
}
