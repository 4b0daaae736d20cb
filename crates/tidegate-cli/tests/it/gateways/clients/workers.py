"""Workers that ask, read the answer, close, work 50 ms and release, each time anew.

Arguments: the kind of client (http.client, redis, curl), its address, and the number of requests.
Prints how many there were, how many were at work at once at most, and how many releases failed.
"""

import http.client
import json
import subprocess
import sys
import threading
import time

KIND, ADDRESS, COUNT = sys.argv[1], sys.argv[2], int(sys.argv[3])
HOST, PORT = ADDRESS.rsplit(":", 1)
WORKERS = 12
CHECK = json.dumps({"namespace": "shop", "resource": "app", "wait_ms": 10_000})


def with_http_client(path, body):
    connection = http.client.HTTPConnection(HOST, int(PORT), timeout=30)
    connection.request("POST", path, body)
    answer = connection.getresponse()
    status, text = answer.status, answer.read()
    connection.close()
    return status, json.loads(text)


def with_curl(path, body):
    arguments = ["curl", "-s", "-w", "\n%{http_code}", "-d", body, f"http://{ADDRESS}{path}"]
    text, status = subprocess.run(arguments, capture_output=True, check=True).stdout.rsplit(b"\n", 1)
    return int(status), json.loads(text)


def over_http(ask):
    def take():
        status, answer = ask("/v1/check", CHECK)
        return answer.get("permit") if status == 200 else None

    def release(permit):
        return ask("/v1/release", json.dumps({"permit": permit}))[0] == 200

    return take, release


def over_redis():
    import redis

    def ask(*words):
        client = redis.Redis(host=HOST, port=int(PORT), protocol=3, decode_responses=True)
        try:
            return client.execute_command(*words)
        finally:
            client.close()

    def take():
        answer = ask("TG.CHECK", "shop", "RELEASE", "resource", "app")
        if not isinstance(answer, dict):
            answer = dict(zip(answer[::2], answer[1::2]))
        return answer.get("permit")

    def release(permit):
        return ask("TG.RELEASE", permit) == "OK"

    return take, release


take, release = {
    "http.client": lambda: over_http(with_http_client),
    "curl": lambda: over_http(with_curl),
    "redis": over_redis,
}[KIND]()
lock = threading.Lock()
left, at_work, most, failed = COUNT, 0, 0, 0


def work():
    global left, at_work, most, failed
    while True:
        with lock:
            if left == 0:
                return
        permit = take()
        if permit is None:
            time.sleep(0.01)
            continue
        with lock:
            left = max(left - 1, 0)
            at_work += 1
            most = max(most, at_work)
        time.sleep(0.05)
        with lock:
            at_work -= 1
        if not release(permit):
            with lock:
                failed += 1


threads = [threading.Thread(target=work) for _ in range(WORKERS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(most, failed)
