"""Golden files of operators: one per tests/golden/ops_*.h, whose lines say what PyTorch computes and what we do."""

import torch

from common import Inputs, cotangent, here, read_table, stored, write_file

letters = "xyzuvw"


def run_case(name, inputs, expression):
    draw = Inputs(name)
    drawn = eval(f"[{inputs}]", draw.names())
    tensors = {f"{name}/{letters[i]}": stored(t) for i, t in enumerate(drawn) if t is not None}
    y = eval(f"[{expression}]", draw.names() | dict(zip(letters, drawn)))
    tensors |= {f"{name}/{k}": t.detach().clone().contiguous() for k, t in enumerate(y)}
    roots = [(k, t) for k, t in enumerate(y) if t.requires_grad]
    leaves = [i for i, t in enumerate(drawn) if t is not None and t.requires_grad]
    if roots:
        torch.autograd.backward([t for _, t in roots], [cotangent(t, k) for k, t in roots])
        tensors |= {f"{name}/d{letters[i]}": drawn[i].grad for i in leaves if drawn[i].grad is not None}
    return tensors


def write(folder):
    for header in sorted(here.glob("ops_*.h")):
        tensors, names = {}, []
        for name, inputs, expression in read_table(header, "GOLDEN"):
            assert name not in names, f"{header.name}: {name} appears twice"
            names.append(name)
            try:
                tensors |= run_case(name, inputs, expression)
            except Exception as error:
                raise RuntimeError(f"{header.name}: {name}: {inputs} -> {expression}") from error
        write_file(folder / f"{header.stem}.safetensors", tensors, seeds="crc32 of a case's name", cases=len(names))
