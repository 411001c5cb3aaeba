// Shared by the reductions: which dimensions are reduced, result shapes, and the shapes of their test samples.
#pragma once

#include "core/ops.h"
#include "ops/apply.h"
#include "ops/floating.h"
#include "ops/registry.h"

namespace mantissa {

// The dimensions to reduce: attributes that all reductions share.
struct Over {
  Dims dims;  // empty: all
  bool keepdim = false;

  // `sizes` with 1 in the reduced dimensions.
  Dims kept(const Dims& sizes) const {
    Dims k = dims.empty() ? Dims::filled(sizes.rank(), 1) : sizes;
    bool seen[Dims::max_rank] = {};
    for (std::int64_t d : dims) {
      const int i = wrap_dim(d, sizes.rank());
      check(!seen[i], "dim ", d, " appears twice in dims ", dims);
      seen[i] = true;
      if (i < sizes.rank()) k[i] = 1;
    }
    return k;
  }
  Dims result(const Dims& sizes) const {
    const Dims k = kept(sizes);
    if (keepdim) return k;
    if (dims.empty()) return {};
    bool gone[Dims::max_rank] = {};
    for (std::int64_t d : dims) gone[wrap_dim(d, sizes.rank())] = true;
    Dims r;
    for (int i = 0; i < sizes.rank(); ++i) if (!gone[i]) r.push_back(sizes[i]);
    return r;
  }
  // Number of elements per result.
  std::int64_t count(const Dims& sizes) const {
    const Dims k = kept(sizes);
    std::int64_t n = 1;
    for (int i = 0; i < sizes.rank(); ++i) if (k[i] != sizes[i]) n *= sizes[i];
    return n;
  }
  // The result with the reduced dimensions kept, as kernels expect it.
  View aligned(View y, const Dims& sizes) const {
    y.sizes = kept(sizes);
    y.strides = contiguous_strides(y.sizes);
    return y;
  }
  // As an ONNX node; the input is first cast to the result's dtype (i64 for integers).
  OnnxId reduced(OnnxCall& c, const char* type) const {
    return c.reduce(type, c.in(0, c.y().dtype()), c.x(0).dim() == 0 ? Dims{} : dims, keepdim);
  }
  // A result or its gradient, shaped to broadcast with x.
  Tensor broadcastable(const Tensor& y, const Dims& sizes) const { return keepdim ? y : reshape(y, kept(sizes)); }
};

// Samples with shapes and dims that every reduction is tested with.
template <class Op, class Input> void reduction_samples(Samples& s, const Op& op, Input&& input) {
  auto with = [&](const Dims& sizes, const Dims& dims, bool keepdim) {
    Op o = op;
    o.dims = dims;
    o.keepdim = keepdim;
    s({input(sizes)}, o);
  };
  with({3, 5}, {}, false);
  with({3, 5}, {0}, false);
  with({3, 5}, {-1}, true);
  with({2, 3, 4, 5}, {0, 2, 3}, false);
  with({2, 3, 4, 5}, {1, -1}, true);
  with({4, 3, 2}, {1}, false);
  with({2, 11, 5, 6}, {2, 3}, false);  // short runs
  with({2, 70, 3}, {0, 1}, false);
  with({1, 6}, {}, true);
  with({2, 1100}, {1}, false);
  s.error({input({2, 3})}, [&] { Op o = op; o.dims = {2}; return o; }(), "dim 2 is out of range for 2 dimensions");
  s.error({input({2, 3})}, [&] { Op o = op; o.dims = {1, -1}; return o; }(), "appears twice");
}

}  // namespace mantissa
