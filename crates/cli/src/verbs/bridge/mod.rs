//! A transparent firewall between two interfaces.

#[cfg(target_os = "linux")]
mod kernel_bridge;
#[cfg(target_os = "linux")]
mod ports;
#[cfg(target_os = "linux")]
mod work;

use crate::args::Common;
use crate::args::bridge::Bridge;
use crate::exit::{Failure, Status};

/// Runs the command.
pub(crate) fn run(arguments: &Bridge, common: &Common) -> Result<Status, Failure> {
    #[cfg(target_os = "linux")]
    return work::run(arguments, common);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (arguments, common);
        Err(Failure::Usage(String::from("bridge needs Linux, whose kernel provides the ports")))
    }
}
