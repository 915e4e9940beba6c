//! Why a packet has no flow key. Every packet is decoded or has one of these reasons.

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// The reason why a packet was not processed. Either it was lost, or it has no flow and is
        /// not tracked.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[non_exhaustive]
        pub enum DropReason { $($(#[$doc])* $variant,)* }

        impl DropReason {
            /// Every reason, in declaration order: `ALL[reason as usize] == reason`.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Returns the reason's name in reports and JSON.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

reasons! {
    /// The record ends inside the link-layer header (Ethernet, cooked, PPP, 802.11, radiotap, …).
    TruncatedLink = "truncated_link";
    /// The record ends inside a VLAN tag.
    TruncatedVlan = "truncated_vlan";
    /// The record ends inside an MPLS label stack.
    TruncatedMpls = "truncated_mpls";
    /// The record ends inside a PPPoE or PPP header.
    TruncatedPppoe = "truncated_pppoe";
    /// The record ends inside the IPv4 header.
    TruncatedIpv4 = "truncated_ipv4";
    /// The record ends inside the IPv6 header or its extensions.
    TruncatedIpv6 = "truncated_ipv6";
    /// The record ends before the ports (or the ICMP identifier).
    TruncatedTransport = "truncated_transport";
    /// The record ends inside a tunnel's header (with [`decap`](crate::DecodeOptions::decap)).
    TruncatedTunnel = "truncated_tunnel";
    /// A link-layer header contradicts itself.
    MalformedLink = "malformed_link";
    /// A PPPoE or PPP header contradicts itself.
    MalformedPppoe = "malformed_pppoe";
    /// IPv4: a version other than 4, a header length below 20, or a total length below the
    /// header's.
    MalformedIpv4 = "malformed_ipv4";
    /// IPv6: a version other than 6.
    MalformedIpv6 = "malformed_ipv6";
    /// The IP length ends before the ports.
    MalformedTransport = "malformed_transport";
    /// A tunnel's header contradicts itself (with [`decap`](crate::DecodeOptions::decap)).
    MalformedTunnel = "malformed_tunnel";
    /// A well-formed frame that carries something other than IP.
    NotIp = "not_ip";
    /// 802.11 data whose payload is encrypted.
    Encrypted = "encrypted";
    /// More nested headers than the decoder follows.
    Depth = "depth";
    /// A link type that is not decoded.
    Unsupported = "unsupported";
    /// The flow table is full and refused a new flow.
    TableFull = "table_full";
    /// The worker's ring was full, and the run drops packets instead of waiting.
    RingFull = "ring_full";
    /// The worker or the stage that held the packet panicked.
    WorkerLost = "worker_lost";
    /// A source that joins fragments joined this fragment into a datagram. The datagram takes the
    /// place of its last fragment.
    Reassembled = "reassembled";
    /// A fragment of a datagram that was not complete in time.
    FragmentTimeout = "fragment_timeout";
    /// A fragment of a datagram that was not complete when the input ended.
    FragmentIncomplete = "fragment_incomplete";
    /// A fragment of a datagram in which two fragments claim the same bytes.
    FragmentOverlap = "fragment_overlap";
    /// A repeated fragment with the same bytes.
    FragmentDuplicate = "fragment_duplicate";
    /// A fragment with an invalid offset or length, or any fragment of a datagram that has one.
    FragmentMalformed = "fragment_malformed";
    /// A fragment that was not captured completely.
    FragmentTruncated = "fragment_truncated";
    /// A fragment of a datagram that was abandoned because a limit on fragments was reached.
    FragmentPoolFull = "fragment_pool_full";
    /// The buffer between the interface and the capturing program was full.
    InterfaceFull = "interface_full";
    /// The interface or its driver dropped the packet before it was captured.
    InterfaceDropped = "interface_dropped";
    /// A copy of a packet shortly before it, which a source dropped on request.
    Duplicate = "duplicate";
    /// A packet that sampling skipped.
    NotSampled = "not_sampled";
}

impl std::fmt::Display for DropReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl DropReason {
    /// Returns whether the record ended inside the headers.
    pub fn is_truncated(self) -> bool {
        matches!(
            self,
            Self::TruncatedLink
                | Self::TruncatedVlan
                | Self::TruncatedMpls
                | Self::TruncatedPppoe
                | Self::TruncatedIpv4
                | Self::TruncatedIpv6
                | Self::TruncatedTransport
                | Self::TruncatedTunnel
        )
    }
}

impl DropReason {
    /// Returns whether the packet was lost on the way to the program or inside it. Other packets
    /// arrived but are not tracked, because they have no flow.
    pub fn is_loss(self) -> bool {
        matches!(self, Self::RingFull | Self::WorkerLost | Self::InterfaceFull | Self::InterfaceDropped)
    }

    /// Returns whether only a source uses this reason, for packets that it read and did not yield.
    pub fn is_withheld(self) -> bool {
        matches!(
            self,
            Self::Reassembled
                | Self::FragmentTimeout
                | Self::FragmentIncomplete
                | Self::FragmentOverlap
                | Self::FragmentDuplicate
                | Self::FragmentMalformed
                | Self::FragmentTruncated
                | Self::FragmentPoolFull
                | Self::InterfaceFull
                | Self::InterfaceDropped
                | Self::Duplicate
                | Self::NotSampled
        )
    }
}

/// Packets dropped, by reason.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DropCounts([u64; DropReason::ALL.len()]);

impl Default for DropCounts {
    fn default() -> Self {
        Self([0; DropReason::ALL.len()])
    }
}

impl DropCounts {
    /// Counts one packet.
    #[inline]
    pub fn count(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }

    /// Counts several packets of one reason.
    pub fn add(&mut self, reason: DropReason, packets: u64) {
        self.0[reason as usize] += packets;
    }

    /// Adds another count to this one.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// Returns how many packets were dropped for `reason`.
    pub fn get(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// Returns how many packets were dropped for any reason.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns how many packets a source read and did not yield.
    pub fn withheld(&self) -> u64 {
        self.nonzero().filter(|(reason, _)| reason.is_withheld()).map(|(_, packets)| packets).sum()
    }

    /// Returns the reasons that occurred, with their counts.
    pub fn nonzero(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL.iter().map(|&reason| (reason, self.get(reason))).filter(|&(_, n)| n > 0)
    }
}

impl std::fmt::Debug for DropCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.nonzero()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_indices_match() {
        let mut names: Vec<_> = DropReason::ALL.iter().map(|r| r.name()).collect();
        for (i, &reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(reason as usize, i);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DropReason::ALL.len());
    }

    #[test]
    fn counts_add_up() {
        let mut a = DropCounts::default();
        a.count(DropReason::NotIp);
        let mut b = DropCounts::default();
        b.add(DropReason::NotIp, 2);
        b.add(DropReason::Depth, 3);
        a.merge(&b);
        a.add(DropReason::Reassembled, 4);
        assert_eq!((a.total(), a.withheld()), (10, 4));
        a = DropCounts::default();
        a.merge(&b);
        a.count(DropReason::NotIp);
        assert_eq!(a.nonzero().collect::<Vec<_>>(), [(DropReason::NotIp, 3), (DropReason::Depth, 3)]);
        assert_eq!(format!("{a:?} {:?}", DropCounts::default()), "{NotIp: 3, Depth: 3} {}");
    }
}
