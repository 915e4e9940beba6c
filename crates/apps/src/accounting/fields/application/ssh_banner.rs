//! The identification line of SSH [RFC 4253 §4.2].

use super::Reading;
use super::text::printable;

/// Maximum length of the line including its end, in bytes.
const LINE_BYTES_MAX: usize = 255;
/// Bytes of a direction within which the line begins.
const LINES_BYTES_MAX: usize = 1024;
const BEGIN: &[u8] = b"SSH-";

/// Reads `SSH-2.0-software comments`, and returns the text after the protocol version. A server may
/// send other lines of text before it, here at most 1024 bytes. A direction that begins with a line
/// of HTTP is not SSH.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::fields::application::{Reading, ssh_banner};
/// let line = b"Welcome\r\nSSH-2.0-OpenSSH_9.6 Debian-1\r\n";
/// assert_eq!(ssh_banner::read(line, false), Reading::Found("OpenSSH_9.6 Debian-1".into()));
/// assert_eq!(ssh_banner::read(b"SS", false), Reading::More);
/// assert_eq!(ssh_banner::read(b"HTTP/1.1 200 OK\r\n", false), Reading::Other);
/// ```
#[must_use]
pub fn read(bytes: &[u8], is_all: bool) -> Reading<String> {
    let mut begin = 0;
    loop {
        let rest = &bytes[begin..];
        let shared = rest.len().min(BEGIN.len());
        if rest[..shared] == BEGIN[..shared] {
            return identification(rest, is_all);
        }
        // Lines before it are text. The first byte that is not, other than a line's CR, decides.
        let is_end = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\r');
        let limit = LINES_BYTES_MAX.min(bytes.len());
        match bytes[begin..limit].iter().position(is_end) {
            Some(end) if rest[end] == b'\n' && !(begin == 0 && is_http(&rest[..end])) => begin += end + 1,
            None if !is_all && bytes.len() < LINES_BYTES_MAX => return Reading::More,
            _ => return Reading::Other,
        }
    }
}

fn is_http(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    line.starts_with(b"HTTP/") || line.len() > 9 && line[line.len() - 9..].starts_with(b" HTTP/")
}

/// Reads the line that begins with `SSH-`.
fn identification(bytes: &[u8], is_all: bool) -> Reading<String> {
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
    fn line_ends_with_lf_and_has_a_length_limit() {
        let found = |bytes: &[u8]| read(bytes, true);
        assert_eq!(found(b"SSH-1.99-Cisco-1.25\nmore"), Reading::Found("Cisco-1.25".into()));
        assert_eq!(found(b"SSH-2.0-\x1B[31m\r\n"), Reading::Found("\\x1b[31m".into()));
        assert_eq!(found(b"SSH-2.0-cut"), Reading::Other);
        assert_eq!(found(b"SSH-x-y\r\n"), Reading::Other);
        assert_eq!(found(b"SSH-2.0\r\n"), Reading::Other);
        assert_eq!(read(&[b"SSH-2.0-".as_slice(), &[b'a'; 300]].concat(), false), Reading::Other);
    }

    #[test]
    fn lines_of_text_may_precede_the_identification() {
        let lines =
            "Grüße\r\n\r\n\tall use is logged\nSSH \r\nxSSH-2.0-x\r\nSSH-2.0-Server x\r\n".as_bytes();
        assert_eq!(read(lines, false), Reading::Found("Server x".into()));
        for end in 0..lines.len() {
            assert_eq!(read(&lines[..end], false), Reading::More, "{end}");
        }
        let after = |lines: &[u8]| read(&[lines, b"SSH-2.0-x\r\n"].concat(), false);
        assert_eq!(after(&[&[b'x'; 1022][..], b"\n"].concat()), Reading::Found("x".into()));
        for lines in [
            &[&[b'x'; 1024][..], b"\n"].concat()[..],
            b"\x16\x03\x01\n",
            b"a\x00\r\n",
            b"GET / HTTP/1.1\r\n",
            b"HTTP/1.1 200 OK\r\n",
            b"SSH-x\r\n",
        ] {
            assert_eq!(after(lines), Reading::Other, "{}", lines.escape_ascii());
        }
    }
}
