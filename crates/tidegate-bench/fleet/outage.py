#!/usr/bin/env python3
"""Whether callers within their limits are admitted while the store of a fleet fails.

    cargo build --profile dist -p tidegate-cli
    python3 crates/tidegate-bench/fleet/outage.py target/dist/tidegate --json outage.json --plot outage.svg

Ten daemons share one Redis. 1 000 users send 4 requests a minute of their 5/m, 100 users send 8 a second of their 10/s; half of each
kind keep to one daemon, the others draw a daemon for each request. 13 greedy users ask for far more than they may, so that a fleet
that admits too much is found as well. All runs take a quarter of an hour. The exit code is 1 if a run fails a check.

Needs redis-server and redis-cli, and nothing of Python but itself. `--scale 0.25` has a quarter of the users, for a busy machine.
All traffic stays on loopback, and every process is stopped by the one that started it.
"""

import argparse
import collections
import gc
import json
import os
import signal
import sys
import tempfile
import threading
import time

import callers
import load
import measure
import outage_plot
import reckon
import stand
from callers import DRAWN, GREEDY, STICKY, WARM

MEMBERS = 10
LEASE_PERIOD_S = 5.0
# Within this time of the store's return, a member has found it again.
FOUND_AGAIN_S = 1.0
REFUSED_FOR_AT_MOST_S = 1.0
FIRST_ATTEMPTS_ADMITTED = 0.99
# Beyond it the machine stalls, and the run measures the machine.
LATE_P99_AT_MOST_MS = 50

GROUPS = [f"{kind} {habit}" for kind in ("slow", "fast") for habit in (STICKY, DRAWN)]
# Callers of the daemon that is killed, between their move to another one and the return of the
# store.
MOVED = "moved"
# All of these groups together.
ALL = "all"
RATES = {"slow": 5 / 60, "fast": 10.0}
BURSTS = {"slow": 5, "fast": 10}
# Kind, habit, users, attempts a second of each.
USERS = [
    ("slow", STICKY, 500, 4 / 60), ("slow", DRAWN, 500, 4 / 60), ("slow", GREEDY, 10, 4.0),
    ("fast", STICKY, 50, 8.0), ("fast", DRAWN, 50, 8.0), ("fast", GREEDY, 3, 40.0),
]
# Sent before a run begins: a daemon that has just started waits for memory at the first request of
# most keys. Other users than those of the run, so that the store is as new to these as it was.
WARM_UP_S, WARM_UPS_AT_MOST, WARM_ANSWER_P99_S = 4, 5, 0.05
WARM_UP = [("slow", WARM, 2000, 1 / WARM_UP_S), ("fast", WARM, 200, 1.0)]
ANSWERS = {load.ADMITTED: "admitted", load.RATE: "rate_exceeded", load.STORE: "store_unavailable", load.OTHER: "other",
           load.LOST: "no_answer"}


def limits(consistency):
    """Two limits by user; the default consistency is the experiment, `local` is its control."""
    said = f", consistency: {consistency}" if consistency else ""
    return (f"{{ name: slow, match: {{ kind: slow }}, key: [user], rate: 5/m{said} }}, "
            f"{{ name: fast, match: {{ kind: fast }}, key: [user], rate: 10/s{said} }}")


class Run:
    """One disturbance with its steps: seconds since its beginning, and the method of `Disturbance` to call."""

    def __init__(self, name, title, seconds, steps=(), consistency=None, store=(), loses_data=False):
        self.name, self.title, self.seconds, self.steps = name, title, seconds, steps
        self.consistency, self.store, self.loses_data = consistency, store, loses_data


RUNS = [
    # Each daemon grants the whole limit: callers within theirs are never refused, and greedy users
    # are found beyond the bound.
    Run("control", "control: no shared state", 60, consistency="local"),
    Run("quiet", "nothing happens", 120),
    Run("store-killed", "Redis killed for 60 s", 160, loses_data=True,
        steps=[(0, "kill_store"), (10, "kill_member"), (20, "start_member"), (60, "start_store")]),
    Run("store-paused", "Redis paused for 20 s", 120,
        steps=[(0, "pause_store"), (5, "kill_member"), (8, "start_member"), (20, "resume_store")]),
    Run("store-wiped", "FLUSHALL", 120, loses_data=True,
        steps=[(0, "wipe_store"), (0.5, "kill_member"), (1, "start_member")]),
    Run("store-emptied", "Redis restarted empty, 3 s", 120, loses_data=True,
        steps=[(0, "kill_store"), (1, "kill_member"), (1.5, "start_member"), (3, "start_store")]),
    Run("store-restarted", "Redis restarted with its data, 3 s", 120, store=("--appendonly", "yes", "--appendfsync", "always"),
        steps=[(0, "kill_store"), (1, "kill_member"), (1.5, "start_member"), (3, "start_store")]),
]
BEGINS_S = 40.0


class Disturbance:
    """What goes wrong, carried out beside the load, and when each step was done."""

    def __init__(self, fleet, generator, new_member):
        self.fleet, self.generator, self.new_member = fleet, generator, new_member
        self.steps = []
        self.ready_after_s = None
        self.failure = None

    def go(self, steps):
        try:
            for offset, name in steps:
                time.sleep(max(0.0, BEGINS_S + offset - self.generator.now()))
                before = self.generator.now()
                getattr(self, name)()
                # A stop counts from before, a start from after.
                self.steps.append((name, self.generator.now() if name in ("start_store", "resume_store") else before))
        except BaseException as failure:  # A wait that gives up raises SystemExit; the run must not pass without its disturbance.
            self.failure = repr(failure)

    def instant(self, *names):
        return next((at for name, at in self.steps if name in names), None)

    def silence(self):
        """From when to when members may be unable to reach the store, or `None`."""
        gone, back = self.instant("kill_store", "pause_store"), self.instant("start_store", "resume_store")
        return None if gone is None else (gone, back + FOUND_AGAIN_S)

    def node(self):
        return self.fleet.store.nodes[0]

    def kill_store(self):
        self.node().process.kill()

    def start_store(self):
        self.node().start()

    def pause_store(self):
        self.node().process.send(signal.SIGSTOP)

    def resume_store(self):
        self.node().process.send(signal.SIGCONT)

    def wipe_store(self):
        self.node().ask("FLUSHALL")

    def kill_member(self):
        self.fleet.members[0].kill()

    def start_member(self):
        """Starts a member, and sends callers to it once it is ready, as a load balancer would."""
        begun = self.generator.now()
        member = self.new_member()
        self.fleet.members.append(member)

        def wait():
            while member.process.is_alive():
                if member.is_ready():
                    self.ready_after_s = self.generator.now() - begun
                    self.generator.add_member(member.port)
                    return
                time.sleep(0.05)

        threading.Thread(target=wait, daemon=True).start()


def refused_spans(attempts):
    """Of one caller: spans in which every attempt was refused, from the asking of the first to the answer of the next that was
    admitted, or of the last if none was."""
    begun = last = None
    for attempt in sorted(attempts, key=lambda one: one.answered):
        if attempt.code != load.ADMITTED:
            begun = attempt.asked if begun is None else begun
            last = attempt.answered
        elif begun is not None:
            yield begun, attempt.answered
            begun = None
    if begun is not None:
        yield begun, last


def allowance(run, disturbance, kind):
    """What DESIGN's bounds allow a key of this kind beside `B + 0.1 s * R`."""
    rate, burst = RATES[kind], BURSTS[kind]
    members = MEMBERS + (1 if run.steps else 0)
    silence = disturbance.silence()
    silences, losses = [], []
    if silence:
        silences.append((*silence, 2 * rate, max(burst, 10 * members)))
    if run.loses_data:
        lost = disturbance.instant("kill_store", "wipe_store")
        # Leases of the lost record run on beside the new one, for two periods at most.
        losses.append((lost, (disturbance.instant("start_store") or lost) + 2 * LEASE_PERIOD_S, burst + 2 * LEASE_PERIOD_S * rate))
    return reckon.Allowance(rate, silences, losses)


def busy_seconds():
    """Processor time of the whole machine."""
    with open("/proc/stat") as stat:
        fields = [int(one) for one in stat.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def series_of(seen, population, seconds):
    """By group and by second of asking: first attempts and all attempts, by answer. Greedy users are left out."""
    series = {group: {attempts: {answer: [0] * seconds for answer in ANSWERS.values()} for attempts in ("first", "all")}
              for group in GROUPS}
    for index, number, asked, code in zip(seen.caller, seen.number, seen.asked, seen.code):
        caller = population[index]
        if caller.habit == GREEDY or asked >= seconds:
            continue
        series[caller.group]["all"][ANSWERS[code]][int(asked)] += 1
        if number == 0:
            series[caller.group]["first"][ANSWERS[code]][int(asked)] += 1
    return series


Answered = collections.namedtuple("Answered", "number asked answered code")


def by_caller(seen, population):
    attempts = [[] for _ in population]
    for index, *attempt in zip(seen.caller, seen.number, seen.asked, seen.answered, seen.code):
        attempts[index].append(Answered(*attempt))
    return attempts


def moved_during_silence(caller, disturbance):
    """The time for which DESIGN does not call this caller conforming, or `None`: it came to a daemon that decides alone and was granted
    nothing for its key yet, so its share is the rate divided by all members."""
    if caller.moved_at is None or (silence := disturbance.silence()) is None or not silence[0] <= caller.moved_at <= silence[1]:
        return None
    return caller.moved_at, silence[1]


def longest_refused(attempts):
    return max(((end - begin, begin) for begin, end in refused_spans(attempts)), default=(0.0, None))


def figures_of(run, disturbance, generator):
    population = generator.callers
    attempts = by_caller(generator.answers, population)
    groups = {group: [0, 0] for group in [*GROUPS, MOVED]}
    refused, worst, beyond = {}, (0.0, None), {}
    answers = {answer: 0 for answer in ANSWERS.values()}
    for caller, its_attempts in zip(population, attempts):
        admissions = [(one.asked, one.answered) for one in its_attempts if one.code == load.ADMITTED]
        # Positive: units beyond the bound, the burst and the tenth of a second included.
        most = (allowance(run, disturbance, caller.kind).most_beyond(admissions)
                - BURSTS[caller.kind] - 0.1 * RATES[caller.kind])
        name = f"{caller.kind} {'greedy' if caller.habit == GREEDY else 'within'}"
        beyond[name] = max(beyond.get(name, float("-inf")), most)
        if caller.habit == GREEDY:
            continue
        begin, end = moved_during_silence(caller, disturbance) or (run.seconds, run.seconds)
        before = [one for one in its_attempts if one.asked < begin]
        meanwhile = [one for one in its_attempts if begin <= one.asked <= end]
        after = [one for one in its_attempts if one.asked > end]
        for group, part in ((caller.group, before), (MOVED, meanwhile), (caller.group, after)):
            longest = longest_refused(part)
            if longest[0] > REFUSED_FOR_AT_MOST_S:
                refused.setdefault(group, set()).add(caller.index)
            if group != MOVED:
                worst = max(worst, longest, key=lambda one: one[0])
            for one in part:
                answers[ANSWERS[one.code]] += 1
                if one.number == 0:
                    groups[group][0] += 1
                    groups[group][1] += one.code == load.ADMITTED
    groups[ALL] = [sum(group[of] for group in groups.values()) for of in (0, 1)]
    return {
        "first_attempts": {name: total for name, (total, _) in groups.items()},
        "admitted": {name: round(admitted / total, 5) for name, (total, admitted) in groups.items() if total},
        "refused_longer_than_1s": {group: len(users) for group, users in refused.items()},
        "longest_refused_s": round(worst[0], 3),
        "longest_refused_from": worst[1] and round(worst[1], 1),
        "beyond_bound": {name: round(units, 2) for name, units in beyond.items()},
        "answers": answers,
    }


def failures_of(run, figures):
    """What a run failed, in words."""
    for name, part in figures["admitted"].items():
        if name != MOVED and part < FIRST_ATTEMPTS_ADMITTED:
            yield f"{name}: {100 * part:.1f} % of first attempts admitted, at least {100 * FIRST_ATTEMPTS_ADMITTED:.0f} % expected"
    for name, users in figures["refused_longer_than_1s"].items():
        if name != MOVED:
            yield f"{name}: {users} users refused at every attempt for longer than {REFUSED_FOR_AT_MOST_S:g} s"
    for name, units in figures["beyond_bound"].items():
        if run.consistency == "local" and name.endswith(GREEDY):
            if units <= 0:
                yield f"{name}: each daemon grants the whole limit, and the check of the bound did not find it"
        elif units > 0:
            yield f"{name}: a span of one user holds {units:.1f} units more than the bound allows"
    if run.steps and figures["ready_after_s"] is None:
        yield "the member that was started never became ready"
    if figures["unsent"]:
        yield f"invalid: the load generator could not send {figures['unsent']} attempts; use a quieter machine or lower --scale"
    if figures["late_p99_ms"] > LATE_P99_AT_MOST_MS:
        yield (f"invalid: the load generator sent {figures['late_p99_ms']} ms late (p99), {LATE_P99_AT_MOST_MS} ms at most expected; "
               "use a quieter machine or lower --scale")


def warm_up(ports, scale):
    """Sends requests of other users until daemons answer at once, for at most so many rounds."""
    for _ in range(WARM_UPS_AT_MOST):
        seen = callers.LoadGenerator(callers.population(WARM_UP, scale), ports).run(WARM_UP_S)
        if reckon.quantile([answered - asked for asked, answered in zip(seen.asked, seen.answered)], 0.99) < WARM_ANSWER_P99_S:
            return


def carry_out(arguments, run, directory):
    directory = tempfile.mkdtemp(dir=directory)
    store = None if run.consistency == "local" else stand.Single(directory, *run.store)
    population = callers.population(USERS, arguments.scale)
    fleet = stand.Fleet(arguments.tidegate, directory, store, limits(run.consistency), MEMBERS)
    try:
        ports = [member.port for member in fleet.members]
        warm_up(ports, arguments.scale)
        generator = callers.LoadGenerator(population, ports)
        disturbance = Disturbance(fleet, generator, lambda: stand.Member(
            arguments.tidegate, directory, store.policy(), limits(run.consistency)))
        cpu = {member: member.cpu() for member in fleet.members}
        busy, began = busy_seconds(), time.monotonic()
        generator.begun = began
        beside = threading.Thread(target=disturbance.go, args=(run.steps,), daemon=True)
        beside.start()
        generator.run(run.seconds)
        beside.join()
        took = time.monotonic() - began
        # The processor time of the member that was killed is lost with it.
        members = sum(member.cpu() - cpu.get(member, 0.0) for member in fleet.members if member.process.is_alive())
        shares = {"load": generator.cpu_s / took, "members": members / took, "machine": (busy_seconds() - busy) / took}
    finally:
        fleet.stop()
    if disturbance.failure:
        sys.exit(f"{run.name}: the disturbance was not carried out: {disturbance.failure}")
    seen = generator.answers
    times = [answered - asked for asked, answered in zip(seen.asked, seen.answered)]
    figures = {
        "part": "outage", "name": run.name, "title": run.title, "seconds": run.seconds, "scale": arguments.scale,
        "steps": [(name, round(at, 2)) for name, at in disturbance.steps],
        "ready_after_s": disturbance.ready_after_s,
    } | figures_of(run, disturbance, generator) | {
        "attempts_a_second": round(len(seen) / run.seconds),
        "cpu_share": {name: round(share, 3) for name, share in shares.items()},
        "late_p50_ms": round(1e3 * reckon.quantile(generator.late, 0.5), 2),
        "late_p99_ms": round(1e3 * reckon.quantile(generator.late, 0.99), 2),
        "late_max_ms": round(1e3 * max(generator.late), 1),
        "p50_ms": round(1e3 * reckon.quantile(times, 0.5), 2), "p99_ms": round(1e3 * reckon.quantile(times, 0.99), 2),
        "unsent": generator.unsent, "unanswered": generator.unanswered, "broken": generator.broken, "moved": generator.moved,
        "series": series_of(seen, population, run.seconds),
    }
    figures["failures"] = list(failures_of(run, figures))
    return figures


HEADER = """
| ten members; what happens | first attempts admitted, %: slow one daemon, slow drawn, fast one daemon, fast drawn, all \
| users refused for longer than 1 s (longest, s) | refused `rate_exceeded`, `store_unavailable`, no answer \
| most beyond the bound, units: within limits, greedy | moved users: first attempts admitted, % (refused for longer than 1 s) | new member ready after | |
|---|---|---|---|---|---|---|---|"""


def verdict(figures):
    if any(failure.startswith("invalid") for failure in figures["failures"]):
        return "invalid"
    return "fails" if figures["failures"] else "holds"


def table_row(figures):
    """A row of the table."""
    admitted = ", ".join(f"{100 * figures['admitted'][group]:.2f}" for group in [*GROUPS, ALL])
    refused = sum(figures["refused_longer_than_1s"].get(group, 0) for group in GROUPS)
    moved = "-"
    if MOVED in figures["admitted"]:
        moved = f"{100 * figures['admitted'][MOVED]:.2f} ({figures['refused_longer_than_1s'].get(MOVED, 0)})"
    answers = figures["answers"]
    other = f", other {answers['other']}" if answers["other"] else ""
    parts = [max(units for name, units in figures["beyond_bound"].items() if name.endswith(users)) for users in ("within", GREEDY)]
    beyond = ", ".join(f"{units:+.1f}" for units in parts)
    if "start_member" not in dict(figures["steps"]):
        ready = "-"
    else:
        ready = "never" if figures["ready_after_s"] is None else f"{figures['ready_after_s']:.1f} s"
    return (f"| {figures['title']} | {admitted} | {refused} ({figures['longest_refused_s']:.1f}) "
            f"| {answers['rate_exceeded']}, {answers['store_unavailable']}, {answers['no_answer']}{other} | {beyond} | {moved} | {ready} "
            f"| {verdict(figures)} |")


def main():
    names = [run.name for run in RUNS]
    arguments = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    arguments.add_argument("tidegate", help="the program")
    arguments.add_argument("--only", nargs="+", choices=names, default=names, metavar="RUN", help=f"of {', '.join(names)}")
    arguments.add_argument("--scale", type=float, default=1.0, metavar="PART", help="the part of all users, 1 by default")
    arguments.add_argument("--json", metavar="FILE", help="append the figures and series of each run to it, a line each")
    arguments.add_argument("--plot", metavar="FILE", help="draw all runs into it, as SVG")
    arguments = arguments.parse_args()
    # Ends as an exception does, so that processes are stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    gc.disable()
    measure.machine()
    print(HEADER, flush=True)
    done = []
    with tempfile.TemporaryDirectory(prefix="tidegate-outage-") as directory:
        for run in RUNS:
            if run.name not in arguments.only:
                continue
            figures = carry_out(arguments, run, directory)
            done.append(figures)
            print(table_row(figures), flush=True)
            gc.collect()
            if arguments.json:
                with open(arguments.json, "a") as file:
                    file.write(json.dumps(figures) + "\n")
            cpu = figures["cpu_share"]
            print(f"  {figures['attempts_a_second']} attempts/s; processors: load generator {cpu['load']:.2f}, members {cpu['members']:.2f}, "
                  f"machine {cpu['machine']:.2f} of {os.cpu_count()}; sent late by {figures['late_p50_ms']} ms (p50), "
                  f"{figures['late_p99_ms']} ms (p99), {figures['late_max_ms']} ms (most); answered after {figures['p50_ms']} ms (p50), "
                  f"{figures['p99_ms']} ms (p99); unsent {figures['unsent']}, broken {figures['broken']}, moved {figures['moved']}",
                  file=sys.stderr, flush=True)
            for failure in figures["failures"]:
                print(f"  fails: {failure}", file=sys.stderr, flush=True)
    if arguments.plot:
        with open(arguments.plot, "w") as file:
            file.write(outage_plot.draw(done))
    sys.exit(1 if any(figures["failures"] for figures in done) else 0)


if __name__ == "__main__":
    main()
