//! The colours of series and the styles of their bars.

use plotters::style::{Color, RGBColor, ShapeStyle};

use super::{Chart, Series};

/// The colours of Okabe and Ito without the palest one, and two greys.
pub(super) const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(90, 90, 90),
    RGBColor(175, 175, 175),
];

/// The place in [`COLOURS`] of the colour of a paper's values.
const PAPER_STYLE: usize = 6;

impl Chart {
    /// Returns the series with the numbers of their styles: that of a paper has the same dark
    /// grey in every chart, and no other has it.
    pub(super) fn styled(&self) -> impl Iterator<Item = (usize, &Series)> {
        let mut next = 0;
        self.series.iter().map(move |series| {
            if is_of_a_paper(&series.name) {
                return (PAPER_STYLE, series);
            }
            let number = next;
            next += if (next + 1) % COLOURS.len() == PAPER_STYLE { 2 } else { 1 };
            (number, series)
        })
    }
}

/// Returns whether a series is of a paper, among others or for one case of several.
fn is_of_a_paper(name: &str) -> bool {
    ["paper,", "paper's"].iter().any(|start| name.starts_with(start))
        || name.strip_suffix("paper").is_some_and(|rest| rest.is_empty() || rest.ends_with(", "))
}

/// Returns the style of a series' bars: filled first; when the colours repeat, pale with a border;
/// then only a border.
pub(super) fn bar_styles(number: usize) -> Vec<ShapeStyle> {
    let colour = COLOURS[number % COLOURS.len()];
    match number / COLOURS.len() % 3 {
        0 => vec![colour.filled()],
        1 => vec![colour.mix(0.3).filled(), colour.stroke_width(1)],
        _ => vec![colour.stroke_width(1)],
    }
}
