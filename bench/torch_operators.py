"""The operators of bench/operators.cpp in PyTorch."""

import numpy as np
import torch
import torch.nn.functional as F


def draw(sizes, device, seed=1):
    n = int(np.prod(sizes))
    hashes = (np.arange(n, dtype=np.uint64) + seed * 977) * 2654435761 & 0xFFFFFFFF
    x = (hashes >> np.uint64(8)).astype(np.float32) * np.float32(2**-24) - np.float32(0.5)
    return torch.from_numpy(x.reshape(sizes)).to(device)


def wanting(t):
    return t.detach().clone().requires_grad_()


def in_bf16(body, device):
    def call():
        with torch.autocast(torch.device(device).type, torch.bfloat16):
            return body()

    return call


def with_backward(x, others, forward):
    def call():
        for t in (x, *others):
            t.grad = None
        forward().sum().backward()
        return x.grad

    return call


def make(name, d):
    base, bf16 = name.removesuffix(", autocast"), name.endswith(", autocast")
    a, b, w = draw([1], d), draw([1], d, 2), wanting(draw([1], d, 3))
    if name == "add":
        return lambda: torch.add(a, b)
    if name == "add recorded":
        return lambda: torch.add(w, b)
    if name == "ten products and backward":

        def products():
            w.grad = None
            y = w
            for _ in range(10):
                y = y * w
            y.sum().backward()
            return w.grad

        return products
    if base == "small linear":
        x, weight = draw([8, 16], d), wanting(draw([16, 16], d, 2))
        body = lambda: F.linear(x, weight)  # noqa: E731
        return in_bf16(body, d) if bf16 else body
    if base.startswith("matmul "):
        n = int(base.split()[1])
        p, q = draw([n, n], d), draw([n, n], d, 2)
        body = lambda: torch.matmul(p, q)  # noqa: E731
        return in_bf16(body, d) if bf16 else body
    if base.startswith("conv2d"):
        x, weight = draw([32, 64, 32, 32], d), draw([64, 64, 3, 3], d, 2)
        if base == "conv2d and backward":
            x, weight = wanting(x), wanting(weight)
        body = lambda: F.conv2d(x, weight, padding=1)  # noqa: E731
        body = in_bf16(body, d) if bf16 else body
        return with_backward(weight, [x], body) if base == "conv2d and backward" else body
    if name == "batch_norm and backward":
        x, weight, bias = wanting(draw([32, 64, 32, 32], d)), wanting(draw([64], d, 2)), wanting(draw([64], d, 3))
        mean, var = torch.zeros(64, device=d), torch.ones(64, device=d)
        return with_backward(weight, [x, bias], lambda: F.batch_norm(x, mean, var, weight, bias, True).square())
    if name == "layer_norm and backward":
        x, weight, bias = wanting(draw([1024, 384], d)), wanting(draw([384], d, 2)), wanting(draw([384], d, 3))
        return with_backward(weight, [x, bias], lambda: F.layer_norm(x, (384,), weight, bias).square())
    if name == "softmax and backward":
        x = wanting(draw([1024, 1024], d))
        return with_backward(x, [], lambda: F.softmax(x, -1).square())
    if name == "cross_entropy and backward":
        x, y = wanting(draw([1024, 1000], d)), torch.arange(1024, device=d) * 7 % 1000
        return with_backward(x, [], lambda: F.cross_entropy(x, y).square())
    if name == "gelu and backward":
        x = wanting(draw([1024, 1536], d))
        return with_backward(x, [], lambda: F.gelu(x))
    if name == "attention and backward":
        q, k, v = (wanting(draw([8, 4, 128, 32], d, s)) for s in (1, 2, 3))
        return with_backward(q, [k, v], lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True).square())
    if base in ("LSTM and backward", "GRU and backward"):
        net = (torch.nn.LSTM if base.startswith("LSTM") else torch.nn.GRU)(128, 256).to(d)
        with torch.no_grad():
            for i, weight in enumerate(net.parameters()):
                weight.copy_(draw(list(weight.shape), d, i + 2) * 0.125)
        x = wanting(draw([64, 32, 128], d))
        body = lambda: net(x)[0]  # noqa: E731
        return with_backward(x, list(net.parameters()), in_bf16(body, d) if bf16 else body)
    if name == "Adam step":
        p = [wanting(draw([100_000], d, i + 1)) for i in range(10)]
        for i, t in enumerate(p):
            t.grad = draw([100_000], d, i + 20)
        optimizer = torch.optim.Adam(p, lr=1e-6, fused=True)

        def step():
            optimizer.step()
            return p[0].detach()

        return step
    raise ValueError(f'no operator of the benchmark is called "{name}"')
