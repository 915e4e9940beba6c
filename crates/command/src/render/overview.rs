//! What the page of a result shows first.

/// A table of a page: a head and rows, and a remark unless it is empty.
pub struct Table {
    pub title: &'static str,
    pub rows: Vec<Vec<String>>,
    pub note: String,
}

/// What a page shows first: what limits the result, and its main figures with their names.
pub struct Overview {
    /// What it is about, in a line, or empty.
    pub about: String,
    pub warnings: Vec<String>,
    pub tiles: Vec<(&'static str, String)>,
}
