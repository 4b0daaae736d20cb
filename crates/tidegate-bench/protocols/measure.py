#!/usr/bin/env python3
"""What a decision costs the server at each door, rivals beside it: the server on one processor, the load on another.

    python3 crates/tidegate-bench/protocols/measure.py target/dist/tidegate [throttlecrab-server] [--rounds 3]

Needs redis-server, redis-cli, redis-benchmark, h2load, wrk and taskset. Without a path to throttlecrab-server
(`cargo install throttlecrab-server`, which needs protoc) its rows are missing. Every round goes through all rows in turn, so
that a slow moment of the machine meets all of them; shown is the median of the rounds. CPU is what the kernel booked for the
server, divided by the answers. All traffic stays on loopback and ends by itself.
"""

import argparse
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time

HTTP, GRPC, RESP = 18090, 18091, 18092
CRAB_HTTP, CRAB_GRPC, CRAB_RESP = 18190, 18191, 18192
REDIS = 18292

# Three limits that no row fills.
NAMESPACES = """
namespaces:
  api:
    limits:
      - { name: per-user, key: [user], rate: 10000000/s }
      - { name: per-app, key: [app], rate: 10000000/s }
      - { name: per-session, key: [session], rate: 10000000/s }
"""

POLICY = f"""
listen: {{ http: 127.0.0.1:{HTTP}, grpc: 127.0.0.1:{GRPC}, resp: 127.0.0.1:{RESP} }}
memory: {{ keys: 64MiB }}
log: {{ refusals: off, level: error }}
{NAMESPACES}"""

# The usual script, as people write it by hand.
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gcra.lua")) as file:
    GCRA = file.read()


def cpu(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def server(*command):
    return subprocess.Popen(
        ["taskset", "-c", "0", *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def load(*command):
    return subprocess.run(["taskset", "-c", "1", *command], capture_output=True, text=True, check=True).stdout


def text(number, value):
    return bytes([number << 3 | 2, len(value)]) + value


def number(field, value):
    out = bytearray([field << 3])
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def framed(message):
    return b"\0" + struct.pack(">I", len(message)) + message


def rate_limit_request(*entries):
    descriptor = b"".join(text(1, text(1, name) + text(2, value)) for name, value in entries)
    return framed(text(1, b"api") + text(2, descriptor))


class Row:
    def __init__(self, name, pid, run):
        self.name, self.pid, self.run, self.seen = name, pid, run, []

    def measure(self):
        before = cpu(self.pid)
        answers, per_second = self.run()
        self.seen.append((per_second, (cpu(self.pid) - before) / answers * 1e6))

    def show(self):
        per_second = statistics.median(one[0] for one in self.seen)
        costs = [one[1] for one in self.seen]
        spread = f"{min(costs):.2f}-{max(costs):.2f}"
        print(f"| {self.name} | {per_second:,.0f} | {statistics.median(costs):.2f} us | {spread} |", flush=True)


def redis_benchmark(port, pipeline, count, *command):
    def run():
        arguments = ["-p", str(port), "-c", "50", "-P", str(pipeline), "-n", str(count), "-r", "100000", "-q"]
        out = load("redis-benchmark", *arguments, *command)
        return count, float(re.findall(r"([\d.]+) requests per second", out)[-1])

    return run


def h2load(port, path, body, connections, streams, count):
    def run():
        headers = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
        shape = [f"-c{connections}", f"-m{streams}", "-t1", f"-n{count}", "-d", body]
        out = load("h2load", *shape, *headers, f"http://127.0.0.1:{port}{path}")
        succeeded, failed = re.search(r"(\d+) succeeded, (\d+) failed", out).groups()
        if (int(succeeded), int(failed)) != (count, 0):
            sys.exit(f"{path}: {succeeded} succeeded and {failed} failed of {count}")
        return count, float(re.search(r"([\d.]+) req/s", out).group(1))

    return run


def wrk(port, path, body, directory, headers=None):
    """Posts a body, or asks without one if it is empty."""
    lines = [f"wrk.headers['{name}']='{value}'" for name, value in (headers or {}).items()]
    if body:
        lines += ["wrk.method='POST'", "wrk.headers['content-type']='application/json'", f"wrk.body='{body}'"]
    name = "".join(letter if letter.isalnum() else "-" for letter in path)
    script = os.path.join(directory, f"{len(body)}-{name}.lua")
    with open(script, "w") as file:
        file.write("; ".join(lines))

    def run():
        out = load("wrk", "-t1", "-c16", "-d3s", "-s", script, f"http://127.0.0.1:{port}{path}")
        if "Non-2xx" in out:
            sys.exit(f"{path}: {out}")
        count = int(re.search(r"(\d+) requests in", out).group(1))
        return count, float(re.search(r"Requests/sec: +([\d.]+)", out).group(1))

    return run


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("tidegate")
    arguments.add_argument("throttlecrab", nargs="?")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments = arguments.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        measure(arguments, directory)


def measure(arguments, directory):
    def file(name, content):
        path = os.path.join(directory, name)
        with open(path, "wb") as out:
            out.write(content)
        return path

    policy = file("policy.yaml", POLICY.encode())
    user, app, session = (b"user", b"ada-with-twenty-char"), (b"app", b"shop"), (b"session", b"s1")
    one = file("one", rate_limit_request(user))
    three = file("three", rate_limit_request(user, app, session))
    throttle = text(1, b"ada-with-twenty-char") + number(2, 10**6) + number(3, 10**6) + number(4, 1) + number(5, 1)
    crab_message = file("throttle", framed(throttle))
    servers = [
        server(arguments.tidegate, "serve", "--config", policy),
        server("redis-server", "--port", str(REDIS), "--save", "", "--appendonly", "no"),
    ]
    if arguments.throttlecrab:
        here = "127.0.0.1"
        listeners = ["--http", "--http-host", here, "--http-port", str(CRAB_HTTP)]
        listeners += ["--grpc", "--grpc-host", here, "--grpc-port", str(CRAB_GRPC)]
        listeners += ["--redis", "--redis-host", here, "--redis-port", str(CRAB_RESP)]
        servers.append(server(arguments.throttlecrab, *listeners, "--log-level", "error"))
    try:
        time.sleep(1.5)
        script = subprocess.run(
            ["redis-cli", "-p", str(REDIS), "SCRIPT", "LOAD", GCRA], capture_output=True, text=True, check=True
        ).stdout.strip()
        groups = rows(arguments, directory, servers, script, one, three, crab_message)
        for _ in range(arguments.rounds):
            for _, group in groups:
                for row in group:
                    row.measure()
        for title, group in groups:
            print(f"\n| {title} | answers a second | server CPU each | lowest-highest |\n|---|---|---|---|")
            for row in group:
                row.show()
    finally:
        for one in servers:
            one.terminate()
            one.wait()


def rows(arguments, directory, servers, script, one, three, crab_message):
    tide, redis = servers[0].pid, servers[1].pid
    crab = servers[2].pid if arguments.throttlecrab else None
    key, burst = "key:__rand_int__", ["1000", "1000", "1"]
    groups = []
    for pipeline, count in ((16, 800_000), (1, 150_000)):
        group = [
            Row("Redis PING", redis, redis_benchmark(REDIS, pipeline, count, "PING")),
            Row("CL.THROTTLE, one key", tide,
                redis_benchmark(RESP, pipeline, count, "CL.THROTTLE", "bench", "1000000", "1000000", "1")),
            Row("CL.THROTTLE, 100 000 keys", tide, redis_benchmark(RESP, pipeline, count, "CL.THROTTLE", key, *burst)),
            Row("Redis INCR, 100 000 keys", redis,
                redis_benchmark(REDIS, pipeline, count, "INCR", "count:__rand_int__")),
            Row("Redis, GCRA script, 100 000 keys", redis,
                redis_benchmark(REDIS, pipeline, count // 4, "EVALSHA", script, "1", key, "1000", "1000")),
        ]
        if crab:
            # Every pipeline waits for a delayed acknowledgement there: fewer, or it takes minutes.
            few = count // (40 if pipeline > 1 else 1)
            group.append(Row("throttlecrab THROTTLE, one key", crab,
                             redis_benchmark(CRAB_RESP, pipeline, few, "THROTTLE", "bench", "1000000", "1000000", "1")))
            group.append(Row("throttlecrab THROTTLE, 100 000 keys", crab,
                             redis_benchmark(CRAB_RESP, pipeline, few, "THROTTLE", key, *burst)))
        groups.append((f"redis-benchmark -c 50 -P {pipeline}", group))
    ask = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
    for connections, streams, count in ((4, 16, 250_000), (16, 1, 150_000)):
        group = [
            Row("ShouldRateLimit, one limit", tide, h2load(GRPC, ask, one, connections, streams, count)),
            Row("ShouldRateLimit, three limits", tide, h2load(GRPC, ask, three, connections, streams, count)),
        ]
        if crab:
            group.append(Row("throttlecrab Throttle", crab, h2load(
                CRAB_GRPC, "/throttlecrab.RateLimiter/Throttle", crab_message, connections, streams, count)))
        groups.append((f"h2load -c{connections} -m{streams}", group))
    check = '{"namespace":"api","attributes":{"user":"ada-with-twenty-char"}}'
    every = '{"namespace":"api","attributes":{"user":"ada-with-twenty-char","app":"shop","session":"s1"}}'
    group = [
        Row("POST /v1/check, one limit", tide, wrk(HTTP, "/v1/check", check, directory)),
        Row("POST /v1/check, three limits", tide, wrk(HTTP, "/v1/check", every, directory)),
    ]
    if crab:
        body = '{"key":"ada-with-twenty-char","max_burst":1000000,"count_per_period":1000000,"period":1,"quantity":1}'
        group.append(Row("throttlecrab POST /throttle", crab, wrk(CRAB_HTTP, "/throttle", body, directory)))
    groups.append(("wrk -t1 -c16", group))
    return groups


if __name__ == "__main__":
    main()
