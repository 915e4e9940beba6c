//! The tree of cores and hardware threads for `--topology`.

use flowloom::cpu::topology::Topology as HostTopology;
use flowloom::scheduler::Topology;
use flowloom::scheduler::topology::CAPACITY_FULL;

use crate::exit::Failure;

/// Parses a tree: levels such as `8x2x4,-0`, or `host`.
pub fn named(name: &str) -> Result<Topology, Failure> {
    if name == "host" {
        return host();
    }
    name.parse().map_err(|error| Failure::Usage(format!("--topology {name}: {error}")))
}

/// Returns this machine's packages, cores and hardware threads.
fn host() -> Result<Topology, Failure> {
    let host = HostTopology::read().map_err(|error| Failure::Usage(error.to_string()))?;
    let places = host.cpus.iter().map(|cpu| {
        // A core has the id of its first thread.
        let core = cpu.siblings.first().copied().unwrap_or(cpu.id);
        (vec![cpu.package, core, cpu.id], CAPACITY_FULL)
    });
    Topology::from_places(places.collect()).map_err(|error| Failure::Usage(error.to_string()))
}
