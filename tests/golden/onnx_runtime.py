#!/usr/bin/env python3
"""Runs what nn::save_onnx wrote in ONNX Runtime and compares the results with Mantissa's in f64.

    MANTISSA_ONNX=/tmp/onnx build/release/onnx_test
    pip install onnx onnxruntime
    tests/golden/onnx_runtime.py /tmp/onnx

Every NAME.onnx goes through the checker of the package onnx; where there is NAME.npz beside it, the results are compared
with the tolerance that it holds.
"""

import sys
from collections import Counter
from pathlib import Path

import numpy
import onnx
import onnxruntime

folder = Path(sys.argv[1])
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
count, failures, worst = Counter(), [], 0.0
for path in sorted(folder.glob("*.onnx")):
    try:
        onnx.checker.check_model(onnx.load(path), full_check=True)
        count["checked"] += 1
        results = path.with_suffix(".npz")
        if not results.exists():
            continue
        data = numpy.load(results)
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        got = session.run(None, {n: data[f"x{i}"] for i, n in enumerate(names)})
    except Exception as e:  # the message is all there is to do with it
        failures.append(f"{path.stem}: {type(e).__name__}: {str(e).strip().splitlines()[0][:300]}")
        continue
    rtol, atol = data["tolerance"]
    for k, y in enumerate(got):
        expected = data[f"y{k}"]
        if y.shape != expected.shape:
            failures.append(f"{path.stem}: result {k} has shape {y.shape}, expected {expected.shape}")
            continue
        wide, right = y.astype(numpy.float64), expected.astype(numpy.float64)
        same = (wide == right) | (numpy.isnan(wide) & numpy.isnan(right))
        with numpy.errstate(invalid="ignore"):
            error = numpy.where(same, 0, numpy.abs(wide - right) / (atol + rtol * numpy.abs(right) + 1e-300))
        largest = float(error.max(initial=0))
        if not largest <= 1:
            failures.append(f"{path.stem}: result {k} is off by {largest:.3g} times the tolerance")
        else:
            worst = max(worst, largest)
    count["compared"] += 1
for line in failures:
    print(line)
print(f"{count['checked']} files checked, {count['compared']} run and compared, {len(failures)} failures; "
      f"the largest error of the others is {worst:.3g} of the tolerance")
sys.exit(bool(failures))
