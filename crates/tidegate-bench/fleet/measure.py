#!/usr/bin/env python3
"""What a fleet of daemons on one Redis admits, what it asks the store for, and what becomes of it when something fails.

    cargo build --profile dist -p tidegate-cli
    python3 crates/tidegate-bench/fleet/measure.py target/dist/tidegate load latency recovery quota

Needs redis-server and redis-cli, and nothing of Python but itself. `--quick` takes a few minutes and says little; all of it takes
an hour. `--json FILE` appends a line of figures for each run. All traffic stays on loopback, everything ends by itself, and
every process is stopped by the one that started it.
"""

import argparse
import gc
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
import time

import load
import reckon
import stand

RATE, BURST = 1000, 1000
# A new record is empty. After so many seconds the bucket is full, which is when its bound is
# reached soonest.
FILLS = 3
# "refusing" is "leased" that spends nothing but leases while the store is silent.
LIMITS = {
    "leased": f"{{ name: rate, key: [user], rate: {RATE}/s }}",
    "refusing": f"{{ name: rate, key: [user], rate: {RATE}/s, on_store_failure: refuse }}",
    "exact": f"{{ name: rate, key: [user], rate: {RATE}/s, consistency: exact, on_store_failure: refuse }}",
    "local": f"{{ name: rate, key: [user], rate: {RATE}/s, consistency: local }}",
    "quota": "{ name: day, key: [user], fixed: { limit: 10000, window: 24h }, consistency: leased }",
}
# The members' bound beyond `R*W + B`, in units.
BEYOND = {"leased": RATE // 10, "refusing": RATE // 10, "exact": 0}

# The usual script, as people write it by hand.
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gcra.lua")) as file:
    BY_HAND = file.read()


class Measurement:
    def __init__(self, arguments, directory):
        self.program = arguments.tidegate
        self.quick = arguments.quick
        self.json = arguments.json
        self.consistencies = arguments.consistency
        self.kinds = arguments.only
        self.directory = directory

    def fleet(self, limit, count, store=None, relayed=()):
        """A fleet on a store of its own."""
        directory = tempfile.mkdtemp(dir=self.directory)
        made = (store or stand.Single)(directory) if limit != "local" else None
        return stand.Fleet(self.program, directory, made, LIMITS[limit], count, relayed)

    def keep(self, figures):
        if self.json:
            with open(self.json, "a") as file:
                file.write(json.dumps(figures) + "\n")

    def wants(self, name):
        return not self.kinds or name in self.kinds


def shares(seen, members):
    """The part refused of what each member was asked."""
    asked, refused = [0] * members, [0] * members
    for member, code in zip(seen.member, seen.code):
        asked[member] += 1
        refused[member] += code != load.ADMITTED
    return [round(100 * no / all_, 1) if all_ else None for no, all_ in zip(refused, asked)]


def figures_of(seen, consistency, members, seconds):
    admissions = seen.admissions()
    certain, by_answers, possible = reckon.over(admissions, RATE)
    answers = sorted(answered for _, answered in admissions)
    asked = sorted(seen.asked)

    def use(begin, end):
        """Of what a bucket that is full at the beginning of the span has no more than: the rate."""
        offered = reckon.within(asked, begin, end)
        return reckon.within(answers, begin, end) / max(1, min(offered, RATE * (end - begin)))

    times = [answered - asked for asked, answered, code in zip(seen.asked, seen.answered, seen.code)
             if code != load.LOST]
    return {
        "asked": len(asked),
        "codes": {name: count for code, name in enumerate(load.NAMES) if (count := seen.count(code))},
        "over": [round((one - BURST) / RATE, 4) for one in (certain, by_answers, possible)],
        "allowed": BEYOND.get(consistency, 0) / RATE,
        "use": round(use(0, seconds), 4),
        "use_after_10s": round(use(10, seconds), 4) if seconds > 15 else None,
        "refused_percent": shares(seen, members),
        "p50_us": round(1e6 * reckon.quantile(times, 0.5)),
        "p99_us": round(1e6 * reckon.quantile(times, 0.99)),
        "late_p99_us": round(1e6 * reckon.quantile(seen.late, 0.99)),
        "clocks_apart_us": round(1e6 * seen.clocks_apart_s),
    }


def one_load(measurement, consistency, members, kind, times, seconds):
    """One fleet under one load."""
    fleet = measurement.fleet(consistency, members)
    try:
        time.sleep(FILLS)
        before, cpu, store_cpu = fleet.totals(), fleet.cpu(), fleet.store.cpu()
        plan = load.schedule(kind, members, RATE * times, seconds)
        seen = load.run([member.port for member in fleet.members], plan)
        after = fleet.totals()
        asked = len(seen.asked)
        calls, asks = (after.get(name, 0) - before.get(name, 0)
                       for name in ("tidegate_store_calls_total", "tidegate_lease_asks_total"))
        figures = {
            "part": "load", "consistency": consistency, "members": members, "kind": kind, "times": times,
            "seconds": seconds, "calls": calls, "asks": asks,
            "calls_percent": round(100 * calls / asked, 4), "asks_percent": round(100 * asks / asked, 4),
            "store_cpu_us": round(1e6 * (fleet.store.cpu() - store_cpu) / asked, 2),
            "members_cpu_us": round(1e6 * (fleet.cpu() - cpu) / asked, 2),
        } | figures_of(seen, consistency, members, seconds)
    finally:
        fleet.stop()
    measurement.keep(figures)
    certain, by_answers, possible = figures["over"]
    refused = [one for one in figures["refused_percent"] if one is not None]
    ten = figures["use_after_10s"]
    print(f"| {consistency} | {members} | {kind} {times:g}x, {seconds} s | {certain:+.3f} ({by_answers:+.3f}, {possible:+.3f}) "
          f"| {figures['allowed']:g} | {100 * figures['use']:.1f} %{f' ({100 * ten:.1f} %)' if ten else ''} "
          f"| {asks:.0f} ({figures['asks_percent']:.3f} %) | {calls:.0f} ({figures['calls_percent']:.2f} %) "
          f"| {min(refused):.1f}-{max(refused):.1f} % | {figures['p50_us']} / {figures['p99_us']} |", flush=True)


def loads(measurement):
    print("\n| | members | load | beyond R*W + B, in R: for certain (by answers, possibly) | allowed | used (after 10 s) "
          "| asks for leases, of decisions | store calls in all | refused, least and most of a member | p50 / p99 us |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    seconds = 12 if measurement.quick else 60
    for consistency in measurement.consistencies:
        for members in (1, 3, 10):
            kinds = [("steady", 0.88), ("overload", 3), ("bursty", 0.88)]
            if members > 1:
                kinds += [("skewed", 0.88), ("moving", 0.88)]
            if members == 10:
                kinds += [("skewed", 3), ("moving", 3), ("bursty", 3)]
            for kind, times in kinds:
                if measurement.wants(f"{members}-{kind}-{times:g}"):
                    long = (members, kind) == (10, "overload") and not measurement.quick
                    one_load(measurement, consistency, members, kind, times, 180 if long else seconds)


def latencies(measurement):
    """The same schedule for each, in turn, three rounds; the middle one is shown."""
    seconds, rounds = (5, 1) if measurement.quick else (10, 3)
    found = {}
    for _ in range(rounds):
        for times in (0.88, 3):
            for name in ("local", "leased", "exact", "by hand"):
                figures = latency(measurement, name, times, seconds)
                found.setdefault((times, name), []).append(figures)
                measurement.keep(figures)
    print("\n| ten connections or members | asked for | p50 us | p99 us | store's processor a decision, us | members', us |")
    print("|---|---|---|---|---|---|")
    for (times, name), rows in found.items():
        row = sorted(rows, key=lambda row: row["p50_us"])[len(rows) // 2]
        spread = f"{min(one['p50_us'] for one in rows)}-{max(one['p50_us'] for one in rows)}"
        worst = f"{min(one['p99_us'] for one in rows)}-{max(one['p99_us'] for one in rows)}"
        print(f"| {name} | {times:g}x | {row['p50_us']} ({spread}) | {row['p99_us']} ({worst}) "
              f"| {row['store_cpu_us']} | {row['members_cpu_us']} |", flush=True)


def latency(measurement, name, times, seconds):
    plan = load.schedule("steady", 10, RATE * times, seconds)
    cpu = store_cpu = 0.0
    if name == "by hand":
        store = stand.Single(tempfile.mkdtemp(dir=measurement.directory))
        try:
            script = store.nodes[0].ask("SCRIPT", "LOAD", BY_HAND)
            words = ["EVALSHA", script, "1", "gcra:api:rate:ada", str(BURST), str(1_000_000 // RATE)]
            request = f"*{len(words)}\r\n".encode() + b"".join(f"${len(one)}\r\n{one}\r\n".encode() for one in words)
            before = store.cpu()
            seen = load.run([store.nodes[0].port] * 10, plan, request, load.parse_resp)
            store_cpu = store.cpu() - before
        finally:
            store.stop()
    else:
        fleet = measurement.fleet(name, 10)
        try:
            time.sleep(0.5)
            before = fleet.cpu(), fleet.store.cpu() if fleet.store else 0.0
            seen = load.run([member.port for member in fleet.members], plan)
            cpu = fleet.cpu() - before[0]
            store_cpu = fleet.store.cpu() - before[1] if fleet.store else 0.0
        finally:
            fleet.stop()
    asked = len(seen.asked)
    return {
        "part": "latency", "name": name, "times": times, "seconds": seconds,
        "store_cpu_us": round(1e6 * store_cpu / asked, 2), "members_cpu_us": round(1e6 * cpu / asked, 2),
    } | figures_of(seen, name, 10, seconds)


class Disturbance:
    """What goes wrong, carried out beside the load; says when it began and ended."""

    def __init__(self, name, begins, lasts):
        self.name, self.begins, self.lasts = name, begins, lasts
        self.began = self.ended = self.note = None

    def go(self, fleet, begun):
        def wait_until(at):
            time.sleep(max(0.0, begun + at - time.monotonic()))

        def now():
            return time.monotonic() - begun

        wait_until(self.begins)
        if self.name == "store killed":
            node = fleet.store.nodes[0]
            node.process.kill()
            self.began = now()
            wait_until(self.begins + self.lasts)
            node.start()
        elif self.name == "store paused":
            node = fleet.store.nodes[0]
            node.process.send(signal.SIGSTOP)
            self.began = now()
            wait_until(self.begins + self.lasts)
            node.process.send(signal.SIGCONT)
        elif self.name == "member cut off":
            relay = fleet.relays[0]
            relay.process.send(signal.SIGSTOP)
            self.began = now()
            wait_until(self.begins + self.lasts)
            relay.process.send(signal.SIGCONT)
        elif self.name == "member killed":
            held = fleet.members[0].leases()
            fleet.members[0].kill()
            self.began = now()
            own = [one for one in held["members"] if one["id"] == held["member"]][0]
            self.note = f"it held {sum(one['rate_per_s'] for one in own['leases']):g}/s and {own['tokens']} tokens"
        elif self.name == "primary killed":
            primary, replica = fleet.store.owner_of("ada")
            primary.process.kill()
            self.began = now()
            stand.until("the replica takes over", lambda: replica.info("role") == "master")
            self.note = f"its replica took over after {now() - self.began:.1f} s"
        self.ended = now()


DISTURBANCES = [
    ("store killed", 3, stand.Single, ()),
    ("store paused", 5, stand.Single, ()),
    ("store paused", 20, stand.Single, ()),
    ("member cut off", 15, stand.Single, (0,)),
    ("member killed", 0, stand.Single, ()),
    ("primary killed", 0, stand.Cluster, ()),
]


def recoveries(measurement):
    print("\n| | ten members, 3x; what happens | admitted a second: before, meanwhile, 10 s after, then "
          "| beyond R*W + B, in R: for certain (by answers, possibly) | allowed | 98 % from (for good from) after the end "
          "| refused: rate_exceeded, store_unavailable; lost |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for consistency in measurement.consistencies:
        for name, lasts, store, relayed in DISTURBANCES:
            if measurement.wants(name.replace(" ", "-")) or measurement.wants(f"{name} {lasts}".replace(" ", "-")):
                recovery(measurement, consistency, name, lasts, store, relayed)


def recovery(measurement, consistency, name, lasts, store, relayed):
    begins = 15
    seconds = begins + lasts + (15 if measurement.quick else 30)
    fleet = measurement.fleet(consistency, 10, store, relayed)
    disturbance = Disturbance(name, begins, lasts)
    try:
        time.sleep(FILLS)
        plan = load.schedule("overload", 10, RATE * 3, seconds)
        beside = threading.Thread(target=lambda: disturbance.go(fleet, time.monotonic()))
        beside.start()
        seen = load.run([member.port for member in fleet.members], plan)
        beside.join()
        survivors = [member for member in fleet.members if member.process.is_alive()]
        gone = survivors[-1].leases()
        losses = fleet.totals().get("tidegate_store_losses_total", 0)
    finally:
        fleet.stop()
    answers = sorted(answered for _, answered in seen.admissions())
    began, ended = disturbance.began, disturbance.ended
    first, for_good = reckon.full_again(answers, ended, seconds, 0.98 * RATE)
    spans = [(5, began), (began, ended), (ended, ended + 10), (ended + 10, seconds)]
    means = [reckon.within(answers, *span) / (span[1] - span[0]) if span[1] - span[0] > 0.5 else None for span in spans]
    after = [index for index, asked in enumerate(seen.asked) if asked >= began]
    reasons = {load.NAMES[code]: sum(1 for index in after if seen.code[index] == code)
               for code in (load.RATE, load.STORE, load.OTHER, load.LOST)}
    figures = {
        "part": "recovery", "consistency": consistency, "name": name, "began": began, "ended": ended,
        "note": disturbance.note, "means": means, "first": first, "for_good": for_good, "reasons": reasons,
        "each_second": [reckon.within(answers, at, at + 1) for at in range(seconds)],
        "gone": gone["gone"], "gone_tokens": gone["gone_tokens"], "losses": losses, "seconds": seconds,
    } | figures_of(seen, consistency, 10, seconds)
    measurement.keep(figures)
    certain, by_answers, possible = figures["over"]
    shown = ", ".join("-" if one is None else f"{one:.0f}" for one in means)
    back = "never" if first is None else f"{first:.1f} s"
    print(f"| {consistency} | {name}{f', {lasts} s' if lasts else ''}{f' ({disturbance.note})' if disturbance.note else ''} | {shown} "
          f"| {certain:+.3f} ({by_answers:+.3f}, {possible:+.3f}) | {figures['allowed']:g} | {back} ({for_good:.1f} s) "
          f"| {reasons['rate_exceeded']}, {reasons['store_unavailable']}; {reasons['lost']}"
          f"{'; other ' + str(reasons['other']) if reasons['other'] else ''} |", flush=True)
    print(f"  by the second: {figures['each_second']}", file=sys.stderr, flush=True)


def quotas(measurement):
    print("\n| a day's quota of 10 000, leased by ten members | admitted | seconds until the last | store calls, asks "
          "| said to be gone | in hand by its own word, and unanswered |")
    print("|---|---|---|---|---|---|", flush=True)
    for a_second, deaths in ((3000, ()), (600, ()), (600, (4, 7, 10)), (3000, (0.5, 1.2, 2.0))):
        if measurement.wants(f"quota-{a_second}-{len(deaths)}"):
            quota(measurement, a_second, deaths)


def quota(measurement, a_second, deaths):
    fleet = measurement.fleet("quota", 10)
    told, threads = [], []
    seconds = 30 if measurement.quick else 50
    if a_second < 1000:
        seconds += 15
    try:
        begun = time.monotonic()

        def die(index, at):
            time.sleep(max(0.0, begun + at - time.monotonic()))
            said = fleet.members[index].leases()
            fleet.members[index].kill()
            told.append(next(one["tokens"] for one in said["members"] if one["id"] == said["member"]))

        for index, at in enumerate(deaths):
            threads.append(threading.Thread(target=die, args=(index, at)))
            threads[-1].start()
        seen = load.run([member.port for member in fleet.members],
                        load.schedule("steady", 10, a_second, seconds))
        for thread in threads:
            thread.join()
        totals = fleet.totals()
        said = fleet.members[-1].leases()
    finally:
        fleet.stop()
    admitted = seen.count(load.ADMITTED)
    last = max(answered for _, answered in seen.admissions())
    figures = {
        "part": "quota", "a_second": a_second, "deaths": deaths, "admitted": admitted, "last": last, "told": told,
        "gone": said["gone"], "gone_tokens": said["gone_tokens"],
        "calls": totals["tidegate_store_calls_total"], "asks": totals["tidegate_lease_asks_total"],
        "codes": {name: seen.count(code) for code, name in enumerate(load.NAMES)},
        "tokens_left": [one["tokens"] for one in said["members"]],
    }
    measurement.keep(figures)
    died = f", members killed at {', '.join(f'{at:g}' for at in deaths)} s" if deaths else ""
    # A request that was under way when its member was killed may have been admitted, and nobody
    # knows.
    print(f"| {a_second}/s for {seconds} s{died} | {admitted} | {last:.1f} "
          f"| {figures['calls']:.0f}, {figures['asks']:.0f} | {said['gone']} with {said['gone_tokens']} "
          f"| {' + '.join(map(str, told)) or '-'} |", flush=True)
    print(f"  {figures}", file=sys.stderr, flush=True)


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    redis = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout.split()[2]
    print(f"{os.cpu_count()} processors ({model}), Linux {platform.release()}, Redis {redis}, Python "
          f"{platform.python_version()}; load before: {os.getloadavg()[0]:.1f}", flush=True)


def main():
    parts = {"load": loads, "latency": latencies, "recovery": recoveries, "quota": quotas}
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("tidegate", help="the program")
    arguments.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(parts)}; all without any")
    arguments.add_argument("--quick", action="store_true", help="short runs")
    arguments.add_argument("--consistency", nargs="+", choices=["leased", "refusing", "exact"], default=["leased", "exact"])
    arguments.add_argument("--only", nargs="+", default=[], metavar="RUN",
                           help="such as 10-overload-3, store-killed, quota-600-3")
    arguments.add_argument("--json", metavar="FILE", help="append figures to it")
    arguments = arguments.parse_args()
    gc.disable()
    machine()
    with tempfile.TemporaryDirectory(prefix="tidegate-fleet-") as directory:
        measurement = Measurement(arguments, directory)
        for part in arguments.parts or parts:
            parts[part](measurement)


if __name__ == "__main__":
    main()
