//! Why a record walk stopped.

/// Why a walk stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The batch is full.
    Full,
    /// The bytes end inside a record, and more may come. This many are needed from the record's
    /// start, at least.
    More { need: usize },
    /// The bytes end after a record, and no more will come.
    End,
    /// The bytes end inside a record, and no more will come.
    Cut { have: usize, need: usize },
    /// The next record begins at the limit or later.
    Limit,
    /// Another capture begins here, of classic records like this one.
    Joined,
    /// The record is invalid.
    Corrupt(String),
}

/// Returns the error of a capture of another format that begins where a record should.
pub(super) fn other_format(name: &str) -> Stop {
    Stop::Corrupt(format!(
        "here a {name} capture begins; give both as files of their own, or join them with mergecap"
    ))
}
