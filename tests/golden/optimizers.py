"""20 steps of every optimizer of torch.optim, and of Lion and LAMB as their papers define them, in f64 and f32.

Two parameters, w [4, 3] and b [5]; the gradient of step t is noise[t] + 0.1 * parameter, so a trajectory feeds back into
itself; b has none at step 3. Muon has only w. LBFGS gets the loss of `curved` instead. Clipping has norms and results.
"""

import math

import torch
from common import Inputs, write_file

steps, without_b = 20, 3
o = torch.optim




class Lion(o.Optimizer):
    """Chen et al., 2023, algorithm 2."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            (b1, b2), lr = g["betas"], g["lr"]
            for p in g["params"]:
                if p.grad is None:
                    continue
                m = self.state[p].setdefault("m", torch.zeros_like(p))
                update = torch.sign(b1 * m + (1 - b1) * p.grad)
                p.copy_(p - lr * (update + g["weight_decay"] * p))
                m.copy_(b2 * m + (1 - b2) * p.grad)


class LAMB(o.Optimizer):
    """You et al., 2020, algorithm 2 with phi(x) = x."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01, bias_correction=True):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "wd": weight_decay, "correct": bias_correction})

    @torch.no_grad()
    def step(self):
        for g in self.param_groups:
            b1, b2 = g["betas"]
            for p in g["params"]:
                if p.grad is None:
                    continue
                s = self.state[p]
                if not s:
                    s.update(t=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                s["t"] += 1
                s["m"] = b1 * s["m"] + (1 - b1) * p.grad
                s["v"] = b2 * s["v"] + (1 - b2) * p.grad**2
                c1, c2 = (1 - b1 ** s["t"], 1 - b2 ** s["t"]) if g["correct"] else (1, 1)
                r = (s["m"] / c1) / ((s["v"] / c2).sqrt() + g["eps"]) + g["wd"] * p
                p.sub_(g["lr"] * p.norm() / r.norm() * r)


configurations = {
    "sgd": lambda p: o.SGD(p, lr=0.1),
    "sgd_weight_decay": lambda p: o.SGD(p, lr=0.1, weight_decay=0.3),
    "sgd_momentum": lambda p: o.SGD(p, lr=0.1, momentum=0.9, dampening=0.4, weight_decay=0.2),
    "sgd_nesterov": lambda p: o.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.2),
    "sgd_maximize": lambda p: o.SGD(p, lr=0.1, momentum=0.5, maximize=True, weight_decay=0.2),
    "adam": lambda p: o.Adam(p),
    "adam_weight_decay": lambda p: o.Adam(p, lr=0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.3),
    "adam_amsgrad": lambda p: o.Adam(p, lr=0.1, betas=(0.5, 0.6), amsgrad=True),
    "adam_maximize": lambda p: o.Adam(p, lr=0.1, weight_decay=0.3, maximize=True),
    "adam_decoupled": lambda p: o.Adam(p, lr=0.1, weight_decay=0.3, decoupled_weight_decay=True),
    "adamw": lambda p: o.AdamW(p, lr=0.1),
    "adamw_amsgrad": lambda p: o.AdamW(p, lr=0.1, betas=(0.5, 0.6), weight_decay=0.5, amsgrad=True, maximize=True),
    "rmsprop": lambda p: o.RMSprop(p),
    "rmsprop_momentum": lambda p: o.RMSprop(p, lr=0.05, alpha=0.9, eps=1e-3, weight_decay=0.1, momentum=0.8),
    "rmsprop_centered": lambda p: o.RMSprop(p, lr=0.05, alpha=0.9, eps=1e-3, centered=True, maximize=True),
    "rmsprop_all": lambda p: o.RMSprop(p, lr=0.05, alpha=0.9, eps=1e-3, weight_decay=0.1, momentum=0.8, centered=True),
    "adagrad": lambda p: o.Adagrad(p),
    "adagrad_all": lambda p: o.Adagrad(p, lr=0.3, lr_decay=0.1, weight_decay=0.2, initial_accumulator_value=0.5, eps=1e-3, maximize=True),
    "adadelta": lambda p: o.Adadelta(p),
    "adadelta_all": lambda p: o.Adadelta(p, lr=0.7, rho=0.8, eps=1e-3, weight_decay=0.2, maximize=True),
    "adamax": lambda p: o.Adamax(p),
    "adamax_all": lambda p: o.Adamax(p, lr=0.1, betas=(0.7, 0.9), eps=1e-2, weight_decay=0.2, maximize=True),
    "nadam": lambda p: o.NAdam(p),
    "nadam_all": lambda p: o.NAdam(p, lr=0.1, betas=(0.7, 0.9), weight_decay=0.2, momentum_decay=0.05, maximize=True),
    "nadam_decoupled": lambda p: o.NAdam(p, lr=0.1, weight_decay=0.2, decoupled_weight_decay=True),
    "radam": lambda p: o.RAdam(p, lr=0.05),
    "radam_all": lambda p: o.RAdam(p, lr=0.1, betas=(0.7, 0.9), eps=1e-3, weight_decay=0.2, maximize=True),
    "radam_decoupled": lambda p: o.RAdam(p, lr=0.1, weight_decay=0.2, decoupled_weight_decay=True),
    "lion": lambda p: Lion(p, lr=0.01),
    "lion_weight_decay": lambda p: Lion(p, lr=0.05, betas=(0.7, 0.9), weight_decay=0.3),
    "lamb": lambda p: LAMB(p, lr=0.02),
    "lamb_uncorrected": lambda p: LAMB(p, lr=0.05, betas=(0.7, 0.9), eps=1e-3, weight_decay=0.3, bias_correction=False),
    "asgd": lambda p: o.ASGD(p),
    "asgd_all": lambda p: o.ASGD(p, lr=0.1, lambd=0.05, alpha=0.5, t0=4, weight_decay=0.2, maximize=True),
    "rprop": lambda p: o.Rprop(p),
    "rprop_all": lambda p: o.Rprop(p, lr=0.05, etas=(0.4, 1.5), step_sizes=(0.02, 0.1), maximize=True),
    "adafactor": lambda p: o.Adafactor(p),
    "adafactor_all": lambda p: o.Adafactor(p, lr=0.3, beta2_decay=-0.5, eps=(1e-4, 0.1), d=1.5, weight_decay=0.2, maximize=True),
}
muons = {
    "muon": lambda p: o.Muon(p),
    "muon_plain": lambda p: o.Muon(p, lr=0.02, weight_decay=0.3, momentum=0.8, nesterov=False, ns_steps=3),
    "muon_rms": lambda p: o.Muon(p, lr=0.02, ns_coefficients=(2.0, -1.5, 0.5), adjust_lr_fn="match_rms_adamw"),
    "muon_spectral": lambda p: o.Muon(p, lr=0.02, adjust_lr_fn="spectral_unclamped"),
}
searches = {
    "lbfgs": lambda p: o.LBFGS(p, lr=0.1, max_iter=3, history_size=4),
    "lbfgs_wolfe": lambda p: o.LBFGS(p, max_iter=2, history_size=4, line_search_fn="strong_wolfe"),
}
norms = {"1": 1.0, "1.5": 1.5, "2": 2.0, "3": 3.0, "inf": math.inf}


def orthogonal_in(dtype):
    """PyTorch runs Newton-Schulz in bf16, whose rounding no two libraries share: this is the same in `dtype`."""

    def newton_schulz(grad, coefficients, ns_steps, eps):
        a, b, c = coefficients
        x = grad.to(dtype, copy=True)
        x = x.T if grad.size(0) > grad.size(1) else x
        x = x / x.norm().clamp(min=eps)
        for _ in range(ns_steps):
            gram = x @ x.T
            x = a * x + (b * gram + c * gram @ gram) @ x
        return x.T if grad.size(0) > grad.size(1) else x

    return newton_schulz


def curved(w, b):
    """A narrow valley in 17 dimensions; tests/golden_optim_test.cpp has the same formula."""
    x = torch.cat([w.flatten(), b])
    return (5 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum() / 4


def trajectory(make, start, noise, dtype, closure):
    torch.set_default_dtype(dtype)  # of numbers that PyTorch keeps per parameter
    p = {name: t.detach().to(dtype, copy=True).requires_grad_() for name, t in start.items()}
    opt, history = make(list(p.values())), {name: [] for name in p}
    for t in range(steps):
        if closure:

            def loss():
                opt.zero_grad()
                value = curved(p["w"], p["b"])
                value.backward()
                return value

            opt.step(loss)
        else:
            for name, x in p.items():
                absent = name == "b" and t == without_b
                x.grad = None if absent else noise[name][t].detach().to(dtype) + 0.1 * x.detach()
            opt.step()
        for name, x in p.items():
            history[name].append(x.detach().clone())
    torch.set_default_dtype(torch.float32)
    return {name: torch.stack(h) for name, h in history.items()}


def write(folder):
    draw = Inputs("optimizers")
    start = {"w": draw.randn(4, 3).detach(), "b": draw.randn(5).detach()}
    noise = {"w": draw.randn(steps, 4, 3).detach(), "b": draw.randn(steps, 5).detach()}
    file = {f"{kind}/{name}": t.float() for kind, d in (("start", start), ("noise", noise)) for name, t in d.items()}
    cases = [(configurations, start, False), (muons, {"w": start["w"]}, False), (searches, {n: 0.3 * t for n, t in start.items()}, True)]
    for dtype in (torch.float64, torch.float32):
        o._muon._zeropower_via_newtonschulz = orthogonal_in(dtype)
        for configs, begin, closure in cases:
            for name, make in configs.items():
                for parameter, h in trajectory(make, begin, noise, dtype, closure).items():
                    file[f"{name}/{'f64' if dtype == torch.float64 else 'f32'}.{parameter}"] = h
    for name, p in norms.items():
        x = {n: t.clone().requires_grad_() for n, t in start.items()}
        for n, t in x.items():
            t.grad = noise[n][0].clone()
        file[f"clip/{name}.norm"] = torch.nn.utils.clip_grad_norm_(x.values(), 1.5, norm_type=p)
        for n, t in x.items():
            file[f"clip/{name}.{n}"] = t.grad
    write_file(folder / "optimizers.safetensors", file)
