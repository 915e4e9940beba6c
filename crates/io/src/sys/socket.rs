//! Sockets: options, addresses, batches of messages.
#![expect(unsafe_code, reason = "system calls that take addresses")]

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{c_int, c_void};

/// Plain data that the kernel reads or writes in memory order.
///
/// # Safety
///
/// The implementer guarantees: every bit pattern is a valid value, and the type has no padding.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: numbers, and structures of numbers without gaps.
unsafe impl Plain for c_int {}
// SAFETY: as above.
unsafe impl Plain for [u32; 2] {}
// SAFETY: as above.
unsafe impl Plain for [u32; 3] {}
// SAFETY: as above.
unsafe impl Plain for [u32; 4] {}
// SAFETY: as above.
unsafe impl Plain for [u64; 4] {}
// SAFETY: as above.
unsafe impl Plain for [u64; 6] {}
// SAFETY: as above.
unsafe impl Plain for [u64; 16] {}

/// Returns the result of a system call, or its error.
fn checked(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Opens a socket.
pub(crate) fn open(family: c_int, kind: c_int, protocol: c_int) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call takes numbers only.
    let fd = checked(unsafe { libc::socket(family, kind, protocol) })?;
    // SAFETY: the descriptor is new, and no other value has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an option.
pub(crate) fn set<T: Plain>(fd: impl AsFd, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let (value, bytes) = (std::ptr::from_ref(value).cast::<c_void>(), size_of::<T>() as u32);
    // SAFETY: the kernel reads so many bytes of the value.
    checked(unsafe { libc::setsockopt(fd.as_fd().as_raw_fd(), level, name, value, bytes) }).map(drop)
}

/// Returns an option.
pub(crate) fn get<T: Plain>(fd: impl AsFd, level: c_int, name: c_int) -> io::Result<T> {
    // SAFETY: a plain value may be all zeros.
    let mut value: T = unsafe { zeroed() };
    let mut bytes = size_of::<T>() as u32;
    let to = std::ptr::from_mut(&mut value).cast::<c_void>();
    // SAFETY: the kernel writes at most so many bytes to the value.
    checked(unsafe { libc::getsockopt(fd.as_fd().as_raw_fd(), level, name, to, &raw mut bytes) })?;
    Ok(value)
}

/// Stops the reception of further frames on the socket.
pub(crate) fn receive_nothing(fd: impl AsFd) -> io::Result<()> {
    let mut none = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };
    let program = libc::sock_fprog { len: 1, filter: &raw mut none };
    let (value, bytes) =
        (std::ptr::from_ref(&program).cast::<c_void>(), size_of::<libc::sock_fprog>() as u32);
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the program and its instruction live until the call returns, which copies them.
    checked(unsafe { libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, value, bytes) })
        .map(drop)
}

/// Resumes the reception of frames on the socket.
pub(crate) fn receive_all(fd: impl AsFd) -> io::Result<()> {
    set::<c_int>(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0)
}

/// Binds a packet socket to an interface.
pub(crate) fn bind_packet(fd: impl AsFd, interface: u32) -> io::Result<()> {
    // SAFETY: an address may be all zeros.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = interface as c_int;
    let (at, bytes) = (std::ptr::from_ref(&address).cast(), size_of::<libc::sockaddr_ll>() as u32);
    // SAFETY: the kernel reads so many bytes of the address.
    checked(unsafe { libc::bind(fd.as_fd().as_raw_fd(), at, bytes) }).map(drop)
}

/// Binds an XDP socket to a queue of an interface. `umem_of` is a socket whose memory this socket
/// shares.
pub(crate) fn bind_xdp(
    fd: impl AsFd,
    (interface, queue): (u32, u32),
    flags: u16,
    umem_of: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    // SAFETY: an address may be all zeros.
    let mut address: libc::sockaddr_xdp = unsafe { zeroed() };
    address.sxdp_family = libc::AF_XDP as u16;
    address.sxdp_flags = flags;
    address.sxdp_ifindex = interface;
    address.sxdp_queue_id = queue;
    address.sxdp_shared_umem_fd = umem_of.map_or(0, |fd| fd.as_raw_fd() as u32);
    let (at, bytes) = (std::ptr::from_ref(&address).cast(), size_of::<libc::sockaddr_xdp>() as u32);
    // SAFETY: the kernel reads so many bytes of the address.
    checked(unsafe { libc::bind(fd.as_fd().as_raw_fd(), at, bytes) }).map(drop)
}

/// Receives all frames of an interface, not only those addressed to it.
pub(crate) fn be_promiscuous(fd: impl AsFd, interface: u32) -> io::Result<()> {
    // `struct packet_mreq`: interface, type and length of the address, the address.
    let request = [interface, libc::PACKET_MR_PROMISC as u32, 0, 0];
    set(fd, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
}

/// Wakes the kernel to send the entries of a transmit ring.
pub(crate) fn wake_transmit(fd: impl AsFd) -> io::Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the call sends no bytes of ours.
    let sent = unsafe { libc::sendto(fd, std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A frame to send: the header of its offloads, and its bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) header: &'a [u8],
    pub(crate) bytes: &'a [u8],
}

/// Sends a batch of frames, at most 64. Returns how many the kernel accepted, or the error of the
/// first.
pub(crate) fn send_batch(fd: impl AsFd, messages: &[Message<'_>]) -> io::Result<usize> {
    const MOST: usize = 64;
    // SAFETY: both may be all zeros.
    let (mut parts, mut headers): ([[libc::iovec; 2]; MOST], [libc::mmsghdr; MOST]) =
        unsafe { (zeroed(), zeroed()) };
    let count = messages.len().min(MOST);
    for ((message, parts), header) in messages.iter().zip(&mut parts).zip(&mut headers) {
        for (part, bytes) in parts.iter_mut().zip([message.header, message.bytes]) {
            *part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        }
        header.msg_hdr.msg_iov = parts.as_mut_ptr();
        header.msg_hdr.msg_iovlen = 2;
    }
    let (at, flags) = (headers.as_mut_ptr(), libc::MSG_DONTWAIT);
    // SAFETY: the headers, the parts and the bytes live until the call returns; the kernel reads
    // the bytes, and writes to the headers only.
    let sent = checked(unsafe { libc::sendmmsg(fd.as_fd().as_raw_fd(), at, count as u32, flags as _) })?;
    Ok(sent as usize)
}

/// The kernel's description of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InterfaceState {
    pub(crate) mtu: u32,
    pub(crate) is_up: bool,
    /// The hardware type, `ARPHRD_*`.
    pub(crate) hardware: u16,
}

/// Returns the state of an interface.
pub(crate) fn interface_state(fd: impl AsFd, name: &str) -> io::Result<InterfaceState> {
    // SAFETY: a request may be all zeros.
    let mut request: libc::ifreq = unsafe { zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = byte as libc::c_char;
    }
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the kernel reads the name and writes the flags, in the request.
    checked(unsafe { libc::ioctl(fd, libc::SIOCGIFFLAGS as _, &raw mut request) })?;
    // SAFETY: the call has written this member.
    let is_up = c_int::from(unsafe { request.ifr_ifru.ifru_flags }) & libc::IFF_UP != 0;
    // SAFETY: as above, with the MTU.
    checked(unsafe { libc::ioctl(fd, libc::SIOCGIFMTU as _, &raw mut request) })?;
    // SAFETY: the call has written this member.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    // SAFETY: as above, with the hardware address.
    checked(unsafe { libc::ioctl(fd, libc::SIOCGIFHWADDR as _, &raw mut request) })?;
    // SAFETY: the call has written this member.
    let hardware = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
    Ok(InterfaceState { mtu: mtu.unsigned_abs(), is_up, hardware })
}
/// Attaches an open tap device to its interface, which the kernel creates if it is missing. Frames
/// carry the header of offloads.
pub(crate) fn attach_tap(fd: impl AsFd, name: &str) -> io::Result<()> {
    // SAFETY: a request may be all zeros.
    let mut request: libc::ifreq = unsafe { zeroed() };
    if name.len() >= request.ifr_name.len() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    for (to, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = byte as libc::c_char;
    }
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    request.ifr_ifru.ifru_flags = flags as libc::c_short;
    // SAFETY: the kernel reads and writes the request only.
    checked(unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) })
        .map(drop)
}
