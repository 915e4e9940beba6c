//! The outputs of a run other than its result. They are opened before the run begins.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowloom::apps::CaptureSink;
use flowloom::engine::{Control, EngineConfig, Layout, Order};
use flowloom::traffic::capture::{Annotations, DetailReader, FileSummary, SetOptions, UnpackLimits};

use crate::args::Common;
use crate::args::replay::Replay;
use crate::compressed_file::{Compression, PackedFile, check_compression};
use crate::exit::Failure;
use crate::flow_file::{Destination, Opened};
use crate::output::{OutputFile, is_one_file};
use crate::output_folder::OutputFolder;
use crate::render::save::files;
use crate::render::{warn, warn_of_unchanged};

use super::charts;

/// The files and the folder of a run.
#[derive(Default)]
pub(super) struct Outputs {
    /// The destination of flow records.
    pub(super) flows: Option<Opened>,
    /// The destination of accepted packets.
    pub(super) sink: Option<CaptureSink<PackedFile>>,
    /// The file of these packets.
    written: Option<OutputFile>,
    /// The destination of the part.
    pub(super) part: Option<OutputFile>,
    /// The folder of the saved result.
    _saved: Option<OutputFolder>,
}

impl Outputs {
    /// Opens the outputs that the arguments name.
    ///
    /// # Errors
    ///
    /// Returns [`Failure`] if a path cannot be written, is an input of the run, or is named twice.
    pub(super) fn open(arguments: &Replay, captures: &[&Path]) -> Result<Self, Failure> {
        check_inputs(arguments, captures)?;
        let open = |option: &str, what: &str, path: Option<&Path>| {
            let Some(path) = path else { return Ok(None) };
            check_compression(option, path)?;
            let failed =
                |error| Failure::Output(format!("cannot write {what} to {}: {error}", path.display()));
            let open = if option == "--save-part" { OutputFile::open_whole } else { OutputFile::open };
            open(path).map(Some).map_err(failed)
        };
        // First, because the other files may lie in it.
        let saved = arguments.save.open()?;
        let packets = open("--write", "packets", arguments.write.as_deref())?;
        let flows = match &arguments.flows {
            None => None,
            Some(path) => {
                let destination =
                    Destination::parse(path, arguments.flows_format).map_err(Failure::Usage)?;
                let failed =
                    |error| Failure::Output(format!("cannot write flows to {}: {error}", path.display()));
                let open = if arguments.fragments { Destination::open_whole } else { Destination::open };
                Some(open(destination).map_err(failed)?)
            }
        };
        if let (Some(packets), Some(one), Some(path)) = (&packets, &flows, &arguments.flows)
            && one.is_same(packets)
        {
            return Err(Failure::Usage(format!(
                "--write and --flows name the same file, {}\n  use two files",
                path.display()
            )));
        }
        let part = open("--save-part", "the part", arguments.save_part.as_deref())?;
        check_saved(arguments)?;
        let mut written = None;
        let sink = match (packets, &arguments.write) {
            (Some(file), Some(path)) => {
                let selects =
                    arguments.live.filter.is_some() || arguments.from.is_some() || arguments.to.is_some();
                let keeps_old = selects && arguments.live.iface.is_none() && file.has_old_contents();
                let sink = capture_sink(file.clone(), path)?;
                written = Some(file);
                Some(if keeps_old { sink.without_empty_capture() } else { sink })
            }
            _ => None,
        };
        Ok(Self { flows, sink, written, part, _saved: saved })
    }

    /// Keeps names, comments, flags and secrets of the captures in the packet file. This requires
    /// packets in the order of the captures, and captures that can be read twice.
    pub(super) fn keep_details(
        &mut self,
        arguments: &Replay,
        captures: &[&Path],
        options: SetOptions,
        config: &EngineConfig,
        control: &Arc<Control>,
    ) -> Result<(), Failure> {
        let is_in_order = config.layout == Layout::Inline || config.order == Order::External;
        let is_pcapng = arguments.write.as_deref().is_some_and(|path| !is_pcap(path));
        if !is_pcapng || !is_in_order || arguments.defrag || options.passes > 1 || captures.is_empty() {
            return Ok(());
        }
        let paths: Vec<PathBuf> = captures.iter().map(|path| path.to_path_buf()).collect();
        let Some(reader) = DetailReader::open(&paths, options.capture, options.order)? else {
            return Ok(());
        };
        let (control, is_limited) = (Arc::clone(control), arguments.limit.is_some());
        self.sink = self
            .sink
            .take()
            .map(|sink| sink.with_details(reader, move || is_limited || control.is_stopped()));
        Ok(())
    }

    /// Returns what the packet file contains after an error.
    pub(super) fn remains(&self) -> Option<String> {
        self.written.as_ref().map(OutputFile::remains)
    }

    /// Warns of the data in the captures that the packet file does not keep.
    pub(super) fn warn_of_left_behind(
        &self,
        arguments: &Replay,
        files: &[FileSummary],
        limits: UnpackLimits,
        common: &Common,
    ) {
        let Some(path) = &arguments.write else { return };
        if self.written.as_ref().is_some_and(OutputFile::is_unchanged) {
            warn_of_unchanged("packet", path);
            return;
        }
        let left = match self.sink.as_ref().and_then(CaptureSink::left_behind) {
            Some((annotations, not_found, failed)) => {
                let mut left = Vec::new();
                if !annotations.is_empty() {
                    left.push(annotations.to_string());
                }
                if not_found > 0 {
                    left.push(format!("data of {not_found} packets other than their bytes"));
                }
                left.extend(failed.map(|error| format!("data that could not be read again: {error}")));
                left
            }
            None => left_behind(files, limits),
        };
        if !left.is_empty() {
            warn(&format!("{} does not keep: {}", path.display(), left.join("; ")), common);
        }
    }
}

/// Returns whether the extension of a name selects a classic pcap file.
fn is_pcap(path: &Path) -> bool {
    let (_, inner) = Compression::from_path(path);
    Path::new(inner)
        .extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("pcap") || ending.eq_ignore_ascii_case("cap"))
}

/// Returns the packet sink for a file, in the format that its name selects.
///
/// # Errors
///
/// Returns [`Failure::Output`] if a compressed file cannot be begun.
pub(crate) fn capture_sink(file: OutputFile, path: &Path) -> Result<CaptureSink<PackedFile>, Failure> {
    let (compression, _) = Compression::from_path(path);
    let file = PackedFile::new(file, compression)
        .map_err(|error| Failure::Output(format!("cannot write packets to {}: {error}", path.display())))?;
    Ok(if is_pcap(path) { CaptureSink::pcap(file) } else { CaptureSink::new(file) })
}

fn left_behind(files: &[FileSummary], limits: UnpackLimits) -> Vec<String> {
    let (mut found, mut left) = (Annotations::default(), Vec::new());
    for file in files.iter().filter(|file| file.format.contains("pcapng")) {
        if !file.path.is_file() {
            left.push(format!("names, comments and flags of {}, if any", file.path.display()));
            continue;
        }
        match Annotations::of_file(&file.path, limits) {
            Ok(annotations) => found.merge(&annotations),
            Err(error) => left.push(format!("data of {} other than packets: {error}", file.path.display())),
        }
    }
    if !found.is_empty() {
        left.insert(0, found.to_string());
    }
    left
}

/// Refuses to save the result in a file that the run writes for another purpose.
fn check_saved(arguments: &Replay) -> Result<(), Failure> {
    let others = [
        ("--write", &arguments.write),
        ("--flows", &arguments.flows),
        ("--save-part", &arguments.save_part),
    ];
    for (option, other) in others.into_iter().filter_map(|(option, path)| Some((option, path.as_deref()?)))
    {
        if let Some(path) = saved_files(arguments).find(|path| is_one_file(path, other)) {
            return Err(Failure::Usage(format!(
                "--save and {option} would write the same file, {}\n  use another file or another folder",
                path.display()
            )));
        }
    }
    Ok(())
}

/// Returns the files in which the result may be saved.
fn saved_files(arguments: &Replay) -> impl Iterator<Item = PathBuf> {
    arguments.save.save.iter().flat_map(|folder| files(folder, &charts::NAMES))
}

/// Refuses to overwrite an input of the run.
fn check_inputs(arguments: &Replay, captures: &[&Path]) -> Result<(), Failure> {
    let outputs = [
        ("--write", &arguments.write),
        ("--flows", &arguments.flows),
        ("--save-part", &arguments.save_part),
    ];
    let outputs = outputs.into_iter().filter_map(|(option, path)| Some((option, path.clone()?)));
    for (option, path) in outputs.chain(saved_files(arguments).map(|path| ("--save", path))) {
        let inputs = captures.iter().copied();
        let stdin = arguments.inputs.iter().any(|input| input.as_os_str() == "-");
        let others = stdin
            .then_some(Path::new("/dev/stdin"))
            .into_iter()
            .chain(arguments.firewall.source.rules.as_deref());
        let mut inputs = inputs.chain(others).chain(arguments.patterns.iter().map(PathBuf::as_path));
        if inputs.any(|input| is_one_file(input, &path)) {
            return Err(Failure::Usage(format!(
                "{option} {} would overwrite an input of this run\n  name another file",
                path.display()
            )));
        }
    }
    Ok(())
}
