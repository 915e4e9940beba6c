//! The method of l7-filter: for every packet, it searches the whole buffer again for every
//! expression, in the configured order [HRWTREE §2.1].
//!
//! It shares only the parsing of expressions with the scanner. The scanner must give the same
//! answers, which are easy to verify here.

use std::borrow::Cow;

use regex_automata::{Input, meta};

use crate::compile;
use crate::condition::{HEAD_BYTES, Payload, Truth};
use crate::error::BuildError;
use crate::pattern::{Dialect, Match, Origin, Pattern, Transport, Transports};
use crate::signature::{Rule, signatures};

/// All expressions, one by one.
pub struct Rescanner {
    list: Vec<(Transports, Dialect, meta::Regex, Rule)>,
}

impl std::fmt::Debug for Rescanner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rescanner").field("patterns", &self.list.len()).finish_non_exhaustive()
    }
}

impl Rescanner {
    /// Compiles each expression separately.
    ///
    /// # Errors
    ///
    /// Returns a [`BuildError`] for the first invalid expression.
    pub fn new(patterns: &[Pattern]) -> Result<Self, BuildError> {
        let list = signatures(patterns)?
            .into_iter()
            .map(|signature| {
                let regex = compile::compile_whole(&signature)?;
                Ok((signature.transports, signature.dialect, regex, signature.rule))
            })
            .collect::<Result<_, BuildError>>()?;
        Ok(Self { list })
    }

    /// Returns the first pattern that matches the buffer, which is the beginning of a stream or a
    /// whole datagram. Either end may have sent it.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_dpi::{Pattern, Transport, reference::Rescanner};
    ///
    /// let patterns = [Pattern::new("long", "^ab+$"), Pattern::new("short", "^a")];
    /// let rescanner = Rescanner::new(&patterns)?;
    /// let first = |bytes| rescanner.first(Transport::Tcp, bytes).unwrap().pattern.index();
    /// assert_eq!((first(b"abbb"), first(b"abc")), (0, 1));
    /// # Ok::<(), flowloom_dpi::BuildError>(())
    /// ```
    #[must_use]
    pub fn first(&self, transport: Transport, buffer: &[u8]) -> Option<Match> {
        self.first_from(Origin::UNKNOWN, transport, buffer, buffer.len())
    }

    /// Returns the first pattern that matches a buffer of known origin, which the capture may have
    /// truncated from `wire_bytes` bytes.
    #[must_use]
    pub fn first_from(
        &self,
        origin: Origin,
        transport: Transport,
        buffer: &[u8],
        wire_bytes: usize,
    ) -> Option<Match> {
        let payload = match transport {
            Transport::Tcp => Payload {
                bytes: &buffer[..buffer.len().min(HEAD_BYTES)],
                total_bytes: wire_bytes as u64,
                stream: true,
            },
            Transport::Udp => Payload { bytes: buffer, total_bytes: wire_bytes as u64, stream: false },
        };
        let mut stripped = None;
        let mut matches = |transports: Transports, dialect, regex: &meta::Regex| {
            let text: &[u8] = match dialect {
                Dialect::Bytes => buffer,
                Dialect::L7Filter => stripped.get_or_insert_with(|| without_zeros(buffer)),
            };
            transports.has(transport) && regex.is_match(Input::new(text))
        };
        let first = self.list.iter().find(|(transports, dialect, regex, rule)| {
            rule.check(&payload, origin) == Truth::Holds && matches(*transports, *dialect, regex)
        });
        first.map(|(.., rule)| rule.found)
    }
}

fn without_zeros(bytes: &[u8]) -> Cow<'_, [u8]> {
    if bytes.contains(&0) {
        Cow::Owned(bytes.iter().copied().filter(|&byte| byte != 0).collect())
    } else {
        Cow::Borrowed(bytes)
    }
}
