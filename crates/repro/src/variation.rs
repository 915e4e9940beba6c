//! Changes to an item on purpose: a part of it switched off, or another value for a guess.
//!
//! A paper attributes an effect to a mechanism. An item that agrees with the paper shows it only if
//! it does not agree with the mechanism switched off just as well, so an item names its
//! mechanisms, and [`examine`](crate::examine()) runs it without each. A fault is a mistake in our
//! implementation, planted to see that the item notices.

/// What a [`Switch`] turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A mechanism that the paper has: it goes off.
    Mechanism,
    /// A mistake that an implementation could have: it is planted.
    Fault,
}

impl Kind {
    /// Returns the word that files use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Mechanism => "mechanism",
            Self::Fault => "fault",
        }
    }
}

/// A part of an item that can be switched off or broken.
///
/// # Examples
///
/// ```
/// use flowloom_repro::{Context, Scale, Switch};
///
/// const MIGRATION: Switch = Switch::mechanism("migration", "lines that are ON do not move");
/// let context = Context::new(Scale::Smoke, 1, &|| true);
/// assert!(!context.is_off(&MIGRATION));
/// assert!(Context { off: Some("migration"), ..context }.is_off(&MIGRATION));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Its name within the item.
    pub name: &'static str,
    /// The item's algorithm under the switch, in words.
    pub about: &'static str,
    /// Whether it is the paper's mechanism or a mistake of ours.
    pub kind: Kind,
}

impl Switch {
    /// Returns the switch of a mechanism of the paper.
    pub const fn mechanism(name: &'static str, about: &'static str) -> Self {
        Self { name, about, kind: Kind::Mechanism }
    }

    /// Returns the switch that plants a mistake.
    pub const fn fault(name: &'static str, about: &'static str) -> Self {
        Self { name, about, kind: Kind::Fault }
    }
}

/// A quantity or reading that the paper leaves open.
///
/// # Examples
///
/// ```
/// use flowloom_repro::{Context, Guess, Scale};
///
/// const LOCK: Guess = Guess::new("lock-cycles", "cycles", 150.0, &[0.0, 600.0], "cost of a lock");
/// let context = Context::new(Scale::Smoke, 1, &|| true);
/// assert_eq!(context.guess(&LOCK), 150.0);
/// assert_eq!(Context { guesses: &[("lock-cycles", 600.0)], ..context }.guess(&LOCK), 600.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guess {
    /// Its name, the same in all items that have it.
    pub name: &'static str,
    /// Its unit; empty for a factor or a choice.
    pub unit: &'static str,
    /// The value that items use.
    pub default: f64,
    /// The further values that a sweep tries.
    pub values: &'static [f64],
    /// What it is.
    pub about: &'static str,
}

impl Guess {
    /// Returns a guess.
    pub const fn new(
        name: &'static str,
        unit: &'static str,
        default: f64,
        values: &'static [f64],
        about: &'static str,
    ) -> Self {
        Self { name, unit, default, values, about }
    }

    /// Returns the default and the values of a sweep, ascending.
    pub fn points(&self) -> Vec<f64> {
        let mut points = self.values.to_vec();
        points.push(self.default);
        points.sort_by(f64::total_cmp);
        points.dedup();
        points
    }
}
