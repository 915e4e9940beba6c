//! Live ports on Linux. Each port is a source and a sink of frames, for one queue.
//!
//! | type | frames | needs |
//! | --- | --- | --- |
//! | [`InterfaceSource`] | of any interface or all, to capture only | `CAP_NET_RAW` |
//! | [`PacketPort`] | of any interface, copied once by the kernel each way | `CAP_NET_RAW` |
//! | [`XdpWire`] | of two interfaces, in memory that both share: what passes is not copied |
//! `CAP_NET_ADMIN`, `CAP_BPF`, `CAP_NET_RAW` |
//! | [`NfqueueWire`] | packets for which a rule of the kernel's firewall asks | `CAP_NET_ADMIN` |
//! | [`TapPort`] | of an interface that the process makes | `CAP_NET_ADMIN` |
//!
//! [`PortWire`] joins ports to a [`Wire`](flowloom_packet::wire::Wire), which an engine runs. A
//! port waits on a descriptor when no frame arrives. When the process ends for any reason, the
//! kernel removes its rings, programs on interfaces, and promiscuous mode.
//!
//! On systems other than Linux the crate is empty.

#![cfg(target_os = "linux")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "numbers of frames, ports and descriptors, which are small and not negative"
)]

mod af_packet;
mod capture;
mod error;
mod nfqueue;
mod port;
mod ring;
mod sys;
mod tap;
mod wire;
mod xdp;

pub use af_packet::{PacketOptions, PacketPort};
pub use capture::{CaptureOptions, InterfaceSource};
pub use error::IoError;
pub use nfqueue::{NfqueueOptions, NfqueueWire};
pub use port::{Offload, Port, PortFrame};
pub use tap::TapPort;
pub use wire::PortWire;
pub use xdp::{XdpMode, XdpOptions, XdpWire};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
