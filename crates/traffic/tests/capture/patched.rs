//! Captures that patched versions of libpcap wrote.

use super::read_all_ways;

#[test]
fn patched_headers_are_recognised_however_the_file_is_read() {
    for (magic, extra) in [(0xA1B2_C3D4_u32, 0), (0xA1B2_C3D4, 4), (0xA1B2_C3D4, 8), (0xA1B2_CD34, 12)] {
        let word = u32::to_le_bytes;
        let mut bytes = [&word(magic)[..], &[2, 0, 4, 0], &[0; 8], &word(65_535), &word(1)].concat();
        for second in 0..40 {
            bytes.extend([word(1_000 + second), word(5), word(60 + second), word(60 + second)].concat());
            bytes.extend(vec![0x5A; extra]);
            bytes.extend((0..60 + second).map(|at| (at * 37 + 11).to_le_bytes()[0]));
        }
        let (packets, notice) = read_all_ways(&bytes).unwrap();
        assert_eq!((packets.len(), notice), (40, None), "{extra} bytes");
        assert!(packets.iter().all(|packet| packet.bytes[..2] == [11, 48]), "{extra} bytes");
        for end in (24..300).step_by(13) {
            read_all_ways(&bytes[..end]);
        }
        for place in 24..300 {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x80;
            read_all_ways(&damaged);
        }
    }
}
