#include "cuda/elementwise.h"

#include "core/collapse.h"
#include "core/error.h"

namespace mantissa::cuda_backend {
namespace {

constexpr std::int64_t pack = 8;
constexpr std::int64_t most_elements = std::int64_t{1} << 30;

void make_constant(ElementwiseOperand& o, const View& x) {
  check(x.numel() == 1, "inputs are on different devices (cuda, cpu); move them together with to(device)");
  o.constant = true;
  visit(x.dtype, [&]<class T> {
    const auto v = static_cast<Compute<T>>(*x.as<const T>());
    o.value = static_cast<double>(v);
    if constexpr (std::is_integral_v<T>) o.integer = static_cast<std::int64_t>(v);
    else
      o.integer = v == v && v > -0x1p63 && v < 0x1p63 ? static_cast<std::int64_t>(v)
                  : v > 0                             ? INT64_MAX
                  : v < 0                             ? INT64_MIN
                                                      : 0;
  });
}

// Whether all operands have y's sizes and strides, which are dense.
bool lie_alike(const View& y, std::span<const View* const> x) {
  for (const View* v : x) {
    if (v->device.is_cpu() || !(v->sizes == y.sizes) || !(v->strides == y.strides)) return false;
  }
  return y.is_contiguous() || is_channels_last(y.sizes, y.strides);
}

template <class L> L plan(std::span<const View> y, std::span<const View* const> x) {
  L plan;
  plan.results = static_cast<int>(y.size());
  plan.operands = plan.results + static_cast<int>(x.size());
  for (std::size_t k = 0; k < y.size(); ++k) plan.operand[k] = {y[k].data, y[k].dtype, false, 0, 0};
  for (std::size_t k = 0; k < x.size(); ++k) plan.operand[y.size() + k] = {x[k]->data, x[k]->dtype, false, 0, 0};
  if (lie_alike(y[0], x)) {  // the most common case: one dimension
    plan.sizes.push_back(y[0].numel());
    for (int k = 0; k < plan.operands; ++k) plan.strides[k].push_back(1);
    return plan;
  }
  constexpr std::size_t most = std::size(decltype(L::strides){});
  Dims strides[most];
  const Dims* list[most];
  for (std::size_t k = 0; k < y.size(); ++k) list[k] = &y[0].strides;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const std::size_t at = y.size() + k;
    if (x[k]->device.is_cpu()) {
      make_constant(plan.operand[at], *x[k]);
      strides[at] = Dims::filled(y[0].dim(), 0);
    } else {
      strides[at] = broadcast_strides(x[k]->sizes, x[k]->strides, y[0].sizes);
    }
    list[at] = &strides[at];
  }
  struct Merged { Dims sizes, strides[most]; };
  const auto merged = collapse_dimensions_in_memory_order<Merged>(y[0].sizes, list, plan.operands);
  plan.sizes = merged.sizes;
  for (int k = 0; k < plan.operands; ++k) plan.strides[k] = merged.strides[k];
  return plan;
}

template <class L> bool packs_fit(const L& loop, Dtype compute) {
  const int inner = loop.sizes.rank() - 1;
  if (inner > 0 && loop.sizes[inner] % pack != 0) return false;
  for (int k = 0; k < loop.operands; ++k) {
    const ElementwiseOperand& o = loop.operand[k];
    if (o.constant) continue;
    if (!has_packs(compute, o.dtype)) return false;
    if (k >= loop.results && loop.strides[k][inner] == 0) continue;
    const std::size_t bytes = size_of(o.dtype) * pack;
    bool fits =
        loop.strides[k][inner] == 1 && reinterpret_cast<std::uintptr_t>(o.data) % (bytes < 16 ? bytes : 16) == 0;
    for (int d = 0; d < inner; ++d) fits = fits && loop.strides[k][d] % pack == 0;
    if (!fits) return false;
  }
  return true;
}

template <class L> void for_parts(const L& loop, void (*run)(const void*, const L&), const void* state) {
  const std::int64_t count = numel_of(loop.sizes);
  if (count == 0) return;
  if (count <= most_elements) return run(state, loop);
  int d = 0;  // the outermost dimension that can be split
  while (loop.sizes[d] == 1) ++d;
  constexpr std::int64_t unit = 16;  // elements, so that parts of byte tensors stay 16-byte aligned
  const std::int64_t half = (loop.sizes[d] / 2 + unit - 1) / unit * unit,
                     cut = half < loop.sizes[d] ? half : loop.sizes[d] / 2;
  L first = loop, second = loop;
  first.sizes[d] = cut;
  second.sizes[d] = loop.sizes[d] - cut;
  for (int k = 0; k < loop.operands; ++k) {
    if (loop.operand[k].constant) continue;
    second.operand[k].data = static_cast<char*>(loop.operand[k].data) +
                             cut * loop.strides[k][d] * static_cast<std::int64_t>(size_of(loop.operand[k].dtype));
  }
  for_parts(first, run, state);
  for_parts(second, run, state);
}

}  // namespace

ElementwiseLoop plan_elementwise(const View& y, std::span<const View* const> x) {
  return plan<ElementwiseLoop>(std::span(&y, 1), x);
}
FusedLoop plan_fused(std::span<const View> y, std::span<const View* const> x) { return plan<FusedLoop>(y, x); }
bool can_use_packs(const ElementwiseLoop& loop, Dtype compute) { return packs_fit(loop, compute); }
bool can_use_packs(const FusedLoop& loop, Dtype compute) { return packs_fit(loop, compute); }
void for_indexable_parts(const ElementwiseLoop& loop, void (*run)(const void*, const ElementwiseLoop&),
                         const void* state) {
  for_parts(loop, run, state);
}
void for_indexable_parts(const FusedLoop& loop, void (*run)(const void*, const FusedLoop&), const void* state) {
  for_parts(loop, run, state);
}

}  // namespace mantissa::cuda_backend
