// The fused optimizer update: one pass reads value, gradient and state and writes value, state and
// the low-precision shadow. Elements go through tiles in the compute type; a tensor already of that
// type is worked on in place. Formulas: core/optim_formulas.h.
#include "core/optim_formulas.h"

#include <cstring>

#include "core/cpu/multi_tensor.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

constexpr std::int64_t tile = 512;

// Where elements [begin, begin + n) of one operand are worked on: in place, or in a buffer.
template <class C> C* open(void* data, Dtype dtype, std::int64_t begin, std::int64_t n, C* buffer) {
  if (dtype == dtype_of<C>) return static_cast<C*>(data) + begin;
  load_run(buffer, data, dtype, begin, 1, n);
  return buffer;
}

template <class C, int states, class U> void update_tile(const U& update, std::int64_t n, C* p, const C* g, C* const* state) {
  using V = Vec<C>;
  constexpr std::int64_t width = static_cast<std::int64_t>(V::size);
  V s[states + 1];
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
    for (int k = 0; k < states; ++k) s[k] = load(state[k] + i);
    V value = load(p + i);
    update(value, load(g + i), s);
    for (int k = 0; k < states; ++k) store(state[k] + i, s[k]);
    store(p + i, value);
  }
  if (i == n) return;
  C pad[states + 2][width] = {};  // the tail through the same vector code
  const std::int64_t rest = n - i;
  for (int k = 0; k < states; ++k) std::copy_n(state[k] + i, rest, pad[k]);
  std::copy_n(p + i, rest, pad[states]);
  std::copy_n(g + i, rest, pad[states + 1]);
  for (int k = 0; k < states; ++k) s[k] = load(pad[k]);
  V value = load(pad[states]);
  update(value, load(pad[states + 1]), s);
  for (int k = 0; k < states; ++k) {
    store(pad[k], s[k]);
    std::copy_n(pad[k], rest, state[k] + i);
  }
  store(pad[states], value);
  std::copy_n(pad[states], rest, p + i);
}

template <class C, class F> void update_piece(const F& formula, const ParameterView& v, std::int64_t begin, std::int64_t count) {
  const auto update = formula.template at<C>(*v.step + 1);
  C value_buffer[tile], gradient_buffer[tile];
  for (std::int64_t i = begin; i < begin + count; i += tile) {
    const std::int64_t n = std::min(tile, begin + count - i);
    C* p = open(v.value, v.dtype, i, n, value_buffer);
    const C* g = open(const_cast<void*>(v.gradient), v.gradient_dtype, i, n, gradient_buffer);
    C* state[ParameterView::max_states];
    for (int k = 0; k < F::states; ++k) state[k] = static_cast<C*>(v.state[k]) + i;
    update_tile<C, F::states>(update, n, p, g, state);
    if (p == value_buffer) store_run(v.value, v.dtype, i, 1, p, n);
    if (v.shadow) store_run(v.shadow, v.shadow_dtype, i, 1, p, n);
  }
}

template <class F> void run(const double* hyper, std::span<const ParameterView> parameters) {
  F formula;
  std::memcpy(static_cast<void*>(&formula), hyper, sizeof(F));
  parallel_pieces(parameters, [&](const ParameterView& v, std::int64_t begin, std::int64_t count, std::int64_t) {
    if (v.dtype == f64) update_piece<double>(formula, v, begin, count);
    else update_piece<float>(formula, v, begin, count);
  });
}

using Run = void (*)(const double*, std::span<const ParameterView>);
template <class... F> Run choose(int number, List<F...>) {
  constexpr Run table[] = {&run<F>...};
  return table[number];
}

}  // namespace

void optimizer_step(int formula, const double* hyper, const bool* skip, std::span<const ParameterView> parameters) {
  if (skip && *skip) return;
  choose(formula, optim_formulas::Formulas{})(hyper, parameters);
  for (const ParameterView& v : parameters) ++*v.step;
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
