//! Building the growing flow tables of the commands.

use flowloom::flow_table::BuildError;

/// The smallest first segment, in flows.
const FIRST_FLOWS_MIN: u32 = 64;

/// Builds a table whose first segment is an estimate: where it does not fit, it is smaller.
pub fn fitted<T>(
    first_flows: u32,
    mut build: impl FnMut(u32) -> Result<T, BuildError>,
) -> Result<T, BuildError> {
    let mut flows = first_flows;
    loop {
        let fewer = match build(flows) {
            Err(BuildError::TooLarge { needed_bytes, limit_bytes }) if flows > FIRST_FLOWS_MIN => {
                let part = u128::from(flows) * u128::from(limit_bytes) / u128::from(needed_bytes.max(1));
                u32::try_from(part).unwrap_or(flows).min(flows - flows / 32 - 1)
            }
            Err(BuildError::OutOfMemory { .. }) if flows > FIRST_FLOWS_MIN => flows / 2,
            built => return built,
        };
        flows = fewer.max(FIRST_FLOWS_MIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimate_beyond_memory_is_reduced_and_not_refused() {
        let build = |flows| {
            let (needed_bytes, limit_bytes) = (u64::from(flows) * 100 + 4096, 1 << 20);
            let fits = needed_bytes <= limit_bytes;
            fits.then_some(flows).ok_or(BuildError::TooLarge { needed_bytes, limit_bytes })
        };
        let flows = fitted(1 << 20, build).unwrap();
        assert!((9500..=10_444).contains(&flows), "close to the largest table that fits: {flows}");
        let out_of_memory = |flows| match flows {
            flows if flows > 1000 => Err(BuildError::OutOfMemory { bytes: u64::from(flows) }),
            flows => Ok(flows),
        };
        assert_eq!(fitted(1 << 20, out_of_memory).unwrap(), 512);
        let never = |_| -> Result<(), _> { Err(BuildError::TooLarge { needed_bytes: 9, limit_bytes: 0 }) };
        assert!(fitted(1 << 20, never).is_err());
    }
}
