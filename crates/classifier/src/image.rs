//! A classifier as bytes: written once, and checked completely when it is read.
//!
//! ```text
//! 0    magic "FLOWCUTS", version u32, CRC-32C of all that follows, u32
//! 16   v4: words, rows, trees, rules, each u64 · 48 the same of v6
//! 80   rules, u64: all of the set · 88 zero, u64
//! 96   v4 trees (root u64, least u64), words u64, padding to 64, rows 8 × u32 · then v6 alike
//! ```
//!
//! All numbers are little-endian. Every array begins at a multiple of its element, and rows at a
//! multiple of 64 from the head, so that a mapped file can be inspected in place. Reading copies
//! the bytes, so lookups use checked memory that no other code writes.
//!
//! The checksum finds accidental damage. Against malicious bytes, every word is followed and
//! bounded before a lookup may use it. Rules named by hostile bytes can be wrong, but never exceed
//! the number of rules.

use alloc::vec::Vec;
use core::fmt;

use flowloom_cpu::crc32c::crc32c;
use flowloom_cpu::features::Isa;
use flowloom_cpu::pages::HugePages;

use crate::arch::{FaultyProgram, Program, Tree, plain};
use crate::key::Key;

const MAGIC: [u8; 8] = *b"FLOWCUTS";
/// Version of the format.
pub const VERSION: u32 = 2;
const HEAD_BYTES: usize = 96;

/// Bytes that are not a valid classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageError {
    /// They do not begin as an image does.
    NotAnImage,
    /// The format has another version.
    Version {
        /// Version in the bytes.
        found: u32,
    },
    /// They end early, or continue after the end.
    Length {
        /// Bytes that the head states.
        expected_bytes: u64,
        /// Bytes that are present.
        found_bytes: u64,
    },
    /// The checksum does not match.
    CheckSum,
    /// The trees cannot be walked.
    Program(FaultyProgramReport),
    /// A block names a rule outside the set.
    Rule {
        /// The rule.
        rule: u32,
        /// Number of rules in the set.
        rules: u64,
    },
    /// This processor lacks the requested instruction set.
    IsaUnavailable {
        /// The requested instruction set.
        isa: Isa,
    },
}

/// A description of the fault in an image's trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultyProgramReport(FaultyProgram);

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAnImage => f.write_str("not a classifier image: it does not begin with FLOWCUTS"),
            Self::Version { found } => {
                write!(
                    f,
                    "image of version {found}; this program reads version {VERSION}: write it \
                    again"
                )
            }
            Self::Length { expected_bytes, found_bytes } => {
                write!(
                    f,
                    "image of {found_bytes} bytes, but its head states {expected_bytes}: it is \
                     truncated or corrupt"
                )
            }
            Self::CheckSum => f.write_str("image with a wrong checksum: it is corrupt, write it again"),
            Self::Program(report) => write!(f, "image that cannot be used: {}", report.0),
            Self::Rule { rule, rules } => write!(f, "image that names rule {rule} of {rules}"),
            Self::IsaUnavailable { isa } => write!(f, "this processor does not support {isa}"),
        }
    }
}

impl core::error::Error for ImageError {}

/// One family's part.
pub(crate) struct Part<K: Key> {
    pub(crate) program: Program<K>,
    pub(crate) rules: usize,
}

/// Returns both parts as bytes.
pub(crate) fn write<A: Key, B: Key>(
    v4: (&Program<A>, usize),
    v6: (&Program<B>, usize),
    rules: usize,
) -> Vec<u8> {
    let mut image = Vec::with_capacity(HEAD_BYTES + v4.0.bytes() + v6.0.bytes() + 256);
    image.extend(MAGIC);
    image.extend(VERSION.to_le_bytes());
    image.extend([0; 4]);
    sizes(&mut image, v4);
    sizes(&mut image, v6);
    image.extend((rules as u64).to_le_bytes());
    image.extend([0; 8]);
    arrays(&mut image, v4.0);
    arrays(&mut image, v6.0);
    let sum = crc32c(&image[16..]);
    image[12..16].copy_from_slice(&sum.to_le_bytes());
    image
}

fn sizes<K: Key>(image: &mut Vec<u8>, (program, rules): (&Program<K>, usize)) {
    for size in [program.words().len(), program.rows().len(), program.trees().len(), rules] {
        image.extend((size as u64).to_le_bytes());
    }
}

fn arrays<K: Key>(image: &mut Vec<u8>, program: &Program<K>) {
    for tree in program.trees() {
        image.extend(plain(tree.root).to_le_bytes());
        image.extend(u64::from(tree.least).to_le_bytes());
    }
    for &word in program.words() {
        image.extend(plain(word).to_le_bytes());
    }
    image.resize(image.len().next_multiple_of(64), 0);
    for row in program.rows() {
        for lane in row {
            image.extend(lane.to_le_bytes());
        }
    }
}

/// Reads a part of the bytes, in order.
struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
}

impl Bytes<'_> {
    /// Returns the next numbers; `None` if not all of them are present.
    fn numbers<const N: usize, T>(&mut self, count: usize, read: fn([u8; N]) -> T) -> Option<Vec<T>> {
        let end = self.at.checked_add(count.checked_mul(N)?)?;
        let bytes = self.all.get(self.at..end)?;
        self.at = end;
        let one = |chunk: &[u8]| {
            let mut number = [0; N];
            number.copy_from_slice(chunk);
            read(number)
        };
        Some(bytes.chunks_exact(N).map(one).collect())
    }
}

/// Reads both parts, and the number of rules.
pub(crate) fn read<A: Key, B: Key>(
    image: &[u8],
    huge: HugePages,
) -> Result<(Part<A>, Part<B>, usize), ImageError> {
    if image.get(..8) != Some(&MAGIC) {
        return Err(ImageError::NotAnImage);
    }
    let mut bytes = Bytes { all: image, at: 8 };
    let short = ImageError::Length { expected_bytes: HEAD_BYTES as u64, found_bytes: image.len() as u64 };
    let head = bytes.numbers(2, u32::from_le_bytes).ok_or(short)?;
    if head[0] != VERSION {
        return Err(ImageError::Version { found: head[0] });
    }
    let sizes = bytes.numbers(10, u64::from_le_bytes).ok_or(short)?;
    // Sizes are compared with the length before any allocation of their size.
    let expected = expected_bytes(&sizes)
        .ok_or(ImageError::Length { expected_bytes: u64::MAX, found_bytes: image.len() as u64 })?;
    if expected != image.len() as u64 {
        return Err(ImageError::Length { expected_bytes: expected, found_bytes: image.len() as u64 });
    }
    if crc32c(&image[16..]) != head[1] {
        return Err(ImageError::CheckSum);
    }
    // A number of rules that fits `usize` can be an index.
    let count = |rules: u64| {
        let length = ImageError::Length { expected_bytes: u64::MAX, found_bytes: image.len() as u64 };
        usize::try_from(rules).map_err(|_| length)
    };
    let rules = sizes[8];
    let v4 = part(&mut bytes, &sizes[..4], rules, huge)?;
    let v6 = part(&mut bytes, &sizes[4..8], rules, huge)?;
    Ok((
        Part { program: v4, rules: count(sizes[3])? },
        Part { program: v6, rules: count(sizes[7])? },
        count(rules)?,
    ))
}

/// Returns the length of an image with these sizes; `None` if it overflows.
fn expected_bytes(sizes: &[u64]) -> Option<u64> {
    let mut end = HEAD_BYTES as u64;
    for part in sizes[..8].chunks_exact(4) {
        let (words, rows, trees) = (part[0], part[1], part[2]);
        end = end.checked_add(trees.checked_mul(16)?)?.checked_add(words.checked_mul(8)?)?;
        end = end.checked_next_multiple_of(64)?.checked_add(rows.checked_mul(32)?)?;
    }
    Some(end)
}

/// Reads a family's arrays, which are present because the length was compared.
fn part<K: Key>(
    bytes: &mut Bytes<'_>,
    sizes: &[u64],
    rules: u64,
    huge: HugePages,
) -> Result<Program<K>, ImageError> {
    let cut = |at: usize| ImageError::Length { expected_bytes: at as u64, found_bytes: at as u64 };
    let trees = bytes.numbers(2 * sizes[2] as usize, u64::from_le_bytes).ok_or(cut(bytes.at))?;
    let trees = trees.chunks_exact(2).map(|pair| Tree { root: pair[0], least: pair[1] as u32 }).collect();
    let words = bytes.numbers(sizes[0] as usize, u64::from_le_bytes).ok_or(cut(bytes.at))?;
    bytes.at = bytes.at.next_multiple_of(64);
    let lanes = bytes.numbers(8 * sizes[1] as usize, u32::from_le_bytes).ok_or(cut(bytes.at))?;
    let mut rows = Vec::with_capacity(lanes.len() / 8);
    for chunk in lanes.chunks_exact(8) {
        let mut row = [0; 8];
        row.copy_from_slice(chunk);
        rows.push(row);
    }
    let last = Program::<K>::BLOCK_ROWS - 1;
    for &rule in rows.iter().skip(last).step_by(last + 1).flatten() {
        if rule != u32::MAX && u64::from(rule) >= rules {
            return Err(ImageError::Rule { rule, rules });
        }
    }
    Program::new(&words, &rows, trees, huge)
        .map_err(|faulty| ImageError::Program(FaultyProgramReport(faulty)))
}
