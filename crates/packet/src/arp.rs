//! ARP for an appliance that has an IPv4 address of its own on a wire [RFC 826].

use std::net::Ipv4Addr;

const ETHERNET_BYTES: usize = 14;
/// A question for the station of an IPv4 address, from the Ethertype on: Ethernet, IPv4, sizes of
/// their addresses, operation 1.
const REQUEST: [u8; 10] = [0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1];
const REPLY: u8 = 2;
const BROADCAST: [u8; 6] = [0xFF; 6];
/// Bytes of the two pairs of station and address.
const PAIRS_BYTES: usize = 20;

/// Returns the answer to an untagged Ethernet frame that asks for `address`: `station` has it.
/// Returns `None` for any other frame.
///
/// # Examples
///
/// ```
/// # use std::net::Ipv4Addr;
/// let asker = [2, 0, 0, 0, 0, 1];
/// let mut frame = [[0xFF; 6], asker].concat();
/// frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
/// frame.extend(asker);
/// frame.extend([10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 9]);
/// let station = [2, 0, 0, 0, 0, 9];
/// let answer = flowloom_packet::arp::answer(&frame, Ipv4Addr::new(10, 0, 0, 9), station).unwrap();
/// assert_eq!((&answer[..6], &answer[6..12]), (&asker[..], &station[..]));
/// assert!(flowloom_packet::arp::answer(&frame, Ipv4Addr::new(10, 0, 0, 8), station).is_none());
/// ```
#[must_use]
pub fn answer(frame: &[u8], address: Ipv4Addr, station: [u8; 6]) -> Option<Vec<u8>> {
    let request = frame.get(ETHERNET_BYTES - 2..)?.strip_prefix(&REQUEST)?.get(..PAIRS_BYTES)?;
    let (asker, asked) = request.split_at(PAIRS_BYTES / 2);
    if asked[6..] != address.octets() {
        return None;
    }
    let mut answer = [&asker[..6], &station, &REQUEST].concat();
    answer[ETHERNET_BYTES - 2 + REQUEST.len() - 1] = REPLY;
    answer.extend(station.iter().chain(&address.octets()).chain(asker));
    Some(answer)
}

/// Returns a frame by which `station`, with the address `sender`, asks all stations for the one
/// that has `target`.
///
/// # Examples
///
/// ```
/// # use std::net::Ipv4Addr;
/// use flowloom_packet::arp;
/// let [we, server] = [9, 1].map(|last| Ipv4Addr::new(10, 0, 0, last));
/// let request = arp::request(we, [2; 6], server);
/// let answer = arp::answer(&request, server, [4; 6]).unwrap();
/// assert_eq!(arp::sender(&answer), Some((server, [4; 6])));
/// ```
#[must_use]
pub fn request(sender: Ipv4Addr, station: [u8; 6], target: Ipv4Addr) -> Vec<u8> {
    let mut frame = [&BROADCAST[..], &station, &REQUEST, &station, &sender.octets()].concat();
    frame.extend([0; 6].iter().chain(&target.octets()));
    frame
}

/// Returns the address and the station of the sender of an untagged ARP request or reply, or `None`
/// for any other frame. Anybody on the wire can send a reply: check that you have asked.
#[must_use]
pub fn sender(frame: &[u8]) -> Option<(Ipv4Addr, [u8; 6])> {
    let (head, rest) = frame.get(ETHERNET_BYTES - 2..)?.split_at_checked(REQUEST.len())?;
    let (operation, kind) = head.split_last()?;
    let is_arp = REQUEST.starts_with(kind) && matches!(*operation, 1 | REPLY);
    let pairs = rest.get(..PAIRS_BYTES).filter(|_| is_arp)?;
    let address: [u8; 4] = pairs[6..10].try_into().ok()?;
    Some((address.into(), pairs[..6].try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn only_requests_and_replies_have_a_sender(
            mut frame in prop::collection::vec(any::<u8>(), 30..60), operation in 0_u8..4, is_arp: bool
        ) {
            if is_arp {
                frame[12..22].copy_from_slice(&REQUEST);
                frame[21] = operation;
            }
            let expected = (frame.len() >= 42 && is_arp && matches!(operation, 1 | 2)).then(|| {
                (Ipv4Addr::new(frame[28], frame[29], frame[30], frame[31]), frame[22..28].try_into().unwrap())
            });
            prop_assert_eq!(sender(&frame), expected);
        }

        #[test]
        fn arp_reply_answers_only_requests_for_the_address(
            mut frame in prop::collection::vec(any::<u8>(), 0..80), asks: bool, address: [u8; 4], cut in 0_usize..80
        ) {
            if asks && frame.len() >= 42 {
                frame[12..22].copy_from_slice(&REQUEST);
                frame[38..42].copy_from_slice(&address);
            }
            frame.truncate(cut.max(42));
            let answer = answer(&frame, address.into(), [2; 6]);
            let is_request = frame.len() >= 42 && frame[12..22] == REQUEST && frame[38..42] == address;
            prop_assert_eq!(answer.is_some(), is_request);
            if let Some(answer) = answer {
                prop_assert_eq!(answer.len(), 42);
                prop_assert_eq!(&answer[..6], &frame[22..28], "to the asker");
                prop_assert_eq!(&answer[20..22], &[0, 2]);
                prop_assert_eq!(&answer[22..32], &[&[2; 6], &address[..]].concat()[..]);
                prop_assert_eq!(&answer[32..42], &frame[22..32]);
            }
        }
    }
}
