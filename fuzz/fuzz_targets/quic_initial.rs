//! Arbitrary datagrams, keys and frames of QUIC, and arbitrary DNS messages: readers of bytes that
//! nothing has checked end, and return bounded text.
#![no_main]

use flowloom_apps::accounting::fields::application::dns_names::{DnsNames, LIST_BYTES_MAX};
use flowloom_apps::accounting::fields::application::quic_initial::{InitialKeys, crypto_frames, packets};
use flowloom_apps::accounting::fields::application::tls_hello;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u8, Vec<u8>)| {
    let (kind, bytes) = input;
    let mut count = 0;
    for packet in packets(&bytes) {
        count += 1;
        let keys = InitialKeys::of_client(packet.version, packet.destination_id);
        if let Some(frames) = keys.and_then(|keys| packet.decrypt(&keys)) {
            assert!(frames.len() < bytes.len());
        }
    }
    assert!(count <= bytes.len() / 8);
    // Frames and messages that no tag protects.
    let mut data = 0;
    crypto_frames(&bytes, |_, frame| data += frame.len());
    assert!(data <= bytes.len());
    let _ = tls_hello::read_message(&bytes, kind & 1 != 0, true);
    let mut names = DnsNames::default();
    names.add(&bytes, kind & 2 != 0);
    names.add(&bytes, kind & 4 != 0);
    assert!(names.questions().len() <= LIST_BYTES_MAX && names.answers().len() <= LIST_BYTES_MAX);
});
