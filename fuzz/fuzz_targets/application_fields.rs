//! Arbitrary first bytes: the readers of application fields return bounded, printable text, and
//! their decision on a prefix is either open or equal to that on the whole.
#![no_main]

use flowloom_apps::accounting::fields::application::dns_names::DnsNames;
use flowloom_apps::accounting::fields::application::http_head::{self, HttpHead};
use flowloom_apps::accounting::fields::application::text::{CUT, TEXT_BYTES_MAX};
use flowloom_apps::accounting::fields::application::tls_hello::{self, TlsHello};
use flowloom_apps::accounting::fields::application::{Reading, dns_message, quic_version, ssh_banner};
use libfuzzer_sys::fuzz_target;

fn check(text: &str) {
    assert!(text.len() <= TEXT_BYTES_MAX, "{} bytes", text.len());
    let text = text.strip_suffix(CUT).unwrap_or(text);
    assert!(text.bytes().all(|byte| (0x20..0x7F).contains(&byte)), "{text:?}");
}

/// A reader that has decided does not change its decision when further bytes follow.
fn agrees<T: PartialEq + std::fmt::Debug>(prefix: Reading<T>, whole: &Reading<T>) {
    assert!(prefix == Reading::More || prefix == *whole, "{prefix:?} and then {whole:?}");
}

fuzz_target!(|input: (u16, Vec<u8>)| {
    let (cut, bytes) = input;
    let prefix = &bytes[..usize::from(cut).min(bytes.len())];
    let hello = tls_hello::read(&bytes, false);
    agrees(tls_hello::read(prefix, false), &hello);
    agrees(http_head::read(prefix, false), &http_head::read(&bytes, false));
    agrees(ssh_banner::read(prefix, false), &ssh_banner::read(&bytes, false));
    if let Reading::Found(TlsHello::Client(hello)) = tls_hello::read(&bytes, true) {
        [hello.server_name, hello.alpn, hello.ja4].iter().flatten().for_each(|text| check(text));
    }
    if let Reading::Found(HttpHead::Request(head)) = http_head::read(&bytes, true) {
        [Some(head.method), Some(head.target), head.host, head.user_agent]
            .iter()
            .flatten()
            .for_each(|t| check(t));
    }
    if let Reading::Found(software) = ssh_banner::read(&bytes, true) {
        check(&software);
    }
    if dns_message::read(&bytes).is_some() {
        let mut names = DnsNames::default();
        names.add(&bytes, true);
        [names.questions(), names.answers()].iter().flat_map(|list| list.split([';', ' '])).for_each(check);
    }
    if let Some(version) = quic_version::read(&bytes) {
        check(&quic_version::name(version));
    }
});
