//! The extended log format of the W3C, which IIS and other servers write: a directive names the
//! fields of the lines after it.
//!
//! ```text
//! #Fields: date time s-ip cs-method cs-uri-stem c-ip sc-status sc-bytes
//! 2015-05-17 10:05:03 10.0.0.1 GET /index.html 192.0.2.7 200 203023
//! ```
//!
//! The client is `c-ip`, or `c-dns` if that is missing. The reply's size is `sc-bytes`, or 0
//! without that field. Without `date`, the day is that of the last `#Date:` directive. Times are
//! UTC. Spaces separate fields. Spaces inside quotes do not if the line would otherwise have too
//! many fields.

use super::calendar::days_since_1970;
use super::entry::Entry;
use super::number::{digits, seconds_as_ms, size};
use super::summary::Skip;

const DAY_MS: u64 = 86_400_000;

/// The positions of the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Columns {
    host: usize,
    date: Option<usize>,
    time: usize,
    bytes: Option<usize>,
    count: usize,
}

impl Columns {
    /// Parses the names of the fields.
    fn from_names(names: &[u8]) -> Option<Self> {
        let named = |name: &str| {
            Fields::new(names, false).position(|field| field.eq_ignore_ascii_case(name.as_bytes()))
        };
        Some(Self {
            host: named("c-ip").or_else(|| named("c-dns"))?,
            date: named("date"),
            time: named("time")?,
            bytes: named("sc-bytes"),
            count: Fields::new(names, false).count(),
        })
    }
}

/// The directives up to the present line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Directives {
    columns: Option<Columns>,
    /// Midnight of the last `#Date:` directive.
    day_ms: Option<u64>,
}

impl Directives {
    /// Returns whether a line names fields, including those that a request needs.
    #[must_use]
    pub fn begin_with(line: &[u8]) -> bool {
        directive(line, "#fields:").and_then(Columns::from_names).is_some()
    }

    /// Parses a line; a directive counts as empty, but takes effect.
    ///
    /// # Errors
    ///
    /// The reason why it is unusable.
    pub fn parse<'a>(&mut self, line: &'a [u8]) -> Result<Entry<'a>, Skip> {
        if line.is_empty() || line.starts_with(b"#") {
            self.heed(line);
            return Err(Skip::Empty);
        }
        let columns = self.columns.ok_or(Skip::FieldsMissing)?;
        let quoted = match Fields::new(line, false).count() {
            count if count < columns.count => return Err(Skip::FieldsMissing),
            count => count > columns.count,
        };
        if quoted && Fields::new(line, true).count() != columns.count {
            return Err(Skip::Quoting);
        }
        let (mut host, mut date, mut time, mut bytes) = (&b""[..], None, &b""[..], None);
        for (at, field) in Fields::new(line, quoted).enumerate() {
            if at == columns.host {
                host = field;
            } else if at == columns.time {
                time = field;
            } else if columns.date == Some(at) {
                date = Some(field);
            } else if columns.bytes == Some(at) {
                bytes = Some(field);
            }
        }
        let day_ms = date.map_or(self.day_ms, day_ms).ok_or(Skip::Time)?;
        let time_ms = day_ms + time_of_day_ms(time).ok_or(Skip::Time)?;
        let reply_bytes = bytes.map_or(Some(0), size).ok_or(Skip::Number)?;
        // A dash represents an unknown value.
        Entry { host: if host == b"-" { b"" } else { host }, time_ms, reply_bytes }.checked()
    }

    fn heed(&mut self, line: &[u8]) {
        if let Some(names) = directive(line, "#fields:") {
            self.columns = Columns::from_names(names);
        } else if let Some(date) = directive(line, "#date:") {
            self.day_ms = Fields::new(date, false).next().and_then(day_ms);
        }
    }
}

/// Returns the text after the name of a directive.
fn directive<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (begin, rest) = line.split_at_checked(name.len())?;
    begin.eq_ignore_ascii_case(name.as_bytes()).then_some(rest)
}

/// Parses `2015-05-17` as milliseconds since 1970.
fn day_ms(text: &[u8]) -> Option<u64> {
    let [year @ .., b'-', m0, m1, b'-', d0, d1] = text else { return None };
    let (year, month, day) = (digits(year)?, digits(&[*m0, *m1])?, digits(&[*d0, *d1])?);
    let in_range = (1970..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    in_range.then(|| days_since_1970(year, month, day) * DAY_MS)
}

/// Parses `10:05:03`, with or without a fraction, or `10:05`.
fn time_of_day_ms(text: &[u8]) -> Option<u64> {
    let mut parts = text.splitn(3, |byte| *byte == b':');
    let (hour, minute) = (digits(parts.next()?)?, digits(parts.next()?)?);
    let second_ms = parts.next().map_or(Some(0), seconds_as_ms)?;
    let in_range = hour <= 23 && minute <= 59 && second_ms < 61_000;
    in_range.then(|| (hour * 60 + minute) * 60_000 + second_ms)
}

/// The fields of a line.
#[derive(Clone, Debug)]
struct Fields<'a> {
    rest: &'a [u8],
    /// Whether a quote at the beginning of a field closes at its end.
    quoted: bool,
}

impl<'a> Fields<'a> {
    fn new(line: &'a [u8], quoted: bool) -> Self {
        Self { rest: line, quoted }
    }
}

fn is_blank(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let begin = self.rest.iter().position(|byte| !is_blank(*byte))?;
        let rest = &self.rest[begin..];
        if self.quoted && rest[0] == b'"' {
            let closes =
                |at: usize| rest[at] == b'"' && rest.get(at + 1).is_none_or(|next| is_blank(*next));
            if let Some(end) = (1..rest.len()).find(|at| closes(*at)) {
                self.rest = &rest[end + 1..];
                return Some(&rest[1..end]);
            }
            // Later quotes will not be closed either, so the rest is not searched again.
            self.quoted = false;
        }
        let end = rest.iter().position(|byte| is_blank(*byte)).unwrap_or(rest.len());
        self.rest = &rest[end..];
        Some(&rest[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IIS: &[u8] =
        b"#Fields: date time s-ip cs-method c-ip cs(User-Agent) sc-status sc-bytes time-taken";

    fn after(directives: &[&[u8]]) -> Directives {
        let mut known = Directives::default();
        for line in directives {
            assert_eq!(known.parse(line), Err(Skip::Empty));
        }
        known
    }

    #[test]
    fn fields_directive_determines_the_order_of_fields() {
        let line = b"2015-05-17 10:05:03 10.0.0.1 GET 192.0.2.7 Mozilla/5.0+(X11) 200 203023 15";
        let entry = after(&[IIS]).parse(line).unwrap();
        assert_eq!(
            (entry.host, entry.time_ms, entry.reply_bytes),
            (&b"192.0.2.7"[..], 1_431_857_103_000, 203_023)
        );
        let tabs = b"2015-05-17\t10:05:03.25\tLHR62\t-\t2001:db8::1";
        let entry = after(&[b"#Fields: date time x-edge-location sc-bytes c-ip"]).parse(tabs).unwrap();
        assert_eq!(
            (entry.host, entry.time_ms, entry.reply_bytes),
            (&b"2001:db8::1"[..], 1_431_857_103_250, 0)
        );
    }

    #[test]
    fn date_may_be_in_a_directive_and_the_size_absent() {
        let mut known = after(&[b"#Date: 2015-05-17 10:00:00", b"#fields:\ttime c-dns"]);
        let entry = known.parse(b"10:05 example.com").unwrap();
        assert_eq!(
            (entry.host, entry.time_ms, entry.reply_bytes),
            (&b"example.com"[..], 1_431_857_100_000, 0)
        );
        assert_eq!(after(&[b"#Fields: time c-ip"]).parse(b"10:05:03 192.0.2.7"), Err(Skip::Time));
    }

    #[test]
    fn spaces_in_quotes_are_kept_if_a_line_has_too_many_fields() {
        let mut known = after(&[b"#Fields: date time cs-uri-stem cs(User-Agent) c-ip"]);
        let mut host = |line: &str| {
            let line = format!("2015-05-17 10:05:03 {line}");
            known.parse(line.as_bytes()).map(|entry| entry.host.to_vec())
        };
        let expected = Ok(b"192.0.2.7".to_vec());
        assert_eq!(host("/ \"An agent, \"\"new\"\"\" 192.0.2.7"), expected);
        assert_eq!(host("\"/a b\" \"An agent\" 192.0.2.7"), expected);
        assert_eq!(host("\"/a agent\" 192.0.2.7"), expected, "as many fields as there should be");
        assert_eq!(host("/ An agent 192.0.2.7"), Err(Skip::Quoting));
        assert_eq!(host("/ \"An agent 192.0.2.7"), Err(Skip::Quoting));
        let hostile = "\"a ".repeat(20_000);
        assert_eq!(host(&hostile), Err(Skip::Quoting));
    }

    #[test]
    fn damaged_lines_are_counted_by_reason() {
        for (line, reason) in [
            (&b""[..], Skip::Empty),
            (b"#Remark: none", Skip::Empty),
            (b"2015-05-17 10:05:03 10.0.0.1 GET 192.0.2.7 - 200 20", Skip::FieldsMissing),
            (b"2015-13-17 10:05:03 10.0.0.1 GET 192.0.2.7 - 200 20 1", Skip::Time),
            (b"17/05/2015 10:05:03 10.0.0.1 GET 192.0.2.7 - 200 20 1", Skip::Time),
            (b"2015-05-17 24:05:03 10.0.0.1 GET 192.0.2.7 - 200 20 1", Skip::Time),
            (b"2015-05-17 10:05:61 10.0.0.1 GET 192.0.2.7 - 200 20 1", Skip::Time),
            (b"2015-05-17 9999999999999999999:9:9 10.0.0.1 GET 192.0.2.7 - 200 20 1", Skip::Time),
            (b"2015-05-17 -1:05:03 10.0.0.1 GET 192.0.2.7 - 200 20 1", Skip::Time),
            (b"2015-05-17 10:05:03 10.0.0.1 GET 192.0.2.7 - 200 +20 1", Skip::Number),
            (b"2015-05-17 10:05:03 10.0.0.1 GET - - 200 20 1", Skip::Host),
        ] {
            let outcome = after(&[IIS]).parse(line).map(|entry| entry.time_ms);
            assert_eq!(outcome, Err(reason), "{}", String::from_utf8_lossy(line));
        }
        let line = b"2015-05-17 10:05:03 192.0.2.7";
        for fields in [&b"#Remark: none"[..], b"#Fields: date time s-ip", b"#Fields: date c-ip time-taken"]
        {
            assert_eq!(after(&[fields]).parse(line), Err(Skip::FieldsMissing));
            assert!(!Directives::begin_with(fields));
        }
        assert!(Directives::begin_with(IIS));
    }
}
