"""The golden file of distributions: tests/golden/distributions.cpp says what torch.distributions computes and what we do."""

import torch

from common import here, read_table, write_file
from operators import run_case


def write(folder):
    torch.distributions.Distribution.set_default_validate_args(False)
    torch.set_default_dtype(torch.float64)  # of the numbers that expressions and torch.distributions make
    tensors, names = {}, []
    for name, inputs, expression in read_table(here / "distributions.cpp", "GOLDEN"):
        assert name not in names, f"distributions.cpp: {name} appears twice"
        names.append(name)
        try:
            tensors |= run_case(name, inputs, expression)
        except Exception as error:
            raise RuntimeError(f"distributions.cpp: {name}: {inputs} -> {expression}") from error
    write_file(folder / "distributions.safetensors", tensors, seeds="crc32 of a case's name", cases=len(names))
    torch.set_default_dtype(torch.float32)
