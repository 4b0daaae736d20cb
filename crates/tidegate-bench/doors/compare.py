#!/usr/bin/env python3
"""What a decision costs at each door in two builds of the daemon, measured in turn.

    python3 crates/tidegate-bench/doors/compare.py OLD NEW [--rounds 5]

OLD and NEW are paths to the binary `tidegate`. Both daemons run all the time on processor 0, the load on processor 1. Every
round goes through all rows, and in each row through both daemons, the other one first in the next round. A row shows the
median of processor time for each answer, with the lowest and the highest round. Needs nginx, wrk, h2load, redis-benchmark and
taskset. All traffic stays on loopback and ends by itself.
"""

import argparse
import os
import re
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

POLICY = """
listen: {{ http: 127.0.0.1:{http}, grpc: 127.0.0.1:{grpc}, resp: 127.0.0.1:{resp}, proxy: 127.0.0.1:{proxy} }}
store: {{ kind: memory }}
memory: {{ keys: 64MiB }}
log: {{ refusals: off, level: error }}
namespaces:
  api:
    limits:
      - {{ name: per-user, key: [user], rate: 10000000/s }}
      - {{ name: per-app, key: [app], rate: 10000000/s }}
      - {{ name: per-session, key: [session], rate: 10000000/s }}
proxy:
  upstreams: {{ app: ["http://127.0.0.1:{upstream}"] }}
  routes:
    - {{ upstream: app, namespace: api, attributes: {{ user: header.x-user }} }}
"""

NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  server {{ listen 127.0.0.1:{upstream}; keepalive_requests 100000000; location / {{ return 200 ok; }} }}
}}
"""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def processor_time(pid):
    """Seconds that the kernel booked for a process, user and system."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Daemon:
    """One daemon with its ports."""

    def __init__(self, binary, upstream):
        self.ports = {door: free_port() for door in ("http", "grpc", "resp", "proxy")}
        folder = tempfile.mkdtemp()
        with open(f"{folder}/policy.yaml", "w", encoding="ascii") as file:
            file.write(POLICY.format(upstream=upstream, **self.ports))
        command = ["taskset", "-c", "0", os.path.abspath(binary), "serve", "--config", "policy.yaml"]
        self.process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)


def load(*command):
    """Runs a load generator on the other processor; its output."""
    return subprocess.run(["taskset", "-c", "1", *command], capture_output=True, text=True, check=True).stdout


def temporary(content, suffix=""):
    path = tempfile.mktemp(suffix=suffix)
    with open(path, "wb") as file:
        file.write(content)
    return path


def field(number, content):
    return bytes([number << 3 | 2, len(content)]) + content


def rls_request(pairs):
    entries = b"".join(field(1, field(1, key.encode()) + field(2, value.encode())) for key, value in pairs)
    message = field(1, b"api") + field(2, entries)
    return temporary(b"\0" + struct.pack(">I", len(message)) + message)


def post(body):
    script = f"wrk.method='POST'; wrk.headers['content-type']='application/json'; wrk.body='{body}'"
    return temporary(script.encode(), ".lua")


def wrk(port, path, *options):
    output = load("wrk", "-t1", "-c16", "-d3s", *options, f"http://127.0.0.1:{port}{path}")
    if "Non-2xx" in output:
        sys.exit(output)
    return int(re.search(r"(\d+) requests in", output).group(1))


def h2load(port, body, connections, streams, requests):
    method = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
    headers = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
    bounds = [f"-c{connections}", f"-m{streams}", "-t1", f"-n{requests}"]
    output = load("h2load", *bounds, "-d", body, *headers, f"http://127.0.0.1:{port}{method}")
    if f"{requests} succeeded" not in output:
        sys.exit(output)
    return requests


def redis_benchmark(port, pipeline, requests, *command):
    load("redis-benchmark", "-p", str(port), "-c", "50", "-P", str(pipeline), "-n", str(requests), "-q", *command)
    return requests


def rows():
    one = rls_request([("user", "ada-with-twenty-char")])
    three = rls_request([("user", "ada"), ("app", "shop"), ("session", "s1")])
    check_one = post('{"namespace":"api","attributes":{"user":"ada-with-twenty-char"}}')
    check_three = post('{"namespace":"api","attributes":{"user":"ada","app":"shop","session":"s1"}}')
    throttle = ["CL.THROTTLE", "k", "10000000", "10000000", "1"]
    return {
        "POST /v1/check, one limit": lambda p: wrk(p["http"], "/v1/check", "-s", check_one),
        "POST /v1/check, three limits": lambda p: wrk(p["http"], "/v1/check", "-s", check_three),
        "/v1/authorize": lambda p: wrk(p["http"], "/v1/authorize?namespace=api&user=ada"),
        "proxy": lambda p: wrk(p["proxy"], "/", "-H", "x-user: ada"),
        "ShouldRateLimit -c4 -m16, one limit": lambda p: h2load(p["grpc"], one, 4, 16, 300_000),
        "ShouldRateLimit -c4 -m16, three limits": lambda p: h2load(p["grpc"], three, 4, 16, 300_000),
        "ShouldRateLimit -c16 -m1": lambda p: h2load(p["grpc"], one, 16, 1, 150_000),
        "CL.THROTTLE -P16": lambda p: redis_benchmark(p["resp"], 16, 2_000_000, *throttle),
        "CL.THROTTLE -P1": lambda p: redis_benchmark(p["resp"], 1, 200_000, *throttle),
        "TG.CHECK -P1": lambda p: redis_benchmark(p["resp"], 1, 200_000, "TG.CHECK", "api", "user", "ada"),
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("old")
    arguments.add_argument("new")
    arguments.add_argument("--rounds", type=int, default=5)
    options = arguments.parse_args()

    upstream, folder = free_port(), tempfile.mkdtemp()
    with open(f"{folder}/nginx.conf", "w", encoding="ascii") as file:
        file.write(NGINX.format(folder=folder, upstream=upstream))
    nginx = subprocess.Popen(["taskset", "-c", "1", "nginx", "-c", f"{folder}/nginx.conf", "-p", folder])
    daemons = {"old": Daemon(options.old, upstream), "new": Daemon(options.new, upstream)}
    costs = {}
    try:
        time.sleep(2)
        for turn in range(options.rounds):
            for row, run in rows().items():
                for name in ("old", "new") if turn % 2 == 0 else ("new", "old"):
                    daemon = daemons[name]
                    before = processor_time(daemon.process.pid)
                    answers = run(daemon.ports)
                    spent = processor_time(daemon.process.pid) - before
                    costs.setdefault((row, name), []).append(spent / answers * 1e6)
    finally:
        for daemon in daemons.values():
            daemon.process.terminate()
            daemon.process.wait()
        nginx.terminate()
        nginx.wait()

    print("| server CPU an answer | old | new | change |")
    print("|---|---|---|---|")
    for row in rows():
        old, new = costs[row, "old"], costs[row, "new"]
        cells = [f"{statistics.median(c):.2f} us ({min(c):.2f}-{max(c):.2f})" for c in (old, new)]
        change = 100 * (statistics.median(new) / statistics.median(old) - 1)
        print(f"| {row} | {cells[0]} | {cells[1]} | {change:+.1f} % |")


if __name__ == "__main__":
    main()
