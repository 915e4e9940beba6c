//! Names below the groups of a bar chart.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{FONT, count};

/// Pixels per character of an axis label, and between two of its lines.
const CHARACTER_WIDTH: f64 = 5.8;
pub(super) const LINE_HEIGHT: u32 = 13;
/// Maximum number of lines of a category's name before it is rotated.
const CATEGORY_LINES: usize = 3;
/// Maximum height of a rotated name in pixels; a longer name is truncated, so that the plot keeps
/// its size.
const UPRIGHT_MAX: f64 = 200.0;

/// Names below a bar chart's groups, arranged so that they do not overlap: broken into lines, or
/// rotated if there would be too many lines.
pub(super) enum CategoryNames {
    Lines(Vec<Vec<String>>),
    Upright(Vec<String>),
}

impl CategoryNames {
    /// Arranges names for groups of a given width in pixels.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "pixels by pixels")]
    pub(super) fn within(width: f64, names: &[String]) -> Self {
        let characters = (width / CHARACTER_WIDTH) as usize;
        let lines: Vec<Vec<String>> = names.iter().map(|name| broken(name, characters)).collect();
        let is_narrow = |line: &String| line.chars().count() <= characters;
        if lines.iter().all(|lines| lines.len() <= CATEGORY_LINES && lines.iter().all(is_narrow)) {
            Self::Lines(lines)
        } else {
            Self::Upright(names.to_vec())
        }
    }

    /// Returns the pixels that they need below the axis.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few characters")]
    pub(super) fn height(&self) -> u32 {
        match self {
            Self::Lines(names) => {
                let lines = names.iter().map(Vec::len).max().unwrap_or(0);
                12 + LINE_HEIGHT * lines as u32
            }
            Self::Upright(names) => {
                let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
                12 + (count(longest) * CHARACTER_WIDTH).min(UPRIGHT_MAX) as u32
            }
        }
    }

    pub(super) fn draw(
        &self,
        number: usize,
        (x, y): (i32, i32),
        area: &DrawingArea<SVGBackend<'_>, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<std::io::Error>> {
        let font = (FONT, 12).into_font();
        match self {
            Self::Lines(names) => {
                let style = font.color(&BLACK).pos(Pos::new(HPos::Center, VPos::Top));
                let places = (y..).step_by(LINE_HEIGHT as usize);
                for (line, y) in names[number].iter().zip(places) {
                    area.draw(&Text::new(line.as_str(), (x, y), style.clone()))?;
                }
                Ok(())
            }
            Self::Upright(names) => {
                let style = font.transform(FontTransform::Rotate270).color(&BLACK);
                let style = style.pos(Pos::new(HPos::Right, VPos::Center));
                area.draw(&Text::new(names[number].as_str(), (x, y), style))
            }
        }
    }
}

/// Breaks a text at spaces into lines of limited length; a longer word gets its own line.
pub(super) fn broken(text: &str, characters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= characters => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::{Axis, Chart, LEGEND_WIDTH, SIZE, Series};
    use super::*;

    /// Returns a number in an element of a drawing.
    fn attribute(element: &str, name: &str) -> f64 {
        let rest =
            element.split(&format!(" {name}=\"")).nth(1).unwrap_or_else(|| panic!("{name}: {element}"));
        rest.split('"').next().unwrap().parse().unwrap()
    }

    /// Returns left, right, top and bottom of the rectangles with a colour: that of the legend, and
    /// those of the plot.
    fn bars_of(svg: &str, colour: &str) -> ([f64; 4], Vec<[f64; 4]>) {
        let edges = |rect: &str| {
            let [x, y, width, height] = ["x", "y", "width", "height"].map(|name| attribute(rect, name));
            [x, x + width, y, y + height]
        };
        let mut all: Vec<_> = svg.split("<rect").filter(|rect| rect.contains(colour)).map(edges).collect();
        let legend = all.pop().unwrap();
        (legend, all)
    }

    #[test]
    fn paper_series_has_a_colour_of_its_own_in_every_chart() {
        for at in [0, 1, 2, 3, 6] {
            let mut names: Vec<String> = (0..7).map(|number| format!("series {number}")).collect();
            let paper = ["paper", "paper, one of two", "one of two, paper", "paper's bound"][at % 4];
            names.insert(at, String::from(paper));
            let series = names.iter().map(|name| Series::bars(name.as_str(), [10.0]));
            let chart = series.fold(Chart::bars("Shares", ["one"], Axis::linear("%")), Chart::with);
            // One in the legend and one in the picture.
            assert_eq!(chart.svg().unwrap().matches("#5A5A5A").count(), 2, "at {at}");
        }
    }

    #[test]
    fn bars_have_the_height_of_their_values_above_their_names() {
        let heights = [[10.0, 20.0, 30.0], [30.0, 15.0, 0.0]];
        let svg = Chart::bars("Shares", ["one", "two", "three"], Axis::linear("%"))
            .with(Series::bars("a paper that has a name of many words", heights[0]))
            .with(Series::bars("ours", heights[1]))
            .svg()
            .unwrap();
        let text = |line: &str| {
            let element = svg.split("<text").skip(1).find(|text| text.contains(&format!(">\n{line}\n<")));
            let element = element.unwrap_or_else(|| panic!("no {line} in {svg}"));
            ["x", "y"].map(|name| attribute(element, name))
        };
        let [paper, ours] = ["#0072B2", "#D55E00"].map(|colour| bars_of(&svg, colour));
        let bottom = paper.1[0][3];
        let per_unit = (bottom - paper.1[2][2]) / 30.0;
        assert!(per_unit > 9.0, "{paper:?}");
        for (group, name) in ["one", "two", "three"].into_iter().enumerate() {
            let [first, second] = [paper.1[group], ours.1[group]];
            for (series, [_, _, top, lowest]) in [first, second].into_iter().enumerate() {
                assert!((lowest - bottom).abs() < 1.5, "{lowest} and {bottom}");
                assert!((lowest - top - per_unit * heights[series][group]).abs() < 2.0, "{name}: {top}");
            }
            let widths = [first, second].map(|[left, right, ..]| right - left);
            assert!(widths.iter().all(|width| (80.0..90.0).contains(width)), "{name}: {widths:?}");
            assert!((first[1]..first[1] + 10.0).contains(&second[0]), "{first:?} {second:?}");
            let [x, y] = text(name);
            let middle = f64::midpoint(first[0], second[1]);
            assert!((x - middle).abs() < 6.0, "{name} at {x}, its bars around {middle}");
            assert!(
                (bottom + 5.0..bottom + 15.0).contains(&y),
                "{name} at {y}, its bars stand on {bottom}"
            );
        }
        // The legend has one line per part of a name, with the mark beside the first.
        let lines = ["a paper that has a name of", "many words", "ours"].map(text);
        let apart = |one: f64, other: f64, pixels: f64| (other - one - pixels).abs() < 0.5;
        assert!(
            apart(lines[0][1], lines[1][1], 15.0) && apart(lines[1][1], lines[2][1], 20.0),
            "{lines:?}"
        );
        for (mark, [x, y]) in [(paper.0, lines[0]), (ours.0, lines[2])] {
            assert!(mark[1] < x && mark[0] > f64::from(SIZE.0 - LEGEND_WIDTH), "{mark:?} {x}");
            assert!(apart(y, mark[2], 1.0) && apart(y, mark[3], 11.0), "{mark:?} {y}");
        }
    }

    #[test]
    fn negative_bars_extend_below_zero_and_zero_has_no_bar() {
        let svg = Chart::bars("Loss", ["gain", "none", "loss"], Axis::linear("%"))
            .with(Series::bars("ours", [-10.0, 0.0, 20.0]))
            .svg()
            .unwrap();
        let bars = bars_of(&svg, "#0072B2").1;
        let zero = bars[0][2];
        assert!(bars[1][3] - bars[1][2] < 1.5, "{bars:?}");
        assert!((bars[1][2] - zero).abs() < 1.5 && (bars[2][3] - zero).abs() < 1.5, "{bars:?}");
        let (gain, loss) = (bars[0][3] - zero, zero - bars[2][2]);
        assert!((loss - 2.0 * gain).abs() < 3.0 && gain > 30.0, "{bars:?}");
        let svg = Chart::bars("Gains", ["one", "two"], Axis::linear("%"))
            .with(Series::bars("ours", [-10.0, -20.0]))
            .svg()
            .unwrap();
        let bars = bars_of(&svg, "#0072B2").1;
        assert!((bars[1][3] - bars[1][2] - 2.0 * (bars[0][3] - bars[0][2])).abs() < 3.0, "{bars:?}");
    }

    #[test]
    fn group_names_do_not_overlap() {
        let named = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            CategoryNames::within(680.0 / count(names.len()), &names)
        };
        let CategoryNames::Lines(lines) = named(&["one", "two"]) else { panic!("they are short") };
        assert_eq!(lines, [["one"], ["two"]]);
        let long = ["queue 16, demand 100 %, elephant"; 6];
        let CategoryNames::Lines(lines) = named(&long) else { panic!("two lines are enough") };
        assert_eq!(lines[5], ["queue 16, demand", "100 %, elephant"]);
        let chart = Chart::bars("Six", long, Axis::linear("%")).with(Series::bars("ours", [10.0; 6]));
        let svg = chart.svg().unwrap();
        assert_eq!(
            ["\nqueue 16, demand\n", "\n100 %, elephant\n"].map(|line| svg.matches(line).count()),
            [6, 6]
        );
        assert!(matches!(named(&["a policy of a long name"; 24]), CategoryNames::Upright(_)));
        let svg = Chart::bars("Many", ["a policy of a long name"; 24], Axis::linear("%"))
            .with(Series::bars("ours", [10.0; 24]))
            .svg();
        assert_eq!(svg.unwrap().matches("rotate(270").count(), 25, "all names and that of the axis");
    }

    #[test]
    fn series_names_get_their_full_width() {
        let height = |width, name: &str| CategoryNames::within(width, &["x".into(), name.into()]).height();
        assert_eq!([height(60.0, "short"), height(60.0, "a name of three")], [12 + 13, 12 + 2 * 13]);
        assert_eq!(height(60.0, "eleven char"), 12 + 2 * 13, "ten fit");
        assert_eq!(height(60.0, "twenty letters in one".replace(' ', "").as_str()), 12 + 104, "upright");
        assert_eq!(height(60.0, &"x".repeat(300)), 12 + 200, "what is longer is cut off");
    }

    #[test]
    fn legend_lines_break_at_spaces() {
        assert_eq!(broken("a bc def", 4), ["a bc", "def"]);
        assert_eq!(broken("longer than", 4), ["longer", "than"]);
    }
}
