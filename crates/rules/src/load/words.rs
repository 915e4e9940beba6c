//! Words and lines that several formats have.

use alloc::vec::Vec;

/// Returns the first line with content, and its number from one.
#[cfg(feature = "std")]
pub(crate) fn first_line(text: &str) -> Option<(usize, &str)> {
    let mut lines = (1..).zip(text.lines().map(str::trim));
    lines.find(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// Reads a MAC address as a number.
pub(crate) fn mac(text: &str) -> Option<u64> {
    let parts: Vec<&str> = text.split(':').collect();
    let byte = |part: &&str| u8::from_str_radix(part, 16).ok().filter(|_| !part.starts_with('+'));
    (parts.len() == 6)
        .then(|| parts.iter().map(byte).try_fold(0, |mac, byte| Some(mac << 8 | u64::from(byte?))))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_addresses_have_six_bytes() {
        assert_eq!((mac("00:11:22:33:44:ff"), mac("00:11")), (Some(0x0011_2233_44ff), None));
    }
}
