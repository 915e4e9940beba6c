//! A compiled scanner as bytes, so that a program need not compile its patterns at every start.
//!
//! ```text
//!  magic | digest of the patterns | strengths of expressions | groups of TCP, of UDP | checksum
//! ```
//!
//! All numbers are of variable length, seven bits per byte. A row of a table is a list of runs of
//! equal transitions. An image is bound to its patterns by their digest, and every number that the
//! scanner uses as an index is checked, so no image makes a scan panic.

use std::fmt;

use crate::bytes::{self, Reader, Writer};
use crate::compile::{self, Budget, GROUPS_MAX, PATTERNS_MAX};
use crate::error::BuildError;
use crate::pattern::{Pattern, Transport};
use crate::scanner::Scanner;
use crate::signature::{is_weak, signatures_by};
use crate::table::Table;

/// The last byte is the version of the format.
const MAGIC: [u8; 8] = *b"FLWMDPI\x01";
/// Bytes of the magic number, the digest and the checksum.
const FIXED_BYTES: usize = 24;

/// The reason why an image yields no scanner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageError {
    /// The bytes are no image, or one of another version.
    Foreign,
    /// The image was made from other patterns.
    OtherPatterns,
    /// The image is truncated or damaged.
    Damaged,
}

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Foreign => "not an image of a scanner in this version's format: compile the patterns",
            Self::OtherPatterns => "the image was made from other patterns: compile these",
            Self::Damaged => "the image of the scanner is truncated or damaged: compile the patterns",
        })
    }
}

impl std::error::Error for ImageError {}

impl Scanner {
    /// Compiles patterns, as [`new`](Self::new) does. Returns an image of the scanner, from which
    /// [`from_image`](Self::from_image) makes it without compiling.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`new`](Self::new).
    pub fn to_image(patterns: &[Pattern]) -> Result<Vec<u8>, BuildError> {
        write(patterns)
    }

    /// Returns the scanner of patterns from its image, which may come from any source. Takes about
    /// a millisecond per thousand states.
    ///
    /// # Errors
    ///
    /// Returns [`ImageError`] if the image was made from other patterns, by another version, or is
    /// damaged. [`new`](Self::new) then compiles the patterns.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_dpi::{ImageError, Pattern, Scanner, Transport};
    ///
    /// let patterns = [Pattern::new("ssh", "^SSH-2")];
    /// let image = Scanner::to_image(&patterns)?;
    /// let scanner = Scanner::from_image(&patterns, &image)?;
    /// assert!(scanner.scan_whole(Transport::Tcp, b"SSH-2.0").is_some());
    /// let others = [Pattern::new("ssh", "^SSH-1")];
    /// assert_eq!(Scanner::from_image(&others, &image).unwrap_err(), ImageError::OtherPatterns);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_image(patterns: &[Pattern], image: &[u8]) -> Result<Self, ImageError> {
        read(patterns, image)
    }
}

/// Compiles patterns within the default budget. Returns the image of their scanner.
fn write(patterns: &[Pattern]) -> Result<Vec<u8>, BuildError> {
    let scanner = Scanner::compile(patterns, Budget::default())?;
    let mut out = Writer::default();
    out.fixed(&MAGIC);
    out.fixed(&digest(patterns).to_le_bytes());
    for pattern in patterns {
        for expression in &pattern.expressions {
            out.number(usize::from(is_weak(pattern, expression)));
        }
    }
    for groups in scanner.groups() {
        out.number(groups.len());
        for table in groups {
            table.write(&mut out);
        }
    }
    Ok(out.with_checksum())
}

/// Returns the scanner of patterns from its image.
fn read(patterns: &[Pattern], image: &[u8]) -> Result<Scanner, ImageError> {
    let rest = image.strip_prefix(&MAGIC).ok_or(ImageError::Foreign)?;
    let (made_from, _) = rest.split_first_chunk().ok_or(ImageError::Damaged)?;
    if image.len() < FIXED_BYTES {
        return Err(ImageError::Damaged);
    }
    if patterns.len() > PATTERNS_MAX || u64::from_le_bytes(*made_from) != digest(patterns) {
        return Err(ImageError::OtherPatterns);
    }
    decode(patterns, image).ok_or(ImageError::Damaged)
}

fn decode(patterns: &[Pattern], image: &[u8]) -> Option<Scanner> {
    let mut input = Reader::with_checksum(image)?;
    input.skip(MAGIC.len() + 8)?;
    let count = patterns.iter().map(|pattern| pattern.expressions.len()).sum();
    let strengths: Vec<bool> =
        (0..count).map(|_| input.up_to(1).map(|weak| weak == 1)).collect::<Option<_>>()?;
    let mut strengths = strengths.into_iter();
    let signatures = signatures_by(patterns, |_, _| strengths.next().unwrap_or(true)).ok()?;
    let mut groups = [Vec::new(), Vec::new()];
    let mut bytes_left = Budget::default().bytes_max;
    for transport in Transport::ALL {
        for _ in 0..input.up_to(GROUPS_MAX)? {
            let table = Table::read(&mut input, signatures.len(), bytes_left)?;
            bytes_left = bytes_left.checked_sub(table.bytes())?;
            groups[transport as usize].push(compile::with_leap(table, &signatures)?);
        }
    }
    input.is_at_end().then(|| Scanner::from_tables(patterns, signatures, groups))
}

/// Returns a digest of everything in the patterns that decides the tables and the rules.
fn digest(patterns: &[Pattern]) -> u64 {
    let mut hash = bytes::Checksum::default();
    for pattern in patterns {
        let Pattern { name, transports, expressions, dialect, ports, .. } = pattern;
        hash.text(name);
        hash.text(&format!("{transports:?} {dialect:?} {ports:?}"));
        for expression in expressions {
            hash.text(&expression.regex);
            hash.text(&format!("{:?} {:?}", expression.sender, expression.conditions));
        }
        hash.text("");
    }
    hash.value()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::condition::HEAD_BYTES;
    use crate::load::parse_own;
    use crate::pattern::{Origin, Role};
    use crate::scanner::ScanState;

    /// Anchored and floating expressions, conditions, both transports, the end of the input.
    const PATTERNS: &str = "[one]\ntransport = tcp udp\nregex = ^one[0-9]{2}\nregex = ^on$\n\
        [two]\ntransport = udp\nregex = ^\\x02\n length = u8@1 + 2\n\
        [three]\nports = 7\nregex = needle|pin\n port = usual\nclient = ^three\n\
        [four]\nregex = (?-u:\\b)four\n";

    fn patterns() -> Vec<Pattern> {
        parse_own(PATTERNS).unwrap()
    }

    /// Scans many payloads that are near the patterns. Returns the answers.
    fn answers(scanner: &Scanner) -> Vec<String> {
        let words: [&[u8]; 9] = [
            b"one", b"12", b"on", b"\x02\x03abc", b"a pin", b"needle", b"three", b" four", &[0; HEAD_BYTES],
        ];
        let mut answers = Vec::new();
        for first in words {
            for second in words {
                for transport in Transport::ALL {
                    let mut state = ScanState::default();
                    let outcomes = [first, second].map(|word| scanner.scan(transport, &mut state, word));
                    let whole = scanner.scan_whole(transport, &[first, second].concat());
                    let origin = Origin::UNKNOWN.from(Some(Role::Client)).between([7, 9]);
                    let datagram = scanner.scan_datagram(first, first.len(), origin);
                    answers.push(format!("{outcomes:?} {whole:?} {datagram:?}"));
                }
            }
        }
        answers
    }

    #[test]
    fn a_scanner_from_an_image_answers_as_the_compiled_one() {
        let patterns = patterns();
        let compiled = Scanner::compile(&patterns, Budget::default()).unwrap();
        let read = read(&patterns, &write(&patterns).unwrap()).unwrap();
        assert_eq!(read.size(), compiled.size());
        assert!(read.names().eq(compiled.names()));
        assert_eq!(answers(&read), answers(&compiled));
    }

    #[test]
    fn no_image_makes_a_scan_panic() {
        let patterns = patterns();
        let image = write(&patterns).unwrap();
        let body = image.len() - 8;
        let mut read_anyway = 0;
        for at in MAGIC.len() + 8..body {
            for value in [0, 1, 2, 7, 0x7F, 0x80, 0xFF] {
                let mut bytes = image[..body].to_vec();
                bytes[at] = value;
                let mut out = Writer::default();
                out.fixed(&bytes);
                if let Ok(scanner) = read(&patterns, &out.with_checksum()) {
                    answers(&scanner);
                    read_anyway += 1;
                }
            }
        }
        assert!(read_anyway > 100, "most are numbers within their range");
    }

    #[test]
    fn an_image_of_other_patterns_or_a_damaged_one_is_refused() {
        let patterns = patterns();
        let image = write(&patterns).unwrap();
        for bytes in 0..image.len() {
            let expected = if bytes < MAGIC.len() { ImageError::Foreign } else { ImageError::Damaged };
            assert_eq!(read(&patterns, &image[..bytes]).unwrap_err(), expected, "{bytes} bytes");
        }
        let changes =
            [("on$", "on"), ("u8@1", "u8@2"), ("= 7", "= 8"), ("client", "server"), ("[two]", "[2]")];
        for (from, to) in changes {
            let others = parse_own(&PATTERNS.replace(from, to)).unwrap();
            assert_eq!(read(&others, &image).unwrap_err(), ImageError::OtherPatterns, "{to}");
        }
    }

    #[test]
    fn the_image_in_the_library_is_that_of_the_builtin_patterns() {
        let current = write(&crate::builtin()).unwrap();
        let write_again = "cargo run -p flowloom-dpi --example builtin_image";
        assert!(current == crate::builtin::IMAGE, "the patterns or the compiler changed: {write_again}");
    }
}
