"""What the generators of golden files share: reproducible inputs, and how a file is written.

Invariant: the same versions (requirements.txt) write the same bytes on any x86-64 machine. So PyTorch computes with one
thread and its plainest kernels, and every case draws from a generator seeded with its own name.
"""

import json
import math
import os
import re
import zlib
from pathlib import Path

os.environ["ATEN_CPU_CAPABILITY"] = "default"
os.environ["MKL_CBWR"] = "COMPATIBLE"
os.environ["ONEDNN_MAX_CPU_ISA"] = "SSE41"

import torch  # noqa: E402  (after the settings it reads)
from safetensors.torch import save_file  # noqa: E402

torch.set_num_threads(1)
here = Path(__file__).resolve().parent


class Inputs:
    """Draws inputs. Floating values are f64 numbers that f32 can hold, so a test in f32 starts from the same ones."""

    def __init__(self, name):
        self.generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))

    def _float(self, t):
        return t.float().double().requires_grad_()

    def randn(self, *sizes):  # at least 0.05 away from 0, where relu and abs have kinks
        t = torch.randn(sizes, generator=self.generator, dtype=torch.float64)
        return self._float(t + torch.where(t < 0, -0.05, 0.05))

    def uniform(self, low, high, *sizes):
        return self._float(low + (high - low) * torch.rand(sizes, generator=self.generator, dtype=torch.float64))

    def distinct(self, *sizes):  # no ties: steps of 1/16 around 0
        n = math.prod(sizes)
        return self._float(((torch.randperm(n, generator=self.generator) - n / 2) / 16).reshape(sizes))

    def ints(self, low, high, *sizes):  # i64 in [low, high)
        return torch.randint(low, high, sizes, generator=self.generator)

    def bools(self, *sizes):
        return torch.rand(sizes, generator=self.generator) < 0.5

    def perm(self, n):
        return torch.randperm(n, generator=self.generator)

    def of(self, *values):  # these values: i64, bool or f64
        t = torch.tensor(list(values))
        return self._float(t) if t.is_floating_point() else t

    def special(self):  # zeros, infinities, NaN, and where piecewise functions change
        return self.of(0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 3.0, -3.0, 6.0, 25.0, -25.0, 1e-7, -1e-7)

    def edges(self):  # the same without NaN
        return self.of(*(v for v in self.special().tolist() if v == v))

    def const(self, t):  # takes no gradient
        return t.detach()

    def cx(self, x):  # pairs as complex numbers, and back
        return torch.view_as_complex(x)

    def pairs(self, z):
        return torch.view_as_real(z.resolve_conj())

    def put_at(self, x, values, *index):  # x[index] = values
        y = x.clone()
        y[index] = values
        return y

    def rotary(self, x, start=0, base=10000.0, interleaved=False):  # PyTorch has none: the definition
        t, d = x.shape[-2:]
        angle = (start + torch.arange(t, dtype=x.dtype))[:, None] * base ** (-2 * torch.arange(d // 2, dtype=x.dtype) / d)
        a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
        pair = [a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()]
        return torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)

    def names(self):
        names = {n: getattr(self, n) for n in dir(self) if not n.startswith("_")}
        return names | {"torch": torch, "D": torch.distributions, "F": torch.nn.functional, "nn": torch.nn, "inf": math.inf, "nan": math.nan}


def cotangent(y, k):
    """What arrives at result k in backward; tests/golden/golden.h has the same formula."""
    i = torch.arange(y.numel(), dtype=torch.float64)
    return ((((7 * i + 3 * k) % 13) - 6.25) / 8).reshape(y.shape).to(y.dtype)


def as_list(y):
    return list(y) if isinstance(y, (tuple, list)) else [y]


def stored(t):
    """Inputs are stored as f32, which holds them exactly; results as they are."""
    t = t.detach()
    if t.dtype == torch.float64 and bool((t.float().double() == t).logical_or(t.isnan()).all()):
        t = t.float()
    return t.clone().contiguous()


def write_file(path, tensors, **about):
    """`about` goes into the metadata, as one entry: the order of several would not be reproducible."""
    about = {"torch": torch.__version__.split("+")[0], "made by": "tests/golden/make.py", **about}
    save_file(tensors, path, metadata={"about": json.dumps(about, sort_keys=True)})
    print(f"{path.name}: {len(tensors)} tensors, {path.stat().st_size} bytes")


def read_table(header, macro):
    """The string arguments of every MACRO("...", "...", ...) in a header: name, inputs, PyTorch's side."""
    text = header.read_text()
    for match in re.finditer(rf"^ *{macro}\(", text, re.M):
        at, strings = match.end(), []
        literal = re.compile(r'\s*((?:"[^"]*"\s*)+),')
        while found := literal.match(text, at):
            strings.append("".join(re.findall(r'"([^"]*)"', found[1])))
            at = found.end()
        yield strings
