//! The files of a set of captures, in reading order.

use std::io::ErrorKind;
use std::path::Path;

use flowloom_packet::{Fill, InterfaceName, PacketBatch};

use crate::capture::error::CaptureError;
use crate::capture::map::Mapping;
use crate::capture::notice::Notice;
use crate::capture::open::{Capture, CaptureOptions, WalkPosition};
use crate::capture::opening::Opening;
use crate::capture::patient::{GiveUp, Patient};
use crate::capture::set_options::{Input, SetOptions, SetOrder};
use crate::capture::stream::Reading;
use crate::capture::summary::is_undecodable;

/// The name of standard input in reports.
pub(crate) const STDIN: &str = "standard input";
/// Maximum number of files of one directory. More files would take too much memory for their names.
const FILES_MAX: usize = 1 << 20;

/// One input of a set: standard input, a pipe or a file.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) input: Input,
    /// Bytes on disk; `None` if it is not a regular file.
    pub(crate) bytes: Option<u64>,
    /// The mapping, kept for the next pass.
    pub(crate) mapping: Option<Mapping>,
    /// The range to read of a mapped file, unless all of it is read.
    pub(crate) range: Option<MemberRange>,
    /// Time of the first packet; 0 without packets, `None` if it was not read.
    pub(crate) first_ns: Option<u64>,
    /// Its index among all members in the order in which they were named.
    pub(crate) named: usize,
}

/// A range of a mapped file.
#[derive(Clone, Debug)]
pub(crate) struct MemberRange {
    /// Where it begins; `None` at the beginning of the file.
    pub(crate) begin: Option<WalkPosition>,
    /// Records that begin from this offset on are not read; `None` to read to the end.
    pub(crate) limit: Option<u64>,
}

/// How members are opened.
#[derive(Clone, Debug)]
pub(crate) struct Opener {
    pub(crate) options: CaptureOptions,
    /// Callback that returns whether to stop waiting for a pipe.
    pub(crate) give_up: GiveUp,
    /// Whether the files are read again.
    pub(crate) keeps_mappings: bool,
    /// Whether to unmap the pages after they were read.
    pub(crate) releases: bool,
    /// Whether packets get the names of their files.
    pub(crate) names_files: bool,
}

impl Opener {
    /// Reads the next packets of an open capture.
    pub(crate) fn next_batch(
        &self,
        capture: &mut Capture,
        batch: &mut PacketBatch,
    ) -> Result<Fill, CaptureError> {
        let fill = capture.next_batch(batch)?;
        if self.names_files && fill == Fill::Packets {
            let path = capture.path().to_string_lossy();
            let fits = |at: &usize| path.len() - at <= InterfaceName::BYTES_MAX;
            let begin = path.char_indices().map(|(at, _)| at).find(fits).unwrap_or(0);
            let name = InterfaceName::new(&path[begin..]);
            batch.packets.iter_mut().for_each(|packet| packet.interface = name);
        }
        Ok(fill)
    }
}

/// An opened member.
#[derive(Debug)]
pub(crate) enum Opened {
    Capture(Box<Capture>),
    /// A pipe whose header may not have arrived.
    Pipe(Box<Opening>),
}

impl Member {
    /// Returns its path. Standard input is called by that name.
    pub(crate) fn path(&self) -> &Path {
        match &self.input {
            Input::Stdin => Path::new(STDIN),
            Input::Path(path) => path,
        }
    }

    /// Opens the member. `reading` applies if it is neither mapped nor a pipe.
    pub(crate) fn open(&mut self, opener: &Opener, reading: Reading) -> Result<Opened, CaptureError> {
        let io = |path: &Path, source| CaptureError::Io { path: path.to_path_buf(), source };
        let (path, pipe) = match &self.input {
            Input::Stdin => {
                let path = Path::new(STDIN);
                let stdin = Patient::stdin_until(opener.give_up.clone());
                let stdin = stdin.map_err(|source| io(path, source))?;
                if stdin.is_file() {
                    let capture = Capture::read_by(path, stdin, reading, opener.options)?;
                    return Ok(Opened::Capture(Box::new(capture)));
                }
                (path, stdin)
            }
            Input::Path(path) => {
                if let (Some(mapping), Some(MemberRange { begin, limit })) = (&self.mapping, &self.range) {
                    let mapping = mapping.with_own_block();
                    let capture = Capture::mapped_between(path, mapping, begin.clone(), *limit)?;
                    return Ok(Opened::Capture(Box::new(capture)));
                }
                if let Some(mapping) = &self.mapping {
                    return Ok(Opened::Capture(Box::new(Capture::mapped(path, mapping.clone())?)));
                }
                match Capture::open_to_read(path, opener.options, reading)? {
                    Ok(capture) => {
                        if opener.keeps_mappings {
                            self.mapping = capture.mapping().cloned();
                        }
                        return Ok(Opened::Capture(Box::new(capture)));
                    }
                    Err(pipe) => (path.as_path(), Patient::new(pipe, opener.give_up.clone())),
                }
            }
        };
        Ok(Opened::Pipe(Box::new(Opening::new(path, pipe, opener.options))))
    }
}

/// The members of a set, and the facts collected when they were listed.
#[derive(Debug, Default)]
pub(crate) struct Members {
    pub(crate) list: Vec<Member>,
    pub(crate) notices: Vec<Notice>,
}

impl Members {
    /// Lists the members of a set. It opens every regular file, so that errors show before the run.
    pub(crate) fn list(inputs: &[Input], options: SetOptions) -> Result<Self, CaptureError> {
        let mut members = Self::default();
        if inputs.iter().filter(|input| **input == Input::Stdin).count() > 1
            || (inputs.contains(&Input::Stdin) && options.passes > 1)
        {
            return Err(CaptureError::ReadOnce { path: STDIN.into() });
        }
        for input in inputs {
            let bytes = match input {
                Input::Stdin => None,
                Input::Path(path) => {
                    let metadata = std::fs::metadata(path)
                        .map_err(|source| CaptureError::Io { path: path.clone(), source })?;
                    if metadata.is_dir() {
                        let captures = captures_of(path, options.capture, FILES_MAX, &mut members.notices)?;
                        members.list.extend(captures);
                        continue;
                    }
                    if metadata.is_file() {
                        check_file(path, options.capture, inputs.len() > 1)?;
                    } else if options.passes > 1 {
                        return Err(CaptureError::ReadOnce { path: path.clone() });
                    }
                    metadata.is_file().then_some(metadata.len())
                }
            };
            members.list.push(Member {
                input: input.clone(),
                bytes,
                mapping: None,
                range: None,
                first_ns: None,
                named: 0,
            });
        }
        for (named, member) in members.list.iter_mut().enumerate() {
            member.named = named;
        }
        if options.order == SetOrder::ByTime && members.list.len() > 1 {
            members.look_at_first_times(options.capture)?;
        }
        Ok(members)
    }

    /// Reads the time of each file's first packet, except from pipes.
    fn look_at_first_times(&mut self, options: CaptureOptions) -> Result<(), CaptureError> {
        for member in &mut self.list {
            if member.bytes.is_some() && member.first_ns.is_none() {
                member.first_ns = Some(first_time(member.path(), options)?);
            }
        }
        Ok(())
    }

    /// Returns the bytes to be read over all passes; 0 if unknown.
    pub(crate) fn total_bytes(&self, passes: u32) -> u64 {
        let bytes: Option<u64> = self.list.iter().map(|member| member.bytes).sum();
        match (bytes, passes) {
            (Some(bytes), passes) if passes != u32::MAX => bytes.saturating_mul(u64::from(passes.max(1))),
            _ => 0,
        }
    }
}

/// Fails if a file is not a capture or, as the only input, has only link types that are not
/// decoded.
fn check_file(path: &Path, options: CaptureOptions, is_one_of_several: bool) -> Result<(), CaptureError> {
    let capture = Capture::open(path, options)?;
    let links = capture.links();
    if !is_one_of_several && is_undecodable(links) {
        return Err(CaptureError::NothingDecodable { path: path.to_path_buf(), links: links.to_vec() });
    }
    Ok(())
}

/// Returns the captures of a directory, by their first time stamp, then by name.
fn captures_of(
    directory: &Path,
    options: CaptureOptions,
    files_max: usize,
    notices: &mut Vec<Notice>,
) -> Result<Vec<Member>, CaptureError> {
    let io = |source| CaptureError::Io { path: directory.to_path_buf(), source };
    let (mut files, mut folders) = (Vec::new(), 0);
    for entry in std::fs::read_dir(directory).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.is_file() {
            if files.len() == files_max {
                return Err(CaptureError::TooManyFiles { path: directory.to_path_buf(), files_max });
            }
            files.push(path);
        } else {
            folders += usize::from(path.is_dir());
        }
    }
    let looked_at = files.len();
    let mut captures = Vec::new();
    for path in files {
        match first_time(&path, options) {
            Ok(first_ns) => captures.push((first_ns, path)),
            Err(CaptureError::NotACapture { .. } | CaptureError::Empty { .. }) => {
                notices.push(Notice::NotACapture { path });
            }
            Err(CaptureError::Io { path, source })
                if matches!(source.kind(), ErrorKind::PermissionDenied | ErrorKind::NotFound) =>
            {
                notices.push(Notice::Unreadable { path, why: source.to_string() });
            }
            Err(error) => return Err(error),
        }
    }
    if captures.is_empty() {
        return Err(CaptureError::NoCaptures { path: directory.to_path_buf(), files: looked_at, folders });
    }
    captures.sort();
    notices.sort_by_key(ToString::to_string);
    Ok(captures
        .into_iter()
        .map(|(first_ns, path)| {
            let bytes = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
            let first_ns = Some(first_ns);
            Member {
                input: Input::Path(path),
                bytes: Some(bytes),
                mapping: None,
                range: None,
                first_ns,
                named: 0,
            }
        })
        .collect())
}

/// Returns the time of a capture's first packet. A capture without packets comes first.
fn first_time(path: &Path, options: CaptureOptions) -> Result<u64, CaptureError> {
    first_of(&mut Capture::open(path, options)?)
}

/// Returns the time of the next packet of a capture, or 0 at its end.
pub(crate) fn first_of(capture: &mut Capture) -> Result<u64, CaptureError> {
    let mut batch = PacketBatch::new();
    capture.next_batch(&mut batch)?;
    Ok(batch.packets.first().map_or(0, |packet| packet.time_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_with_too_many_files_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..3 {
            // A classic capture without packets.
            let mut header = vec![0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0];
            header.extend([0; 8]);
            header.extend([0, 0, 1, 0, 1, 0, 0, 0]);
            std::fs::write(folder.path().join(format!("{number}.pcap")), header).unwrap();
        }
        let captures = |most| captures_of(folder.path(), CaptureOptions::default(), most, &mut Vec::new());
        assert_eq!(captures(3).unwrap().len(), 3);
        let refused = captures(2).unwrap_err();
        assert!(matches!(refused, CaptureError::TooManyFiles { files_max: 2, .. }), "{refused}");
        assert!(refused.to_string().contains("more than 2 files"), "{refused}");
    }
}
