"""Golden file of the parts of detectors (nn/deform_conv.h, nn/feature_pyramid.h, nn/anchors.h, nn/roi_align.h) and of
nn/squeeze_excitation.h: what torchvision computes. Layout: tests/golden/golden.h, with parameters of modules as inputs p.<name>.

tests/detection_test.cpp has the same names.
"""

import torch
import torchvision
from torchvision import ops
from torchvision.models.detection import anchor_utils, image_list
from torchvision.models.detection._utils import BoxCoder, Matcher
from torchvision.ops.feature_pyramid_network import LastLevelMaxPool, LastLevelP6P7

from boxes import boxes
from common import Inputs, cotangent, stored, write_file


def deform(x, offset, weight, bias=None, mask=None, **options):
    return [ops.deform_conv2d(x, offset, weight, bias, mask=mask, **options)]


def pyramid(extra, norm=None, top=4):
    net = ops.FeaturePyramidNetwork([2, 3, top], 4, extra, norm).double()
    return net, lambda net, a, b, c: list(net({"a": a, "b": b, "c": c}).values())


maps = dict(a=lambda i: i.randn(2, 2, 12, 10), b=lambda i: i.randn(2, 3, 6, 5), c=lambda i: i.randn(2, 4, 3, 3))


def multi_scale(a, b, c, d, e):
    pool = ops.MultiScaleRoIAlign(["0", "1", "2"], (3, 2), 2, canonical_scale=3, canonical_level=1)
    return [pool({"0": a, "1": b, "2": c}, [d, e], [(32, 40), (30, 40)])]


def anchors(a, b):
    make = anchor_utils.AnchorGenerator(((8, 13), (33,)), ((0.5, 1.0, 2.7),) * 2)
    sizes = [(50, 67)] * 2
    make.set_cell_anchors(torch.float64, torch.device("cpu"))
    return [make(image_list.ImageList(torch.zeros(2, 3, 50, 67), sizes), [a, b])[0]]


def cases():
    """Name, inputs by name, function, and for a module its net."""
    yield "deform", dict(a=lambda i: i.randn(2, 3, 7, 6), b=lambda i: i.randn(2, 18, 7, 6), c=lambda i: i.randn(4, 3, 3, 3)), \
        lambda a, b, c: deform(a, b, c, padding=1)
    yield "deform far", dict(a=lambda i: i.randn(1, 2, 5, 4), b=lambda i: i.uniform(-9, 9, 1, 18, 5, 4), c=lambda i: i.randn(2, 2, 3, 3)), \
        lambda a, b, c: deform(a, b, c, padding=1)
    yield "deform still", dict(a=lambda i: i.randn(2, 3, 7, 6), b=lambda i: (i.randn(2, 18, 7, 6) * 0).detach().requires_grad_(),
                               c=lambda i: i.randn(4, 3, 3, 3)), lambda a, b, c: deform(a, b, c, padding=1)
    yield "deform all", dict(a=lambda i: i.randn(2, 8, 9, 11), b=lambda i: i.randn(2, 24, 4, 10), c=lambda i: i.randn(6, 4, 3, 2),
                             d=lambda i: i.uniform(0, 1, 2, 12, 4, 10), e=lambda i: i.randn(6)), \
        lambda a, b, c, d, e: deform(a, b, c, e, d, stride=(2, 1), padding=(1, 2), dilation=(2, 5))
    numbers = torch.tensor([[0.0], [2], [1], [1], [2]], dtype=torch.float64)
    for samples in (-1, 1, 2):
        yield f"ps_align {samples}", dict(a=lambda i: i.randn(3, 12, 8, 9), b=lambda i: torch.cat([numbers, boxes(i, 5).detach()], 1)), \
            lambda a, b, s=samples: [ops.ps_roi_align(a, b, (2, 3), 0.5, s)]
    yield "multi scale", dict(a=lambda i: i.randn(2, 2, 16, 20), b=lambda i: i.randn(2, 2, 8, 10), c=lambda i: i.randn(2, 2, 4, 5),
                              d=lambda i: boxes(i, 9).detach(), e=lambda i: boxes(i, 4, 12.0).detach()), multi_scale
    yield "pyramid", maps, *reversed(pyramid(None))
    yield "pyramid pool", maps, *reversed(pyramid(LastLevelMaxPool(), torch.nn.BatchNorm2d))
    yield "pyramid p6", maps, *reversed(pyramid(LastLevelP6P7(4, 4)))
    yield "pyramid c6", dict(maps, c=lambda i: i.randn(2, 5, 3, 3)), *reversed(pyramid(LastLevelP6P7(5, 4), top=5))
    yield "anchors", dict(a=lambda i: i.randn(2, 1, 7, 9).detach(), b=lambda i: i.randn(2, 1, 3, 5).detach()), anchors
    squeezed = dict(a=lambda i: i.randn(2, 6, 5, 4))
    for name, options in ("squeeze", {}), ("squeeze silu", dict(activation=torch.nn.SiLU, scale_activation=torch.nn.Tanh)):
        yield name, squeezed, lambda net, a: [net(a)], ops.SqueezeExcitation(6, 3, **options).double()
    pair = dict(a=lambda i: boxes(i, 7), b=lambda i: boxes(i, 7))
    yield "encode", pair, lambda a, b: [BoxCoder((10.0, 10.0, 5.0, 5.0)).encode_single(a, b)]
    yield "decode", dict(pair, a=lambda i: i.uniform(-6, 6, 7, 4)), lambda a, b: [BoxCoder((1.0, 1.0, 1.0, 1.0)).decode_single(a, b)]
    iou = dict(a=lambda i: boxes(i, 5).detach(), b=lambda i: boxes(i, 60).detach())
    for low_quality in (False, True):
        yield f"match {low_quality:d}", iou, lambda a, b, q=low_quality: [Matcher(0.5, 0.2, q)(ops.box_iou(a, b))]


def write(folder):
    tensors = {}
    for name, inputs, function, *nets in cases():
        i = Inputs(name)
        x = {k: make(i) for k, make in inputs.items()}
        parameters = {}
        for net in nets:
            for key, p in net.named_parameters():
                p.data = i.randn(*p.shape).detach()
                parameters["p." + key] = p
        results = function(*nets, *x.values())
        tensors.update({f"{name}/{k}": stored(v) for k, v in (x | parameters).items()})
        tensors.update({f"{name}/{k}": v.detach().clone().contiguous() for k, v in enumerate(results)})
        if results[0].requires_grad:
            torch.autograd.backward(results, [cotangent(y, k) for k, y in enumerate(results)])
            tensors.update({f"{name}/d{k}": v.grad.clone().contiguous() for k, v in (x | parameters).items()
                            if v.requires_grad and v.grad is not None})
    write_file(folder / "detection.safetensors", tensors, torchvision=torchvision.__version__.split("+")[0])
