//! Names below the groups of a bar chart.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{FONT, count};

/// Pixels of a character of an axis' label, and from one of its lines to the next.
const CHARACTER_WIDTH: f64 = 5.8;
pub(super) const LINE_HEIGHT: u32 = 13;
/// Lines that a category's name may have before it is turned upright.
const CATEGORY_LINES: usize = 3;
/// Pixels of an upright name; a longer one is cut off, and not the plot.
const UPRIGHT_MAX: f64 = 200.0;

/// Names below a bar chart's groups, so that none reaches into the next: broken into lines, or upright where they would be too many.
pub(super) enum CategoryNames {
    Lines(Vec<Vec<String>>),
    Upright(Vec<String>),
}

impl CategoryNames {
    /// Lays names out for groups of so many pixels.
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

/// Breaks a text at blanks into lines of at most so many characters; a longer word has a line of its own.
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
    use super::super::{Axis, Chart, Series};
    use super::*;

    #[test]
    fn names_of_groups_do_not_reach_into_each_other() {
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
    fn names_have_the_room_that_they_need() {
        let height = |width, name: &str| CategoryNames::within(width, &["x".into(), name.into()]).height();
        assert_eq!([height(60.0, "short"), height(60.0, "a name of three")], [12 + 13, 12 + 2 * 13]);
        assert_eq!(height(60.0, "eleven char"), 12 + 2 * 13, "ten fit");
        assert_eq!(height(60.0, "twenty letters in one".replace(' ', "").as_str()), 12 + 104, "upright");
        assert_eq!(height(60.0, &"x".repeat(300)), 12 + 200, "what is longer is cut off");
    }

    #[test]
    fn legends_break_at_blanks() {
        assert_eq!(broken("a bc def", 4), ["a bc", "def"]);
        assert_eq!(broken("longer than", 4), ["longer", "than"]);
    }
}
