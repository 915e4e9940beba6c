//! Why a port cannot be opened or cannot go on.

use std::io;

/// The error of a port.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IoError {
    /// There is no interface of this name.
    #[error("there is no interface {interface}\n  interfaces here: {}", others.join(", "))]
    NoInterface {
        /// The name.
        interface: String,
        /// The interfaces that there are.
        others: Vec<String>,
    },
    /// The interface is down.
    #[error("{interface} is down\n  ip link set {interface} up")]
    Down {
        /// The interface.
        interface: String,
    },
    /// The interface has gone: a card was removed, or an interface was deleted.
    #[error("{interface} is gone\n  start again when the interface is back")]
    Gone {
        /// The interface.
        interface: String,
    },
    /// The process may not do this.
    #[error("{interface}: this process may not {what}\n  run as root, or with {capability}")]
    Permission {
        /// The interface.
        interface: String,
        /// What was tried.
        what: &'static str,
        /// The capability that it takes.
        capability: &'static str,
    },
    /// The kernel cannot do this.
    #[error("{interface}: this kernel or driver cannot {what}: {error}\n  {remedy}")]
    Unsupported {
        /// The interface.
        interface: String,
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        error: io::Error,
        /// What can be done.
        remedy: &'static str,
    },
    /// Frames of the interface are larger than the backend takes.
    #[error(
        "frames of {interface} have up to {mtu} bytes and {backend} takes {most}\n  \
         ip link set {interface} mtu {most}, or use --backend af-packet"
    )]
    Mtu {
        /// The interface.
        interface: String,
        /// The backend.
        backend: &'static str,
        /// The most bytes of a frame of the interface, without the link's header.
        mtu: u32,
        /// The most bytes that the backend takes.
        most: u32,
    },
    /// The interface has another number of queues than there are workers.
    #[error(
        "{interface} receives by {queues} queues, and there are {workers} workers\n  \
         --workers {queues}, or ethtool -L {interface} combined {workers}"
    )]
    Queues {
        /// The interface.
        interface: String,
        /// Its queues.
        queues: u32,
        /// The workers.
        workers: u32,
    },
    /// Another system call has failed.
    #[error("{interface}: cannot {what}: {error}")]
    Failed {
        /// The interface.
        interface: String,
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        #[source]
        error: io::Error,
    },
}

/// Says what a failed call of an interface means.
pub(crate) struct Context<'a> {
    pub(crate) interface: &'a str,
    /// The capability that the calls take.
    pub(crate) capability: &'static str,
}

impl Context<'_> {
    /// Returns an error from what was tried, and what can be done where the kernel cannot do it.
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
