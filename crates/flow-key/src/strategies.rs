//! Strategies that generate five-tuples and keys for property tests.

use proptest::prelude::*;

use crate::{FiveTuple, FlowKey};

/// Returns five-tuples of both families, from few hosts and ports so that flows repeat.
pub fn five_tuple() -> impl Strategy<Value = FiveTuple> {
    let protocol = prop_oneof![Just(6_u8), Just(17), Just(132), Just(1), any::<u8>()];
    let port = prop_oneof![0_u16..16, any::<u16>()];
    let host = prop_oneof![0_u32..16, any::<u32>()];
    (any::<bool>(), host.clone(), host, port.clone(), port, protocol).prop_map(
        |(v6, source, destination, source_port, destination_port, protocol)| {
            if v6 {
                let wide = |a: u32| (u128::from(a) << 96 | u128::from(!a)).to_be_bytes();
                FiveTuple::v6(wide(source), wide(destination), source_port, destination_port, protocol)
            } else {
                FiveTuple::v4(
                    source.to_be_bytes(),
                    destination.to_be_bytes(),
                    source_port,
                    destination_port,
                    protocol,
                )
            }
        },
    )
}

/// Returns canonical keys, some of them in a zone.
pub fn flow_key() -> impl Strategy<Value = FlowKey> {
    (five_tuple(), prop_oneof![Just(0_u32), 1_u32..4]).prop_map(|(t, zone)| t.canonical().0.with_zone(zone))
}
