//! The L7 filter: its speed beside vectorscan's, and its labels beside tshark's, over the same
//! captures.

pub mod labels;
pub mod payloads;
pub mod speed;
