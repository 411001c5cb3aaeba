"""safetensors files to and from PyTorch (bench/tensors.py reads and writes the bytes)."""

import torch

import tensors

NAMES = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64, "BF16": torch.bfloat16, "F16": torch.float16}


def save(path, named):
    dtypes = {v: k for k, v in NAMES.items()}
    out = {}
    for name, t in named.items():
        t = t.detach().cpu().contiguous()
        out[name] = (dtypes[t.dtype], t.shape, t.reshape(-1).view(torch.uint8).numpy().tobytes())
    tensors.write(path, out)


def load(path):
    out = {}
    for name, (dtype, sizes, data) in tensors.read(path).items():
        out[name] = (
            torch.frombuffer(bytearray(data), dtype=NAMES[dtype]).reshape(sizes) if len(data) else torch.empty(sizes)
        )
    return out
