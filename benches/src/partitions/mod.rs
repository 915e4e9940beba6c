//! Checks whether results depend on how threads divide an input: `cargo xtask cuts`.
//!
//! A case consists of an input, generated or given, an idle timeout or none, and whether tunnels
//! are followed. For each application, the results of one thread are compared with those of a
//! pipeline of two workers, and with those of 2 to 16 workers that exchange chunks of a random size
//! in a random schedule. Everything that a user sees must be equal: the digest of all flows, all
//! counts, drops and denials, the notices about files, and the error that ended the run.
//!
//! The seed of a case determines everything in it, so a case can be repeated by its seed.

mod case;
mod checked;
mod draw;
mod generated;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use flowloom::apps::{L7Options, L7Plan};
use flowloom::dpi::builtin;
use flowloom::traffic::capture::GzipReader;
use tempfile::{NamedTempFile, TempDir, TempPath};

use crate::partitions::case::Case;
pub use crate::partitions::checked::Checked;
use crate::partitions::draw::{Draw, index_of};

/// Default number of cuts, which takes about 20 seconds.
pub const CUTS: u64 = 2_000_000;
const PROGRESS_EVERY: Duration = Duration::from_secs(5);

/// Options of the check.
#[derive(clap::Args, Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Minimum number of cuts.
    #[arg(long, default_value_t = CUTS)]
    pub cuts: u64,
    /// Seed of the first case; each following case uses the next seed.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// A capture, or a directory of captures. With `None`, all captures are generated.
    #[arg(long)]
    pub captures: Option<PathBuf>,
    /// Larger captures are omitted. Compressed captures count with their unpacked size.
    #[arg(skip = u64::MAX)]
    pub capture_bytes_max: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { cuts: CUTS, seed: 1, captures: None, capture_bytes_max: u64::MAX }
    }
}

/// Compares results until there were enough cuts, and calls `say` with the progress.
///
/// # Errors
///
/// Returns an error if captures cannot be read or written, and for the first difference, with the
/// command that repeats it.
pub fn run(options: &Options, mut say: impl FnMut(&str)) -> Result<Checked, String> {
    let plan = L7Plan::new(&builtin(), L7Options::default()).map_err(|error| error.to_string())?;
    let given = match &options.captures {
        Some(path) => Given::all(path, options.capture_bytes_max)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?,
        None => Vec::new(),
    };
    let directory =
        TempDir::new().map_err(|error| format!("cannot create a temporary directory: {error}"))?;
    let mut checked = Checked { captures: given.len() as u64, ..Checked::default() };
    let mut reported = Instant::now();
    let mut seed = options.seed;
    // Each given capture has a turn, unless one case is repeated.
    while checked.cuts < options.cuts || (options.cuts > 1 && checked.given < checked.captures) {
        let mut draw = Draw(seed);
        let given = if given.is_empty() || seed.is_multiple_of(2) {
            None
        } else {
            Some(&given[index_of(seed / 2, given.len())])
        };
        let inputs = if let Some(given) = given {
            checked.given += 1;
            vec![given.path.clone()]
        } else {
            checked.generated += 1;
            generated::write(&mut draw, directory.path())
                .map_err(|error| format!("cannot write a capture: {error}"))?
        };
        Case::new(&mut draw, &inputs, &plan).check(&mut checked).map_err(|difference| {
            let (before, behind) = match given {
                Some(given) => ("", format!(" --captures {}", given.name.display())),
                // If captures are given, every second case uses one of them.
                None => ("env -u FLOWLOOM_DATA ", String::new()),
            };
            format!("{difference}\nto repeat it: {before}cargo xtask cuts --cuts 1 --seed {seed}{behind}")
        })?;
        if reported.elapsed() > PROGRESS_EVERY {
            reported = Instant::now();
            say(&format!("{} of {} cuts, seed {seed}", checked.cuts, options.cuts));
        }
        seed = seed.wrapping_add(1);
    }
    Ok(checked)
}

/// A capture on disk, unpacked if possible, because a compressed one is read by one thread.
#[derive(Debug)]
struct Given {
    /// The path as given.
    name: PathBuf,
    path: PathBuf,
    _unpacked: Option<TempPath>,
}

impl Given {
    /// Returns the captures at or below a path, in the order of their names.
    fn all(path: &Path, bytes_max: u64) -> io::Result<Vec<Self>> {
        let (mut folders, mut files) = (Vec::new(), Vec::new());
        if path.is_dir() {
            folders.push(path.to_path_buf());
        } else {
            files.push(path.to_path_buf());
        }
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder)? {
                let path = entry?.path();
                let is_capture =
                    path.file_name().is_some_and(|name| name.to_string_lossy().contains(".pcap"));
                if path.is_dir() {
                    folders.push(path);
                } else if is_capture {
                    files.push(path);
                }
            }
        }
        if files.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no capture (*.pcap*) found"));
        }
        files.sort();
        let mut all = Vec::new();
        for path in files {
            if std::fs::metadata(&path)?.len() > bytes_max {
                continue;
            }
            let given = Self::unpack(path)?;
            if std::fs::metadata(&given.path)?.len() <= bytes_max {
                all.push(given);
            }
        }
        Ok(all)
    }

    fn unpack(path: PathBuf) -> io::Result<Self> {
        let packed = BufReader::new(File::open(&path)?);
        let mut reader: Box<dyn io::Read> = match path.extension().and_then(OsStr::to_str) {
            Some("zst") => Box::new(zstd::stream::read::Decoder::new(packed)?),
            Some("gz") => Box::new(GzipReader::new(packed)),
            _ => return Ok(Self { name: path.clone(), path, _unpacked: None }),
        };
        let file = NamedTempFile::new()?;
        let unpacked = io::copy(&mut reader, &mut BufWriter::new(&file));
        // A damaged file is a valid input too.
        if unpacked.is_err() {
            return Ok(Self { name: path.clone(), path, _unpacked: None });
        }
        let unpacked = file.into_temp_path();
        Ok(Self { name: path, path: unpacked.to_path_buf(), _unpacked: Some(unpacked) })
    }
}
