"""Golden file of data/average_precision.h: what pycocotools computes for random detections of random objects.

Tensors: "boxes" [K, 4], "scores" [K], "labels" [K], "counts" [images]: detections, image by image; "targets" [images, M,
6]: objects, the last column 1 for crowds. "stats": AP, AP50, AP75 and AR100; "per class": AP of each. These two are also
there as "crowd stats" and "crowd per class": without, all objects count as single ones.
"""

import contextlib
import io

import numpy as np
import torch
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from common import write_file

IMAGES, CLASSES, MOST = 25, 4, 7


def random_boxes(g, n):
    corner, size = torch.rand(n, 2, generator=g) * 60, torch.rand(n, 2, generator=g) * 30 + 4
    return torch.cat([corner, corner + size], 1)


def evaluate(annotations, found):
    """AP, AP50, AP75 and AR100, and the AP of each class."""
    with contextlib.redirect_stdout(io.StringIO()):
        truth = COCO()
        truth.dataset = dict(images=[dict(id=i) for i in range(IMAGES)], categories=[dict(id=i) for i in range(CLASSES)],
                             annotations=annotations)
        truth.createIndex()
        evaluation = COCOeval(truth, truth.loadRes(found), "bbox")
        evaluation.evaluate(), evaluation.accumulate(), evaluation.summarize()
    precision = evaluation.eval["precision"][:, :, :, 0, -1]  # overlaps, recalls, classes
    per_class = np.where(precision > -1, precision, np.nan).mean((0, 1))
    return torch.tensor(evaluation.stats[[0, 1, 2, 8]]), torch.tensor(per_class)


def write(folder):
    g = torch.Generator().manual_seed(3)
    targets = torch.zeros(IMAGES, MOST, 6)
    targets[:, :, 4] = -1
    boxes, scores, labels, counts, annotations, found = [], [], [], [], [], []
    for image in range(IMAGES):
        n = int(torch.randint(0, MOST + 1, (1,), generator=g))
        box, label = random_boxes(g, n), torch.randint(0, CLASSES - 1, (n,), generator=g)  # the last class never occurs
        # Near the objects, some twice; and elsewhere. Scores have ties.
        near = box.repeat_interleave(2, 0) + torch.randn(2 * n, 4, generator=g) * 1.5
        near[:, 2:] = torch.maximum(near[:, 2:], near[:, :2] + 1)
        kept = torch.rand(2 * n, generator=g) < 0.7
        everything = torch.cat([near[kept], random_boxes(g, 3)])
        classes = torch.cat([label.repeat_interleave(2)[kept], torch.randint(0, CLASSES, (3,), generator=g)])
        score = (torch.rand(len(classes), generator=g) * 20).round() / 20
        crowd = torch.rand(n, generator=g) < 0.3
        targets[image, :n] = torch.cat([box, label[:, None].float(), crowd[:, None].float()], 1)
        boxes.append(everything), scores.append(score), labels.append(classes), counts.append(len(classes))
        for b, c, several in zip(box.double().numpy(), label.tolist(), crowd.tolist()):
            annotations.append(dict(id=len(annotations) + 1, image_id=image, category_id=c, iscrowd=int(several),
                                    area=float((b[2] - b[0]) * (b[3] - b[1])), bbox=[b[0], b[1], b[2] - b[0], b[3] - b[1]]))
        for b, c, s in zip(everything.double().numpy(), classes.tolist(), score.tolist()):
            found.append(dict(image_id=image, category_id=c, score=s, bbox=[b[0], b[1], b[2] - b[0], b[3] - b[1]]))
    stats, per_class = evaluate([a | dict(iscrowd=0) for a in annotations], found)
    crowd_stats, crowd_per_class = evaluate(annotations, found)
    write_file(folder / "average_precision.safetensors",
               {"boxes": torch.cat(boxes), "scores": torch.cat(scores), "labels": torch.cat(labels), "counts": torch.tensor(counts),
                "targets": targets, "stats": stats, "per class": per_class, "crowd stats": crowd_stats,
                "crowd per class": crowd_per_class})
