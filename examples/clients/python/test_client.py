"""Tests of client.py against a server with scripted answers. No test sleeps.

    python3 -m unittest -v test_client
"""

import contextlib
import io
import json
import threading
import unittest
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, HTTPServer

from client import Client, RetryBudget, items, main, pause

NOW = 1_800_000_000
PROBLEM = {"content-type": "application/problem+json"}


class Script(HTTPServer):
    """Answers request number n with `answers[n]`, the last one again and again."""

    def __init__(self, answers):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.seen, self.tickets = answers, [], []
        self.url = f"http://127.0.0.1:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.rfile.read(int(self.headers.get("content-length", 0)))
        script = self.server
        status, headers, body = script.answers[min(len(script.seen), len(script.answers) - 1)]
        script.seen.append(self.headers.get("tidegate-attempt"))
        script.tickets.append(self.headers.get("tidegate-ticket"))
        self.send_response_only(status)
        for name, value in {"content-length": len(body), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        pass


def answer(status, headers=None, body=None):
    return status, headers or {}, json.dumps(body).encode() if body else b""


OK = answer(200)


class ClientTest(unittest.TestCase):
    def serve(self, *answers):
        server = Script(answers)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        return server

    def client(self, **settings):
        self.waits = []
        defaults = {"sleep": self.waits.append, "random": lambda: 0.5, "now": lambda: NOW}
        return Client(**{**defaults, **settings})

    def test_seconds_are_waited_in_full_and_jitter_is_added(self):
        server = self.serve(answer(429, {"retry-after": 3}), OK)
        client = self.client()
        self.assertEqual(client.call(server.url).status, 200)
        self.assertEqual(self.waits, [3.05])
        self.assertEqual(server.seen, [None, "1"])
        self.assertEqual(vars(client.counts), {"admitted": 1, "refused": 1, "retried": 1, "gave_up": 0, "waited_ms": 3050})

    def test_a_ticket_is_shown_after_its_wait_without_jitter_and_takes_nothing_from_the_budget(self):
        server = self.serve(
            answer(503, {"retry-after": 20, "tidegate-ticket": "one"}),
            answer(503, {"retry-after": 3, "tidegate-ticket": "two"}),
            answer(503, {"retry-after": 1}),
            OK,
        )
        client = self.client(budget=RetryBudget(ratio=0.0, reserve=1.0))
        self.assertEqual(client.call(server.url).status, 200)
        self.assertEqual((self.waits, server.tickets), ([20.0, 3.0, 1.2], [None, "one", "two", None]))

    def test_a_date_is_compared_with_the_date_of_the_answer(self):
        dates = {"date": formatdate(NOW - 500, usegmt=True), "retry-after": formatdate(NOW - 493, usegmt=True)}
        server = self.serve(answer(429, dates), OK)
        self.assertEqual(self.client(random=lambda: 0.0).call(server.url).status, 200)
        self.assertEqual(self.waits, [7.0])

    def test_a_date_without_a_date_of_the_answer_is_compared_with_the_clock(self):
        server = self.serve(answer(503, {"retry-after": formatdate(NOW + 9, usegmt=True)}), OK)
        self.assertEqual(self.client(random=lambda: 0.0).call(server.url).status, 200)
        self.assertEqual(self.waits, [9.0])

    def test_without_retry_after_the_backoff_doubles_up_to_its_bound(self):
        server = self.serve(answer(503))
        result = self.client(attempts_max=5, backoff_max_s=0.4).call(server.url)
        self.assertEqual(self.waits, [0.05, 0.1, 0.2, 0.2])
        self.assertEqual((result.status, result.gave_up), (503, "5 attempts were refused"))
        self.assertEqual(server.seen, [None, "1", "2", "3", "4"])

    def test_jitter_is_full(self):
        server = self.serve(answer(503), answer(503), OK)
        draws = iter([0.0, 0.999])
        self.client(random=lambda: next(draws)).call(server.url)
        self.assertEqual(self.waits, [0.1998])

    def test_an_unreadable_retry_after_counts_as_absent(self):
        for value in ("soon", "-1", "1.5", ""):
            server = self.serve(answer(429, {"retry-after": value}), OK)
            self.client().call(server.url)
            self.assertEqual(self.waits, [0.05], value)

    def test_a_wait_beyond_the_patience_of_the_caller_is_not_begun(self):
        server = self.serve(answer(429, {"retry-after": 3600}))
        result = self.client(patience_s=5.0).call(server.url)
        self.assertEqual((self.waits, server.seen), ([], [None]))
        self.assertIn("3600.1 s away", result.gave_up)

    def test_patience_is_for_all_waits_of_a_call_together(self):
        server = self.serve(answer(429, {"retry-after": 3}))
        self.client(patience_s=7.0, random=lambda: 0.0).call(server.url)
        self.assertEqual(self.waits, [3.0, 3.0])

    def test_a_bad_request_is_not_repeated(self):
        server = self.serve(answer(400, {"x-tidegate-reason": "attribute_missing"}))
        client = self.client()
        result = client.call(server.url)
        self.assertEqual((server.seen, result.gave_up), ([None], "status 400 is not repeated"))
        self.assertEqual((client.counts.refused, client.counts.gave_up), (0, 1))

    def test_never_is_read_from_the_problem_body(self):
        server = self.serve(answer(429, PROBLEM, {"reason": "cost_exceeds_limit", "retry": "never"}))
        result = self.client().call(server.url)
        self.assertEqual((server.seen, self.waits), ([None], []))
        self.assertEqual(result.gave_up, "the same request is never admitted")

    def test_never_is_read_from_the_header_of_a_gateway(self):
        for reason in ("cost_exceeds_limit", "deadline_unmeetable"):
            server = self.serve(answer(503, {"x-tidegate-reason": reason}))
            self.client().call(server.url)
            self.assertEqual((server.seen, self.waits), ([None], []))

    def test_a_body_that_is_no_problem_is_ignored(self):
        for headers, body in ((PROBLEM, b"{"), (PROBLEM, b"[]"), ({}, b'{"retry":"never"}')):
            server = self.serve((429, headers, body), OK)
            self.assertEqual(self.client().call(server.url).status, 200)

    def test_a_refused_post_is_repeated_and_an_unexplained_503_is_not(self):
        refused = self.serve(answer(503, {"x-tidegate-reason": "overload_shed", "retry-after": 1}), OK)
        self.assertEqual(self.client().call(refused.url, "POST", b"x").status, 200)
        unexplained = self.serve(answer(503))
        result = self.client().call(unexplained.url, "POST", b"x")
        self.assertEqual((unexplained.seen, result.gave_up), ([None], "the request may have been processed"))

    def test_a_tenth_of_the_calls_may_be_retries(self):
        server = self.serve(answer(429))
        client = self.client(budget=RetryBudget(reserve=0.0))
        for _ in range(100):
            client.call(server.url)
        self.assertEqual((client.counts.retried, len(server.seen)), (10, 110))

    def test_the_reserve_permits_retries_of_the_first_calls(self):
        server = self.serve(answer(429))
        client = self.client(attempts_max=50, budget=RetryBudget(reserve=3.0))
        result = client.call(server.url)
        self.assertEqual((client.counts.retried, result.gave_up), (3, "the retry budget is empty"))

    def test_the_client_slows_down_when_little_is_left(self):
        limits = {"ratelimit-policy": '"a";q=10;w=60', "ratelimit": '"a";r=1;t=3'}
        server = self.serve(answer(200, limits), OK)
        client = self.client()
        client.call(server.url)
        self.assertEqual(self.waits, [])
        client.call(server.url)
        client.call(server.url)
        self.assertEqual((self.waits, client.counts.refused), ([1.5], 0))

    def test_a_pause_is_bounded(self):
        server = self.serve(answer(200, {"ratelimit": '"day";r=0;t=40000'}), OK)
        client = self.client()
        client.call(server.url)
        client.call(server.url)
        self.assertEqual(self.waits, [2.0])

    def test_the_pause_is_that_of_the_tightest_limit(self):
        policy = '"a, b;r=9";q=10;w=1, "c";q=100;w=60, "par";q=4;qu="concurrent-requests"'
        self.assertEqual(pause({"ratelimit-policy": policy, "ratelimit": '"a, b;r=9";r=1;t=1, "c";r=19;t=40, "par";r=0'}), 2.0)
        self.assertEqual(pause({"ratelimit-policy": policy, "ratelimit": '"c";r=20;t=40'}), 0.0)
        self.assertEqual(pause({"ratelimit": '"c";r=1;t=40'}), 0.0)
        self.assertEqual(pause({"ratelimit": "nonsense"}), 0.0)
        self.assertEqual(list(items('"x";q=5;qu="concurrent-requests";w=7, "y";q=1')), [("x", {"q": 5, "w": 7}), ("y", {"q": 1})])

    def test_main_prints_one_line_with_the_counts(self):
        server = self.serve(OK)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(main([server.url, "3"]), 0)
        counts = {"admitted": 3, "refused": 0, "retried": 0, "gave_up": 0, "waited_ms": 0}
        self.assertEqual(json.loads(out.getvalue()), counts)


if __name__ == "__main__":
    unittest.main()
