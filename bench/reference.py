"""What the driver computes with PyTorch itself: initial weights, evaluations, repeated turns, gradients in f64,
counted work."""

import functools
import gc
import time
import zlib

import numpy as np
import torch
from torch.utils.flop_counter import FlopCounterMode

import models
import tensors
import torch_session
import torch_tensors


def least_seconds(device, body, tries=5):
    times = []
    for _ in range(tries):
        begin = time.perf_counter()
        body()
        if device == "cuda":
            torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return min(times)


def give_back(device):
    """What PyTorch keeps of a GPU's memory for later: the workers, other processes, need it now."""
    if device == "cuda":
        gc.collect()
        torch.cuda.empty_cache()


def then_give_back(method):
    @functools.wraps(method)
    def call(self, *arguments):
        try:
            return method(self, *arguments)
        finally:
            give_back(self.spec["device"])

    return call


def ceilings(device):
    """Floating-point operations per second of PyTorch's matrix products; on a GPU also bytes per second of copies."""
    found, n = {}, 2048 if device == "cpu" else 8192
    for precision, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16)):
        a = torch.randn(n, n, device=device).to(dtype)
        found[precision] = 2 * n**3 / least_seconds(device, lambda: torch.matmul(a, a))  # noqa: B023
    if device == "cuda":
        a = torch.empty(1 << 30, dtype=torch.uint8, device=device)
        b = torch.empty_like(a)
        found["copies"] = [[2 << 30, (2 << 30) / least_seconds(device, lambda: b.copy_(a))]]
        del a, b
    give_back(device)
    return found


class Reference:
    def __init__(self, spec, seed, init_path):
        torch.manual_seed(seed)
        net = models.MODELS[spec["model"]]()
        torch_tensors.save(init_path, net.state_dict())
        self.spec = dict(spec, init=init_path)
        self.weights = 0
        for _, t in sorted(net.state_dict().items()):
            self.weights = zlib.crc32(t.contiguous().numpy().tobytes(), self.weights)
        with open(spec["order"]["path"], "rb") as f:
            self.order = zlib.crc32(f.read())

    def session(self, precision, dtype=torch.float32):
        return torch_session.Session(self.spec, "amp" if precision == "bf16" else "eager", dtype)

    @then_give_back
    def evaluate(self, precision, path):
        s = self.session(precision)
        s.restore(path, 0)
        return s.evaluate()

    @then_give_back
    def replay(self, precision, path, step, count):
        """The losses of `count` steps from a snapshot, and the step counts of the optimizer in it."""
        s = self.session(precision)
        counted = s.restore(path, step)
        return s.run(count)["losses"], counted

    @then_give_back
    def perturbed(self, precision, steps):
        """The losses of the first steps, from weights that are each off by eight roundings: as much as Winograd's
        convolutions are."""
        s = self.session(precision)
        with torch.no_grad():
            for p in s.net.parameters():
                p.mul_(torch.where(torch.rand_like(p) < 0.5, 1 + 2**-21, 1 - 2**-21))
        return s.run(steps)["losses"]

    @then_give_back
    def gradients64(self, path, step):
        s = self.session("f32", torch.float64)
        if path:
            s.restore(path, step)
        return {n: g.numpy() for n, g in s.gradients(step)["gradients"].items()}

    @then_give_back
    def gradients(self, precision, path, step):
        s = self.session(precision)
        if path:
            s.restore(path, step)
        return {n: g.float().numpy() for n, g in s.gradients(step)["gradients"].items()}

    @then_give_back
    def work(self):
        """Floating-point operations of one step forward and backward; the same with Winograd's F(4x4, 3x3), which
        needs a quarter of the multiplications of a 3x3 convolution of stride 1; and bytes of weights and moments read
        and written.
        """
        s = self.session("f32")
        three = [
            m
            for m in s.net.modules()
            if isinstance(m, torch.nn.Conv2d) and m.kernel_size == (3, 3) and m.stride == (1, 1)
        ]
        saved, first = [0], next(iter(s.net.children()))

        def count(m, _, y):
            passes = 2 if m is first else 3  # the picture needs no gradient
            saved[0] += passes * 2 * y.numel() * m.weight[0].numel() * 3 / 4

        hooks = [m.register_forward_hook(count) for m in three]
        with FlopCounterMode(display=False) as counter:
            s.run(1)
        for h in hooks:
            h.remove()
        total = counter.get_total_flops()
        values = sum(p.numel() for p in s.net.parameters())
        moments = sum(
            t.numel()
            for p in s.net.parameters()
            for t in s.optimizer.state[p].values()
            if torch.is_tensor(t) and t.dim()
        )
        return {"flops": total, "least_flops": total - saved[0], "bytes": 4 * 2 * (values + moments)}

    @staticmethod
    def parameters(path, names):
        named = tensors.read(path)
        return {n: named[n][2] for n in names}

    @staticmethod
    def errors(found, true):
        """{name: norm of the difference over norm of the true gradient}. found: a file, or arrays by name."""
        if isinstance(found, str):
            found = {n: t.numpy() for n, t in torch_tensors.load(found).items()}
        norm = np.linalg.norm
        return {n: float(norm(found[n].astype(np.float64) - g) / max(norm(g), 1e-30)) for n, g in true.items()}
