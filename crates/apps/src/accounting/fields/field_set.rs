//! A selection of groups of fields.

use super::FieldGroup;

/// A set of [`FieldGroup`]s.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::fields::{FieldGroup, FieldSet};
/// let asked: FieldSet = [FieldGroup::Tls, FieldGroup::Dns].into_iter().collect();
/// assert!(asked.contains(FieldGroup::Tls) && !asked.contains(FieldGroup::Sizes));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(u16);

const _: () = assert!(FieldGroup::ALL.len() <= 16, "each group has a bit");

impl FieldSet {
    /// All groups.
    pub const ALL: Self = Self(u16::MAX);

    /// Returns whether a group is in the set.
    #[inline(always)]
    #[must_use]
    pub const fn contains(self, group: FieldGroup) -> bool {
        self.0 >> (group as u16) & 1 != 0
    }

    /// Adds a group.
    pub const fn insert(&mut self, group: FieldGroup) {
        self.0 |= 1 << (group as u16);
    }
}

impl FromIterator<FieldGroup> for FieldSet {
    fn from_iter<I: IntoIterator<Item = FieldGroup>>(groups: I) -> Self {
        let mut set = Self::default();
        groups.into_iter().for_each(|group| set.insert(group));
        set
    }
}

impl Extend<FieldGroup> for FieldSet {
    fn extend<I: IntoIterator<Item = FieldGroup>>(&mut self, groups: I) {
        groups.into_iter().for_each(|group| self.insert(group));
    }
}
