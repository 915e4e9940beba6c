//! The memory of `AF_XDP` sockets: chunks, each owned by the kernel or the process.
#![expect(unsafe_code, reason = "chunks change hands between the kernel and the process")]

use std::io;

use super::map::Mapping;

/// A chunk that the process owns. It is not `Copy`: code that puts it into a ring gives it up.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Chunk(u32);

/// The chunks.
#[derive(Debug)]
pub(crate) struct Umem {
    map: Mapping,
    chunk_bytes: usize,
    chunks: u32,
}

impl Umem {
    /// Creates a memory of chunks, and returns it with its chunks, all owned by the process.
    pub(crate) fn new(chunks: u32, chunk_bytes: usize) -> io::Result<(Self, Vec<Chunk>)> {
        let map = Mapping::anonymous(chunks as usize * chunk_bytes)?;
        Ok((Self { map, chunk_bytes, chunks }, (0..chunks).map(Chunk).collect()))
    }

    /// Returns the address and the size in bytes, for the kernel.
    pub(crate) fn place(&self) -> (u64, u64) {
        (self.map.address(), u64::from(self.chunks) * self.chunk_bytes as u64)
    }

    /// Returns the chunk that the kernel returns with this address, and the offset of its frame in
    /// it. Returns `None` for an address outside the memory, which the kernel never uses.
    ///
    /// The caller has read the address from a receive or a completion ring, where each address
    /// occurs once for each time that its chunk was passed to the kernel.
    #[inline]
    pub(crate) fn returned(&self, address: u64) -> Option<(Chunk, usize)> {
        let size = self.chunk_bytes as u64;
        let chunk = u32::try_from(address / size).ok().filter(|chunk| *chunk < self.chunks)?;
        Some((Chunk(chunk), (address % size) as usize))
    }

    /// Returns the address of a chunk that is passed to the kernel, plus an offset in it.
    #[inline]
    pub(crate) fn given(&self, Chunk(index): Chunk, offset: usize) -> u64 {
        u64::from(index) * self.chunk_bytes as u64 + offset as u64
    }

    /// Returns bytes of a chunk; none if they do not lie in it.
    #[inline]
    pub(crate) fn bytes(&self, chunk: &Chunk, offset: usize, bytes: usize) -> &[u8] {
        if offset.checked_add(bytes).is_none_or(|end| end > self.chunk_bytes) {
            return &[];
        }
        // SAFETY: the chunk is the process's, so the kernel does not write to it. It goes to the
        // kernel by `given`, which consumes it and so ends the reference to it. The process writes
        // in `bytes_mut` only, which takes the memory exclusively.
        unsafe { self.map.bytes(chunk.0 as usize * self.chunk_bytes + offset, bytes) }
    }

    /// Returns bytes of a chunk for writing; none if they do not lie in it.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, chunk: &mut Chunk, offset: usize, bytes: usize) -> &mut [u8] {
        if offset.checked_add(bytes).is_none_or(|end| end > self.chunk_bytes) {
            return &mut [];
        }
        // SAFETY: as in `bytes`, and memory and chunk are taken exclusively.
        unsafe { self.map.bytes_mut(chunk.0 as usize * self.chunk_bytes + offset, bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunk_is_written_handed_over_and_returned() {
        let (mut umem, mut chunks) = Umem::new(4, 2048).unwrap();
        let mut last = chunks.pop().unwrap();
        umem.bytes_mut(&mut last, 0, 3).copy_from_slice(b"abc");
        assert_eq!(umem.bytes(&last, 1, 2), b"bc");
        assert_eq!(umem.bytes(&last, 2047, 2), b"");
        assert!(umem.bytes_mut(&mut last, 1, 2048).is_empty());
        let address = umem.given(last, 1);
        let (again, offset) = umem.returned(address).unwrap();
        assert_eq!((umem.bytes(&again, offset, 2), offset), (&b"bc"[..], 1));
        assert_eq!(umem.returned(4 * 2048), None);
        assert_eq!(umem.returned(u64::MAX), None);
    }
}
