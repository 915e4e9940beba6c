//! An index of a capture in a separate file: for each part, the flows that have packets in it.
//!
//! ```text
//!  magic | length | header (JSON) | keys of part 0 | keys of part 1 | … | SHA-256 of all before
//! ```
//!
//! A part begins at a record boundary, about every MiB. An index has at most 1,024 parts. A key is
//! the first eight bytes of a Community ID. Both the ID and the addresses and ports of a flow
//! therefore lead to its key. The keys of a part are sorted in ascending order. The header binds
//! the index to the capture by its size, its modification time, and a checksum of its first 64 KiB.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const MAGIC: &[u8; 8] = b"FLWMIDX2";
/// Target size of a part.
const PART_BYTES: u64 = 1 << 20;
/// Maximum number of parts: as many as a set of captures can have.
const PARTS_MAX: u64 = 1024;
/// Bytes at the start of the capture that the checksum covers.
const HEAD_BYTES: u64 = 64 << 10;
/// Maximum size of an index, enough for several hundred million flows.
const INDEX_BYTES_MAX: u64 = 4 << 30;
const CHECKSUM_BYTES: usize = 32;

/// A part of the capture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IndexedPart {
    /// Offset of its first record.
    pub(crate) offset: u64,
    pub(crate) packets: u64,
    keys: u64,
}

/// The capture and the options to which an index belongs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Binding {
    capture_bytes: u64,
    modified_ns: u64,
    head_sha256: String,
    /// The decoding options; they determine the flow of a packet.
    decoding: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    binding: Binding,
    parts: Vec<IndexedPart>,
}

/// An index, read from a file or newly built.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CaptureIndex {
    pub(crate) binding: Binding,
    pub(crate) parts: Vec<IndexedPart>,
    keys: Vec<Vec<u64>>,
}

impl Binding {
    /// Returns the binding of an index to a capture.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    pub(crate) fn from_capture(capture: &Path, decoding: Vec<String>) -> std::io::Result<Self> {
        let file = File::open(capture)?;
        let metadata = file.metadata()?;
        let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut head = Vec::new();
        file.take(HEAD_BYTES).read_to_end(&mut head)?;
        Ok(Self {
            capture_bytes: metadata.len(),
            modified_ns: u64::try_from(modified.as_nanos()).unwrap_or(u64::MAX),
            head_sha256: hex(&Sha256::digest(&head)),
            decoding,
        })
    }

    /// Returns how the capture differs from the one that was indexed.
    pub(crate) fn difference(&self, indexed: &Self) -> Option<String> {
        if self.capture_bytes != indexed.capture_bytes {
            let (now, then) = (self.capture_bytes, indexed.capture_bytes);
            return Some(format!("the capture has {now} bytes, the indexed one had {then}"));
        }
        if self.head_sha256 != indexed.head_sha256 {
            return Some(String::from(
                "the first bytes of the capture differ from those of the indexed \
                one",
            ));
        }
        if self.modified_ns != indexed.modified_ns {
            return Some(String::from("the capture was changed after the index was made"));
        }
        let words = |words: &[String]| if words.is_empty() { "none".into() } else { words.join(" ") };
        (self.decoding != indexed.decoding).then(|| {
            let (now, then) = (words(&self.decoding), words(&indexed.decoding));
            format!("it was made with other decoding options: {then}, now {now}")
        })
    }

    /// Returns the offsets at which to cut the capture.
    pub(crate) fn cuts(&self) -> Vec<u64> {
        let step = PART_BYTES.max(self.capture_bytes.div_ceil(PARTS_MAX - 1)).max(1);
        (1..self.capture_bytes.div_ceil(step)).map(|part| part * step).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |hex, byte| format!("{hex}{byte:02x}"))
}

impl CaptureIndex {
    /// Returns an index without parts.
    pub(crate) fn new(binding: Binding) -> Self {
        Self { binding, parts: Vec::new(), keys: Vec::new() }
    }

    /// Appends a part.
    pub(crate) fn push(&mut self, offset: u64, packets: u64, keys: BTreeSet<u64>) {
        self.parts.push(IndexedPart { offset, packets, keys: keys.len() as u64 });
        self.keys.push(keys.into_iter().collect());
    }

    /// Returns whether a part may contain packets of any of these flows.
    pub(crate) fn has(&self, part: usize, keys: &[u64]) -> bool {
        keys.iter().any(|key| self.keys[part].binary_search(key).is_ok())
    }

    /// Returns the bytes of the index.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let header = Header { binding: self.binding.clone(), parts: self.parts.clone() };
        let header = serde_json::to_vec(&header).expect("a header of numbers and text can be written");
        let mut bytes = MAGIC.to_vec();
        bytes.extend((header.len() as u64).to_le_bytes());
        bytes.extend(header);
        bytes.extend(self.keys.iter().flatten().flat_map(|key| key.to_le_bytes()));
        let checksum = Sha256::digest(&bytes);
        bytes.extend(checksum);
        bytes
    }

    /// Reads an index.
    ///
    /// # Errors
    ///
    /// The reason why the file is not a valid index.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|error| error.to_string())?;
        let bytes_on_disk = file.metadata().map_err(|error| error.to_string())?.len();
        if bytes_on_disk > INDEX_BYTES_MAX {
            return Err(format!("it has {bytes_on_disk} bytes, an index has at most {INDEX_BYTES_MAX}"));
        }
        let mut bytes = Vec::new();
        file.take(INDEX_BYTES_MAX).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        Self::of_bytes(&bytes)
    }

    fn of_bytes(bytes: &[u8]) -> Result<Self, String> {
        if !bytes.starts_with(MAGIC) {
            return Err(String::from("it is not a flowloom index"));
        }
        let cut = || String::from("it is truncated or damaged");
        let (body, checksum) =
            bytes.len().checked_sub(CHECKSUM_BYTES).map(|at| bytes.split_at(at)).ok_or_else(cut)?;
        if Sha256::digest(body)[..] != *checksum {
            return Err(cut());
        }
        let rest = body.get(MAGIC.len()..).ok_or_else(cut)?;
        let (length, rest) = rest.split_first_chunk().ok_or_else(cut)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).map_err(|_| cut())?;
        let (header, mut rest) = rest.split_at_checked(length).ok_or_else(cut)?;
        let Header { binding, parts } =
            serde_json::from_slice(header).map_err(|error| format!("its header: {error}"))?;
        let mut keys = Vec::with_capacity(parts.len());
        for part in &parts {
            let bytes = usize::try_from(part.keys).ok().and_then(|keys| keys.checked_mul(8));
            let (own, behind) = bytes.and_then(|bytes| rest.split_at_checked(bytes)).ok_or_else(cut)?;
            let (chunks, _) = own.as_chunks();
            keys.push(chunks.iter().map(|key| u64::from_le_bytes(*key)).collect::<Vec<_>>());
            rest = behind;
        }
        if !rest.is_empty() || keys.iter().any(|keys| !keys.is_sorted()) {
            return Err(cut());
        }
        Ok(Self { binding, parts, keys })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> CaptureIndex {
        let binding = Binding {
            capture_bytes: 3 << 20,
            modified_ns: 7,
            head_sha256: "ab".into(),
            decoding: vec!["--decap".into()],
        };
        let mut index = CaptureIndex::new(binding);
        index.push(24, 10, BTreeSet::from([9, 3, u64::MAX]));
        index.push(1 << 20, 0, BTreeSet::new());
        index
    }

    #[test]
    fn index_reads_back_as_written_and_damage_is_refused() {
        let index = index();
        let bytes = index.to_bytes();
        let again = CaptureIndex::of_bytes(&bytes).unwrap();
        assert_eq!(again, index);
        assert!(again.has(0, &[1, 9]) && !again.has(0, &[1]) && !again.has(1, &[9]));
        for at in 0..bytes.len() {
            assert!(CaptureIndex::of_bytes(&bytes[..at]).is_err(), "{at}");
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(CaptureIndex::of_bytes(&damaged).is_err(), "{at}");
        }
    }

    #[test]
    fn index_for_another_capture_is_refused_with_the_reason() {
        let own = index().binding;
        assert_eq!(own.difference(&own), None);
        let differs = |other: Binding, why: &str| assert!(own.difference(&other).unwrap().contains(why));
        differs(Binding { capture_bytes: 1, ..own.clone() }, "the indexed one had 1");
        differs(Binding { modified_ns: 1, ..own.clone() }, "was changed");
        differs(
            Binding { head_sha256: "cd".into(), ..own.clone() },
            "the first bytes of the capture differ",
        );
        differs(Binding { decoding: Vec::new(), ..own.clone() }, "none, now --decap");
    }

    #[test]
    fn index_entries_are_about_a_mebibyte_apart_and_limited() {
        let cuts = |capture_bytes| Binding { capture_bytes, ..index().binding }.cuts();
        assert!(cuts(0).is_empty());
        assert!(cuts(PART_BYTES).is_empty());
        assert_eq!(cuts(3 * PART_BYTES), [PART_BYTES, 2 * PART_BYTES]);
        assert!((1000..PARTS_MAX as usize).contains(&cuts(u64::MAX / 2).len()));
    }
}
