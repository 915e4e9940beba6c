//! The identification line of SSH [RFC 4253 §4.2].

use super::Reading;
use super::text::printable;

/// Maximum length of the line including its end, in bytes.
const LINE_BYTES_MAX: usize = 255;
const BEGIN: &[u8] = b"SSH-";

/// Reads `SSH-2.0-software comments`, and returns the text after the protocol version. Lines that a
/// server sends before the identification are not skipped.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::fields::application::{Reading, ssh_banner};
/// let line = b"SSH-2.0-OpenSSH_9.6 Debian-1\r\n";
/// assert_eq!(ssh_banner::read(line, false), Reading::Found("OpenSSH_9.6 Debian-1".into()));
/// assert_eq!(ssh_banner::read(b"SS", false), Reading::More);
/// assert_eq!(ssh_banner::read(b"HTTP/1.1 200 OK\r\n", false), Reading::Other);
/// ```
#[must_use]
pub fn read(bytes: &[u8], is_all: bool) -> Reading<String> {
    let shared = bytes.len().min(BEGIN.len());
    if bytes[..shared] != BEGIN[..shared] {
        return Reading::Other;
    }
    let line = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = line.iter().position(|&byte| byte == b'\n') else {
        return if is_all || line.len() == LINE_BYTES_MAX { Reading::Other } else { Reading::More };
    };
    let line = line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]);
    let mut parts = line.get(BEGIN.len()..).unwrap_or_default().splitn(2, |&byte| byte == b'-');
    match (parts.next(), parts.next()) {
        (Some(version), Some(software)) if version.first().is_some_and(u8::is_ascii_digit) => {
            Reading::Found(printable(software))
        }
        _ => Reading::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_with_lf_and_is_not_endless() {
        let found = |bytes: &[u8]| read(bytes, true);
        assert_eq!(found(b"SSH-1.99-Cisco-1.25\nmore"), Reading::Found("Cisco-1.25".into()));
        assert_eq!(found(b"SSH-2.0-\x1B[31m\r\n"), Reading::Found("\\x1b[31m".into()));
        assert_eq!(found(b"SSH-2.0-cut"), Reading::Other);
        assert_eq!(found(b"SSH-x-y\r\n"), Reading::Other);
        assert_eq!(found(b"SSH-2.0\r\n"), Reading::Other);
        assert_eq!(read(&[b"SSH-2.0-".as_slice(), &[b'a'; 300]].concat(), false), Reading::Other);
    }
}
