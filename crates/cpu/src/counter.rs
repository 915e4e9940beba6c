//! The processor's time stamp counter, if it has a constant rate.
//!
//! It counts neither instructions nor cycles of the core's variable clock, but ticks of a constant
//! clock: papers on x86-64 processors state their times in this unit. x86-64 processors since 2008
//! have such a counter. ARM's counter is a slow clock of the system, not of the processor.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86_64;

/// Proof that the processor has a counter with a constant rate, which is independent of its clock
/// rate and does not stop during sleep.
///
/// # Examples
///
/// ```
/// use flowloom_cpu::counter::TimeStamps;
/// if let Some(stamps) = TimeStamps::detect() {
///     let begun = stamps.read();
///     assert!(stamps.read() >= begun);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeStamps(());

impl TimeStamps {
    /// Returns the token, if the kernel reports such a counter and this is x86-64. Reads a file of
    /// several kilobytes.
    ///
    /// Returns `None` on other processors, on systems other than Linux, and under Miri.
    pub fn detect() -> Option<Self> {
        if cfg!(not(all(target_arch = "x86_64", target_os = "linux", not(miri)))) {
            return None;
        }
        is_steady(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()).then_some(Self(()))
    }

    /// Returns the ticks so far. The read takes about 20 to 40 ticks, and earlier instructions may
    /// still be in flight: use it for intervals of at least several microseconds.
    #[inline]
    pub fn read(self) -> u64 {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        return x86_64::read();
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        unreachable!("the token cannot exist on this system")
    }
}

/// Returns whether the first processor's counter ticks at a constant rate and does not stop.
fn is_steady(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().find_map(|line| {
        let (name, flags) = line.split_once(':')?;
        (name.trim() == "flags").then_some(flags)
    });
    let has = |wanted: &str| flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == wanted));
    has("tsc") && has("constant_tsc") && has("nonstop_tsc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_is_accepted_only_if_its_rate_is_constant() {
        let flags =
            |flags: &str| format!("processor\t: 0\nmodel name\t: tsc\nflags\t\t: fpu {flags} sse\n");
        assert!(is_steady(&flags("tsc constant_tsc nonstop_tsc")));
        assert!(!is_steady(&flags("tsc constant_tsc")));
        assert!(!is_steady(&flags("tsc nonstop_tsc")));
        assert!(!is_steady(&flags("constant_tsc nonstop_tsc")));
        assert!(!is_steady("processor : 0\nFeatures : fp asimd evtstrm\n"));
        assert!(!is_steady(""));
    }

    #[test]
    fn it_counts_upwards() {
        let Some(stamps) = TimeStamps::detect() else { return };
        let first = stamps.read();
        assert!((0..1000).all(|_| stamps.read() >= first));
        assert!(stamps.read() > first);
    }
}
