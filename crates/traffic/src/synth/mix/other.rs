//! Frames other than IP, which belong to no flow: ARP, LLDP, spanning tree.

/// Number of senders of these frames, each with its own pace.
pub(super) const SENDERS: u64 = 4;

const BROADCAST: [u8; 6] = [0xFF; 6];
const SWITCH: [u8; 6] = [0x02, 0, 0, 0, 0, 0xFE];

/// Replaces the contents of `frame` by a frame of a sender (below [`SENDERS`]). `word` varies the
/// contents.
pub(super) fn write(frame: &mut Vec<u8>, sender: u64, word: u64) {
    frame.clear();
    match sender {
        0 | 1 => arp(frame, sender == 1, word),
        2 => lldp(frame, word),
        _ => spanning_tree(frame, word),
    }
}

fn arp(frame: &mut Vec<u8>, reply: bool, word: u64) {
    let host = [0x02, 0, 10, 0, (word >> 8) as u8, word as u8];
    let (asked, asker) = ([10, 0, 0, 1], [10, 0, host[4], host[5]]);
    frame.extend_from_slice(if reply { &host } else { &BROADCAST });
    let sender = if reply { SWITCH } else { host };
    frame.extend_from_slice(&sender);
    frame.extend_from_slice(&[0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, if reply { 2 } else { 1 }]);
    frame.extend_from_slice(&sender);
    frame.extend_from_slice(if reply { &asked } else { &asker });
    frame.extend_from_slice(if reply { &host } else { &[0; 6] });
    frame.extend_from_slice(if reply { &asker } else { &asked });
}

fn lldp(frame: &mut Vec<u8>, word: u64) {
    frame.extend_from_slice(&[0x01, 0x80, 0xC2, 0, 0, 0x0E]);
    frame.extend_from_slice(&SWITCH);
    frame.extend_from_slice(&[0x88, 0xCC]);
    // Chassis by address, port by name, time to live, end.
    frame.extend_from_slice(&[0x02, 7, 4]);
    frame.extend_from_slice(&SWITCH);
    frame.extend_from_slice(&[0x04, 4, 5, b'p', b'0', b'0' + (word % 10) as u8, 0x06, 2, 0, 120, 0, 0]);
}

fn spanning_tree(frame: &mut Vec<u8>, word: u64) {
    frame.extend_from_slice(&[0x01, 0x80, 0xC2, 0, 0, 0]);
    frame.extend_from_slice(&SWITCH);
    // 802.3: a length field in place of a type, then LLC.
    frame.extend_from_slice(&[0, 38, 0x42, 0x42, 0x03, 0, 0, 0, 0, 0]);
    // Root, cost of the path to it, bridge, port; age, greatest age, interval, delay.
    frame.extend_from_slice(&[0x80, 0]);
    frame.extend_from_slice(&SWITCH);
    frame.extend_from_slice(&[0, 0, 0, 0, 0x80, 0]);
    frame.extend_from_slice(&SWITCH);
    frame.extend_from_slice(&[0x80, 1 + (word % 8) as u8, 0, 0, 20, 0, 2, 0, 15, 0]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_as_long_as_their_formats_say() {
        let mut frame = Vec::new();
        for (sender, bytes) in [(0, 42), (1, 42), (2, 14 + 9 + 6 + 4 + 2), (3, 14 + 38)] {
            write(&mut frame, sender, 0x1230 + sender);
            assert_eq!(frame.len(), bytes, "sender {sender}");
        }
    }
}
