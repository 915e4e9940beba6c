//! Intentional changes to an item: a part of it is switched off, or a guess has another value.
//!
//! A paper attributes an effect to a mechanism. An item that agrees with the paper is evidence for
//! this only if it no longer agrees when the mechanism is switched off. An item therefore names its
//! mechanisms, and [`examine`](crate::examine()) runs it without each of them. A fault is an
//! intentional error in the implementation, introduced to verify that the item detects it.

/// The kind of change that a [`Switch`] makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SwitchKind {
    /// A mechanism of the paper, which is switched off.
    Mechanism,
    /// An error that an implementation could have, which is introduced.
    Fault,
}

impl SwitchKind {
    /// Returns the word that files use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Mechanism => "mechanism",
            Self::Fault => "fault",
        }
    }
}

/// The reason of an item without switches that compares with and without by itself.
pub(crate) const BOTH_RUN: &str = "the item runs the forms with and without the mechanism side by side";
/// The reason of an item without switches whose claim is about inputs, formulas or bounds.
pub(crate) const NO_EFFECT: &str = "the claim is about inputs, formulas or bounds, and names no mechanism";
/// The reason of an item without switches that varies the cause of an effect.
pub(crate) const SWEPT: &str =
    "the item varies the quantity that causes the effect from too little to more than enough";

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
    /// Description of the item's algorithm with the switch turned.
    pub about: &'static str,
    /// Whether it is a mechanism of the paper or an intentional error.
    pub kind: SwitchKind,
}

impl Switch {
    /// Returns the switch of a mechanism of the paper.
    pub const fn mechanism(name: &'static str, about: &'static str) -> Self {
        Self { name, about, kind: SwitchKind::Mechanism }
    }

    /// Returns a switch that introduces an error.
    pub const fn fault(name: &'static str, about: &'static str) -> Self {
        Self { name, about, kind: SwitchKind::Fault }
    }
}

/// A quantity or interpretation that the paper leaves open.
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
/// let lock = LOCK.within(0.0, 1000.0);
/// assert!(lock.accepts(1000.0) && !lock.accepts(0.5) && !lock.accepts(1001.0));
/// assert_eq!(lock.range(), "a whole number from 0 to 1000 (cycles)");
/// assert_eq!(Guess::new("order", "", 0.0, &[1.0], "order").range(), "one of 0, 1");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guess {
    /// Its name, which is the same in all items that use it.
    pub name: &'static str,
    /// Its unit; empty for a factor or a choice.
    pub unit: &'static str,
    /// The default value of items.
    pub default: f64,
    /// The additional values of a sweep.
    pub values: &'static [f64],
    /// The least and the greatest value; `None` for a choice, which is the default or a value of a
    /// sweep.
    pub bounds: Option<(f64, f64)>,
    /// Description of the guess.
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
        Self { name, unit, default, values, bounds: None, about }
    }

    /// Sets the least and the greatest value, for a quantity. Except for factors, whose unit is
    /// `×`, they are whole numbers.
    #[must_use]
    pub const fn within(self, least: f64, greatest: f64) -> Self {
        Self { bounds: Some((least, greatest)), ..self }
    }

    /// Returns whether the guess can have a value.
    pub fn accepts(&self, value: f64) -> bool {
        match self.bounds {
            Some((least, greatest)) => {
                (least..=greatest).contains(&value)
                    && (self.is_factor() || value.fract().abs() < f64::EPSILON)
            }
            None => self.points().contains(&value),
        }
    }

    /// Describes the values that it can have.
    pub fn range(&self) -> String {
        match self.bounds {
            Some((least, greatest)) => {
                let number = if self.is_factor() { "a factor" } else { "a whole number" };
                format!("{number} from {least} to {greatest} ({})", self.unit)
            }
            None => format!(
                "one of {}",
                self.points().iter().map(f64::to_string).collect::<Vec<_>>().join(", ")
            ),
        }
    }

    fn is_factor(&self) -> bool {
        self.unit == "×"
    }

    /// Returns the default and the values of a sweep, in ascending order.
    pub fn points(&self) -> Vec<f64> {
        let mut points = self.values.to_vec();
        points.push(self.default);
        points.sort_by(f64::total_cmp);
        points.dedup();
        points
    }
}
