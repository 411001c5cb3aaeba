#!/usr/bin/env python3
"""Writes tests/golden_autocast.h: what PyTorch's autocast makes of each operator, on its CPU and on CUDA.

    python3 tests/golden_autocast.py > tests/golden_autocast.h

Each operator runs in a region of f16 (CUDA) or bf16 (CPU) with floating inputs all f32, all low, the first low and the
others f32, and the other way round; the table has the dtype of each result, "-" where PyTorch raises. CUDA's rows come
from fake tensors, which know dtypes and devices but hold no elements: no GPU is needed.
"""
import warnings

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

warnings.filterwarnings("ignore")
f32 = torch.float32
ints = "ints"  # marks an input that is no floating tensor


def calls():
    """(name here, [input shapes or (ints, shape, bound)], function)"""
    v, m, b3 = (4,), (4, 4), (2, 4, 4)
    image, line = (2, 4, 6, 6), (2, 4, 8)
    idx = (ints, (4,), 4)
    rows = (ints, (4, 4), 4)
    label = (ints, (4,), 4)
    unary = ("neg abs square sqrt rsqrt reciprocal sign floor ceil trunc round exp exp2 expm1 log log1p log2 log10 erf erfc "
             "erfinv sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh sigmoid relu").split()
    for name in unary:
        yield name, [m], getattr(torch, name)
    for name in "relu6 leaky_relu elu selu celu gelu silu mish softplus hardtanh hardsigmoid hardswish logsigmoid glu".split():
        yield name, [m], getattr(F, name)
    for name in "add sub mul div maximum minimum fmod remainder atan2 eq ne lt le gt ge".split():
        yield name, [m, m], getattr(torch, name)
    yield "pow", [m, m], torch.pow
    yield "clamp", [m], lambda x: torch.clamp(x, 0.1, 0.5)
    yield "where", [m, m], lambda a, b: torch.where(torch.ones_like(a, dtype=torch.bool), a, b)
    yield "lerp", [m, m, m], torch.lerp
    yield "addcmul", [m, m, m], torch.addcmul
    yield "addcdiv", [m, m, m], torch.addcdiv
    yield "prelu", [m, (1,)], F.prelu
    for name in "sum mean prod".split():
        yield name, [m], lambda x, f=getattr(torch, name): f(x, 1)
    for name in "var std amax amin logsumexp cumsum cumprod".split():
        yield name, [m], lambda x, f=getattr(torch, name): f(x, 1)
    yield "max", [m], lambda x: torch.max(x, 1)[0]
    yield "norm", [m], lambda x: torch.norm(x, 2, 1)
    for name, shapes in {"matmul": (m, m), "bmm": (b3, b3), "mv": (m, v), "dot": (v, v), "outer": (v, v)}.items():
        yield name, list(shapes), getattr(torch, name)
    yield "linear", [m, m, v], F.linear
    yield "addmm", [m, m, m], torch.addmm
    yield "baddbmm", [b3, b3, b3], torch.baddbmm
    yield "inner", [m, m], torch.inner
    yield "tensordot", [m, m], lambda a, b: torch.tensordot(a, b, 1)
    yield "einsum", [m, m], lambda a, b: torch.einsum("ij,jk->ik", a, b)
    yield "tril", [m], torch.tril
    yield "triu", [m], torch.triu
    yield "trace", [m], torch.trace
    yield "diagonal", [m], torch.diagonal
    yield "conv2d", [image, (4, 4, 3, 3), v], F.conv2d
    yield "conv1d", [line, (4, 4, 3), v], F.conv1d
    yield "conv_transpose2d", [image, (4, 4, 3, 3), v], F.conv_transpose2d
    yield "conv_transpose1d", [line, (4, 4, 3), v], F.conv_transpose1d
    yield "max_pool2d", [image], lambda x: F.max_pool2d(x, 2)
    yield "avg_pool2d", [image], lambda x: F.avg_pool2d(x, 2)
    yield "adaptive_avg_pool2d", [image], lambda x: F.adaptive_avg_pool2d(x, 2)
    yield "max_pool1d", [line], lambda x: F.max_pool1d(x, 2)
    yield "avg_pool1d", [line], lambda x: F.avg_pool1d(x, 2)
    yield "adaptive_avg_pool1d", [line], lambda x: F.adaptive_avg_pool1d(x, 2)
    yield "batch_norm", [image, v, v], lambda x, w, b: F.batch_norm(x, None, None, w, b, True)
    yield "layer_norm", [m, v, v], lambda x, w, b: F.layer_norm(x, (4,), w, b)
    yield "group_norm", [image, v, v], lambda x, w, b: F.group_norm(x, 2, w, b)
    yield "instance_norm", [image, v, v], lambda x, w, b: F.instance_norm(x, None, None, w, b)
    yield "rms_norm", [m, v], lambda x, w: F.rms_norm(x, (4,), w)
    yield "local_response_norm", [image], lambda x: F.local_response_norm(x, 2)
    yield "softmax", [m], lambda x: torch.softmax(x, 1)
    yield "log_softmax", [m], lambda x: torch.log_softmax(x, 1)
    yield "cross_entropy", [m, label], F.cross_entropy
    yield "nll_loss", [m, label], F.nll_loss
    for name in "mse_loss l1_loss smooth_l1_loss huber_loss kl_div poisson_nll_loss hinge_embedding_loss".split():
        yield name, [m, m], getattr(F, name)
    yield "binary_cross_entropy", [m, m], F.binary_cross_entropy
    yield "binary_cross_entropy_with_logits", [m, m], F.binary_cross_entropy_with_logits
    yield "gaussian_nll_loss", [m, m, m], lambda x, t, v: F.gaussian_nll_loss(x, t, v)
    yield "margin_ranking_loss", [v, v, v], F.margin_ranking_loss
    yield "cosine_similarity", [m, m], F.cosine_similarity
    yield "pairwise_distance", [m, m], F.pairwise_distance
    yield "cosine_embedding_loss", [m, m, v], F.cosine_embedding_loss
    yield "triplet_margin_loss", [m, m, m], F.triplet_margin_loss
    yield "embedding", [m, idx], lambda w, i: F.embedding(i, w)
    yield "gather", [m, rows], lambda x, i: torch.gather(x, 1, i)
    yield "scatter_add", [m, rows, m], lambda x, i, s: torch.scatter_add(x, 1, i, s)
    yield "index_select", [m, idx], lambda x, i: torch.index_select(x, 1, i)
    yield "index_add", [m, idx, m], lambda x, i, s: torch.index_add(x, 1, i, s)
    yield "index_copy", [m, idx, m], lambda x, i, s: torch.index_copy(x, 1, i, s)
    yield "index_put", [m, idx, m], lambda x, i, s: torch.index_put(x, (i,), s)
    yield "masked_fill", [m], lambda x: x.masked_fill(torch.ones_like(x, dtype=torch.bool), 1.0)
    yield "cat", [m, m], lambda a, b: torch.cat([a, b])
    yield "stack", [m, m], lambda a, b: torch.stack([a, b])
    yield "dropout", [m], lambda x: F.dropout(x, 0.5)
    yield "flip", [m], lambda x: torch.flip(x, (0,))
    yield "pad", [image], lambda x: F.pad(x, (1, 1))
    yield "reflection_pad", [image], lambda x: F.pad(x, (1, 1, 1, 1), "reflect")
    yield "replication_pad", [image], lambda x: F.pad(x, (1, 1, 1, 1), "replicate")
    yield "interpolate", [image], lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear")
    yield "pixel_shuffle", [image], lambda x: F.pixel_shuffle(x, 2)
    yield "unfold", [image], lambda x: F.unfold(x, 2)
    yield "scaled_dot_product_attention", [b3, b3, b3], F.scaled_dot_product_attention


def run(f, shapes, dtypes, device):
    x, k = [], 0
    for s in shapes:
        if s[0] == ints:
            x.append(torch.zeros(s[1], dtype=torch.long, device=device))
        else:
            x.append(torch.full(s, 0.5, dtype=dtypes[min(k, 1)], device=device))
            k += 1
    try:
        y = f(*x)
    except RuntimeError:
        return "-"
    return {torch.float32: "f32", torch.float16: "low", torch.bfloat16: "low", torch.bool: "bool"}[y.dtype]


def row(f, shapes, device, low):
    floats = sum(s[0] != ints for s in shapes)
    kinds = [(f32, f32), (low, low)] + ([(low, f32), (f32, low)] if floats > 1 else [])
    torch.set_autocast_dtype(device, low)
    torch.set_autocast_enabled(device, True)
    try:
        return [run(f, shapes, d, device) for d in kinds] + [""] * (4 - len(kinds))
    finally:
        torch.set_autocast_enabled(device, False)


print(f"// What PyTorch {torch.__version__.split('+')[0]} makes of each operator under autocast: results of inputs f32, low, first low, first f32.")
print("// Written by tests/golden_autocast.py.")
print("#pragma once\n\nnamespace mantissa::test {\n")
print("struct GoldenAutocast {\n  const char* op;\n  const char* cuda[4];  // f16\n  const char* cpu[4];   // bf16\n};")
print("inline constexpr GoldenAutocast golden_autocast[] = {")
for name, shapes, f in calls():
    with FakeTensorMode():
        cuda = row(f, shapes, "cuda", torch.float16)
    if name in ("index_add", "index_copy"):  # fake tensors do not check what the kernels refuse
        cuda[2:] = ["-", "-"]
    cpu = row(f, shapes, "cpu", torch.bfloat16)
    quote = lambda r: "{" + ", ".join(f'"{c}"' for c in r) + "}"
    print(f'    {{"{name}", {quote(cuda)}, {quote(cpu)}}},')
print("};\n\n}  // namespace mantissa::test")
