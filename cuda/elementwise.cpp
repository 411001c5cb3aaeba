#include "cuda/elementwise.h"

#include "core/error.h"

namespace mantissa::cuda_backend {
namespace {

constexpr std::int64_t pack = 8;
constexpr std::int64_t most_elements = std::int64_t{1} << 30;

void make_constant(ElementwiseLoop::Operand& o, const View& x) {
  check(x.numel() == 1, "inputs are on different devices (cuda, cpu); move them together with to(device)");
  o.constant = true;
  visit(x.dtype, [&]<class T> {
    const auto v = static_cast<Compute<T>>(*x.as<const T>());
    o.value = static_cast<double>(v);
    if constexpr (std::is_integral_v<T>) o.integer = static_cast<std::int64_t>(v);
    else o.integer = v == v && v > -0x1p63 && v < 0x1p63 ? static_cast<std::int64_t>(v) : v > 0 ? INT64_MAX : v < 0 ? INT64_MIN : 0;
  });
}

// Whether all operands have the sizes of y and lie as it does, which is densely.
bool lie_alike(const View& y, std::span<const View* const> x) {
  for (const View* v : x) {
    if (v->device.is_cpu() || !(v->sizes == y.sizes) || !(v->strides == y.strides)) return false;
  }
  return y.is_contiguous() || is_channels_last(y.sizes, y.strides);
}

}  // namespace

ElementwiseLoop plan_elementwise(const View& y, std::span<const View* const> x) {
  if (lie_alike(y, x)) {  // nearly always: one dimension
    ElementwiseLoop plan;
    plan.operands = static_cast<int>(x.size()) + 1;
    plan.sizes.push_back(y.numel());
    for (int k = 0; k < plan.operands; ++k) {
      const View& v = k == 0 ? y : *x[static_cast<std::size_t>(k) - 1];
      plan.operand[k] = {v.data, v.dtype, false, 0, 0};
      plan.strides[k].push_back(1);
    }
    return plan;
  }
  Dims strides[4];
  const Dims* list[4] = {&y.strides};
  ElementwiseLoop plan;
  plan.operands = static_cast<int>(x.size()) + 1;
  plan.operand[0] = {y.data, y.dtype, false, 0, 0};
  for (std::size_t k = 0; k < x.size(); ++k) {
    plan.operand[k + 1] = {x[k]->data, x[k]->dtype, false, 0, 0};
    if (x[k]->device.is_cpu()) {
      make_constant(plan.operand[k + 1], *x[k]);
      strides[k + 1] = Dims::filled(y.dim(), 0);
    } else {
      strides[k + 1] = broadcast_strides(x[k]->sizes, x[k]->strides, y.sizes);
    }
    list[k + 1] = &strides[k + 1];
  }
  const Loop loop = collapse_in_memory_order(y.sizes, list, plan.operands);
  plan.sizes = loop.sizes;
  for (int k = 0; k < plan.operands; ++k) plan.strides[k] = loop.strides[k];
  return plan;
}

bool can_use_packs(const ElementwiseLoop& loop, Dtype compute) {
  const int inner = loop.sizes.rank() - 1;
  if (inner > 0 && loop.sizes[inner] % pack != 0) return false;
  for (int k = 0; k < loop.operands; ++k) {
    const ElementwiseLoop::Operand& o = loop.operand[k];
    if (o.constant) continue;
    if (!has_packs(compute, o.dtype)) return false;
    if (k > 0 && loop.strides[k][inner] == 0) continue;
    const std::size_t bytes = size_of(o.dtype) * pack;
    bool fits = loop.strides[k][inner] == 1 && reinterpret_cast<std::uintptr_t>(o.data) % (bytes < 16 ? bytes : 16) == 0;
    for (int d = 0; d < inner; ++d) fits = fits && loop.strides[k][d] % pack == 0;
    if (!fits) return false;
  }
  return true;
}

void for_indexable_parts(const ElementwiseLoop& loop, void (*run)(const void*, const ElementwiseLoop&), const void* state) {
  const std::int64_t count = numel_of(loop.sizes);
  if (count == 0) return;
  if (count <= most_elements) return run(state, loop);
  int d = 0;  // the outermost dimension that can be halved
  while (loop.sizes[d] == 1) ++d;
  const std::int64_t half = (loop.sizes[d] / 2 + pack - 1) / pack * pack, cut = half < loop.sizes[d] ? half : loop.sizes[d] / 2;
  ElementwiseLoop first = loop, second = loop;
  first.sizes[d] = cut;
  second.sizes[d] = loop.sizes[d] - cut;
  for (int k = 0; k < loop.operands; ++k) {
    if (loop.operand[k].constant) continue;
    second.operand[k].data = static_cast<char*>(loop.operand[k].data) + cut * loop.strides[k][d] * static_cast<std::int64_t>(size_of(loop.operand[k].dtype));
  }
  for_indexable_parts(first, run, state);
  for_indexable_parts(second, run, state);
}

}  // namespace mantissa::cuda_backend
