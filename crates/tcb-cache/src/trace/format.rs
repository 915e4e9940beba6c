//! The format of an input.

use core::fmt;
use core::str::FromStr;

use super::{bu, clf, tsv, vscsi, w3c};

/// Formats of logs and traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Common or combined log.
    Clf,
    /// Tab-separated log.
    Tsv,
    /// Extended log of the W3C.
    W3c,
    /// Condensed trace of Boston University.
    Bu,
    /// Comma-separated accesses.
    Csv,
    /// libCacheSim's records.
    OracleGeneral,
    /// VSCSI records.
    Vscsi,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 7] =
        [Self::Clf, Self::Tsv, Self::W3c, Self::Bu, Self::Csv, Self::OracleGeneral, Self::Vscsi];

    /// Returns whether records are requests of a log, from which sessions and packets must be
    /// generated.
    #[must_use]
    pub const fn is_log(self) -> bool {
        matches!(self, Self::Clf | Self::Tsv | Self::W3c | Self::Bu)
    }

    /// Guesses the format from a file's name, without the suffix of its compression, and from its
    /// first bytes.
    #[must_use]
    pub fn detect(name: &str, head: &[u8]) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        if name.contains("oraclegeneral") {
            return Some(Self::OracleGeneral);
        }
        if name.contains("vscsi") || vscsi::Version::detect(head).is_some() {
            return Some(Self::Vscsi);
        }
        let ends = |ending: &str| name.rsplit_once('.').is_some_and(|(_, last)| last == ending);
        if ends("csv") {
            return Some(Self::Csv);
        }
        if ends("tsv") {
            return Some(Self::Tsv);
        }
        // The last line may be truncated.
        let lines = head.split(|byte| *byte == b'\n').take(20);
        let lines: Vec<&[u8]> = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
        let lines = if lines.len() > 1 { &lines[..lines.len() - 1] } else { &lines[..] };
        if lines.iter().any(|line| w3c::Directives::begin_with(line)) {
            return Some(Self::W3c);
        }
        let readable = |parse: &dyn Fn(&[u8]) -> bool| lines.iter().filter(|line| parse(line)).count();
        let scores = [
            (readable(&|line| clf::parse(line).is_ok()), Self::Clf),
            (readable(&|line| bu::parse(line).is_ok()), Self::Bu),
            (readable(&|line| tsv::Columns::default().parse(line).is_ok()), Self::Tsv),
        ];
        let best = scores.into_iter().reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.filter(|(lines, _)| *lines > 0).map(|(_, format)| format)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Clf => "clf",
            Self::Tsv => "tsv",
            Self::W3c => "w3c",
            Self::Bu => "bu",
            Self::Csv => "csv",
            Self::OracleGeneral => "oracle-general",
            Self::Vscsi => "vscsi",
        })
    }
}

/// The name of a format is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownFormat {
    /// The given name.
    pub name: String,
}

impl fmt::Display for UnknownFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown format '{}'; formats: ", self.name)?;
        for (i, format) in Format::ALL.iter().enumerate() {
            write!(f, "{}{format}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownFormat {}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        let found = Self::ALL.into_iter().find(|format| format.to_string() == text);
        found.ok_or_else(|| UnknownFormat { name: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_recognised_by_name_or_content() {
        let clf = b"h - - [01/Aug/1995:00:00:01 -0400] \"GET /a HTTP/1.0\" 200 1839\nh - - [01/Au";
        assert_eq!(Format::detect("access_log", clf), Some(Format::Clf));
        assert_eq!(Format::detect("x", b"cs20 785526142 920156 \"u\" 1803 0.4\n"), Some(Format::Bu));
        let of_windows = b"h - - [01/Aug/1995:00:00:01 -0400] \"GET /a HTTP/1.0\" 200 1839\r\n";
        assert_eq!(Format::detect("access.log", of_windows), Some(Format::Clf));
        assert_eq!(Format::detect("x", b"cs20 785526142 920156 \"u\" 1803 0.4\r\n"), Some(Format::Bu));
        let w3c = b"#Software: x\n#Fields: date time c-ip\n2015-05-17 10:05:03 192.0.2.7\n";
        assert_eq!(Format::detect("u_ex150517.log", w3c), Some(Format::W3c));
        assert_eq!(Format::detect("x", b"h\t-\t807249607\tGET\t/\t304\t0\t\t\n"), Some(Format::Tsv));
        assert_eq!(Format::detect("a.oracleGeneral.bin", b""), Some(Format::OracleGeneral));
        assert_eq!(Format::detect("a.vscsi.bin", b""), Some(Format::Vscsi));
        let mut vscsi = [0; 64];
        (vscsi[15], vscsi[25], vscsi[47], vscsi[57]) = (1, 0x10, 1, 0x10);
        assert_eq!(Format::detect("a.bin", &vscsi), Some(Format::Vscsi));
        assert_eq!(Format::detect("a.csv", b""), Some(Format::Csv));
        assert_eq!(Format::detect("a", b"\0\x01\x02"), None);
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
        }
        let is_log = Format::ALL.map(Format::is_log);
        assert_eq!(is_log, [true, true, true, true, false, false, false], "requests, then accesses");
        // The last line is not considered, because it may be truncated, unless it is the only one.
        // If two formats match, the first one wins.
        let line = b"h - - [01/Aug/1995:00:00:01 -0400] \"GET /a HTTP/1.0\" 200 1839";
        assert_eq!(Format::detect("x", line), Some(Format::Clf));
        assert_eq!(Format::detect("x", &[b"?\n", &line[..]].concat()), None);
        let mixed = [b"h\t-\t807249607\tGET\t/\t304\t0\t\t\n", &line[..], b"\n"].concat();
        assert_eq!(Format::detect("x", &mixed), Some(Format::Clf));
        assert!("xml".parse::<Format>().unwrap_err().to_string().contains("formats: clf, tsv"));
    }
}
