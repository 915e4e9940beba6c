//! What forwards frames after the process has ended: a bridge of the kernel, or nothing.

use std::path::Path;

use crate::exit::Failure;

/// Returns the kernel's bridge to which an interface belongs.
fn bridge_of(interface: &str) -> Option<String> {
    let port = Path::new("/sys/class/net").join(interface).join("brport/bridge");
    Some(std::fs::read_link(port).ok()?.file_name()?.to_str()?.to_owned())
}

/// Checks that the end of the process opens or closes the path, as requested.
pub(super) fn check(a: &str, b: &str, fails_open: bool) -> Result<(), Failure> {
    if a == b {
        return Err(Failure::Usage(format!("{a} is named twice\n  a bridge joins two interfaces")));
    }
    let bridges = [a, b].map(bridge_of);
    match (fails_open, bridges) {
        (true, [Some(one), Some(other)]) if one == other => Ok(()),
        (true, _) => Err(Failure::Usage(format!(
            "--fail-open: {a} and {b} are not in one bridge of the kernel, which would pass frames when this process has ended\n  \
             ip link add br0 type bridge && ip link set br0 up && ip link set {a} master br0 && ip link set {b} master br0"
        ))),
        (false, [None, None]) => Ok(()),
        (false, [one, other]) => {
            let (interface, bridge) =
                one.map(|bridge| (a, bridge)).or(other.map(|bridge| (b, bridge))).unwrap_or_default();
            Err(Failure::Usage(format!(
                "{interface} is in the bridge {bridge} of the kernel, which would forward frames after this process has ended\n  \
                 ip link set {interface} nomaster, or use --fail-open"
            )))
        }
    }
}
