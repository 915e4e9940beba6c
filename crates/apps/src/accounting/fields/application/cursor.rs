//! Reads numbers and length-prefixed lists from bytes, and stops at the end.

/// A position in a byte slice. Every method returns `None` at the end and then consumes nothing.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::fields::application::cursor::Cursor;
/// let mut cursor = Cursor::new(&[0, 2, 7, 8, 9]);
/// let mut list = cursor.list16().unwrap();
/// assert_eq!((list.u8(), list.u8(), list.u8()), (Some(7), Some(8), None));
/// assert_eq!((cursor.u16(), cursor.u8()), (None, Some(9)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// Returns the position before these bytes.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the remaining bytes.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Returns whether no bytes remain.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads this many bytes.
    pub fn bytes(&mut self, bytes: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(head)
    }

    /// Reads this many bytes, or all remaining bytes if there are fewer.
    pub fn up_to(&mut self, bytes: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        head
    }

    /// Reads a byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    /// Reads a number of two bytes, the most significant byte first.
    pub fn u16(&mut self) -> Option<u16> {
        self.bytes(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Reads a list with a one-byte length.
    pub fn list8(&mut self) -> Option<Self> {
        let mut ahead = *self;
        let bytes = ahead.u8()?;
        let list = ahead.bytes(usize::from(bytes))?;
        *self = ahead;
        Some(Self(list))
    }

    /// Reads a list with a two-byte length.
    pub fn list16(&mut self) -> Option<Self> {
        let mut ahead = *self;
        let bytes = ahead.u16()?;
        let list = ahead.bytes(usize::from(bytes))?;
        *self = ahead;
        Some(Self(list))
    }

    /// Returns the remaining two-byte numbers.
    #[must_use]
    pub fn numbers(mut self) -> Vec<u16> {
        std::iter::from_fn(|| self.u16()).collect()
    }
}
