#!/usr/bin/env python3
"""Writes records in every format, reads them with other programs, and compares all fields.

    pip install pyarrow 'duckdb>=2' pandas netflow
    python3 -I crates/cli/tests/round_trips.py target/debug/flowloom CAPTURE...

`cargo xtask round-trips` does both. For each capture, the JSON lines of a run are the expected records, and their sums must
be the counts of its report. Other runs write the same records as

    CSV                         read by pandas
    Parquet                     read by pyarrow and DuckDB
    IPFIX, to a file, by TCP and by UDP, and NetFlow v9 by UDP    read by the package netflow
    IPFIX and NetFlow v9 by UDP                                   read by nfcapd and nfdump, where they are installed

Sums are those that the reader computes, where it can. It prints one line per capture and ends with status 1 if something
differs.
"""

import contextlib
import ipaddress
import json
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

import duckdb
import netflow.ipfix
import netflow.v9
import pandas
import pyarrow.compute
import pyarrow.parquet

# Parquet has no later times.
TIME_MAX = 2**63 - 1
SUMMED = ("packets", "reverse_packets", "ip_bytes", "reverse_ip_bytes", "bytes", "reverse_bytes")
# The values of flowEndReason.
END_REASONS = {"idle": 1, "active": 2, "fin": 3, "reset": 3, "new_connection": 3, "end": 4, "evicted": 5}
NTP_EPOCH_SECONDS = 2_208_988_800
WAIT_SECONDS = 10
STORE_SECONDS = 0.1
V9_SPAN_MS = 2**32 - 1 - 3_600_000 - 4000
ATTEMPTS = 5
BUFFER_BYTES = 16 << 20
SO_RCVBUFFORCE = 33
# A failed run has a report too: the input was faulty.
REPORTED = (0, 4, 6)


class Differs(Exception):
    """A reader has something else than the run."""


class Lost(Differs):
    """The buffer of a socket was full."""


def until_nothing_is_lost(receive, *arguments):
    """Repeats a transfer by UDP if the machine was too slow for it."""
    for _ in range(ATTEMPTS - 1):
        try:
            return receive(*arguments)
        except Lost:
            pass
    return receive(*arguments)


def enlarge(server):
    """Gives a socket a large buffer, beyond the limit if this is allowed."""
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    with contextlib.suppress(PermissionError):
        server.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)


def replay(flowloom, capture, options, target, *more):
    """Runs flowloom with records to a target, and returns its report."""
    command = [flowloom, "replay", str(capture), "--layout", "inline", "--flows", str(target)]
    command += [*options, *more, "--format", "json", "-q"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode not in REPORTED:
        raise Differs(f"{' '.join(command)}: {run.stderr}")
    return json.loads(run.stdout)


def compare(reader, expected, found):
    """Compares two lists of records, which are tuples of pairs, in any order."""
    expected, found = Counter(expected), Counter(found)
    missing, other = list((expected - found).elements()), list((found - expected).elements())
    if missing or other:
        first = f"{len(missing)} records differ, {len(other)} have come instead"
        if missing and other:
            nearest = max(other, key=lambda record: len(set(record) & set(missing[0])))
            first += f": {sorted(set(missing[0]) - set(nearest), key=str)}"
            first += f" became {sorted(set(nearest) - set(missing[0]), key=str)}"
        raise Differs(f"{reader}: {first}")


def compare_sums(reader, expected, found):
    """Compares sums of columns."""
    if expected != found:
        raise Differs(f"{reader}: the sums are {found}, of the run {expected}")


# The expected records.


def run_itself(flowloom, capture, options, work):
    """Returns the records of a run, after a comparison of their sums with its report."""
    report = replay(flowloom, capture, options, work / "r.jsonl", "--columns", "all", "--fields", "all")
    records = [json.loads(line) for line in (work / "r.jsonl").read_text().splitlines()]
    sums = {name: sum(record[name] for record in records) for name in SUMMED}
    counted = report["processed"]
    if sums["packets"] + sums["reverse_packets"] != counted:
        raise Differs(f"the records have {sums} packets, the report {counted}")
    wire = sums["bytes"] + sums["reverse_bytes"]
    is_all = counted == report["packets"]
    if wire > report["bytes_on_wire"] or (is_all and wire != report["bytes_on_wire"]):
        raise Differs(f"the records have {wire} bytes, the report {report['bytes_on_wire']}")
    return records, sums


# Tables.


def in_parquet(records):
    """Returns records without the times that Parquet does not hold."""
    return [{n: None if n in ("start", "end") and v > TIME_MAX else v for n, v in r.items()} for r in records]


def rows(records):
    """Returns records as tuples. A text without characters is as good as none: CSV has one form for both."""
    return [tuple(sorted((name, None if value == "" else value) for name, value in r.items())) for r in records]


def by_pandas(path, records):
    """Reads CSV."""
    frame = pandas.read_csv(path)
    sums = {name: int(frame[name].sum()) for name in SUMMED}
    texts = {name for record in records for name, value in record.items() if isinstance(value, str)}
    exact = pandas.read_csv(path, dtype=str, keep_default_na=False).to_dict("records")

    def value(name, text):
        return text if name in texts or text == "" else int(text, 0)

    return sums, [{name: value(name, text) for name, text in row.items()} for row in exact]


def by_pyarrow(path):
    """Reads Parquet."""
    table = pyarrow.parquet.read_table(path)
    sums = {name: pyarrow.compute.sum(table[name]).as_py() or 0 for name in SUMMED}
    for at, field in enumerate(table.schema):
        if pyarrow.types.is_timestamp(field.type):
            table = table.set_column(at, field.name, table[field.name].cast(pyarrow.int64()))
    return sums, table.to_pylist()


def by_duckdb(path):
    """Reads Parquet."""
    connection, source = duckdb.connect(), f"FROM read_parquet('{path}')"

    def ask(what):
        return connection.execute(f"{what} {source}").fetchall()

    kinds = {name: kind for name, kind, *_ in ask("DESCRIBE SELECT *")}
    [summed] = ask("SELECT " + ", ".join(f"sum({name})" for name in SUMMED))
    columns = [f'epoch_ns("{name}")' if "TIME" in kind else f'"{name}"' for name, kind in kinds.items()]
    found = ask("SELECT " + ", ".join(columns))
    return dict(zip(SUMMED, map(int, summed))), [dict(zip(kinds, row)) for row in found]


def check_tables(flowloom, capture, options, work, records, sums):
    """Compares CSV and Parquet."""
    csv, parquet = work / "r.csv", work / "r.parquet"
    for path in (csv, parquet):
        replay(flowloom, capture, options, path, "--columns", "all", "--fields", "all")
    if not records:
        return
    for reader, expected, (read_sums, read) in (
        ("pandas", records, by_pandas(csv, records)),
        ("pyarrow", in_parquet(records), by_pyarrow(parquet)),
        ("DuckDB", in_parquet(records), by_duckdb(parquet)),
    ):
        compare_sums(reader, sums, read_sums)
        compare(reader, rows(expected), rows(read))


# Collectors.


def directions(records):
    """Returns the records of NetFlow v9: one for each direction that has packets."""
    swapped = {"source": "destination", "destination": "source"}
    swapped |= {"source_port": "destination_port", "destination_port": "source_port"}
    for record in records:
        if record["packets"]:
            yield record
        if record["reverse_packets"]:
            back = {**record, **{name: record[other] for name, other in swapped.items()}}
            for name in ("packets", "bytes", "ip_bytes", "tcp_flags"):
                back[name] = record["reverse_" + name]
            yield back


def message(record):
    """Returns type and code of ICMP as one number, or None."""
    return None if record["icmp_type"] is None else record["icmp_type"] * 256 + record["icmp_code"]


def receive(flowloom, capture, options, scheme):
    """Returns the datagrams, or the bytes of a connection, of a run that sends its records here."""
    is_tcp = scheme == "ipfix+tcp"
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if is_tcp else socket.SOCK_DGRAM) as server:
        enlarge(server)
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        server.settimeout(WAIT_SECONDS)
        received, has_ended = [], threading.Event()

        def take():
            if is_tcp:
                server.listen()
                connection, _ = server.accept()
                with connection:
                    while data := connection.recv(1 << 16):
                        received.append(data)
                return
            server.settimeout(0.2)
            while True:
                try:
                    received.append(server.recv(1 << 16))
                except TimeoutError:
                    if has_ended.is_set():
                        return

        if is_tcp:
            server.listen()
        thread = threading.Thread(target=take)
        thread.start()
        replay(flowloom, capture, options, f"{scheme}://127.0.0.1:{port}")
        has_ended.set()
        thread.join()
        if not is_tcp and udp_socket(port)[1]:
            raise Lost("datagrams did not fit the buffer of the socket")
    return received


def messages(stream):
    """Cuts a stream into messages of IPFIX."""
    at = 0
    while at < len(stream):
        length = struct.unpack_from("!H", stream, at + 2)[0]
        yield stream[at : at + length]
        at += length


def expected_elements(record):
    """Returns the elements of a record in IPFIX. Those of the reverse direction have the same numbers."""
    source, destination = (ipaddress.ip_address(record[end]) for end in ("source", "destination"))
    numbers = (8, 12, 32) if source.version == 4 else (27, 28, 139)
    elements = {(numbers[0], int(source)), (numbers[1], int(destination)), (numbers[2], message(record) or 0)}
    elements |= {(7, record["source_port"]), (11, record["destination_port"]), (4, record["protocol"])}
    for name, milliseconds, nanoseconds in (("start", 152, 156), ("end", 153, 157)):
        elements |= {(milliseconds, record[name] // 10**6), (nanoseconds, ntp(record[name]))}
    for way in ("", "reverse_"):
        for name, number in (("packets", 2), ("ip_bytes", 1), ("bytes", 352), ("tcp_flags", 6)):
            elements.add((number, record[way + name]))
    outer, inner = record["vlan"] or 0, record["customer_vlan"] or 0
    elements |= {(58, outer), (243, outer), (245, inner), (234, record["zone"]), (295, record["spi"] or 0)}
    elements |= {(136, END_REASONS[record["end_reason"]]), (239, int(record["direction"] != "arbitrary"))}
    return tuple(sorted(elements))


def ntp(nanoseconds):
    """Returns a time as NTP has it: the seconds have 32 bits."""
    seconds, rest = divmod(nanoseconds, 10**9)
    return ((seconds + NTP_EPOCH_SECONDS) % 2**32 - NTP_EPOCH_SECONDS) * 10**9 + rest


def v9_start(record):
    """Returns the start in NetFlow v9, which is at most seven weeks before the end."""
    return v9_time(max(record["start"] // 10**6, record["end"] // 10**6 - V9_SPAN_MS))


def v9_time(milliseconds):
    """Returns a time as NetFlow v9 has it: the seconds have 32 bits."""
    return milliseconds % (1000 << 32)


def by_netflow_ipfix(datagrams):
    """Returns the elements of each record. The package gives no enterprise numbers, so they are sets."""

    def value(number, value):
        if number not in (156, 157):
            return value
        seconds, fraction = value
        return (seconds - NTP_EPOCH_SECONDS) * 10**9 + (fraction * 10**9 >> 32)

    templates = {}
    for datagram in datagrams:
        for flow in netflow.ipfix.IPFIXExportPacket(datagram, templates).flows:
            yield tuple(sorted((number, value(number, v)) for number, v in flow.fields))


def expected_netflow9(record):
    """Returns the fields of a direction in NetFlow v9."""
    is_icmp = message(record) is not None
    return (
        ("source", record["source"]),
        ("destination", record["destination"]),
        ("source_port", record["source_port"]),
        ("destination_port", message(record) if is_icmp else record["destination_port"]),
        ("protocol", record["protocol"]),
        ("start", v9_start(record)),
        ("end", v9_time(record["end"] // 10**6)),
        ("packets", record["packets"]),
        ("ip_bytes", record["ip_bytes"]),
        ("tcp_flags", record["tcp_flags"] & 0xFF),
        ("icmp", message(record) or 0),
        ("vlan", record["vlan"] or 0),
    )


def by_netflow_v9(datagrams):
    """Returns the fields of each record, with times since 1970."""
    templates = {}
    for datagram in datagrams:
        packet = netflow.v9.V9ExportPacket(datagram, templates)
        boot = packet.header.timestamp * 1000 - packet.header.uptime
        for flow in packet.flows:
            data = flow.data
            family = "IPV6" if "IPV6_SRC_ADDR" in data else "IPV4"
            yield (
                ("source", data[f"{family}_SRC_ADDR"]),
                ("destination", data[f"{family}_DST_ADDR"]),
                ("source_port", data["L4_SRC_PORT"]),
                ("destination_port", data["L4_DST_PORT"]),
                ("protocol", data["PROTOCOL"]),
                ("start", boot + data["FIRST_SWITCHED"]),
                ("end", boot + data["LAST_SWITCHED"]),
                ("packets", data["IN_PKTS"]),
                ("ip_bytes", data["IN_BYTES"]),
                ("tcp_flags", data["TCP_FLAGS"]),
                ("icmp", data["ICMP_TYPE"]),
                ("vlan", data["SRC_VLAN"]),
            )


def check_netflow(flowloom, capture, options, work, records):
    """Compares IPFIX and NetFlow v9 with the package netflow."""
    elements = [expected_elements(record) for record in records]
    replay(flowloom, capture, options, work / "r.ipfix")
    for reader, stream in (
        ("netflow (file)", (work / "r.ipfix").read_bytes()),
        ("netflow (TCP)", b"".join(receive(flowloom, capture, options, "ipfix+tcp"))),
    ):
        compare(reader, elements, by_netflow_ipfix(messages(stream)))
    received = until_nothing_is_lost(receive, flowloom, capture, options, "ipfix")
    compare("netflow (UDP)", elements, by_netflow_ipfix(received))
    ways = [expected_netflow9(record) for record in directions(records)]
    received = until_nothing_is_lost(receive, flowloom, capture, options, "netflow9")
    compare("netflow (v9)", ways, by_netflow_v9(received))


# nfdump.


def udp_socket(port):
    """Returns the bytes that wait in a UDP socket and the datagrams it has lost, or None if there is none."""
    for line in pathlib.Path("/proc/net/udp").read_text().splitlines()[1:]:
        words = line.split()
        if int(words[1].split(":")[1], 16) == port:
            return int(words[4].split(":")[1], 16), int(words[-1])
    return None


def wait_for(what, holds):
    """Waits until a condition holds."""
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        if time.monotonic() > end:
            raise Differs(f"nfcapd: {what} after {WAIT_SECONDS} s")
        time.sleep(0.005)


def by_nfdump(flowloom, capture, options, scheme, work):
    """Sends records to nfcapd, and returns nfdump's sums and records."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(dir=work) as folder:
        listen = ["nfcapd", "-b", "127.0.0.1", "-p", str(port), "-w", folder, "-t", "3600", "-B", "8388608"]
        collector = subprocess.Popen(listen, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for("does not listen", lambda: udp_socket(port))
            replay(flowloom, capture, options, f"{scheme}://127.0.0.1:{port}")
            wait_for("has not read all", lambda: udp_socket(port)[0] == 0)
            lost = udp_socket(port)[1]
            # It forgets a message that it has read but not yet stored.
            time.sleep(STORE_SECONDS)
        finally:
            collector.terminate()
            collector.wait()
        if lost:
            raise Lost(f"nfcapd: {lost} datagrams did not fit its buffer")

        def nfdump(mode):
            command = ["nfdump", "-R", folder, "-N", "-o", mode]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout

        raw = [
            dict(split(line) for line in block.splitlines() if " = " in line) for block in nfdump("raw").split("\n\n")
        ]
        summary = next((line for line in nfdump("line").splitlines() if line.startswith("Summary: ")), "")
        totals = dict(word.strip().split(": ") for word in summary.removeprefix("Summary: ").split(",") if word)
    sums = {name: int(totals.get(f"total {name}", 0)) for name in ("flows", "packets", "bytes")}
    return sums, [record for record in raw if record]


def split(line):
    """Returns the name and the value of a line of nfdump."""
    name, value = line.split(" = ", 1)
    return name.strip(), value.split()[0]


def nfdump_fields(raw, is_v9):
    """Returns the fields of a record of nfdump."""
    icmp = raw.get("ICMP")
    ports = (0, 0) if icmp else (int(raw.get("src port", 0)), int(raw.get("dst port", 0)))
    fields = [
        ("source", str(ipaddress.ip_address(raw["src addr"]))),
        ("destination", str(ipaddress.ip_address(raw["dst addr"]))),
        ("ports", ports),
        ("icmp", icmp),
        ("protocol", int(raw["proto"])),
        ("start", int(raw["first"])),
        ("end", int(raw["last"])),
        ("packets", int(raw["in packets"])),
        ("ip_bytes", int(raw["in bytes"])),
        ("tcp_flags", int(raw["tcp flags"], 16)),
        ("vlan", int(raw["src vlan"])),
    ]
    if not is_v9:
        fields += [
            ("reverse_packets", int(raw["out packets"])),
            ("reverse_ip_bytes", int(raw["out bytes"])),
            ("zone", int(raw["ingress VRF"])),
            ("direction", int(raw["biFlow Dir"], 16)),
            ("end_reason", int(raw["end reason"], 16)),
        ]
    return tuple(fields)


def expected_nfdump(record, is_v9):
    """Returns the fields of a record as nfdump names them."""
    is_icmp = record["icmp_type"] is not None
    # In IPFIX, nfdump takes the type and code of ICMP, which are 0, for the port of SCTP and others.
    has_port = is_v9 or record["protocol"] in (6, 17)
    ports = (record["source_port"], record["destination_port"] if has_port else 0)
    fields = [
        ("source", record["source"]),
        ("destination", record["destination"]),
        ("ports", (0, 0) if is_icmp else ports),
        ("icmp", f"{record['icmp_type']}.{record['icmp_code']}" if is_icmp else None),
        ("protocol", record["protocol"]),
        ("start", v9_start(record) if is_v9 else record["start"] // 10**6),
        ("end", v9_time(record["end"] // 10**6) if is_v9 else record["end"] // 10**6),
        ("packets", record["packets"]),
        ("ip_bytes", record["ip_bytes"]),
        ("tcp_flags", record["tcp_flags"] & 0xFF),
        ("vlan", record["vlan"] or 0),
    ]
    if not is_v9:
        fields += [
            ("reverse_packets", record["reverse_packets"]),
            ("reverse_ip_bytes", record["reverse_ip_bytes"]),
            ("zone", record["zone"]),
            ("direction", int(record["direction"] != "arbitrary")),
            ("end_reason", END_REASONS[record["end_reason"]]),
        ]
    return tuple(fields)


def check_nfdump(flowloom, capture, options, work, records):
    """Compares IPFIX and NetFlow v9 with nfdump."""
    for scheme in ("ipfix", "netflow9"):
        is_v9 = scheme == "netflow9"
        sent = list(directions(records)) if is_v9 else records
        sums, raw = until_nothing_is_lost(by_nfdump, flowloom, capture, options, scheme, work)
        expected = [expected_nfdump(record, is_v9) for record in sent]
        compare(f"nfdump ({scheme})", expected, [nfdump_fields(record, is_v9) for record in raw])
        ways = ("",) if is_v9 else ("", "reverse_")
        total = {name: sum(record[way + name] for record in sent for way in ways) for name in ("packets", "ip_bytes")}
        wanted = {"flows": len(sent), "packets": total["packets"], "bytes": total["ip_bytes"]}
        compare_sums(f"nfdump ({scheme})", wanted, sums)


def main():
    """Compares all captures."""
    flowloom, captures = sys.argv[1], sys.argv[2:]
    checks = [check_netflow]
    if shutil.which("nfcapd") and shutil.which("nfdump"):
        checks.append(check_nfdump)
    else:
        print("nfdump is not installed, and its part is left out: apt-get install nfdump", flush=True)
    count, differences = Counter(), 0
    for capture in captures:
        for options in ([], ["--timeout", "2", "--active-timeout", "5", "--decap"]):
            with tempfile.TemporaryDirectory() as folder:
                work = pathlib.Path(folder)
                try:
                    records, sums = run_itself(flowloom, capture, options, work)
                    check_tables(flowloom, capture, options, work, records, sums)
                    for check in checks:
                        check(flowloom, capture, options, work, records)
                    count.update(runs=1, records=len(records), packets=sums["packets"] + sums["reverse_packets"])
                except Differs as difference:
                    print(f"{capture} {' '.join(options)}: {difference}", flush=True)
                    differences += 1
    print(f"{count['runs']} runs, {count['records']} records, {count['packets']} packets: equal; {differences} differ")
    return 1 if differences or not count["records"] else 0


if __name__ == "__main__":
    sys.exit(main())
