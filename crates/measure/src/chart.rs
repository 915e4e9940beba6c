//! Draws charts as SVG text, for reports that need no other files.
//!
//! A [`Chart`] is data: axes and series. [`Chart::svg`] draws it, and [`Chart::rows`] returns the
//! same numbers as rows, so that every picture is accompanied by its figures. The colours are
//! distinguishable with any colour vision, and each series also has its own mark.

use std::fmt::Write as _;

use plotters::coord::Shift;
use plotters::prelude::*;
use serde::Serialize;
use thiserror::Error;

mod categories;
mod ruler;
mod styles;

use categories::{CategoryNames, broken};
use ruler::{Ruler, short};
use styles::{COLOURS, bar_styles};

/// Draws the mark of a series: circle, triangle and cross in turn. This is a macro because points
/// of a chart and of its legend have different types.
macro_rules! mark {
    ($number:expr, $at:expr, $colour:expr) => {
        match $number % 3 {
            0 => Circle::new($at, 4, $colour.filled()).into_dyn(),
            1 => TriangleMarker::new($at, 5, $colour.filled()).into_dyn(),
            _ => Cross::new($at, 4, $colour.stroke_width(2)).into_dyn(),
        }
    };
}

/// The reason why a chart cannot be drawn.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ChartError {
    /// No point of any series is visible on these axes.
    #[error("chart \"{title}\" has no point within its axes")]
    Empty {
        /// The chart.
        title: String,
    },
    /// The drawing library failed.
    #[error("chart \"{title}\" cannot be drawn: {why}")]
    Drawing {
        /// The chart.
        title: String,
        /// The message of the drawing library.
        why: String,
    },
}

/// How an axis divides its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Equal steps are equal differences.
    #[default]
    Linear,
    /// Equal steps are equal factors; values that are not positive are not shown.
    Log,
}

impl Scale {
    fn place(self, value: f64) -> Option<f64> {
        match self {
            Self::Linear => value.is_finite().then_some(value),
            Self::Log => (value.is_finite() && value > 0.0).then(|| value.log10()),
        }
    }

    fn value(self, place: f64) -> f64 {
        match self {
            Self::Linear => place,
            Self::Log => 10_f64.powf(place),
        }
    }
}

/// One axis of a chart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Axis {
    /// The quantity, with its unit.
    pub label: String,
    /// How it is divided.
    pub scale: Scale,
}

impl Axis {
    /// Returns an axis of equal differences.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear }
    }

    /// Returns an axis of equal factors.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Log }
    }
}

/// Points with a common name.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The points. For bars, the x value is the number of the category.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<[Option<f64>; 2]>"))]
    pub points: Vec<(f64, f64)>,
    /// Whether points are joined by a line.
    pub joined: bool,
    /// The lower and the upper end of an interval around each point; empty if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<[Option<f64>; 2]>"))]
    pub intervals: Vec<(f64, f64)>,
}

impl Series {
    /// Returns points joined by a line.
    pub fn line(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { name: name.into(), points, joined: true, intervals: Vec::new() }
    }

    /// Returns single points, such as values that a paper states.
    pub fn points(name: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { joined: false, ..Self::line(name, points) }
    }

    /// Returns the heights of bars, one for each category in order.
    pub fn bars(name: impl Into<String>, heights: impl IntoIterator<Item = f64>) -> Self {
        Self::points(name, (0_u32..).map(f64::from).zip(heights).collect())
    }
}

/// A picture's data.
///
/// # Examples
///
/// ```
/// use flowloom_measure::chart::{Axis, Chart, Series};
/// let chart = Chart::new("Lookup time", Axis::log("flows"), Axis::linear("ns"))
///     .with(Series::line("ours", vec![(1e3, 8.0), (1e6, 21.0)]));
/// assert!(chart.svg()?.starts_with("<svg"));
/// assert_eq!(chart.rows()[1], ["ours", "1000", "8"]);
/// # Ok::<(), flowloom_measure::chart::ChartError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Chart {
    /// The title.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Names of the groups of a bar chart; empty for any other.
    pub categories: Vec<String>,
    /// The series.
    pub series: Vec<Series>,
    /// Series are layers on top of each other. They have points at the same places.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_stacked: bool,
}

/// Width and height in pixels. A longer legend adds to the height and does not change the plot.
const SIZE: (u32, u32) = (960, 420);
/// Margin in pixels around the plot, and the space for the labels below and beside it.
const MARGIN: u32 = 10;
const X_LABELS: u32 = 42;
const Y_LABELS: u32 = 64;
/// Width of the legend in pixels, and the number of characters per line.
const LEGEND_WIDTH: u32 = 190;
const LEGEND_CHARACTERS: usize = 26;
/// Pixels above the first name of the legend, per line of a name, and between two names.
const LEGEND_TOP: u32 = 52;
const LEGEND_LINE: u32 = 15;
const LEGEND_GAP: u32 = 5;
/// Number of marks on a line of many points.
const LONG_MARKS: usize = 8;
const FONT: &str = "sans-serif";

impl Chart {
    /// Returns a chart without series.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        Self { title: title.into(), x, y, categories: Vec::new(), series: Vec::new(), is_stacked: false }
    }

    /// Returns a bar chart without bars.
    pub fn bars<T: Into<String>>(
        title: impl Into<String>,
        categories: impl IntoIterator<Item = T>,
        y: Axis,
    ) -> Self {
        let categories = categories.into_iter().map(Into::into).collect();
        Self { categories, ..Self::new(title, Axis::linear(""), y) }
    }

    /// Draws the series as layers on top of each other, which have points at the same places.
    #[must_use]
    pub fn stacked(mut self) -> Self {
        self.is_stacked = true;
        self
    }

    /// Adds a series.
    #[must_use]
    pub fn with(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    /// Adds a point to the series with a name; creates the series if it does not exist.
    pub fn push(&mut self, name: &str, joined: bool, point: (f64, f64)) {
        if let Some(series) = self.series.iter_mut().find(|series| series.name == name) {
            series.points.push(point);
        } else {
            self.series.push(Series { joined, ..Series::points(name, vec![point]) });
        }
    }

    /// Returns the numbers as rows, the header first: series, place, value; and the ends of its
    /// interval, if it has one.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let (x, y) = if self.categories.is_empty() {
            (self.x.label.clone(), self.y.label.clone())
        } else {
            (String::from("category"), self.y.label.clone())
        };
        let mut rows = vec![vec![String::from("series"), x, y]];
        for series in &self.series {
            for (at, &(x, y)) in series.points.iter().enumerate() {
                let place = self.category(x).map_or_else(|| x.to_string(), str::to_owned);
                let interval =
                    series.intervals.get(at).map(|(low, high)| [low.to_string(), high.to_string()]);
                let cells = [series.name.clone(), place, y.to_string()];
                rows.push(cells.into_iter().chain(interval.into_iter().flatten()).collect());
            }
        }
        if self.series.iter().any(|series| !series.intervals.is_empty()) {
            rows[0].extend(["low", "high"].map(str::to_owned));
        }
        rows
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small whole numbers")]
    fn category(&self, place: f64) -> Option<&str> {
        self.categories.get(place.round().max(0.0) as usize).map(String::as_str)
    }

    /// Draws the chart.
    ///
    /// # Errors
    ///
    /// Returns [`ChartError`] if there is nothing to show.
    pub fn svg(&self) -> Result<String, ChartError> {
        if !self.is_stacked {
            return self.drawn(&mut Vec::new());
        }
        let mut places = Vec::new();
        let mut text = self.piled().drawn(&mut places)?;
        let end = text.rfind("</svg>").unwrap_or(text.len());
        text.insert_str(end, &self.pointed(&places));
        Ok(text)
    }

    /// Returns the chart with each series on top of those before it.
    fn piled(&self) -> Self {
        let mut piled = self.clone();
        for at in 1..piled.series.len() {
            let (below, rest) = piled.series.split_at_mut(at);
            for (point, under) in rest[0].points.iter_mut().zip(&below[at - 1].points) {
                point.1 += under.1;
            }
        }
        piled
    }

    /// Returns an invisible column around each of these places, with the values at it, which
    /// programs show under the pointer.
    fn pointed(&self, places: &[i32]) -> String {
        let mut text = String::new();
        let first = self.series.first().map_or(&[][..], |series| &series.points);
        for (at, (&x, point)) in places.iter().zip(first).enumerate() {
            let left = at.checked_sub(1).map_or(x - 1, |before| i32::midpoint(places[before], x));
            let right = places.get(at + 1).map_or(x + 1, |after| i32::midpoint(x, *after));
            let (width, height) = ((right - left).max(1), SIZE.1 - X_LABELS);
            let place = format!("{} {}", short(point.0), crate::text::escape(&self.x.label));
            let _ = write!(
                text,
                "<rect x=\"{left}\" y=\"0\" width=\"{width}\" height=\"{height}\" opacity=\"0\"><title>{place}"
            );
            for series in &self.series {
                let value = series.points.get(at).map_or(0.0, |point| point.1);
                let _ = write!(text, "\n{}: {}", crate::text::escape(&series.name), short(value));
            }
            text.push_str("</title></rect>\n");
        }
        text
    }

    /// Draws the chart, and adds the horizontal places of its first series' points.
    fn drawn(&self, horizontal: &mut Vec<i32>) -> Result<String, ChartError> {
        let mut text = String::new();
        {
            let size = (SIZE.0, SIZE.1.max(self.legend_height()));
            let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
            area.fill(&WHITE).map_err(|error| self.failed(&error))?;
            // The legend is beside the plot, so that it covers no points.
            let (left, legend) = area.split_horizontally(SIZE.0 - self.legend_width());
            let (plot, _) = left.split_vertically(SIZE.1);
            if self.categories.is_empty() {
                self.draw_lines(&plot, horizontal)?;
            } else {
                self.draw_bars(&plot)?;
            }
            if self.legend_width() > 0 {
                self.draw_legend(&legend)?;
            }
            area.present().map_err(|error| self.failed(&error))?;
        }
        // Most control characters are not allowed in XML, not even escaped; file names may contain
        // them.
        Ok(text.replace(|character: char| character.is_control() && character != '\n', "\u{FFFD}"))
    }

    fn failed(&self, why: &dyn std::fmt::Display) -> ChartError {
        ChartError::Drawing { title: self.title.clone(), why: why.to_string() }
    }

    /// Returns the points of a series that its axes can show.
    fn places(&self, series: &Series) -> Vec<(f64, f64)> {
        let place = |&(x, y): &(f64, f64)| Some((self.x.scale.place(x)?, self.y.scale.place(y)?));
        series.points.iter().filter_map(place).collect()
    }

    /// Returns the lower and the upper end of each interval that the axes can show.
    fn whiskers(&self, series: &Series) -> Vec<[(f64, f64); 2]> {
        let ends = |(&(x, _), &(low, high)): (&(f64, f64), &(f64, f64))| {
            let (x, y) = (self.x.scale.place(x)?, |end| self.y.scale.place(end));
            (low < high).then_some([(x, y(low)?), (x, y(high)?)])
        };
        series.points.iter().zip(&series.intervals).filter_map(ends).collect()
    }

    /// Returns the range that all points and intervals need, with some margin, and starting at zero
    /// if that is near.
    fn range(
        &self,
        axis: &Axis,
        from_zero: bool,
        pick: impl Fn(&(f64, f64)) -> f64,
    ) -> Result<std::ops::Range<f64>, ChartError> {
        let shown = |series| self.places(series).into_iter().chain(self.whiskers(series).into_flattened());
        let mut places: Vec<f64> = self.series.iter().flat_map(shown).map(|place| pick(&place)).collect();
        places.sort_by(f64::total_cmp);
        let (Some(&low), Some(&high)) = (places.first(), places.last()) else {
            return Err(ChartError::Empty { title: self.title.clone() });
        };
        let air = ((high - low) * 0.06).max(high.abs().max(1e-9) * 0.02);
        let low = match axis.scale {
            Scale::Linear if from_zero && low >= 0.0 => 0.0,
            _ => low - air,
        };
        Ok(low..high + air)
    }

    fn draw_lines(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        horizontal: &mut Vec<i32>,
    ) -> Result<(), ChartError> {
        let x = self.range(&self.x, false, |place| place.0)?;
        let y = self.range(&self.y, true, |place| place.1)?;
        let failed = |error: &dyn std::fmt::Display| self.failed(error);
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 17))
            .margin(MARGIN)
            .x_label_area_size(X_LABELS)
            .y_label_area_size(Y_LABELS)
            .build_cartesian_2d(Ruler::new(self.x.scale, x), Ruler::new(self.y.scale, y))
            .map_err(|error| failed(&error))?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(222, 222, 222))
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .label_style((FONT, 12))
            .x_label_formatter(&|&place| short(self.x.scale.value(place)))
            .y_label_formatter(&|&place| short(self.y.scale.value(place)))
            .draw()
            .map_err(|error| failed(&error))?;
        if self.is_stacked {
            let layers: Vec<_> = self.styled().collect();
            // The upper layers first, so that the others cover what lies below them.
            for (number, series) in layers.into_iter().rev() {
                let mut polygon = self.places(series);
                horizontal.clear();
                horizontal.extend(polygon.iter().map(|place| chart.backend_coord(place).0));
                if let (Some(first), Some(last)) = (polygon.first().copied(), polygon.last().copied()) {
                    polygon.extend([(last.0, 0.0), (first.0, 0.0)]);
                }
                let layer = Polygon::new(polygon, COLOURS[number % COLOURS.len()].filled());
                chart.draw_series([layer]).map_err(|error| failed(&error))?;
            }
            return Ok(());
        }
        for (number, series) in self.styled() {
            let colour = COLOURS[number % COLOURS.len()];
            let places = self.places(series);
            if series.joined {
                chart
                    .draw_series(LineSeries::new(places.iter().copied(), colour.stroke_width(2)))
                    .map_err(|error| failed(&error))?;
            }
            // Many marks cover a line; a few identify it, at a distance from those of its
            // neighbours.
            let every = if series.joined && places.len() > 60 { places.len() / LONG_MARKS } else { 1 };
            let is_alone = self.series.len() == 1 && every > 1;
            let marked = places.iter().filter(|_| !is_alone).skip(number * 5 % every).step_by(every);
            chart
                .draw_series(marked.map(|&at| mark!(number, at, colour)))
                .map_err(|error| failed(&error))?;
            let whiskers = self.whiskers(series).into_iter();
            chart
                .draw_series(whiskers.map(|ends| PathElement::new(ends, colour.stroke_width(1))))
                .map_err(|error| failed(&error))?;
        }
        Ok(())
    }

    /// Returns the width of the legend. A single series with the name of the axis needs none.
    fn legend_width(&self) -> u32 {
        if matches!(&self.series[..], [one] if one.name == self.y.label) { 0 } else { LEGEND_WIDTH }
    }

    /// Returns the pixels from the top of the picture to the end of the legend.
    fn legend_height(&self) -> u32 {
        let names = self.series.iter().map(|series| broken(&series.name, LEGEND_CHARACTERS));
        names.fold(LEGEND_TOP, |y, name| name.iter().fold(y + LEGEND_GAP, |y, _| y + LEGEND_LINE))
    }

    /// Lists the series below each other, each beside its mark.
    fn draw_legend(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), ChartError> {
        let failed = |error: &dyn std::fmt::Display| self.failed(error);
        let mut y = LEGEND_TOP.cast_signed();
        for (number, series) in self.styled() {
            if self.categories.is_empty() {
                let colour = COLOURS[number % COLOURS.len()];
                area.draw(&mark!(number, (12, y), colour)).map_err(|error| failed(&error))?;
            } else {
                for style in bar_styles(number) {
                    let bar = Rectangle::new([(6, y - 5), (18, y + 5)], style);
                    area.draw(&bar).map_err(|error| failed(&error))?;
                }
            }
            for line in broken(&series.name, LEGEND_CHARACTERS) {
                let text = Text::new(line, (26, y - 6), (FONT, 12));
                area.draw(&text).map_err(|error| failed(&error))?;
                y += LEGEND_LINE.cast_signed();
            }
            y += LEGEND_GAP.cast_signed();
        }
        Ok(())
    }

    fn draw_bars(&self, area: &DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), ChartError> {
        let mut y = self.range(&self.y, true, |place| place.1)?;
        // Bars begin at zero; on a logarithmic axis, which has no zero, they begin at its lower
        // end.
        let foot = match self.y.scale {
            Scale::Linear => {
                y = y.start.min(0.0)..y.end.max(0.0);
                0.0
            }
            Scale::Log => y.start,
        };
        let bottom = y.start;
        let failed = |error: &dyn std::fmt::Display| self.failed(error);
        let groups = count(self.categories.len());
        let width = f64::from(SIZE.0 - self.legend_width() - Y_LABELS - 2 * MARGIN) / groups;
        let names = CategoryNames::within(width, &self.categories);
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, (FONT, 17))
            .margin(MARGIN)
            .x_label_area_size(names.height().max(X_LABELS))
            .y_label_area_size(Y_LABELS)
            .build_cartesian_2d(-0.5..groups - 0.5, Ruler::new(self.y.scale, y))
            .map_err(|error| failed(&error))?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(RGBColor(222, 222, 222))
            .x_labels(self.categories.len() * 2 + 1)
            .y_desc(&self.y.label)
            .label_style((FONT, 12))
            .x_label_formatter(&|_| String::new())
            .y_label_formatter(&|&place| short(self.y.scale.value(place)))
            .draw()
            .map_err(|error| failed(&error))?;
        for (number, _) in self.categories.iter().enumerate() {
            let (x, y) = chart.backend_coord(&(count(number), bottom));
            names.draw(number, (x, y + 9), area).map_err(|error| failed(&error))?;
        }
        // The bars of a group share its width; the only bar of a group has the full width.
        let beside = |series: &[Series], group: f64| {
            let is_in = |series: &&Series| series.points.iter().any(|point| (point.0 - group).abs() < 0.5);
            series.iter().filter(is_in).count()
        };
        let groups = self.series.iter().flat_map(|series| &series.points).map(|point| point.0);
        let most = groups.map(|group| beside(&self.series, group)).max().unwrap_or(1);
        let width = 0.8 / count(most);
        for (place, (number, series)) in self.styled().enumerate() {
            for style in bar_styles(number) {
                let bars = self.places(series).into_iter().map(|(group, top)| {
                    let left = group - 0.4 + width * count(beside(&self.series[..place], group));
                    Rectangle::new([(left, foot), (left + width * 0.92, top)], style)
                });
                chart.draw_series(bars).map_err(|error| failed(&error))?;
            }
            let whiskers = self.whiskers(series).into_iter().map(|ends| {
                let left = ends[0].0 - 0.4 + width * count(beside(&self.series[..number], ends[0].0));
                let middle = left + width * 0.46;
                PathElement::new(ends.map(|end| (middle, end.1)), BLACK.stroke_width(1))
            });
            chart.draw_series(whiskers).map_err(|error| failed(&error))?;
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a handful of series and groups")]
fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::categories::LINE_HEIGHT;
    use super::ruler::ticks;
    use super::*;

    fn lines() -> Chart {
        Chart::new("Time\u{1b} <by> flows", Axis::log("flows"), Axis::linear("ns"))
            .with(Series::line("ours & theirs", vec![(10.0, 1.0), (1000.0, 2.0)]))
            .with(Series::points("paper", vec![(100.0, 1.5), (0.0, 9.0), (50.0, f64::NAN)]))
    }

    #[test]
    fn chart_is_well_formed_and_labels_every_series() {
        let svg = lines().svg().unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{svg}");
        for text in ["Time\u{FFFD} &lt;by&gt; flows", "ours &amp; theirs", "paper", "flows", "ns"] {
            assert!(svg.contains(text), "{text} is missing");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains('\u{1b}'));
    }

    #[test]
    fn bars_are_placed_at_their_categories() {
        let chart = Chart::bars("Shares", ["one", "two"], Axis::linear("%"))
            .with(Series::bars("paper", [10.0, 20.0]))
            .with(Series::bars("ours", [11.0, 19.0]));
        let svg = chart.svg().unwrap();
        assert!(svg.contains(">\none\n<") || svg.contains("one"), "{svg}");
        assert!(svg.contains("two"));
        assert_eq!(chart.rows()[4], ["ours", "two", "19"]);
    }

    #[test]
    fn a_bar_that_is_alone_in_its_group_is_as_wide_as_the_group() {
        let width = |chart: Chart| {
            let svg = chart.svg().unwrap();
            let bar = svg
                .split("<rect")
                .find(|rect| rect.contains("#0072B2") && !rect.contains("width=\"12\""))
                .unwrap();
            bar.split("width=\"").nth(1).unwrap().split('"').next().unwrap().parse::<u32>().unwrap()
        };
        let chart = Chart::bars("Shares", ["one", "two"], Axis::linear("%"));
        let one = |name: &str, place| Series::points(name, vec![(place, 5.0)]);
        let apart = chart.clone().with(one("a", 0.0)).with(one("b", 1.0));
        let together = chart.with(one("a", 0.0)).with(one("b", 0.0));
        let (apart, together) = (width(apart), width(together));
        assert!(apart.abs_diff(2 * together) <= 2, "{apart} {together}");
    }

    #[test]
    fn series_with_repeated_colours_have_other_patterns() {
        let heights = (0..21).map(|number| Series::bars(format!("policy {number}"), [5.0]));
        let bars =
            heights.fold(Chart::bars("Many", ["all"], Axis::linear("ns")), Chart::with).svg().unwrap();
        // In the legend and in the plot, each bar with its border, if any.
        let of_first_colour: Vec<&str> =
            bars.split("<rect").filter(|rect| rect.contains("#0072B2")).collect();
        let kinds = ["opacity=\"1\" fill=\"#0072B2\"", "opacity=\"0.3\" fill=\"#0072B2\"", "fill=\"none\""]
            .map(|kind| of_first_colour.iter().filter(|rect| rect.contains(kind)).count());
        assert_eq!(kinds, [2, 2, 4], "{of_first_colour:?}");

        let long = |number: u32| {
            let points = (0..500).map(|x| (f64::from(x), f64::from(x + number))).collect();
            Series::line(format!("policy {number}"), points)
        };
        let lines =
            (0..24).map(long).fold(Chart::new("Many", Axis::linear("x"), Axis::linear("y")), Chart::with);
        // Circles mark every third series: one in the legend, and some on its line.
        let circles = lines.svg().unwrap().matches("<circle").count();
        assert!((8 * 8..8 * 11).contains(&circles), "{circles}");
    }

    #[test]
    fn confidence_intervals_are_drawn_and_listed() {
        let series = |intervals| Series { intervals, ..Series::bars("a", [5.0]) };
        let chart = |intervals| Chart::bars("t", ["x"], Axis::linear("y")).with(series(intervals));
        let (plain, with) = (chart(Vec::new()), chart(vec![(4.0, 5.0)]));
        assert_eq!(
            (plain.rows()[0].len(), &with.rows()[1][3..]),
            (3, &["4".to_owned(), "5".to_owned()][..])
        );
        let lines = |chart: &Chart| chart.svg().unwrap().matches("<polyline").count();
        assert_eq!(lines(&with), lines(&plain) + 1);
    }

    #[test]
    fn stacked_layers_show_their_own_values() {
        let layer = |name: &str, value| Series::line(name, vec![(1.0, value), (2.0, value)]);
        let chart = Chart::new("Pile", Axis::linear("s"), Axis::linear("packets"))
            .with(layer("tcp", 30.0))
            .with(layer("udp", 12.0))
            .stacked();
        assert_eq!(chart.piled().series[1].points, [(1.0, 42.0), (2.0, 42.0)]);
        assert_eq!(chart.rows()[3], ["udp", "1", "12"]);
        let svg = chart.svg().unwrap();
        assert_eq!(svg.matches("<polygon").count(), 3, "two layers, and a triangle in the legend");
        assert!(svg.contains("<title>1 s\ntcp: 30\nudp: 12</title>") && svg.ends_with("</svg>\n"), "{svg}");
    }

    #[test]
    fn empty_chart_is_an_error_with_its_title() {
        let chart =
            Chart::new("None", Axis::log("x"), Axis::linear("y")).with(Series::line("a", vec![(0.0, 1.0)]));
        assert_eq!(chart.svg(), Err(ChartError::Empty { title: "None".into() }));
    }

    #[test]
    fn single_point_has_a_margin() {
        let chart = Chart::new("One", Axis::linear("x"), Axis::log("y"))
            .with(Series::points("a", vec![(5.0, 5.0)]));
        assert!(chart.svg().is_ok());
    }

    #[test]
    fn axis_labels_are_placed_at_round_numbers() {
        assert_eq!(ticks(Scale::Linear, &(0.0..7.3)), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        assert_eq!(ticks(Scale::Linear, &(0.0..101.0)), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        let values: Vec<f64> =
            ticks(Scale::Log, &(0.5..2.5)).into_iter().map(|tick| 10_f64.powf(tick).round()).collect();
        assert_eq!(values, [5.0, 10.0, 20.0, 50.0, 100.0, 200.0]);
        assert!(ticks(Scale::Log, &(-12.0..12.0)).len() < 12);
    }

    #[test]
    fn chart_grows_with_its_legend() {
        let number = |text: &str| text.split('"').next().unwrap().parse::<u32>().unwrap();
        for (names, least) in [(3, SIZE.1), (18, SIZE.1), (19, SIZE.1), (24, 500), (200, 4000)] {
            let mut chart = Chart::new("Many", Axis::linear("x"), Axis::linear("y"));
            chart.series = vec![Series::line("policy", vec![(0.0, 1.0), (1.0, 2.0)]); names];
            let svg = chart.svg().unwrap();
            let last = svg.split("<text ").last().unwrap();
            let height = number(svg.split("height=\"").nth(1).unwrap());
            let low = number(last.split(" y=\"").nth(1).unwrap()) + LINE_HEIGHT;
            assert!(height >= low.max(least) && height < least + 100, "{names} names: {height}");
        }
    }

    #[test]
    fn axis_numbers_are_short() {
        let shown = [0.0, 1e-4, 0.03, 1.5, 20.0, 999.9, 1000.0, 1_500_000.0, 2e9].map(short);
        assert_eq!(shown, ["0", "1e-4", "0.03", "1.5", "20", "1k", "1k", "1.5M", "2G"]);
    }
}
