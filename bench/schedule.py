"""Whose turn it is, and where the traps are: all of it from one seed, which the result records."""


def block_order(sides, r):
    """A block: the sides in random order and back again (A B B A), so that a drift of the machine favours nobody."""
    order = list(sides)
    r.shuffle(order)
    return order + order[::-1]


def salted_steps(first, turn, r):
    """The secret steps of a turn of `turn` steps from `first`: one in half of the turns, fewer where turns are so
    short that the networks would learn little but noise."""
    return [first + r.randrange(turn)] if r.random() < min(0.5, turn / 20) else []


def steps_per_turn(seconds_per_step, turn_seconds):
    return max(1, round(turn_seconds / seconds_per_step))
