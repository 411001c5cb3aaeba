# Prints tests/golden_optim.h: parameters after a few PyTorch optimizer steps and the rates of its schedules, in f64.
# Run where PyTorch is installed: python3 tests/golden_optim.py > tests/golden_optim.h
import math
import warnings

import torch

warnings.simplefilter("ignore")
steps, elements = 5, 3


def run(make):
    p = torch.tensor([0.5 * i - 0.4 for i in range(elements)], dtype=torch.float64, requires_grad=True)
    opt = make([p])
    for t in range(steps):
        p.grad = torch.tensor([math.sin(0.7 * t + i) for i in range(elements)], dtype=torch.float64)
        opt.step()
    return p.detach().tolist()


o = torch.optim
optimizers = {
    "sgd": lambda p: o.SGD(p, lr=0.1),
    "sgd_weight_decay": lambda p: o.SGD(p, lr=0.1, weight_decay=0.3),
    "sgd_momentum": lambda p: o.SGD(p, lr=0.1, momentum=0.9),
    "sgd_dampening": lambda p: o.SGD(p, lr=0.1, momentum=0.9, dampening=0.4, weight_decay=0.2),
    "sgd_nesterov": lambda p: o.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.2),
    "sgd_maximize": lambda p: o.SGD(p, lr=0.1, momentum=0.5, maximize=True, weight_decay=0.2),
    "adam": lambda p: o.Adam(p, lr=0.1),
    "adam_weight_decay": lambda p: o.Adam(p, lr=0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.3),
    "adam_amsgrad": lambda p: o.Adam(p, lr=0.1, betas=(0.5, 0.6), amsgrad=True),
    "adam_maximize": lambda p: o.Adam(p, lr=0.1, weight_decay=0.3, maximize=True),
    "adamw": lambda p: o.AdamW(p, lr=0.1),
    "adamw_amsgrad": lambda p: o.AdamW(p, lr=0.1, betas=(0.5, 0.6), weight_decay=0.5, amsgrad=True),
}

s = o.lr_scheduler


def rates(make, count, lr=0.1):
    opt = o.SGD([torch.zeros(1, requires_grad=True)], lr=lr, momentum=0.9)
    schedule = make(opt)
    out, momenta = [], []
    for _ in range(count):
        out.append(opt.param_groups[0]["lr"])
        momenta.append(opt.param_groups[0]["momentum"])
        opt.step()
        try:
            schedule.step()
        except ValueError:  # beyond the end of a one-cycle
            break
    return out, momenta


schedules = {
    "step_lr": (lambda p: s.StepLR(p, 3, 0.5), 8),
    "linear_lr": (lambda p: s.LinearLR(p, 0.25, 1.0, 4), 8),
    "cosine": (lambda p: s.CosineAnnealingLR(p, 6, 0.01), 8),
    "one_cycle": (lambda p: s.OneCycleLR(p, 0.4, total_steps=10), 10),
    "one_cycle_linear": (lambda p: s.OneCycleLR(p, 0.4, total_steps=8, anneal_strategy="linear", pct_start=0.25), 8),
    "one_cycle_three": (lambda p: s.OneCycleLR(p, 0.4, total_steps=12, three_phase=True), 12),
    "sequential": (lambda p: s.SequentialLR(p, [s.LinearLR(p, 0.1, 1.0, 3), s.CosineAnnealingLR(p, 5)], [3]), 8),
}


def array(name, values):
    print(f"inline const std::vector<double> {name} = {{{', '.join(repr(v) for v in values)}}};")


print("// Printed by tests/golden_optim.py with PyTorch " + torch.__version__.split("+")[0] + ". Do not edit.")
print("#pragma once\n\n#include <vector>\n\nnamespace golden {")
for name, make in optimizers.items():
    array(name, run(make))
for name, (make, count) in schedules.items():
    lr, momentum = rates(make, count)
    array(name, lr)
    if name.startswith("one_cycle"):
        array(name + "_momentum", momentum)
print("}  // namespace golden")
