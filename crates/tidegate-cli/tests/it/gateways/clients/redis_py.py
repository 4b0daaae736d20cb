"""redis-py with its defaults, in RESP3 and in RESP2."""

import sys

import redis

host, port = sys.argv[1].rsplit(":", 1)
for protocol in (None, 2, 3):
    options = {"protocol": protocol} if protocol else {}
    client = redis.Redis(host=host, port=int(port), **options)
    key = f"redis-py-{protocol}"
    assert client.ping() is True
    replies = [client.execute_command("CL.THROTTLE", key, 4, 5, 600) for _ in range(15)]
    assert [reply[0] for reply in replies] == [0] * 5 + [1] * 10, replies
    assert replies[0][:4] == [0, 5, 4, -1] and replies[5][3] > 0, replies
    assert client.delete(key) == 1
    assert client.execute_command("CL.THROTTLE", key, 4, 5, 600)[:3] == [0, 5, 4]
    checks = [client.execute_command("TG.CHECK", "api", "user", key) for _ in range(6)]
    assert checks[5] != checks[4] and "rate_exceeded" in str(checks[5]), checks
    with client.pipeline(transaction=False) as pipeline:
        for _ in range(40):
            pipeline.execute_command("CL.THROTTLE", key + "-pipelined", 4, 5, 600)
        assert [reply[0] for reply in pipeline.execute()] == [0] * 5 + [1] * 35
    client.close()
print("held")
