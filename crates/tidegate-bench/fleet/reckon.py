"""What was seen, in figures.

An admission happened at some instant between asking and answering. So a span of time holds *for certain* those that were asked
and answered within it, and *possibly* those of which asking or answering lies beyond an end. Beyond a limit is what is certainly
beyond it; what is possibly beyond says how sharp the measurement is.
"""

import bisect


def over(admissions, rate):
    """The largest of `admitted - rate * W` over all spans W of any length: for certain, by the answers, and possibly."""
    answers = sorted(answered for _, answered in admissions)
    return certainly(admissions, rate), vessel(answers, rate), possibly(admissions, rate)


def vessel(instants, rate):
    """Each pours a unit into a vessel that leaks at the rate: its highest level."""
    level = highest = 0.0
    before = instants[0] if instants else 0.0
    for at in instants:
        level = max(0.0, level - rate * (at - before)) + 1.0
        highest = max(highest, level)
        before = at
    return highest


def certainly(admissions, rate):
    """The largest of `count(asked >= s and answered <= e) - rate * (e - s)`."""
    return certainly_beyond(admissions, lambda start: rate * start, lambda end: rate * end)


def certainly_beyond(admissions, until_start, until_end):
    """The largest of `count(asked >= s and answered <= e) - (until_end(e) - until_start(s))`.

    Ends are taken in order; a tree over all starts in order holds for each of them how many were asked from there on.
    """
    starts = sorted(asked for asked, _ in admissions)
    size = 1
    while size < max(1, len(starts)):
        size *= 2
    none = float("-inf")
    total = [0] * (2 * size)
    best = [none] * (2 * size)
    taken = {}
    highest = 0.0
    for asked, answered in sorted(admissions, key=lambda one: one[1]):
        index = bisect.bisect_left(starts, asked) + taken.get(asked, 0)
        taken[asked] = taken.get(asked, 0) + 1
        node = size + index
        # Only now: a span that begins later than it ends holds nothing.
        total[node], best[node] = 1, until_start(asked) + 1
        node //= 2
        while node:
            left, right = 2 * node, 2 * node + 1
            total[node] = total[left] + total[right]
            through = best[left] + total[right]
            best[node] = through if through > best[right] else best[right]
            node //= 2
        highest = max(highest, best[1] - until_end(answered))
    return highest


class Allowance:
    """What a limit allows beside its burst, as a function of the span: its rate, and more for what happened within the span.

    `silences` are (begin, end, rate beyond the limit's, units beyond it once), `losses` are (begin, end, units beyond it once). A span
    that meets one of them may hold its units, wherever in it they were spent.
    """

    def __init__(self, rate, silences=(), losses=()):
        self.rate, self.silences = rate, silences
        self.once = [(begin, end, units) for begin, end, _, units in silences] + list(losses)

    def accrued(self, at):
        alone = sum(rate * max(0.0, min(at, end) - begin) for begin, end, rate, _ in self.silences)
        return self.rate * at + alone

    def until_start(self, at):
        return self.accrued(at) + sum(units for _, end, units in self.once if end < at)

    def until_end(self, at):
        return self.accrued(at) + sum(units for begin, _, units in self.once if begin <= at)

    def most_beyond(self, admissions):
        """The most by which any span certainly holds more than is allowed without the burst."""
        return certainly_beyond(admissions, self.until_start, self.until_end)


def possibly(admissions, rate):
    """The largest of `count(answered >= s and asked <= e) - rate * (e - s)`."""
    events = sorted([(asked, 0) for asked, _ in admissions] + [(answered, 1) for _, answered in admissions])
    # A start s counts rate * s - answered_before(s), an end e asked_until(e) - rate * e.
    asked_so_far = answered_so_far = 0
    best_start, highest = float("-inf"), 0.0
    for at, is_answer in events:
        best_start = max(best_start, rate * at - answered_so_far)
        answered_so_far += is_answer
        asked_so_far += not is_answer
        highest = max(highest, best_start + asked_so_far - rate * at)
    return highest


def quantile(values, part):
    values = sorted(values)
    return values[min(len(values) - 1, int(part * len(values)))] if values else 0.0


def within(instants, begin, end):
    """How many of sorted instants lie in [begin, end)."""
    return bisect.bisect_left(instants, end) - bisect.bisect_left(instants, begin)


def full_again(instants, since, until, enough):
    """Seconds from `since` to the beginning of the first second with `enough`, and to the end of the last one with fewer; `None` for
    what did not happen."""
    first = last = None
    step, at = 0.05, since
    while at + 1.0 <= until:
        if within(instants, at, at + 1.0) >= enough:
            first = at - since if first is None else first
        else:
            last = at + 1.0 - since
        at += step
    if last is not None and since + last > until - 1.0:
        last = float("inf")
    return first, last or 0.0


def check_by_counting():
    """Compares with counting every span by itself, on short random lists."""
    import random

    def by_counting(admissions, rate):
        instants = sorted({at for one in admissions for at in one})
        spans = [(begin, end) for begin in instants for end in instants if begin <= end]
        tests = [
            lambda one, begin, end: one[0] >= begin and one[1] <= end,
            lambda one, begin, end: begin <= one[1] <= end,
            lambda one, begin, end: one[1] >= begin and one[0] <= end,
        ]
        return [max(0.0, *(sum(test(one, *span) for one in admissions) - rate * (span[1] - span[0]) for span in spans))
                for test in tests]

    for number in range(1000):
        draw = random.Random(number)
        starts = [draw.random() * 3 if number % 2 else draw.randrange(12) / 4 for _ in range(draw.randrange(1, 14))]
        admissions = [(start, start + draw.random()) for start in starts]
        rate = draw.choice([1, 3, 7])
        expected, found = by_counting(admissions, rate), over(admissions, rate)
        assert all(abs(one - other) < 1e-9 for one, other in zip(expected, found)), (number, expected, found)
    print("1000 random lists: the same as by counting every span")


def check_allowance_by_counting():
    """Compares an allowance with a silence and a loss with adding up what each span may hold, on short random lists."""
    import random

    for number in range(1000):
        draw = random.Random(number)
        admissions = [(start, start + draw.random()) for start in (draw.random() * 6 for _ in range(draw.randrange(1, 14)))]
        begin, lost = draw.random() * 4, draw.random() * 4
        silence, loss = (begin, begin + 1.5, 2.0, 3.0), (lost, lost + 0.5, 4.0)
        expected = 0.0
        for start in {asked for asked, _ in admissions}:
            for end in {answered for _, answered in admissions if answered >= start}:
                held = sum(asked >= start and answered <= end for asked, answered in admissions)
                may = 1.0 * (end - start)
                may += 2.0 * max(0.0, min(end, silence[1]) - max(start, silence[0]))
                may += 3.0 * (end >= silence[0] and start <= silence[1]) + 4.0 * (end >= loss[0] and start <= loss[1])
                expected = max(expected, held - may)
        found = Allowance(1.0, [silence], [loss]).most_beyond(admissions)
        assert abs(expected - found) < 1e-9, (number, expected, found)
    print("1000 random lists with a silence and a loss: the same as by adding up what each span may hold")


if __name__ == "__main__":
    check_by_counting()
    check_allowance_by_counting()
