//! Groups of additional fields, by the names that users type.

use super::{
    Dns, FieldColumn, Fields, FirstPackets, Handshake, Http, PacketGaps, PacketSizes, PayloadRtt, Quic,
    Ssh, TcpTrouble, Tls,
};

/// All fields of this module, in the order of [`FieldGroup::ALL`].
pub type AllFields =
    ((PacketSizes, (PacketGaps, (FirstPackets, (Handshake, TcpTrouble)))), (PayloadRtt, ApplicationFields));

/// The fields from payload, which come last in [`AllFields`]. A flow with these takes about 300
/// bytes, and a flow with all fields about 1 KiB.
pub type ApplicationFields = (Tls, (Dns, (Http, (Quic, Ssh))));

/// A group of additional fields.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::fields::FieldGroup;
///
/// let group = FieldGroup::named("handshake").unwrap();
/// assert_eq!(group.columns()[0].name, "handshake_rtt");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldGroup {
    /// [`PacketSizes`].
    Sizes,
    /// [`PacketGaps`].
    Gaps,
    /// [`FirstPackets`].
    Splt,
    /// [`Handshake`].
    Handshake,
    /// [`TcpTrouble`].
    Tcp,
    /// [`PayloadRtt`].
    Rtt,
    /// [`Tls`].
    Tls,
    /// [`Dns`].
    Dns,
    /// [`Http`].
    Http,
    /// [`Quic`].
    Quic,
    /// [`Ssh`].
    Ssh,
}

impl FieldGroup {
    /// All groups, in the order of the columns of [`AllFields`].
    pub const ALL: [Self; 11] = [
        Self::Sizes,
        Self::Gaps,
        Self::Splt,
        Self::Handshake,
        Self::Tcp,
        Self::Rtt,
        Self::Tls,
        Self::Dns,
        Self::Http,
        Self::Quic,
        Self::Ssh,
    ];

    /// Returns the name of the group on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sizes => "sizes",
            Self::Gaps => "gaps",
            Self::Splt => "splt",
            Self::Handshake => "handshake",
            Self::Tcp => "tcp",
            Self::Rtt => "rtt",
            Self::Tls => "tls",
            Self::Dns => "dns",
            Self::Http => "http",
            Self::Quic => "quic",
            Self::Ssh => "ssh",
        }
    }

    /// Returns whether the group is one of [`ApplicationFields`].
    #[must_use]
    pub const fn is_application(self) -> bool {
        matches!(self, Self::Tls | Self::Dns | Self::Http | Self::Quic | Self::Ssh)
    }

    /// Returns a group by name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.name() == name)
    }

    /// Returns the columns of the group.
    #[must_use]
    pub fn columns(self) -> Vec<FieldColumn> {
        let mut columns = Vec::new();
        match self {
            Self::Sizes => PacketSizes::columns(&mut columns),
            Self::Gaps => PacketGaps::columns(&mut columns),
            Self::Splt => <FirstPackets>::columns(&mut columns),
            Self::Handshake => Handshake::columns(&mut columns),
            Self::Tcp => TcpTrouble::columns(&mut columns),
            Self::Rtt => PayloadRtt::columns(&mut columns),
            Self::Tls => Tls::columns(&mut columns),
            Self::Dns => Dns::columns(&mut columns),
            Self::Http => Http::columns(&mut columns),
            Self::Quic => Quic::columns(&mut columns),
            Self::Ssh => Ssh::columns(&mut columns),
        }
        columns
    }
}

/// Returns the columns of [`AllFields`], in the order of its values.
#[must_use]
pub fn all_columns() -> Vec<FieldColumn> {
    FieldGroup::ALL.into_iter().flat_map(FieldGroup::columns).collect()
}

#[cfg(test)]
mod tests {
    use flowloom_flow_key::Direction;

    use super::*;

    #[test]
    fn flows_take_the_space_that_the_documentation_says() {
        use crate::accounting::fields::Detailed;
        let application = size_of::<Detailed<ApplicationFields>>();
        assert!((200..=350).contains(&application), "{application}");
        let all = size_of::<Detailed<AllFields>>();
        assert!((800..=1200).contains(&all), "{all}");
    }

    #[test]
    fn groups_have_the_columns_and_the_values_of_all_fields_in_their_order() {
        let (mut columns, mut values) = (Vec::new(), Vec::new());
        AllFields::columns(&mut columns);
        AllFields::default().values(Direction::LowToHigh, &mut values);
        assert_eq!(columns, all_columns());
        assert_eq!(columns.len(), values.len());
        for group in FieldGroup::ALL {
            assert_eq!(FieldGroup::named(group.name()), Some(group));
        }
    }
}
