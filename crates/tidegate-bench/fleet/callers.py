"""Callers that keep within their limits: what each sends, when it retries, and what it was answered.

Every caller sends first attempts at even intervals, whatever became of those before. A refused caller retries every 100 ms until
it is admitted or its next first attempt is due. A caller that was refused at every attempt for two seconds retries once a second:
by then the run has failed, and ten thousand retries a second would measure the load generator instead of the daemons.

Callers of one daemon share a pool of connections, each with one request under way, so that a slow answer delays no other. One
thread runs all callers; `LoadGenerator.late` says how late it sent.
"""

import heapq
import random
import select
import socket
import time
from array import array
from collections import deque

import load

RETRY_AFTER_S = 0.1
PERSISTENT_FOR_S = 2.0
PERSISTENT_RETRY_AFTER_S = 1.0
ANSWER_WITHIN_S = 1.0
# At the bound, attempts are counted as `unsent` and the run says so.
CONNECTIONS_PER_MEMBER_MAX = 512

# Callers of one daemon, callers that draw a daemon for each request, and two kinds that draw and
# never retry: callers that ask for more than their limit, and callers that only warm daemons up.
STICKY, DRAWN, GREEDY, WARM = "sticky", "drawn", "greedy", "warm"


class Caller:
    """One user with its schedule and what became of its latest attempts."""

    __slots__ = ("index", "kind", "habit", "period_s", "phase_s", "head", "body", "first_attempts", "next_due", "member",
                 "attempt", "refused_since", "moved_at")

    @property
    def group(self):
        return f"{self.kind} {self.habit}"

    def __init__(self, index, kind, habit, period_s, phase_s):
        self.index, self.kind, self.habit = index, kind, habit
        self.period_s, self.phase_s = period_s, phase_s
        self.first_attempts = 0
        self.next_due = phase_s
        self.member = None
        self.attempt = None
        self.refused_since = None
        # When the caller's daemon was found dead and another one took its place.
        self.moved_at = None
        body = b'{"namespace":"api","attributes":{"kind":"%b","user":"%b-%b-%d"}}' % (
            kind.encode(), kind.encode(), habit.encode(), index)
        self.head = b"POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: %d\r\n" % len(body)
        self.body = b"\r\n" + body


class Attempt:
    """One request of a caller. An attempt whose connection broke is sent again and remains the same attempt."""

    __slots__ = ("caller", "number", "first_attempt", "asked", "connection")

    def __init__(self, caller, number, first_attempt):
        self.caller, self.number, self.first_attempt = caller, number, first_attempt
        self.asked = None
        self.connection = None


class Connection:
    """One connection to a member, with at most one attempt under way."""

    __slots__ = ("socket", "member", "attempt", "read")

    def __init__(self, member):
        # Loopback: the kernel answers at once, so a blocking connect delays nobody.
        self.socket = socket.create_connection(("127.0.0.1", member.port), timeout=0.5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.member = member
        self.attempt = None
        self.read = b""


class Target:
    """A daemon as callers see it: its port, and the connections that are open to it."""

    def __init__(self, index, port):
        self.index, self.port = index, port
        self.idle = []
        self.open = 0
        self.is_dead = False


class Answers:
    """One entry an attempt, in the order of the answers. Times are seconds since the run began."""

    def __init__(self):
        self.caller, self.number, self.first_attempt = array("H"), array("H"), array("L")
        self.asked, self.answered = array("d"), array("d")
        self.member, self.code = array("B"), array("B")

    def add(self, attempt, answered, member, code):
        self.caller.append(attempt.caller.index)
        self.number.append(min(attempt.number, 65535))
        self.first_attempt.append(attempt.first_attempt)
        self.asked.append(attempt.asked)
        self.answered.append(answered)
        self.member.append(member)
        self.code.append(code)

    def __len__(self):
        return len(self.code)


def population(kinds, scale, seed=1):
    """Callers as `kinds` has them: rows of kind, habit, number, attempts a second of each."""
    draw = random.Random(seed)
    callers = []
    for kind, habit, number, a_second in kinds:
        for _ in range(max(1, round(number * scale))):
            callers.append(Caller(len(callers), kind, habit, 1 / a_second, draw.random() / a_second))
    return callers


class LoadGenerator:
    """All callers at work. `add_member` may be called from another thread while `run` is at work."""

    def __init__(self, callers, ports, seed=2):
        self.callers = callers
        self.draw = random.Random(seed)
        self.targets = []
        self.alive = []
        for port in ports:
            self.add_member(port)
        for number, caller in enumerate(one for one in callers if one.habit == STICKY):
            caller.member = self.alive[number % len(self.alive)]
        self.answers = Answers()
        self.late = array("d")
        self.unsent = self.unanswered = self.broken = self.moved = 0
        self.cpu_s = 0.0
        self.begun = None
        self.poll = None
        self.by_fd = {}
        self.events = []
        self.under_way = deque()

    def add_member(self, port):
        target = Target(len(self.targets), port)
        self.targets.append(target)
        self.alive = [*self.alive, target]

    def now(self):
        return time.monotonic() - self.begun

    def run(self, seconds):
        """Sends first attempts for so many seconds and ends when all of them are answered, a second later at the latest."""
        self.poll = select.epoll()
        self.events = [(caller.phase_s, caller.index, None) for caller in self.callers]
        heapq.heapify(self.events)
        self.begun = self.begun or time.monotonic()
        cpu = time.thread_time()
        try:
            while True:
                now = self.now()
                while self.events and self.events[0][0] <= now:
                    due, index, retry = heapq.heappop(self.events)
                    self.send_due(due, self.callers[index], retry, seconds)
                self.expire(now)
                if now >= seconds and not self.under_way:
                    break
                pause = self.events[0][0] - self.now() if self.events else 0.05
                for fd, _ in self.poll.poll(min(max(pause, 0.0), 0.05), 256):
                    if connection := self.by_fd.get(fd):
                        self.receive(connection)
        finally:
            self.cpu_s = time.thread_time() - cpu
            for connection in list(self.by_fd.values()):
                self.close(connection)
            self.poll.close()
        return self.answers

    def send_due(self, due, caller, retry, seconds):
        """Sends a first attempt, or a retry unless a later first attempt has taken its place. Nothing is sent after the end."""
        if due >= seconds:
            return
        if retry is None:
            attempt = Attempt(caller, 0, caller.first_attempts)
            caller.first_attempts += 1
            # From the number, not from the last instant: sums of periods drift.
            caller.next_due = caller.phase_s + caller.first_attempts * caller.period_s
            heapq.heappush(self.events, (caller.next_due, caller.index, None))
            caller.attempt = attempt
        elif caller.attempt is retry:
            attempt = Attempt(caller, retry.number + 1, retry.first_attempt)
            caller.attempt = attempt
        else:
            return
        attempt.asked = self.now()
        self.late.append(attempt.asked - due)
        self.send(attempt)

    def send(self, attempt):
        """Sends to the caller's daemon, or to another one if that refuses connections."""
        caller = attempt.caller
        while alive := self.alive:
            target = caller.member or self.draw.choice(alive)
            if target.is_dead:
                caller.member = self.draw.choice(alive)
                caller.moved_at = attempt.asked
                self.moved += 1
                continue
            try:
                connection = target.idle.pop() if target.idle else self.connect(target)
            except ConnectionRefusedError:
                self.mark_dead(target)
                continue
            except OSError:
                connection = None
            if connection is None:
                self.unsent += 1
                return
            connection.attempt, attempt.connection = attempt, connection
            again = b"tidegate-attempt: %d\r\n" % attempt.number if attempt.number else b""
            try:
                connection.socket.send(caller.head + again + caller.body)
            except OSError:
                self.close(connection)
                self.broken += 1
                continue
            self.under_way.append(attempt)
            return
        self.unsent += 1

    def connect(self, target):
        if target.open >= CONNECTIONS_PER_MEMBER_MAX:
            return None
        connection = Connection(target)
        target.open += 1
        fd = connection.socket.fileno()
        self.by_fd[fd] = connection
        self.poll.register(fd, select.EPOLLIN)
        return connection

    def mark_dead(self, target):
        target.is_dead = True
        self.alive = [one for one in self.alive if one is not target]
        for connection in target.idle[:]:
            self.close(connection)

    def close(self, connection):
        fd = connection.socket.fileno()
        if self.by_fd.pop(fd, None) is None:
            return
        self.poll.unregister(fd)
        connection.socket.close()
        connection.member.open -= 1
        if connection in connection.member.idle:
            connection.member.idle.remove(connection)

    def receive(self, connection):
        try:
            data = connection.socket.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close(connection)
            if attempt := connection.attempt:
                # The daemon may be gone: a new connection finds out.
                for idle in connection.member.idle[:]:
                    self.close(idle)
                connection.attempt = attempt.connection = None
                self.broken += 1
                self.send(attempt)
            return
        connection.read += data
        codes, _ = load.parse_http(connection.read)
        if codes and connection.attempt:
            attempt, connection.attempt, connection.read = connection.attempt, None, b""
            attempt.connection = None
            connection.member.idle.append(connection)
            self.answered(attempt, connection.member.index, codes[0])

    def expire(self, now):
        """Gives up on attempts that were not answered in time, and closes their connections."""
        while self.under_way:
            attempt = self.under_way[0]
            if connection := attempt.connection:
                if now - attempt.asked < ANSWER_WITHIN_S:
                    return
                connection.attempt = attempt.connection = None
                self.close(connection)
                self.unanswered += 1
                self.answered(attempt, connection.member.index, load.LOST)
            self.under_way.popleft()

    def answered(self, attempt, member, code):
        now = self.now()
        self.answers.add(attempt, now, member, code)
        caller = attempt.caller
        if code == load.ADMITTED:
            caller.refused_since = None
            if caller.attempt is attempt:
                caller.attempt = None
            return
        if caller.refused_since is None:
            caller.refused_since = attempt.asked
        if caller.habit in (GREEDY, WARM) or caller.attempt is not attempt:
            return
        is_persistent = now - caller.refused_since > PERSISTENT_FOR_S
        due = max(now, attempt.asked + (PERSISTENT_RETRY_AFTER_S if is_persistent else RETRY_AFTER_S))
        if due < caller.next_due:
            heapq.heappush(self.events, (due, caller.index, attempt))


def check_against_a_stub():
    """Runs two callers against a daemon that refuses for 1.2 s and a daemon that is gone, and looks at every attempt."""
    import http.server
    import threading

    begun = time.monotonic()

    class Stub(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            self.rfile.read(int(self.headers["content-length"]))
            is_admitted = time.monotonic() - begun > 1.2
            body = b"{}" if is_admitted else b'{"reason":"rate_exceeded"}'
            self.send_response(200 if is_admitted else 429)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with socket.create_server(("127.0.0.1", 0)) as closed:
        gone = closed.getsockname()[1]
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        generator = LoadGenerator(population([("slow", STICKY, 2, 2.0)], 1), [gone, server.server_port])
        begun = time.monotonic()
        seen = generator.run(3.0)
    finally:
        server.shutdown()
        server.server_close()
    assert generator.moved == 1 and generator.unsent == generator.unanswered == 0, "the caller of the daemon that is gone moves once"
    for caller in generator.callers:
        attempts = [one for one in zip(seen.first_attempt, seen.number, seen.asked, seen.code, seen.caller) if one[4] == caller.index]
        first = [asked for _, number, asked, _, _ in attempts if number == 0]
        assert len(first) == 6, "two first attempts a second for three seconds"
        assert all(abs(at - caller.phase_s - 0.5 * number) < 0.05 for number, at in enumerate(first)), "first attempts are even"
        for before, after in zip(attempts, attempts[1:]):
            if after[1]:
                assert before[3] != load.ADMITTED and before[0] == after[0], "retries follow refusals of the same first attempt"
                assert RETRY_AFTER_S <= after[2] - before[2] < RETRY_AFTER_S + 0.05, "retries come every 100 ms"
        assert all(code == load.ADMITTED for _, _, asked, code, _ in attempts if asked > 1.25), "admitted once the daemon admits"
        assert max(number for _, number, _, _, _ in attempts) == 4, "the next first attempt takes the place of the fifth retry"
    print("two callers against a stub: first attempts, retries and the change of daemon come as they should")


if __name__ == "__main__":
    check_against_a_stub()
