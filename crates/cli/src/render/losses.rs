//! What captures say about their own losses.

use flowloom::traffic::capture::InterfaceLosses;
use schemars::JsonSchema;
use serde::Serialize;

use super::grouped;

/// What an interface lost while its packets were captured, as far as the capture says it.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct LossFigures {
    /// Name of the interface, or its number in the capture.
    interface: String,
    /// Packets that it received; absent if the capture does not say it, like the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    received: Option<u64>,
    /// Packets that the interface dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped_by_interface: Option<u64>,
    /// Packets that the operating system dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped_by_system: Option<u64>,
    /// Sum of the packets lost before each packet of the capture.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped_before_packets: Option<u64>,
    /// Packets lost: those dropped by interface and system, or the sum before packets if larger.
    lost: u64,
}

impl LossFigures {
    pub(crate) fn list(losses: &[InterfaceLosses]) -> Vec<Self> {
        let figures = |one: &InterfaceLosses| Self {
            interface: name(one),
            received: one.received,
            dropped_by_interface: one.dropped_by_interface,
            dropped_by_system: one.dropped_by_system,
            dropped_before_packets: one.dropped_before_packets,
            lost: one.lost(),
        };
        losses.iter().map(figures).collect()
    }

    /// Returns a line per interface of a capture that lost packets, of the first ones.
    pub(crate) fn lines(losses: &[Self]) -> impl Iterator<Item = String> {
        losses.iter().filter(|one| one.lost > 0).take(8).map(|one| {
            let parts = [
                ("received", one.received),
                ("dropped by the interface", one.dropped_by_interface),
                ("dropped by the system", one.dropped_by_system),
                ("dropped before packets", one.dropped_before_packets),
            ];
            let parts =
                parts.into_iter().filter_map(|(what, count)| Some(format!("{what} {}", grouped(count?))));
            format!(
                "Lost        {} by the capture on interface {}   {}",
                super::counted(one.lost, "packet"),
                one.interface,
                parts.collect::<Vec<_>>().join("   ")
            )
        })
    }
}

/// Returns the name of an interface, or its number.
pub(crate) fn name(losses: &InterfaceLosses) -> String {
    match losses.name.as_str() {
        Some(name) => name.to_owned(),
        None if losses.number == u32::MAX => String::from("undeclared"),
        None => losses.number.to_string(),
    }
}
