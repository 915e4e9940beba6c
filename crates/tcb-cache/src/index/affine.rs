//! Index functions by table: every function that is affine over bits is a XOR of table entries, one
//! per byte.
//!
//! This applies to modulo, XOR folds, CRCs and the class H₃. Up to four functions of 16 bits share
//! an entry, so one lookup per relevant byte gives the sets of all banks.

/// Up to four affine functions of a key, 16 bits each, in one word.
#[derive(Clone, Debug)]
pub(crate) struct Affine {
    constant: u64,
    /// For each relevant byte of the key: its shift and its table.
    bytes: Vec<(u32, Box<[u64; 256]>)>,
}

impl Affine {
    /// Tabulates `function`, which must be affine: f(a ⊕ b) = f(a) ⊕ f(b) ⊕ f(0).
    pub(crate) fn tabulate(function: impl Fn(u64) -> u64) -> Self {
        let constant = function(0);
        let mut bytes = Vec::new();
        for byte in 0..8 {
            let shift = byte * 8;
            let mut table = Box::new([0; 256]);
            for (value, entry) in (0_u64..).zip(table.iter_mut()) {
                *entry = function(value << shift) ^ constant;
            }
            if table.iter().any(|entry| *entry != 0) {
                bytes.push((shift, table));
            }
        }
        Self { constant, bytes }
    }

    /// Returns the values of the functions.
    #[inline(always)]
    pub(crate) fn lanes(&self, key: u64) -> u64 {
        let mut lanes = self.constant;
        for (shift, table) in &self.bytes {
            lanes ^= table[(key >> shift) as u8 as usize];
        }
        lanes
    }
}
