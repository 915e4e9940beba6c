//! Which thread runs on which CPU.
//!
//! The allowed CPUs are read once, before any thread is pinned: afterwards a pinned thread sees only its own, and
//! threads it starts inherit that. `core_affinity` is used to set, never to list.

use core_affinity::CoreId;
use flowloom_cpu::topology::{allowed_cpus, format_cpu_list};

use crate::config::{Cores, Mode};
use crate::error::ConfigError;

/// The CPU of each thread; `None` where a thread is not pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinning {
    /// The input stage's (in inline mode: the only thread's).
    pub input: Option<u32>,
    /// Each worker's; empty in inline mode.
    pub workers: Vec<Option<u32>>,
}

/// Returns which CPU each thread of `mode` gets.
///
/// # Errors
///
/// [`ConfigError`] when a CPU is named that may not be used, or too few are named.
pub(crate) fn plan(mode: Mode, cores: &Cores) -> Result<Pinning, ConfigError> {
    let workers = match mode {
        Mode::Inline => 0,
        Mode::Pipeline { workers } => workers,
    };
    let unpinned = Pinning { input: None, workers: vec![None; workers] };
    if *cores == Cores::Unpinned {
        return Ok(unpinned);
    }
    let allowed = match allowed_cpus() {
        Ok(cpus) => cpus,
        // Without a list nothing is pinned by itself; who asks for a CPU must hear why not.
        Err(_) if *cores == Cores::Auto => return Ok(unpinned),
        Err(error) => return Err(ConfigError::Topology { why: error.to_string() }),
    };
    assign(workers, cores, &allowed)
}

fn assign(workers: usize, cores: &Cores, allowed: &[u32]) -> Result<Pinning, ConfigError> {
    match cores {
        Cores::Unpinned => Ok(Pinning { input: None, workers: vec![None; workers] }),
        Cores::Auto => {
            let mut free = allowed.iter().copied();
            // With fewer CPUs than threads two pinned threads would have to share one: leave all to the system.
            if allowed.len() < workers + 1 {
                return Ok(Pinning { input: None, workers: vec![None; workers] });
            }
            Ok(Pinning { input: free.next(), workers: (0..workers).map(|_| free.next()).collect() })
        }
        Cores::List(named) => {
            if let Some(&cpu) = named.iter().find(|cpu| !allowed.contains(cpu)) {
                return Err(ConfigError::Cpu { cpu, allowed: format_cpu_list(allowed) });
            }
            if named.len() < workers + 1 {
                return Err(ConfigError::TooFewCpus { named: named.len(), threads: workers + 1 });
            }
            Ok(Pinning {
                input: named.first().copied(),
                workers: named[1..=workers].iter().copied().map(Some).collect(),
            })
        }
    }
}

/// Pins the calling thread. Says whether it is pinned now.
pub(crate) fn pin(cpu: Option<u32>) -> bool {
    cpu.is_some_and(|id| core_affinity::set_for_current(CoreId { id: id as usize }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_and_workers_get_cpus_of_their_own() {
        let plan = assign(2, &Cores::Auto, &[0, 1, 4, 5]).unwrap();
        assert_eq!(plan, Pinning { input: Some(0), workers: vec![Some(1), Some(4)] });
        let plan = assign(1, &Cores::List(vec![5, 4]), &[4, 5]).unwrap();
        assert_eq!(plan, Pinning { input: Some(5), workers: vec![Some(4)] });
    }

    #[test]
    fn more_threads_than_cpus_are_not_pinned() {
        let plan = assign(4, &Cores::Auto, &[0, 1]).unwrap();
        assert_eq!(plan, Pinning { input: None, workers: vec![None; 4] });
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error_that_names_those_that_are() {
        let error = assign(1, &Cores::List(vec![0, 9]), &[0, 1]).unwrap_err();
        assert_eq!(error, ConfigError::Cpu { cpu: 9, allowed: "0-1".into() });
        assert!(error.to_string().contains("CPU 9 does not exist"));
        let error = assign(3, &Cores::List(vec![0, 1]), &[0, 1]).unwrap_err();
        assert_eq!(error, ConfigError::TooFewCpus { named: 2, threads: 4 });
    }
}
