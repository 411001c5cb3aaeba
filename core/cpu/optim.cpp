// The fused optimizer update: one pass reads value, gradient and state and writes value, state and the low-precision
// shadow. Elements are processed in tiles of the compute type; a tensor already of that type is updated in place.
// Formulas: core/optim_formulas.h. Code that depends on the formula is compiled once per formula (Kernel), the
// iteration over tensors once.
#include "core/optim_formulas.h"

#include <bit>
#include <cstring>
#include <vector>

#include "core/cpu/multi_tensor.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

constexpr std::int64_t tile = 512;
constexpr int max_states = ParameterView::max_states;

// One formula: `prepare` derives the constants of an update, `apply` updates one tile.
struct Constants {
  alignas(16) std::byte bytes[128];
};
template <class C> struct Kernel {
  int states;
  void (*prepare)(const double* hyper, std::int64_t step, const double* scalars, Constants& constants);
  void (*apply)(const Constants& constants, std::int64_t n, C* p, const C* g, C* const* state);
  void (*advance)(const double* hyper, std::int64_t step, double* scalars);
};

template <class F> F formula_at(const double* hyper) {
  F formula;
  std::memcpy(static_cast<void*>(&formula), hyper, sizeof(F));
  return formula;
}

template <class C, class F> auto constants_of(const F& formula, std::int64_t step, const double* scalars) {
  if constexpr (requires { F::scalar_names; }) return formula.template at<C>(step, scalars);
  else return formula.template at<C>(step);
}

// In two copies of the same code the compiler may contract other products to fused multiply-add, and bits would depend
// on where an element lies. GCC makes copies also for calls with constant arguments.
#if defined(__clang__)
#define MANTISSA_SINGLE_COPY [[gnu::noinline]]
#else
#define MANTISSA_SINGLE_COPY [[gnu::noipa]]
#endif

// Calls update(p, g, state) for n elements, a whole number of vectors.
template <class C, int states, class Update>
MANTISSA_SINGLE_COPY void for_whole_vectors(std::int64_t n, C* p, const C* g, C* const* state, Update update) {
  using V = Vec<C>;
  V s[states + 1];
  for (std::int64_t i = 0; i < n; i += static_cast<std::int64_t>(V::size)) {
    for (int k = 0; k < states; ++k) s[k] = load(state[k] + i);
    V value = load(p + i);
    update(value, load(g + i), s);
    for (int k = 0; k < states; ++k) store(state[k] + i, s[k]);
    store(p + i, value);
  }
}
// The same for any n; the rest is padded with zeros.
template <class C, int states, class Update>
void for_vectors(std::int64_t n, C* p, const C* g, C* const* state, const Update& update) {
  constexpr std::int64_t width = static_cast<std::int64_t>(Vec<C>::size);
  const std::int64_t whole = n / width * width, rest = n - whole;
  for_whole_vectors<C, states>(whole, p, g, state, update);
  if (rest == 0) return;
  C pad[states + 2][width] = {}, *padded[states + 1] = {};
  for (int k = 0; k < states; ++k) padded[k] = pad[k], std::copy_n(state[k] + whole, rest, pad[k]);
  std::copy_n(p + whole, rest, pad[states]);
  std::copy_n(g + whole, rest, pad[states + 1]);
  for_whole_vectors<C, states>(width, pad[states], pad[states + 1], padded, update);
  for (int k = 0; k < states; ++k) std::copy_n(pad[k], rest, state[k] + whole);
  std::copy_n(pad[states], rest, p + whole);
}

template <class C, class F> constexpr Kernel<C> make_kernel() {
  using Update = decltype(constants_of<C>(F{}, 1, nullptr));
  static_assert(sizeof(Update) <= sizeof(Constants) && F::states <= max_states);
  return {.states = F::states,
          .prepare = [](const double* hyper, std::int64_t step, const double* scalars, Constants& constants) {
            const Update update = constants_of<C>(formula_at<F>(hyper), step, scalars);
            std::memcpy(constants.bytes, &update, sizeof update);
          },
          .apply = [](const Constants& constants, std::int64_t n, C* p, const C* g, C* const* state) {
            Update update;
            std::memcpy(static_cast<void*>(&update), constants.bytes, sizeof update);
            for_vectors<C, F::states>(n, p, g, state, update);
          },
          .advance = [](const double* hyper, std::int64_t step, double* scalars) {
            if constexpr (requires { F::scalar_names; }) formula_at<F>(hyper).advance(scalars, step);
          }};
}
// Stochastic rounding to bf16: the truncated fraction is the probability of rounding up. The random bits are a function
// of step, state and element, so a resumed run draws the same.
void store_stochastic(BFloat16* to, const float* from, std::int64_t n, std::uint32_t seed) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint32_t r = seed + static_cast<std::uint32_t>(i) * 0x9e3779b9u;  // the mixing of MurmurHash3
    r = (r ^ (r >> 16)) * 0x85ebca6bu;
    r = (r ^ (r >> 13)) * 0xc2b2ae35u;
    r ^= r >> 16;
    const std::uint32_t x = std::bit_cast<std::uint32_t>(from[i]);
    const bool finite = (x & 0x7f800000u) != 0x7f800000u;
    to[i].bits = finite ? static_cast<std::uint16_t>((x + (r & 0xffffu)) >> 16) : float_to_bfloat16(from[i]);
  }
}

// Elements [begin, begin + n) of the operands of one parameter, in place if the type is C, else in buffers. Gradients
// that are scaled or clipped while being read also use a buffer.
template <class C> struct Tile {
  explicit Tile(const GradientReading& r) : factors(r.factors<C>()), as_they_are(r.as_they_are()) {}
  GradientReading::Factors<C> factors;
  bool as_they_are;
  C* p;
  const C* g;
  C* state[max_states];
  C value_buffer[tile], gradient_buffer[tile], state_buffer[max_states][tile];

  void open(const ParameterView& v, int states, std::int64_t begin, std::int64_t n) {
    p = at(v.value, v.dtype, begin, n, value_buffer);
    g = at(const_cast<void*>(v.gradient), v.gradient_dtype, begin, n, gradient_buffer);
    if (!as_they_are) {
      for (std::int64_t i = 0; i < n; ++i) gradient_buffer[i] = factors(g[i]);
      g = gradient_buffer;
    }
    for (int k = 0; k < states; ++k) state[k] = at(v.state[k], v.state_dtype, begin, n, state_buffer[k]);
  }
  void close_state(const ParameterView& v, int states, std::int64_t begin, std::int64_t n) {
    for (int k = 0; k < states; ++k) {
      if (state[k] != state_buffer[k]) continue;
      if (v.state_dtype != bf16) {
        store_run(v.state[k], v.state_dtype, begin, 1, state[k], n);
        continue;
      }
      float narrow[tile];
      for (std::int64_t i = 0; i < n; ++i) narrow[i] = static_cast<float>(state[k][i]);
      const auto seed = static_cast<std::uint32_t>(*v.step) * 0x27d4eb2fu +
                        static_cast<std::uint32_t>(k) * 0x165667b1u + static_cast<std::uint32_t>(begin) * 0x9e3779b9u;
      store_stochastic(static_cast<BFloat16*>(v.state[k]) + begin, narrow, n, seed);
    }
  }
  void close_value(const ParameterView& v, std::int64_t begin, std::int64_t n) {
    if (p == value_buffer) store_run(v.value, v.dtype, begin, 1, p, n);
    if (v.shadow) store_run(v.shadow, v.shadow_dtype, begin, 1, p, n);
  }

 private:
  static C* at(void* data, Dtype dtype, std::int64_t begin, std::int64_t n, C* buffer) {
    if (dtype == dtype_of<C>) return static_cast<C*>(data) + begin;
    load_run(buffer, data, dtype, begin, 1, n);
    return buffer;
  }
};

template <class C>
void update_piece(const Kernel<C>& kernel, const double* hyper, const GradientReading& reading, const ParameterView& v,
                  std::int64_t begin, std::int64_t count) {
  Constants constants;
  kernel.prepare(hyper, *v.step + 1, v.scalars, constants);
  Tile<C> t(reading);
  for (std::int64_t i = begin; i < begin + count; i += tile) {
    const std::int64_t n = std::min(tile, begin + count - i);
    t.open(v, kernel.states, i, n);
    kernel.apply(constants, n, t.p, t.g, t.state);
    t.close_state(v, kernel.states, i, n);
    t.close_value(v, i, n);
  }
}

template <class... F>
void run(int number, const double* hyper, const GradientReading& reading, std::span<const ParameterView> parameters,
         List<F...>) {
  static constexpr Kernel<float> in_f32[] = {make_kernel<float, F>()...};
  static constexpr Kernel<double> in_f64[] = {make_kernel<double, F>()...};
  parallel_pieces(parameters, [&](const ParameterView& v, std::int64_t begin, std::int64_t count, std::int64_t) {
    if (v.dtype == f64) update_piece(in_f64[number], hyper, reading, v, begin, count);
    else update_piece(in_f32[number], hyper, reading, v, begin, count);
  });
  for (const ParameterView& v : parameters) in_f32[number].advance(hyper, *v.step + 1, v.scalars);
}

// LAMB in two passes over a parameter: moments and norms, then the step.
template <class C>
void lamb(const optim_formulas::LAMB& formula, const GradientReading& reading, const ParameterView& v) {
  const auto update = formula.at<C>(*v.step + 1);
  struct Norms {
    double value = 0, direction = 0;
  };
  std::vector<Norms> partial(static_cast<std::size_t>((v.numel + multi_tensor_block - 1) / multi_tensor_block));
  parallel_for(v.numel, multi_tensor_block, [&](std::int64_t begin, std::int64_t end) {
    Norms& sums = partial[static_cast<std::size_t>(begin / multi_tensor_block)];
    Tile<C> t(reading);
    for (std::int64_t i = begin; i < end; i += tile) {
      const std::int64_t n = std::min(tile, end - i);
      t.open(v, 2, i, n);
      for (std::int64_t j = 0; j < n; ++j) {
        C s[] = {t.state[0][j], t.state[1][j]};
        update.moments(t.g[j], s);
        t.state[0][j] = s[0];
        t.state[1][j] = s[1];
        const double value = static_cast<double>(t.p[j]), direction = static_cast<double>(update.direction(t.p[j], s));
        sums.value += value * value;
        sums.direction += direction * direction;
      }
      t.close_state(v, 2, i, n);
    }
  });
  Norms total;
  for (const Norms& s : partial) {
    total.value += s.value;
    total.direction += s.direction;
  }
  const C rate = static_cast<C>(formula.lr * formula.ratio(total.value, total.direction));
  parallel_for(v.numel, multi_tensor_block, [&](std::int64_t begin, std::int64_t end) {
    Tile<C> t(reading);
    for (std::int64_t i = begin; i < end; i += tile) {
      const std::int64_t n = std::min(tile, end - i);
      t.open(v, 2, i, n);
      for (std::int64_t j = 0; j < n; ++j) {
        const C s[] = {t.state[0][j], t.state[1][j]};
        t.p[j] -= rate * update.direction(t.p[j], s);
      }
      t.close_value(v, i, n);
    }
  });
}

}  // namespace

void optimizer_step(int formula, const double* hyper, const bool* skip, const GradientReading& reading,
                    std::span<const ParameterView> parameters) {
  if (skip && *skip) return;
  if (formula == optim_formulas::number_of<optim_formulas::LAMB>) {
    const auto lamb_formula = formula_at<optim_formulas::LAMB>(hyper);
    for (const ParameterView& v : parameters) {
      if (v.dtype == f64) lamb<double>(lamb_formula, reading, v);
      else lamb<float>(lamb_formula, reading, v);
    }
  } else {
    run(formula, hyper, reading, parameters, optim_formulas::OnePass{});
  }
  for (const ParameterView& v : parameters) ++*v.step;
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
