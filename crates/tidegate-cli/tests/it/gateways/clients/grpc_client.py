"""grpcio: the rate limit service, health and reflection."""

import sys

import grpc
from envoy.service.ratelimit.v3 import rls_pb2, rls_pb2_grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

OK, OVER = rls_pb2.RateLimitResponse.OK, rls_pb2.RateLimitResponse.OVER_LIMIT
SERVICE = "envoy.service.ratelimit.v3.RateLimitService"


def request(domain, *entries, hits=0):
    message = rls_pb2.RateLimitRequest(domain=domain, hits_addend=hits)
    for key, value in entries:
        message.descriptors.add().entries.add(key=key, value=value)
    return message


with grpc.insecure_channel(sys.argv[1]) as channel:
    limits = rls_pb2_grpc.RateLimitServiceStub(channel)
    answers = [limits.ShouldRateLimit(request("api", ("user", "ada")), timeout=5) for _ in range(15)]
    assert [answer.overall_code for answer in answers] == [OK] * 5 + [OVER] * 10, answers
    assert [answer.statuses[0].limit_remaining for answer in answers] == [4, 3, 2, 1, 0] + [0] * 10
    assert answers[0].statuses[0].current_limit.requests_per_unit == 5
    headers = {header.key.lower(): header.value for header in answers[5].response_headers_to_add}
    assert 590 <= int(headers["retry-after"]) <= 601, headers
    # In the same order: one status for each descriptor.
    both = limits.ShouldRateLimit(request("api", ("user", "ada"), ("user", "grace")), timeout=5)
    assert [status.code for status in both.statuses] == [OVER, OK], both
    # The one that was not over was not charged either.
    four = limits.ShouldRateLimit(request("api", ("user", "grace"), hits=5), timeout=5)
    assert four.overall_code == OK, four
    assert limits.ShouldRateLimit(request("nowhere", ("user", "ada")), timeout=5).overall_code == OK
    for bad in (request(""), request("", ("user", "ada")), request("api")):
        try:
            limits.ShouldRateLimit(bad, timeout=5)
            raise AssertionError(f"{bad} was answered")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error

    health = health_pb2_grpc.HealthStub(channel)
    for name in ("", "ratelimit", SERVICE):
        answer = health.Check(health_pb2.HealthCheckRequest(service=name), timeout=5)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING, name

    reflection = reflection_pb2_grpc.ServerReflectionStub(channel)
    question = reflection_pb2.ServerReflectionRequest(list_services="")
    answer = next(iter(reflection.ServerReflectionInfo(iter([question]), timeout=5)))
    services = [service.name for service in answer.list_services_response.service]
    assert SERVICE in services and "grpc.health.v1.Health" in services, services
print("held")
