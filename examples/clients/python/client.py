"""A well-behaved HTTP client of a rate-limited API, with the standard library alone.

    python3 client.py URL CALLS

sends CALLS requests one after the other and prints one JSON line: `admitted`, `refused`, `retried`,
`gave_up` and `waited_ms`. docs/consumers.md explains each rule.
"""

import email.utils
import json
import random
import re
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field

# A request refused for one of these reasons is never admitted, however often it is sent.
NEVER = frozenset({"attribute_missing", "cost_exceeds_limit", "deadline_unmeetable"})
IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
BODY_BYTES_MAX = 1 << 20


@dataclass
class Answer:
    """The last answer to a call."""

    status: int
    headers: dict
    body: bytes
    gave_up: str = ""  # why the call was not repeated; empty for a call that succeeded


@dataclass
class Counts:
    """The outcomes of the calls so far."""

    admitted: int = 0  # calls that ended with a status below 400
    refused: int = 0  # answers with 429 or 503
    retried: int = 0  # requests that repeated an earlier one
    gave_up: int = 0  # calls that ended in any other way
    waited_ms: int = 0


@dataclass
class RetryBudget:
    """Permits one retry for every ten calls, and `reserve` retries beyond that."""

    ratio: float = 0.1
    reserve: float = 10.0
    _balance: float = field(init=False)

    def __post_init__(self):
        self._balance = self.reserve

    def record_call(self):
        # The cap stops a long quiet time from saving up a storm of retries.
        self._balance = min(self._balance + self.ratio, max(self.reserve, 10.0))

    def take(self):
        # The tolerance absorbs the rounding error of ten times 0.1.
        if self._balance < 1.0 - 1e-9:
            return False
        self._balance -= 1.0
        return True


class Client:
    """Sends requests, waits as the server says, and gives up in time.

    `sleep`, `random` and `now` are arguments so that tests need no real time.
    """

    def __init__(self, *, attempts_max=5, patience_s=30.0, backoff_base_s=0.1, backoff_max_s=10.0,
                 pause_max_s=2.0, timeout_s=10.0, budget=None, sleep=time.sleep,
                 random=random.random, now=time.time):
        self.attempts_max = attempts_max
        self.patience_s = patience_s
        self.backoff_base_s = backoff_base_s
        self.backoff_max_s = backoff_max_s
        self.pause_max_s = pause_max_s
        self.timeout_s = timeout_s
        self.budget = budget or RetryBudget()
        self.counts = Counts()
        self._sleep, self._random, self._now = sleep, random, now
        self._pause_s = 0.0

    def call(self, url, method="GET", body=None, headers=None):
        """Sends one request, and repeats it while the server asks for that."""
        self.budget.record_call()
        patience_s = self.patience_s
        # The previous answer said that little is left: slow down instead of being refused.
        pause_s, self._pause_s = min(self._pause_s, patience_s), 0.0
        self._wait(pause_s)
        patience_s -= pause_s
        ticket = None
        for attempt in range(self.attempts_max):
            answer = self._send(url, method, body, headers, attempt, ticket)
            if answer.status not in (429, 503):
                break
            self.counts.refused += 1
            retry_after_s = retry_after(answer.headers, self._now())
            ticket = answer.headers.get("tidegate-ticket")
            # The seconds of tickets are spread already, and each is reserved for its bearer.
            wait_s = (retry_after_s or 0.0) + (0.0 if ticket else self._backoff(attempt))
            if is_never(answer):
                answer.gave_up = "the same request is never admitted"
            elif not may_repeat(method, answer, retry_after_s):
                answer.gave_up = "the request may have been processed"
            elif attempt + 1 == self.attempts_max:
                answer.gave_up = f"{self.attempts_max} attempts were refused"
            elif wait_s > patience_s:
                answer.gave_up = f"the next attempt is {wait_s:.1f} s away"
            elif not ticket and not self.budget.take():
                answer.gave_up = "the retry budget is empty"
            if answer.gave_up:
                break
            self._wait(wait_s)
            patience_s -= wait_s
            self.counts.retried += 1
        if answer.status < 400:
            self.counts.admitted += 1
            self._pause_s = min(pause(answer.headers), self.pause_max_s)
        else:
            self.counts.gave_up += 1
            answer.gave_up = answer.gave_up or f"status {answer.status} is not repeated"
        return answer

    def _send(self, url, method, body, headers, attempt, ticket):
        request = urllib.request.Request(url, data=body, method=method, headers=dict(headers or {}))
        if attempt > 0:
            request.add_header("tidegate-attempt", str(attempt))
        if ticket:
            request.add_header("tidegate-ticket", ticket)
        try:
            with urllib.request.urlopen(request, timeout=self.timeout_s) as response:
                return Answer(response.status, lower(response.headers), response.read(BODY_BYTES_MAX))
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, lower(error.headers), error.read(BODY_BYTES_MAX))

    def _backoff(self, attempt):
        """Exponential backoff with full jitter: anything from 0 to a bound that doubles."""
        return self._random() * min(self.backoff_max_s, self.backoff_base_s * 2**attempt)

    def _wait(self, seconds):
        if seconds > 0:
            self.counts.waited_ms += round(seconds * 1000)
            self._sleep(seconds)


def lower(headers):
    """The headers by lower-case name. A header that is repeated is joined with commas."""
    return {name.lower(): ", ".join(headers.get_all(name)) for name in headers}


def retry_after(headers, now):
    """The seconds that `Retry-After` asks for, or None if it is absent or unreadable."""
    value = headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,9}", value):
        return float(value)
    at = http_date(value)
    if at is None:
        return None
    # Both dates come from the server, so a wrong clock here does no harm.
    sent = http_date(headers.get("date", ""))
    return max(0.0, at - (now if sent is None else sent))


def http_date(value):
    try:
        return email.utils.parsedate_to_datetime(value).timestamp()
    except (TypeError, ValueError, IndexError):
        return None


def is_never(answer):
    """Whether the refusal says that waiting is of no use."""
    if answer.headers.get("x-tidegate-reason") in NEVER:
        return True
    if not answer.headers.get("content-type", "").startswith("application/problem+json"):
        return False
    try:
        problem = json.loads(answer.body)
    except ValueError:
        return False
    return isinstance(problem, dict) and (problem.get("retry") == "never" or problem.get("reason") in NEVER)


def may_repeat(method, answer, retry_after_s):
    """Whether repeating is safe: the server refused the request, or the method is idempotent."""
    is_refusal = answer.status == 429 or retry_after_s is not None or "x-tidegate-reason" in answer.headers
    return is_refusal or method.upper() in IDEMPOTENT


def pause(headers):
    """Seconds to wait before the next call, read from `RateLimit` and `RateLimit-Policy`.

    A limit with less than a fifth left has its remaining units spread over the time until it is full.
    """
    quotas = {name: values["q"] for name, values in items(headers.get("ratelimit-policy", "")) if "q" in values}
    longest = 0.0
    for name, values in items(headers.get("ratelimit", "")):
        left, seconds = values.get("r"), values.get("t")
        if left is not None and seconds is not None and (left == 0 or left * 5 < quotas.get(name, 0)):
            longest = max(longest, seconds / (left + 1))
    return longest


def items(value):
    """The items of a list such as `"per-user";r=2;t=1, "per-app";r=4;t=60`."""
    for name, parameters in re.findall(r'"((?:[^"\\]|\\.)*)"((?:\s*;[^,"]*(?:"[^"]*")?)*)', value):
        yield name, {key: int(number) for key, number in re.findall(r";\s*([a-z]+)=([0-9]{1,15})", parameters)}


def main(arguments):
    if len(arguments) != 2 or not arguments[1].isdigit():
        print("usage: client.py URL CALLS", file=sys.stderr)
        return 2
    client = Client()
    for _ in range(int(arguments[1])):
        client.call(arguments[0])
    print(json.dumps(vars(client.counts)))
    return 0 if client.counts.gave_up == 0 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
