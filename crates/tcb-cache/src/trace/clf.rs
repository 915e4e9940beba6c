//! The common log format, and the combined one, which has two additional quoted fields.
//!
//! ```text
//! host ident user [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 203023
//! ```
//!
//! The parser skips a server's name and port before the host, as in Apache's `vhost_combined`.

use super::calendar::days_since_1970;
use super::entry::Entry;
use super::number::{digits, size};
use super::summary::Skip;

/// Parses a line.
///
/// # Errors
///
/// The reason why it is unusable.
pub fn parse(line: &[u8]) -> Result<Entry<'_>, Skip> {
    if line.is_empty() || line.starts_with(b"#") {
        return Err(Skip::Empty);
    }
    let host_end = line.iter().position(|byte| *byte == b' ').ok_or(Skip::FieldsMissing)?;
    let (host, rest) = line.split_at(host_end);
    // User names with brackets have been seen, so the time is the first text in brackets that is a
    // valid time.
    let mut skip = Skip::Time;
    for (at, _) in rest.iter().enumerate().filter(|(_, byte)| **byte == b'[') {
        let bracket = &rest[at..];
        // A longer text cannot be a time; without this limit, a line of brackets would be searched
        // once per bracket.
        let bracket = &bracket[..bracket.len().min(TIME_BYTES_MAX + 2)];
        let Some(length) = bracket.iter().position(|byte| *byte == b']') else { continue };
        let Some(time_ms) = time(&rest[at + 1..at + length]) else { continue };
        match reply(&rest[at + length + 1..]) {
            Ok(reply_bytes) => {
                let host = client(host, &rest[..at]);
                return Entry { host, time_ms, reply_bytes }.checked();
            }
            Err(reason) => {
                skip = reason;
                break;
            }
        }
    }
    Err(skip)
}

/// Returns the host of a line, from its first field and the text between that and the time.
fn client<'a>(first: &'a [u8], between: &'a [u8]) -> &'a [u8] {
    let mut parts = first.split(|byte| *byte == b':');
    let has_port = parts.next().is_some() && parts.next().is_some_and(|port| digits(port).is_some());
    let mut fields = between.split(|byte| *byte == b' ').filter(|field| !field.is_empty());
    match (fields.next(), fields.count()) {
        // Three fields follow a server's name, two follow a host.
        (Some(second), 2..) if has_port && parts.next().is_none() && second != b"-" => second,
        _ => first,
    }
}

/// Returns the reply's size from the text after the time: the quoted request, the status, the size.
fn reply(rest: &[u8]) -> Result<u64, Skip> {
    let request = rest.strip_prefix(b" \"").ok_or(Skip::Quoting)?;
    // Requests may contain quotes, escaped or not: the closing quote comes before a status.
    for (at, _) in request.iter().enumerate().filter(|(_, byte)| **byte == b'"') {
        let Some(rest) = request[at + 1..].strip_prefix(b" ") else { continue };
        let mut fields = rest.split(|byte| *byte == b' ');
        let status = fields.next().unwrap_or_default();
        if !(status == b"-" || (status.len() == 3 && digits(status).is_some())) {
            continue;
        }
        return fields.next().and_then(size).ok_or(Skip::Number);
    }
    Err(Skip::Quoting)
}

const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// Bytes of a time with its zone.
const TIME_BYTES_MAX: usize = 26;

/// Reads `17/May/2015:10:05:03 +0000` as milliseconds since 1970.
fn time(text: &[u8]) -> Option<u64> {
    let (day, rest) = (text.get(..2)?, text.get(2..)?);
    if rest.first() != Some(&b'/') || rest.get(4) != Some(&b'/') || rest.len() < 18 {
        return None;
    }
    let month = MONTHS.iter().position(|name| rest[1..4].eq_ignore_ascii_case(&name[..]))? as u64 + 1;
    let separated = rest[9] == b':' && rest[12] == b':' && rest[15] == b':';
    let field = |from: usize, to: usize| digits(rest.get(from..to)?);
    let (year, day) = (field(5, 9)?, digits(day)?);
    let (hour, minute, second) = (field(10, 12)?, field(13, 15)?, field(16, 18)?);
    let in_range = (1970..=9999).contains(&year) && (1..=31).contains(&day);
    if !separated || !in_range || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let offset_s = match rest.get(18..) {
        Some([b' ', sign @ (b'+' | b'-'), zone @ ..]) if zone.len() == 4 => {
            let zone = digits(zone)?;
            let seconds = (zone / 100 * 3600 + zone % 100 * 60) as i64;
            if *sign == b'-' { -seconds } else { seconds }
        }
        Some([]) => 0,
        _ => return None,
    };
    let local = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    u64::try_from(local as i64 - offset_s).ok().map(|seconds| seconds * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_counted_from_1970() {
        assert_eq!(time(b"01/Jan/1970:00:00:00 +0000"), Some(0));
        assert_eq!(time(b"01/Aug/1995:00:00:01 -0400"), Some(807_249_601_000));
        assert_eq!(time(b"29/Feb/2000:23:59:60 +0130"), Some(951_863_400_000));
        assert_eq!(time(b"17/may/2015:10:05:03"), Some(1_431_857_103_000));
        for bad in [
            "1/May/2015:10:05:03 +0000", "17/Mai/2015:10:05:03 +0000", "17/May/2015:25:05:03 +0000", "",
            "]",
        ] {
            assert_eq!(time(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(time(b"01/Jan/1970:00:00:00 +0100"), None, "before 1970");
    }

    #[test]
    fn common_and_combined_lines() {
        let common = b"in24.inetnebr.com - - [01/Aug/1995:00:00:01 -0400] \"GET /a HTTP/1.0\" 200 1839";
        let entry = parse(common).unwrap();
        assert_eq!(
            (entry.host, entry.time_ms, entry.reply_bytes),
            (&b"in24.inetnebr.com"[..], 807_249_601_000, 1839)
        );
        let combined =
            b"1.2.3.4 - u [17/May/2015:10:05:03 +0000] \"GET /\" 304 - \"http://x/\" \"Agent \\\"q\\\"\"";
        assert_eq!(parse(combined).unwrap().reply_bytes, 0);
        let quotes = b"h - - [17/May/2015:10:05:03 +0000] \"GET /\"a\" b\" 200 5";
        assert_eq!(parse(quotes).unwrap().reply_bytes, 5);
        let bracket = b"h - [x] [17/May/2015:10:05:03 +0000] \"GET /\" 200 5";
        assert_eq!(parse(bracket).unwrap().reply_bytes, 5);
    }

    #[test]
    fn brackets_without_a_time_are_examined_once() {
        // If each were read to the end of its line, this would take 10^11 bytes.
        for end in ["", "]", "] \"GET /\" 200 5"] {
            let line = format!("h - - {}{end}", "[".repeat(64_000));
            for _ in 0..50 {
                assert_eq!(parse(line.as_bytes()), Err(Skip::Time));
            }
            let line = format!("h - {} [17/May/2015:10:05:03 +0000] \"GET /\" 200 5", "[".repeat(60_000));
            assert_eq!(parse(line.as_bytes()).map(|entry| entry.reply_bytes), Ok(5));
        }
    }

    #[test]
    fn server_name_before_a_host_is_skipped() {
        let host = |front: &'static str| {
            let line = format!("{front} [17/May/2015:10:05:03 +0000] \"GET /\" 200 5");
            String::from_utf8(parse(line.as_bytes()).unwrap().host.to_vec()).unwrap()
        };
        assert_eq!(host("www.example.com:443 1.2.3.4 - -"), "1.2.3.4");
        assert_eq!(host("www.example.com:443 2001:db8::1 - john"), "2001:db8::1");
        assert_eq!(host("10.0.0.1:4711 - -"), "10.0.0.1:4711");
        assert_eq!(host("10.0.0.1:4711 - john doe"), "10.0.0.1:4711");
        assert_eq!(host("2001:db8::1 - john doe"), "2001:db8::1");
        assert_eq!(host("::1 a b c"), "::1");
    }

    #[test]
    fn damaged_lines_are_counted_by_reason() {
        for (line, reason) in [
            (&b""[..], Skip::Empty),
            (b"# remark", Skip::Empty),
            (b"word", Skip::FieldsMissing),
            (b"h - - no time", Skip::Time),
            (b"h - - [17/May/2015:10:05:03 +0000", Skip::Time),
            (b"h - - [17/May/2015:10:05:03 +0000] GET / 200 5", Skip::Quoting),
            (b"h - - [17/May/2015:10:05:03 +0000] \"GET / 200 5", Skip::Quoting),
            (b"h - - [17/May/2015:10:05:03 +0000] \"GET /\" 200 x5", Skip::Number),
            (b"h - - [17/May/2015:10:05:03 +0000] \"GET /\" 200", Skip::Number),
            (b" - - [17/May/2015:10:05:03 +0000] \"GET /\" 200 5", Skip::Host),
        ] {
            assert_eq!(parse(line).unwrap_err(), reason, "{}", String::from_utf8_lossy(line));
        }
    }
}
