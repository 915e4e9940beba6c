//! Runs models in virtual time.

mod ordering;
mod schedule;
pub(crate) mod tcb_cache;
mod traffic;

use std::path::Path;

use flowloom_measure::chart::Chart;

use crate::args::Common;
use crate::args::simulate::Simulate;
use crate::exit::{Failure, Status};

/// Runs the verb.
pub(crate) fn run(arguments: &Simulate, common: &Common) -> Result<Status, Failure> {
    match arguments {
        Simulate::Schedule(arguments) => schedule::run(arguments, common),
        Simulate::Ordering(arguments) => ordering::run(arguments, common),
        Simulate::TcbCache(arguments) => tcb_cache::run(arguments, common),
    }
}

/// Writes charts as SVG and CSV into a folder.
fn save(folder: &Path, charts: &[(&str, Chart)]) -> Result<(), Failure> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::Output(format!("cannot write {}: {error}", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    for (name, chart) in charts {
        let path = folder.join(format!("{name}.svg"));
        let svg = chart.svg().map_err(|error| failed(&path, &error))?;
        std::fs::write(&path, svg).map_err(|error| failed(&path, &error))?;
        let path = folder.join(format!("{name}.csv"));
        let mut writer = csv::Writer::from_path(&path).map_err(|error| failed(&path, &error))?;
        for row in chart.rows() {
            writer.write_record(row).map_err(|error| failed(&path, &error))?;
        }
        writer.flush().map_err(|error| failed(&path, &error))?;
    }
    Ok(())
}
