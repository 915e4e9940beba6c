//! Gzip: consecutive members, and the zeros that tapes and block devices add after the last one.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// Unpacks all members of a gzip file. Zeros after the last member are padding.
///
/// # Examples
///
/// ```
/// use std::io::Read;
/// use flowloom_traffic::capture::GzipReader;
///
/// // `printf hello | gzip -n`, on a tape with blocks of 32 bytes.
/// let mut file = vec![31, 139, 8, 0, 0, 0, 0, 0, 0, 3, 203, 72, 205, 201, 201, 7, 0];
/// file.extend([134, 166, 16, 54, 5, 0, 0, 0]);
/// file.resize(32, 0);
/// let mut text = String::new();
/// GzipReader::new(&file[..]).read_to_string(&mut text)?;
/// assert_eq!(text, "hello");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct GzipReader<R> {
    member: GzDecoder<Seat<R>>,
}

/// The reader of a member. A new reader prepares the decoder for the next member.
#[derive(Debug)]
struct Seat<R>(Option<R>);

const SEATED: &str = "the reader is taken out only to be put back";

impl<R: BufRead> Read for Seat<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.as_mut().expect(SEATED).read(buffer)
    }
}

impl<R: BufRead> BufRead for Seat<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.as_mut().expect(SEATED).fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.0.as_mut().expect(SEATED).consume(bytes);
    }
}

impl<R: BufRead> GzipReader<R> {
    /// Returns a reader that unpacks `inner`.
    pub fn new(inner: R) -> Self {
        Self { member: GzDecoder::new(Seat(Some(inner))) }
    }

    /// Begins the next member. Returns whether there is one.
    fn next_member(&mut self) -> io::Result<bool> {
        let mut is_padded = false;
        loop {
            let inner = self.member.get_mut();
            let bytes = match inner.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                bytes => bytes?,
            };
            match bytes.iter().position(|&byte| byte != 0) {
                Some(0) if !is_padded => {
                    let inner = inner.0.take();
                    self.member.reset(Seat(inner));
                    return Ok(true);
                }
                Some(_) => {
                    let why = "invalid gzip header: zeros followed by other data";
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
                }
                None if bytes.is_empty() => return Ok(false),
                None => {
                    is_padded = true;
                    let zeros = bytes.len();
                    inner.consume(zeros);
                }
            }
        }
    }
}

impl<R: BufRead> Read for GzipReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let bytes = self.member.read(buffer)?;
            if bytes > 0 || buffer.is_empty() || !self.next_member()? {
                return Ok(bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write};

    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    /// Unpacks with buffers of any size, starting at 1. All results must agree.
    fn unpacked(bytes: &[u8]) -> (Vec<u8>, Option<io::ErrorKind>) {
        let with_buffer = |size| {
            let mut text = Vec::new();
            let read =
                GzipReader::new(BufReader::with_capacity(size, bytes)).read_to_end(&mut text).map(drop);
            (text, read.err().map(|error| error.kind()))
        };
        let first = with_buffer(1);
        assert!([2, 7, 64, 1 << 16].into_iter().all(|size| with_buffer(size) == first));
        first
    }

    #[test]
    fn gzip_members_are_concatenated_and_trailing_zeros_skipped() {
        let two = [packed(b"one, "), packed(b""), packed(b"two")].concat();
        for zeros in [0, 1, 9, 10, 511, 100_000] {
            let padded = [&two[..], &vec![0; zeros]].concat();
            assert_eq!(unpacked(&padded), (b"one, two".to_vec(), None), "{zeros} zeros");
        }
    }

    #[test]
    fn other_bytes_after_a_gzip_member_are_damage() {
        for rest in
            [&b"garbage, and more"[..], b"\0\0\0garbage", &[&[0; 512], &packed(b"two")[..]].concat()]
        {
            let (text, error) = unpacked(&[&packed(b"one"), rest].concat());
            assert_eq!((&text[..], error), (&b"one"[..], Some(io::ErrorKind::InvalidInput)), "{rest:?}");
        }
        let one = packed(b"one");
        assert_eq!(unpacked(&one[..one.len() - 1]).1, Some(io::ErrorKind::UnexpectedEof));
        assert_eq!(unpacked(&[&one[..], &one[..5]].concat()).1, Some(io::ErrorKind::UnexpectedEof));
        assert_eq!(unpacked(&[0; 40]).1, Some(io::ErrorKind::InvalidInput), "zeros alone are nothing");
        assert_eq!(GzipReader::new(&one[..]).read(&mut []).unwrap(), 0);
    }
}
