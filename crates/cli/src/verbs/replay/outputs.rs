//! What a run writes beside its result: opened before it begins.

use std::io::BufWriter;
use std::path::{Path, PathBuf};

use flowloom::apps::CaptureSink;
use flowloom::traffic::capture::{Annotations, FileSummary, UnpackLimits};

use crate::args::Common;
use crate::args::replay::Replay;
use crate::exit::Failure;
use crate::flow_file::{Destination, Opened};
use crate::output::{OutputFile, OutputFolder, is_one_file};
use crate::render::save::files;
use crate::render::warn;

use super::charts;

/// The files and the folder of a run.
#[derive(Default)]
pub(super) struct Outputs {
    /// Where flows go.
    pub(super) flows: Option<Opened>,
    /// Where accepted packets go.
    pub(super) sink: Option<CaptureSink<BufWriter<OutputFile>>>,
    /// Where the part is kept.
    pub(super) part: Option<OutputFile>,
    /// Where the result is kept.
    _saved: Option<OutputFolder>,
}

impl Outputs {
    /// Opens what the arguments name.
    ///
    /// # Errors
    ///
    /// [`Failure`] for what cannot be written, is an input of the run, or is one file for two
    /// things.
    pub(super) fn open(arguments: &Replay, captures: &[&Path]) -> Result<Self, Failure> {
        check_inputs(arguments, captures)?;
        let open = |option: &str, what: &str, path: Option<&Path>| {
            let Some(path) = path else { return Ok(None) };
            if path.as_os_str() == "-" {
                return Err(Failure::Usage(format!(
                    "{option} needs a file: standard output has the report"
                )));
            }
            let failed =
                |error| Failure::Output(format!("cannot write {what} to {}: {error}", path.display()));
            OutputFile::open(path).map(Some).map_err(failed)
        };
        let packets = open("--write", "packets", arguments.write.as_deref())?;
        let flows = match &arguments.flows {
            None => None,
            Some(path) => {
                let destination = Destination::of(path, arguments.flows_format).map_err(Failure::Usage)?;
                let failed =
                    |error| Failure::Output(format!("cannot write flows to {}: {error}", path.display()));
                Some(destination.open().map_err(failed)?)
            }
        };
        if let (Some(packets), Some(one), Some(path)) = (&packets, &flows, &arguments.flows)
            && one.is_same(packets)
        {
            return Err(Failure::Usage(format!(
                "--write and --flows are one file, {}\n  name two",
                path.display()
            )));
        }
        let part = open("--save-part", "the part", arguments.save_part.as_deref())?;
        let saved = arguments.save.open()?;
        check_saved(arguments)?;
        let sink = packets.map(|file| CaptureSink::new(BufWriter::with_capacity(1 << 18, file)));
        Ok(Self { flows, sink, part, _saved: saved })
    }
}

/// Warns of what the captures have besides packets, where packets are written: the file does not
/// keep it.
pub(super) fn warn_of_left_behind(
    arguments: &Replay,
    files: &[FileSummary],
    limits: UnpackLimits,
    common: &Common,
) {
    let Some(path) = &arguments.write else { return };
    let left = left_behind(files, limits);
    if !left.is_empty() {
        warn(&format!("{} has packets only; left behind: {}", path.display(), left.join("; ")), common);
    }
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
            Err(error) => left.push(format!("what {} has besides packets: {error}", file.path.display())),
        }
    }
    if !found.is_empty() {
        left.insert(0, found.to_string());
    }
    left
}

/// Refuses to keep the result in a file that the run writes something else to.
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
                "--save and {option} are to write one file, {}\n  name another file, or another folder",
                path.display()
            )));
        }
    }
    Ok(())
}

/// Returns the files that the result may be kept in.
fn saved_files(arguments: &Replay) -> impl Iterator<Item = PathBuf> {
    arguments.save.save.iter().flat_map(|folder| files(folder, &charts::NAMES))
}

/// Refuses to write over what the run reads.
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
        let others =
            stdin.then_some(Path::new("/dev/stdin")).into_iter().chain(arguments.firewall.rules.as_deref());
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
