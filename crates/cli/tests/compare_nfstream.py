#!/usr/bin/env python3
"""Compares flowloom's records with the flows of NFStream, capture by capture.

    pip install nfstream
    python3 -I crates/cli/tests/compare_nfstream.py target/release/flowloom CAPTURE...

For each TCP and UDP flow that both have once it compares source, packets, bytes, the largest packet and the times of both
directions, in milliseconds as NFStream has them. It prints how many flows agree, and of the others each value that differs. It
ends with status 1 if one does.
"""

import json
import subprocess
import sys
import tempfile

from nfstream import NFStreamer

NEVER_SECONDS = 10_000_000


def ours(flowloom, capture):
    """Returns our records by their ends and protocol."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as out:
        command = [flowloom, "replay", capture, "--flows", out.name, "--fields", "sizes", "-q"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        records = [json.loads(line) for line in open(out.name, encoding="utf-8")]
    flows = {}
    for record in records:
        if record["protocol"] not in (6, 17):
            continue
        ends = [(record[end], record[end + "_port"]) for end in ("source", "destination")]
        values = {
            "source": ends[0],
            "packets": (record["packets"], record["reverse_packets"]),
            "ip_bytes": (record["ip_bytes"], record["reverse_ip_bytes"]),
            "size_max": (record["size_max"] or 0, record["reverse_size_max"] or 0),
            "start_ms": record["start"] // 1_000_000,
            "end_ms": record["end"] // 1_000_000,
        }
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
        n_dissections=0,
        n_meters=1,
    )
    flows = {}
    for flow in streamer:
        if flow.protocol not in (6, 17):
            continue
        ends = [(flow.src_ip, flow.src_port), (flow.dst_ip, flow.dst_port)]
        values = {
            "source": ends[0],
            "packets": (flow.src2dst_packets, flow.dst2src_packets),
            "ip_bytes": (flow.src2dst_bytes, flow.dst2src_bytes),
            "size_max": (flow.src2dst_max_ps, flow.dst2src_max_ps),
            "start_ms": flow.bidirectional_first_seen_ms,
            "end_ms": flow.bidirectional_last_seen_ms,
        }
        flows.setdefault((flow.protocol, *sorted(ends)), []).append(values)
    return flows


def main():
    flowloom, captures = sys.argv[1], sys.argv[2:]
    differs = False
    for capture in captures:
        mine, other = ours(flowloom, capture), theirs(capture)
        once = [key for key in mine if len(mine[key]) == 1 and len(other.get(key, [])) == 1]
        different = [key for key in once if mine[key] != other[key]]
        for key in different:
            [one], [two] = mine[key], other[key]
            for name in one:
                if one[name] != two[name]:
                    print(f"{capture}: {key}: {name} {one[name]}, NFStream {two[name]}")
        print(
            f"{capture}: {len(once) - len(different)} of {len(once)} flows agree; "
            f"{len(mine) - len(once)} and {len(other) - len(once)} are not there once in both"
        )
        differs |= bool(different)
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
