"""Golden file of data/binary_scores.h: what scikit-learn computes for random scores, many of them equal.

Tensors: "scores", "labels" [N]; "areas": ROC AUC and average precision; "fpr", "tpr", "roc thresholds"; "precision",
"recall", "thresholds". And of RegressionErrors (data/metrics.h): "predictions", "targets" [N]; "errors": mean absolute
and mean squared error, R2.
"""

import torch
from sklearn import metrics

from common import write_file


def write(folder):
    g = torch.Generator().manual_seed(5)
    labels = (torch.rand(300, generator=g) < 0.3).long()
    scores = ((torch.randn(300, generator=g) + labels) * 8).round() / 8
    t, s = labels.numpy(), scores.numpy()
    fpr, tpr, roc_thresholds = metrics.roc_curve(t, s, drop_intermediate=False)
    precision, recall, thresholds = metrics.precision_recall_curve(t, s)
    targets = torch.randn(200, generator=g)
    predictions = targets + 0.5 * torch.randn(200, generator=g)
    y, p = targets.double().numpy(), predictions.double().numpy()
    everything = {"areas": [metrics.roc_auc_score(t, s), metrics.average_precision_score(t, s)], "fpr": fpr, "tpr": tpr,
                  "roc thresholds": roc_thresholds, "precision": precision, "recall": recall, "thresholds": thresholds,
                  "errors": [metrics.mean_absolute_error(y, p), metrics.mean_squared_error(y, p), metrics.r2_score(y, p)]}
    write_file(folder / "binary_scores.safetensors",
               {"scores": scores, "labels": labels, "predictions": predictions, "targets": targets}
               | {name: torch.tensor(list(values), dtype=torch.float64) for name, values in everything.items()})
