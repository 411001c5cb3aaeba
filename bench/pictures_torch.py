"""torchvision beside bench/pictures_bench.cpp: batches of 224 x 224 from a folder of JPEG files, milliseconds for each picture.

    python3 bench/pictures_torch.py build/release/pictures_bench [folder of pictures]

Without a folder, 400 pictures of 500 x 375 are made: smooth colours with noise, of quality 90. Of torchvision the fastest of: PIL's decoder and transforms, and its own decoder with
transforms v2 on tensors. Turns: ours, theirs, ours.
"""
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import io
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
to_float = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)]
change = {
    "middle": [v2.Resize(256, antialias=True), v2.CenterCrop(224)],
    "crop": [v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()],
}
ways = {
    "PIL": lambda folder, kind: ImageFolder(folder, v2.Compose(change[kind] + [v2.ToImage()] + to_float)),
    "tensors": lambda folder, kind: ImageFolder(folder, v2.Compose(change[kind] + to_float),
                                                loader=lambda path: io.decode_image(io.read_file(path), io.ImageReadMode.RGB)),
}


def make_pictures(folder):
    torch.manual_seed(0)
    for i in range(400):
        coarse = torch.rand(1, 3, 24, 32) * 255
        picture = torch.nn.functional.interpolate(coarse, (375, 500), mode="bicubic")[0] + torch.randn(3, 375, 500) * 8
        path = Path(folder) / str(i % 4) / f"{i:04}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture.clamp(0, 255).byte().permute(1, 2, 0).numpy()).save(path, quality=90)


def ours(program, folder, kind, threads):
    return float(subprocess.run([program, folder, kind, str(threads)], check=True, capture_output=True, text=True).stdout)


def theirs(way, folder, kind, threads):
    loader = DataLoader(ways[way](folder, kind), 32, num_workers=threads, persistent_workers=threads > 0)
    least = 1e9
    for _ in range(3):
        begin, pictures = time.perf_counter(), 0
        for images, _ in loader:
            pictures += len(images)
        least = min(least, (time.perf_counter() - begin) / pictures * 1e3)
    return least


def main():
    program = sys.argv[1]
    with tempfile.TemporaryDirectory() as made:
        folder = sys.argv[2] if len(sys.argv) > 2 else made
        if folder == made:
            make_pictures(folder)
        torch.set_num_threads(1)
        print("| pictures | loader's threads, workers | Mantissa, ms | torchvision, ms | its fastest way | ratio |\n|---|---|---|---|---|---|")
        for kind in change:
            for threads in (0, 1, 2):
                first = ours(program, folder, kind, threads)
                times = {way: theirs(way, folder, kind, threads) for way in ways}
                us = min(first, ours(program, folder, kind, threads))
                way = min(times, key=times.get)
                print(f"| {kind} | {threads} | {us:.3f} | {times[way]:.3f} | {way} | **{times[way] / us:.2f}x** |", flush=True)


if __name__ == "__main__":
    main()
