//! Readers of the first bytes of application protocols.
//!
//! | module | reads |
//! | --- | --- |
//! | [`tls_hello`] | the first handshake message of a TLS direction, with [`ja4`] of a ClientHello |
//! | [`dns_message`] | header and first question of a DNS message |
//! | [`http_head`] | request line, status line and some headers of HTTP/1 |
//! | [`quic_version`] | the version in a long header of QUIC |
//! | [`ssh_banner`] | the identification line of SSH |
//!
//! Each is a pure function of a byte slice: it reads each byte a bounded number of times, allocates
//! no more than the slice is long plus a few hundred bytes, and returns text that [`text`] has made
//! printable and at most [`text::TEXT_BYTES_MAX`] bytes long. Bytes come from the network, so none
//! of them panics whatever it is given.

pub mod cursor;
pub mod dns_message;
pub(super) mod first_messages;
pub mod http_head;
pub mod ja4;
pub mod quic_version;
pub mod ssh_banner;
pub mod text;
pub mod tls_hello;

/// What a reader makes of the bytes that a direction of a connection begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading<T> {
    /// The bytes are a prefix of a message; further bytes decide.
    More,
    /// The message.
    Found(T),
    /// The bytes begin no such message.
    Other,
}
