"""Golden files of modules: one per tests/golden/modules_*.cpp. Next to inputs, results and their gradients a case has the
module's state_dict under PyTorch's names (case/state/...), the gradients of its parameters (case/grad/...) and what
became of its buffers (case/after/...)."""

import torch

from common import Inputs, as_list, cotangent, here, read_table, stored, write_file
from operators import letters


def flat(y):
    return [t for part in as_list(y) for t in (flat(part) if isinstance(part, (tuple, list)) else [part]) if t is not None]


def build(name, make):
    """The module in f64, its state drawn anew so that nothing is 0 or 1 by initialisation."""
    torch.manual_seed(0)
    draw = Inputs(name + "/state")
    module = eval(make, draw.names()).double()
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(draw.randn(*p.shape) * 0.5)
        for b in module.buffers():
            b.copy_(draw.uniform(0.5, 1.5, *b.shape) if b.is_floating_point() else draw.ints(2, 5, *b.shape))
    return module


def run_case(name, inputs, make, call):
    module, draw = build(name, make), Inputs(name)
    drawn = eval(f"[{inputs}]", draw.names())
    tensors = {f"{name}/{letters[i]}": stored(t) for i, t in enumerate(drawn)}
    tensors |= {f"{name}/state/{n}": stored(t) for n, t in module.state_dict().items()}
    y = flat(eval(f"[{call}]", draw.names() | dict(zip(letters, drawn)) | {"m": module}))
    tensors |= {f"{name}/{k}": t.detach().clone().contiguous() for k, t in enumerate(y)}
    roots = [(k, t) for k, t in enumerate(y) if t.requires_grad]
    if roots:
        torch.autograd.backward([t for _, t in roots], [cotangent(t, k) for k, t in roots])
    tensors |= {f"{name}/d{letters[i]}": t.grad for i, t in enumerate(drawn) if t.grad is not None}
    tensors |= {f"{name}/grad/{n}": p.grad.clone().contiguous() for n, p in module.named_parameters() if p.grad is not None}
    saved = module.state_dict()
    tensors |= {f"{name}/after/{n}": b.clone() for n, b in module.named_buffers() if n in saved}
    return tensors


def write(folder):
    for table in sorted(here.glob("modules_*.cpp")):
        tensors, names = {}, []
        for name, inputs, make, call in read_table(table, "MODULE"):
            assert name not in names, f"{table.name}: {name} appears twice"
            names.append(name)
            try:
                tensors |= run_case(name, inputs, make, call)
            except Exception as error:
                raise RuntimeError(f"{table.name}: {name}: {make} on {inputs}: {call}") from error
        write_file(folder / f"{table.stem}.safetensors", tensors, seeds="crc32 of a case's name", cases=len(names))
