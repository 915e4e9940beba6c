//! The encapsulations of packets, and those that were not followed, by name.

use std::collections::BTreeMap;

use flowloom::packet::EncapsulationCounts;
use flowloom::packet::census::Tally;
use serde::Serialize;

use super::{counted, grouped};

/// The number of packets, and the first ones.
#[derive(Debug, Serialize)]
struct Figures {
    packets: u64,
    first_packets: Vec<u64>,
}

#[derive(Debug, Serialize)]
struct NotFollowed {
    kind: &'static str,
    reason: &'static str,
    #[serde(skip)]
    in_words: String,
    #[serde(flatten)]
    figures: Figures,
}

#[derive(Debug, Serialize)]
struct Unfamiliar {
    what: String,
    layer: &'static str,
    number: u64,
    #[serde(flatten)]
    figures: Figures,
}

/// The part of the JSON document about encapsulations.
#[derive(Debug, Serialize)]
pub(crate) struct Encapsulations {
    #[serde(rename = "encapsulations")]
    followed: BTreeMap<&'static str, Figures>,
    tunnel_not_followed: Vec<NotFollowed>,
    unknown: Vec<Unfamiliar>,
    unknown_others: u64,
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
        tunnel_not_followed.sort_by_key(|entry| std::cmp::Reverse(entry.figures.packets));
        Self {
            followed: counts.followed().map(|(name, tally)| (name, figures(tally))).collect(),
            tunnel_not_followed,
            unknown,
            unknown_others: counts.other_unknown(),
        }
    }

    /// Returns one summary line, for runs without `--why`.
    pub(crate) fn summary(&self) -> Option<String> {
        let unasked: u64 = of(&self.tunnel_not_followed, |reason| reason == "not_asked");
        let others: u64 = of(&self.tunnel_not_followed, |reason| reason != "not_asked");
        let mut parts = Vec::new();
        if unasked > 0 {
            parts.push(format!("{} in tunnels (--decap follows them)", counted(unasked, "packet")));
        }
        if others > 0 {
            parts.push(format!("{} in tunnels that cannot be followed (--why)", counted(others, "packet")));
        }
        (!parts.is_empty()).then(|| format!("Tunnels     {}", parts.join("   ")))
    }

    /// Returns all counts, one per line, at most `lines_max` of each kind.
    pub(crate) fn lines(&self, lines_max: usize) -> Vec<String> {
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
                let more = entries.len().saturating_sub(lines_max);
                lines.extend(entries.into_iter().take(lines_max));
                if more > 0 {
                    lines.push(format!("            … and {more} more (--format json has all)"));
                }
            }
        };
        section("Followed", self.followed.iter().map(|(name, figures)| line(name, figures)).collect());
        section(
            "Not followed",
            self.tunnel_not_followed
                .iter()
                .map(|entry| line(&format!("{}: {}", entry.kind, entry.in_words), &entry.figures))
                .collect(),
        );
        section("Unknown", self.unknown.iter().map(|entry| line(&entry.what, &entry.figures)).collect());
        if self.unknown_others > 0 {
            lines.push(format!("            other numbers: {}", counted(self.unknown_others, "packet")));
        }
        lines
    }
}

fn of(entries: &[NotFollowed], reason: impl Fn(&str) -> bool) -> u64 {
    entries.iter().filter(|entry| reason(entry.reason)).map(|entry| entry.figures.packets).sum()
}
