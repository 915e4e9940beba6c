//! The dimensions of scenarios. Each sets one part of a plan; dimensions of different axes combine.

use crate::dns::Kind;
use crate::frame::{Framing, Tunnel};
use crate::hello::Handshake;
use crate::quic::{Initials, Version};
use crate::tcp::{Close, Contents, Cut, Message, Numbers, Opening, Phase};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Transport {
    #[default]
    Tcp,
    Udp,
    Icmp,
    IcmpError,
    Multicast,
    Sctp,
    Dns(Kind),
    Quic(Version, Initials),
}

/// What the tap misses of the first session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum View {
    #[default]
    Whole,
    /// Its first packet.
    WithoutFirst,
    /// Its first packets, up to some data.
    MidStream,
    /// A segment with data, which the other side acknowledges.
    Gap,
    /// All packets of this side.
    Without(usize),
    /// In half of them, its packets before the RST.
    FromReset,
    /// One packet in eight, of all sessions.
    Losses,
}

/// A second connection on the same addresses and ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reuse {
    #[default]
    No,
    AfterClose,
    WithoutClose,
    /// Behind a close, with numbers slightly above the last ones, or below the first ones.
    Near,
    /// Behind a close, with the same numbers.
    Same,
    /// Behind a refusal or a scan, with the same numbers.
    AfterRefusal,
    /// Behind a close, opened by the other side.
    Turned,
}

/// What happens in a scenario.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "dimensions that have no other value")]
pub(crate) struct Plan {
    pub(crate) transport: Transport,
    pub(crate) opening: Opening,
    pub(crate) contents: Option<Contents>,
    pub(crate) phase: Option<Phase>,
    pub(crate) close: Close,
    pub(crate) reuse: Reuse,
    pub(crate) view: View,
    pub(crate) is_mirrored: bool,
    /// Both ports are those of servers.
    pub(crate) has_known_ports: bool,
    pub(crate) numbers: Numbers,
    /// By how much the clock of the tap steps, halfway.
    pub(crate) step_ns: i64,
    /// The clock of the tap counts milliseconds.
    pub(crate) is_coarse: bool,
    pub(crate) snap_bytes: Option<usize>,
    /// The file ends inside its last packet.
    pub(crate) is_cut_off: bool,
    /// Frames that belong to no flow are mixed with the others.
    pub(crate) has_broken_frames: bool,
    pub(crate) framing: Framing,
    /// Records last so many seconds at most.
    pub(crate) active_s: Option<u64>,
    /// The version of IP; drawn if `None`.
    pub(crate) is_v6: Option<bool>,
    /// The frames of the client have other VLAN ids in turn.
    pub(crate) has_many_vlans: bool,
    /// A second session has the same addresses and ports in another VLAN.
    pub(crate) has_twin: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    Transport,
    Opening,
    Contents,
    Phase,
    Close,
    Reuse,
    Numbers,
    View,
    Mirror,
    Clock,
    Length,
    Padding,
    Vlan,
    Tunnel,
    Network,
    File,
    Broken,
}

/// A dimension of scenarios.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dimension {
    pub(crate) name: &'static str,
    pub(crate) axis: Axis,
    pub(crate) apply: fn(&mut Plan),
}

const fn new(name: &'static str, axis: Axis, apply: fn(&mut Plan)) -> Dimension {
    Dimension { name, axis, apply }
}

const fn contents(plan: &mut Plan, message: Message, cut: Cut) {
    plan.contents = Some(Contents { message, cut });
}

/// All dimensions, in the order of the scenarios that have one alone.
pub(crate) const DIMENSIONS: [Dimension; 111] = [
    new("tcp", Axis::Transport, |_| {}),
    new("udp", Axis::Transport, |plan| plan.transport = Transport::Udp),
    new("icmp-echo", Axis::Transport, |plan| plan.transport = Transport::Icmp),
    new("icmp-error", Axis::Transport, |plan| plan.transport = Transport::IcmpError),
    new("multicast", Axis::Transport, |plan| plan.transport = Transport::Multicast),
    new("sctp", Axis::Transport, |plan| plan.transport = Transport::Sctp),
    new("dns", Axis::Transport, |plan| plan.transport = Transport::Dns(Kind::One)),
    new("dns-types", Axis::Transport, |plan| plan.transport = Transport::Dns(Kind::Types)),
    new("dns-many", Axis::Transport, |plan| plan.transport = Transport::Dns(Kind::Many)),
    new("dns-announced", Axis::Transport, |plan| plan.transport = Transport::Dns(Kind::Announcements)),
    new("quic", Axis::Transport, |plan| plan.transport = Transport::Quic(Version::One, Initials::One)),
    new("quic-2", Axis::Transport, |plan| plan.transport = Transport::Quic(Version::Two, Initials::One)),
    new("quic-split", Axis::Transport, |plan| {
        plan.transport = Transport::Quic(Version::One, Initials::Split);
    }),
    new("quic-coalesced", Axis::Transport, |plan| {
        plan.transport = Transport::Quic(Version::One, Initials::Coalesced);
    }),
    new("open-simultaneous", Axis::Opening, |plan| plan.opening = Opening::Simultaneous),
    new("open-repeated-syn", Axis::Opening, |plan| plan.opening = Opening::Repeated),
    new("open-refused", Axis::Opening, |plan| plan.opening = Opening::Refused),
    new("open-fast", Axis::Opening, |plan| plan.opening = Opening::Fast),
    new("open-blind-reset", Axis::Opening, |plan| plan.opening = Opening::BlindReset),
    new("open-early-ack", Axis::Opening, |plan| {
        (plan.opening, plan.close) = (Opening::EarlyAck, Close::Never);
    }),
    new("open-answered-anew", Axis::Opening, |plan| plan.opening = Opening::AnsweredAnew),
    new("open-swapped", Axis::Opening, |plan| plan.opening = Opening::Swapped),
    new("open-scan", Axis::Opening, |plan| plan.opening = Opening::Scan),
    new("http", Axis::Contents, |plan| contents(plan, Message::Http, Cut::No)),
    new("http-cut", Axis::Contents, |plan| contents(plan, Message::Http, Cut::Small)),
    new("http-shuffled", Axis::Contents, |plan| contents(plan, Message::Http, Cut::Shuffled)),
    new("http-long", Axis::Contents, |plan| contents(plan, Message::HttpLong, Cut::No)),
    new("tls", Axis::Contents, |plan| contents(plan, Message::Tls(Handshake::Plain), Cut::No)),
    new("tls-cut", Axis::Contents, |plan| contents(plan, Message::Tls(Handshake::Plain), Cut::Small)),
    new("tls-shuffled", Axis::Contents, |plan| {
        contents(plan, Message::Tls(Handshake::Records), Cut::Shuffled);
    }),
    new("tls-records", Axis::Contents, |plan| contents(plan, Message::Tls(Handshake::Records), Cut::No)),
    new("tls-retry", Axis::Contents, |plan| contents(plan, Message::Tls(Handshake::Retry), Cut::No)),
    new("tls-long", Axis::Contents, |plan| contents(plan, Message::Tls(Handshake::Long), Cut::No)),
    new("tls-refused", Axis::Contents, |plan| contents(plan, Message::Tls(Handshake::Refused), Cut::No)),
    new("ssh", Axis::Contents, |plan| contents(plan, Message::Ssh, Cut::No)),
    new("ssh-cut", Axis::Contents, |plan| contents(plan, Message::Ssh, Cut::Small)),
    new("dns-tcp", Axis::Contents, |plan| contents(plan, Message::Dns, Cut::No)),
    new("dns-tcp-cut", Axis::Contents, |plan| contents(plan, Message::Dns, Cut::Small)),
    new("lookalike", Axis::Contents, |plan| contents(plan, Message::Lookalike, Cut::No)),
    new("lookalike-cut", Axis::Contents, |plan| contents(plan, Message::Lookalike, Cut::Small)),
    new("keep-alive", Axis::Phase, |plan| plan.phase = Some(Phase::KeepAlive)),
    new("zero-window", Axis::Phase, |plan| plan.phase = Some(Phase::ZeroWindow)),
    new("lost-before-tap", Axis::Phase, |plan| plan.phase = Some(Phase::LostBeforeTap)),
    new("lost-after-tap", Axis::Phase, |plan| plan.phase = Some(Phase::LostAfterTap)),
    new("lost-fast", Axis::Phase, |plan| plan.phase = Some(Phase::LostFast)),
    new("spurious", Axis::Phase, |plan| plan.phase = Some(Phase::Spurious)),
    new("reordered", Axis::Phase, |plan| plan.phase = Some(Phase::Reordered)),
    new("reordered-late", Axis::Phase, |plan| plan.phase = Some(Phase::ReorderedLate)),
    new("jumbo", Axis::Phase, |plan| plan.phase = Some(Phase::Jumbo)),
    new("offloaded", Axis::Phase, |plan| plan.phase = Some(Phase::Offloaded)),
    new("pause-below-timeout", Axis::Phase, |plan| plan.phase = Some(Phase::Pause(55))),
    new("pause-beyond-timeout", Axis::Phase, |plan| plan.phase = Some(Phase::Pause(65))),
    new("active-timeout", Axis::Phase, |plan| {
        plan.phase = Some(Phase::Talk);
        plan.active_s = Some(30);
    }),
    new("active-timeout-both", Axis::Phase, |plan| {
        plan.phase = Some(Phase::Dialogue);
        plan.active_s = Some(30);
    }),
    new("active-timeout-reset", Axis::Phase, |plan| {
        (plan.close, plan.view) = (Close::ResetUnheard, View::FromReset);
        plan.active_s = Some(30);
    }),
    new("ack-unsent", Axis::Phase, |plan| plan.phase = Some(Phase::AckUnsent)),
    new("bad-offset", Axis::Phase, |plan| plan.phase = Some(Phase::BadOffset)),
    new("flags", Axis::Phase, |plan| plan.phase = Some(Phase::Flags)),
    new("close-reset", Axis::Close, |plan| plan.close = Close::Reset),
    new("close-reset-then-data", Axis::Close, |plan| plan.close = Close::ResetThenData),
    new("close-reset-then-fin", Axis::Close, |plan| plan.close = Close::ResetThenFin),
    new("close-fin-and-reset", Axis::Close, |plan| plan.close = Close::FinAndReset),
    new("close-reset-after-fins", Axis::Close, |plan| plan.close = Close::ResetAfterFins),
    new("close-never", Axis::Close, |plan| plan.close = Close::Never),
    new("close-fins-again", Axis::Close, |plan| plan.close = Close::FinsAgain),
    new("close-half", Axis::Close, |plan| plan.close = Close::Half),
    new("close-crossed", Axis::Close, |plan| plan.close = Close::Crossed),
    new("close-reset-of-fin", Axis::Close, |plan| plan.close = Close::ResetOfFin),
    new("close-reset-outside", Axis::Close, |plan| plan.close = Close::ResetOutside),
    new("close-reset-at-edge", Axis::Close, |plan| plan.close = Close::ResetAtEdge),
    new("close-reset-in-flight", Axis::Close, |plan| plan.close = Close::ResetInFlight),
    new("reuse-after-close", Axis::Reuse, |plan| plan.reuse = Reuse::AfterClose),
    new("reuse-without-close", Axis::Reuse, |plan| plan.reuse = Reuse::WithoutClose),
    new("reuse-near", Axis::Reuse, |plan| plan.reuse = Reuse::Near),
    new("reuse-same", Axis::Reuse, |plan| plan.reuse = Reuse::Same),
    new("reuse-turned", Axis::Reuse, |plan| plan.reuse = Reuse::Turned),
    new("reuse-after-refusal", Axis::Reuse, |plan| {
        (plan.opening, plan.reuse) = (Opening::Refused, Reuse::AfterRefusal);
    }),
    new("reuse-after-scan", Axis::Reuse, |plan| {
        (plan.opening, plan.reuse) = (Opening::Scan, Reuse::AfterRefusal);
    }),
    new("numbers-wrap", Axis::Numbers, |plan| plan.numbers = Numbers::Before(0)),
    new("numbers-half", Axis::Numbers, |plan| plan.numbers = Numbers::Before(1 << 31)),
    new("tap-without-first", Axis::View, |plan| plan.view = View::WithoutFirst),
    new("tap-mid-stream", Axis::View, |plan| plan.view = View::MidStream),
    new("tap-known-ports", Axis::View, |plan| (plan.view, plan.has_known_ports) = (View::MidStream, true)),
    new("tap-known-ports-first", Axis::View, |plan| {
        (plan.view, plan.has_known_ports) = (View::WithoutFirst, true);
    }),
    new("tap-gap", Axis::View, |plan| plan.view = View::Gap),
    new("tap-without-client", Axis::View, |plan| plan.view = View::Without(0)),
    new("tap-without-server", Axis::View, |plan| plan.view = View::Without(1)),
    new("tap-losses", Axis::View, |plan| plan.view = View::Losses),
    new("mirrored-twice", Axis::Mirror, |plan| plan.is_mirrored = true),
    new("clock-forward", Axis::Clock, |plan| plan.step_ns = 20_000_000_000),
    new("clock-backward", Axis::Clock, |plan| plan.step_ns = -5_000_000_000),
    new("clock-nudge", Axis::Clock, |plan| plan.step_ns = -300_000),
    new("clock-coarse", Axis::Clock, |plan| plan.is_coarse = true),
    new("snap-length", Axis::Length, |plan| plan.snap_bytes = Some(128)),
    new("fragments", Axis::Length, |plan| plan.framing.is_fragmented = true),
    new("padding", Axis::Padding, |plan| plan.framing.is_padded = true),
    new("vlan", Axis::Vlan, |plan| plan.framing.vlans = [&[10], &[10]]),
    new("qinq", Axis::Vlan, |plan| plan.framing.vlans = [&[100, 7], &[100, 7]]),
    new("vlan-one-side", Axis::Vlan, |plan| plan.framing.vlans = [&[], &[20]]),
    new("qinq-one-side", Axis::Vlan, |plan| plan.framing.vlans = [&[200, 9], &[9]]),
    new("vlan-other-side", Axis::Vlan, |plan| plan.framing.vlans = [&[30], &[31]]),
    new("vlan-many", Axis::Vlan, |plan| {
        plan.framing.vlans = [&[50], &[]];
        plan.has_many_vlans = true;
    }),
    new("vlan-twins", Axis::Vlan, |plan| {
        plan.framing.vlans = [&[40], &[40]];
        plan.has_twin = true;
    }),
    new("tunnel-ip", Axis::Tunnel, |plan| plan.framing.tunnel = Some(Tunnel::Ip)),
    new("tunnel-gre", Axis::Tunnel, |plan| plan.framing.tunnel = Some(Tunnel::Gre)),
    new("tunnel-vxlan", Axis::Tunnel, |plan| plan.framing.tunnel = Some(Tunnel::Vxlan)),
    new("ipv4", Axis::Network, |plan| plan.is_v6 = Some(false)),
    new("ipv6", Axis::Network, |plan| plan.is_v6 = Some(true)),
    new("ipv6-extensions", Axis::Network, |plan| {
        plan.is_v6 = Some(true);
        plan.framing.has_extensions = true;
    }),
    new("file-cut-off", Axis::File, |plan| plan.is_cut_off = true),
    new("broken-frames", Axis::Broken, |plan| plan.has_broken_frames = true),
];

impl Dimension {
    /// Returns whether both can hold in one scenario.
    pub(crate) fn combines_with(&self, other: &Self) -> bool {
        self.axis != other.axis && !self.excludes(other) && !other.excludes(self)
    }

    fn excludes(&self, other: &Self) -> bool {
        use Axis::{
            Clock, Close, Contents, File, Length, Numbers, Opening, Phase, Reuse, Tunnel, View, Vlan,
        };
        let is_of_tcp = matches!(other.axis, Opening | Contents | Phase | Close | Reuse | Numbers);
        match self.name {
            "open-refused" | "open-scan" => matches!(other.axis, Contents | Phase | Close | Reuse | View),
            "reuse-after-refusal" | "reuse-after-scan" => {
                matches!(other.axis, Opening | Contents | Phase | Close | View)
            }
            "active-timeout-reset" if matches!(other.axis, Opening | Contents | Close | Reuse | View) => {
                true
            }
            // Without one of its SYNs, no end is the one that opens.
            "open-simultaneous" => other.axis == View,
            // Behind the first answer, which end opens is a matter of ports.
            "open-answered-anew" => {
                other.name == "tap-without-first" || other.name.starts_with("tap-known-ports")
            }
            // The connection stays open.
            "open-early-ack" if matches!(other.axis, View | Close | Reuse) => true,
            // It hides the time of a round trip.
            "open-swapped" | "open-early-ack" => {
                other.axis == View
                    || ["reordered", "reordered-late", "lost-fast", "http-shuffled", "tls-shuffled"]
                        .contains(&other.name)
            }
            // What is left of a datagram whose end is not in the file belongs to no flow.
            "fragments" => other.axis == File,
            "close-reset-at-edge" if other.name == "pause-beyond-timeout" => true,
            // Without its SYNs, a window is not known, and numbers near those of another connection
            // do not tell the two apart.
            "open-blind-reset"
            | "close-reset-outside"
            | "close-reset-at-edge"
            | "close-reset-in-flight"
            | "reuse-near"
            | "reuse-same" => other.axis == View || self.axis == Reuse && other.name == "close-never",
            // A connection that was not closed, and one whose ports are reused without a close.
            "reuse-without-close" => matches!(other.axis, Close | Numbers) || other.name == "tap-losses",
            // Without both SYNs, nothing tells the second connection.
            "reuse-after-close" | "reuse-turned" => matches!(other.name, "close-never" | "tap-losses"),
            // What is left of one datagram says nothing.
            "icmp-error" | "multicast" => is_of_tcp || other.axis == View,
            "udp" | "icmp-echo" | "sctp" => is_of_tcp || other.name.starts_with("tap-known-ports"),
            // What a meter can read of a message that was captured in part depends on the meter.
            "dns" | "dns-types" | "dns-many" | "dns-announced" | "quic" | "quic-2" | "quic-split"
            | "quic-coalesced" => {
                is_of_tcp
                    || matches!(other.axis, View | File)
                    || matches!(other.name, "snap-length" | "vlan-twins")
            }
            "dns-tcp" | "dns-tcp-cut" => {
                matches!(other.axis, View | Phase | Reuse)
                    || matches!(
                        other.name,
                        "snap-length"
                            | "close-half"
                            | "close-reset"
                            | "close-reset-in-flight"
                            | "close-reset-then-data"
                    )
            }
            _ if self.axis == Contents => other.axis == View || other.name == "snap-length",
            // A segment of more than 64 KiB fits no packet but a host's own.
            "offloaded" => other.axis == Tunnel || other.name == "fragments",
            // Fragments inside, and the tags of which packet a record tells, depend on the meter.
            _ if self.axis == Tunnel => matches!(other.axis, Length | Vlan),
            // Whether a step and a pause exceed the timeout depends on the clock of the meter.
            "pause-below-timeout"
            | "pause-beyond-timeout"
            | "active-timeout"
            | "active-timeout-both"
            | "active-timeout-reset" => {
                matches!(other.name, "clock-forward" | "clock-backward")
            }
            // Whether a segment came late or was sent again is a matter of less than a millisecond.
            _ if self.axis == Clock => {
                matches!(
                    other.name,
                    "reordered"
                        | "reordered-late"
                        | "lost-fast"
                        | "spurious"
                        | "http-shuffled"
                        | "tls-shuffled"
                )
            }
            // Without the acknowledgements or the SYN, a segment may be late or sent again.
            "lost-fast" | "spurious" | "reordered-late" => other.axis == View,
            _ => false,
        }
    }
}
