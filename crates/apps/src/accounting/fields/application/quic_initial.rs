//! The handshake data in Initial packets of QUIC clients [RFC 9001 §5, RFC 9369 §3.3].
//!
//! ```text
//!  flags version │ destination ID │ source ID │ token │ length │ number │ frames │ tag
//!  └──────────────────────── authenticated ───────────────────────────┘ └ cipher ┘
//!  protected: four bits of the flags, and the number
//! ```
//!
//! The keys follow from the version and the destination ID of the client's first Initial packet, so
//! everyone on the path can read these packets. The tag shows whether keys fit.

use std::fmt;
use std::ops::Range;

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt as _, KeyInit as _};
use aes_gcm::{AeadInOut as _, Aes128Gcm};
use hkdf::Hkdf;
use sha2::Sha256;

use super::cursor::Cursor;

/// Maximum length of a connection ID, in bytes.
const ID_BYTES_MAX: usize = 20;
const TAG_BYTES: usize = 16;
const VERSION_2: u32 = 0x6B33_43CF;
/// Google's versions with TLS.
const T050: u32 = 0x5430_3530;
const T051: u32 = 0x5430_3531;

/// The keys of a client's Initial packets.
#[derive(Clone, PartialEq, Eq)]
pub struct InitialKeys {
    key: [u8; 16],
    iv: [u8; 12],
    header: [u8; 16],
}

impl fmt::Debug for InitialKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InitialKeys").finish_non_exhaustive()
    }
}

impl InitialKeys {
    /// Returns the keys for a destination ID, or `None` for a version whose keys are not known:
    /// known are 1, 2, the drafts from 21 on, and those of Google and Meta with TLS.
    #[must_use]
    pub fn of_client(version: u32, destination_id: &[u8]) -> Option<Self> {
        let (salt, last): (u128, u32) = match version {
            1 | 0xFF00_0021..=0xFF00_0022 => (0x3876_2CF7_F559_34B3_4D17_9AE6_A4C8_0CAD, 0xCCBB_7F0A),
            VERSION_2 => (0x0DED_E3DE_F700_A6DB_8193_81BE_6E26_9DCB, 0xF9BD_2ED9),
            T051 => (0x7A4E_DEF4_E7CC_EE5F_A450_6C19_124F_C8CC, 0xDA6E_033D),
            T050 => (0x7FF5_79E5_ACD0_7291_5580_304C_43A2_367C, 0x6048_8310),
            0xFF00_001D..=0xFF00_0020 => (0xAFBF_EC28_9993_D24C_9E97_86F1_9C61_11E0, 0x4390_A899),
            0xFF00_0017..=0xFF00_001C | 0xFACE_B002 | 0xFACE_B00E => {
                (0xC3EE_F712_C72E_BB5A_11A7_D243_2BB4_6365, 0xBEF9_F502)
            }
            0xFF00_0015..=0xFF00_0016 | 0xFACE_B001 => {
                (0x7FBC_DB0E_7C66_BBE9_193A_96CD_2151_9EBD, 0x7A02_644A)
            }
            // Reserved versions, which a client offers to be refused, have the keys of draft 29.
            _ if version & 0x0F0F_0F0F == 0x0A0A_0A0A => {
                (0xAFBF_EC28_9993_D24C_9E97_86F1_9C61_11E0, 0x4390_A899)
            }
            _ => return None,
        };
        let salt = [&salt.to_be_bytes()[..], &last.to_be_bytes()].concat();
        let labels: [&[u8]; 3] = match version {
            VERSION_2 => [b"quicv2 key", b"quicv2 iv", b"quicv2 hp"],
            _ => [b"quic key", b"quic iv", b"quic hp"],
        };
        let mut secret = [0; 32];
        expand(&Hkdf::new(Some(&salt), destination_id), b"client in", &mut secret);
        // The secret has the length of a digest.
        let client = Hkdf::from_prk(&secret).ok()?;
        let mut keys = Self { key: [0; 16], iv: [0; 12], header: [0; 16] };
        expand(&client, labels[0], &mut keys.key);
        expand(&client, labels[1], &mut keys.iv);
        expand(&client, labels[2], &mut keys.header);
        Some(keys)
    }
}

/// HKDF-Expand-Label of TLS 1.3 without a context [RFC 8446 §7.1].
fn expand(secret: &Hkdf<Sha256>, label: &[u8], out: &mut [u8]) {
    const PREFIX: &[u8] = b"tls13 ";
    let [out_bytes, label_bytes] =
        [out.len(), PREFIX.len() + label.len()].map(|bytes| bytes.to_le_bytes()[0]);
    let info = [&[0, out_bytes, label_bytes], PREFIX, label, &[0]].concat();
    // It fails for more than 255 digests only.
    let _ = secret.expand(&info, out);
}

/// An Initial packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitialPacket<'a> {
    /// The version.
    pub version: u32,
    /// The connection ID that its receiver chose, or in a client's first packets a random one.
    pub destination_id: &'a [u8],
    /// The packet from its first byte to its tag.
    bytes: &'a [u8],
    /// The offset of the packet number.
    number_offset: usize,
}

/// Returns the Initial packets of a datagram, which may contain several packets. Ends at the first
/// packet that is not whole.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::fields::application::quic_initial::packets;
/// let datagram = b"\xC0\0\0\0\x01\x01A\0\0\x02..";
/// assert_eq!(packets(datagram).map(|packet| packet.destination_id).collect::<Vec<_>>(), [b"A"]);
/// ```
pub fn packets(datagram: &[u8]) -> impl Iterator<Item = InitialPacket<'_>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        loop {
            let (packet, behind) = next_packet(rest)?;
            rest = behind;
            if packet.is_some() {
                return packet;
            }
        }
    })
}

/// Reads a packet with a long header and a length. Returns it if it is an Initial one, and the
/// bytes behind it.
fn next_packet(bytes: &[u8]) -> Option<(Option<InitialPacket<'_>>, &[u8])> {
    let mut cursor = Cursor::new(bytes);
    let flags = cursor.u8()?;
    let version = u32::from(cursor.u16()?) << 16 | u32::from(cursor.u16()?);
    // The types of version 2 are those of version 1 plus one.
    let kind = (flags >> 4).wrapping_sub(u8::from(version == VERSION_2)) & 3;
    // Retry, the last type, has no length.
    if flags & 0x80 == 0 || version == 0 || kind == 3 {
        return None;
    }
    let [destination_id, source_id] = [cursor.list8()?.rest(), cursor.list8()?.rest()];
    if destination_id.len() > ID_BYTES_MAX || source_id.len() > ID_BYTES_MAX {
        return None;
    }
    if kind == 0 {
        let token_bytes = number(&mut cursor)?;
        cursor.bytes(usize::try_from(token_bytes).ok()?)?;
    }
    let length = usize::try_from(number(&mut cursor)?).ok()?;
    let number_offset = bytes.len() - cursor.rest().len();
    let end = number_offset.checked_add(length)?;
    let (bytes, behind) = bytes.split_at_checked(end)?;
    let packet = InitialPacket { version, destination_id, bytes, number_offset };
    Some(((kind == 0).then_some(packet), behind))
}

/// Reads a number of one to eight bytes [RFC 9000 §16].
fn number(cursor: &mut Cursor<'_>) -> Option<u64> {
    let first = cursor.u8()?;
    let more = cursor.bytes((1 << (first >> 6)) - 1)?;
    Some(more.iter().fold(u64::from(first & 0x3F), |number, byte| number << 8 | u64::from(*byte)))
}

impl InitialPacket<'_> {
    /// Returns the packet's frames, or `None` if the keys do not fit.
    #[must_use]
    pub fn decrypt(&self, keys: &InitialKeys) -> Option<Vec<u8>> {
        let mut bytes = self.bytes.to_vec();
        let content = unprotect(&mut bytes, self.number_offset, keys)?;
        let nonce = nonce(&bytes[self.number_offset..content.start], keys);
        let (header, rest) = bytes.split_at_mut(content.start);
        let (frames, tag) = rest.split_at_mut(content.len());
        let tag: [u8; TAG_BYTES] = (&*tag).try_into().ok()?;
        let cipher = Aes128Gcm::new(&keys.key.into());
        cipher.decrypt_inout_detached(&nonce.into(), header, frames.into(), &tag.into()).ok()?;
        bytes.truncate(content.end);
        bytes.drain(..content.start);
        Some(bytes)
    }
}

/// Removes the protection of the header [RFC 9001 §5.4]. Returns where the encrypted frames are, or
/// `None` if the packet is too short.
fn unprotect(bytes: &mut [u8], number_offset: usize, keys: &InitialKeys) -> Option<Range<usize>> {
    let mask = mask(bytes, number_offset, keys)?;
    bytes[0] ^= mask[0] & 0x0F;
    let begin = number_offset + usize::from(bytes[0] & 3) + 1;
    for (byte, mask) in bytes[number_offset..begin].iter_mut().zip(&mask[1..]) {
        *byte ^= mask;
    }
    let end = bytes.len().checked_sub(TAG_BYTES).filter(|end| *end >= begin)?;
    Some(begin..end)
}

fn mask(bytes: &[u8], number_offset: usize, keys: &InitialKeys) -> Option<[u8; 16]> {
    // The sample begins where the frames would after a number of four bytes.
    let sample: [u8; 16] = bytes.get(number_offset + 4..number_offset + 20)?.try_into().ok()?;
    let mut block = sample.into();
    Aes128::new(&keys.header.into()).encrypt_block(&mut block);
    Some(block.into())
}

/// Returns the nonce for a packet number. The number is taken as it is in the packet: a client
/// leaves out none of its bytes before the server has acknowledged another packet.
fn nonce(number: &[u8], keys: &InitialKeys) -> [u8; 12] {
    let mut nonce = keys.iv;
    nonce.iter_mut().rev().zip(number.iter().rev()).for_each(|(byte, number)| *byte ^= number);
    nonce
}

/// Passes offset and data of each CRYPTO frame to `each`. Stops at the first frame that Initial
/// packets cannot contain [RFC 9000 §17.2.2].
pub fn crypto_frames(frames: &[u8], mut each: impl FnMut(u64, &[u8])) {
    let mut cursor = Cursor::new(frames);
    let mut read = || {
        match cursor.u8()? {
            // PADDING, PING.
            0 | 1 => {}
            // ACK: the largest number, a delay, and ranges; with counters for congestion.
            kind @ (2 | 3) => {
                let [_largest, _delay, ranges, _first] = [
                    number(&mut cursor)?,
                    number(&mut cursor)?,
                    number(&mut cursor)?,
                    number(&mut cursor)?,
                ];
                let counters = if kind == 3 { 3 } else { 0 };
                for _ in 0..ranges.checked_mul(2)?.checked_add(counters)? {
                    number(&mut cursor)?;
                }
            }
            // The second is CRYPTO in Google's versions, and cannot be in an Initial of others.
            6 | 8 => {
                let (offset, bytes) = (number(&mut cursor)?, number(&mut cursor)?);
                each(offset, cursor.bytes(usize::try_from(bytes).ok()?)?);
            }
            _ => return None,
        }
        Some(())
    };
    while read().is_some() {}
}

#[cfg(test)]
pub(in super::super) mod tests {
    use super::*;

    const ID: [u8; 8] = [0x83, 0x94, 0xC8, 0xF0, 0x3E, 0x51, 0x57, 0x08];

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    }

    /// Returns a CRYPTO frame.
    pub(in super::super::super) fn crypto(offset: u16, data: &[u8]) -> Vec<u8> {
        let two = |number: u16| (number | 0x4000).to_be_bytes();
        [&[6][..], &two(offset), &two(u16::try_from(data.len()).unwrap()), data].concat()
    }

    /// Returns an Initial packet with these frames, padded to `bytes`. `number` is its number with
    /// as many bytes as it is sent with, and `key_id` the ID from which its keys follow.
    pub(in super::super::super) fn protected(
        version: u32,
        [id, key_id]: [&[u8]; 2],
        number: &[u8],
        frames: &[u8],
        bytes: usize,
    ) -> Vec<u8> {
        let keys = InitialKeys::of_client(version, key_id).unwrap();
        let kind = if version == VERSION_2 { 0xD0 } else { 0xC0 };
        let flags = kind | u8::try_from(number.len() - 1).unwrap();
        let mut header = [&[flags][..], &version.to_be_bytes()].concat();
        header.push(u8::try_from(id.len()).unwrap());
        header.extend([id, &[0, 0]].concat());
        let number_offset = header.len() + 2;
        let length = u16::try_from(bytes - number_offset).unwrap() | 0x4000;
        header.extend(length.to_be_bytes());
        header.extend(number);
        let mut content = frames.to_vec();
        content.resize(bytes - header.len() - TAG_BYTES, 0);
        let cipher = Aes128Gcm::new(&keys.key.into());
        let nonce = nonce(number, &keys).into();
        let tag = cipher.encrypt_inout_detached(&nonce, &header, content.as_mut_slice().into()).unwrap();
        let number_bytes = number.len();
        let mut packet = [&header[..], &content, &tag].concat();
        let mask = mask(&packet, number_offset, &keys).unwrap();
        packet[0] ^= mask[0] & 0x0F;
        for at in 0..number_bytes {
            packet[number_offset + at] ^= mask[1 + at];
        }
        packet
    }

    #[test]
    fn keys_are_those_of_the_standards() {
        for (version, key, iv, header) in [
            (
                1,
                "1f369613dd76d5467730efcbe3b1a22d",
                "fa044b2f42a3fd3b46fb255c",
                "9f50449e04a0e810283a1e9933adedd2",
            ),
            (
                VERSION_2,
                "8b1a0bc121284290a29e0971b5cd045d",
                "91f73e2351d8fa91660e909f",
                "45b95e15235d6f45a6b19cbcb0294ba9",
            ),
            (
                T050,
                "80ab8e0313d2c851aaff5405824a916a",
                "aedd2abe20b9eff2116e4429",
                "d3a731204b1c81e9644f91bd062633a9",
            ),
            (
                T051,
                "e66b805440a16d39f1889b2726d1cc5c",
                "efdd37eda34f2f7080bb140c",
                "34ebf45dc367d3502a9fe09cfd3fd9f6",
            ),
            (
                0xFACE_B001,
                "07863d9c083786bc86766ce0d02bf93f",
                "fb33da41a8f297d482df670e",
                "48dbcf44e335508f7f23fb2c3790a37c",
            ),
        ] {
            let keys = InitialKeys::of_client(version, &ID).unwrap();
            assert_eq!(
                [hex(&keys.key), hex(&keys.iv), hex(&keys.header)],
                [key, iv, header].map(String::from)
            );
        }
        for version in [0, 0xFF00_0014, 0xFF00_0023, 0x5130_3530, 0xFACE_B000] {
            assert_eq!(InitialKeys::of_client(version, &ID), None, "{version:x}");
        }
    }

    /// The client's Initial packets of appendix A.2 of RFC 9001 and of RFC 9369.
    #[test]
    fn packets_of_the_standards_are_protected_and_read() {
        let hello = "010000ed0303ebf8fa56f12939b9584a3896472ec40bb863cfd3e86804fe3a47f06a2b69484c0000041301\
            1302010000c000000010000e00000b6578616d706c652e636f6dff01000100000a00080006001d0017001800100007000504\
            616c706e000500050100000000003300260024001d00209370b2c9caa47fbabaf4559fedba753de171fa71f50f1ce15d43e9\
            94ec74d748002b0003020304000d0010000e0403050306030203080408050806002d00020101001c00024001003900320408\
            ffffffffffffffff05048000ffff07048000ffff0801100104800075300901100f088394c8f03e51570806048000ffff";
        let digits: Vec<u8> = hello.bytes().filter(u8::is_ascii_hexdigit).collect();
        let digit = |byte: u8| u8::try_from(char::from(byte).to_digit(16).unwrap()).unwrap();
        let hello: Vec<u8> = digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect();
        let frames = [&[6, 0, 0x40, 0xF1][..], &hello].concat();
        for (version, begin) in [
            (1, "c000000001088394c8f03e5157080000449e7b9aec34d1b1c98dd7689fb8ec11d242b123dc9b"),
            (VERSION_2, "d76b3343cf088394c8f03e5157080000449ea0c95e82ffe67b6abcdb4298b485dd04de806071"),
        ] {
            let packet = protected(version, [&ID, &ID], &[0, 0, 0, 2], &frames, 1200);
            assert_eq!(hex(&packet[..38]), begin);
            let found: Vec<_> = packets(&packet).collect();
            assert_eq!((found.len(), found[0].version, found[0].destination_id), (1, version, &ID[..]));
            let keys = InitialKeys::of_client(version, &ID).unwrap();
            let mut data = Vec::new();
            crypto_frames(&found[0].decrypt(&keys).unwrap(), |offset, bytes| {
                data.push((offset, bytes.to_vec()));
            });
            assert_eq!(data, [(0, hello.clone())]);
            for at in [0, 5, 17, 100, 1199] {
                let mut changed = packet.clone();
                changed[at] ^= 1;
                let decrypted = packets(&changed).find_map(|packet| packet.decrypt(&keys));
                assert_eq!(decrypted, None, "the tag covers byte {at}");
            }
            assert!((0..packet.len()).all(|end| packets(&packet[..end]).next().is_none()));
        }
    }

    #[test]
    fn packets_in_one_datagram_are_separated() {
        let [one, other] = [1, 2].map(|nth| protected(1, [&ID, &ID], &[nth], &[1], 60));
        let with_length = |flags: u8| [&[flags][..], &[0, 0, 0, 1, 0, 0, 3, 7, 7, 7]].concat();
        let handshake = with_length(0xE0);
        let ids =
            |datagram: &[u8]| packets(datagram).map(|packet| packet.bytes.to_vec()).collect::<Vec<_>>();
        assert_eq!(ids(&[&one[..], &handshake, &other, &[0; 9]].concat()), [one.clone(), other.clone()]);
        assert_eq!(ids(&[&one[..], &with_length(0xF0), &other].concat()).len(), 1, "a Retry ends it");
        assert_eq!(ids(&[&one[..], &[0x40; 30]].concat()), [one], "a short header ends it");
    }

    #[test]
    fn other_frames_of_initial_packets_are_skipped() {
        let ack = [2, 9, 0x40, 1, 2, 0, 1, 1, 1, 1];
        let counted = [3, 9, 1, 0, 0, 1, 2, 3];
        let frames =
            [&[0, 1][..], &ack, &crypto(7, b"abc"), &counted, &crypto(0, b""), &[0x1C], &crypto(9, b"x")]
                .concat();
        let mut data = Vec::new();
        crypto_frames(&frames, |offset, bytes| data.push((offset, bytes.to_vec())));
        assert_eq!(data, [(7, b"abc".to_vec()), (0, Vec::new())]);
        data.clear();
        crypto_frames(&[8, 7, 1, b'x', 0, 0], |offset, bytes| data.push((offset, bytes.to_vec())));
        assert_eq!(data, [(7, b"x".to_vec())], "of Google's versions");
        crypto_frames(&[2, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0], |_, _| panic!("cut"));
        crypto_frames(&[6, 0, 5, 1], |_, _| panic!("cut"));
    }
}
