//! The interfaces on which captures were taken, for rules that match interfaces.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use flowloom::packet::InterfaceName;

use crate::decompressed::unpack;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const NAME: u16 = 2;

/// Maximum size of the description of an interface.
const DESCRIPTION_BYTES_MAX: u32 = 1 << 16;

/// The interfaces that captured packets, all with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Captured {
    /// All packets come from the interface of this name.
    ByOne(&'static str),
    /// They come from interfaces with different names.
    BySeveral,
}

impl Captured {
    /// Returns the interface that `--iface` names. `any` captures on all.
    pub fn on(name: &str) -> Option<Self> {
        if name == "any" { Some(Self::BySeveral) } else { Self::by(InterfaceName::new(name)) }
    }

    /// Returns an interface by its name. `None` if that is unknown.
    pub fn by(name: InterfaceName) -> Option<Self> {
        name.as_str().map(Self::ByOne)
    }
}

/// Returns the interfaces that captures name. Returns `None` if a capture has an interface without
/// a name, has a format without names, or is not a file.
pub fn of_captures(paths: &[PathBuf]) -> Option<Captured> {
    let mut found = None;
    for path in paths {
        let one = of_capture(path).ok().flatten()?;
        if *found.get_or_insert(one) != one {
            found = Some(Captured::BySeveral);
        }
    }
    found
}

/// Returns the interfaces that a capture names.
fn of_capture(path: &Path) -> io::Result<Option<Captured>> {
    // A pipe cannot be read twice.
    if !path.metadata()?.is_file() {
        return Ok(None);
    }
    names_in(BufReader::new(unpack(File::open(path)?)?))
}

/// Reads pcapng to its end, or to the first interface without a name.
fn names_in(mut input: impl Read) -> io::Result<Option<Captured>> {
    let mut found: Option<Captured> = None;
    let mut is_big = false;
    let mut is_first = true;
    loop {
        let mut head = [0; 8];
        match input.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(found),
            Err(error) => return Err(error),
        }
        let mut left = 12;
        // The type of a section is the same in both byte orders.
        if head[..4] == SECTION.to_be_bytes() {
            let mut magic = [0; 4];
            input.read_exact(&mut magic)?;
            is_big = magic == [0x1a, 0x2b, 0x3c, 0x4d];
            left += 4;
        } else if is_first {
            return Ok(None);
        }
        is_first = false;
        let word = |at: usize| {
            let bytes = [head[at], head[at + 1], head[at + 2], head[at + 3]];
            if is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
        };
        let (kind, bytes) = (word(0), word(4));
        let Some(body) = bytes.checked_sub(left) else { return Ok(None) };
        if kind == INTERFACE && body <= DESCRIPTION_BYTES_MAX {
            let mut description = vec![0; body as usize];
            input.read_exact(&mut description)?;
            let name = name_of(&description, is_big).map(|name| InterfaceName::new(&name));
            let Some(one) = name.and_then(Captured::by) else { return Ok(None) };
            if *found.get_or_insert(one) != one {
                found = Some(Captured::BySeveral);
            }
        } else {
            io::copy(&mut input.by_ref().take(u64::from(body)), &mut io::sink())?;
        }
        io::copy(&mut input.by_ref().take(4), &mut io::sink())?;
    }
}

/// Returns the name in the description of an interface.
fn name_of(description: &[u8], is_big: bool) -> Option<String> {
    // Link type, two reserved bytes and the captured length come before the options.
    let mut options = description.get(8..)?;
    loop {
        let half = |at: usize| {
            let bytes = [*options.get(at)?, *options.get(at + 1)?];
            Some(if is_big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
        };
        let (code, bytes) = (half(0)?, usize::from(half(2)?));
        let value = options.get(4..4 + bytes)?;
        if code == NAME {
            let name = std::str::from_utf8(value).ok()?.trim_end_matches('\0');
            return (!name.is_empty()).then(|| name.to_owned());
        }
        if code == 0 {
            return None;
        }
        options = options.get(4 + bytes.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use flowloom::traffic::write::{Interface, PcapngWriter};

    use super::*;

    fn capture(names: &[Option<&str>]) -> Vec<u8> {
        let interfaces = names
            .iter()
            .map(|name| Interface { name: name.map(str::to_owned), ..Interface::default() })
            .collect();
        let mut bytes = Vec::new();
        PcapngWriter::new(&mut bytes, interfaces).unwrap();
        bytes
    }

    #[test]
    fn interface_names_are_used_if_every_interface_has_a_name() {
        let names = |bytes: &[u8]| names_in(bytes).unwrap();
        assert_eq!(names(&capture(&[Some("eth0")])), Some(Captured::ByOne("eth0")));
        assert_eq!(names(&capture(&[Some("eth0"), Some("eth0")])), Some(Captured::ByOne("eth0")));
        let two = [capture(&[Some("eth0")]), capture(&[Some("eth1")])].concat();
        assert_eq!(names(&two), Some(Captured::BySeveral));
        for other in [
            capture(&[Some("eth0"), None]),
            capture(&[Some("eth0"), Some("eth1"), None]),
            capture(&[None]),
            vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0],
        ] {
            assert_eq!(names(&other), None);
        }
        let whole = capture(&[Some("wan0")]);
        for end in 0..whole.len() {
            let _ = names_in(&whole[..end]);
        }
    }
}
