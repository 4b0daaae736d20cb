#!/usr/bin/env python3
"""What a decision costs at each door in two builds of the daemon, measured in turn.

    python3 crates/tidegate-bench/protocols/compare.py OLD NEW [--rounds 5] [--rows TEXT]

OLD and NEW are paths to the binary `tidegate`. Both daemons run all the time on processor 0, the load on processor 1. Every
round goes through all rows, and in each row through both daemons, the other one first in the next round. A row shows the
median of processor time for each answer, with the lowest and the highest round. Needs nginx, wrk, h2load, redis-benchmark and
taskset. All traffic stays on loopback and ends by itself.
"""

import argparse
import os
import socket
import statistics
import subprocess
import tempfile
import time

from measure import NAMESPACES, cpu, h2load, rate_limit_request, redis_benchmark, server, wrk

POLICY = """
listen: {{ http: 127.0.0.1:{http}, grpc: 127.0.0.1:{grpc}, resp: 127.0.0.1:{resp}, proxy: 127.0.0.1:{proxy} }}
store: {{ kind: memory }}
memory: {{ keys: 64MiB }}
log: {{ refusals: off, level: error }}
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


class Daemon:
    """One daemon, and the requests of each row for it."""

    def __init__(self, binary, upstream, folder):
        os.mkdir(folder)
        ports = {listener: free_port() for listener in ("http", "grpc", "resp", "proxy")}
        policy = os.path.join(folder, "policy.yaml")
        with open(policy, "w", encoding="ascii") as file:
            file.write(POLICY.format(upstream=upstream, **ports) + NAMESPACES)
        self.process = server(os.path.abspath(binary), "serve", "--config", policy)
        self.rows = rows(ports, folder)

    def cost(self, row):
        """Processor time for each answer of a row, in microseconds."""
        before = cpu(self.process.pid)
        answers, _ = self.rows[row]()
        return (cpu(self.process.pid) - before) / answers * 1e6


def rows(ports, folder):
    def message(name, *entries):
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(rate_limit_request(*entries))
        return path

    one = message("one", (b"user", b"ada-with-twenty-char"))
    three = message("three", (b"user", b"ada"), (b"app", b"shop"), (b"session", b"s1"))
    check_one = '{"namespace":"api","attributes":{"user":"ada-with-twenty-char"}}'
    check_three = '{"namespace":"api","attributes":{"user":"ada","app":"shop","session":"s1"}}'
    method = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
    throttle = ["CL.THROTTLE", "k", "10000000", "10000000", "1"]
    http, grpc, resp = ports["http"], ports["grpc"], ports["resp"]
    return {
        "POST /v1/check, one limit": wrk(http, "/v1/check", check_one, folder),
        "POST /v1/check, three limits": wrk(http, "/v1/check", check_three, folder),
        "/v1/authorize": wrk(http, "/v1/authorize?namespace=api&user=ada", "", folder),
        "proxy": wrk(ports["proxy"], "/", "", folder, {"x-user": "ada"}),
        "ShouldRateLimit -c4 -m16, one limit": h2load(grpc, method, one, 4, 16, 300_000),
        "ShouldRateLimit -c4 -m16, three limits": h2load(grpc, method, three, 4, 16, 300_000),
        "ShouldRateLimit -c16 -m1": h2load(grpc, method, one, 16, 1, 150_000),
        "CL.THROTTLE -P16": redis_benchmark(resp, 16, 2_000_000, *throttle),
        "CL.THROTTLE -P1": redis_benchmark(resp, 1, 200_000, *throttle),
        "TG.CHECK -P1": redis_benchmark(resp, 1, 200_000, "TG.CHECK", "api", "user", "ada"),
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("old")
    arguments.add_argument("new")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--rows", default="", help="measure only rows with this text in their names")
    options = arguments.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        compare(options, folder)


def compare(options, folder):
    upstream = free_port()
    with open(f"{folder}/nginx.conf", "w", encoding="ascii") as file:
        file.write(NGINX.format(folder=folder, upstream=upstream))
    nginx = subprocess.Popen(["taskset", "-c", "1", "nginx", "-c", f"{folder}/nginx.conf", "-p", folder])
    daemons = {name: Daemon(getattr(options, name), upstream, f"{folder}/{name}") for name in ("old", "new")}
    wanted = [row for row in daemons["old"].rows if options.rows in row]
    costs = {}
    try:
        time.sleep(2)
        for turn in range(options.rounds):
            for row in wanted:
                for name in ("old", "new") if turn % 2 == 0 else ("new", "old"):
                    costs.setdefault((row, name), []).append(daemons[name].cost(row))
    finally:
        for process in [daemon.process for daemon in daemons.values()] + [nginx]:
            process.terminate()
            process.wait()

    print("| server CPU an answer | old | new | change |")
    print("|---|---|---|---|")
    for row in wanted:
        old, new = costs[row, "old"], costs[row, "new"]
        cells = [f"{statistics.median(c):.2f} us ({min(c):.2f}-{max(c):.2f})" for c in (old, new)]
        change = 100 * (statistics.median(new) / statistics.median(old) - 1)
        print(f"| {row} | {cells[0]} | {cells[1]} | {change:+.1f} % |")


if __name__ == "__main__":
    main()
