"""Golden file of the transforms of pictures: what torchvision computes from u8 tensors, and what its policies are made of.

Results are "NAME/PICTURES" for pictures "in/PICTURES": photograph-like ones, grey ones, noise, and a flat one.
tests/golden_transforms_test.cpp has the same names.
"""

import math

import torch
import torchvision
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F
from torchvision.transforms.v2._auto_augment import AugMix, AutoAugment, RandAugment, TrivialAugmentWide

from common import write_file

OPS = ("Identity ShearX ShearY TranslateX TranslateY Rotate Brightness Color Contrast Sharpness Posterize Solarize "
       "AutoContrast Equalize Invert").split()
CORNERS = [[0, 0], [31, 0], [31, 31], [0, 31]], [[3, 1], [28, 4], [31, 27], [1, 30]]


def pictures():
    g = torch.Generator().manual_seed(29)
    y, x = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    waves = [torch.sin(x / (3 + c) + c) * torch.cos(y / (4 - c)) + (x - y) / 40 for c in range(3)]
    smooth = torch.stack(waves)[None] * 70 + 120 + torch.randn(1, 3, 32, 32, generator=g) * 6
    dark = smooth[:, :, :20, :27] * 0.2 + torch.tensor([3.0, 40, 9])[:, None, None]
    noise = torch.randint(0, 256, (1, 3, 16, 20), generator=g)
    grey = smooth[:, 1:2, :, :24] * 0.8
    flat = torch.full((1, 3, 8, 9), 77.0)
    found = {"photo": smooth, "dark": dark, "noise": noise, "grey": grey, "flat": flat}
    return {name: t.clamp(0, 255).to(torch.uint8).contiguous() for name, t in found.items()}


def cases():
    """Name, function, and the pictures it is for (all without)."""
    for bits in (0, 1, 4, 7, 8):
        yield f"posterize {bits}", lambda x, b=bits: F.posterize(x, b), None
    for threshold in (0, 100, 127.5, 255):
        yield f"solarize {threshold:g}", lambda x, t=threshold: F.solarize(x, t), None
    yield "invert", F.invert, None
    yield "autocontrast", F.autocontrast, None
    yield "equalize", F.equalize, None
    for name, f, factors in (("sharpness", F.adjust_sharpness, (0, 0.4, 1, 1.99)), ("brightness", F.adjust_brightness, (0, 0.3, 1.7)),
                             ("contrast", F.adjust_contrast, (0, 0.4, 1.99)), ("saturation", F.adjust_saturation, (0, 0.4, 1.99)),
                             ("hue", F.adjust_hue, (0.1, -0.37, 0.5))):
        for factor in factors:
            yield f"{name} {factor:g}", lambda x, f=f, v=factor: f(x, v), None
    yield "grayscale", F.rgb_to_grayscale, ("photo", "noise")
    yield "blur", lambda x: F.gaussian_blur(x, [5, 5], [1.3, 1.3]), None
    for degrees in (17.3, -30, 90, 135):
        yield f"rotate {degrees:g}", lambda x, d=degrees: F.rotate(x, d), None
    yield "rotate bilinear", lambda x: F.rotate(x, 17.3, interpolation="bilinear"), None
    yield "affine", lambda x: F.affine(x, angle=20, translate=[2, -3], scale=1.25, shear=[10, 5], fill=[9]), None
    for how in ("nearest", "bilinear"):  # with a fill, torchvision weights pixels at the border twice
        yield f"perspective {how}", lambda x, h=how: F.perspective(x, *CORNERS, interpolation=h), ("photo",)
        yield f"elastic {how}", lambda x, h=how: F.elastic(x, displacement(), interpolation=h), ("photo",)
    for mode in ("constant", "edge", "reflect", "symmetric"):
        yield f"pad {mode}", lambda x, m=mode: F.pad(x, [1, 2, 3, 4], fill=7, padding_mode=m), ("dark", "grey")
    yield "five_crop", lambda x: torch.cat(F.five_crop(x, [13, 18])), ("dark", "grey")
    yield "ten_crop", lambda x: torch.cat(F.ten_crop(x, [13, 18])), ("dark", "grey")
    yield "ten_crop vertical", lambda x: torch.cat(F.ten_crop(x, [13, 18], vertical_flip=True)), ("dark",)


def displacement():
    y, x = torch.meshgrid(torch.arange(32.0), torch.arange(32.0), indexing="ij")
    return (torch.stack([torch.sin(y / 5), torch.cos(x / 4)], -1) * 0.15)[None]


def tables(space, bins, height, width):
    """[operations, 2 + bins]: number of the operation, whether it has a sign, magnitudes or NaN."""
    rows = []
    for op, (magnitudes, signed) in space.items():
        m = magnitudes(bins, height, width)
        rows.append([OPS.index(op), float(signed)] + (m.tolist() if m is not None else [math.nan] * bins))
    return torch.tensor(rows)


def write(folder):
    tensors = {f"in/{name}": t for name, t in pictures().items()} | {"in/displacement": displacement()[0]}
    for name, f, only in cases():
        for picture, x in pictures().items():
            if only is None or picture in only:
                tensors[f"{name}/{picture}"] = f(x.clone()).contiguous()
    for name, policy, bins, size in (("rand", RandAugment, 31, (32, 32)), ("rand large", RandAugment, 31, (224, 160)),
                                     ("auto", AutoAugment, 10, (32, 32)), ("trivial", TrivialAugmentWide, 31, (32, 32)),
                                     ("augmix", AugMix, 10, (32, 47))):
        tensors[f"space/{name}"] = tables(policy._AUGMENTATION_SPACE, bins, *size)
    tensors["space/augmix partial"] = tables(AugMix._PARTIAL_AUGMENTATION_SPACE, 10, 32, 47)
    for policy in v2.AutoAugmentPolicy:
        pairs = AutoAugment(policy)._policies
        tensors[f"policy/{policy.value}"] = torch.tensor(
            [[[OPS.index(op), p, -1 if level is None else level] for op, p, level in pair] for pair in pairs])

    # Every operation of the policies at some of their strengths: [operation, magnitude] and what it gives.
    apply, chosen = TrivialAugmentWide(), []
    for space, bins, levels in ((TrivialAugmentWide._AUGMENTATION_SPACE, 31, (9, 20, 30)), (AutoAugment._AUGMENTATION_SPACE, 10, (9,))):
        for op, (magnitudes, signed) in space.items():
            m = magnitudes(bins, 32, 32)
            for level in levels if m is not None else (0,):
                for sign in (1, -1) if signed else (1,):
                    chosen.append((op, sign * float(m[level]) if m is not None else 0.0))
    chosen = list(dict.fromkeys(chosen))
    tensors["steps"] = torch.tensor([[OPS.index(op), m] for op, m in chosen], dtype=torch.float64)
    for picture in ("photo", "grey"):
        x = pictures()[picture]
        results = [apply._apply_image_or_video_transform(x.clone(), op, m, v2.InterpolationMode.NEAREST, {}) for op, m in chosen]
        tensors[f"steps/{picture}"] = torch.cat(results)
    write_file(folder / "transforms.safetensors", tensors, torchvision=torchvision.__version__.split("+")[0])
