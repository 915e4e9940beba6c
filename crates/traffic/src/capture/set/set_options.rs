//! The inputs of a set of captures, and how they are read.

use std::path::{Path, PathBuf};

use crate::capture::open::CaptureOptions;

/// Where a capture comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Standard input.
    Stdin,
    /// A file, a pipe, or a directory, which represents all its captures.
    Path(PathBuf),
}

impl Input {
    /// Returns the input that a command-line argument names. `-` is standard input.
    pub fn from_argument(argument: &Path) -> Self {
        if argument.as_os_str() == "-" { Self::Stdin } else { Self::Path(argument.to_path_buf()) }
    }
}

/// How a set of captures is read.
///
/// Any version may add fields, so end a literal with `..SetOptions::default()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetOptions {
    /// How each capture is opened.
    pub capture: CaptureOptions,
    /// The number of passes over the whole set. `u32::MAX` means endless.
    pub passes: u32,
    /// The order of packets from several inputs.
    pub order: SetOrder,
    /// Give each packet the name of its file in the place of its interface. The last 255 bytes of a
    /// longer path count; the files after the first 1,048,575 have no name. Captures are not split.
    pub names_files: bool,
}

/// The order of packets from several inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetOrder {
    /// One input after another, in the order in which they are named. The captures of a directory
    /// come in the order of their first packets.
    #[default]
    Concat,
    /// Packets by time. If times are equal, the input that was named first comes first. If the
    /// times of an input go back, its packets keep their order.
    ///
    /// If one of several inputs is a pipe, the merge waits for it from the beginning: it yields
    /// nothing until the pipe's first packet has arrived, and while the pipe is silent later.
    ///
    /// # Examples
    ///
    /// The example merges two captures of the same hour, from two interfaces:
    ///
    /// ```
    /// # use flowloom_traffic::write::{PcapOptions, PcapWriter};
    /// use flowloom_traffic::capture::{CaptureSet, Input, SetOptions, SetOrder};
    /// use flowloom_traffic::packet::{Fill, PacketBatch, PacketSource};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// # let paths = ["eth0.pcap", "eth1.pcap"].map(|name| directory.path().join(name));
    /// # for (seconds, path) in [[1, 4], [2, 3]].into_iter().zip(&paths) {
    /// #     let file = std::fs::File::create(path)?;
    /// #     let mut writer = PcapWriter::new(file, PcapOptions::default())?;
    /// #     for second in seconds {
    /// #         writer.write(second * 1_000_000_000, 60, &[0; 60])?;
    /// #     }
    /// #     writer.finish()?;
    /// # }
    /// let inputs = paths.map(Input::Path);
    /// let options = SetOptions { order: SetOrder::ByTime, ..SetOptions::default() };
    /// let mut set = CaptureSet::open(&inputs, options)?;
    /// let (mut batch, mut seconds) = (PacketBatch::new(), vec![]);
    /// while set.next_batch(&mut batch)? != Fill::End {
    ///     seconds.extend(batch.packets.iter().map(|packet| packet.time_ns / 1_000_000_000));
    /// }
    /// assert_eq!((seconds, set.overlapped()), (vec![1, 2, 3, 4], Some(2)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ByTime,
}

impl Default for SetOptions {
    fn default() -> Self {
        Self { capture: CaptureOptions::default(), passes: 1, order: SetOrder::Concat, names_files: false }
    }
}
