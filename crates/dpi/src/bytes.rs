//! Numbers of variable length, their runs, and a checksum.

/// Writes an image.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(super) fn fixed(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Writes a number, seven bits per byte, the lowest first.
    pub(crate) fn number(&mut self, number: usize) {
        let mut rest = number;
        while rest >= 0x80 {
            self.0.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        self.0.push(rest.to_le_bytes()[0]);
    }

    /// Writes a list of numbers, after its length.
    pub(crate) fn ids(&mut self, list: &[u16]) {
        self.number(list.len());
        for &id in list {
            self.number(usize::from(id));
        }
    }

    /// Writes a list of known length: its runs of equal numbers, each with its length.
    pub(crate) fn runs(&mut self, list: &[u16]) {
        for run in list.chunk_by(|a, b| a == b) {
            self.number(run.len());
            self.number(usize::from(run[0]));
        }
    }

    pub(super) fn with_checksum(mut self) -> Vec<u8> {
        let mut checksum = Checksum::default();
        checksum.bytes(&self.0);
        self.0.extend_from_slice(&checksum.value().to_le_bytes());
        self.0
    }
}

/// Reads an image. Every method returns `None` where the bytes end or a number is too large.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Returns a reader of the bytes before the checksum, if that is right.
    pub(super) fn with_checksum(image: &'a [u8]) -> Option<Self> {
        let (bytes, stated) = image.split_last_chunk()?;
        let mut checksum = Checksum::default();
        checksum.bytes(bytes);
        (checksum.value() == u64::from_le_bytes(*stated)).then_some(Self(bytes))
    }

    pub(super) fn skip(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads a number that is at most `most`.
    #[inline]
    pub(crate) fn up_to(&mut self, most: usize) -> Option<usize> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= usize::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return (number <= most).then_some(number);
            }
            shift += 7;
            if shift > 21 {
                return None;
            }
        }
    }

    /// Reads an index that is below `count`.
    #[inline]
    pub(crate) fn below(&mut self, count: usize) -> Option<u16> {
        u16::try_from(self.up_to(count.checked_sub(1)?)?).ok()
    }

    /// Fills `list` with runs of numbers, each of which is below `count`, or is `also`.
    #[inline]
    pub(crate) fn fill(&mut self, list: &mut [u16], count: usize, also: Option<u16>) -> Option<()> {
        let mut rest = list;
        while !rest.is_empty() {
            let length = self.up_to(rest.len()).filter(|length| *length > 0)?;
            let value = u16::try_from(self.up_to(usize::from(u16::MAX))?).ok()?;
            if usize::from(value) >= count && also != Some(value) {
                return None;
            }
            let (run, behind) = rest.split_at_mut(length);
            run.fill(value);
            rest = behind;
        }
        Some(())
    }
}

/// A checksum against accidents: FNV-1a over words of eight bytes.
#[derive(Debug)]
pub(super) struct Checksum(u64);

impl Default for Checksum {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Checksum {
    fn word(&mut self, word: u64) {
        // The rotation carries the high bits, which the multiplication alone would lose.
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(29);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last));
        self.word(bytes.len() as u64);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    pub(super) fn value(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_runs_read_back_as_written() {
        let mut out = Writer::default();
        let numbers = [0, 1, 127, 128, 16_383, 16_384, 65_535];
        for number in numbers {
            out.number(number);
        }
        let list = [3, 3, 3, 9, u16::MAX, u16::MAX];
        out.runs(&list);
        let bytes = out.with_checksum();
        let mut input = Reader::with_checksum(&bytes).unwrap();
        assert!(numbers.iter().all(|&number| input.up_to(number) == Some(number)));
        let mut again = [0; 6];
        input.fill(&mut again, 10, Some(u16::MAX)).unwrap();
        assert_eq!((again, input.is_at_end()), (list, true));
    }

    #[test]
    fn number_out_of_range_is_refused() {
        let read = |numbers: &[usize]| {
            let mut out = Writer::default();
            for &number in numbers {
                out.number(number);
            }
            out.with_checksum()
        };
        let bytes = read(&[5]);
        let reader = || Reader::with_checksum(&bytes).unwrap();
        assert_eq!((reader().up_to(4), reader().below(5), reader().below(0)), (None, None, None));
        for runs in [&[0, 1][..], &[3, 1], &[2, 7], &[1, 1], &[1 << 30, 1]] {
            let bytes = read(runs);
            let mut input = Reader::with_checksum(&bytes).unwrap();
            assert_eq!(input.fill(&mut [0; 2], 7, None), None, "{runs:?}");
        }
    }

    #[test]
    fn a_changed_bit_changes_the_checksum() {
        let bytes = Writer(vec![7; 37]).with_checksum();
        for bit in 0..8 * bytes.len() {
            let mut other = bytes.clone();
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(Reader::with_checksum(&other).is_none(), "bit {bit}");
        }
        assert!(Reader::with_checksum(&bytes[..7]).is_none());
    }
}
