//! CRC-32C (Castagnoli): a table implementation that defines it, and the SSE4.2 instruction.

#[cfg(target_arch = "x86_64")]
mod sse42;

const POLYNOMIAL: u32 = 0x82F6_3B78;

#[expect(clippy::cast_possible_truncation, reason = "an index below 256; `const` code has no `try_from`")]
const TABLE: [u32; 256] = {
    let mut table = [0_u32; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
};

/// Returns the CRC-32C of `bytes`; uses the CRC32 instruction if the processor has it.
///
/// # Examples
///
/// ```
/// assert_eq!(flowloom_cpu::crc32c::crc32c(b"123456789"), 0xE306_9283);
/// ```
#[inline]
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if let Some(proof) = crate::features::Sse42::detect() {
        return sse42::crc32c(proof, bytes);
    }
    by_table(bytes)
}

/// Returns the CRC-32C of `bytes`, one byte at a time: the definition.
#[must_use]
pub fn by_table(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, &byte| TABLE[((crc ^ u32::from(byte)) & 0xFF) as usize] ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instruction_computes_what_the_table_defines() {
        let bytes: [u8; 97] = core::array::from_fn(|i| (i * 151 + 7).to_le_bytes()[0]);
        for end in 0..=bytes.len() {
            for start in 0..=end.min(9) {
                assert_eq!(crc32c(&bytes[start..end]), by_table(&bytes[start..end]), "{start}..{end}");
            }
        }
    }
}
