//! The encapsulations of packets, and those that were not followed, by name.

use std::collections::BTreeMap;

use flowloom::packet::EncapsulationCounts;
use flowloom::packet::census::Tally;
use schemars::JsonSchema;
use serde::Serialize;

use super::{bytes, counted, grouped};

/// The number of packets, and the first ones.
#[derive(Clone, Debug, JsonSchema, Serialize)]
struct Figures {
    /// Number of these packets.
    packets: u64,
    /// Numbers of the first of them, counted from 1 over all captures.
    first_packets: Vec<u64>,
}

impl Figures {
    /// Adds other packets, and keeps the first of all.
    fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        let most = self.first_packets.len().max(other.first_packets.len());
        self.first_packets.extend(&other.first_packets);
        self.first_packets.sort_unstable();
        self.first_packets.truncate(most);
    }
}

/// One kind of tunnel and one reason.
#[derive(Debug, JsonSchema, Serialize)]
struct NotFollowed {
    /// Name of the tunnel.
    kind: &'static str,
    /// `not_asked` without --decap, or the reason why the contents have no key, as in
    /// `not_tracked`.
    reason: &'static str,
    #[serde(skip)]
    in_words: String,
    #[serde(flatten)]
    figures: Figures,
}

/// An unknown number.
#[derive(Debug, JsonSchema, Serialize)]
struct Unfamiliar {
    /// The number as text, with its name if well known.
    what: String,
    /// The field that contains the number.
    #[schemars(extend("enum" = ["ether_type", "link_control", "snap", "ppp", "mpls", "ip_protocol", "link_type"]))]
    layer: &'static str,
    /// The number; for snap, the organisation and its type.
    number: u64,
    #[serde(flatten)]
    figures: Figures,
}

/// Tunnels directly within tunnels.
#[derive(Debug, JsonSchema, Serialize)]
struct Nested {
    /// The name of the outer tunnel.
    outer: &'static str,
    /// The name of the tunnel within it.
    inner: &'static str,
    #[serde(flatten)]
    figures: Figures,
}

/// The part of the JSON document about encapsulations.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct Encapsulations {
    /// Followed encapsulations, by name: link types other than Ethernet, tags other than those of
    /// IEEE 802.1Q, and with --decap tunnels. A packet counts once for each.
    #[serde(rename = "encapsulations")]
    followed: BTreeMap<&'static str, Figures>,
    /// Tunnels that were not followed, the most frequent first. Without --decap, only `inspect`
    /// counts those behind UDP ports.
    tunnel_not_followed: Vec<NotFollowed>,
    /// Tunnels directly within another one, followed or not, the most frequent first.
    nested: Vec<Nested>,
    /// Unknown numbers at which the decoder stopped, the most frequent first. Packets of an unknown
    /// IP protocol have a key.
    unknown: Vec<Unfamiliar>,
    /// Packets with unknown numbers beyond the listed ones.
    unknown_others: u64,
    /// Packets whose IP length exceeds their frame, which bounds their IP bytes; absent without.
    #[serde(skip_serializing_if = "Option::is_none")]
    ip_beyond_frame: Option<Figures>,
    /// Packets that state more bytes on the wire than a frame of theirs can have. They count up to
    /// the end of the IP packet, or the captured bytes. Absent without.
    #[serde(skip_serializing_if = "Option::is_none")]
    wire_impossible: Option<Figures>,
    /// The bytes that count for these packets; absent without.
    #[serde(skip_serializing_if = "Option::is_none")]
    wire_replaced_bytes: Option<u64>,
}

impl Encapsulations {
    pub(crate) fn new(counts: &EncapsulationCounts) -> Self {
        let figures =
            |tally: &Tally| Figures { packets: tally.packets, first_packets: tally.first_packets.clone() };
        let mut unknown: Vec<Unfamiliar> = counts
            .unknown()
            .map(|(unknown, tally)| {
                let (layer, number) = unknown.layer_and_number();
                Unfamiliar { what: unknown.to_string(), layer, number, figures: figures(tally) }
            })
            .collect();
        unknown.sort_by_key(|entry| std::cmp::Reverse(entry.figures.packets));
        let mut tunnel_not_followed: Vec<NotFollowed> = counts
            .tunnel_not_followed()
            .map(|(kind, reason, tally)| NotFollowed {
                kind,
                reason: reason.name(),
                in_words: reason.to_string(),
                figures: figures(tally),
            })
            .collect();
        let mut nested: Vec<Nested> = counts
            .nested()
            .map(|([outer, inner], tally)| Nested { outer, inner, figures: figures(tally) })
            .collect();
        nested.sort_by_key(|entry| std::cmp::Reverse(entry.figures.packets));
        let some = |tally: &Tally| (tally.packets > 0).then(|| figures(tally));
        tunnel_not_followed.sort_by_key(|entry| std::cmp::Reverse(entry.figures.packets));
        Self {
            followed: counts.followed().map(|(name, tally)| (name, figures(tally))).collect(),
            tunnel_not_followed,
            nested,
            unknown,
            unknown_others: counts.other_unknown(),
            ip_beyond_frame: some(counts.ip_beyond_frame()),
            wire_impossible: some(counts.wire_impossible()),
            wire_replaced_bytes: Some(counts.wire_replaced_bytes()).filter(|bytes| *bytes > 0),
        }
    }

    /// Returns summary lines. `uncounted` names tunnels that are not counted, and `list` what lists
    /// all counts.
    pub(crate) fn summary(&self, uncounted: &str, list: &str) -> Vec<String> {
        let unasked: u64 = packets_with(&self.tunnel_not_followed, |reason| reason == "not_asked");
        let others: u64 = packets_with(&self.tunnel_not_followed, |reason| reason != "not_asked");
        let mut parts = Vec::new();
        if unasked > 0 {
            let mut kinds: Vec<&str> = (self.tunnel_not_followed.iter())
                .filter(|entry| entry.reason == "not_asked")
                .map(|entry| entry.kind)
                .collect();
            let more = kinds.split_off(kinds.len().min(4)).len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let kinds = kinds.join(", ") + &more;
            parts.push(format!(
                "{} in tunnels ({kinds}{uncounted}; --decap follows them)",
                counted(unasked, "packet")
            ));
        }
        if others > 0 {
            parts
                .push(format!("{} in tunnels that cannot be followed ({list})", counted(others, "packet")));
        }
        let tunnels = (!parts.is_empty()).then(|| format!("Tunnels     {}", parts.join("   ")));
        tunnels.into_iter().chain(self.length_lines()).collect()
    }

    /// Returns the names of encapsulations that were followed, with their numbers of packets.
    pub(crate) fn followed_names(&self) -> String {
        let names =
            self.followed.iter().map(|(name, figures)| format!("{name} {}", grouped(figures.packets)));
        names.collect::<Vec<_>>().join(", ")
    }

    /// Returns lines about impossible lengths.
    pub(crate) fn length_lines(&self) -> impl Iterator<Item = String> {
        let replaced = format!(
            "implausible length on the wire, so that of the IP packet or the captured one counts, together {}",
            bytes(self.wire_replaced_bytes.unwrap_or_default())
        );
        let beyond = String::from("IP length beyond the frame, so the frame length is used");
        [(beyond, &self.ip_beyond_frame), (replaced, &self.wire_impossible)].into_iter().filter_map(
            |(what, figures)| {
                let Figures { packets, first_packets } = figures.as_ref()?;
                let first = first_packets.first().copied().unwrap_or_default();
                Some(format!("Noted       {what}: {}   first: packet {first}", counted(*packets, "packet")))
            },
        )
    }

    /// Returns all counts, one per line.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |name: &str, figures: &Figures| {
            let first: Vec<String> = figures.first_packets.iter().map(ToString::to_string).collect();
            format!(
                "            {name:<54} {:>10}   first: packet {}",
                grouped(figures.packets),
                first.join(", ")
            )
        };
        let mut lines = Vec::new();
        let mut section = |title: &str, entries: Vec<String>| {
            if !entries.is_empty() {
                lines.push(title.to_owned());
                lines.extend(entries);
            }
        };
        section("Followed", self.followed.iter().map(|(name, figures)| line(name, figures)).collect());
        // Several reasons may have the same words.
        let mut not_followed: Vec<(String, Figures)> = Vec::new();
        for entry in &self.tunnel_not_followed {
            let name = format!("{}: {}", entry.kind, entry.in_words);
            match not_followed.iter_mut().find(|(other, _)| *other == name) {
                Some((_, figures)) => figures.add(&entry.figures),
                None => not_followed.push((name, entry.figures.clone())),
            }
        }
        section("Not followed", not_followed.iter().map(|(name, figures)| line(name, figures)).collect());
        let nested = |entry: &Nested| format!("{} in {}", entry.inner, entry.outer);
        section("Nested", self.nested.iter().map(|entry| line(&nested(entry), &entry.figures)).collect());
        section("Unknown", self.unknown.iter().map(|entry| line(&entry.what, &entry.figures)).collect());
        if self.unknown_others > 0 {
            lines.push(format!("            other numbers: {}", counted(self.unknown_others, "packet")));
        }
        lines.extend(self.length_lines());
        lines
    }
}

fn packets_with(entries: &[NotFollowed], reason: impl Fn(&str) -> bool) -> u64 {
    entries.iter().filter(|entry| reason(entry.reason)).map(|entry| entry.figures.packets).sum()
}
