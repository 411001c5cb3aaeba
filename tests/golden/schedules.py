"""200 steps of every schedule of torch.optim.lr_scheduler: the rate, and the momentum of those that set it."""

import math
import warnings

import torch
from common import write_file

steps = 200
s = torch.optim.lr_scheduler
swa = torch.optim.swa_utils


def factor(t):
    return 1 / (1 + 0.1 * t)


def metric(t):
    """Falls, then stands still with a wiggle, then falls again."""
    return 1 / (1 + min(t, 40)) + 0.001 * math.sin(t) - (0.05 if t > 120 else 0)


configurations = {
    "step": lambda o: s.StepLR(o, 30, 0.5),
    "multi_step": lambda o: s.MultiStepLR(o, [20, 50, 50, 120], 0.3),
    "constant": lambda o: s.ConstantLR(o),
    "constant_long": lambda o: s.ConstantLR(o, 0.2, 77),
    "linear": lambda o: s.LinearLR(o),
    "linear_down": lambda o: s.LinearLR(o, 1.0, 0.05, 150),
    "exponential": lambda o: s.ExponentialLR(o, 0.97),
    "polynomial": lambda o: s.PolynomialLR(o),
    "polynomial_power": lambda o: s.PolynomialLR(o, 180, 2.5),
    "cosine": lambda o: s.CosineAnnealingLR(o, 150, 0.01),
    "cosine_waves": lambda o: s.CosineAnnealingLR(o, 30),
    "restarts": lambda o: s.CosineAnnealingWarmRestarts(o, 25),
    "restarts_longer": lambda o: s.CosineAnnealingWarmRestarts(o, 7, 3, 0.005),
    "lambda": lambda o: s.LambdaLR(o, factor),
    "multiplicative": lambda o: s.MultiplicativeLR(o, lambda t: 0.99 if t % 3 else 0.98),
    "one_cycle": lambda o: s.OneCycleLR(o, 0.4, total_steps=200),
    "one_cycle_linear": lambda o: s.OneCycleLR(o, 0.4, total_steps=200, anneal_strategy="linear", pct_start=0.25, div_factor=10),
    "one_cycle_three": lambda o: s.OneCycleLR(o, 0.4, total_steps=200, three_phase=True, final_div_factor=100),
    "cyclic": lambda o: s.CyclicLR(o, 0.01, 0.2, 30),
    "cyclic_halving": lambda o: s.CyclicLR(o, 0.01, 0.2, 20, 35, mode="triangular2"),
    "cyclic_shrinking": lambda o: s.CyclicLR(o, 0.01, 0.2, 25, mode="exp_range", gamma=0.99, base_momentum=0.7, max_momentum=0.95),
    "cyclic_own": lambda o: s.CyclicLR(o, 0.01, 0.2, 25, scale_fn=lambda x: 1 / (1 + x), cycle_momentum=False),
    "swa": lambda o: swa.SWALR(o, 0.03),
    "swa_linear": lambda o: swa.SWALR(o, 0.03, 120, "linear"),
    "sequential": lambda o: s.SequentialLR(o, [s.LinearLR(o, 0.1, 1, 20), s.CosineAnnealingLR(o, 100), s.ConstantLR(o, 0.1, 1000)], [20, 120]),
    "chained": lambda o: s.ChainedScheduler([s.LinearLR(o, 0.1, 1, 20), s.ExponentialLR(o, 0.98), s.MultiStepLR(o, [60, 140])]),
    "plateau": lambda o: s.ReduceLROnPlateau(o, patience=5, cooldown=3),
    "plateau_max": lambda o: s.ReduceLROnPlateau(o, "max", 0.5, 4, 0.002, "abs", min_lr=0.004),
}


def run(make, plateau, sign):
    opt = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1, momentum=0.9)
    schedule = make(opt)
    rates, momenta = [], []
    for t in range(steps):
        rates.append(opt.param_groups[0]["lr"])
        momenta.append(opt.param_groups[0]["momentum"])
        opt.step()
        if t + 1 < steps:
            schedule.step(sign * metric(t)) if plateau else schedule.step()
    return rates, momenta


def write(folder):
    file = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, make in configurations.items():
            rates, momenta = run(make, name.startswith("plateau"), -1 if name == "plateau_max" else 1)
            file[f"{name}/lr"] = torch.tensor(rates, dtype=torch.float64)
            if len(set(momenta)) > 1:
                file[f"{name}/momentum"] = torch.tensor(momenta, dtype=torch.float64)
    write_file(folder / "schedules.safetensors", file)
