//! One access to the cache: its session, its time, and whether it is the session's last one.

/// An access, in 16 bytes.
///
/// Time is in milliseconds from the beginning of the trace, below 2⁶³. Two accesses may have the
/// same time. The caches treat a time that goes back as equal to the latest one.
///
/// The key of a session is `address << 16 | port`, 48 bits. The upper 16 bits may distinguish
/// successive sessions with the same address and port: the state of an ended session is of no use
/// to the next one, so finding it is not a hit. Index functions ignore these bits. External traces
/// have identifiers of up to 64 bits.
///
/// # Examples
///
/// ```
/// use flowloom_tcb_cache::Access;
/// let access = Access::new(Access::session_key(0x0A00_0001, 1024), 250).closing();
/// assert_eq!((access.key(), access.time_ms(), access.closes()), (0x0A00_0001_0400, 250, true));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    key: u64,
    /// Time, with the closing flag in the lowest bit.
    stamp: u64,
}

impl Access {
    /// The key that marks an empty line; [`Access::new`] replaces it with the key below it.
    pub(crate) const NO_KEY: u64 = u64::MAX;

    /// Returns an access that does not end its session.
    #[inline]
    #[must_use]
    pub const fn new(key: u64, time_ms: u64) -> Self {
        let key = if key == Self::NO_KEY { key - 1 } else { key };
        Self { key, stamp: time_ms << 1 }
    }

    /// Returns this access as the last of its session: a FIN or RST was seen.
    #[inline]
    #[must_use]
    pub const fn closing(self) -> Self {
        Self { stamp: self.stamp | 1, ..self }
    }

    /// Returns the 48-bit key of a session [TCBCACHE §3.1]: the client's address and port.
    #[inline]
    #[must_use]
    pub const fn session_key(address: u32, port: u16) -> u64 {
        (address as u64) << 16 | port as u64
    }

    /// Returns the key of one of several successive sessions with the same address and port.
    #[inline]
    #[must_use]
    pub const fn nth_session_key(address: u32, port: u16, session: u16) -> u64 {
        (session as u64) << 48 | Self::session_key(address, port)
    }

    /// Returns the key.
    #[inline]
    #[must_use]
    pub const fn key(self) -> u64 {
        self.key
    }

    /// Returns the time in milliseconds.
    #[inline]
    #[must_use]
    pub const fn time_ms(self) -> u64 {
        self.stamp >> 1
    }

    /// Returns whether the session ends with this access.
    #[inline]
    #[must_use]
    pub const fn closes(self) -> bool {
        self.stamp & 1 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_of_empty_cache_lines_is_reserved() {
        assert_eq!(Access::new(u64::MAX, 0).key(), u64::MAX - 1);
        assert_eq!(size_of::<Access>(), 16);
    }
}
