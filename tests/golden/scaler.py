"""Golden file of the loss scaler: what torch.amp.GradScaler does over 2,000 iterations, for several settings.

Every iteration scales a loss, runs backward, spoils the gradients as "NAME/verdicts" says, steps and updates. Recorded
after update: the scale, the growth tracker, and how many steps each optimizer has executed.
"""

import math
import zlib

import torch

from common import write_file

ITERATIONS = 2000
CLEAN, INF, NEGATIVE_INF, NAN = range(4)
SPOILT = {INF: math.inf, NEGATIVE_INF: -math.inf, NAN: math.nan}


class Case:
    """`overflow(t, scale)` gives the chance that a gradient of iteration t is spoilt."""

    def __init__(self, overflow, optimizers=1, new_scales=None, intervals=None, **options):
        self.overflow, self.optimizers, self.options = overflow, optimizers, options
        self.new_scales, self.intervals = new_scales or {}, intervals or {}


def steady(chance):
    return lambda t, scale: chance


def threshold(limit):  # overflows when the scale is too high, and now and then besides
    return lambda t, scale: 1 if scale > limit else 0.003


CASES = {
    "default": Case(steady(0)),  # grows once, at the very last iteration
    "default_rare": Case(steady(1 / 200)),
    "bursts": Case(lambda t, scale: 0.8 if t % 400 < 12 else 0, growth_interval=50),
    "often": Case(steady(0.1), growth_interval=5),
    "quarters": Case(steady(0.2), init_scale=4, growth_factor=4, backoff_factor=0.25, growth_interval=3),
    "odd_factors": Case(steady(0.1), init_scale=1000, growth_factor=1.3, backoff_factor=0.7, growth_interval=7),
    "threshold": Case(threshold(3e5), growth_interval=40),
    "every_step": Case(threshold(1e4), init_scale=1, growth_interval=1),
    "ceiling": Case(steady(0.02), init_scale=2.0**120, growth_interval=2),
    "new_scales": Case(steady(0.05), growth_interval=9, new_scales={77: 3.0, 500: 2.0**20, 501: 0.125, 1400: 1e6}),
    # Lowered only when the tracker is 0: below the tracker PyTorch never grows again, and we do.
    "intervals": Case(lambda t, scale: 1 if t in (899, 1499) else 0.02, growth_interval=10, intervals={300: 40, 900: 25, 1500: 3}),
    "two_optimizers": Case(steady(0.06), optimizers=2, growth_interval=6),
}


def run(name, case):
    random = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    scaler = torch.amp.GradScaler("cpu", **case.options)
    parameters = [torch.ones(3, requires_grad=True) for _ in range(case.optimizers)]
    optimizers = [torch.optim.Adam([p], lr=0) for p in parameters]
    verdicts = torch.zeros(ITERATIONS, case.optimizers, dtype=torch.uint8)
    steps = torch.zeros(ITERATIONS, case.optimizers, dtype=torch.int32)
    scales, trackers = torch.zeros(ITERATIONS), torch.zeros(ITERATIONS, dtype=torch.int32)
    for t in range(ITERATIONS):
        if t in case.intervals:
            scaler.set_growth_interval(case.intervals[t])
        for k, (p, optimizer) in enumerate(zip(parameters, optimizers)):
            optimizer.zero_grad()
            scaler.scale(p.sum()).backward()
            if torch.rand((), generator=random) < case.overflow(t, scaler.get_scale()):
                kind = int(torch.randint(1, 4, (), generator=random))
                verdicts[t, k] = kind
                p.grad[int(torch.randint(0, 3, (), generator=random))] = SPOILT[kind]
        for k, optimizer in enumerate(optimizers):
            scaler.step(optimizer)
            state = optimizer.state[parameters[k]]
            steps[t, k] = int(state["step"]) if state else 0
        if t in case.new_scales:
            scaler.update(case.new_scales[t])
        else:
            scaler.update()
        scales[t], trackers[t] = scaler.get_scale(), scaler.state_dict()["_growth_tracker"]
    names = ("init_scale", "growth_factor", "backoff_factor", "growth_interval")
    options = torch.tensor([case.options.get(o, math.nan) for o in names], dtype=torch.float64)
    tensors = {"verdicts": verdicts, "steps": steps, "scales": scales, "trackers": trackers, "options": options}
    for key, values in (("new_scales", case.new_scales), ("intervals", case.intervals)):
        if values:
            tensors[key] = torch.tensor(sorted(values.items()), dtype=torch.float64)
    return {f"{name}/{key}": t for key, t in tensors.items()}


def write(folder):
    tensors = {}
    for name, case in CASES.items():
        tensors |= run(name, case)
    write_file(folder / "scaler_trajectories.safetensors", tensors, seeds="crc32 of a case's name", iterations=ITERATIONS)
