//! Generates small captures with their right flow records.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Instant;

use flowloom_scenarios::{Scenario, manifest};

use crate::args::Common;
use crate::args::generate::Scenarios;
use crate::exit::{Failure, Status};
use crate::output::write_whole;
use crate::render::generate::GenerateResult;
use crate::render::{counted, print};

/// Runs the command.
pub(super) fn run(arguments: &Scenarios, common: &Common) -> Result<Status, Failure> {
    let begun = Instant::now();
    let Scenarios { folder, count, dimensions, pcapng, seed } = arguments;
    open(folder)?;
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.join(name);
        write_whole(&path, bytes).map_err(|error| cannot_write(&path, &error))
    };
    let mut result = GenerateResult {
        schema: "flowloom/generate/1",
        path: folder.display().to_string(),
        what: counted(*count, "scenario"),
        seed: *seed,
        packets: 0,
        bytes_on_wire: 0,
        bytes_captured: 0,
        seconds: 0.0,
    };
    for index in 0..*count {
        let scenario = Scenario::new(*seed, index, *dimensions);
        let name = scenario.name();
        let ending = if *pcapng { "pcapng" } else { "pcap" };
        write(&format!("{name}.{ending}"), &scenario.capture(*pcapng))?;
        write(&format!("{name}.json"), scenario.answers().as_bytes())?;
        let (on_wire, captured) = scenario.bytes();
        result.packets += scenario.packets().len() as u64;
        result.bytes_on_wire += on_wire;
        result.bytes_captured += captured;
    }
    write("manifest.json", manifest(*seed, *count, *dimensions, *pcapng).as_bytes())?;
    result.seconds = begun.elapsed().as_secs_f64();
    print(&result, common)?;
    Ok(Status::Ok)
}

/// Creates the folder, or checks that it is empty: files of an earlier run would look like this
/// one's.
fn open(folder: &Path) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
    let mut entries = fs::read_dir(folder).map_err(|error| cannot_write(folder, &error))?;
    if entries.next().is_some() {
        return Err(Failure::Usage(format!(
            "the folder {} is not empty\n  name another one, or remove its files",
            folder.display()
        )));
    }
    Ok(())
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::Output(format!("cannot write {}: {error}", path.display()))
}
