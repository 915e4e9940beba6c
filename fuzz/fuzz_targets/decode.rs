//! Any bytes behind any link layer: no panic, offsets within the bytes, and the shortcut agrees
//! with the layers.
#![no_main]

use flowloom_packet::decode::decode_layered;
use flowloom_packet::{DecodeOptions, LinkType, PacketView, decode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // The first byte chooses the link layer, the second one the options; the rest is the frame.
    let Some((&[which, options], frame)) = data.split_first_chunk() else { return };
    let links: Vec<LinkType> = LinkType::supported().collect();
    let link = links[usize::from(which) % links.len()];
    let options = DecodeOptions::new().with_decap(options & 1 == 1);
    let decoded = decode(link, frame, options);
    assert_eq!(decoded, decode_layered(link, frame, options));
    if let Ok(headers) = decoded {
        assert!(headers.network_offset <= headers.transport_offset);
        assert!(headers.transport_offset <= headers.payload_offset);
        assert!(headers.payload_offset as usize <= frame.len());
        assert_eq!(headers.tuple().canonical().0, headers.key.with_zone(0));
        // As long as its record, or cut.
        for more in [0, 1000] {
            let wire_bytes = frame.len() as u32 + more;
            let view = PacketView::new(frame, headers, 0, wire_bytes);
            assert!(view.ip_bytes() as usize >= view.payload().len());
        }
    }
});
