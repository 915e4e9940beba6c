//! The original's way: the whole buffer, searched again for every expression, in the order of
//! configuration, at every packet [HRWTREE §2.1].
//!
//! It shares only the parsing of expressions with the scanner. The scanner must give the same
//! answers; here each one is obviously right.

use std::borrow::Cow;

use regex_automata::{Input, meta};

use crate::compile;
use crate::error::BuildError;
use crate::pattern::{Dialect, Pattern, PatternId, Transport, Transports};

/// All expressions, one by one.
pub struct Rescanner {
    list: Vec<(Transports, Dialect, meta::Regex)>,
}

impl std::fmt::Debug for Rescanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rescanner").field("patterns", &self.list.len()).finish_non_exhaustive()
    }
}

impl Rescanner {
    /// Compiles each pattern for itself.
    ///
    /// # Errors
    ///
    /// [`BuildError`] for the first that is no expression.
    pub fn new(patterns: &[Pattern]) -> Result<Self, BuildError> {
        let list = patterns
            .iter()
            .map(|pattern| Ok((pattern.transports, pattern.dialect, compile::whole(pattern)?)))
            .collect::<Result<_, BuildError>>()?;
        Ok(Self { list })
    }

    /// Returns the first pattern that matches the buffer.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_dpi::{Pattern, Transport, reference::Rescanner};
    ///
    /// let patterns = [Pattern::new("long", "^ab+$"), Pattern::new("short", "^a")];
    /// let rescanner = Rescanner::new(&patterns)?;
    /// assert_eq!(rescanner.first(Transport::Tcp, b"abbb").map(|id| id.index()), Some(0));
    /// assert_eq!(rescanner.first(Transport::Tcp, b"abc").map(|id| id.index()), Some(1));
    /// # Ok::<(), flowloom_dpi::BuildError>(())
    /// ```
    #[must_use]
    pub fn first(&self, transport: Transport, buffer: &[u8]) -> Option<PatternId> {
        let mut stripped = None;
        let at = self.list.iter().position(|(transports, dialect, regex)| {
            let text: &[u8] = match dialect {
                Dialect::Bytes => buffer,
                Dialect::L7Filter => stripped.get_or_insert_with(|| without_zeros(buffer)),
            };
            transports.has(transport) && regex.is_match(Input::new(text))
        });
        at.and_then(|at| u16::try_from(at).ok()).map(PatternId)
    }
}

fn without_zeros(bytes: &[u8]) -> Cow<'_, [u8]> {
    if bytes.contains(&0) {
        Cow::Owned(bytes.iter().copied().filter(|&byte| byte != 0).collect())
    } else {
        Cow::Borrowed(bytes)
    }
}
