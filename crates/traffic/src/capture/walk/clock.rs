//! The clock of a pcapng interface: its resolution and its offset.

use pcap_parser::pcapng::{OptionCode, PcapNGOption};

/// The default resolution of a clock: a negative power of ten.
const MICROSECONDS: u8 = 6;

/// How an interface counts time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    units_per_second: u64,
    offset_seconds: i64,
}

impl Clock {
    /// The clock of an interface without options.
    pub(super) const DEFAULT: Self = Self { units_per_second: 1_000_000, offset_seconds: 0 };

    pub(super) fn new(resolution: u8, offset_seconds: i64) -> Self {
        let exponent = u32::from(resolution & 0x7F);
        let units_per_second = if resolution & 0x80 != 0 {
            1_u64.checked_shl(exponent).unwrap_or(1 << 63)
        } else {
            10_u64.checked_pow(exponent).unwrap_or(10_000_000_000_000_000_000)
        };
        Self { units_per_second, offset_seconds }
    }

    /// Returns the clock that an interface's options describe; the default counts microseconds. The
    /// parser also lists bytes after the end of the options, which are ignored.
    pub(super) fn from_options(options: &[PcapNGOption<'_>], big_endian: bool) -> Self {
        let (mut resolution, mut offset_seconds) = (MICROSECONDS, 0);
        for option in options.iter().take_while(|option| option.code != OptionCode::EndOfOpt) {
            match (option.code, &option.value[..]) {
                (OptionCode::IfTsresol, [exponent, ..]) => resolution = *exponent,
                (OptionCode::IfTsoffset, value) => {
                    if let Some(seconds) = value.first_chunk::<8>().copied() {
                        offset_seconds = if big_endian {
                            i64::from_be_bytes(seconds)
                        } else {
                            i64::from_le_bytes(seconds)
                        };
                    }
                }
                _ => {}
            }
        }
        Self::new(resolution, offset_seconds)
    }

    /// Returns the nanoseconds since 1970, or `None` before 1970 or after 2554, where 64 bits end.
    #[inline]
    pub(super) fn exact_nanoseconds(self, units: u64) -> Option<u64> {
        match self {
            Self { units_per_second: 1_000_000_000, offset_seconds: 0 } => Some(units),
            Self { units_per_second: 1_000_000, offset_seconds: 0 } => units.checked_mul(1000),
            _ => u64::try_from(self.wide_nanoseconds(units)).ok(),
        }
    }

    /// Returns the nanoseconds since 1970, at most as far as they are numbers of 64 bits.
    #[cold]
    pub(super) fn nanoseconds(self, units: u64) -> u64 {
        u64::try_from(self.wide_nanoseconds(units).max(0)).unwrap_or(u64::MAX)
    }

    fn wide_nanoseconds(self, units: u64) -> i128 {
        let per_second = u128::from(self.units_per_second);
        let ns = i128::try_from(u128::from(units) * 1_000_000_000 / per_second).unwrap_or(i128::MAX);
        ns.saturating_add(i128::from(self.offset_seconds) * 1_000_000_000)
    }
}
