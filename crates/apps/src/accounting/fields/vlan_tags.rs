//! The VLAN tags of a record's packets.

use std::fmt::Write;

use flowloom_flow_key::Direction;
use flowloom_packet::PacketView;
use flowloom_record::{Column, Group, Kind, Value};

use super::{FieldStore, Fields};

/// Maximum number of distinct stacks of tags that are kept per direction.
const STACKS: usize = 4;
/// A stack of more than two tags, as in [`Headers::vlans`](flowloom_packet::Headers::vlans).
const DEEP: u32 = 1 << 31;

/// The distinct stacks of VLAN tags by direction, in the order of their first packets: packets of
/// one flow may have different tags if the key has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VlanTags {
    stacks: [[u32; STACKS]; 2],
    /// Number of kept stacks; `STACKS` + 1 if there were others.
    counts: [u8; 2],
}

impl Fields for VlanTags {
    const COLUMNS: &'static [Column] = &[
        Column::new("vlan_tags", Kind::Text, "The VLAN ids of packets from the source, with dots between nested tags (`10.20`, outer first), `-` for packets without a tag and `...` for more than two tags. Commas separate the first four different values; `more` stands for others.").in_group(Group::Vlan),
        Column::new("reverse_vlan_tags", Kind::Text, "The VLAN ids of packets from the destination.").in_group(Group::Vlan),
    ];

    #[inline(always)]
    fn on_packet(&mut self, packet: &PacketView<'_>, _store: &FieldStore) {
        let (way, vlans) = (packet.headers.direction.index(), packet.headers.vlans);
        let count = usize::from(self.counts[way]);
        let vlans = if vlans & DEEP == 0 { vlans } else { DEEP };
        if count > STACKS || self.stacks[way][..count].contains(&vlans) {
            return;
        }
        if let Some(stack) = self.stacks[way].get_mut(count) {
            *stack = vlans;
        }
        self.counts[way] += 1;
    }

    fn values(&self, way: Direction, out: &mut Vec<Value>) {
        for way in [way, way.reversed()] {
            let (stacks, count) = (&self.stacks[way.index()], usize::from(self.counts[way.index()]));
            let mut text = String::new();
            for (at, &vlans) in stacks[..count.min(STACKS)].iter().enumerate() {
                text.push_str(if at > 0 { "," } else { "" });
                let _ = match vlans {
                    0 => write!(text, "-"),
                    1..=0xFFF => write!(text, "{vlans}"),
                    DEEP => write!(text, "..."),
                    _ => write!(text, "{}.{}", vlans >> 12, vlans & 0xFFF),
                };
            }
            text.push_str(if count > STACKS { ",more" } else { "" });
            out.push(if count == 0 { Value::None } else { Value::Text(text.into()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use flowloom_flow_key::FlowKey;
    use flowloom_packet::Headers;

    use super::*;

    fn text(packets: &[(Direction, u32)]) -> [Option<String>; 2] {
        let (key, _) = FlowKey::from_v4(1, 2, 3, 4, 17);
        let mut fields = VlanTags::default();
        for &(way, vlans) in packets {
            let mut headers = Headers::new(key, way);
            headers.vlans = vlans;
            fields.on_packet(&PacketView::new(&[], headers, 1, 60), &FieldStore::default());
        }
        let mut values = Vec::new();
        fields.values(Direction::HighToLow, &mut values);
        [0, 1].map(|at| (values[at] != Value::None).then(|| values[at].to_string()))
    }

    #[test]
    fn each_direction_reports_its_tags_once() {
        use Direction::{HighToLow, LowToHigh};
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(text(&[(HighToLow, 0), (HighToLow, 0)]), [some("-"), None]);
        let packets = [(HighToLow, 10), (LowToHigh, 0), (HighToLow, 10), (LowToHigh, 10 << 12 | 4095)];
        assert_eq!(text(&packets), [some("10"), some("-,10.4095")]);
        assert_eq!(text(&[(LowToHigh, DEEP | 1), (LowToHigh, DEEP | 2)]), [None, some("...")]);
        let many = [5, 4, 3, 2, 1, 1, 6].map(|vlans| (HighToLow, vlans));
        assert_eq!(text(&many[..4]), [some("5,4,3,2"), None]);
        assert_eq!(text(&many), [some("5,4,3,2,more"), None]);
    }
}
