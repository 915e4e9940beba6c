//! The reasons why a capture cannot be read.

use std::path::PathBuf;

use flowloom_packet::LinkType;

/// The reason why a capture cannot be opened, or cannot be read further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The operating system returned an error.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The path that could not be read.
        path: PathBuf,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The file is empty.
    #[error("{} is empty: not a capture file", path.display())]
    Empty {
        /// Path of the file.
        path: PathBuf,
    },
    /// The content is not in a supported format.
    #[error(
        "{} is not a capture file\n  first bytes {first_bytes}: {why}\n  accepted: pcap, pcapng, and either of them in gzip, zstd, xz or lz4",
        path.display()
    )]
    NotACapture {
        /// Path of the file.
        path: PathBuf,
        /// Its first bytes, in hexadecimal.
        first_bytes: String,
        /// The reason.
        why: String,
    },
    /// The directory contains no capture.
    #[error("directory {} contains no capture (files checked: {files}{})\n  accepted: pcap, pcapng, and \
        either of them in gzip, zstd, xz or lz4",
        path.display(),
        if *folders > 0 { format!("; subdirectories, which are not searched: {folders}") } else { String::new() }
    )]
    NoCaptures {
        /// The directory.
        path: PathBuf,
        /// Number of its regular files.
        files: usize,
        /// Number of its subdirectories, which are not searched.
        folders: usize,
    },
    /// The directory contains more files than the reader keeps in memory.
    #[error("directory {} contains more than {files_max} files\n  name the files, or directories with \
        fewer files", path.display())]
    TooManyFiles {
        /// The directory.
        path: PathBuf,
        /// Maximum number of files.
        files_max: usize,
    },
    /// More files overlap in time than may be open at the same time.
    #[error(
        "cannot open {}: {files_max} files that overlap it in time are already open\n  merge some of \
         them first, or read the files one after another",
        path.display()
    )]
    TooManyOpen {
        /// The next file to open.
        path: PathBuf,
        /// Maximum number of open files, which is lower for files that are compressed or not
        /// mapped.
        files_max: usize,
    },
    /// The capture has packets, but none of a supported link type.
    #[error(
        "no interface of {} can be decoded: link type {}\n  supported: {}",
        path.display(),
        list(links),
        LinkType::supported().map(|link| link.0.to_string()).collect::<Vec<_>>().join(" ")
    )]
    NothingDecodable {
        /// The file.
        path: PathBuf,
        /// Its link types.
        links: Vec<LinkType>,
    },
    /// A compressed input exceeded a limit when it was unpacked.
    #[error(
        "{} exceeds the unpack limit: {unpacked_bytes} bytes from {packed_bytes} compressed bytes \
         (limit {limit})\n  if you trust the file, unpack it first and replay the plain file",
        path.display()
    )]
    UnpackLimit {
        /// The file.
        path: PathBuf,
        /// Compressed bytes read so far.
        packed_bytes: u64,
        /// Bytes that they unpacked to.
        unpacked_bytes: u64,
        /// Description of the limit.
        limit: String,
    },
    /// A pipe cannot be read more than once.
    #[error("{} can be read only once\n  save it to a file to read it several times", path.display())]
    ReadOnce {
        /// The pipe.
        path: PathBuf,
    },
}

/// Names the first link types of a list, because a file may contain all existing ones.
pub(crate) fn list(links: &[LinkType]) -> String {
    const MOST: usize = 16;
    let mut names: Vec<String> = links.iter().take(MOST).map(ToString::to_string).collect();
    if let Some(more @ 1..) = links.len().checked_sub(MOST) {
        names.push(format!("and {more} more"));
    }
    names.join(", ")
}
