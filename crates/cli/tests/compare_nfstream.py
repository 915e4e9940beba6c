#!/usr/bin/env python3
"""Compares flowloom's records with the flows of NFStream, capture by capture.

    pip install nfstream
    python3 -I crates/cli/tests/compare_nfstream.py target/release/flowloom CAPTURE...

`cargo xtask round-trips` does both. For each TCP and UDP flow that both have once it compares source, packets, bytes, times,
the first 20 sizes with their directions, and smallest, mean, largest and deviation of sizes and of gaps in both directions.
NFStream has whole milliseconds, so that times agree in those, and gaps to less than one. It prints how many flows agree, and of
the others each value that differs. It ends with status 1 if one does. Left out are

    flows whose handshake begins with the SYN+ACK: NFStream takes the sender of the first packet for the source;
    flows of ports 0, which are later fragments: NFStream does not count them;
    captures with several link types: libpcap, on which NFStream relies, reads only the first.
"""

import json
import math
import subprocess
import sys
import tempfile

from nfstream import NFStreamer

NEVER_SECONDS = 10_000_000
FIRST_SIZES = 20
# The difference that is allowed where it is not 0: we round down, and NFStream cuts times to milliseconds.
ALLOWED = {"size_mean": 1, "size_deviation": 1, "gap_min": 1, "gap_mean": 1, "gap_max": 1, "gap_deviation": 1}
WAYS = ("", "reverse_")


def ours(flowloom, capture):
    """Returns our records by their ends and protocol."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as out:
        command = [flowloom, "replay", capture, "--flows", out.name, "--fields", "sizes,gaps,splt", "-q"]
        # A faulty capture has records too.
        run = subprocess.run([*command, "--format", "json"], check=False, capture_output=True)
        if run.returncode not in (0, 4, 6) or len(json.loads(run.stdout)["inputs"][0]["link_types"]) != 1:
            return {}
        records = [json.loads(line) for line in out]
    flows = {}
    for record in records:
        has_ports = record["source_port"] or record["destination_port"]
        if record["protocol"] not in (6, 17) or not has_ports or record["direction"] == "syn_ack":
            continue
        ends = [(record[end], record[end + "_port"]) for end in ("source", "destination")]
        values = {
            "source": ends[0],
            "packets": (record["packets"], record["reverse_packets"]),
            "ip_bytes": (record["ip_bytes"], record["reverse_ip_bytes"]),
            "start_ms": record["start"] // 1_000_000,
            "end_ms": record["end"] // 1_000_000,
            "first_sizes": [int(size) for size in record["first_sizes"].split()],
        }
        for name in ("min", "mean", "max", "deviation"):
            values["size_" + name] = tuple(record[f"{way}size_{name}"] or 0 for way in WAYS)
            values["gap_" + name] = tuple((record[f"{way}gap_{name}"] or 0) / 1e6 for way in WAYS)
        flows.setdefault((record["protocol"], *sorted(ends)), []).append(values)
    return flows


def theirs(capture):
    """Returns NFStream's flows, of the bytes of IP packets, by their ends and protocol."""
    streamer = NFStreamer(
        source=capture,
        idle_timeout=NEVER_SECONDS,
        active_timeout=NEVER_SECONDS,
        accounting_mode=1,
        statistical_analysis=True,
        splt_analysis=FIRST_SIZES,
        n_dissections=0,
        n_meters=1,
    )
    flows = {}
    for flow in streamer:
        if flow.protocol not in (6, 17):
            continue
        ends = [(flow.src_ip, flow.src_port), (flow.dst_ip, flow.dst_port)]
        packets = (flow.src2dst_packets, flow.dst2src_packets)
        values = {
            "source": ends[0],
            "packets": packets,
            "ip_bytes": (flow.src2dst_bytes, flow.dst2src_bytes),
            "start_ms": flow.bidirectional_first_seen_ms,
            "end_ms": flow.bidirectional_last_seen_ms,
            "first_sizes": [-size if way else size for way, size in zip(flow.splt_direction, flow.splt_ps) if way >= 0],
        }
        for name in ("min", "mean", "max", "stddev"):
            for what, fewer in (("ps", 0), ("piat_ms", 1)):
                both = [getattr(flow, f"{way}_{name}_{what}") for way in ("src2dst", "dst2src")]
                if name == "stddev":
                    # Theirs is that of a sample.
                    numbers = [count - fewer for count in packets]
                    both = [value * math.sqrt((n - 1) / n) if n > 1 else 0 for value, n in zip(both, numbers)]
                ours = ("size_" if what == "ps" else "gap_") + ("deviation" if name == "stddev" else name)
                values[ours] = tuple(both)
        flows.setdefault((flow.protocol, *sorted(ends)), []).append(values)
    return flows


def is_equal(name, mine, other):
    """Returns whether two values agree."""
    if name not in ALLOWED:
        return mine == other
    return all(abs(one - two) < ALLOWED[name] + 1e-6 for one, two in zip(mine, other))


def main():
    flowloom, captures = sys.argv[1], sys.argv[2:]
    agreeing, differing = 0, 0
    for capture in captures:
        mine = ours(flowloom, capture)
        try:
            other = theirs(capture) if mine else {}
        except ValueError as error:
            print(f"{capture} is left out: NFStream: {error}")
            continue
        for key in (key for key in mine if len(mine[key]) == 1 and len(other.get(key, [])) == 1):
            [one], [two] = mine[key], other[key]
            names = [name for name in one if not is_equal(name, one[name], two[name])]
            for name in names:
                print(f"{capture}: {key}: {name} {one[name]}, NFStream {two[name]}")
            agreeing, differing = agreeing + (not names), differing + bool(names)
    print(f"NFStream: {agreeing} flows agree, {differing} differ")
    return 1 if differing or not agreeing else 0


if __name__ == "__main__":
    sys.exit(main())
