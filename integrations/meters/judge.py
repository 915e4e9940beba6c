#!/usr/bin/env python3
"""Runs meters over a folder of scenarios and compares their records with the right answers.

Prints Markdown: the share of right (flow x column) values of each meter in each dimension.
`cargo xtask peers meters` generates the scenarios and calls this.
"""

import argparse
import json
import platform
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path

import adapters

#: Meters that are Python packages run in this process, one capture after the other.
IN_PROCESS = (adapters.NFStream, adapters.CicFlowMeter, adapters.Netflower)


def is_in_scope(meter, scenario, flow):
    """Whether the meter documents to read this flow, by the key of the answers."""
    sides = [flow["client"], flow["server"]]
    tags = [side["vlans"] for side in sides]
    if flow["protocol_name"] not in meter.protocols or meter.out_of_scope & set(scenario["dimensions"]):
        return False
    if ":" in sides[0]["address"] and not meter.has_ipv6 or any(tags) and not meter.has_vlans:
        return False
    settings = scenario["settings"]
    if settings["decapsulated"] and not meter.has_tunnels or settings["active_timeout_s"] and not meter.has_active_timeout:
        return False
    if meter.vlan_in_key is True:
        return tags[0] == tags[1]
    return not (meter.vlan_in_key is False and "vlan-twins" in scenario["dimensions"])


def end_of(meter, flow, side):
    return side["address"], 0 if flow["protocol_name"] in meter.portless else side["port"]


def answers_of(meter, scenario, flow):
    """The right records of a flow, by column: one, or one of each direction."""
    client, server = flow["client"], flow["server"]
    vlan = client["vlans"][0] if "vlan-twins" in scenario["dimensions"] and client["vlans"] else None
    base = {"protocol": flow["protocol"], "vlan": vlan, "is_closed": flow["end_reason"] in ("fin", "reset")}
    if not meter.is_bidirectional:
        for side, other in [(client, server), (server, client)]:
            if side["packets"]:
                yield {**base, "source": end_of(meter, flow, side),
                       "destination": end_of(meter, flow, other), "start": side["start_ns"],
                       "end": side["end_ns"], **columns_of_side(meter, side, "")}
        return
    sides = {"client": (client, server), "server": (server, client)}
    name = flow["first_sender"]
    if meter.source == "initiator" and flow["opening_captured"]:
        name = flow["initiator"]
    source, destination = sides[name]
    answer = {**base, "source": end_of(meter, flow, source),
              "destination": end_of(meter, flow, destination), "start": flow["start_ns"],
              "end": flow["end_ns"], "end_reason": flow["end_reason"], **columns_of_side(meter, source, ""),
              **columns_of_side(meter, destination, "reverse_")}
    answer |= {column: flow[f"{column}_ns"] for column in ["handshake_answer", "handshake_ack"]
               if f"{column}_ns" in flow}
    if "contents" in flow:
        answer["contents"] = flow["contents"]
    yield answer


def columns_of_side(meter, side, prefix):
    columns = {"packets": side["packets"], "bytes": side[meter.bytes_of]}
    if "tcp_flags" in side:
        columns |= {"tcp_flags": side["tcp_flags"], "flag_segments": side["flag_segments"]}
        # Copies, keep-alives and probes repeat numbers too.
        if not (side["duplicates"] or side["keep_alives"] or side["zero_window_probes"]):
            columns["retransmissions"] = side["retransmissions_seen"] + side["retransmissions_filling"]
    return {prefix + column: value for column, value in columns.items()}


def key_of(meter, record, has_vlan):
    ends = (record["source"], record["destination"])
    ends = tuple(sorted(ends)) if meter.is_bidirectional else ends
    return record["protocol"], ends, record.get("vlan") if has_vlan else None


def turned(record):
    """The record seen from its other end."""
    result = {column: value for column, value in record.items() if not column.startswith("reverse_")}
    for column, value in record.items():
        if column.startswith("reverse_"):
            result[column.removeprefix("reverse_")] = value
            result[column] = record.get(column.removeprefix("reverse_"))
    result["source"], result["destination"] = record["destination"], record["source"]
    return result


def judge(meter, scenario, records, tally):
    """Counts the right and the wrong values of a scenario, by column."""
    has_vlan = "vlan-twins" in scenario["dimensions"]
    found, right, ignored = defaultdict(list), defaultdict(list), set()
    for flow in scenario["flows"]:
        for answer in answers_of(meter, scenario, flow):
            key = key_of(meter, answer, has_vlan)
            if is_in_scope(meter, scenario, flow):
                right[key].append(answer)
            else:
                ignored.add(key)
    for record in records:
        found[key_of(meter, record, has_vlan)].append(record)
    for key, answers in right.items():
        rest = sorted(found[key], key=lambda record: record["start"])
        tally("records", len(rest) == len(answers), len(answers))
        for answer in answers:
            record = min(rest, key=lambda record: abs(record["start"] - answer["start"]), default=None)
            if record is not None:
                rest.remove(record)
            judge_record(meter, record, answer, tally)
    if right:
        strange = [key for key in found if found[key] and key not in right and key not in ignored]
        tally("records", False, len(strange))


def judge_record(meter, record, answer, tally):
    is_reversed = record is not None and record["source"] != answer["source"]
    if meter.source and meter.is_bidirectional and (record is None or record.get("is_source_stated", True)):
        tally("source", record is not None and not is_reversed)
    # Columns of directions are judged by the direction, whichever end is called the source.
    record = turned(record) if is_reversed else record
    has_close = answer["is_closed"] and not meter.counts_after_close
    for column in meter.columns:
        if column not in answer or has_close and column.removeprefix("reverse_") in ("packets", "bytes"):
            continue
        if record is None:
            tally(column, False)
        elif column == "contents":
            for name, value in answer[column].items():
                found = record[column][name]
                tally(column, (found if found is None else str(found)) == value)
        elif column in ("start", "end"):
            tally(column, abs(record[column] - answer[column]) < meter.resolution_ns)
        elif column in record:
            value, expected = record[column], answer[column]
            if column.startswith("handshake") and None not in (value, expected):
                tally(column, abs(value - expected) < meter.resolution_ns)
            else:
                tally(column, value == expected)


def run(meter, scenarios):
    """Returns the tally by (dimension, column), and the captures on which the meter failed."""
    def records(scenario):
        try:
            return list(meter.records(scenario["path"], scenario["settings"]))
        except Exception as error:  # A meter that fails has no records of this capture.
            return error
    threads = 1 if isinstance(meter, IN_PROCESS) else 4
    with ThreadPoolExecutor(threads) as pool:
        results = list(pool.map(records, scenarios)) if threads > 1 else [records(scenario) for scenario in scenarios]
    failures = [(scenario["name"], result) for scenario, result in zip(scenarios, results)
                if isinstance(result, Exception)]
    results = [[] if isinstance(result, Exception) else result for result in results]
    # A column is one of the meter's if any record of it has the column.
    has = {column for result in results for record in result for column in record}
    meter.columns = [column for column in COLUMNS if column in has]
    counts, wrong = defaultdict(Counter), Counter()
    for scenario, result in zip(scenarios, results):
        def tally(column, is_right, times=1):
            alone = scenario["dimensions"] if len(scenario["dimensions"]) == 1 else ["pairs"]
            for dimension in [*alone, "all"]:
                counts[dimension][column, is_right] += times
            if not is_right and times:
                wrong[scenario["name"], column] += times
        judge(meter, scenario, result, tally)
    return counts, failures, wrong


DIRECTED = ["packets", "bytes", "tcp_flags", "flag_segments", "retransmissions"]
COLUMNS = ["start", "end", "end_reason", "handshake_answer", "handshake_ack", "contents", *DIRECTED,
           *(f"reverse_{column}" for column in DIRECTED)]


def share(counter, columns=None):
    """A share in percent, `-` if nothing is in the meter's scope. Only what is right is 100."""
    right = sum(count for (column, is_right), count in counter.items() if is_right and (not columns or column in columns))
    total = sum(count for (column, _), count in counter.items() if not columns or column in columns)
    if not total:
        return "–"
    return "100" if right == total else f"{int(right * 1000 / total) / 10:.1f}"


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("| --- |" + " ---: |" * (len(head) - 1))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def load(folder):
    manifest = json.loads(Path(folder, "manifest.json").read_text())
    paths = sorted(path for path in Path(folder).glob("*.json") if path.name != "manifest.json")
    scenarios = []
    for path in paths:
        scenario = json.loads(path.read_text())
        scenario["path"] = str(path.with_suffix("." + manifest["format"]))
        scenarios.append(scenario)
    return manifest, scenarios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="folder", help="scenarios, written by `flowloom generate scenarios`")
    parser.add_argument("--flowloom", default="flowloom", help="the program of this project")
    parser.add_argument("--only", help="names of meters, comma-separated")
    parser.add_argument("--wrong", action="store_true", help="list the wrong values of each meter on standard error")
    arguments = parser.parse_args()
    loaded = [load(folder) for folder in arguments.folders]
    dimensions = loaded[0][0]["dimensions"]
    scenarios = [scenario for _, scenarios in loaded for scenario in scenarios]
    seeds = ", ".join(str(manifest["seed"]) for manifest, _ in loaded)
    meters = adapters.meters(arguments.flowloom)
    if arguments.only:
        meters = [meter for meter in meters if meter.name.lower() in arguments.only.lower().split(",")]
    tallies = {}
    print(f"{len(scenarios)} scenarios of the seeds {seeds}, {date.today()}, Python {platform.python_version()}.\n")
    for meter in meters:
        if meter.version() is None:
            print(f"Missing: {meter.name} ({meter.install}) is not installed.\n")
            continue
        print(f"{meter.name} ...", file=sys.stderr)
        tallies[meter], failures, wrong = run(meter, scenarios)
        if failures:
            name, error = failures[0]
            print(f"{meter.name} failed on {len(failures)} captures, first {name}: {type(error).__name__}: {error}\n")
        if arguments.wrong:
            for (name, column), count in wrong.items():
                print(f"{meter.name}: {name}: {column}: {count}", file=sys.stderr)
    table(["meter", "version", "from", "settings", "its definitions"],
          [[meter.name, meter.version(), meter.install, meter.settings, "; ".join(meter.definitions) or "those of the answers"]
           for meter in tallies])
    head = [meter.name for meter in tallies]
    table(["values", *head], [["compared", *(str(sum(tallies[meter]["all"].values())) for meter in tallies)]] + [
        [f"`{column}`", *(share(tallies[meter]["all"], {column, f"reverse_{column}"}) for meter in tallies)]
        for column in ["records", "source", "start", "end", "end_reason", "handshake_answer", "handshake_ack", "contents", *DIRECTED]])
    table(["dimension, alone", *head],
          [[f"`{name}`", *(share(tallies[meter][name]) for meter in tallies)] for name in dimensions]
          + [["pairs", *(share(tallies[meter]["pairs"]) for meter in tallies)],
             ["**all**", *(share(tallies[meter]["all"]) for meter in tallies)]])


if __name__ == "__main__":
    main()
