//! Why a capture cannot be read.

use std::path::PathBuf;

use flowloom_packet::LinkType;

/// A capture that cannot be opened, or not be read any further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The operating system refused.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// What was to be read.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// There is not one byte in it.
    #[error("{} is empty: not a capture file", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The content is none of the formats that are read.
    #[error(
        "{} is not a capture file\n  first bytes {first_bytes}: {why}\n  accepted: pcap, pcapng, and either of them in gzip, zstd, xz or lz4",
        path.display()
    )]
    NotACapture {
        /// The file.
        path: PathBuf,
        /// Its first bytes, in hexadecimal.
        first_bytes: String,
        /// What is wrong with them.
        why: String,
    },
    /// A directory without a single capture in it.
    #[error("directory {} has no capture in it (files looked at: {files}{})\n  accepted: pcap, pcapng, and either of them in gzip, zstd, xz or lz4",
        path.display(),
        if *folders > 0 { format!("; directories in it, which are not entered: {folders}") } else { String::new() }
    )]
    NoCaptures {
        /// The directory.
        path: PathBuf,
        /// How many regular files it has.
        files: usize,
        /// How many directories it has; they are not entered.
        folders: usize,
    },
    /// A directory with more files than are held in memory.
    #[error("directory {} has more than {files_max} files\n  name the files, or folders of fewer", path.display())]
    TooManyFiles {
        /// The directory.
        path: PathBuf,
        /// The most that will do.
        files_max: usize,
    },
    /// More files overlap in time than are open at a time.
    #[error(
        "cannot open {}: {files_max} files that overlap it in time are open\n  merge some of them first, or read the files one behind the other",
        path.display()
    )]
    TooManyOpen {
        /// The file that was next.
        path: PathBuf,
        /// The most files that are open at a time: fewer where they are compressed or not mapped.
        files_max: usize,
    },
    /// Packets are there, but none of a link type that is decoded.
    #[error(
        "no interface of {} can be decoded: link type {}\n  supported: {}",
        path.display(),
        list(links),
        LinkType::supported().map(|link| link.0.to_string()).collect::<Vec<_>>().join(" ")
    )]
    NothingDecodable {
        /// The file.
        path: PathBuf,
        /// The link types it has.
        links: Vec<LinkType>,
    },
    /// A compressed input grew beyond what was allowed.
    #[error(
        "{} unpacks to more than is allowed: {unpacked_bytes} bytes out of {packed_bytes} packed ones (limit {limit})\n  if the file is to be trusted, unpack it first and replay the plain file",
        path.display()
    )]
    UnpackLimit {
        /// The file.
        path: PathBuf,
        /// Packed bytes read so far.
        packed_bytes: u64,
        /// Bytes they became.
        unpacked_bytes: u64,
        /// Which limit stopped it, in words.
        limit: String,
    },
    /// A pipe was to be read more than once.
    #[error("{} can be read only once\n  save it to a file to read it several times", path.display())]
    ReadOnce {
        /// The pipe.
        path: PathBuf,
    },
}

/// Names link types, the first of them: a file may have all there are.
pub(super) fn list(links: &[LinkType]) -> String {
    const MOST: usize = 16;
    let mut names: Vec<String> = links.iter().take(MOST).map(ToString::to_string).collect();
    if let Some(more @ 1..) = links.len().checked_sub(MOST) {
        names.push(format!("and {more} more"));
    }
    names.join(", ")
}
