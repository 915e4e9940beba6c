//! Recognises a file by its first bytes.

/// The number of bytes that distinguishes all formats.
pub(crate) const SNIFF_BYTES: usize = 32;

/// A capture format with its variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Classic pcap.
    Pcap {
        /// Fields are big-endian.
        big_endian: bool,
        /// Time stamps count nanoseconds, not microseconds.
        nanoseconds: bool,
        /// Records have eight more bytes of header (Alexey Kuznetzov's variant).
        modified: bool,
    },
    /// The pcapng format: blocks, sections, interfaces.
    Pcapng,
}

/// The compression format of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    Gzip,
    Zstd,
    Xz,
    Lz4,
}

impl Format {
    /// Returns the format of a file that begins with `bytes`.
    pub fn detect(bytes: &[u8]) -> Option<Self> {
        let magic = *bytes.first_chunk::<4>()?;
        let pcap =
            |big_endian, nanoseconds, modified| Some(Self::Pcap { big_endian, nanoseconds, modified });
        match magic {
            [0xD4, 0xC3, 0xB2, 0xA1] => pcap(false, false, false),
            [0xA1, 0xB2, 0xC3, 0xD4] => pcap(true, false, false),
            [0x4D, 0x3C, 0xB2, 0xA1] => pcap(false, true, false),
            [0xA1, 0xB2, 0x3C, 0x4D] => pcap(true, true, false),
            [0x34, 0xCD, 0xB2, 0xA1] => pcap(false, false, true),
            [0xA1, 0xB2, 0xCD, 0x34] => pcap(true, false, true),
            [0x0A, 0x0D, 0x0D, 0x0A] => Some(Self::Pcapng),
            _ => None,
        }
    }

    /// Returns the name of the format.
    pub fn describe(self) -> String {
        match self {
            Self::Pcapng => String::from("pcapng"),
            Self::Pcap { big_endian, nanoseconds, modified } => format!(
                "pcap{}, {}-endian, {} timestamps",
                if modified { " (modified)" } else { "" },
                if big_endian { "big" } else { "little" },
                if nanoseconds { "ns" } else { "µs" }
            ),
        }
    }
}

impl Packing {
    pub(crate) fn detect(bytes: &[u8]) -> Option<Self> {
        match bytes {
            [0x1F, 0x8B, ..] => Some(Self::Gzip),
            // A zstd stream may begin with a skippable frame.
            [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => Some(Self::Zstd),
            [0xFD, b'7', b'z', b'X', b'Z', 0, ..] => Some(Self::Xz),
            [0x04, 0x22, 0x4D, 0x18, ..] => Some(Self::Lz4),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Xz => "xz",
            Self::Lz4 => "lz4",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_magic_number_is_known() {
        assert_eq!(
            Format::detect(&0xA1B2_C3D4_u32.to_le_bytes()),
            Some(Format::Pcap { big_endian: false, nanoseconds: false, modified: false })
        );
        assert_eq!(
            Format::detect(&0xA1B2_3C4D_u32.to_be_bytes()),
            Some(Format::Pcap { big_endian: true, nanoseconds: true, modified: false })
        );
        assert_eq!(
            Format::detect(&0xA1B2_CD34_u32.to_be_bytes()),
            Some(Format::Pcap { big_endian: true, nanoseconds: false, modified: true })
        );
        assert_eq!(Format::detect(&0x0A0D_0D0A_u32.to_be_bytes()), Some(Format::Pcapng));
        assert_eq!(Format::detect(b"GIF89a"), None);
        assert_eq!(Format::detect(b"abc"), None);
        assert_eq!(Packing::detect(&[0x1F, 0x8B, 8]), Some(Packing::Gzip));
        assert_eq!(Packing::detect(&[0xFD, 0x37, 0x7A, 0x58, 0x5A, 0]), Some(Packing::Xz));
        assert_eq!(Packing::detect(&0x184D_2204_u32.to_le_bytes()), Some(Packing::Lz4));
    }
}
