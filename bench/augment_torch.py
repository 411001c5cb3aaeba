"""torchvision beside bench/augment_bench.cpp on the same u8 pictures: images/s on one thread, and how far the results are apart.

    python3 bench/augment_torch.py build/release/augment_bench [seconds for each] [cifar-10-batches-bin/test_batch.bin]

Half of the pictures are noise, half CIFAR-10's where its file is given. What has chance in it is applied picture by
picture, as a DataLoader does; the rest also to the whole batch, and the faster one counts. Turns: ours, theirs, ours.
"""
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

policy = v2.TrivialAugmentWide()


def step(op, magnitude):
    return lambda x: policy._apply_image_or_video_transform(x, op, magnitude, v2.InterpolationMode.NEAREST, {})


def aside(x):
    r, d = x.shape[-1] - 1, x.shape[-2] - 1
    return F.perspective(x, [[0, 0], [r, 0], [r, d], [0, d]], [[3, 1], [r - 3, 4], [r, d - 4], [1, d - 1]])


fixed = {
    "posterize": lambda x: F.posterize(x, 3), "solarize": lambda x: F.solarize(x, 110), "invert": F.invert,
    "autocontrast": F.autocontrast, "equalize": F.equalize, "sharpness": lambda x: F.adjust_sharpness(x, 1.7),
    "brightness": lambda x: F.adjust_brightness(x, 1.4), "contrast": lambda x: F.adjust_contrast(x, 1.6),
    "saturation": lambda x: F.adjust_saturation(x, 1.6), "hue": lambda x: F.adjust_hue(x, 0.13),
    "rotate": lambda x: F.rotate(x, 33), "shear": step("ShearX", 0.2), "translate": step("TranslateY", -6.4),
    "perspective": aside, "blur": lambda x: F.gaussian_blur(x, [3, 3], [0.9, 0.9]),
}


def by_chance(size):
    crop = [v2.RandomCrop(size, padding=4), v2.RandomHorizontalFlip()]
    return {
        "crop, flip": v2.Compose(crop), "ColorJitter": v2.ColorJitter(0.4, 0.4, 0.4, 0.1), "RandAugment": v2.RandAugment(),
        "TrivialAugmentWide": policy, "AutoAugment": v2.AutoAugment(), "AugMix": v2.AugMix(),
        "RandomPerspective": v2.RandomPerspective(p=1), "ElasticTransform": v2.ElasticTransform(),
        "crop, flip, TrivialAugmentWide, Normalize": v2.Compose(
            crop + [policy, v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.25] * 3)]),
    }


def best_time(run, seconds):
    best, end, runs = 1e9, time.perf_counter() + seconds, 0
    while time.perf_counter() < end or runs < 2:
        begin = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - begin)
        runs += 1
    return best


def ours(program, seconds, pictures, results):
    run = subprocess.run([program, str(seconds), pictures, results], check=True, capture_output=True, text=True)
    return {name: float(rate) for name, rate in re.findall(r"^(.+): (\d+) images/s$", run.stdout, re.M)}


def main():
    program, seconds = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.3
    torch.set_num_threads(1)
    torch.manual_seed(1)
    pictures = torch.randint(0, 256, (64, 3, 32, 32), dtype=torch.uint8)
    if len(sys.argv) > 3:
        rows = np.fromfile(sys.argv[3], np.uint8, 64 * 3073).reshape(64, 3073)[:, 1:]
        pictures = torch.cat([pictures, torch.from_numpy(rows.copy()).reshape(64, 3, 32, 32)])
    with tempfile.TemporaryDirectory() as folder:
        files = str(Path(folder) / "pictures.npy"), str(Path(folder) / "results.safetensors")
        np.save(files[0], pictures.numpy())
        rates = ours(program, seconds, *files)
        theirs = {}
        for name, f in fixed.items():
            theirs[name] = len(pictures) / min(best_time(lambda: f(pictures), seconds / 2),
                                               best_time(lambda: [f(x) for x in pictures], seconds / 2))
        for name, f in by_chance(tuple(pictures.shape[-2:])).items():
            theirs[name] = len(pictures) / best_time(lambda: [f(x) for x in pictures], seconds)
        again = ours(program, seconds, *files)
        results = load_file(files[1])
    print("| transform | Mantissa, images/s | torchvision, images/s | ratio | levels apart, at most | pixels that differ |\n|---|---|---|---|---|---|")
    for name, rate in theirs.items():
        best = max(rates[name], again[name])
        apart = (results[name].int() - fixed[name](pictures).int()).abs() if name in fixed else None
        said = "| |" if apart is None else f"{apart.max()} | {(apart > 0).float().mean():.2e} |"
        print(f"| {name} | {best:.0f} | {rate:.0f} | {best / rate:.1f} | {said}")


main()
