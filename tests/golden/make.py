#!/usr/bin/env python3
"""Writes the golden files: what PyTorch computes, for the tests to compare with. The same versions write the same bytes.

    pip install -r tests/golden/requirements.txt
    tests/golden/make.py            # all, into tests/golden
    tests/golden/make.py operators --folder /tmp/x   # one generator, elsewhere

A generator is a module beside this file with a function write(folder).
"""

import argparse
import importlib
import warnings
from pathlib import Path

from common import here

generators = [p.stem for p in sorted(here.glob("*.py")) if "\ndef write(folder)" in p.read_text()]

parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
parser.add_argument("only", nargs="*", help=f"of {', '.join(generators)}; none means all")
parser.add_argument("--folder", type=Path, default=here)
options = parser.parse_args()
warnings.simplefilter("ignore")
for name in options.only or generators:
    importlib.import_module(name).write(options.folder)
