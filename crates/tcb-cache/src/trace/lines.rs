//! Reads lines of limited length from a stream of arbitrary bytes.

use std::io::{self, Read};

/// Maximum length of a line in bytes; longer lines are skipped and not buffered beyond this length.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// A line, or a marker for a skipped one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// Its bytes, without the line end.
    Whole(&'a [u8]),
    /// It exceeded [`LINE_BYTES_MAX`].
    TooLong,
}

/// Divides a stream into lines.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    ended: bool,
}

impl<R: Read> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        let buffer = vec![0; 4 * LINE_BYTES_MAX].into_boxed_slice();
        Self { input, buffer, start: 0, end: 0, ended: false }
    }

    /// Returns the next line; the last one may lack its end.
    pub(super) fn next_line(&mut self) -> io::Result<Option<Line<'_>>> {
        let mut searched = self.start;
        loop {
            if let Some(at) = self.buffer[searched..self.end].iter().position(|byte| *byte == b'\n') {
                let (from, to) = (self.start, searched + at);
                self.start = to + 1;
                return Ok(Some(self.line(from, to)));
            }
            if self.ended {
                let (from, to) = (self.start, self.end);
                self.start = to;
                return Ok((from < to).then(|| self.line(from, to)));
            }
            if self.end - self.start > LINE_BYTES_MAX {
                self.skip_rest()?;
                return Ok(Some(Line::TooLong));
            }
            searched = self.end;
            let moved = self.fill()?;
            searched -= moved;
        }
    }

    fn line(&self, from: usize, to: usize) -> Line<'_> {
        let line = &self.buffer[from..to];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.len() > LINE_BYTES_MAX { Line::TooLong } else { Line::Whole(line) }
    }

    /// Reads more input after the buffered part. Returns by how many bytes that part moved to the
    /// front.
    fn fill(&mut self) -> io::Result<usize> {
        let mut moved = 0;
        if self.end == self.buffer.len() {
            self.buffer.copy_within(self.start..self.end, 0);
            moved = self.start;
            self.end -= moved;
            self.start = 0;
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(bytes) => self.end += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            return Ok(moved);
        }
    }

    /// Skips everything up to the end of the line.
    fn skip_rest(&mut self) -> io::Result<()> {
        loop {
            if let Some(at) = self.buffer[self.start..self.end].iter().position(|byte| *byte == b'\n') {
                self.start += at + 1;
                return Ok(());
            }
            (self.start, self.end) = (0, 0);
            if self.ended {
                return Ok(());
            }
            self.fill()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a few bytes at a time.
    struct Dribble<'a>(&'a [u8], usize);

    impl Read for Dribble<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let bytes = self.1.min(self.0.len()).min(buffer.len());
            buffer[..bytes].copy_from_slice(&self.0[..bytes]);
            self.0 = &self.0[bytes..];
            Ok(bytes)
        }
    }

    fn lens(input: &[u8], step: usize) -> Vec<Option<usize>> {
        let mut lines = Lines::new(Dribble(input, step));
        let mut found = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            found.push(match line {
                Line::Whole(bytes) => Some(bytes.len()),
                Line::TooLong => None,
            });
        }
        found
    }

    #[test]
    fn lines_end_with_and_without_carriage_return_or_at_the_end() {
        for step in [1, 2, 3, 100] {
            assert_eq!(lens(b"abc\r\n\nde\nf", step), [Some(3), Some(0), Some(2), Some(1)]);
            assert_eq!(lens(b"", step), []);
            assert_eq!(lens(b"\n", step), [Some(0)]);
        }
    }

    #[test]
    fn a_line_of_ten_megabytes_is_skipped_and_the_next_one_read() {
        let mut input = vec![b'x'; 10 << 20];
        input.extend(b"\nabc\n");
        input.extend(vec![b'y'; LINE_BYTES_MAX]);
        input.push(b'\n');
        input.extend(vec![b'z'; LINE_BYTES_MAX + 1]);
        let expected = [None, Some(3), Some(LINE_BYTES_MAX), None];
        for step in [1000, 70_000, 1 << 20] {
            assert_eq!(lens(&input, step), expected, "{step} bytes a time");
        }
    }
}
