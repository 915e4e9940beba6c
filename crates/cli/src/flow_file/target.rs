//! Destinations that may fail and recover: files, pipes and TCP collectors.

use std::fs::File;
use std::io::{self, Seek as _, Write};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use flowloom_export::TcpCollector;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::held::Held;
use super::resolved;
use crate::output::OutputFile;

/// Bytes that a pipe takes without waiting once it is ready for any, `PIPE_BUF`.
const PIPE_BYTES: usize = 4096;
/// How long the reader of a pipe may take none.
const PATIENCE: Timespec = if cfg!(test) {
    Timespec { tv_sec: 0, tv_nsec: 100_000_000 }
} else {
    Timespec { tv_sec: 5, tv_nsec: 0 }
};

/// Why bytes were not sent.
#[derive(Debug)]
pub(super) enum SendError {
    /// The bytes that are left can be sent later, and continue what was sent.
    Later(io::Error),
    /// What was sent is lost or unknown: the destination needs a new beginning.
    Anew(io::Error),
}

/// A destination of bytes.
#[derive(Debug)]
pub(super) enum Target {
    /// A file from which the end of an incomplete write can be removed.
    File(RegularFile),
    /// A pipe or a device.
    Pipe(OutputFile),
    /// Standard output.
    Standard(File),
    Tcp(Connection),
}

/// A regular file.
#[derive(Debug)]
pub(super) struct RegularFile {
    file: OutputFile,
    /// Bytes that were written completely.
    good: u64,
    /// What was written last, and where: a format may replace it.
    last: (u64, Vec<u8>),
}

/// A TCP collector, to which there may be a connection.
#[derive(Debug)]
pub(super) struct Connection {
    collector: String,
    /// The latest address of the collector, in case its name cannot be resolved again.
    address: Option<SocketAddr>,
    stream: Option<TcpCollector>,
}

impl RegularFile {
    fn send(&mut self, held: &mut Held) -> io::Result<()> {
        if held.bytes.is_empty() && held.start >= self.good {
            return self.file.flush();
        }
        let written = self.replace_from(held.start, &held.bytes);
        if let Err(error) = written {
            // The end that was replaced is what makes such a file readable.
            let (at, last) = &self.last;
            let kept = held.start.checked_sub(*at).and_then(|kept| last.get(usize::try_from(kept).ok()?..));
            let kept = kept.unwrap_or_default().to_vec();
            return match self.replace_from(held.start, &kept) {
                Ok(()) => Err(error),
                Err(again) => Err(io::Error::new(
                    error.kind(),
                    format!("{error}, and the file may end in a part of a record: {again}"),
                )),
            };
        }
        self.good = held.start + held.bytes.len() as u64;
        let start = std::mem::replace(&mut held.start, self.good);
        let bytes = std::mem::take(&mut held.bytes);
        if held.can_rewind {
            self.last = (start, bytes);
        }
        Ok(())
    }

    /// Writes the bytes at this position, where the file ends afterwards.
    fn replace_from(&mut self, position: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.truncate_to(position)?;
        self.file.write_all(bytes)?;
        self.file.flush()
    }
}

impl Connection {
    pub(super) fn new(collector: String) -> Self {
        Self { collector, address: None, stream: None }
    }

    /// Returns whether there is a connection that the collector has closed.
    fn is_lost(&self) -> bool {
        self.stream.as_ref().is_some_and(TcpCollector::is_closed)
    }

    fn send(&mut self, held: &mut Held) -> Result<(), SendError> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => self.connect().map_err(SendError::Later)?,
        };
        stream.write_all(&held.bytes).and_then(|()| stream.flush()).map_err(SendError::Anew)?;
        held.bytes.clear();
        self.stream = Some(stream);
        Ok(())
    }

    fn connect(&mut self) -> io::Result<TcpCollector> {
        let address = match (resolved(&self.collector), self.address) {
            (Ok(address), _) | (Err(_), Some(address)) => address,
            (Err(error), None) => return Err(error),
        };
        self.address = Some(address);
        TcpCollector::connect(address)
    }
}

impl Target {
    /// Returns the target for a file.
    pub(super) fn of_file(file: OutputFile) -> Self {
        if file.is_regular() {
            Self::File(RegularFile { file, good: 0, last: (0, Vec::new()) })
        } else {
            Self::Pipe(file)
        }
    }

    /// Returns whether the receiver is known to be gone, so that what is sent now would be lost.
    pub(super) fn is_lost(&self) -> bool {
        matches!(self, Self::Tcp(connection) if connection.is_lost())
    }

    /// Gives up what connects it to its receiver, so that the next bytes are the first.
    pub(super) fn begin_anew(&mut self) {
        if let Self::Tcp(connection) = self {
            connection.stream = None;
        }
    }

    /// Sends the bytes, and removes what was sent from them.
    pub(super) fn send(&mut self, held: &mut Held) -> Result<(), SendError> {
        match self {
            Self::File(file) => file.send(held).map_err(SendError::Later),
            Self::Pipe(out) => {
                // A pipe without data takes its turn too, for the file to be made.
                out.flush().map_err(SendError::Anew)?;
                send_to_pipe(out, held)
            }
            Self::Standard(out) if out.metadata().is_ok_and(|file| file.is_file()) => {
                append(out, held).map_err(SendError::Later)
            }
            Self::Standard(out) => send_to_pipe(out, held),
            Self::Tcp(connection) => connection.send(held),
        }
    }
}

/// Writes to a file that other processes may write to as well, and removes an incomplete write if
/// it is at the end. Otherwise the bytes that are left complete it later.
fn append(out: &mut File, held: &mut Held) -> io::Result<()> {
    let mut sent = 0;
    while let Some(left @ [_, ..]) = held.bytes.get(sent..) {
        let error = match out.write(left) {
            Ok(0) => io::ErrorKind::WriteZero.into(),
            Ok(written) => {
                sent += written;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => error,
        };
        if remove_end(out, sent as u64).is_err() {
            held.bytes.drain(..sent);
        }
        return Err(error);
    }
    held.bytes.clear();
    Ok(())
}

/// Removes the bytes that were written last, unless others were written since.
fn remove_end(out: &mut File, bytes: u64) -> io::Result<()> {
    let end = out.stream_position()?;
    let start = end.checked_sub(bytes).filter(|_| out.metadata().is_ok_and(|file| file.len() == end));
    let start = start.ok_or(io::ErrorKind::Other)?;
    out.set_len(start)?;
    out.seek(io::SeekFrom::Start(start)).map(drop)
}

/// Writes to a pipe whose reader may be slow or gone, and removes what was written.
fn send_to_pipe(out: &mut (impl Write + AsFd), held: &mut Held) -> Result<(), SendError> {
    let mut sent = 0;
    let result = loop {
        let Some(left @ [_, ..]) = held.bytes.get(sent..) else { break Ok(()) };
        match write_when_ready(out, &left[..left.len().min(PIPE_BYTES)]) {
            Ok(0) => break Err(SendError::Anew(io::ErrorKind::WriteZero.into())),
            Ok(written) => sent += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let is_slow = matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock);
                break Err(if is_slow { SendError::Later(error) } else { SendError::Anew(error) });
            }
        }
    };
    held.bytes.drain(..sent);
    result
}

/// Writes to a pipe once it takes bytes. A pipe that is ready takes [`PIPE_BYTES`] without waiting.
fn write_when_ready(out: &mut (impl Write + AsFd), bytes: &[u8]) -> io::Result<usize> {
    let mut fds = [PollFd::new(&*out, PollFlags::OUT)];
    if poll(&mut fds, Some(&PATIENCE))? == 0 {
        let text = format!("its reader has taken no data for {} seconds", PATIENCE.tv_sec);
        return Err(io::Error::new(io::ErrorKind::TimedOut, text));
    }
    out.write(bytes)
}
