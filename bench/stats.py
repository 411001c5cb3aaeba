"""Medians, percentiles and bootstrap intervals of paired ratios, with the standard library alone."""

import random
from statistics import median


def percentile(values, p):
    """Linear between neighbours; p from 0 to 100."""
    v = sorted(values)
    at = (len(v) - 1) * p / 100
    low = int(at)
    high = min(low + 1, len(v) - 1)
    return v[low] + (v[high] - v[low]) * (at - low)


def bootstrap(values, seed, draws=4000, level=0.95):
    """The interval of the median: the middle 95 % of medians of resamples with replacement."""
    r = random.Random(seed)
    medians = sorted(median(r.choices(values, k=len(values))) for _ in range(draws))
    cut = (1 - level) / 2 * 100
    return percentile(medians, cut), percentile(medians, 100 - cut)


def chosen(blocks, least=0.5):
    """Only the turns on a quiet machine, if at least half of all are; otherwise all. Returns (blocks of seconds, busy).

    blocks: [{side: [[seconds, quiet], ...]}], what a turn was and whether the gate let it pass; a turn left out is
    None.
    """
    turns = [t for block in blocks for side in block.values() for t in side]
    busy = sum(quiet for _, quiet in turns) < least * len(turns)
    return [
        {side: [t if quiet or busy else None for t, quiet in turns] for side, turns in block.items()}
        for block in blocks
    ], busy


def paired(blocks, ours, theirs):
    """theirs / ours of each pair of turns: in a block the first turn of both, and the second turn of both.

    blocks: [{side: [seconds, seconds]}]. A block that lacks one of the sides, or a turn (None), gives no pair.
    """
    ratios = []
    for block in blocks:
        for a, b in zip(block.get(ours, []), block.get(theirs, [])):
            if a and b:
                ratios.append(b / a)
    return ratios


def summary(blocks, ours, theirs, seed=0):
    """How many times faster `ours` is: the median of paired ratios, its interval, and their range. None without
    pairs."""
    ratios = paired(blocks, ours, theirs)
    if not ratios:
        return None
    low, high = bootstrap(ratios, seed)
    return {
        "ratio": median(ratios),
        "low": low,
        "high": high,
        "min": min(ratios),
        "max": max(ratios),
        "pairs": len(ratios),
    }


def times(blocks, side, steps):
    """Milliseconds per step: median, minimum and 90th percentile. None without samples."""
    values = [1e3 * t / steps for block in blocks for t in block.get(side, []) if t]
    if not values:
        return None
    return {"median": median(values), "min": min(values), "p90": percentile(values, 90), "samples": len(values)}
