//! Where an axis has numbers, and how it writes them.

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

use super::Scale;

/// A range with its numbers at expected positions.
pub(super) struct Ruler {
    range: RangedCoordf64,
    ticks: Vec<f64>,
}

impl Ruler {
    pub(super) fn new(scale: Scale, range: std::ops::Range<f64>) -> Self {
        Self { ticks: ticks(scale, &range), range: range.into() }
    }
}

impl Ranged for Ruler {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.range.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _hint: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.range.range()
    }
}

/// Returns the positions at which an axis has numbers: one, two and five times a power of ten.
pub(super) fn ticks(scale: Scale, range: &std::ops::Range<f64>) -> Vec<f64> {
    const WANTED: f64 = 7.0;
    let span = range.end - range.start;
    match scale {
        Scale::Log => {
            let multiples: &[f64] = if span < 1.2 {
                &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0]
            } else if span < 3.5 {
                &[1.0, 2.0, 5.0]
            } else {
                &[1.0]
            };
            let every = (span / 10.0).ceil().max(1.0);
            let mut ticks = Vec::new();
            let mut decade = (range.start / every).floor() * every;
            while decade <= range.end {
                ticks.extend(multiples.iter().map(|multiple| decade + multiple.log10()));
                decade += every;
            }
            ticks.retain(|tick| range.contains(tick));
            ticks
        }
        Scale::Linear => {
            let power = 10_f64.powf((span / WANTED).log10().floor());
            let step = [1.0, 2.0, 5.0, 10.0]
                .map(|factor| factor * power)
                .into_iter()
                .find(|step| span / step <= WANTED + 1.0);
            let step = step.unwrap_or(10.0 * power);
            let mut ticks = Vec::new();
            let mut tick = (range.start / step).ceil() * step;
            while tick <= range.end && ticks.len() < 20 {
                ticks.push(tick);
                tick += step;
            }
            ticks
        }
    }
}

/// Returns a number in the short form of an axis: `1.5M`, `20`, `0.03`.
pub(super) fn short(value: f64) -> String {
    let magnitude = value.abs();
    for (limit, suffix) in [(1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if magnitude >= limit * 0.9995 {
            return format!("{}{suffix}", trimmed(value / limit, 2));
        }
    }
    match magnitude {
        m if m < 1e-12 => String::from("0"),
        m if m < 0.001 => format!("{value:.0e}"),
        m if m < 1.0 => trimmed(value, 3),
        m if m < 10.0 => trimmed(value, 2),
        _ => trimmed(value, 1),
    }
}

fn trimmed(value: f64, places: usize) -> String {
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
