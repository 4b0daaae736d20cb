"""What a measurement starts, and stops again: stores, members, and a relay that may fall silent.

Everything listens on loopback, writes to one temporary directory, and is stopped by the process it was started as.
"""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def free_port():
    # A cluster's node listens 10 000 above as well, so what the system gives out may be too high.
    while True:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
        if port < 55000:
            return port


def until(what, holds, seconds=30.0):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            sys.exit(f"gave up waiting: {what}")
        time.sleep(0.02)


class Process:
    """One process, stopped by its own handle."""

    def __init__(self, command, **how):
        self.child = subprocess.Popen(command, **(QUIET | how))

    @property
    def pid(self):
        return self.child.pid

    def send(self, number):
        if self.child.poll() is None:
            self.child.send_signal(number)

    def kill(self):
        self.send(signal.SIGKILL)
        self.child.wait()

    def is_alive(self):
        return self.child.poll() is None


class Redis:
    """A server that keeps nothing on disk."""

    def __init__(self, directory, *more):
        self.port = free_port()
        self.directory = os.path.join(directory, f"redis-{self.port}")
        os.mkdir(self.directory)
        self.more = more
        self.process = None
        self.start()

    def start(self):
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self.process = Process([*command, "--dir", self.directory, *self.more])
        until("redis-server answers", lambda: self.ask("PING") == "PONG")

    def ask(self, *words):
        with_port = ["redis-cli", "-h", "127.0.0.1", "-p", str(self.port)]
        done = subprocess.run([*with_port, *words], capture_output=True, text=True, errors="replace", check=False)
        return done.stdout.strip()

    def info(self, name):
        found = re.search(rf"^{name}:(\S+)", self.ask("INFO", "everything"), re.M)
        return found.group(1) if found else None

    def cpu(self):
        """Seconds of processor time since its start."""
        said = self.ask("INFO", "cpu")
        return sum(float(re.search(rf"^used_cpu_{part}:([\d.]+)", said, re.M).group(1)) for part in ("user", "sys"))

    def stop(self):
        self.process.send(signal.SIGCONT)
        self.process.kill()


class Single:
    """A store of one server."""

    def __init__(self, directory, *more):
        self.nodes = [Redis(directory, *more)]

    def policy(self, port=None):
        return f"kind: redis, urls: [redis://127.0.0.1:{port or self.nodes[0].port}]"

    def cpu(self):
        return sum(node.cpu() for node in self.nodes if node.process.is_alive())

    def stop(self):
        for node in self.nodes:
            node.stop()


class Cluster(Single):
    """Three primaries with a replica each; a node is missed after a second."""

    def __init__(self, directory):
        more = ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-announce-ip", "127.0.0.1"]
        self.nodes = [Redis(directory, *more) for _ in range(6)]
        for index, (first, last) in enumerate([(0, 5460), (5461, 10922), (10923, 16383)]):
            self.nodes[index].ask("CLUSTER", "ADDSLOTSRANGE", str(first), str(last))
        for node in self.nodes[1:]:
            self.nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", str(node.port))
        until("all nodes know each other",
              lambda: all("cluster_known_nodes:6" in node.ask("CLUSTER", "INFO") for node in self.nodes))
        for index in (3, 4, 5):
            primary = self.nodes[index - 3].ask("CLUSTER", "MYID")
            until("a replica has its primary",
                  lambda index=index, primary=primary: self.nodes[index].ask("CLUSTER", "REPLICATE", primary) == "OK")
        until("the cluster serves",
              lambda: all("cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in self.nodes))
        until("replicas follow",
              lambda: all(node.info("master_link_status") == "up" for node in self.nodes[3:]))

    def policy(self, port=None):
        urls = ", ".join(f"redis://127.0.0.1:{node.port}" for node in self.nodes[:2])
        return f"kind: redis, urls: [{urls}], cluster: true"

    def owner_of(self, text):
        """The primary that holds the counter whose name has this text in it, and the replica that stands by."""
        holding = [index for index, node in enumerate(self.nodes[:3]) if node.ask("--scan", "--pattern", f"*{text}*")]
        assert len(holding) == 1, holding
        return self.nodes[holding[0]], self.nodes[holding[0] + 3]


class Relay:
    """Forwards connections to a port in a process of its own, so that it can be stopped in the middle of a byte.

    While it is stopped, connections are accepted by the system and nothing passes; afterwards everything passes late.
    """

    def __init__(self, port):
        self.port = free_port()
        self.process = Process([sys.executable, __file__, "relay", str(self.port), str(port)])
        until("the relay listens", self.listens)

    def listens(self):
        with socket.socket() as one:
            return one.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self):
        self.process.send(signal.SIGCONT)
        self.process.kill()


def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    for one in (source, sink):
        try:
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def relay(port, target):
    listener = socket.create_server(("127.0.0.1", port))
    while True:
        one, _ = listener.accept()
        other = socket.create_connection(("127.0.0.1", target))
        for end in (one, other):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for ends in ((one, other), (other, one)):
            threading.Thread(target=pump, args=ends, daemon=True).start()


class Member:
    """A daemon with its own policy file."""

    def __init__(self, program, directory, store, limit):
        self.port = free_port()
        name = os.path.join(directory, f"member-{self.port}")
        with open(f"{name}.yaml", "w") as file:
            file.write(
                f"listen: {{ http: 127.0.0.1:{self.port} }}\n"
                + (f"store: {{ {store} }}\n" if store else "")
                + "log: { refusals: off, level: warn }\n"
                + f"namespaces: {{ api: {{ limits: [{limit}] }} }}\n"
            )
        with open(f"{name}.log", "w") as log:
            self.process = Process([program, "serve", "--config", f"{name}.yaml"], stderr=log)
        self.log = f"{name}.log"
        self.asked_before_it_died = None

    def get(self, path):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()

    def is_ready(self):
        return self.get("/readyz")[0] == 200

    def leases(self):
        return json.loads(self.get("/v1/leases")[1])

    def metrics(self):
        found = {}
        for line in self.get("/metrics")[1].splitlines():
            if line.startswith("tidegate_") and "{" not in line:
                name, value = line.split()[:2]
                found[name] = float(value)
        return found

    def cpu(self):
        with open(f"/proc/{self.process.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self):
        self.process.kill()


class Fleet:
    """Members on one store, stopped together."""

    def __init__(self, program, directory, store, limit, count, relayed=()):
        self.store, self.relays, self.members = store, [], []
        try:
            for index in range(count):
                port = None
                if index in relayed:
                    self.relays.append(Relay(store.nodes[0].port))
                    port = self.relays[-1].port
                policy = store.policy(port) if store else ""
                self.members.append(Member(program, directory, policy, limit))
            until("all members are ready", lambda: all(member.is_ready() for member in self.members))
        except BaseException:
            self.stop()
            raise

    def totals(self):
        """Sums over the members that are alive."""
        sums = {}
        for member in self.members:
            if member.process.is_alive():
                for name, value in member.metrics().items():
                    sums[name] = sums.get(name, 0) + value
        return sums

    def cpu(self):
        return sum(member.cpu() for member in self.members if member.process.is_alive())

    def stop(self):
        for one in self.members:
            one.kill()
        for one in self.relays:
            one.stop()
        if self.store:
            self.store.stop()


if __name__ == "__main__" and sys.argv[1:2] == ["relay"]:
    relay(int(sys.argv[2]), int(sys.argv[3]))
