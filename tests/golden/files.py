"""Writes tests/golden/files: what PyTorch and NumPy save, for tests/torch_file_test.cpp and tests/npy_test.cpp."""

from collections import OrderedDict

import numpy as np
import torch


def counted(*sizes, dtype=torch.float32):
    """0, 1, 2, ... in this shape: what the C++ tests expect."""
    return torch.arange(torch.Size(sizes).numel()).reshape(sizes).to(dtype)


def write(folder):
    folder = folder / "files"
    folder.mkdir(exist_ok=True)
    torch.manual_seed(0)
    net = torch.nn.Sequential(OrderedDict(conv=torch.nn.Conv2d(2, 3, 3), norm=torch.nn.BatchNorm2d(3),
                                          fc=torch.nn.Linear(4, 2)))
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(counted(*p.shape))
    torch.save(net.state_dict(), folder / "state_dict.pt")

    optimizer = torch.optim.Adam(net.parameters(), lr=0.5)
    net.fc(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    checkpoint = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "loss": 0.25,
                  "name": "run", "done": True, "nothing": None, "history": [1, 2.5], "size": torch.Size([2, 3]),
                  "dtype": torch.float32}
    torch.save(checkpoint, folder / "checkpoint.pt")
    torch.save(checkpoint, folder / "checkpoint_protocol_4.pt", pickle_protocol=4)

    dtypes = {str(d).split(".")[1]: counted(2, 3, dtype=d) for d in
              [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16,
               torch.int8, torch.uint8, torch.bool]}
    torch.save(dtypes, folder / "dtypes.pt")

    base = counted(4, 6)
    torch.save({"whole": base, "turned": base.t(), "part": base[1:3, ::2], "scalar": base[2, 3], "empty": base[:0],
                "parameter": torch.nn.Parameter(counted(3))}, folder / "views.pt")
    torch.save(counted(5), folder / "tensor.pt")
    torch.save(net, folder / "module.pt")  # pickled code, which is refused

    arrays = {d: np.arange(6).reshape(2, 3).astype(d) for d in
              ["f4", "f8", "f2", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "?", ">f4", ">i2"]}
    named = {k.replace("?", "bool").replace(">", "big_"): v for k, v in arrays.items()}
    named["fortran"] = np.asfortranarray(np.arange(24, dtype="f4").reshape(2, 3, 4))
    named["scalar"] = np.float32(7)
    named["empty"] = np.zeros((0, 3), "f4")
    np.savez(folder / "arrays.npz", **named)
    np.savez_compressed(folder / "packed.npz", ones=np.ones((100, 100), "f4"), **{"a/b": np.arange(3)})
    np.save(folder / "array.npy", np.arange(6, dtype="f4").reshape(2, 3))
    np.save(folder / "objects.npy", np.array([{}], dtype=object))
    np.save(folder / "structured.npy", np.zeros(2, dtype=[("a", "f4"), ("b", "i4")]))
