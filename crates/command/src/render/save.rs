//! A result in a folder: one page with charts, the JSON document, and each chart with its data.

use std::fs;
use std::path::{Path, PathBuf};

use flowloom_measure::chart::Chart;
use flowloom_measure::page::Page;

pub use super::overview::{Overview, Table};
use super::{Report, csv, for_people, json, print, say};
use crate::args::Common;
use crate::args::save::Save;
use crate::exit::Failure;
use crate::output::write_whole;

/// A chart and the name of its files.
pub type Named = (&'static str, Chart);

/// Prints a result, and saves it if requested.
///
/// # Errors
///
/// Returns the same errors as [`save`] and [`print`](fn@print). A result that cannot be saved is
/// printed nevertheless.
pub fn print_and_save(
    report: &impl Report,
    title: &str,
    folder: &Save,
    charts: impl FnOnce() -> Vec<Named>,
    common: &Common,
) -> Result<(), Failure> {
    let saved =
        folder.save.as_ref().map_or(Ok(()), |folder| save(folder, title, report, &charts(), common));
    print(report, common)?;
    saved
}

/// Returns the files that [`save`] may write into a folder for charts with these names.
pub fn files(folder: &Path, pictures: &[&str]) -> impl Iterator<Item = PathBuf> {
    let pictures = pictures.iter().flat_map(|name| [format!("{name}.svg"), format!("{name}.csv")]);
    let others = ["result.csv", "report.html", "result.json"].map(String::from);
    pictures.chain(others).map(|name| folder.join(name))
}

/// Writes `report.html`, `result.json`, `result.csv`, and the CSV and SVG of each chart. Prints the
/// folder on stderr.
///
/// A chart without points has neither file, and the page gives the reason.
///
/// # Errors
///
/// Returns [`Failure::Output`] with the file that could not be written; earlier files remain.
pub fn save(
    folder: &Path,
    title: &str,
    report: &impl Report,
    charts: &[Named],
    common: &Common,
) -> Result<(), Failure> {
    let put = |name: PathBuf, text: String| {
        let path = folder.join(name);
        write_whole(&path, text.as_bytes())
            .map_err(|error| Failure::Output(format!("cannot write {}: {error}", path.display())))
    };
    fs::create_dir_all(folder)
        .map_err(|error| Failure::Output(format!("cannot write {}: {error}", folder.display())))?;
    let document = json(serde_json::to_string_pretty(report))?;
    let mut page = Page::new(title);
    let (lines, tables, overview) =
        for_people(|| (report.page_lines(), report.tables(), report.overview()));
    if let Some(Overview { about, warnings, tiles }) = overview {
        if !about.is_empty() {
            page.meta(&about);
        }
        let (over_time, others): (Vec<&Named>, Vec<_>) =
            charts.iter().partition(|(name, _)| name.starts_with("traffic-"));
        let chart = |page: &mut Page, named: &&Named| page.chart(&named.1);
        page.overview(&warnings, &tiles);
        page.side_by_side(&over_time, chart);
        page.side_by_side(&tables, table_to);
        page.side_by_side(&others, chart);
        page.folded("The account of every packet", |page| page.fields(&lines));
    } else {
        if tables.is_empty() {
            page.lines(&lines);
        } else {
            lines.iter().filter(|line| !line.is_empty()).for_each(|line| page.note(line));
        }
        for table in &tables {
            table_to(&mut page, table);
        }
        for (_, chart) in charts {
            page.chart(chart);
        }
    }
    for (name, chart) in charts {
        if let Ok(svg) = chart.svg() {
            put(format!("{name}.svg").into(), svg)?;
            put(format!("{name}.csv").into(), csv(&chart.rows())?)?;
        }
    }
    put("result.csv".into(), csv(&report.rows())?)?;
    put("report.html".into(), page.finish(document.trim_end()))?;
    put("result.json".into(), document)?;
    if common.quiet == 0 {
        say(&format!("saved in {}", folder.join("report.html").display()));
    }
    Ok(())
}

fn table_to(page: &mut Page, Table { title, rows, note }: &Table) {
    page.table(title, rows);
    if !note.is_empty() {
        page.note(note);
    }
}
