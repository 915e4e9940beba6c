//! Writes a reproduction: CSV and SVG for each item, one JSON file, one page.

use std::fs;
use std::path::{Path, PathBuf};

use crate::experiment::Value;
use crate::page;
use crate::record::{Record, RecordError, Reproduction};

impl Reproduction {
    /// Writes `report.html`, `result.json`, `ablations.csv`, `sweeps.csv`; per item, its values;
    /// and per chart, its numbers and its picture.
    ///
    /// # Errors
    ///
    /// Returns [`RecordError`] with the file that could not be written; earlier files remain.
    pub fn write(&self, folder: &Path) -> Result<(), RecordError> {
        let put = |path: PathBuf, bytes: &[u8]| {
            let parent = path.parent().unwrap_or(folder);
            // A file that is cut would look like a whole one.
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let partial = parent.join(format!(".{name}.partial"));
            let written = fs::create_dir_all(parent)
                .and_then(|()| fs::write(&partial, bytes))
                .and_then(|()| fs::rename(&partial, &path))
                .inspect_err(|_| drop(fs::remove_file(&partial)));
            written.map_err(|source| RecordError { path, source })
        };
        for record in &self.items {
            let base = folder.join(record.id);
            put(base.with_extension("csv"), &values_csv(record))?;
            for (number, chart) in (1..).zip(&record.outcome.charts) {
                let name = |ending: &str| {
                    let file = base.file_name().unwrap_or_default().to_string_lossy();
                    base.with_file_name(format!("{file}-{number}.{ending}"))
                };
                put(name("csv"), &csv_of(&chart.rows()))?;
                if let Ok(svg) = chart.svg() {
                    put(name("svg"), svg.as_bytes())?;
                }
            }
        }
        put(folder.join("ablations.csv"), &csv_of(&self.ablation_rows()))?;
        put(folder.join("sweeps.csv"), &csv_of(&self.sweep_rows()))?;
        put(folder.join("result.json"), self.to_json().as_bytes())?;
        put(folder.join("report.html"), page::html(self).as_bytes())
    }
}

impl Reproduction {
    /// Returns the runs with a switch turned as rows, the header first.
    fn ablation_rows(&self) -> Vec<Vec<String>> {
        let head = [
            "item", "switch", "kind", "verdict", "without", "agreeing", "seeds", "noticed", "value",
            "with", "without_it",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for record in &self.items {
            for ablation in &record.ablations {
                let effect = ablation.effects.first();
                rows.push(vec![
                    record.id.to_owned(),
                    ablation.switch.to_owned(),
                    ablation.kind.word().to_owned(),
                    record.outcome.verdict.word().to_owned(),
                    ablation.verdict.word().to_owned(),
                    ablation.agreeing.to_string(),
                    ablation.draws.to_string(),
                    ablation.noticed.words().to_owned(),
                    effect.map_or_else(String::new, |effect| effect.name.clone()),
                    effect.map_or_else(String::new, |effect| effect.with.to_string()),
                    effect.map_or_else(String::new, |effect| effect.without.to_string()),
                ]);
            }
        }
        rows
    }

    /// Returns the verdicts over guesses as rows, the header first.
    fn sweep_rows(&self) -> Vec<Vec<String>> {
        let head = ["item", "guess", "unit", "value", "is_default", "verdict"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for record in &self.items {
            for sweep in &record.sweeps {
                rows.extend(sweep.points.iter().map(|point| {
                    vec![
                        record.id.to_owned(),
                        sweep.guess.to_owned(),
                        sweep.unit.to_owned(),
                        point.at.to_string(),
                        point.is_default.to_string(),
                        point.verdict.word().to_owned(),
                    ]
                }));
            }
        }
        rows
    }
}

fn values_csv(record: &Record) -> Vec<u8> {
    let mut rows = vec![Value::COLUMNS.map(str::to_owned).to_vec()];
    rows.extend(record.outcome.values.iter().map(|value| value.cells().to_vec()));
    csv_of(&rows)
}

/// Returns rows as CSV. Writing to memory does not fail.
fn csv_of(rows: &[Vec<String>]) -> Vec<u8> {
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    for row in rows {
        writer.write_record(row).expect("memory takes every record");
    }
    writer.into_inner().expect("memory flushes")
}
