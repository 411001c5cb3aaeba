"""The seven proofs that both sides did the same work. Each returns a line that says what it found, or raises Failed.

They see numbers alone, no framework: tests/bench_test.py lets workers cheat and expects every one to be caught.
"""

from statistics import fmean

LOSS_LIMIT, LOSS_STEPS, DRIFT = 1e-4, 50, 10  # proof 2 in f32
CURVE_LIMIT, CURVE_WINDOW = 1e-2, 10  # proof 2 in mixed precision
MOST_SPREAD, FEWEST = (
    1e-2,
    5,
)  # of PyTorch against itself: what is further off says nothing; and steps that must remain
EVAL_LIMIT, EVAL_LIMIT_BF16, ACCURACY_LIMIT = 1e-3, 1e-2, 2e-3
SALT_LIMIT = {"f32": 1e-3, "bf16": 5e-2}
ROOF = 1.02
GRADIENT_LIMIT = {"f32": 2e-2, "bf16": 1e-1}  # a ReLU that rounding turns on or off moves a gradient by as much


class Failed(Exception):
    """A proof failed; the message names it."""


def relative(a, b):
    return abs(a - b) / max(abs(b), 1e-12) if a == a and b == b else float("inf")


def same_start(side, got, weights, order):
    if got["weights"] != weights:
        raise Failed(
            f"proof 1 (same start): {side} has other weights than the driver gave (CRC {got['weights']}, not {weights})"
        )
    if got["order"] != order:
        raise Failed(f"proof 1 (same start): {side} has another order of the data (CRC {got['order']}, not {order})")
    return "weights and order the same bits"


def believable(spreads):
    """The largest, but none that would excuse everything."""
    return max((s for s in spreads if s <= 3 * MOST_SPREAD), default=0.0)


def loss_limit(work):
    """Of proof 2. Where Winograd's convolutions can be used, they are allowed their rounding: ten times as much."""
    return LOSS_LIMIT if work["least_flops"] == work["flops"] else 10 * LOSS_LIMIT


def same_losses(side, losses, reference, steps=LOSS_STEPS, limit=LOSS_LIMIT, kin=()):
    """f32: step by step. kin: losses of PyTorch's other modes, of the same training. Two trainings that differ in
    rounding drift apart, some (ResNet-18) within a few steps: ten times as much as the kin have drifted until then is
    allowed where that is more than the limit, and steps count as long as the kin agree to MOST_SPREAD."""
    n = min([steps, len(losses), len(reference)])
    for other in kin:
        agreed = (i for i, (a, b) in enumerate(zip(other[:n], reference)) if not relative(a, b) <= MOST_SPREAD)
        n = min(n, next(agreed, n))
    if n < min(FEWEST, len(losses)) or n == 0:
        raise Failed(
            f"proof 2 (losses): PyTorch's modes agree with each other for {n} steps only: no measure for {side}"
        )
    spread = worst = 0.0
    for at in range(n):
        spread = max([spread] + [relative(other[at], reference[at]) for other in kin if at < len(other)])
        found, allowed = relative(losses[at], reference[at]), max(limit, DRIFT * spread)
        if not found <= allowed:
            raise Failed(
                f"proof 2 (losses): {side} differs at step {at} by {found:.1e} of {reference[at]:.6g}, "
                f"allowed {allowed:.0e}"
            )
        worst = max(worst, found)
    return f"{n} losses agree to {worst:.1e}, PyTorch's modes to {spread:.1e}"


def smoothed(losses, window=CURVE_WINDOW):
    return [fmean(losses[max(0, i + 1 - window) : i + 1]) for i in range(len(losses))]


def curve_distance(losses, reference, steps=LOSS_STEPS):
    n = min(steps, len(losses), len(reference))
    return max((relative(a, b) for a, b in zip(smoothed(losses[:n]), smoothed(reference[:n]))), default=float("inf"))


def same_curve(side, losses, reference, others=(), limit=CURVE_LIMIT):
    """Mixed precision: the smoothed curve, within 1 % or three times the spread of the reference's own kin."""
    spread = believable(curve_distance(o, reference) for o in others if o)
    allowed, found = max(limit, 3 * spread), curve_distance(losses, reference)
    if not found <= allowed:
        raise Failed(f"proof 2 (losses): the smoothed curve of {side} is off by {found:.1e}, allowed {allowed:.1e}")
    return f"smoothed curve within {found:.1e}, PyTorch's own spread {spread:.1e}"


def same_evaluation(side, own, other, precision):
    """f32: loss and accuracy. Mixed precision: the loss to 1 %, or to 5 % with the same accuracy."""
    loss, accuracy = relative(own["loss"], other["loss"]), abs(own["accuracy"] - other["accuracy"])
    if precision == "f32":
        good = loss <= EVAL_LIMIT and accuracy <= ACCURACY_LIMIT
    else:
        good = loss <= EVAL_LIMIT_BF16 or (loss <= 5 * EVAL_LIMIT_BF16 and accuracy <= ACCURACY_LIMIT)
    if not good:
        raise Failed(
            f"proof 3 (final weights): PyTorch evaluates the weights of {side} to {other['loss']:.6g} and "
            f"{other['accuracy']:.4f}, not {own['loss']:.6g} and {own['accuracy']:.4f}"
        )
    return f"loss to {loss:.1e}, accuracy {own['accuracy']:.4f} and {other['accuracy']:.4f}"


def same_salted_turn(side, losses, replayed, salted, precision):
    """losses: of a timed turn; replayed: by PyTorch from the snapshot before it; salted: positions of noise in the
    turn."""
    limit = SALT_LIMIT[precision]
    for i, (a, b) in enumerate(zip(losses, replayed)):
        if not relative(a, b) <= limit:
            what = "the salted step" if i in salted else "step"
            raise Failed(
                f"proof 4 (salt): {side} returned {a:.6g} for {what} {i} of a turn, "
                f"PyTorch finds {b:.6g} from the same weights"
            )
    worst = max(relative(a, b) for a, b in zip(losses, replayed))
    return f"{len(replayed)} losses of a salted turn agree to {worst:.1e}"


def conserved(side, answer, first, indices, labels):
    """Of every turn: what it says it consumed is what lies in the buffers, and no step is missing."""
    n = len(indices)
    if len(answer["losses"]) != n or answer["step"] != first + n:
        raise Failed(
            f"proof 5 (conservation): {side} did {answer['step'] - first} steps and returned "
            f"{len(answer['losses'])} losses, not {n}"
        )
    for what, want in (("indices", indices), ("labels", labels)):
        if answer[what] != want:
            at = next((i for i, (a, b) in enumerate(zip(answer[what], want)) if a != b), min(len(answer[what]), n))
            raise Failed(
                f"proof 5 (conservation): {side} consumed other {what} at step {first + at} than the buffers hold"
            )


def parameters_moved(side, before, after, steps):
    """before, after: {name: bytes} of two snapshots; steps: the counts that the optimizer keeps, and the true one."""
    still = [n for n in before if bytes(before[n]) == bytes(after[n])]
    if still:
        raise Failed(
            f"proof 5 (conservation): {side} left {still[0]} as it was"
            + (f" and {len(still) - 1} more" if len(still) > 1 else "")
        )
    counted, true = steps
    wrong = [c for c in counted if c != true]
    if wrong:
        raise Failed(f"proof 5 (conservation): the optimizer of {side} counts {wrong[0]} steps, not {true}")
    return f"{len(before)} parameters moved, {true} steps counted"


def copy_ceiling(copies, size):
    """Bytes per second of copies of at most `size` bytes, the fastest of them: what fits a cache moves at its speed."""
    return max([rate for total, rate in copies if total >= size / 2] or [copies[-1][1]])


def below_roof(side, seconds, work, peak, copy_peak):
    """work: flops of a step as defined, least_flops with the fewest multiplications known (Winograd), and bytes of
    weights and moments that the optimizer must read and write. Returns the line, and the share of the peak reached as
    defined."""
    rate, least, moved = work["flops"] / seconds, work["least_flops"] / seconds, work["bytes"] / seconds
    if least > ROOF * peak:
        raise Failed(
            f"proof 6 (roof): {side} would do {least / 1e9:.0f} GFLOP/s even with Winograd; "
            f"this machine does {peak / 1e9:.0f}"
        )
    if moved > ROOF * copy_peak:
        raise Failed(
            f"proof 6 (roof): {side} would move {moved / 1e9:.0f} GB/s; this machine copies {copy_peak / 1e9:.0f}"
        )
    note = " effective (Winograd)" if rate > ROOF * peak else ""
    return f"{rate / 1e9:.0f} GFLOP/s{note} of {peak / 1e9:.0f}", rate / peak


def same_gradients(side, errors, peer_errors, precision):
    """errors: {name: norm of the error over norm of the gradient, against f64}; peer_errors: PyTorch's own in the
    same precision."""
    worst = max(errors, key=lambda n: errors[n] if errors[n] == errors[n] else float("inf"))
    peer = max(peer_errors.values(), default=0.0)
    allowed = max(GRADIENT_LIMIT[precision], 4 * peer)
    if not errors[worst] <= allowed:
        raise Failed(f"proof 7 (gradients): {side} is off by {errors[worst]:.1e} in {worst}, allowed {allowed:.1e}")
    return f"gradients to {errors[worst]:.1e} of f64 ({worst}), PyTorch's to {peer:.1e}"
