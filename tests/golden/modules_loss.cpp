// Golden cases of losses as modules. Their options are tested as operators (ops_loss.h); a case here is about the
// module's own fields. tests/golden/module_case.h explains a line.
// clang-format off
#include "tests/golden/module_case.h"
#include "tests/golden/modules.h"

namespace mantissa::test {
namespace {

constexpr ModuleCase cases[] = {
  MODULE("CrossEntropyLoss", "randn(4, 5), ints(0, 5, 4)", "nn.CrossEntropyLoss(weight=torch.ones(5), ignore_index=3, reduction='sum', label_smoothing=0.1)", "m(x, y)", (nn::CrossEntropyLoss{{.label_smoothing = 0.1, .ignore_index = 3, .reduction = Reduction::sum}, ones({5})}), m(x, y))
  MODULE("CrossEntropyLoss.default", "randn(4, 5), ints(0, 5, 4)", "nn.CrossEntropyLoss()", "m(x, y)", (nn::CrossEntropyLoss{}), m(x, y))
  MODULE("LinearCrossEntropyLoss", "randn(4, 3), ints(0, 5, 4)", "nn.LinearCrossEntropyLoss(3, 5, bias=True, weight=torch.ones(5), ignore_index=3, reduction='sum', label_smoothing=0.1)", "m(x, y)", (nn::LinearCrossEntropyLoss(3, 5, {.bias = true, .loss = {.label_smoothing = 0.1, .ignore_index = 3, .reduction = Reduction::sum}}, ones({5}))), m(x, y))
  MODULE("LinearCrossEntropyLoss.default", "randn(4, 3), ints(0, 5, 4)", "nn.LinearCrossEntropyLoss(3, 5)", "m(x, y)", (nn::LinearCrossEntropyLoss(3, 5)), m(x, y))
  MODULE("LinearCrossEntropyLoss.out_features", "randn(2, 3), ints(0, 5, 2, 4)", "nn.LinearCrossEntropyLoss(3, 5, out_features=(4,), bias=True)", "m(x, y)", (nn::LinearCrossEntropyLoss(3, 5, {.out_features = {4}, .bias = true})), m(x, y))
  MODULE("NLLLoss", "randn(4, 5), ints(0, 5, 4)", "nn.NLLLoss(weight=torch.ones(5))", "m(x, y)", (nn::NLLLoss{{}, ones({5})}), m(x, y))
  MODULE("MSELoss", "randn(4, 5), randn(4, 5)", "nn.MSELoss()", "m(x, y)", (nn::MSELoss{}), m(x, y))
  MODULE("L1Loss", "randn(4, 5), randn(4, 5)", "nn.L1Loss(reduction='sum')", "m(x, y)", (nn::L1Loss{Reduction::sum}), m(x, y))
  MODULE("SmoothL1Loss", "randn(4, 5), randn(4, 5)", "nn.SmoothL1Loss(beta=0.5)", "m(x, y)", (nn::SmoothL1Loss{.beta = 0.5}), m(x, y))
  MODULE("HuberLoss", "randn(4, 5), randn(4, 5)", "nn.HuberLoss(delta=0.5)", "m(x, y)", (nn::HuberLoss{.delta = 0.5}), m(x, y))
  MODULE("BCELoss", "uniform(0.1, 0.9, 4, 5), uniform(0, 1, 4, 5)", "nn.BCELoss(weight=torch.ones(5))", "m(x, y)", (nn::BCELoss{ones({5})}), m(x, y))
  MODULE("BCEWithLogitsLoss", "randn(4, 5), uniform(0, 1, 4, 5)", "nn.BCEWithLogitsLoss(weight=torch.ones(5), pos_weight=torch.ones(5))", "m(x, y)", (nn::BCEWithLogitsLoss{ones({5}), Reduction::mean, ones({5})}), m(x, y))
  MODULE("KLDivLoss", "randn(4, 5), uniform(0.1, 1, 4, 5)", "nn.KLDivLoss(reduction='batchmean', log_target=True)", "m(x, y)", (nn::KLDivLoss{KlReduction::batchmean, true}), m(x, y))
  MODULE("PoissonNLLLoss", "randn(4, 5), uniform(0, 3, 4, 5)", "nn.PoissonNLLLoss()", "m(x, y)", (nn::PoissonNLLLoss{}), m(x, y))
  MODULE("GaussianNLLLoss", "randn(4, 5), randn(4, 5), uniform(0.1, 2, 4, 5)", "nn.GaussianNLLLoss(full=True)", "m(x, y, z)", (nn::GaussianNLLLoss{{.full = true}}), m(x, y, z))
  MODULE("HingeEmbeddingLoss", "randn(4, 5), ints(0, 2, 4, 5) * 2 - 1", "nn.HingeEmbeddingLoss(margin=0.5)", "m(x, y)", (nn::HingeEmbeddingLoss{0.5}), m(x, y))
  MODULE("MarginRankingLoss", "randn(4), randn(4), of(1, -1, 1, -1)", "nn.MarginRankingLoss(margin=0.5)", "m(x, y, z)", (nn::MarginRankingLoss{0.5}), m(x, y, z))
  MODULE("CosineEmbeddingLoss", "randn(3, 4), randn(3, 4), of(1, -1, 1)", "nn.CosineEmbeddingLoss(margin=-0.5)", "m(x, y, z)", (nn::CosineEmbeddingLoss{-0.5}), m(x, y, z))
  MODULE("TripletMarginLoss", "randn(3, 4), randn(3, 4), randn(3, 4)", "nn.TripletMarginLoss(margin=2., swap=True)", "m(x, y, z)", (nn::TripletMarginLoss{{.margin = 2, .swap = true}}), m(x, y, z))
  MODULE("CosineSimilarity", "randn(3, 4), randn(3, 4)", "nn.CosineSimilarity(dim=0)", "m(x, y)", (nn::CosineSimilarity{0}), m(x, y))
  MODULE("PairwiseDistance", "randn(3, 4), randn(3, 4)", "nn.PairwiseDistance(p=1., keepdim=True)", "m(x, y)", (nn::PairwiseDistance{.p = 1, .keepdim = true}), m(x, y))
  MODULE("CTCLoss", "randn(6, 2, 4), ints(1, 4, 2, 2)", "nn.CTCLoss()", "m(x.log_softmax(2), y, torch.tensor([6, 5]), torch.tensor([2, 1]))", (nn::CTCLoss{}), m(log_softmax(x, 2), y, tensor({6, 5}), tensor({2, 1})))
  MODULE("SoftMarginLoss", "randn(2, 4), const(of([1.0, -1.0, 1.0, 1.0], [-1.0, 1.0, 1.0, -1.0]))", "nn.SoftMarginLoss()", "m(x, y)", (nn::SoftMarginLoss{}), m(x, y))
  MODULE("MultiMarginLoss", "randn(4, 3), of(2, 0, 1, 1)", "nn.MultiMarginLoss(p=2, margin=0.5)", "m(x, y)", (nn::MultiMarginLoss{{.p = 2, .margin = 0.5}}), m(x, y))
  MODULE("MultiLabelMarginLoss", "randn(2, 4), of([2, 0, -1, 1], [1, -1, 3, 0])", "nn.MultiLabelMarginLoss()", "m(x, y)", (nn::MultiLabelMarginLoss{}), m(x, y))
  MODULE("MultiLabelSoftMarginLoss", "randn(2, 4), const(uniform(0, 1, 2, 4))", "nn.MultiLabelSoftMarginLoss()", "m(x, y)", (nn::MultiLabelSoftMarginLoss{}), m(x, y))
  MODULE("TripletMarginWithDistanceLoss", "randn(4, 3), randn(4, 3), randn(4, 3)", "nn.TripletMarginWithDistanceLoss(margin=0.5, swap=True)", "m(x, y, z)", (nn::TripletMarginWithDistanceLoss{{}, {.margin = 0.5, .swap = true}}), m(x, y, z))
};

}  // namespace

std::span<const ModuleCase> loss_module_cases() { return cases; }

}  // namespace mantissa::test
