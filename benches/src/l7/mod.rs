//! The L7 filter: its speed compared with vectorscan, and its labels compared with tshark, on the
//! same captures.

pub mod labels;
pub mod payloads;
pub mod speed;
