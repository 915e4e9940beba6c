//! Checks whether this machine gives meaningful measurements.

use flowloom::cpu::features::Isa;
use flowloom::cpu::topology::{CacheSizes, Topology, format_cpu_list};
use flowloom_measure::Host;
use flowloom_measure::cpu_distance::range_text;
use flowloom_measure::host::NOISE_MAX;
use flowloom_measure::sharing::most_slowed;

use crate::args::Common;
use crate::exit::{Failure, Status};
use crate::render::doctor::{Check, DoctorResult, Rating};
use crate::render::{counted, print};

/// Noise below which absolute measurements repeat.
const NOISE_FAIR: f64 = 1.1;
/// Round-trip time of a cache line, in ns, above which two CPUs count as sharing no cache.
const FAR_NS: f64 = 200.0;
/// Slow-down of a CPU by work on another, above which the two count as threads of one core; a
/// factor of two is usual.
const SLOWED_MAX: f64 = 1.4;
/// Shares of time that the host of a virtual machine gave to other machines: noteworthy, and too
/// much.
const STOLEN: [f64; 2] = [0.01, 0.05];

/// Runs the command.
pub(crate) fn run(common: &Common) -> Result<Status, Failure> {
    let topology = Topology::read().map_err(|error| Failure::Usage(error.to_string()))?;
    let before = Ticks::read();
    let host = Host::read(Isa::detect().to_string(), &[]);
    let stolen = Ticks::read().zip(before).and_then(|(after, before)| after.stolen_since(before));
    let cpus = topology.cpus.len();
    let checks = vec![
        processor(&topology, &host),
        cores(&topology, most_slowed(&topology.one_per_core())),
        lines(host.line_round_trip_ns),
        quota(&text("/sys/fs/cgroup/cpu.max"), cpus),
        governor(&text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")),
        clock(&text("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
        huge_pages(
            &text("/sys/kernel/mm/transparent_hugepage/enabled"),
            &text("/proc/sys/vm/nr_hugepages"),
        ),
        memory(&text("/proc/meminfo")),
        load(Some(host.load1).filter(|_| !text("/proc/loadavg").is_empty()), cpus),
        stolen_time(stolen),
        noise(host.noise_p95_over_p5),
    ];
    let result = DoctorResult::new(checks);
    print(&result, common)?;
    Ok(if result.is_bad() { Status::CheckFailed } else { Status::Ok })
}

fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn processor(topology: &Topology, host: &Host) -> Check {
    let (mib, kib) = (|bytes: u64| bytes as f64 / f64::from(1 << 20), |bytes: u64| bytes >> 10);
    let caches = &topology.caches;
    let state = if host.isa == "scalar" { Rating::Fair } else { Rating::Ok };
    let sizes = if *caches == CacheSizes::default() {
        String::from("not visible")
    } else {
        format!(
            "{} KiB, {:.1} MiB, {:.1} MiB",
            kib(caches.level1_data_bytes),
            mib(caches.level2_bytes),
            mib(caches.level3_bytes)
        )
    };
    Check::new("Processor", state, format!("{}, {}, caches {sizes}", host.cpu, host.isa))
}

/// A thread that shares its core with another runs slower while the other works. `slowed`: the
/// slow-down of a core while another works.
fn cores(topology: &Topology, slowed: Option<f64>) -> Check {
    let ids: Vec<u32> = topology.cpus.iter().map(|cpu| cpu.id).collect();
    let (cpus, cores) = (ids.len(), topology.one_per_core().len());
    let plural = if cores == 1 { "core" } else { "cores" };
    let found = format!("{cpus} allowed ({}), on {cores} {plural}", format_cpu_list(&ids));
    match (cpus, cores) {
        (1, _) => Check::new("CPUs", Rating::Fair, format!("{found}: no CPU to pin workers to"))
            .advice("run inline, or allow more CPUs"),
        _ if cores < cpus => {
            Check::new("CPUs", Rating::Fair, found).advice("pin one thread per core with replay --cores")
        }
        _ => match slowed.filter(|&times| times > SLOWED_MAX) {
            Some(times) => {
                let found = format!(
                    "{found} according to the system, but two at once take {times:.1} times as \
                        long as one"
                );
                Check::new("CPUs", Rating::Fair, found)
                    .advice("the host runs them on two threads of one core; try again later")
            }
            None => Check::new("CPUs", Rating::Ok, found),
        },
    }
}

/// Data that threads exchange moves from cache to cache.
fn lines(round_trips_ns: Option<[f64; 2]>) -> Check {
    let name = "Cache lines";
    let Some(trips) = round_trips_ns else {
        return Check::new(name, Rating::Unknown, "one CPU, or threads cannot be pinned to two");
    };
    let state = if trips[1] > FAR_NS { Rating::Fair } else { Rating::Ok };
    let found = format!("{} to another CPU and back", range_text(trips));
    Check::new(name, state, found).advice_if(
        state,
        "CPUs that share no cache: select neighbours with replay --cores, or try again later",
    )
}

/// The CPU quota of the cgroup: `max 100000`, or microseconds per period.
fn quota(cpu_max: &str, cpus: usize) -> Check {
    let mut words = cpu_max.split_whitespace();
    let quota = words.next().and_then(|quota| quota.parse::<f64>().ok());
    let period = words.next().and_then(|period| period.parse::<f64>().ok());
    match (quota, period) {
        (Some(quota), Some(period)) if period > 0.0 => {
            let allowed = quota / period;
            let state = if allowed < cpus as f64 { Rating::Bad } else { Rating::Ok };
            Check::new("Quota", state, format!("{allowed:.1} CPUs' worth of {cpus}"))
                .advice_if(state, "a thread that has used its share is stopped: lift cpu.max")
        }
        _ if cpu_max.is_empty() => Check::new("Quota", Rating::Unknown, "not visible"),
        _ => Check::new("Quota", Rating::Ok, "none"),
    }
}

fn governor(name: &str) -> Check {
    match name {
        "" => Check::new("Governor", Rating::Unknown, "not visible, as in most virtual machines"),
        "performance" => Check::new("Governor", Rating::Ok, name),
        _ => Check::new("Governor", Rating::Fair, name)
            .advice("clock rates vary: set the governor `performance`"),
    }
}

fn clock(source: &str) -> Check {
    match source {
        "" => Check::new("Clock", Rating::Unknown, "not visible"),
        "tsc" | "kvm-clock" | "arch_sys_counter" | "hyperv_clocksource_tsc_page" => {
            Check::new("Clock", Rating::Ok, source)
        }
        _ => Check::new("Clock", Rating::Fair, source).advice(
            "reading it is slow, which distorts short \
            rounds",
        ),
    }
}

fn huge_pages(transparent: &str, pool: &str) -> Check {
    let chosen = transparent.split_whitespace().find(|word| word.starts_with('['));
    let chosen = chosen.map_or("not visible", |word| word.trim_matches(['[', ']']));
    let pool = pool.parse().unwrap_or(0_u64);
    let found = format!("transparent: {chosen}; pool of 2 MiB: {pool}");
    if chosen == "never" && pool == 0 {
        return Check::new("Huge pages", Rating::Fair, found)
            .advice("large tables pay for address translation: enable `madvise`, or set vm.nr_hugepages");
    }
    Check::new("Huge pages", if chosen == "not visible" { Rating::Unknown } else { Rating::Ok }, found)
}

fn memory(meminfo: &str) -> Check {
    let available = meminfo.lines().find_map(|line| {
        line.strip_prefix("MemAvailable:")?.split_whitespace().next()?.parse::<u64>().ok()
    });
    match available {
        None => Check::new("Memory", Rating::Unknown, "not visible"),
        Some(kib) => {
            let state = if kib < 1 << 20 { Rating::Fair } else { Rating::Ok };
            Check::new("Memory", state, format!("{:.1} GiB available", kib as f64 / f64::from(1 << 20)))
                .advice_if(state, "large tables and captures will not fit")
        }
    }
}

fn load(load1: Option<f64>, cpus: usize) -> Check {
    let Some(load1) = load1 else { return Check::new("Load", Rating::Unknown, "not visible") };
    let share = load1 / cpus as f64;
    let state = match share {
        s if s > 0.75 => Rating::Bad,
        s if s > 0.25 => Rating::Fair,
        _ => Rating::Ok,
    };
    Check::new(
        "Load",
        state,
        format!("{load1:.2} over the last minute, on {}", counted(cpus as u64, "CPU")),
    )
    .advice_if(state, "other programs are running: stop them, or use ratios only")
}

fn stolen_time(share: Option<f64>) -> Check {
    let Some(share) = share else { return Check::new("Stolen", Rating::Unknown, "not visible") };
    let state = match share {
        s if s > STOLEN[1] => Rating::Bad,
        s if s > STOLEN[0] => Rating::Fair,
        _ => Rating::Ok,
    };
    Check::new("Stolen", state, format!("{:.1} % of the time went to other machines", share * 100.0))
        .advice_if(state, "the host is busy; try again later")
}

fn noise(spread: f64) -> Check {
    let state = match spread {
        s if s > NOISE_MAX => Rating::Bad,
        s if s > NOISE_FAIR => Rating::Fair,
        _ => Rating::Ok,
    };
    Check::new(
        "Noise",
        state,
        format!("a fixed loop takes {spread:.2} times as long at its 95th percentile as at its 5th"),
    )
    .advice_if(state, "absolute figures will not repeat: use ratios of interleaved rounds only")
}

/// The time of all CPUs since the start, in kernel ticks.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    all: u64,
    stolen: u64,
}

impl Ticks {
    fn read() -> Option<Self> {
        Self::parse(&text("/proc/stat"))
    }

    fn parse(stat: &str) -> Option<Self> {
        let numbers: Vec<u64> = stat
            .lines()
            .next()?
            .strip_prefix("cpu ")?
            .split_whitespace()
            .map_while(|n| n.parse().ok())
            .collect();
        // Guest time, which follows the eighth value, is already included in user time.
        Some(Self { all: numbers.iter().take(8).sum(), stolen: *numbers.get(7)? })
    }

    fn stolen_since(self, before: Self) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|&all| all > 0)?;
        Some(self.stolen.saturating_sub(before.stolen) as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use flowloom::cpu::topology::Cpu;

    use super::*;

    #[test]
    fn quota_below_the_cpu_count_is_rated_bad() {
        assert_eq!(quota("max 100000", 2).state, Rating::Ok);
        assert_eq!(quota("150000 100000", 2).state, Rating::Bad);
        assert_eq!(quota("400000 100000", 2).state, Rating::Ok);
        assert_eq!(quota("", 2).state, Rating::Unknown);
    }

    #[test]
    fn load_and_noise_are_rated_in_three_degrees() {
        assert_eq!(
            [0.3, 1.0, 1.9].map(|load1| load(Some(load1), 2).state),
            [Rating::Ok, Rating::Fair, Rating::Bad]
        );
        assert_eq!(
            [1.02, 1.2, 3.4].map(|spread| noise(spread).state),
            [Rating::Ok, Rating::Fair, Rating::Bad]
        );
        let far = [Some([57.0; 2]), Some([55.0, 320.0]), None].map(|trips| lines(trips).state);
        assert_eq!(far, [Rating::Ok, Rating::Fair, Rating::Unknown]);
        let stolen = [Some(0.0), Some(0.02), Some(0.2), None].map(|share| stolen_time(share).state);
        assert_eq!(stolen, [Rating::Ok, Rating::Fair, Rating::Bad, Rating::Unknown]);
        assert_eq!(
            ["performance", "powersave", ""].map(|name| governor(name).state),
            [Rating::Ok, Rating::Fair, Rating::Unknown]
        );
        assert_eq!(
            ["tsc", "hpet", ""].map(|name| clock(name).state),
            [Rating::Ok, Rating::Fair, Rating::Unknown]
        );
    }

    #[test]
    fn cpus_that_slow_each_other_are_reported_as_threads_of_one_core() {
        let cpu = |id, siblings| {
            let mut cpu = Cpu::default();
            (cpu.id, cpu.siblings, cpu.last_level_group) = (id, siblings, vec![0, 1]);
            cpu
        };
        let spread = |cpus| {
            let mut topology = Topology::default();
            topology.cpus = cpus;
            topology
        };
        let two = spread(vec![cpu(0, vec![0]), cpu(1, vec![1])]);
        let states = [Some(0.9), Some(1.1), None].map(|slowed| cores(&two, slowed).state);
        assert_eq!(states, [Rating::Ok; 3]);
        let check = cores(&two, Some(1.97));
        assert_eq!(check.state, Rating::Fair);
        assert_eq!(
            check.found,
            "2 allowed (0-1), on 2 cores according to the system, but two at once take 2.0 times as long as one"
        );
        let one = spread(vec![cpu(0, vec![0, 1]), cpu(1, vec![0, 1])]);
        assert_eq!(cores(&one, None).found, "2 allowed (0-1), on 1 core");
        assert_eq!(cores(&spread(vec![cpu(0, vec![0])]), None).state, Rating::Fair);
    }

    #[test]
    fn huge_pages_are_transparent_or_reserved() {
        assert_eq!(huge_pages("always [madvise] never", "0").state, Rating::Ok);
        assert_eq!(huge_pages("always madvise [never]", "0").state, Rating::Fair);
        assert_eq!(huge_pages("always madvise [never]", "512").state, Rating::Ok);
        assert_eq!(huge_pages("", "").state, Rating::Unknown);
    }

    #[test]
    fn memory_and_ticks_are_parsed_from_the_kernels_format() {
        assert_eq!(memory("MemTotal: 9 kB\nMemAvailable:  524288 kB\n").state, Rating::Fair);
        assert_eq!(memory("MemAvailable: 8388608 kB\n").state, Rating::Ok);
        assert_eq!(memory("").state, Rating::Unknown);
        assert_eq!(load(None, 2).state, Rating::Unknown);
        let before = Ticks::parse("cpu  10 0 10 70 0 0 0 10 5 0\ncpu0 1\n").unwrap();
        let after = Ticks::parse("cpu  60 0 10 100 0 0 0 30 5 0\n").unwrap();
        assert_eq!(after.stolen_since(before), Some(0.2));
        assert!(Ticks::parse("intr 1").is_none() && before.stolen_since(after).is_none());
    }
}
