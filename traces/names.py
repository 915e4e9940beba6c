#!/usr/bin/env python3
"""Writes small/names.pcap: half a minute of a small office, with payload.

Usage: python3 traces/names.py traces/small/names.pcap
"""

import hashlib
import struct
import sys

START = 1_767_603_600_000_000_000  # 2026-01-05T09:00:00Z
FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
packets = []


def noise(text, count):
    """Returns bytes that follow from a text."""
    blocks = (hashlib.sha256(f"{text} {n}".encode()).digest() for n in range(count // 32 + 1))
    return b"".join(blocks)[:count]


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ip_packet(ms, source, destination, protocol, transport, at):
    """Adds a packet at a time in milliseconds; `at` is where its checksum stands."""
    ends = b"".join(bytes(map(int, address.split("."))) for address in (source, destination))
    pseudo = ends + struct.pack("!BBH", 0, protocol, len(transport))
    transport = transport[:at] + struct.pack("!H", checksum(pseudo + transport)) + transport[at + 2 :]
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(transport), len(packets), 0x4000, 64, protocol, 0)
    head = head[:10] + struct.pack("!H", checksum(head + ends)) + ends
    # Stations are numbered as addresses are.
    stations = b"\x02\0" + ends[4:] + b"\x02\0" + ends[:4]
    packets.append((START + round(ms * 1_000_000), stations + b"\x08\0" + head + transport))


def udp(ms, source, port, destination, to, payload):
    head = struct.pack("!HHHH", port, to, 8 + len(payload), 0)
    ip_packet(ms, source, destination, 17, head + payload, 6)


class Tcp:
    """A connection; each call of `send` takes some time, and acknowledges what came before."""

    def __init__(self, ms, client, port, server, to, rtt=20, refused=False):
        self.ms, self.rtt = ms, rtt
        self.ends = [(client, port), (server, to)]
        self.next = [port * 65_537, to * 131_071]
        self.packet(0, SYN)
        self.ms += rtt
        self.packet(1, RST | ACK if refused else SYN | ACK)
        if not refused:
            self.ms += 0.1
            self.packet(0, ACK)

    def packet(self, end, flags, payload=b"", back=0):
        (source, port), (destination, to) = self.ends[end], self.ends[1 - end]
        acknowledged = self.next[1 - end] if flags & ACK else 0
        sequence = (self.next[end] - back) % 2**32
        head = struct.pack("!HHIIBBHHH", port, to, sequence, acknowledged % 2**32, 0x50, flags, 64_240, 0, 0)
        ip_packet(self.ms, source, destination, 6, head + payload, 16)
        if not back:
            self.next[end] += len(payload) + bool(flags & (SYN | FIN))

    def send(self, end, payload, again=False):
        for start in range(0, len(payload), 1400):
            segment = payload[start : start + 1400]
            self.ms += 0.5
            self.packet(end, PSH | ACK, segment)
        if again:
            self.ms += 300
            self.packet(end, PSH | ACK, segment, len(segment))
        self.ms += self.rtt
        self.packet(1 - end, ACK)

    def close(self):
        for end, flags in ((0, FIN | ACK), (1, FIN | ACK), (0, ACK)):
            self.ms += self.rtt / 2
            self.packet(end, flags)


def dns(ms, client, port, server, name, kind, answer=None):
    question = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    question += b"\0" + struct.pack("!HH", kind, 1)
    udp(ms, client, port, server, 53, struct.pack("!HHHHHH", port, 0x0100, 1, 0, 0, 0) + question)
    body, code = (b"", 3) if answer is None else (b"\xc0\x0c" + struct.pack("!HHIH", 1, 1, 300, 4) + answer, 0)
    head = struct.pack("!HHHHHH", port, 0x8180 | code, 1, int(code == 0), 0, 0)
    udp(ms + 12, server, 53, client, port, head + question + body)


def sized(count, data):
    return len(data).to_bytes(count, "big") + data


def hello(kind, name, extensions):
    """Returns a handshake record of TLS."""
    ciphers = b"\x13\x01" if kind == 2 else sized(2, b"\x13\x01\x13\x02\xc0\x2b\xc0\x2f")
    listed = b"".join(struct.pack("!H", number) + sized(2, body) for number, body in extensions)
    body = b"\x03\x03" + noise(f"{name} {kind}", 32) + sized(1, noise(name, 32)) + ciphers
    body += (b"\0" if kind == 2 else b"\x01\0") + sized(2, listed)
    return b"\x16\x03" + (b"\x03" if kind == 2 else b"\x01") + sized(2, bytes([kind]) + sized(3, body))


def tls(ms, client, port, server, to, name, protocols, answer_bytes):
    connection = Tcp(ms, client, port, server, to)
    share = struct.pack("!H", 29) + sized(2, noise("share", 32))
    offered = b"".join(sized(1, protocol.encode()) for protocol in protocols)
    asked = [(0, sized(2, b"\0" + sized(2, name.encode()))), (10, sized(2, b"\0\x1d\0\x17"))]
    asked += [(13, sized(2, b"\x04\x03\x08\x04\x04\x01")), (16, sized(2, offered))]
    asked += [(43, sized(1, b"\x03\x04\x03\x03")), (45, b"\x01\x01"), (51, sized(2, share))]
    connection.send(0, hello(1, name, asked))
    secret = b"\x14\x03\x03\0\x01\x01\x17\x03\x03" + sized(2, noise(name, 900))
    connection.send(1, hello(2, name, [(43, b"\x03\x04"), (51, share)]) + secret)
    connection.send(0, b"\x17\x03\x03" + sized(2, noise("request", 400)))
    connection.send(1, b"\x17\x03\x03" + sized(2, noise("page", answer_bytes)))
    return connection


def main():
    dns(0, "10.1.0.11", 40_001, "10.1.0.53", "www.example.net", 1, bytes([198, 18, 7, 1]))
    tls(40, "10.1.0.11", 50_001, "198.18.7.1", 443, "www.example.net", ["h2", "http/1.1"], 9000).close()

    update = Tcp(5000, "10.1.0.12", 50_002, "198.18.8.8", 8081, rtt=80)
    request = "GET /update?v=7 HTTP/1.1\r\nHost: updates.example.net\r\nUser-Agent: updater/7\r\n\r\n"
    update.send(0, request.encode())
    page = noise("update", 16_000)
    update.send(1, f"HTTP/1.1 200 OK\r\nContent-Length: {len(page)}\r\n\r\n".encode() + page, again=True)
    update.close()

    shell = Tcp(9000, "10.1.0.13", 50_003, "198.18.9.9", 2222)
    shell.send(0, b"SSH-2.0-OpenSSH_9.6\r\n")
    shell.send(1, b"SSH-2.0-dropbear_2022.83\r\n")
    for number in range(5):
        shell.ms += 400
        shell.send(number % 2, noise(f"shell {number}", 96))

    for number in range(6):
        name = f"{noise(str(number), 12).hex()}.t.example.org"
        dns(12_000 + 1500 * number, "10.1.0.14", 40_010 + number, "198.18.99.5", name, 16)

    ports = (21, 22, 23, 25, 80, 110, 139, 143, 443, 445, 993, 1433, 3306, 3389, 5432, 5900, 6379, 8080, 8443)
    for number, port in enumerate(ports):
        Tcp(21_000 + 50 * number, "10.1.0.66", 50_100 + number, "10.1.0.20", port, rtt=1, refused=True)

    udp(30_000, "10.1.0.15", 123, "198.18.4.4", 123, b"\x23" + bytes(39) + noise("ntp", 8))
    udp(30_018, "198.18.4.4", 123, "10.1.0.15", 123, b"\x24\x02\0\xec" + bytes(20) + noise("time", 24))
    tls(32_000, "10.1.0.15", 50_004, "198.18.7.9", 8443, "cdn.example.com", ["http/1.1"], 3000)

    with open(sys.argv[1], "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1))
        for time, frame in sorted(packets):
            second, rest = divmod(time, 1_000_000_000)
            file.write(struct.pack("<IIII", second, rest, len(frame), len(frame)) + frame)


main()
