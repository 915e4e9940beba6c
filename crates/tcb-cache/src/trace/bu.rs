//! Parses a line.
//!
//! ```text
//! cs20 785526142 920156 "http://cs-www.bu.edu/lib/pics/bu-logo.gif" 1803 0.484092
//! ```

use super::entry::Entry;
use super::number::{digits, size};
use super::summary::Skip;

/// Reads a line.
///
/// # Errors
///
/// The reason why it is unusable.
pub fn parse(line: &[u8]) -> Result<Entry<'_>, Skip> {
    if line.is_empty() || line.starts_with(b"#") {
        return Err(Skip::Empty);
    }
    let mut fields = line.splitn(4, |byte| *byte == b' ');
    let mut field = || fields.next().ok_or(Skip::FieldsMissing);
    let (host, seconds, micros, rest) = (field()?, field()?, field()?, field()?);
    let seconds = digits(seconds).filter(|seconds| *seconds < 1 << 40).ok_or(Skip::Time)?;
    let micros = digits(micros).filter(|micros| *micros < 1_000_000).ok_or(Skip::Time)?;
    // URLs may contain spaces and quotes: size and duration are the last two fields.
    let mut from_end = rest.rsplitn(3, |byte| *byte == b' ');
    let (_, bytes, url) = (from_end.next(), from_end.next(), from_end.next());
    let url = url.ok_or(Skip::FieldsMissing)?;
    if url.len() < 2 || !url.starts_with(b"\"") || !url.ends_with(b"\"") {
        return Err(Skip::Quoting);
    }
    let reply_bytes = bytes.and_then(size).ok_or(Skip::Number)?;
    Entry { host, time_ms: seconds * 1000 + micros / 1000, reply_bytes }.checked()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bu_log_line_and_its_damaged_variants_are_classified() {
        let line = b"cs20 785526142 920156 \"http://cs-www.bu.edu/a b\" 1803 0.484092";
        let entry = parse(line).unwrap();
        assert_eq!((entry.host, entry.time_ms, entry.reply_bytes), (&b"cs20"[..], 785_526_142_920, 1803));
        for (line, reason) in [
            (&b"cs20 785526142"[..], Skip::FieldsMissing),
            (b"cs20 785526142 920156 \"x\"", Skip::FieldsMissing),
            (b"cs20 785526142 1000000 \"x\" 1 0.1", Skip::Time),
            (b"cs20 x 1 \"x\" 1 0.1", Skip::Time),
            (b"cs20 1 1 x 1 0.1", Skip::Quoting),
            (b"cs20 1 1 \"x\" y 0.1", Skip::Number),
            (b" 1 1 \"x\" 1 0.1", Skip::Host),
        ] {
            assert_eq!(parse(line).unwrap_err(), reason, "{}", String::from_utf8_lossy(line));
        }
    }
}
