//! All additional fields.

use flowloom_record::Column;

use super::{
    Conn, Dns, Features, Fields, FileName, FirstPackets, Handshake, Http, PacketGaps, PacketSizes,
    PayloadRtt, Quic, Ssh, TcpTrouble, Tls, VlanTags,
};

/// All fields of this module, in the order of [`Group::FIELDS`](flowloom_record::Group::FIELDS).
pub type AllFields = (
    (
        PacketSizes,
        (PacketGaps, (FirstPackets, (VlanTags, (FileName, (Features, (Handshake, TcpTrouble)))))),
    ),
    (PayloadRtt, (Conn, ApplicationFields)),
);

/// The fields from payload, which come last in [`AllFields`]. A flow with these takes about 300
/// bytes, and a flow with all fields about 1.7 KiB.
pub type ApplicationFields = (Tls, (Dns, (Http, (Quic, Ssh))));

/// Returns the columns of [`AllFields`], in the order of its values.
#[must_use]
pub fn all_columns() -> Vec<Column> {
    let mut columns = Vec::new();
    AllFields::columns(&mut columns);
    columns
}

#[cfg(test)]
mod tests {
    use flowloom_flow_key::Direction;
    use flowloom_record::{Group, GroupSet, Value};

    use super::*;

    #[test]
    fn flows_take_the_documented_space() {
        use crate::accounting::fields::Detailed;
        let application = size_of::<Detailed<ApplicationFields>>();
        assert!((200..=350).contains(&application), "{application}");
        let all = size_of::<Detailed<AllFields>>();
        assert!((1500..=1900).contains(&all), "{all}");
    }

    #[test]
    fn every_group_has_its_columns_together_and_one_value_for_each() {
        let columns = all_columns();
        let mut groups: Vec<Group> = columns.iter().map(|column| column.group).collect();
        groups.dedup();
        assert_eq!(groups, Group::FIELDS);
        for asked in [GroupSet::ALL, GroupSet::default(), [Group::Tcp, Group::Dns].into_iter().collect()] {
            let mut values = Vec::new();
            AllFields::default().values_of(Direction::LowToHigh, asked, &mut values);
            assert_eq!(values.len(), columns.len());
            for (column, value) in columns.iter().zip(values) {
                assert!(asked.contains(column.group) || value == Value::None, "{}", column.name);
            }
        }
    }
}
