//! Properties of every frame: generated, truncated, damaged, or random bytes.
#![cfg(feature = "proptest")]

use flowloom_packet::decode::decode_layered;
use flowloom_packet::icmp::{MessageKind, message_kind};
use flowloom_packet::strategies::{Frame, frame};
use flowloom_packet::{DecodeOptions, Headers, LinkType, decode};
use proptest::prelude::*;
use proptest::sample::Index;

mod oracle;

const OPTIONS: [DecodeOptions; 2] = [DecodeOptions::new(), DecodeOptions::new().with_decap(true)];

/// Decodes through the fast path and through the layers, with both options. Checks that they agree
/// and that offsets lie within the bytes.
fn check(link: LinkType, bytes: &[u8]) -> Result<(), TestCaseError> {
    for options in OPTIONS {
        let decoded = decode(link, bytes, options);
        prop_assert_eq!(decoded, decode_layered(link, bytes, options));
        if let Ok(headers) = decoded {
            let offsets = [headers.network_offset, headers.transport_offset, headers.payload_offset];
            prop_assert!(
                offsets.is_sorted() && headers.payload_offset as usize <= bytes.len(),
                "{:?}",
                headers
            );
        }
    }
    Ok(())
}

fn decoded(frame: &Frame) -> Headers {
    decode(frame.link, &frame.bytes, DecodeOptions::default()).expect("the frame is valid")
}

proptest! {
    #[test]
    fn a_valid_frame_is_read_as_it_was_built(frame in frame()) {
        let headers = decoded(&frame);
        prop_assert_eq!(headers.tuple(), frame.tuple);
        match frame.vlans[..] {
            [] => prop_assert_eq!(headers.key.zone(), 0),
            [id] => prop_assert_eq!(headers.key.zone(), u32::from(id)),
            [outer, inner] => prop_assert_eq!(headers.key.zone(), u32::from(outer) << 12 | u32::from(inner)),
            _ => prop_assert!(headers.key.zone() >> 31 == 1),
        }
        prop_assert_eq!(headers.tcp_flags, frame.tcp_flags);
        prop_assert_eq!(headers.later_fragment, frame.later_fragment);
        prop_assert_eq!(headers.network_offset as usize, frame.network_offset);
        prop_assert_eq!(headers.transport_offset as usize, frame.transport_offset);
        prop_assert_eq!(headers.payload_offset as usize, frame.payload_offset);
        prop_assert_eq!(headers.payload_bytes as usize, frame.payload_bytes);
    }

    #[test]
    fn every_prefix_is_decoded_or_has_a_reason(frame in frame()) {
        for length in 0..=frame.bytes.len() {
            check(frame.link, &frame.bytes[..length])?;
            let prefix = decode(frame.link, &frame.bytes[..length], DecodeOptions::default());
            match prefix {
                // A prefix has the frame's key or none, never another key.
                Ok(headers) => prop_assert_eq!(headers.key, decoded(&frame).key),
                Err(reason) => prop_assert!(reason.is_truncated(), "{} of {length} bytes", reason.name()),
            }
        }
    }

    #[test]
    fn fast_and_slow_path_agree_on_damaged_frames(frame in frame(), damage in proptest::collection::vec((any::<Index>(), any::<u8>()), 1..5)) {
        let mut bytes = frame.bytes.clone();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        check(frame.link, &bytes)?;
    }

    #[test]
    fn any_bytes_are_decoded_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for link in LinkType::supported() {
            check(link, &bytes)?;
        }
    }

    #[test]
    fn both_directions_have_one_key(frame in frame()) {
        let (there, back) = (decoded(&frame), decoded(&frame.reversed()));
        let (key, is_to_itself) = (there.key, frame.tuple.source == frame.tuple.destination);
        // ICMP errors have no answers: both directions differ in the sender.
        let icmp_type = (key.message() >> 8) as u8;
        let is_error = key.message() != 0 && message_kind(key.protocol(), icmp_type) == MessageKind::Alone;
        prop_assert_eq!(key == back.key, !is_error || is_to_itself);
        prop_assert_eq!(key.with_message(key.message(), back.key.query_direction()), back.key);
        prop_assert_eq!(back.tuple(), frame.tuple.reversed());
        if frame.tuple != frame.tuple.reversed() {
            prop_assert_eq!(there.direction.reversed(), back.direction);
        }
    }

    #[test]
    fn a_second_decoder_agrees(frame in frame()) {
        if let Some(theirs) = oracle::tuple(frame.link, &frame.bytes) {
            let ours = decoded(&frame).tuple();
            prop_assert!(
                ours == theirs || frame.first_fragment || oracle::explanation(ours, theirs).is_some(),
                "{:?}, etherparse {:?}", ours, theirs
            );
        }
    }
}
