//! Names of ports on devices of Cisco.

use flowloom_flow_key::protocol::service;

use crate::rule::decimal;

/// Returns a port by its number, or by its name in lower case.
pub(super) fn port(word: &str) -> Option<u128> {
    decimal::<u16>(word).or_else(|| service(word)).map(u128::from)
}
