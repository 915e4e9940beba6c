"""Adapters: how each meter is run over a capture, and what its columns mean by its documentation.

An adapter returns records as dictionaries. `source` and `destination` are (address, port), with
port 0 for ICMP; times are nanoseconds since 1970. A column that a meter does not define, or
defines otherwise than the answers, is absent from its records and is not judged.
"""

import csv
import json
import re
import shutil
import struct
import subprocess
import tempfile
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path

ALL_PROTOCOLS = {"tcp", "udp", "icmp", "ipv6-icmp", "sctp"}
FLAG_LETTERS = "FSRPAUEC"


def output_of(*command):
    """The text that a command writes, or None if it cannot be run."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout + done.stderr


def version_in(pattern, *command):
    found = re.search(pattern, output_of(*command) or "")
    return found[1] if found else None


def debian_version(package):
    return output_of("dpkg-query", "-W", "-f", "${Version}", package) or None


def pypi_version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def utc_ns(text):
    """Nanoseconds of a time in UTC, such as 2023-11-22T21:42:52.595."""
    whole, _, rest = text.replace(" ", "T").partition(".")
    seconds = int(datetime.fromisoformat(whole).replace(tzinfo=timezone.utc).timestamp())
    return seconds * 10**9 + int((rest or "0").ljust(9, "0"))


def in_microseconds(capture):
    """A capture in nanoseconds as one in microseconds."""
    parts, at = [struct.pack("<I", 0xA1B2C3D4), capture[4:24]], 24
    while at < len(capture):
        seconds, nanoseconds, kept, length = struct.unpack_from("<IIII", capture, at)
        parts += [struct.pack("<IIII", seconds, nanoseconds // 1000, kept, length), capture[at + 16 : at + 16 + kept]]
        at += 16 + kept
    return b"".join(parts)


class Meter:
    """What the judge needs to know of a meter. The defaults are those of this project."""

    name = ""
    install = ""
    settings = ""
    #: What the meter documents to read: other flows are out of its scope.
    protocols = ALL_PROTOCOLS
    has_ipv6 = True
    #: Whether VLAN ids separate flows: `True`, `False`, or `None` if either can be set.
    vlan_in_key = None
    #: Whether a record has both directions. If not, each direction is judged as a record.
    is_bidirectional = True
    #: The answer that `source` means: `initiator`, `first_sender`, or `None` if it is not defined.
    source = "initiator"
    #: The layer of `bytes`: `wire_bytes` or `ip_bytes`.
    bytes_of = "wire_bytes"
    #: A time is right if it differs by less.
    resolution_ns = 1
    #: Protocols whose flows have no ports in its records.
    portless = frozenset()
    #: Whether it documents to read frames with VLAN tags.
    has_vlans = True
    #: Whether packets after the close of a connection belong to it.
    counts_after_close = True
    #: Whether the longest time of a record can be set.
    has_active_timeout = False
    #: Whether it reads what is inside of tunnels.
    has_tunnels = False
    #: Dimensions about what the meter documents not to have.
    out_of_scope = frozenset()
    #: Differences of definition, for the report.
    definitions = ()

    def version(self):
        raise NotImplementedError

    def records(self, path, settings):
        raise NotImplementedError


class Flowloom(Meter):
    name = "Flowloom"
    install = "this project"
    settings = "`--timeout 60 --defrag --fields tcp,handshake,dns,http,tls,quic,ssh`; `--ignore-vlan`, `--decap`, `--active-timeout 30` where the answers presume them"
    has_active_timeout = True
    has_tunnels = True

    def __init__(self, program):
        self.program = program

    def version(self):
        return version_in(r"flowloom (\S+)", self.program, "--version")

    def records(self, path, settings):
        keys = [] if settings["vlan_in_key"] else ["--ignore-vlan"]
        keys += ["--decap"] if settings["decapsulated"] else []
        if settings["active_timeout_s"]:
            keys += ["--active-timeout", str(settings["active_timeout_s"])]
        text = subprocess.run(
            [self.program, "replay", path, "-qq", "--no-pin", "--app", "accounting", "--defrag",
             "--timeout", str(settings["idle_timeout_s"]), "--fields", "tcp,handshake,dns,http,tls,quic,ssh",
             "--flows", "-", "--flows-format", "jsonl", *keys],
            capture_output=True, text=True, check=True).stdout
        for record in map(json.loads, text.splitlines()):
            yield {
                "protocol": record["protocol"],
                "source": (record["source"], record["source_port"]),
                "destination": (record["destination"], record["destination_port"]),
                "vlan": record["vlan"],
                "start": record["start"], "end": record["end"],
                "end_reason": record["end_reason"],
                "handshake_answer": record["handshake_answer"],
                "handshake_ack": record["handshake_ack"],
                "contents": record,
                **{prefix + column: record[prefix + column] for prefix in ["", "reverse_"]
                   for column in ["packets", "bytes", "tcp_flags", "retransmissions"]},
            }


class NFStream(Meter):
    name = "NFStream"
    install = "PyPI `nfstream`"
    settings = "`idle_timeout=60, active_timeout=86400, n_dissections=0, statistical_analysis=True`; `active_timeout=30` where the answers presume it"
    has_active_timeout = True
    has_tunnels = True
    vlan_in_key = True
    source = "first_sender"
    resolution_ns = 1_000_000
    portless = frozenset({"sctp"})
    out_of_scope = frozenset({"tunnel-gre", "tunnel-vxlan"})
    definitions = ("`src_ip` is the sender of the first packet", "VLAN ids separate flows", "SCTP has no ports",
                   "it follows tunnels of GTP, TZSP and CAPWAP")

    def version(self):
        return pypi_version("nfstream")

    def records(self, path, settings):
        from nfstream import NFStreamer
        flags = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"]
        for flow in NFStreamer(source=path, idle_timeout=settings["idle_timeout_s"],
                               active_timeout=settings["active_timeout_s"] or 86_400, n_dissections=0,
                               n_meters=1, statistical_analysis=True):
            record = {
                "protocol": flow.protocol,
                "source": (flow.src_ip, flow.src_port), "destination": (flow.dst_ip, flow.dst_port),
                "vlan": flow.vlan_id or None,
                "start": flow.bidirectional_first_seen_ms * 10**6,
                "end": flow.bidirectional_last_seen_ms * 10**6,
            }
            for prefix, way in [("", "src2dst"), ("reverse_", "dst2src")]:
                record[prefix + "packets"] = getattr(flow, f"{way}_packets")
                record[prefix + "bytes"] = getattr(flow, f"{way}_bytes")
                counts = [getattr(flow, f"{way}_{flag}_packets") for flag in flags]
                record[prefix + "flag_segments"] = counts
            yield record


class CicFlowMeter(Meter):
    name = "cicflowmeter"
    install = "PyPI `cicflowmeter`, with Debian `tcpdump`, and `scapy` 2.5.0: later ones do not call its session"
    settings = "its constant `EXPIRED_UPDATE` set to 60, which has no option"
    protocols = {"tcp", "udp"}
    has_ipv6 = False
    vlan_in_key = False
    source = "first_sender"
    resolution_ns = 1_000_000_000
    definitions = ("forward is the direction of the first packet", "reads TCP and UDP in IPv4 without VLAN tags",
                   "`timestamp` is in whole seconds; there is no end")
    has_vlans = False

    def version(self):
        # scapy reads captures with its help.
        return pypi_version("cicflowmeter") if shutil.which("tcpdump") else None

    def records(self, path, settings):
        from cicflowmeter import flow_session
        from cicflowmeter.sniffer import create_sniffer
        flow_session.EXPIRED_UPDATE = settings["idle_timeout_s"]
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder, "flows.csv")
            sniffer = create_sniffer(path, None, "csv", str(output))
            sniffer.start()
            sniffer.join()
            if not output.exists():
                return
            for row in csv.DictReader(output.open()):
                start = datetime.strptime(row["timestamp"], "%Y-%m-%d %H:%M:%S").astimezone()
                yield {
                    "protocol": int(row["protocol"]),
                    "source": (row["src_ip"], int(row["src_port"])),
                    "destination": (row["dst_ip"], int(row["dst_port"])),
                    "start": int(start.timestamp()) * 10**9,
                    "packets": int(row["tot_fwd_pkts"]), "reverse_packets": int(row["tot_bwd_pkts"]),
                    "bytes": int(row["totlen_fwd_pkts"]), "reverse_bytes": int(row["totlen_bwd_pkts"]),
                }


class Netflower(Meter):
    name = "netflower"
    install = "PyPI `netflower`"
    settings = "`flow_timeout=60`; the capture with its times cut to microseconds, since it does not read nanoseconds"
    protocols = {"tcp", "udp"}
    has_ipv6 = False
    vlan_in_key = False
    source = "first_sender"
    bytes_of = "ip_bytes"
    resolution_ns = 2000
    counts_after_close = False
    definitions = ("forward is the direction of the first packet", "reads TCP and UDP in IPv4",
                   "what follows both FINs or an RST within a second is left out: packets and bytes of such flows are "
                   "not judged")

    def version(self):
        return pypi_version("netflower")

    def records(self, path, settings):
        from netflower import convert_pcap_to_csv
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder, "flows.csv")
            capture = Path(folder, "capture.pcap")
            capture.write_bytes(in_microseconds(Path(path).read_bytes()))
            convert_pcap_to_csv(str(capture), str(output), flow_timeout=settings["idle_timeout_s"])
            if not output.exists():
                return
            for row in csv.DictReader(output.open()):
                yield {
                    "protocol": int(row["protocol"]),
                    "source": (row["src_ip"], int(row["src_port"])),
                    "destination": (row["dst_ip"], int(row["dst_port"])),
                    "start": round(float(row["timestamp"]) * 10**9),
                    "packets": int(row["tot_fwd_pkts"]), "reverse_packets": int(row["tot_bwd_pkts"]),
                    "bytes": int(row["totlen_fwd_pkts"]), "reverse_bytes": int(row["totlen_bwd_pkts"]),
                }


class Nfpcapd(Meter):
    name = "nfpcapd"
    install = "Debian `nfdump`"
    settings = "`-e 3600,60 -o fat` (`-e 30,60` where the answers presume it), read by `nfdump -o json`"
    has_active_timeout = True
    protocols = {"tcp", "udp", "sctp"}
    vlan_in_key = False
    is_bidirectional = False
    source = None
    bytes_of = "ip_bytes"
    resolution_ns = 1_000_000
    portless = frozenset({"sctp"})
    definitions = ("a record is one direction", "SCTP has no ports", "a record of ICMP is one message: not judged")

    def version(self):
        return debian_version("nfdump")

    def records(self, path, settings):
        with tempfile.TemporaryDirectory() as folder:
            output_of("nfpcapd", "-r", path, "-w", folder, "-o", "fat", "-e",
                      f"{settings['active_timeout_s'] or 3600},{settings['idle_timeout_s']}")
            text = subprocess.run(["env", "TZ=UTC", "nfdump", "-R", folder, "-o", "json", "-q"],
                                  capture_output=True, text=True).stdout.strip()
        if not text.startswith(("{", "[")):
            return
        text = text if text.startswith("[") else f"[{text.rstrip(',')}]"
        for flow in json.loads(text):
            version = "4" if "src4_addr" in flow else "6"
            has_ports = flow["proto"] not in (1, 58)
            port = lambda end: flow.get(f"{end}_port", 0) if has_ports else 0
            letters = flow.get("tcp_flags", "")
            yield {
                "protocol": flow["proto"],
                "source": (flow[f"src{version}_addr"], port("src")),
                "destination": (flow[f"dst{version}_addr"], port("dst")),
                "start": utc_ns(flow["first"]), "end": utc_ns(flow["last"]),
                "packets": flow["in_packets"], "bytes": flow["in_bytes"],
                "tcp_flags": sum(1 << at for at, letter in enumerate(FLAG_LETTERS) if letter in letters),
            }


class Softflowd(Meter):
    name = "softflowd"
    install = "Debian `softflowd`"
    settings = "`-D -T full`, all timeouts 60 s (`maxlife=30` where the answers presume it), the flows that it prints"
    has_active_timeout = True
    protocols = {"tcp", "udp", "sctp"}
    vlan_in_key = False
    source = None
    bytes_of = "ip_bytes"
    resolution_ns = 1_000_000
    portless = frozenset({"sctp"})
    definitions = ("a flow has two ends, neither of which is the source",
                   "flows of other protocols than TCP and UDP have no ports",
                   "types of ICMP separate flows: not judged", "with `-T vlan` each direction is a flow")
    LINE = re.compile(
        r"EXPIRED: .*?\[(?P<a>[^]]+)\]:(?P<ap>\d+) <> \[(?P<b>[^]]+)\]:(?P<bp>\d+) proto:(?P<protocol>\d+) "
        r"octets>:(?P<ab>\d+) packets>:(?P<an>\d+) octets<:(?P<bb>\d+) packets<:(?P<bn>\d+) "
        r"start:(?P<start>\S+) finish:(?P<end>\S+) tcp>:(?P<af>\w+) tcp<:(?P<bf>\w+) ")

    def version(self):
        return debian_version("softflowd")

    def records(self, path, settings):
        timeouts = ["tcp", "tcp.rst", "tcp.fin", "udp", "icmp", "general"]
        options = [word for name in timeouts for word in ("-t", f"{name}={settings['idle_timeout_s']}")]
        if settings["active_timeout_s"]:
            options += ["-t", f"maxlife={settings['active_timeout_s']}"]
        with tempfile.TemporaryDirectory() as folder:
            text = output_of("env", "TZ=UTC", "softflowd", "-D", "-T", "full", *options, "-v", "9",
                             "-n", "127.0.0.1:9", "-p", f"{folder}/pid", "-c", f"{folder}/control", "-r", path)
        for found in self.LINE.finditer(text or ""):
            protocol = int(found["protocol"])
            port = lambda name: int(found[name]) if protocol in (6, 17) else 0
            yield {
                "protocol": protocol,
                "source": (found["a"], port("ap")), "destination": (found["b"], port("bp")),
                "start": utc_ns(found["start"]), "end": utc_ns(found["end"]),
                "packets": int(found["an"]), "reverse_packets": int(found["bn"]),
                "bytes": int(found["ab"]), "reverse_bytes": int(found["bb"]),
                "tcp_flags": int(found["af"], 16), "reverse_tcp_flags": int(found["bf"], 16),
            }


class Argus(Meter):
    name = "argus"
    install = "Debian `argus-server`, `argus-client`"
    settings = "`-X -S 100000` (no status records), read by `ra -n -u -p 6`; its idle timeouts, 60 s for TCP, have no option"
    protocols = {"tcp", "udp", "sctp"}
    vlan_in_key = False
    resolution_ns = 1000
    portless = frozenset({"sctp"})
    definitions = ("where `dir` has a `?`, the source is not stated", "other timeouts than TCP's are fixed",
                   "a record of ICMP is one exchange: not judged", "SCTP has no ports",
                   "`sloss` and `dloss` are retransmissions")
    FIELDS = ["stime", "ltime", "saddr", "sport", "daddr", "dport", "proto", "spkts", "dpkts", "sbytes",
              "dbytes", "dir", "sloss", "dloss", "synack", "ackdat"]
    PROTOCOLS = {"tcp": 6, "udp": 17, "sctp": 132}

    def version(self):
        return debian_version("argus-server")

    def records(self, path, settings):
        with tempfile.TemporaryDirectory() as folder:
            output = f"{folder}/records"
            output_of("argus", "-X", "-S", "100000", "-r", path, "-w", output)
            text = output_of("ra", "-r", output, "-n", "-c", ",", "-u", "-p", "6", "-s", *(f"{field}:45" for field in self.FIELDS), "-", "not", "man")
        for line in (text or "").splitlines():
            values = line.split(",")
            if len(values) != len(self.FIELDS) or values[0] == "StartTime":
                continue
            flow = dict(zip(self.FIELDS, values))
            protocol = self.PROTOCOLS.get(flow["proto"])
            if protocol is None:
                continue
            ns = lambda text: int(text.replace(".", "")) * 1000
            port = lambda name: int(flow[name]) if flow[name].isdigit() else 0
            record = {
                "protocol": protocol,
                "source": (flow["saddr"], port("sport")), "destination": (flow["daddr"], port("dport")),
                "start": ns(flow["stime"]), "end": ns(flow["ltime"]),
                "packets": int(flow["spkts"]), "reverse_packets": int(flow["dpkts"]),
                "bytes": int(flow["sbytes"]), "reverse_bytes": int(flow["dbytes"]),
                "is_source_stated": "?" not in flow["dir"],
            }
            if protocol == 6:
                record["retransmissions"] = int(flow["sloss"] or 0)
                record["reverse_retransmissions"] = int(flow["dloss"] or 0)
                for column, field in [("handshake_answer", "synack"), ("handshake_ack", "ackdat")]:
                    record[column] = round(float(flow[field] or 0) * 10**9) or None
            yield record


class Tshark(Meter):
    name = "tshark"
    install = "Debian `tshark`"
    settings = "`-z conv,tcp -z conv,udp -z conv,sctp`"
    protocols = {"tcp", "udp", "sctp"}
    vlan_in_key = False
    source = None
    resolution_ns = 100_000
    out_of_scope = frozenset({"pause-beyond-timeout"})
    definitions = ("a conversation has two ends, neither of which is the source",
                   "conversations of ICMP have no identifiers, and are not judged",
                   "a conversation has no idle timeout",
                   "bytes above 10,000 are printed in thousands, and are not judged")
    LINE = re.compile(r"^(\S+):(\d+)\s+<-> (\S+):(\d+)\s+(\d+) ([\d ]+\w+)\s+(\d+) ([\d ]+\w+)\s+\d+ [\d ]+\w+\s+(\S+)\s+(\S+)$")
    PROTOCOLS = {"TCP": 6, "UDP": 17, "SCTP": 132}

    def version(self):
        return debian_version("tshark")

    def records(self, path, settings):
        head = Path(path).read_bytes()[24:32]
        first_ns = sum(part * unit for part, unit in zip(struct.unpack("<II", head), (10**9, 1)))
        words = [word for name in ["tcp", "udp", "sctp"] for word in ("-z", f"conv,{name}")]
        text = subprocess.run(["tshark", "-n", "-q", *words, "-r", path], capture_output=True, text=True).stdout
        protocol = None
        for line in text.splitlines():
            if line.endswith(" Conversations"):
                protocol = self.PROTOCOLS[line.split()[0]]
            if not (found := self.LINE.match(line)):
                continue
            a, ap, b, bp, back_packets, back_bytes, packets, there_bytes, start, duration = found.groups()
            start_ns = first_ns + round(float(start) * 10**9)
            record = {
                "protocol": protocol, "source": (a, int(ap)), "destination": (b, int(bp)),
                "start": start_ns, "end": start_ns + round(float(duration) * 10**9),
                "packets": int(packets), "reverse_packets": int(back_packets),
            }
            for column, text_of_bytes in [("bytes", there_bytes), ("reverse_bytes", back_bytes)]:
                if text_of_bytes.endswith(" bytes"):
                    record[column] = int(text_of_bytes.removesuffix(" bytes"))
            yield record


def meters(flowloom):
    return [Flowloom(flowloom), NFStream(), CicFlowMeter(), Netflower(), Nfpcapd(), Softflowd(), Argus(), Tshark()]
