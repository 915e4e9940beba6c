"""Compares flows from a Spark cluster on this machine with one run of the command.

Started by ``cargo xtask cluster``: captures are generated, cut at random bytes and read on
``local-cluster[2,1,900]`` while executors are killed. DuckDB compares all records; counters are
compared one by one.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import random
import signal
import struct
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from pyspark.sql import SparkSession

import flowloom_spark
from flowloom_spark import _plan

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT = "5"
RECORD_HEADER = 16
MAGIC_OF_MICROSECONDS = 0xD4


def split(capture: Path, folder: Path, files: int, rng: random.Random) -> list[Path]:
    """Split a classic capture into captures that follow each other, of random lengths."""
    data = capture.read_bytes()
    head, starts, at = data[:24], [], 24
    while at < len(data):
        starts.append(at)
        at += RECORD_HEADER + struct.unpack_from("<I", data, at + 8)[0]
    cuts = sorted(rng.sample(starts[1:], files - 1))
    edges = [24, *cuts, len(data)]
    folder.mkdir()
    paths = []
    for nth, (begin, end) in enumerate(itertools.pairwise(edges)):
        paths.append(folder / f"{nth:04}.pcap")
        paths[-1].write_bytes(head + data[begin:end])
    return paths


def taps(capture: Path, folder: Path, rng: random.Random, count: int = 3) -> None:
    """Let each tap see some of the packets, so that their captures overlap in time.

    Times are rounded to milliseconds, so that several packets of each tap have the same one.
    """
    data = bytearray(capture.read_bytes())
    unit = 1000 if data[0] == MAGIC_OF_MICROSECONDS else 1_000_000
    seen = [bytearray(data[:24]) for _ in range(count)]
    at = 24
    while at < len(data):
        end = at + RECORD_HEADER + struct.unpack_from("<I", data, at + 8)[0]
        fraction = struct.unpack_from("<I", data, at + 4)[0]
        struct.pack_into("<I", data, at + 4, fraction - fraction % unit)
        seen[rng.randrange(count)] += data[at:end]
        at = end
    folder.mkdir()
    for nth, packets in enumerate(seen):
        (folder / f"tap{nth}.pcap").write_bytes(packets)


def random_cuts(rng: random.Random, per_capture: int) -> Any:  # noqa: ANN401
    """Return a plan that cuts captures at random bytes."""

    def plan(captures: list[tuple[str, int]], split_bytes: int) -> list[_plan.Part]:  # noqa: ARG001
        parts: list[_plan.Part] = []
        for capture, size in captures:
            cuts = rng.sample(range(1, size), rng.randint(0, per_capture)) if size > 1000 else []  # noqa: PLR2004
            edges = [0, *sorted(cuts), size]
            for begin, end in itertools.pairwise(edges):
                whole = len(edges) == 2  # noqa: PLR2004
                of = None if whole or not _plan.is_classic(capture) else (begin, end)
                if of is not None or begin == 0:
                    parts.append(_plan.Part(len(parts), (capture,), of, end - begin))
        return parts

    return plan


class Killer(threading.Thread):
    """Kills an executor of an application now and then."""

    def __init__(self, application: str, period: float, most: int) -> None:
        """Kill one each ``period`` seconds, ``most`` at most."""
        super().__init__(daemon=True)
        self.application = application
        self.period = period
        self.most = most
        self.killed = 0
        self.ended = threading.Event()

    def run(self) -> None:
        """Kill until it is ended."""
        while self.killed < self.most and not self.ended.wait(self.period):
            executors = self.executors()
            if executors:
                os.kill(executors[0], signal.SIGKILL)
                self.killed += 1

    def executors(self) -> list[int]:
        """Return the processes of the application's executors."""
        found = []
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                try:
                    words = (process / "cmdline").read_bytes().split(b"\0")
                except OSError:
                    continue
                is_executor = any(b"CoarseGrainedExecutorBackend" in word for word in words)
                if is_executor and self.application.encode() in words:
                    found.append(int(process.name))
        return sorted(found)


def one_run(binary: str, captures: list[str], out: Path) -> dict[str, Any]:
    """Run the command once over all captures."""
    arguments = [binary, "replay", *captures, "--app", "accounting", "--timeout", TIMEOUT]
    arguments += ["--flows", str(out), "--format", "json"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def differences(ours: Path, whole: Path) -> tuple[int, int]:
    """Return how many records differ, and how many there are, as DuckDB counts them."""
    names = [f'"{name}"' for name in flowloom_spark.RECORD_COLUMNS]
    same = ", ".join(name for name in names if name not in ('"start"', '"end"'))
    left = f'select {same}, "start", "end" from \'{ours}/*.parquet\''  # noqa: S608
    times = 'epoch_ns("start"::timestamp_ns) as s, epoch_ns("end"::timestamp_ns) as e'
    right = f"select {same}, {times} from '{whole}'"  # noqa: S608
    query = f"""select (select count(*) from ({left} except all {right}))
        + (select count(*) from ({right} except all {left})), (select count(*) from ({right}))"""  # noqa: S608
    row = duckdb.execute(query).fetchone()
    assert row is not None  # noqa: S101
    return int(row[0]), int(row[1])


def counters_differ(counters: dict[str, int], document: dict[str, Any]) -> list[str]:
    """Return the counters that differ from those of one run."""
    names = ["packets", "bytes_on_wire", "decoded", "processed", "flows_begun", "flows_expired"]
    return [
        f"{name}: {counters[name]} instead of {document[name]}"
        for name in names
        if name in document and counters[name] != document[name]
    ]


def stages(spark: SparkSession) -> list[dict[str, Any]]:
    """Return what Spark says of its stages."""
    context = spark.sparkContext
    url = f"{context.uiWebUrl}/api/v1/applications/{context.applicationId}/stages"
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310
        return list(json.load(answer))


def check(
    spark: SparkSession,
    name: str,
    binary: str,
    folder: Path,
    work: Path,
    *,
    kill: int = 0,
    split: int = 1,
    source: str | None = None,
    without: list[str] | None = None,
) -> bool:
    """Read a folder on the cluster, and compare with one run over its captures."""
    killer = Killer(spark.sparkContext.applicationId, 4.0, kill)
    before = {(one["stageId"], one["attemptId"]) for one in stages(spark)}
    began = time.monotonic()
    killer.start()
    size = sum(size for _, size in _plan.list_captures([str(folder)]))
    # Sixteen tasks, so that killed executors have work left.
    flows = flowloom_spark.read(
        spark,
        source or str(folder),
        timeout=TIMEOUT,
        task_bytes=size // 16,
        split_bytes=size // split,
    )
    ours = work / f"{name}.parquet"
    flows.records.write.parquet(str(ours))
    counters = {row["name"]: int(row["value"]) for row in flows.counters.collect()}
    killer.ended.set()
    seconds = time.monotonic() - began
    new = [one for one in stages(spark) if (one["stageId"], one["attemptId"]) not in before]
    listed = [path for path, _ in _plan.list_captures([str(folder)])]
    captures = [path for path in listed if path not in (without or [])]
    began = time.monotonic()
    document = one_run(binary, captures, work / f"{name}-one.parquet")
    alone = time.monotonic() - began
    differ, records = differences(ours, work / f"{name}-one.parquet")
    wrong = counters_differ(counters, document)
    failed = sorted(flows.failed)
    parts = flows.captures.count()
    flows.unpersist()
    shuffled = sum(one["shuffleWriteBytes"] for one in new)
    busy = sum(one["executorRunTime"] for one in new) / 1000
    # What Spark's UI shows beside the bar of tasks.
    is_named = any("flowloom: " in str(one.get("description")) for one in new)
    is_right = differ == 0 and not wrong and is_named and failed == sorted(without or [])
    print(
        f"{name}: {len(listed)} captures, {parts} parts, {document['packets']} packets, "
        f"{records} records\n"
        f"  differences: {differ} records, {len(wrong)} counters {'; '.join(wrong)}\n"
        f"  flows read again: {flows.flows_read_again}, executors killed: {killer.killed}, "
        f"left out: {', '.join(failed) or 'none'}\n"
        f"  shuffled {shuffled / max(1, document['packets']):.2f} bytes a packet; {seconds:.1f} s "
        f"on the cluster, tasks {busy:.1f} s; one thread {alone:.1f} s, so that the tasks' time is "
        f"Spark's to {100 * (1 - alone / max(busy, alone)):.0f} %",
        flush=True,
    )
    return is_right


class Store:
    """An S3 of this machine, where moto is installed, that has the captures of a folder."""

    def __init__(self) -> None:
        """Start it, and let this process and those that it starts use it."""
        from moto.server import ThreadedMotoServer  # noqa: PLC0415

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
        server.start()
        _, port = server.get_host_and_port()
        os.environ |= {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def put(self, folder: Path) -> str:
        """Copy the captures of a folder into a bucket, and return its name."""
        import boto3  # noqa: PLC0415

        client = boto3.client("s3")
        client.create_bucket(Bucket="captures")
        for path in sorted(folder.iterdir()):
            client.put_object(Bucket="captures", Key=path.name, Body=path.read_bytes())
        return "s3a://captures/"

    @staticmethod
    def start() -> Store | None:
        """Start one if it can be had."""
        try:
            return Store()
        except ImportError as error:
            print(f"s3: not run: {error}")
            return None


def parsed(path: str) -> Iterator[tuple[tuple[object, ...], tuple[int, int]]]:
    """Yield the flow and the bytes of each packet, as a job in Python would."""
    import dpkt  # noqa: PLC0415

    with Path(path).open("rb") as file:
        for _, data in dpkt.pcap.Reader(file):
            packet = dpkt.ethernet.Ethernet(data).data
            if isinstance(packet, dpkt.ip.IP | dpkt.ip6.IP6) and isinstance(
                packet.data, dpkt.tcp.TCP | dpkt.udp.UDP
            ):
                ends = sorted([(packet.src, packet.data.sport), (packet.dst, packet.data.dport)])
                protocol = 6 if isinstance(packet.data, dpkt.tcp.TCP) else 17
                yield (protocol, *ends[0], *ends[1]), (1, len(data))


def rival(spark: SparkSession, folder: Path) -> bool:
    """Count flows, packets and bytes by a job that parses in Python with dpkt, and by ours."""
    paths = [path for path, _ in _plan.list_captures([str(folder)])]
    began = time.monotonic()
    rows = spark.sparkContext.parallelize(paths, 16).flatMap(parsed)
    sums = rows.reduceByKey(lambda a, b: (a[0] + b[0], a[1] + b[1]), 8).cache()
    total = sums.values().reduce(lambda a, b: (a[0] + b[0], a[1] + b[1]))
    theirs = (sums.count(), *total)
    in_python = time.monotonic() - began
    began = time.monotonic()
    flows = flowloom_spark.read(spark, str(folder), timeout=TIMEOUT)
    # Later fragments have no ports, and dpkt gives them no transport header.
    has_ports = flows.records.where("protocol in (6, 17) and source_port + destination_port > 0")
    has_ports.createOrReplaceTempView("sample")
    ends = (
        "array_sort(array(struct(source as host, source_port as port), "
        "struct(destination as host, destination_port as port)))"
    )
    row = spark.sql(
        f"select count(distinct protocol, {ends}) as flows, "  # noqa: S608
        "sum(packets + reverse_packets) as packets, sum(bytes + reverse_bytes) as octets "
        "from sample"
    ).collect()[0]
    ours = (int(row["flows"]), int(row["packets"]), int(row["octets"]))
    seconds = time.monotonic() - began
    flows.unpersist()
    print(
        f"dpkt: {theirs[1]} packets of {len(paths)} captures in {in_python:.1f} s on the cluster, "
        f"flowloom-spark {seconds:.1f} s: {in_python / seconds:.1f} times; flows, packets "
        f"and bytes: {theirs} and {ours}",
        flush=True,
    )
    return ours == theirs


def main() -> int:
    """Run all comparisons, and return 0 if there is no difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--captures", type=int, default=300)
    parser.add_argument("--packets", type=int, default=600_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    work: Path = arguments.work
    rng = random.Random(arguments.seed)  # noqa: S311
    big = work / "big.pcap"
    generate = [arguments.binary, "generate", "trace", "--packets", str(arguments.packets)]
    generate += ["--flows", str(arguments.packets // 30), "--rate", "5000", "--v6", "0.1"]
    generate += ["--seed", str(arguments.seed), "-o", str(big)]
    subprocess.run(generate, check=True, stdout=subprocess.DEVNULL)
    split(big, work / "captures", arguments.captures, rng)
    split(big, work / "damaged", 20, rng)
    bad = work / "damaged" / "0007.pcap"
    bad.write_bytes(b"this is no capture" * 100)
    middle = work / "damaged" / "0012.pcap"
    data = bytearray(middle.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 4000] = b"\xff" * 4000
    middle.write_bytes(data)
    taps(big, work / "taps", rng)
    split(big, work / "sample", 8, rng)

    # Executors inherit where the store is.
    store = Store.start()
    spark = (
        SparkSession.builder.master("local-cluster[2,1,900]")
        .appName("flowloom")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.executor.memory", "900m")
        # Snappy does not load where the tools of musl are installed.
        .config("spark.sql.parquet.compression.codec", "gzip")
        .config("spark.task.maxFailures", "12")
        .config("spark.stage.maxConsecutiveAttempts", "12")
        .config("spark.ui.port", "0")
        .config("spark.executorEnv.PYTHONPATH", "")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    flowloom_spark.register(spark, arguments.binary)
    usual, _plan.plan = _plan.plan, random_cuts(rng, 4)
    right = [
        check(spark, "captures", arguments.binary, work / "captures", work, kill=3),
        check(spark, "damaged", arguments.binary, work / "damaged", work, without=[str(bad)]),
        check(spark, "taps", arguments.binary, work / "taps", work, kill=1, split=8),
    ]
    if store is not None:
        bucket = store.put(work / "sample")
        right.append(check(spark, "s3", arguments.binary, work / "sample", work, source=bucket))
    _plan.plan = usual
    right.append(rival(spark, work / "sample"))
    try:
        flowloom_spark.read(spark, str(work / "damaged"), timeout=TIMEOUT, on_error="fail")
    except Exception as error:
        says = str(bad) in str(error)
    else:
        says = False
    print(f"on_error=fail names the capture: {says}")
    spark.stop()
    return 0 if all(right) and says else 1


if __name__ == "__main__":
    sys.exit(main())
