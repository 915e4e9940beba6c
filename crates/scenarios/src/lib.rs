#![doc = include_str!("../README.md")]
#![expect(
    clippy::cast_possible_truncation,
    reason = "header fields are cut from wider numbers that fit them"
)]

mod answers;
mod capture;
mod contents;
mod dimension;
mod dns;
mod frame;
mod hello;
mod quic;
mod random;
mod scenario;
mod script;
mod tcp;

pub use capture::Packet;
pub use scenario::{COMBINED_MAX, Scenario};

/// Returns the document that describes the scenarios of a seed: the dimensions, and the settings
/// under which the answers hold.
///
/// # Examples
///
/// ```
/// let manifest = flowloom_scenarios::manifest(1, 1000, 2, false);
/// assert!(manifest.contains("\"scenarios\": 1000"));
/// ```
pub fn manifest(seed: u64, count: u64, combined: usize, is_pcapng: bool) -> String {
    let dimensions: Vec<&str> = dimension::DIMENSIONS.iter().map(|dimension| dimension.name).collect();
    let format = if is_pcapng { "pcapng" } else { "pcap" };
    format!(
        "{{\n  \"schema\": \"flowloom/scenarios/1\",\n  \"seed\": {seed},\n  \"scenarios\": {count},\n  \
         \"combined\": {combined},\n  \"format\": \"{format}\",\n  \"idle_timeout_s\": {},\n  \"dimensions\": {dimensions:?}\n}}\n",
        answers::IDLE_TIMEOUT_S
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_fixes_every_byte() {
        let mut digest = 0xCBF2_9CE4_8422_2325_u64;
        for index in 0..200 {
            let scenario = Scenario::new(7, index, 2);
            for byte in
                [scenario.capture(false), scenario.capture(true), scenario.answers().into()].concat()
            {
                digest = (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
            }
        }
        assert_eq!(
            digest, 7_441_861_981_463_130_479,
            "another machine, or another generator: its seeds mean other bytes"
        );
    }

    #[test]
    fn every_dimension_occurs_alone_and_in_pairs() {
        let scenarios: Vec<_> = (0..3000).map(|index| Scenario::new(3, index, 2)).collect();
        for dimension in dimension::DIMENSIONS {
            let with = |count: usize| {
                let has = |scenario: &&Scenario| scenario.dimensions().contains(&dimension.name);
                scenarios.iter().filter(|scenario| scenario.dimensions().len() == count).filter(has).count()
            };
            assert_eq!(with(1), 1, "{}", dimension.name);
            assert!(with(2) > 3, "{}: {}", dimension.name, with(2));
        }
    }

    #[test]
    fn stamps_go_back_only_where_the_clock_does() {
        for index in 0..500 {
            let scenario = Scenario::new(5, index, 2);
            let is_ordered = scenario.packets().is_sorted_by_key(|packet| packet.stamp_ns);
            let has = |name| scenario.dimensions().contains(&name);
            // A nudge is shorter than some pauses between packets.
            assert!(is_ordered != has("clock-backward") || has("clock-nudge"), "{}", scenario.name());
        }
    }
}
