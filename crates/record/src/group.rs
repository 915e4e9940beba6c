//! Groups of columns, which are computed together and shown together.

/// A group of columns.
///
/// # Examples
///
/// ```
/// use flowloom_record::{Group, GroupSet};
/// let asked: GroupSet = [Group::Tls, Group::Dns].into_iter().collect();
/// assert!(asked.contains(Group::Tls) && !asked.contains(Group::Sizes));
/// assert_eq!(Group::field("handshake"), Some(Group::Handshake));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Group {
    /// What every record has.
    Default,
    /// Shown on request, because it takes time to compute.
    Extra,
    /// Shown on request, because it shows internals of the program.
    Internal,
    /// The protocol's name, and how it was found.
    Label,
    /// The verdict of rules.
    Verdict,
    /// The columns of an application of its own.
    Own,
    /// Sizes of packets.
    Sizes,
    /// Times between packets.
    Gaps,
    /// Sizes and directions of the first packets.
    Splt,
    /// VLAN tags, by direction.
    Vlan,
    /// The capture of the first packet.
    File,
    /// The columns of other meters.
    Features,
    /// Times of the handshake of TCP.
    Handshake,
    /// Trouble of TCP.
    Tcp,
    /// Round-trip times of the data of TCP.
    Rtt,
    /// State, history and payload of connections, for Zeek's log.
    Conn,
    /// Contents of TLS.
    Tls,
    /// Contents of DNS.
    Dns,
    /// Contents of HTTP.
    Http,
    /// Contents of QUIC.
    Quic,
    /// Contents of SSH.
    Ssh,
}

impl Group {
    /// The groups of additional fields, which are kept and shown on request, in the order of their
    /// columns.
    pub const FIELDS: [Self; 15] = [
        Self::Sizes,
        Self::Gaps,
        Self::Splt,
        Self::Vlan,
        Self::File,
        Self::Features,
        Self::Handshake,
        Self::Tcp,
        Self::Rtt,
        Self::Conn,
        Self::Tls,
        Self::Dns,
        Self::Http,
        Self::Quic,
        Self::Ssh,
    ];

    /// Returns the name of the group; of additional fields the name on command lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Extra => "extra",
            Self::Internal => "internal",
            Self::Label => "label",
            Self::Verdict => "verdict",
            Self::Own => "own",
            Self::Sizes => "sizes",
            Self::Gaps => "gaps",
            Self::Splt => "splt",
            Self::Vlan => "vlan",
            Self::File => "file",
            Self::Handshake => "handshake",
            Self::Tcp => "tcp",
            Self::Rtt => "rtt",
            Self::Features => "features",
            Self::Conn => "conn",
            Self::Tls => "tls",
            Self::Dns => "dns",
            Self::Http => "http",
            Self::Quic => "quic",
            Self::Ssh => "ssh",
        }
    }

    /// Returns whether its fields are read from payload.
    #[must_use]
    pub const fn is_payload(self) -> bool {
        matches!(self, Self::Tls | Self::Dns | Self::Http | Self::Quic | Self::Ssh)
    }

    /// Returns the group of additional fields with a name.
    #[must_use]
    pub fn field(name: &str) -> Option<Self> {
        Self::FIELDS.into_iter().find(|group| group.name() == name)
    }
}

/// A set of [`Group`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupSet(u32);

impl GroupSet {
    /// No group.
    pub const NONE: Self = Self(0);
    /// All groups.
    pub const ALL: Self = Self(u32::MAX);
    /// The groups of additional fields.
    pub const FIELDS: Self = Self(u32::MAX << Group::Sizes as u8);
    /// The groups that a writer shows unless the user says otherwise.
    pub const SHOWN: Self = Self(
        1 << Group::Default as u8
            | 1 << Group::Label as u8
            | 1 << Group::Verdict as u8
            | 1 << Group::Own as u8,
    );

    /// Returns whether a group is in the set.
    #[inline(always)]
    #[must_use]
    pub const fn contains(self, group: Group) -> bool {
        self.0 >> (group as u8) & 1 != 0
    }

    /// Adds a group.
    pub const fn insert(&mut self, group: Group) {
        self.0 |= 1 << (group as u8);
    }

    /// Returns the groups of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the groups that are in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns whether a group is in both sets.
    #[must_use]
    pub const fn intersects(self, other: Self) -> bool {
        !self.intersection(other).is_empty()
    }

    /// Returns the groups that are not in the set.
    #[must_use]
    pub const fn complement(self) -> Self {
        Self(!self.0)
    }

    /// Returns whether no group is in the set.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Group> for GroupSet {
    fn from_iter<I: IntoIterator<Item = Group>>(groups: I) -> Self {
        let mut set = Self::default();
        groups.into_iter().for_each(|group| set.insert(group));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_the_groups_that_are_not_shown_by_default() {
        assert_eq!(Group::FIELDS.map(|group| Group::field(group.name())), Group::FIELDS.map(Some));
        let fields: GroupSet = Group::FIELDS.into_iter().collect();
        let others =
            [Group::Default, Group::Extra, Group::Internal, Group::Label, Group::Verdict, Group::Own];
        assert!(Group::FIELDS.into_iter().all(|group| GroupSet::FIELDS.contains(group)));
        assert!(
            others.into_iter().all(|group| !GroupSet::FIELDS.contains(group) && !fields.contains(group))
        );
        assert!(
            !GroupSet::SHOWN.intersects(GroupSet::FIELDS) && GroupSet::ALL.intersects(GroupSet::FIELDS)
        );
    }
}
