//! BPF programs of a few instructions, attached by links: the kernel detaches them when the process
//! ends for any reason.
#![expect(unsafe_code, reason = "the system call takes a structure with addresses in it")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use super::joined;

const MAP_CREATE: libc::c_long = 0;
const MAP_UPDATE: libc::c_long = 2;
const PROGRAM_LOAD: libc::c_long = 5;
const LINK_CREATE: libc::c_long = 28;

const MAP_OF_SOCKETS: u32 = 17;
const CLASSIFIER: u32 = 3;
const XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const ATTACH_TC_INGRESS: u32 = 46;

/// Attributes of a call, as 32-bit words; words that stay zero have no effect.
#[repr(C, align(8))]
struct Attributes([u32; 32]);

impl Attributes {
    fn new(words: &[(usize, u32)]) -> Self {
        let mut attributes = [0; 32];
        for &(at, word) in words {
            attributes[at] = word;
        }
        Self(attributes)
    }

    /// Sets the address in the words `at` and `at + 1`.
    fn with_address<T>(mut self, at: usize, of: *const T) -> Self {
        let bytes = (of as u64).to_ne_bytes();
        for (word, bytes) in self.0[at..at + 2].iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        self
    }
}

/// Makes the call.
///
/// # Safety
///
/// The caller guarantees: addresses in the attributes point to what the call expects, and stay
/// valid until it returns.
unsafe fn call(command: libc::c_long, attributes: &mut Attributes) -> io::Result<i32> {
    let (at, bytes) = (std::ptr::from_mut(attributes), size_of::<Attributes>());
    // SAFETY: the kernel reads and writes the attributes within their size; the caller answers for
    // the addresses in them.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, at, bytes) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// # Safety
///
/// As for [`call`], for a call that returns a descriptor.
unsafe fn opened(command: libc::c_long, attributes: &mut Attributes) -> io::Result<OwnedFd> {
    // SAFETY: the caller's promise.
    let fd = unsafe { call(command, attributes)? };
    // SAFETY: the descriptor is new, and no other value has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn load(kind: u32, attach: u32, instructions: &[u64]) -> io::Result<OwnedFd> {
    let licence = c"MIT OR Apache-2.0";
    let mut attributes = Attributes::new(&[(0, kind), (1, instructions.len() as u32), (17, attach)])
        .with_address(2, instructions.as_ptr())
        .with_address(4, licence.as_ptr());
    // SAFETY: the instructions and the licence outlive the call, and their number is stated.
    unsafe { opened(PROGRAM_LOAD, &mut attributes) }
}

fn link(program: &OwnedFd, interface: u32, attach: u32, flags: u32) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    let mut attributes = Attributes::new(&[(0, program), (1, interface), (2, attach), (3, flags)]);
    // SAFETY: the attributes have no address.
    unsafe { opened(LINK_CREATE, &mut attributes) }
}

/// Returns an instruction: operation, registers to and from, offset, number.
const fn instruction(operation: u8, [to, from]: [u8; 2], offset: i16, number: u32) -> u64 {
    let registers = if cfg!(target_endian = "little") { from << 4 | to } else { to << 4 | from };
    let head = u32::from_ne_bytes([operation, registers, offset.to_ne_bytes()[0], offset.to_ne_bytes()[1]]);
    joined([head, number])
}

const LOAD_WORD: u8 = 0x61;
const LOAD_NUMBER: u8 = 0x18;
const CALL: u8 = 0x85;
const MOVE: u8 = 0xB7;
const EXIT: u64 = instruction(0x95, [0, 0], 0, 0);

/// Keeps the frames that an interface receives from the host while the link exists. Packet sockets
/// receive them earlier.
pub(crate) fn keep_from_host(interface: u32) -> io::Result<OwnedFd> {
    const DROP: u32 = 2;
    let program = load(CLASSIFIER, ATTACH_TC_INGRESS, &[instruction(MOVE, [0, 0], 0, DROP), EXIT])?;
    link(&program, interface, ATTACH_TC_INGRESS, 0)
}

/// The sockets of an interface by queue, to which an attached program passes the frames.
#[derive(Debug)]
pub(crate) struct SocketMap {
    map: OwnedFd,
}

/// How a program is attached to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attach {
    /// In the driver.
    Native,
    /// In the kernel's generic code, for any driver.
    Generic,
}

impl SocketMap {
    /// Creates a map for this many queues.
    pub(crate) fn new(queues: u32) -> io::Result<Self> {
        let mut attributes = Attributes::new(&[(0, MAP_OF_SOCKETS), (1, 4), (2, 4), (3, queues)]);
        // SAFETY: the attributes have no address.
        Ok(Self { map: unsafe { opened(MAP_CREATE, &mut attributes)? } })
    }

    /// Sets the socket of a queue.
    pub(crate) fn set(&self, queue: u32, socket: impl AsFd) -> io::Result<()> {
        let socket = socket.as_fd().as_raw_fd() as u32;
        let mut attributes = Attributes::new(&[(0, self.map.as_raw_fd() as u32)])
            .with_address(2, &raw const queue)
            .with_address(4, &raw const socket);
        // SAFETY: the map's keys and values are words, as these, which outlive the call.
        unsafe { call(MAP_UPDATE, &mut attributes) }.map(drop)
    }

    /// Attaches a program that passes each frame to the socket of its queue; frames of a queue
    /// without a socket go to the host.
    pub(crate) fn attach(&self, interface: u32, how: Attach) -> io::Result<OwnedFd> {
        const PASS: u32 = 2;
        // The numbers of a map argument, and of the function that looks up a socket in a map.
        const OF_A_MAP: u8 = 1;
        const REDIRECT: u32 = 51;
        const OFFSET_OF_QUEUE: i16 = 16;
        let map = self.map.as_raw_fd() as u32;
        let program = [
            instruction(LOAD_WORD, [2, 1], OFFSET_OF_QUEUE, 0),
            instruction(LOAD_NUMBER, [1, OF_A_MAP], 0, map),
            0,
            instruction(MOVE, [3, 0], 0, PASS),
            instruction(CALL, [0, 0], 0, REDIRECT),
            EXIT,
        ];
        let program = load(XDP, ATTACH_XDP, &program)?;
        let flags = match how {
            Attach::Generic => 1 << 1,
            Attach::Native => 1 << 2,
        };
        link(&program, interface, ATTACH_XDP, flags)
    }
}
