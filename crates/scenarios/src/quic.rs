//! The first packets of QUIC, protected as RFC 9001 §5 and RFC 9369 §3.3 say.

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt as _, KeyInit as _};
use aes_gcm::{AeadInOut as _, Aes128Gcm};
use hkdf::Hkdf;
use sha2::Sha256;

/// A client's datagrams have at least so many bytes, as its Initial packets must.
pub(crate) const DATAGRAM_BYTES: usize = 1200;
const TAG_BYTES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

impl Version {
    pub(crate) fn name(self) -> &'static str {
        if self == Self::One { "1" } else { "2" }
    }

    fn number(self) -> u32 {
        if self == Self::One { 1 } else { 0x6B33_43CF }
    }

    fn salt(self) -> [u8; 20] {
        match self {
            Self::One => {
                *b"\x38\x76\x2c\xf7\xf5\x59\x34\xb3\x4d\x17\x9a\xe6\xa4\xc8\x0c\xad\xcc\xbb\x7f\x0a"
            }
            Self::Two => {
                *b"\x0d\xed\xe3\xde\xf7\x00\xa6\xdb\x81\x93\x81\xbe\x6e\x26\x9d\xcb\xf9\xbd\x2e\xd9"
            }
        }
    }

    /// The two bits of an Initial packet's type.
    fn initial_type(self) -> u8 {
        u8::from(self == Self::Two)
    }

    /// Returns key, nonce and header key of one end's Initial packets.
    fn keys(self, id: &[u8], end: &str) -> ([u8; 16], [u8; 12], [u8; 16]) {
        let prefix = if self == Self::One { "quic" } else { "quicv2" };
        let initial = Hkdf::<Sha256>::new(Some(&self.salt()), id);
        let secret =
            Hkdf::<Sha256>::from_prk(&labelled::<32>(&initial, end)).expect("a digest is long enough");
        (
            labelled(&secret, &format!("{prefix} key")),
            labelled(&secret, &format!("{prefix} iv")),
            labelled(&secret, &format!("{prefix} hp")),
        )
    }
}

/// HKDF-Expand-Label without a context [RFC 8446 §7.1].
fn labelled<const N: usize>(secret: &Hkdf<Sha256>, label: &str) -> [u8; N] {
    let name = format!("tls13 {label}");
    let info = [&[0, N as u8, name.len() as u8], name.as_bytes(), &[0]].concat();
    let mut out = [0; N];
    secret.expand(&info, &mut out).expect("a key is shorter than 255 digests");
    out
}

/// A frame of handshake data that begins at an offset.
pub(crate) fn crypto(offset: usize, data: &[u8]) -> Vec<u8> {
    [&[6][..], &integer(offset), &integer(data.len()), data].concat()
}

/// An integer of two bytes.
fn integer(value: usize) -> [u8; 2] {
    (value as u16 | 0x4000).to_be_bytes()
}

/// The Initial packets of a client's handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Initials {
    One,
    /// Two, which arrive in the wrong order.
    Split,
    /// As these, the first with other packets behind it in its datagram.
    Coalesced,
}

/// What differs between Initial packets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape<'a> {
    pub(crate) is_server: bool,
    pub(crate) token: &'a [u8],
    pub(crate) number_bytes: usize,
    pub(crate) bytes_min: usize,
}

/// Returns a long header up to its IDs, destination and source.
pub(crate) fn header(first: u8, version: u32, ids: [&[u8]; 2]) -> Vec<u8> {
    let mut header = vec![first];
    header.extend(version.to_be_bytes());
    for id in ids {
        header.push(id.len() as u8);
        header.extend(id);
    }
    header
}

/// Returns an Initial packet. The keys follow from the ID that the client chose
/// for the server; `ids` are destination and source.
pub(crate) fn initial(
    version: Version,
    keyed_by: &[u8],
    ids: [&[u8]; 2],
    number: u32,
    frames: &[u8],
    Shape { is_server, token, number_bytes, bytes_min }: Shape<'_>,
) -> Vec<u8> {
    let (key, mut nonce, header_key) =
        version.keys(keyed_by, if is_server { "server in" } else { "client in" });
    let first = 0xC0 | version.initial_type() << 4 | (number_bytes as u8 - 1);
    let mut packet = header(first, version.number(), ids);
    // The length of the token has one byte or two. The length counts the packet number, the frames
    // and the tag.
    match token.len() {
        bytes @ 0..64 => packet.push(bytes as u8),
        bytes => packet.extend(integer(bytes)),
    }
    packet.extend(token);
    let number_at = packet.len() + 2;
    let padded = bytes_min.saturating_sub(number_at + number_bytes + TAG_BYTES).max(frames.len());
    packet.extend(integer(number_bytes + padded + TAG_BYTES));
    packet.extend(&number.to_be_bytes()[4 - number_bytes..]);
    nonce[11] ^= number as u8;
    let mut body = frames.to_vec();
    body.resize(padded, 0);
    let cipher = Aes128Gcm::new(&key.into());
    let tag = cipher
        .encrypt_inout_detached(&nonce.into(), &packet, body.as_mut_slice().into())
        .expect("a packet is short enough");
    packet.extend(&body);
    packet.extend(tag);
    // The mask of the header comes from bytes behind the longest packet number.
    let mut mask: [u8; 16] = packet[number_at + 4..number_at + 20].try_into().expect("16 bytes");
    let block: &mut aes::Block = (&mut mask).into();
    Aes128::new(&header_key.into()).encrypt_block(block);
    packet[0] ^= mask[0] & 0x0F;
    for (byte, mask) in packet[number_at..number_at + number_bytes].iter_mut().zip(&mask[1..]) {
        *byte ^= mask;
    }
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_those_of_the_standards() {
        let id = [0x83, 0x94, 0xC8, 0xF0, 0x3E, 0x51, 0x57, 0x08];
        let (key, iv, header) = Version::One.keys(&id, "client in");
        assert_eq!(u128::from_be_bytes(key), 0x1f36_9613_dd76_d546_7730_efcb_e3b1_a22d);
        assert_eq!(iv, [0xfa, 0x04, 0x4b, 0x2f, 0x42, 0xa3, 0xfd, 0x3b, 0x46, 0xfb, 0x25, 0x5c]);
        assert_eq!(u128::from_be_bytes(header), 0x9f50_449e_04a0_e810_283a_1e99_33ad_edd2);
        let (key, _, _) = Version::Two.keys(&id, "client in");
        assert_eq!(u128::from_be_bytes(key), 0x8b1a_0bc1_2128_4290_a29e_0971_b5cd_045d);
    }
}
