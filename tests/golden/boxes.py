"""Golden file of nn/boxes.h and nn/roi_align.h: what torchvision.ops computes. Layout: tests/golden/golden.h.

tests/boxes_test.cpp has the same names.
"""

import torch
import torchvision
from torchvision import ops

from common import Inputs, as_list, cotangent, stored, write_file


def boxes(i, n, size=20.0):
    corner, sides = i.uniform(0, size, n, 2), i.uniform(0.5, size, n, 2)
    return torch.cat([corner, corner + sides], 1).detach().float().double().requires_grad_()


def cases():
    """Name, inputs by name, function."""
    for source in ("xyxy", "xywh", "cxcywh"):
        for target in ("xyxy", "xywh", "cxcywh"):
            yield f"convert {source} {target}", dict(a=lambda i: boxes(i, 5)), lambda a, s=source, t=target: ops.box_convert(a, s, t)
    yield "area", dict(a=lambda i: boxes(i, 5)), ops.box_area
    yield "clip", dict(a=lambda i: boxes(i, 9)), lambda a: ops.clip_boxes_to_image(a, (17, 23))
    yield "small", dict(a=lambda i: boxes(i, 30).detach()), lambda a: ops.remove_small_boxes(a, 7.5)
    yield "masks", dict(a=lambda i: (i.uniform(0, 1, 6, 7, 9) > 0.9) & (torch.arange(6) != 2)[:, None, None]), \
        lambda a: ops.masks_to_boxes(a)
    for name in ("box_iou", "generalized_box_iou", "distance_box_iou", "complete_box_iou"):
        yield name, dict(a=lambda i: boxes(i, 7), b=lambda i: boxes(i, 4)), getattr(ops, name)
    for name in ("generalized_box_iou_loss", "distance_box_iou_loss", "complete_box_iou_loss"):
        for reduction in ("none", "mean", "sum"):
            yield f"{name} {reduction}", dict(a=lambda i: boxes(i, 6), b=lambda i: boxes(i, 6)), \
                lambda a, b, f=getattr(ops, name), r=reduction: f(a, b, reduction=r)
    for alpha, gamma, reduction in ((0.25, 2, "none"), (-1, 1.5, "mean"), (0.6, 0, "sum")):
        yield f"focal {alpha:g} {gamma:g} {reduction}", dict(a=lambda i: i.randn(4, 5), b=lambda i: i.bools(4, 5).double()), \
            lambda a, b, x=alpha, g=gamma, r=reduction: ops.sigmoid_focal_loss(a, b, x, g, r)
    for limit in (0.0, 0.3, 0.7):
        scores = dict(a=lambda i: boxes(i, 60).detach(), b=lambda i: i.ints(0, 12, 60).double() / 16)  # with ties
        yield f"nms {limit:g}", scores, lambda a, b, t=limit: ops.nms(a, b, t)
        yield f"batched {limit:g}", dict(**scores, c=lambda i: i.ints(-1, 3, 60)), \
            lambda a, b, c, t=limit: ops.batched_nms(a, b, c, t)
    numbers = torch.tensor([[0.0], [2], [1], [1], [2]], dtype=torch.float64)
    for aligned in (False, True):
        for samples in (-1, 1, 2):
            yield f"align {aligned:d} {samples}", dict(a=lambda i: i.randn(3, 2, 9, 11),
                                                       b=lambda i: torch.cat([numbers, boxes(i, 5).detach()], 1)), \
                lambda a, b, x=aligned, s=samples: ops.roi_align(a, b, (3, 4), 0.5, s, x)


def write(folder):
    tensors = {}
    for name, inputs, function in cases():
        i = Inputs(name)
        x = {k: make(i) for k, make in inputs.items()}
        results = as_list(function(*x.values()))
        tensors.update({f"{name}/{k}": stored(v) for k, v in x.items()})
        tensors.update({f"{name}/{k}": v.detach().clone().contiguous() for k, v in enumerate(results)})
        y = results[0]
        if y.requires_grad:
            y.backward(cotangent(y, 0))
            tensors.update({f"{name}/d{k}": v.grad.clone().contiguous() for k, v in x.items() if v.requires_grad and v.grad is not None})
    write_file(folder / "boxes.safetensors", tensors, torchvision=torchvision.__version__.split("+")[0])
