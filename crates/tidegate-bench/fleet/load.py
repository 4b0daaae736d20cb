"""The load: requests by a schedule, whatever becomes of those before, and when each was asked and answered.

One connection for each member. Requests that are due are written without waiting for answers, so a slow answer delays those
behind it on its connection, and that is part of their time.
"""

import random
import select
import socket
import time
from array import array
from collections import deque

ADA = b'{"namespace":"api","attributes":{"user":"ada"}}'
CHECK = b"POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-length: %d\r\n\r\n%b" % (len(ADA), ADA)

ADMITTED, RATE, STORE, QUOTA, OTHER, LOST = range(6)
NAMES = ["admitted", "rate_exceeded", "store_unavailable", "quota_exceeded", "other", "lost"]
REASONS = {b'"rate_exceeded"': RATE, b'"store_unavailable"': STORE, b'"quota_exceeded"': QUOTA}


def schedule(kind, members, a_second, seconds, seed=1):
    """Instants in order with the member that is asked, from 0 on."""
    draw = random.Random(seed)
    turn = list(range(members))
    for number in range(int(a_second * seconds)):
        if kind == "bursty":
            second, place = divmod(number, int(a_second))
            at = second + 0.1 * place / a_second
        else:
            # Evenly, but for a shift that keeps it out of step with everything else that is
            # regular.
            at = (number + draw.random()) / a_second
        if kind in ("skewed", "moving") and members > 1:
            hot = int(at / 10) % members if kind == "moving" else 0
            cold = draw.randrange(members - 1)
            member = hot if draw.random() < 0.8 else cold + (cold >= hot)
        else:
            # Each once in a turn, in another order each time: in the same order, a rate that a turn
            # is a whole multiple of would let the same member in again and again.
            if number % members == 0:
                draw.shuffle(turn)
            member = turn[number % members]
        yield at, member


def parse_http(buffer):
    """Codes of the whole answers in the buffer, and where the rest begins."""
    codes, start = [], 0
    while True:
        head = buffer.find(b"\r\n\r\n", start)
        if head < 0:
            return codes, start
        at = buffer.find(b"content-length: ", start, head)
        length = int(buffer[at + 16:buffer.find(b"\r\n", at)]) if at >= 0 else 0
        end = head + 4 + length
        if len(buffer) < end:
            return codes, start
        status = buffer[start + 9:start + 12]
        if status == b"200":
            codes.append(ADMITTED)
        else:
            body = bytes(buffer[head + 4:end])
            codes.append(next((code for text, code in REASONS.items() if text in body), OTHER))
        start = end


def parse_resp(buffer):
    """The same of the integers that a script answers."""
    codes, start = [], 0
    while (end := buffer.find(b"\r\n", start)) >= 0:
        codes.append(ADMITTED if buffer[start:end] == b":1" else RATE if buffer[start:end] == b":0" else OTHER)
        start = end + 2
    return codes, start


class Caller:
    """One connection with the requests under way on it."""

    def __init__(self, member, port):
        self.member = member
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.waiting, self.out, self.read, self.is_open = deque(), bytearray(), bytearray(), True

    def fileno(self):
        return self.socket.fileno()

    def flush(self):
        if self.out and self.is_open:
            try:
                del self.out[:self.socket.send(self.out)]
            except BlockingIOError:
                pass
            except OSError:
                self.is_open = False


class Seen:
    """What was seen: one entry a request, in the order of the answers."""

    def __init__(self):
        self.asked, self.answered = array("d"), array("d")
        self.member, self.code = array("B"), array("B")
        self.late = array("d")
        self.begun = 0.0
        self.clocks_apart_s = 0.0

    def add(self, asked, answered, member, code):
        self.asked.append(asked)
        self.answered.append(answered)
        self.member.append(member)
        self.code.append(code)

    def count(self, code):
        return sum(1 for one in self.code if one == code)

    def admissions(self):
        return [(a, b) for a, b, code in zip(self.asked, self.answered, self.code) if code == ADMITTED]


def run(ports, plan, request=CHECK, parse=parse_http, enough=None):
    """Carries the plan out; times are in seconds from its beginning. Ends two seconds after the last request at the latest, or
    when `enough` says so."""
    callers = [Caller(index, port) for index, port in enumerate(ports)]
    seen = Seen()
    plan = iter(plan)
    due = next(plan, None)
    begun = seen.begun = time.monotonic()
    apart = time.time() - begun
    end = None
    try:
        while True:
            now = time.monotonic() - begun
            touched = set()
            while due and due[0] <= now:
                caller = callers[due[1]]
                seen.late.append(now - due[0])
                if caller.is_open:
                    caller.out += request
                    caller.waiting.append(now)
                    touched.add(caller)
                else:
                    seen.add(now, now, caller.member, LOST)
                due = next(plan, None)
            for caller in touched:
                caller.flush()
            open_ones = [caller for caller in callers if caller.is_open]
            if not due and end is None:
                end = now + 2.0
            if end is not None and (now > end or not any(caller.waiting for caller in open_ones)):
                break
            if enough and enough(seen, now):
                break
            pause = min(max((due[0] - now) if due else 0.05, 0.0), 0.05)
            writers = [caller for caller in open_ones if caller.out]
            for caller in select.select(open_ones, writers, [], pause)[0]:
                take(caller, parse, seen, begun)
            for caller in writers:
                caller.flush()
            for caller in open_ones:
                if not caller.is_open:
                    give_up(caller, seen, time.monotonic() - begun)
    finally:
        for caller in callers:
            give_up(caller, seen, time.monotonic() - begun)
            caller.socket.close()
    seen.clocks_apart_s = time.time() - time.monotonic() - apart
    return seen


def take(caller, parse, seen, begun):
    try:
        data = caller.socket.recv(1 << 18)
    except BlockingIOError:
        return
    except OSError:
        data = b""
    answered = time.monotonic() - begun
    if not data:
        caller.is_open = False
        return
    caller.read += data
    codes, rest = parse(caller.read)
    if rest:
        del caller.read[:rest]
    for code in codes:
        seen.add(caller.waiting.popleft(), answered, caller.member, code)


def give_up(caller, seen, now):
    """What was asked and not answered is lost: it may have been admitted, and nobody was told."""
    while caller.waiting:
        seen.add(caller.waiting.popleft(), now, caller.member, LOST)
