//! Arbitrary text as a packet filter, on arbitrary bytes of any link type: no panic, and an error
//! lies within the text.
#![no_main]

use flowloom_filter::PacketFilter;
use flowloom_packet::LinkType;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, u16, &[u8])| {
    let (text, link, frame) = input;
    match PacketFilter::parse(text) {
        Ok(mut filter) => {
            for link in [LinkType(link), LinkType::ETHERNET, LinkType::RAW] {
                let _ = filter.matches(link, frame, frame.len() as u32);
            }
        }
        Err(error) => assert!(error.at <= text.len()),
    }
});
