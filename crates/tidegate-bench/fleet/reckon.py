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
    """The largest of `count(asked >= s and answered <= e) - rate * (e - s)`.

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
        total[node], best[node] = 1, rate * asked + 1
        node //= 2
        while node:
            left, right = 2 * node, 2 * node + 1
            total[node] = total[left] + total[right]
            through = best[left] + total[right]
            best[node] = through if through > best[right] else best[right]
            node //= 2
        highest = max(highest, best[1] - rate * answered)
    return highest


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


if __name__ == "__main__":
    check_by_counting()
