// embedding_bag: sums and averages of bags of rows of a table, in one pass. Gradients are those of the composition of
// embedding and sums by index.
#include "core/bags.h"

#include "autograd/place.h"
#include "core/ops_special.h"
#include "ops/apply.h"
#include "ops/index.h"
#include "ops/registry.h"

namespace mantissa {

MANTISSA_KERNEL(check_indices, const View& index, std::int64_t size)
MANTISSA_KERNEL(check_offsets, const View& offsets, std::int64_t indices)
MANTISSA_KERNEL(sum_bags, const View& y, const View& weight, const View& indices, const View& offsets,
                const View& factors, const Bags& how)
MANTISSA_KERNEL(add_bags, const View& y, const View& g, const View& indices, const View& offsets)
MANTISSA_KERNEL(fill, const View& y, double value)

namespace {

// The bag of each of n indices.
Tensor bag_of_each(const Tensor& offsets, std::int64_t n) {
  return searchsorted(offsets, arange(n, {.dtype = i64, .device = offsets.device()}), true) - Tensor(1);
}

// Sums of rows of g by the indices of their bags: the gradient of a table with `rows` rows, of which `padding` gets
// none.
struct EmbeddingBagBackward {
  static constexpr auto name = "embedding_bag_backward";
  static constexpr const char* args[] = {"gradient", "indices", "offsets"};
  std::int64_t rows;
  std::int64_t padding = -1;

  Spec infer(const Tensor& g, const Tensor& indices, const Tensor& offsets) const {
    check(indices.dtype() == i64 && offsets.dtype() == i64, "needs i64 indices and offsets");
    check(g.dim() == 2 && offsets.dim() == 1 && offsets.numel() == g.size(0) + 1,
          "needs a row of the gradient for each bag");
    return like(g, Dims{rows, g.size(1)});
  }
  void run(const View& y, View g, View indices, View offsets) const {
    const std::array owners{make_dense(g), make_dense(indices), make_dense(offsets)};
    kernels::fill(y.device, y, 0.0);
    kernels::add_bags(y.device, y, g, indices, offsets);
    if (padding >= 0) kernels::fill(y.device, row_of(y, padding), 0.0);
  }
  static constexpr auto vjp() {
    return rules(
        [](const EmbeddingBagBackward& op, Grad g, In<1> indices, In<2> offsets) {
          const std::optional<std::int64_t> padding = op.padding < 0 ? std::optional<std::int64_t>() : op.padding;
          return embedding_bag(g, indices, offsets, false, {}, padding);
        },
        no_gradient, no_gradient);
  }
  static void samples(Samples& s) {
    for (const std::int64_t padding : {-1, 2})
      s({s.randn({3, 4}), s.integers({6}, 0, 5), tensor({0, 2, 2, 6})}, EmbeddingBagBackward{5, padding});
  }
};

struct EmbeddingBag {
  static constexpr auto name = "embedding_bag";
  static constexpr const char* args[] = {"weight", "indices", "offsets", "factors"};
  bool mean = true;
  std::optional<std::int64_t> padding_idx = {};

  Spec infer(const Tensor& weight, const Tensor& indices, const Tensor& offsets, const Tensor& factors) const {
    check(weight.dim() == 2 && weight.is_floating(), "the weight must be floating, [rows, columns]");
    check(indices.dim() == 1 && indices.dtype() == i64, "the indices must be i64 with 1 dimension");
    check(offsets.dim() == 1 && offsets.dtype() == i64 && offsets.numel() > 0,
          "the offsets must be i64 with 1 dimension, and at least one");
    check(offsets.numel() > 1 || indices.numel() == 0, indices.numel(), " indices belong to no bag");
    check(!factors.defined() || (factors.sizes() == indices.sizes() && factors.dtype() == weight.dtype()),
          "the factors must be ", weight.dtype(), " ", indices.sizes());
    check(!factors.defined() || !mean, "factors need a sum, not a mean");
    padding_row(padding_idx, weight.size(0));
    return like(weight, Dims{offsets.numel() - 1, weight.size(1)});
  }
  void run(const View& y, View weight, View indices, View offsets, View factors) const {
    const std::array owners{make_dense(weight), make_dense(indices), make_dense(offsets), make_dense(factors)};
    kernels::check_offsets(y.device, offsets, indices.numel());
    kernels::check_indices(y.device, indices, weight.sizes[0]);
    kernels::sum_bags(y.device, y, weight, indices, offsets, factors,
                      Bags{mean, padding_row(padding_idx, weight.sizes[0])});
  }

  // How many rows of each bag count, at least 1: [bags, 1], of `dtype`.
  Tensor terms(const Tensor& indices, const Tensor& offsets, std::int64_t padding, Dtype dtype) const {
    Tensor n = diff(offsets);
    if (padding >= 0) {
      const Tensor counts = cast(indices != static_cast<double>(padding), i64);
      n = index_add(zeros_like(n), 0, bag_of_each(offsets, indices.numel()), counts);
    }
    return unsqueeze(cast(clamp_min(n, 1), dtype), 1);
  }
  static constexpr auto vjp() {
    return rules(
        [](const EmbeddingBag& op, Grad g, Shape<0> weight, In<1> indices, In<2> offsets, In<3> factors, Into<0> to) {
          const std::int64_t padding = padding_row(op.padding_idx, weight.sizes[0]);
          if (factors.defined()) {
            const Tensor each = index_select(g, 0, bag_of_each(offsets, indices.numel())) * unsqueeze(factors, 1);
            return table_gradient(to, weight.sizes[0], each, indices, padding);
          }
          const Tensor of_bag = contiguous(op.mean ? g / op.terms(indices, offsets, padding, g.dtype()) : g);
          if (!to.leaf || to.dtype != g.dtype() || padding >= 0)
            return apply(EmbeddingBagBackward{weight.sizes[0], padding}, of_bag, indices, offsets);
          autograd::Place place(to, weight.sizes, g.device());
          if (!place.adds()) kernels::fill(g.device(), place.view(), 0.0);
          kernels::add_bags(g.device(), place.view(), of_bag.view(), contiguous(indices).view(),
                            contiguous(offsets).view());
          return place.done();
        },
        no_gradient, no_gradient,
        [](const EmbeddingBag& op, Grad g, In<0> weight, In<1> indices, In<2> offsets) {
          const Tensor of_bag = index_select(g, 0, bag_of_each(offsets, indices.numel()));
          const Tensor each = sum(of_bag * index_select(weight, 0, indices), {1});
          if (!op.padding_idx) return each;
          const std::int64_t padding = padding_row(op.padding_idx, weight.size(0));
          return where(indices != static_cast<double>(padding), each, zeros_like(each));
        });
  }
  static Tensor reference(const EmbeddingBag& op, const Tensor& weight, const Tensor& indices, const Tensor& offsets,
                          const Tensor& factors) {
    const std::int64_t padding = padding_row(op.padding_idx, weight.size(0));
    const Tensor bag = bag_of_each(offsets, indices.numel());
    Tensor rows = index_select(weight, 0, indices);
    if (factors.defined()) rows = rows * unsqueeze(factors, 1);
    if (padding >= 0) rows = where(unsqueeze(indices != static_cast<double>(padding), 1), rows, zeros_like(rows));
    const TensorOptions o{.dtype = weight.dtype(), .device = weight.device()};
    const Tensor sums = index_add(zeros({offsets.numel() - 1, weight.size(1)}, o), 0, bag, rows);
    return op.mean ? sums / op.terms(indices, offsets, padding, sums.dtype()) : sums;
  }
  static void samples(Samples& s) {
    const auto offsets = [](std::vector<std::int64_t> o) {
      return from_data(o, {static_cast<std::int64_t>(o.size())});
    };
    for (const bool mean : {false, true}) {
      s({s.randn({5, 4}), s.integers({6}, 0, 5), offsets({0, 2, 2, 6}), Tensor()}, EmbeddingBag{mean});
      // by design, row 3 gets no gradient
      s({s.randn({5, 3}), s.integers({6}, 0, 5), offsets({0, 1, 6}), Tensor()}, EmbeddingBag{mean, -2}).differentiable =
          false;
      s({s.randn({5, 4}), s.integers({0}, 0, 5), offsets({0}), Tensor()}, EmbeddingBag{mean});
      s({s.randn({5, 4}), s.integers({0}, 0, 5), offsets({0, 0}), Tensor()}, EmbeddingBag{mean});
    }
    s({s.randn({5, 16}), s.integers({6}, 0, 5), offsets({0, 2, 2, 6}), s.randn({6})}, EmbeddingBag{false});
    s.error({s.randn({5, 4}), s.integers({6}, 5, 6), offsets({0, 6}), Tensor()}, EmbeddingBag{},
            "index 5 is out of range for a dimension of size 5");
    for (const auto& wrong : {offsets({1, 6}), offsets({0, 4, 3, 6}), offsets({0, 5}), offsets({0, 7})})
      s.error({s.randn({5, 4}), s.integers({6}, 0, 5), wrong, Tensor()}, EmbeddingBag{},
              "offsets must begin with 0, not fall");
    s.error({s.randn({5, 4}), s.integers({6}, 0, 5), offsets({0}), Tensor()}, EmbeddingBag{},
            "6 indices belong to no bag");
    s.error({s.randn({5, 4}), s.integers({6}, 0, 5), offsets({0, 6}), s.randn({6})}, EmbeddingBag{},
            "factors need a sum");
    s.error({s.randn({5, 4}), s.integers({6}, 0, 5), offsets({0, 6}), Tensor()}, EmbeddingBag{true, 5},
            "padding_idx 5 is out of range for 5 rows");
  }
};
MANTISSA_OP(EmbeddingBag)
MANTISSA_OP(EmbeddingBagBackward)

}  // namespace

Tensor embedding_bag(const Tensor& weight, const Tensor& indices, const Tensor& offsets, bool mean,
                     const Tensor& factors, std::optional<std::int64_t> padding_idx) {
  return apply(EmbeddingBag{mean, padding_idx}, weight, indices, offsets, factors);
}

}  // namespace mantissa
