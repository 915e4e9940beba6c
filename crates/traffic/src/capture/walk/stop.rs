//! The reasons why a record walk stopped.

/// The reason why a walk stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The batch is full.
    Full,
    /// The bytes end inside a record, and more may come. At least this many bytes are needed,
    /// counted from the start of the record.
    More { need: usize },
    /// The bytes end after a record, and no more will come.
    End,
    /// The bytes end inside a record, and no more will come.
    Cut { have: usize, need: usize },
    /// The next record begins at the limit or later.
    Limit,
    /// Another capture begins here, with classic records like those of this one.
    Joined,
    /// The record is invalid.
    Corrupt(String),
}

/// Returns the error for a capture of another format that begins in place of a record.
pub(crate) fn other_format(name: &str) -> Stop {
    Stop::Corrupt(format!(
        "a {name} capture begins here; split the file into separate captures, or join them with mergecap"
    ))
}
