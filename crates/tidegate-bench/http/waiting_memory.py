"""How much the daemon grows for each check that waits: many connections of HTTP/1 that stay open.

Usage: waiting_memory.py PROGRAM CONNECTIONS ATTRIBUTE_BYTES HEADER_BYTES MEMORY_WAITING RESOURCES
"""

import asyncio
import json
import resource
import subprocess
import sys
import tempfile

PROGRAM, (CONNECTIONS, ATTRIBUTES, HEADERS), WAITING, RESOURCES = (
    sys.argv[1], map(int, sys.argv[2:5]), sys.argv[5], int(sys.argv[6]))
PORT = 18491


def policy():
    app = "concurrency: 1, queue: { requests: 100000, bytes: 1GiB, wait: 60s }"
    resources = "".join(f"  app{number}: {{ {app} }}\n" for number in range(RESOURCES))
    return (f"store: {{ kind: memory }}\nmemory: {{ keys: 1MiB, waiting: {WAITING} }}\n"
            f"listen: {{ http: 127.0.0.1:{PORT} }}\nnamespaces: {{ api: {{ limits: [] }} }}\n"
            f"resources:\n{resources}")


def resident(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmRSS"))


async def send(head, body=""):
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    writer.write(f"{head} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n".encode())
    writer.write("".join(f"x-{i}: {'y' * 1000}\r\n" for i in range(HEADERS // 1000)).encode())
    writer.write(f"\r\n{body}".encode())
    await writer.drain()
    return reader, writer


async def check(number):
    attributes = {f"a{i}": "x" * 1000 for i in range(ATTRIBUTES // 1000)} | {"user": f"u{number}"}
    body = {"namespace": "api", "resource": f"app{number % RESOURCES}", "wait_ms": 60000}
    return await send("POST /v1/check", json.dumps(body | {"attributes": attributes}))


async def measure(process):
    for _ in range(300):
        try:
            await send("GET /healthz")
            break
        except OSError:
            await asyncio.sleep(0.1)
    before, held = resident(process), []
    for first in range(0, CONNECTIONS, 100):
        numbers = range(first, min(first + 100, CONNECTIONS))
        held += await asyncio.gather(*map(check, numbers))
    await asyncio.sleep(1.5)
    grown = resident(process) - before
    reader, writer = await send("GET /metrics")
    writer.write_eof()
    page = (await reader.read()).decode().splitlines()
    queued = [line for line in page if line.startswith("tidegate_resource_queued{")]
    waiting = sum(int(line.split()[-1]) for line in queued)
    print(f"{waiting} of {CONNECTIONS} wait: {grown / 2**20:.1f} MiB, {grown // max(waiting, 1)} each")


limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
    file.write(policy())
    file.flush()
    with subprocess.Popen([PROGRAM, "serve", file.name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as daemon:
        try:
            asyncio.run(measure(daemon))
        finally:
            daemon.terminate()
