// as_strided: any view of a tensor's storage, with a gradient. Not in the operator registry, because registered
// operators do not depend on the layout of their inputs, and this one does.
#include <algorithm>

#include "core/ops.h"
#include "ops/function.h"
#include "ops/onnx.h"

namespace mantissa {
namespace {

// The number of memory elements spanned by these sizes and strides: offset of the last one, plus one.
std::int64_t extent_of(const Dims& sizes, const Dims& strides) {
  if (std::ranges::find(sizes, 0) != sizes.end()) return 0;
  std::int64_t extent = 1;
  for (int i = 0; i < sizes.rank(); ++i) extent += (sizes[i] - 1) * strides[i];
  return extent;
}

struct AsStrided {
  static constexpr auto name = "as_strided";
  Dims sizes, strides;
  std::int64_t offset;
  Dims x_sizes, x_strides;

  std::int64_t extent() const {  // memory elements, from x's first on, spanned by x and the view
    const std::int64_t view = extent_of(sizes, strides);
    return std::max(extent_of(x_sizes, x_strides), view > 0 ? offset + view : 0);
  }
  // Offsets in that memory: all of them; of_view and of_x pick those of the view and of x.
  Tensor memory(Device device) const { return arange(extent(), {.dtype = i64, .device = device}); }
  Tensor of_view(const Tensor& memory) const { return flatten(memory.raw_view(sizes, strides, offset)); }
  Tensor of_x(const Tensor& memory) const { return flatten(memory.raw_view(x_sizes, x_strides)); }

  Tensor forward(Saved&, const Tensor& x) const { return x.raw_view(sizes, strides, offset); }
  std::vector<Tensor> backward(const Saved&, const Tensor& g) const {
    const Tensor places = memory(g.device()), at_x = of_x(places);
    const Tensor empty_sums = zeros(places.sizes(), {.dtype = compute_dtype(g.dtype()), .device = g.device()});
    Tensor sums = index_add(empty_sums, 0, of_view(places), cast(flatten(g), empty_sums.dtype()));
    if (!is_contiguous(x_sizes, x_strides)) {  // elements of x that share memory share the gradient equally
      const Tensor shared = index_add(zeros_like(places), 0, at_x, ones_like(at_x));
      sums = sums / cast(maximum(shared, Tensor(1.0)), sums.dtype());  // 0 where x has none
    }
    return {reshape(index_select(sums, 0, at_x), x_sizes)};
  }
};

}  // namespace

Tensor Tensor::as_strided(const Dims& sizes, const Dims& strides, std::int64_t offset) const {
  const Tensor view = raw_view(sizes, strides, offset);  // throws if the arguments are invalid
  const AsStrided f{sizes, strides, offset, this->sizes(), this->strides()};
  if (OnnxCall::is_heard() && is_contiguous() && f.extent() <= numel())
    return mantissa::reshape(mantissa::index_select(mantissa::flatten(*this), 0, f.of_view(f.memory(device()))), sizes);
  return requires_grad() ? apply_function(f, *this) : view;
}

}  // namespace mantissa
