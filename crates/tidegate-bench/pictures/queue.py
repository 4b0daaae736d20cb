#!/usr/bin/env python3
"""Measures and draws a queue of the reverse proxy: an open-loop load above what a concurrency limit lets through.

    python3 crates/tidegate-bench/pictures/queue.py measure target/dist/tidegate docs/pictures/data/queue.json   # a minute
    python3 crates/tidegate-bench/pictures/queue.py draw docs/pictures/data/queue.json docs/pictures/queue.svg

Everything runs on loopback: a service that takes 50 ms for each request, the daemon, and a generator that sends on schedule, whether or
not earlier requests have been answered. Each run lasts 30 s and sends 4 800 requests.
"""

import asyncio
import json
import os
import platform
import re
import socket
import subprocess
import sys
import tempfile
import time

import chart

SERVICE_S, PLACES = 0.05, 8
CAPACITY = round(PLACES / SERVICE_S)
# Seconds and requests a second.
LOAD = [(5, 80), (15, 240), (10, 80)]
SECONDS = sum(seconds for seconds, _ in LOAD)
RUNS = [("without a queue", "0s", 100), ("wait: 1s, waiting: 100", "1s", 100)]
SAMPLES_A_SECOND = 10
POLICY = """
listen: {{ http: 127.0.0.1:{api}, proxy: 127.0.0.1:{proxy} }}
store: {{ kind: memory }}
namespaces: {{ api: {{ limits: [{{ name: at-a-time, concurrency: {{ limit: {places}, hold: 1m }} }}] }} }}
proxy:
  upstreams: {{ app: {{ servers: [http://127.0.0.1:{service}], idle_connections: {places} }} }}
  waiting: {waiting}
  routes: [{{ upstream: app, namespace: api, wait: {wait} }}]
"""


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


async def serve(reader, writer):
    """The service: an empty answer after a fixed time."""
    try:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            await asyncio.sleep(SERVICE_S)
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
    except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
        pass
    finally:
        writer.close()


async def ask(port, path, idle):
    """One request on an idle connection or a new one: its status and its reason."""
    reader, writer = idle.pop() if idle else await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = re.search(r"content-length: (\d+)", head)
    body = await reader.readexactly(int(length.group(1))) if length else b""
    idle.append((reader, writer))
    reason = re.search(r"x-tidegate-reason: (\S+)", head)
    return int(head.split(" ")[1]), reason.group(1) if reason else "", body.decode()


async def sample(port, begin, samples):
    """Reads the gauges of the proxy until it is cancelled."""
    idle = []
    while True:
        at = time.monotonic() - begin
        _, _, page = await ask(port, "/metrics", idle)
        gauges = [int(re.search(rf"^tidegate_proxy_{name} (\d+)", page, re.M).group(1)) for name in ("waiting", "in_flight")]
        samples.append([round(at, 3), *gauges])
        await asyncio.sleep(max(0, begin + at + 1 / SAMPLES_A_SECOND - time.monotonic()))


async def load(port, begin):
    """Sends on schedule; the instant, the answer and the duration of each request."""
    idle, answers, late = [], [], []

    async def one(at):
        late.append(time.monotonic() - begin - at)
        sent = time.monotonic()
        status, reason, _ = await ask(port, "/", idle)
        answers.append([round(at, 3), status, reason, round(1000 * (time.monotonic() - sent), 1)])

    tasks, start = [], 0.0
    for seconds, rate in LOAD:
        for number in range(seconds * rate):
            at = start + number / rate
            await asyncio.sleep(max(0, begin + at - time.monotonic()))
            tasks.append(asyncio.create_task(one(at)))
        start += seconds
    await asyncio.gather(*tasks)
    return sorted(answers), sorted(late)


async def run(binary, name, wait, waiting, folder):
    api, proxy, service = free_ports(3)
    policy = os.path.join(folder, "policy.yaml")
    with open(policy, "w") as file:
        file.write(POLICY.format(api=api, proxy=proxy, service=service, places=PLACES, waiting=waiting, wait=wait))
    server = await asyncio.start_server(serve, "127.0.0.1", service)
    with open(os.path.join(folder, "log"), "w") as log:
        daemon = subprocess.Popen([binary, "serve", policy, "--listen", f"127.0.0.1:{api}"], stdout=log, stderr=log)
    try:
        for _ in range(100):
            try:
                if (await ask(api, "/readyz", []))[0] == 200:
                    break
            except OSError:
                await asyncio.sleep(0.05)
        begin, samples = time.monotonic() + 0.1, []
        sampler = asyncio.create_task(sample(api, begin, samples))
        answers, late = await load(proxy, begin)
        sampler.cancel()
    finally:
        daemon.terminate()
        daemon.wait()
        server.close()
    figures = {"offered": [0] * SECONDS, "answered": [0] * SECONDS, "refused": {}, "p50_ms": [], "p99_ms": []}
    by_second = [[] for _ in range(SECONDS)]
    for at, status, reason, ms in answers:
        second = int(at)
        figures["offered"][second] += 1
        if status == 200:
            figures["answered"][second] += 1
            by_second[second].append(ms)
        else:
            figures["refused"].setdefault(reason, [0] * SECONDS)[second] += 1
    for durations in by_second:
        durations.sort()
        figures["p50_ms"].append(durations[len(durations) // 2])
        figures["p99_ms"].append(durations[int(len(durations) * 0.99)])
    print(f"{name}: {sum(figures['answered'])} of {len(answers)} answered, refused "
          f"{ {reason: sum(counts) for reason, counts in figures['refused'].items()} }, sent late by at most {1000 * late[-1]:.1f} ms "
          f"(p99 {1000 * late[int(len(late) * 0.99)]:.1f} ms), most waiting {max(one[1] for one in samples)}, in flight "
          f"{max(one[2] for one in samples)}", file=sys.stderr)
    return {"name": name, "late_p99_ms": round(1000 * late[int(len(late) * 0.99)], 1), "samples": samples, **figures}


def measure(binary, output):
    with tempfile.TemporaryDirectory(prefix="tidegate-queue-") as folder:
        runs = [asyncio.run(run(binary, *one, folder)) for one in RUNS]
    report = {"machine": f"{os.cpu_count()} processors, {platform.system()} {platform.release()}", "service_ms": 1000 * SERVICE_S,
              "places": PLACES, "load": LOAD, "runs": runs}
    with open(output, "w") as file:
        file.write(json.dumps(report, separators=(",", ":")) + "\n")


WIDTH, LEFT, TOP, HEIGHT, GAP = 940, 56, 84, 110, 52


def draw(report):
    width = (WIDTH - LEFT - 24 - 60) / 2
    out = chart.legend(LEFT, 22, [("ok", "answered 200"), ("no", "refused 429"), ("f2", "waiting"), ("f1", "in flight"), ("f3", "p50"), ("f4", "p99")])
    most_ms = chart.round_up(max(max(run["p99_ms"]) for run in report["runs"]))
    for column, run in enumerate(report["runs"]):
        left = LEFT + column * (width + 60)
        out.append(chart.text(left, 50, run["name"][0].upper() + run["name"][1:] if column == 0 else run["name"], "b"))
        refused = [sum(counts) for counts in zip(*run["refused"].values())]
        panels = [chart.Panel(left, TOP + row * (HEIGHT + GAP), width, HEIGHT, SECONDS, highest) for row, highest in enumerate((250, 120, most_ms))]
        titles = [f"requests a second; dashed: {CAPACITY}/s, which {PLACES} places of 50 ms can do", "requests", "duration of answered requests, ms"]
        for panel, title in zip(panels, titles):
            out.append(chart.text(left, panel.top - 7, title, "s"))
        out += panels[0].stack([(run["answered"], "ok"), (refused, "no")])
        y = panels[0].y(CAPACITY)
        out.append(f'<line class="limit" x1="{left:.1f}" y1="{y:.1f}" x2="{left + width:.1f}" y2="{y:.1f}"/>')
        out += panels[0].axes(5, (0, 100, 200))
        out += panels[1].axes(5, (0, 50, 100))
        out.append(panels[1].line([(at, waiting) for at, waiting, _ in run["samples"] if at <= SECONDS], "l2"))
        out.append(panels[1].line([(at, flying) for at, _, flying in run["samples"] if at <= SECONDS], "l1"))
        out += panels[2].axes(5, (0, most_ms / 2, most_ms))
        for key, kind in (("p99_ms", "l4"), ("p50_ms", "l3")):
            out.append(panels[2].line([(second + 0.5, ms) for second, ms in enumerate(run[key])], kind))
    height = TOP + 3 * (HEIGHT + GAP) - 22
    description = (
        "An open-loop load of 80, then 240, then 80 requests a second on a service with 8 places of 50 ms each. Without a queue, requests above "
        "160 a second are refused at once. With a queue of 100 requests, 100 wait, answers take longer, and the queue is empty again soon after the peak.")
    return chart.document(WIDTH, height, "A queue of the reverse proxy under load", description, out)


if __name__ == "__main__":
    chart.carry_out(measure, draw)
