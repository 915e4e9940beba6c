//! The reason why a port cannot be opened or cannot continue.

use std::io;

/// The error of a port.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// No interface has this name.
    #[error("no interface {interface}\n  interfaces: {}", others.join(", "))]
    NoInterface {
        /// The name.
        interface: String,
        /// The existing interfaces.
        others: Vec<String>,
    },
    /// The interface is down.
    #[error("{interface} is down\n  ip link set {interface} up")]
    Down {
        /// The interface.
        interface: String,
    },
    /// The interface no longer exists: a card was removed, or an interface was deleted.
    #[error("{interface} no longer exists\n  restart when the interface is back")]
    Gone {
        /// The interface.
        interface: String,
    },
    /// The process lacks the permission.
    #[error("{interface}: this process may not {what}\n  run as root, or with {capability}")]
    Permission {
        /// The interface.
        interface: String,
        /// The operation.
        what: &'static str,
        /// The required capability.
        capability: &'static str,
    },
    /// The kernel does not support this.
    #[error("{interface}: this kernel or driver cannot {what}: {error}\n  {remedy}")]
    Unsupported {
        /// The interface.
        interface: String,
        /// The operation.
        what: &'static str,
        /// The error of the kernel.
        error: io::Error,
        /// Advice.
        remedy: &'static str,
    },
    /// Frames of the interface are larger than the backend supports.
    #[error(
        "frames of {interface} have up to {mtu} bytes, but {backend} supports {most}\n  ip link set \
         {interface} mtu {most}, or use --backend af-packet"
    )]
    Mtu {
        /// The interface.
        interface: String,
        /// The backend.
        backend: &'static str,
        /// Maximum size of a frame of the interface, without the link header, in bytes.
        mtu: u32,
        /// Maximum size that the backend supports, in bytes.
        most: u32,
    },
    /// The number of receive queues differs from the number of workers.
    #[error(
        "{interface} has {queues} receive queues, but there are {workers} workers\n  use --workers \
         {queues}, or ethtool -L {interface} combined {workers}"
    )]
    Queues {
        /// The interface.
        interface: String,
        /// The number of its receive queues.
        queues: u32,
        /// The number of workers.
        workers: u32,
    },
    /// Another system call has failed.
    #[error("{interface}: cannot {what}: {error}")]
    Failed {
        /// The interface.
        interface: String,
        /// The operation.
        what: &'static str,
        /// The error of the kernel.
        #[source]
        error: io::Error,
    },
}

/// Interprets a failed call on an interface.
pub(crate) struct Context<'a> {
    pub(crate) interface: &'a str,
    /// The capability that the calls require.
    pub(crate) capability: &'static str,
}

impl Context<'_> {
    /// Returns an error from the failed operation, with advice for a kernel that does not support
    /// it.
    pub(crate) fn failed(
        &self,
        what: &'static str,
        remedy: &'static str,
    ) -> impl FnOnce(io::Error) -> IoError {
        let (interface, capability) = (self.interface.to_owned(), self.capability);
        move |error| match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => IoError::Permission { interface, what, capability },
            Some(libc::ENETDOWN) => IoError::Down { interface },
            Some(
                libc::EOPNOTSUPP | libc::ENOSYS | libc::EAFNOSUPPORT | libc::ENOPROTOOPT | libc::EINVAL,
            ) if !remedy.is_empty() => IoError::Unsupported { interface, what, error, remedy },
            _ => IoError::Failed { interface, what, error },
        }
    }
}

/// Returns the number of an interface.
pub(crate) fn interface_number(socket: impl std::os::fd::AsFd, interface: &str) -> Result<u32, IoError> {
    rustix::net::netdevice::name_to_index(socket, interface).map_err(|_| {
        let entries = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
        let mut others: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        others.sort();
        IoError::NoInterface { interface: interface.to_owned(), others }
    })
}
