#!/usr/bin/env python3
"""Lets PyTorch load what Mantissa saved, strictly, and compares every bit with the state Mantissa was given.

    tests/golden/load_back.py build/release/golden_modules_test build/release/golden_modules_sequence_test
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file

from common import here, read_table
from modules import build

with tempfile.TemporaryDirectory() as folder:
    environment = os.environ | {"MANTISSA_SAVE": folder}
    for program in sys.argv[1:]:
        subprocess.run([program, "[.save]"], env=environment, check=True, stdout=subprocess.DEVNULL)
    loaded = 0
    for table in sorted(here.glob("modules_*.cpp")):
        for name, _, make, _ in read_table(table, "MODULE"):
            module = build(name, make).float()
            if not module.state_dict():
                continue
            expected = {n: t.clone() for n, t in module.state_dict().items()}
            for t in module.state_dict().values():
                t.zero_()
            module.load_state_dict(load_file(Path(folder) / f"{name}.safetensors"))
            assert all(torch.equal(expected[n], t) for n, t in module.state_dict().items()), name
            loaded += 1
print(f"PyTorch loaded {loaded} modules that Mantissa had saved")
