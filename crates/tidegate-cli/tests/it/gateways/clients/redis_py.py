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
    # By default a pipeline is a transaction.
    with client.pipeline() as pipeline:
        for _ in range(40):
            pipeline.execute_command("CL.THROTTLE", key + "-at-once", 4, 5, 600)
        pipeline.execute_command("TG.CHECK", "api", "user", key + "-at-once")
        replies = pipeline.execute()
    assert [reply[0] for reply in replies[:40]] == [0] * 5 + [1] * 35, replies
    assert "admit" in str(replies[40]), replies
    # A command that cannot be queued makes all of them void: nothing is charged.
    with client.pipeline() as pipeline:
        pipeline.execute_command("CL.THROTTLE", key + "-void", 0, 5, 600)
        pipeline.execute_command("GET", "x")
        try:
            replies = pipeline.execute()
            raise AssertionError(f"{replies} were answered")
        except redis.exceptions.ResponseError as error:
            assert "unknown command" in str(error), error
    assert client.execute_command("CL.THROTTLE", key + "-void", 0, 5, 600)[0] == 0
    client.close()
print("held")
