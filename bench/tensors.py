"""safetensors files with the standard library alone: {name: (dtype, sizes, bytes)}, dtype as in the file ("F32",
"I64")."""

import json
import struct


def write(path, tensors):
    header, offset = {}, 0
    for name, (dtype, sizes, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(sizes), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, data in tensors.values():
            f.write(data)


def read(path):
    with open(path, "rb") as f:
        data = f.read()
    length = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8 : 8 + length])
    body = memoryview(data)[8 + length :]
    return {
        name: (t["dtype"], t["shape"], body[slice(*t["data_offsets"])])
        for name, t in header.items()
        if name != "__metadata__"
    }
