// as_strided: any view of a tensor's storage, with a gradient. No operator of the registry, since those mean the same
// for every layout of their inputs, and what this shows depends on the layout.
#include <algorithm>

#include "core/ops.h"
#include "ops/function.h"
#include "ops/onnx.h"

namespace mantissa {
namespace {

// How far elements of these sizes and strides reach: the place of the last one, and one more.
std::int64_t extent_of(const Dims& sizes, const Dims& strides) {
  std::int64_t extent = 1;
  for (int i = 0; i < sizes.rank(); ++i) {
    if (sizes[i] == 0) return 0;
    extent += (sizes[i] - 1) * strides[i];
  }
  return extent;
}

struct AsStrided {
  static constexpr auto name = "as_strided";
  Dims sizes, strides;
  std::int64_t offset;
  Dims x_sizes, x_strides;

  std::int64_t extent() const {
    return std::max(extent_of(x_sizes, x_strides), offset + extent_of(sizes, strides));
  }
  // The place in memory, from x's first element on, of each element of the view, and of each of x.
  Tensor places(Device device) const { return flatten(memory(device).raw_view(sizes, strides, offset)); }
  Tensor x_places(Device device) const { return flatten(memory(device).raw_view(x_sizes, x_strides)); }
  Tensor memory(Device device) const { return arange(extent(), {.dtype = i64, .device = device}); }

  Tensor forward(Saved&, const Tensor& x) const { return x.raw_view(sizes, strides, offset); }
  std::vector<Tensor> backward(const Saved&, const Tensor& g) const {
    const Tensor none = zeros({extent()}, {.dtype = compute_dtype(g.dtype()), .device = g.device()});
    Tensor sums = index_add(none, 0, places(g.device()), cast(flatten(g), none.dtype()));
    const Tensor mine = x_places(g.device());
    if (!is_contiguous(x_sizes, x_strides)) {  // elements of x that are one in memory share what has come to it
      const Tensor shared = index_add(none, 0, mine, ones_like(cast(mine, none.dtype())));
      sums = sums / maximum(shared, Tensor(1.0));  // 0 where x has none
    }
    return {reshape(index_select(sums, 0, mine), x_sizes)};
  }
};

}  // namespace

Tensor Tensor::as_strided(const Dims& sizes, const Dims& strides, std::int64_t offset) const {
  const Tensor view = raw_view(sizes, strides, offset);  // which says what is wrong
  const AsStrided f{sizes, strides, offset, this->sizes(), this->strides()};
  if (OnnxCall::is_heard() && is_contiguous() && f.extent() <= numel())
    return mantissa::reshape(mantissa::index_select(mantissa::flatten(*this), 0, f.places(device())), sizes);
  return requires_grad() ? apply_function(f, *this) : view;
}

}  // namespace mantissa
