//! Clients and servers that the tests run in the namespaces.
#![expect(clippy::print_stdout, reason = "their output is the result, which the tests read")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "figures for people, and parts of a buffer"
)]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, SocketAddrV6, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use flowloom_io::{PacketOptions, PacketPort, Port, PortFrame};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, recv, sendto, socket, sockopt,
};

/// Time limit for a reply.
const PATIENCE: Duration = Duration::from_secs(1);

/// Runs a client or server by name.
pub(super) fn run(words: &[&str]) -> Result<()> {
    match words {
        ["ping", host, count, bytes] => ping(host.parse()?, count.parse()?, bytes.parse()?),
        ["serve", ports @ ..] => serve(ports),
        ["collect", port] => collect(port.parse()?),
        ["fetch", address, bytes] => fetch(address.parse()?, bytes.parse()?),
        ["connect", address] => {
            connect(address.parse()?);
            Ok(())
        }
        ["hold", address, count] => hold(address.parse()?, count.parse()?),
        ["flood", count] => flood(count.parse()?),
        ["blast", seconds, rate] => blast(Duration::from_secs(seconds.parse()?), rate.parse()?),
        ["send-tagged", count] => send_tagged(count.parse()?),
        ["receive-tagged", count] => receive_tagged(count.parse()?),
        _ => bail!("no such peer: {}", words.join(" ")),
    }
}

/// Sends echo requests, each after the previous one was answered, and prints how many were not
/// answered.
fn ping(host: IpAddr, count: u16, bytes: usize) -> Result<()> {
    let (family, protocol, request, reply) = match host {
        IpAddr::V4(_) => (AddressFamily::INET, ipproto::ICMP, 8, 0),
        IpAddr::V6(_) => (AddressFamily::INET6, ipproto::ICMPV6, 128, 129),
    };
    let fd = socket(family, SocketType::RAW, Some(protocol)).context("a raw socket needs root")?;
    sockopt::set_socket_timeout(&fd, sockopt::Timeout::Recv, Some(PATIENCE))?;
    let to = match host {
        // The port of a raw socket has no meaning.
        IpAddr::V6(host) => SocketAddr::V6(SocketAddrV6::new(host, 0, 0, 0)),
        host @ IpAddr::V4(_) => SocketAddr::new(host, 0),
    };
    let identifier = (std::process::id() & 0xFFFF) as u16;
    let (mut lost, mut times) = (0, Vec::with_capacity(usize::from(count)));
    let mut buffer = vec![0; 1 << 16];
    for number in 0..count {
        let mut message = vec![request, 0, 0, 0];
        message.extend(identifier.to_be_bytes());
        message.extend(number.to_be_bytes());
        message.resize(bytes.max(8), b'x');
        if host.is_ipv4() {
            let sum = checksum(&message).to_be_bytes();
            message[2..4].copy_from_slice(&sum);
        }
        let begun = Instant::now();
        sendto(&fd, &message, SendFlags::empty(), &to)?;
        let is_answered = loop {
            let Ok((read, _)) = recv(&fd, &mut buffer[..], RecvFlags::empty()) else { break false };
            let start = if host.is_ipv4() { usize::from(buffer[0] & 15) * 4 } else { 0 };
            let received = &buffer[start.min(read)..read];
            if received.len() >= 8 && received[0] == reply && received[4..8] == message[4..8] {
                break true;
            }
        };
        lost += u16::from(!is_answered);
        times.push(begun.elapsed());
    }
    times.sort();
    let at = |share: usize| times.get(times.len() * share / 100).copied().unwrap_or_default().as_micros();
    println!("sent {count} lost {lost} p50 {} µs p99 {} µs", at(50), at(99));
    Ok(())
}

fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    let mut sum: u64 = bytes.chunks(2).map(word).sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

/// Counts the bytes of each connection, and replies with their number when the other end closes.
fn serve(ports: &[&str]) -> Result<()> {
    let mut threads = Vec::new();
    for port in ports {
        let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port.parse()?))?;
        threads.push(std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut connection = connection;
                    let mut buffer = vec![0; 1 << 16];
                    let mut bytes = 0_u64;
                    while let Ok(read @ 1..) = connection.read(&mut buffer) {
                        bytes += read as u64;
                    }
                    let _ = connection.write_all(bytes.to_string().as_bytes());
                });
            }
        }));
    }
    println!("ready");
    threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow::anyhow!("a server ended")))
}

/// Takes what an exporter sends, and prints that it does so once the first bytes have arrived.
fn collect(port: u16) -> Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    println!("ready");
    let (mut connection, _) = listener.accept()?;
    let mut buffer = vec![0; 1 << 16];
    let first = connection.read(&mut buffer)?;
    ensure!(first > 20 && buffer[..2] == [0, 10] && buffer[16..18] == [0, 2], "no templates of IPFIX");
    println!("templates");
    while connection.read(&mut buffer)? > 0 {}
    Ok(())
}

/// Sends `bytes` bytes, and checks that the other end has received all of them.
fn fetch(address: SocketAddr, bytes: u64) -> Result<()> {
    let begun = Instant::now();
    let mut connection = TcpStream::connect_timeout(&address, PATIENCE)?;
    connection.set_read_timeout(Some(30 * PATIENCE))?;
    let chunk = vec![7; 1 << 16];
    let mut left = bytes;
    while left > 0 {
        let part = left.min(chunk.len() as u64) as usize;
        connection.write_all(&chunk[..part])?;
        left -= part as u64;
    }
    connection.shutdown(Shutdown::Write)?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    ensure!(answer == bytes.to_string(), "sent {bytes} bytes, and the server has had {answer}");
    println!("{:.2} Gbit/s", bytes as f64 * 8.0 / begun.elapsed().as_secs_f64() / 1e9);
    Ok(())
}

/// Connects, and prints the result.
fn connect(address: SocketAddr) {
    match TcpStream::connect_timeout(&address, PATIENCE) {
        Ok(_) => println!("open"),
        Err(error) => println!("{:?}", error.kind()),
    }
}

/// Holds connections open while others are made, until a line of input arrives. Prints for how many
/// of each kind the server counted the bytes.
fn hold(address: SocketAddr, count: usize) -> Result<()> {
    let mut held = Vec::with_capacity(count);
    for _ in 0..count {
        held.push(TcpStream::connect_timeout(&address, PATIENCE)?);
    }
    println!("ready");
    std::io::stdin().read_line(&mut String::new())?;
    let send = |connection: std::io::Result<TcpStream>| -> Result<bool> {
        let mut connection = connection?;
        connection.set_read_timeout(Some(5 * PATIENCE))?;
        connection.write_all(b"abc")?;
        connection.shutdown(Shutdown::Write)?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        Ok(answer == "3")
    };
    // Retries like TCP, which repeats its SYN after a second.
    let made = (0..count).filter(|_| {
        std::thread::sleep(Duration::from_millis(5));
        send(TcpStream::connect_timeout(&address, 5 * PATIENCE)).unwrap_or(false)
    });
    let made = made.count();
    let stayed =
        held.into_iter().filter_map(|connection| send(Ok(connection)).ok()).filter(|is_whole| *is_whole);
    println!("stayed {} made {made}", stayed.count());
    Ok(())
}

/// Sends SYNs from addresses that do not exist, to a station that does not exist.
fn flood(count: u32) -> Result<()> {
    let port = port()?;
    let mut taken = Vec::new();
    let opening = |number: u32| {
        let [_, a, b, c] = number.to_be_bytes();
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];
        frame.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0, 11, a, b, c, 10, 9, 0, 77]);
        frame.extend([4, 0, 0, 80, 0, 0, 0, 9, 0, 0, 0, 0, 0x50, 2, 0, 0, 0, 0, 0, 0]);
        frame
    };
    for number in 0..count / 32 {
        let frames: Vec<Vec<u8>> = (32 * number..32 * number + 32).map(opening).collect();
        let frames: Vec<PortFrame<'_>> = frames.iter().map(|frame| PortFrame::new(frame)).collect();
        port.send(&frames, &mut taken);
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// Sends datagrams of a thousand flows for a time, `rate` per second, or as many as the port takes
/// if that is 0.
fn blast(time: Duration, rate: u64) -> Result<()> {
    const BATCH: u64 = 32;
    let port = port()?;
    let mut taken = Vec::new();
    let datagram = |number: u64| {
        let [high, low] = (1024 + (number % 1000) as u16).to_be_bytes();
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0, 0, 86];
        frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 77, 10, 9, 0, 78, high, low, 0, 80, 0, 66, 0, 0]);
        frame.resize(100, 7);
        // A bridge of the kernel may drop packets with a wrong checksum.
        let sum = checksum(&frame[14..34]).to_be_bytes();
        frame[24..26].copy_from_slice(&sum);
        frame
    };
    let frames: Vec<Vec<u8>> = (0..1024).map(datagram).collect();
    let frames: Vec<PortFrame<'_>> = frames.iter().map(|frame| PortFrame::new(frame)).collect();
    let begun = Instant::now();
    let mut sent = 0;
    while begun.elapsed() < time {
        if rate > 0 && sent as f64 > rate as f64 * begun.elapsed().as_secs_f64() {
            std::thread::sleep(Duration::from_micros(50));
            continue;
        }
        let at = (sent % 1024) as usize;
        port.send(&frames[at..at + BATCH as usize], &mut taken);
        sent += BATCH;
    }
    Ok(())
}

/// A frame of a protocol for experiments, in VLAN 5 with priority 3, to all stations.
fn tagged(number: u32) -> Vec<u8> {
    let mut frame = vec![0xFF; 6];
    frame.extend([2, 0, 0, 0, 0, 9, 0x81, 0x00, 0x60, 0x05, 0x88, 0xB5]);
    frame.extend(number.to_be_bytes());
    frame.resize(200, 7);
    frame
}

fn port() -> Result<PacketPort> {
    let options = PacketOptions { keeps_from_host: false, ..PacketOptions::default() };
    Ok(PacketPort::open("eth0", &options)?)
}

/// Sends frames with a VLAN tag.
fn send_tagged(count: u32) -> Result<()> {
    let port = port()?;
    let mut taken = Vec::new();
    for number in 0..count {
        port.send(&[PortFrame::new(&tagged(number))], &mut taken);
        ensure!(taken == [true], "the frame {number} was refused");
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

/// Receives these frames, and prints how many arrived unchanged, and how often one of them came
/// before its predecessor.
fn receive_tagged(count: u32) -> Result<()> {
    let mut port = port()?;
    println!("ready");
    let begun = Instant::now();
    let mut received = Vec::new();
    while received.len() < count as usize && begun.elapsed() < 10 * PATIENCE {
        for index in 0..port.receive(32)? {
            let bytes = port.frame(index).bytes;
            received.extend((0..count).find(|number| bytes == tagged(*number)));
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    let turned = received.windows(2).filter(|pair| pair[1] < pair[0]).count();
    println!("received {} turned {turned}", received.len());
    Ok(())
}
