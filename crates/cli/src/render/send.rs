//! The result of `send`.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Report, bytes, counted, grouped};
use flowloom_measure::rows::Tool;

/// Packets of captures sent by an interface. Numbers are in base units: packets, bytes,
/// nanoseconds.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct SendResult {
    pub(crate) schema: &'static str,
    /// The program.
    pub(crate) tool: Tool,
    /// The interface.
    pub(crate) interface: String,
    /// Number of packets in the captures.
    pub(crate) packets: u64,
    /// Packets sent.
    pub(crate) sent: u64,
    /// Bytes of these packets.
    pub(crate) sent_bytes: u64,
    /// Packets that the interface refused.
    pub(crate) refused: u64,
    /// Packets that the captures contain only in part, which are not sent.
    pub(crate) cut: u64,
    /// Packets whose link type is not Ethernet, which are not sent.
    pub(crate) other_link: u64,
    /// The longest delay of a packet after its due time.
    pub(crate) late_ns_max: u64,
    /// Duration of sending.
    pub(crate) seconds: f64,
}

impl Report for SendResult {
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (count, what) in [
            (self.refused, "refused by the interface: it is down, its queue is full, or they are too long"),
            (self.cut, "not sent: truncated in the capture"),
            (self.other_link, "not sent: not Ethernet"),
        ] {
            if count > 0 {
                lines.push(format!("Left out    {}   {what}", counted(count, "packet")));
            }
        }
        let rate = |count: u64| if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 };
        lines.push(format!(
            "Sent        {} of {} by {}   {} in {:.3} s   {} packets/s   {:.3} Gbit/s   at most {} µs late",
            grouped(self.sent),
            counted(self.packets, "packet"),
            self.interface,
            bytes(self.sent_bytes),
            self.seconds,
            grouped(rate(self.sent) as u64),
            rate(self.sent_bytes) * 8.0 / 1e9,
            grouped(self.late_ns_max / 1000)
        ));
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let names = ["packets", "sent", "sent_bytes", "refused", "cut", "other_link", "late_ns_max"];
        let values = [
            self.packets, self.sent, self.sent_bytes, self.refused, self.cut, self.other_link,
            self.late_ns_max,
        ];
        vec![names.map(String::from).to_vec(), values.iter().map(ToString::to_string).collect()]
    }
}
