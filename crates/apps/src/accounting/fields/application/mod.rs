//! Readers of the first bytes of application protocols.
//!
//! | module | reads |
//! | --- | --- |
//! | [`tls_hello`] | the first handshake message of a TLS direction, with [`ja4`] of a ClientHello |
//! | [`dns_message`] | header of a DNS message |
//! | [`dns_names`] | all questions and answers of DNS messages |
//! | [`http_head`] | request line, status line and some headers of HTTP/1 |
//! | [`quic_version`] | the version in a long header of QUIC |
//! | [`quic_initial`] | the handshake data in Initial packets of QUIC |
//! | [`ssh_banner`] | the identification line of SSH |
//!
//! Each is a pure function of a byte slice. It reads each byte a bounded number of times, allocates
//! at most the length of the slice plus a few hundred bytes, and returns text that [`text`] has
//! made printable and limited to [`text::TEXT_BYTES_MAX`] bytes; [`text::CUT`] marks where a text
//! was cut. The bytes come from the network, so none of the readers panics on any input.

pub mod cursor;
pub mod dns_message;
pub mod dns_names;
pub(super) mod first_messages;
pub mod http_head;
pub mod ja4;
pub mod quic_initial;
pub mod quic_version;
pub mod ssh_banner;
pub mod text;
pub mod tls_hello;

/// A reader's result for the first bytes of a direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading<T> {
    /// The bytes are a prefix of a message; further bytes decide.
    More,
    /// The message.
    Found(T),
    /// The bytes do not begin such a message.
    Other,
}
