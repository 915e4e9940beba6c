//! Assigns CPUs to the threads of a run.
//!
//! The allowed CPUs are read once, before any thread is pinned, because a pinned thread and its
//! children see only their own CPU. `core_affinity` only sets the affinity; it does not list CPUs
//! here.

use core_affinity::CoreId;
use flowloom_cpu::topology::{PINNABLE_CPUS, allowed_cpus, format_cpu_list};

use crate::config::{Cores, EngineConfig, Layout};
use crate::error::ConfigError;

/// The CPU of each thread; `None` if a thread is not pinned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pinning {
    /// The CPU of the input thread; in the inline layout, of the only thread. `None` in the sharded
    /// layout.
    pub input: Option<u32>,
    /// The CPU of each worker. Empty in the inline layout.
    pub workers: Vec<Option<u32>>,
}

/// Returns the CPU of each thread of a run.
///
/// # Errors
///
/// Returns [`ConfigError`] when the list names a CPU that the process may not use, or has too few
/// CPUs.
pub(crate) fn plan(config: &EngineConfig) -> Result<Pinning, ConfigError> {
    let (inputs, workers) = match config.layout {
        Layout::Inline => (1, 0),
        Layout::Sharded { workers } => (0, workers),
        Layout::Pipeline { workers } => (1, workers),
    };
    let cores = &config.cores;
    match allowed_cpus() {
        Ok(allowed) => assign(inputs, workers, cores, &allowed),
        // Without a list of CPUs, a failure means that no thread is pinned. A caller that lists
        // CPUs gets the error.
        Err(error) if matches!(cores, Cores::List(_)) => {
            Err(ConfigError::Topology { why: error.to_string() })
        }
        Err(_) => Ok(unpinned(workers)),
    }
}

fn unpinned(workers: usize) -> Pinning {
    Pinning { input: None, workers: vec![None; workers] }
}

fn assign(inputs: usize, workers: usize, cores: &Cores, allowed: &[u32]) -> Result<Pinning, ConfigError> {
    let cpus = if let Cores::List(named) = cores { named } else { allowed };
    if let Some(&cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        return Err(ConfigError::Cpu { cpu, allowed: format_cpu_list(allowed) });
    }
    if let (Cores::List(_), Some(&cpu)) = (cores, cpus.iter().find(|&&cpu| cpu >= PINNABLE_CPUS)) {
        return Err(ConfigError::Unpinnable { cpu });
    }
    let threads = inputs + workers;
    if cpus.len() < threads && matches!(cores, Cores::List(_)) {
        return Err(ConfigError::TooFewCpus { named: cpus.len(), threads });
    }
    // With fewer CPUs than threads, two pinned threads would share one CPU, so no thread is pinned.
    if cpus.len() < threads || *cores == Cores::Unpinned {
        return Ok(unpinned(workers));
    }
    let mut free = cpus.iter().map(|&cpu| (cpu < PINNABLE_CPUS).then_some(cpu));
    let input = if inputs > 0 { free.next().flatten() } else { None };
    Ok(Pinning { input, workers: free.take(workers).collect() })
}

/// Pins the calling thread. Returns whether it is pinned now.
pub(crate) fn pin(cpu: Option<u32>) -> bool {
    // `core_affinity` panics on large CPU numbers, and reports success if the system took the
    // affinity only as a hint.
    cpu.is_some_and(|id| id < PINNABLE_CPUS && core_affinity::set_for_current(CoreId { id: id as usize }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pinned(input: Option<u32>, workers: &[u32]) -> Pinning {
        Pinning { input, workers: workers.iter().copied().map(Some).collect() }
    }

    #[test]
    fn input_and_workers_get_cpus_of_their_own() {
        let plan = assign(1, 2, &Cores::Auto, &[0, 1, 4, 5]).unwrap();
        assert_eq!(plan, pinned(Some(0), &[1, 4]));
        let plan = assign(1, 1, &Cores::List(vec![5, 4]), &[4, 5]).unwrap();
        assert_eq!(plan, pinned(Some(5), &[4]));
        let plan = assign(1, 0, &Cores::Auto, &[3, 4]).unwrap();
        assert_eq!(plan, pinned(Some(3), &[]), "inline layout");
        let plan = assign(0, 2, &Cores::Auto, &[3, 4]).unwrap();
        assert_eq!(plan, pinned(None, &[3, 4]), "sharded layout");
    }

    #[test]
    fn more_threads_than_cpus_are_not_pinned() {
        assert_eq!(assign(1, 2, &Cores::Auto, &[0, 1]).unwrap(), unpinned(2));
        assert_eq!(assign(1, 2, &Cores::Unpinned, &[0, 1, 2]).unwrap(), unpinned(2));
    }

    #[test]
    fn a_thread_of_a_very_large_machine_is_not_pinned() {
        assert!(!pin(Some(PINNABLE_CPUS)));
        let allowed = [0, PINNABLE_CPUS];
        let plan = assign(1, 1, &Cores::Auto, &allowed).unwrap();
        assert_eq!((plan.input, plan.workers), (Some(0), vec![None]));
        let named = assign(1, 1, &Cores::List(vec![0, PINNABLE_CPUS]), &allowed);
        assert!(
            matches!(named, Err(ConfigError::Unpinnable { cpu: PINNABLE_CPUS })),
            "a caller that names CPUs gets the reason"
        );
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn a_pinned_thread_runs_on_its_cpu_alone() {
        for cpu in allowed_cpus().unwrap().into_iter().filter(|&cpu| cpu < PINNABLE_CPUS) {
            let thread = std::thread::spawn(move || (pin(Some(cpu)), allowed_cpus()));
            assert_eq!(thread.join().unwrap(), (true, Ok(vec![cpu])));
        }
        assert!(!pin(None));
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error_that_names_those_that_are() {
        let error = assign(1, 1, &Cores::List(vec![0, 9]), &[0, 1]).unwrap_err();
        assert_eq!(error, ConfigError::Cpu { cpu: 9, allowed: "0-1".into() });
        assert!(error.to_string().contains("CPU 9 does not exist"));
        let error = assign(1, 2, &Cores::List(vec![0, 1]), &[0, 1]).unwrap_err();
        assert_eq!(error, ConfigError::TooFewCpus { named: 2, threads: 3 });
    }
}
