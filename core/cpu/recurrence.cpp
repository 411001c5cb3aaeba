// Recurrent layers over a sequence. Weights are packed once for all steps (for a single step not at all), state and
// sums stay in f32 (f64 for f64), and a step is cut by hidden units: each piece multiplies for a few units of all
// samples and applies their gates while the sums are in cache. The same units are assigned to the same thread in every
// step, with their part of the weights.
//
// With vdpbf16ps, bf16 weights are multiplied directly. The state then enters the product as the sum of two bf16, its
// rounded value and the remainder (together 16 bits of mantissa), so that a result is rounded once, as elsewhere; the
// gradients of gates, which are rounded in any case, enter as one bf16. With AMX (core/amx.h) tiles are multiplied so.
#include "core/recurrence.h"

#include <algorithm>

#include "core/amx.h"
#include "core/cpu/gemm_amx.h"
#include "core/cpu/gemm_pairs.h"
#include "core/cpu/reduce_source.h"
#include "core/cpu/squash.h"
#include "core/cpu/vectors.h"
#include "core/gemm_few_rows.h"
#include "core/parallel.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

using recurrent::visit_cell;

constexpr std::int64_t flops_of_a_piece = 1 << 20;  // worth another thread

constexpr std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

// Uninitialised memory from the caching allocator.
template <class E>
class Scratch {
 public:
  explicit Scratch(std::int64_t n)
      : tensor_(Tensor::allocate({std::max<std::int64_t>(n, 1) * static_cast<std::int64_t>(sizeof(E))}, u8)) {}
  E* data() const { return static_cast<E*>(tensor_.raw_data()); }

 private:
  Tensor tensor_;
};

// --- products of a step: [rows, depth] by weights packed in panels of `panel` columns ---

// In the compute type, whatever the weights' dtype.
template <class T>
struct Exact {
  using C = Compute<T>;
  using Operand = C;  // of the left operand, whose row stride is `row` elements
  using Packed = C;
  static constexpr std::int64_t panel = gemm_tile::max_columns;
  static std::int64_t rows_at_once() { return gemm_tile::max_rows; }  // of one tile of sums
  // Units per block of a step: its columns are those of all gates, and fill whole panels if possible.
  static constexpr std::int64_t units_of(std::int64_t gates) { return gates == 1 ? panel : gemm_tile::width; }
  // Not a multiple of a large power of two: such rows would map to the same few cache sets.
  static std::int64_t row(std::int64_t depth) { return depth + 16; }
  static std::int64_t panel_size(std::int64_t depth) { return depth * panel; }

  // W^T [hidden, gates * units] for `count` units from `first`; further columns are zeros.
  template <std::int64_t gates>
  static void pack_gates(C* to, const View& w, std::int64_t first, std::int64_t count) {
    constexpr std::int64_t units = units_of(gates);
    const std::int64_t hidden = w.size(1);
    if (sizeof(C) == 4 && count == units && units % transpose::width == 0 && w.strides[1] == 1) {
      for (std::int64_t gate = 0; gate < gates; ++gate) {
        const std::int64_t j = gate * units;
        visit_floating(w.dtype, [&]<class S> {
          turn(w.as<const S>() + (gate * hidden + first) * w.strides[0], w.strides[0],
               to + j / panel * hidden * panel + j % panel, panel, hidden, count);
        });
      }
      return;
    }
    Scratch<C> line(hidden);
    for (std::int64_t j = 0; j < gates * units; ++j) {
      if (j % units < count) {
        const std::int64_t row = j / units * hidden + first + j % units;
        load_run(line.data(), w.data, w.dtype, row * w.strides[0], w.strides[1], hidden);
      } else {
        std::fill_n(line.data(), hidden, C(0));
      }
      C* column = to + j / panel * hidden * panel + j % panel;
      for (std::int64_t k = 0; k < hidden; ++k) column[k * panel] = line.data()[k];
    }
  }
  // W [gates * hidden, units] for `count` <= panel units from `first`.
  static void pack_units(C* to, const View& w, std::int64_t first, std::int64_t count) {
    for (std::int64_t k = 0; k < w.size(0); ++k, to += panel) {
      load_run(to, w.data, w.dtype, k * w.strides[0] + first * w.strides[1], w.strides[1], count);
      std::fill(to + count, to + panel, C(0));
    }
  }
  // sums = a @ b, or accumulated. Element (i, j) of sums is at i * sample_step + j, or for gate k of a block of units
  // at i * sample_step + k * gate_step + j.
  static std::int64_t sample_step(std::int64_t columns) { return columns; }
  static std::int64_t gate_step(std::int64_t, std::int64_t units) { return units; }
  static void multiply(std::int64_t rows, std::int64_t columns, std::int64_t depth, const C* a, const C* b, C* sums,
                       bool add) {
    if constexpr (std::is_same_v<C, float>) {
      if (rows == 1 && columns == 2 * panel && !add) return multiply_row(depth, a, b, sums);
      const gemm_tile::Operands o{a, row(depth), 1, b, panel, sums, columns, depth};
      gemm_tile::multiply_block(rows, columns, o, depth * panel, add);
    } else {
      for (std::int64_t i = 0; i < rows; ++i) {
        for (std::int64_t j = 0; j < columns; ++j) {
          const C* right = b + j / panel * depth * panel + j % panel;
          C sum = add ? sums[i * columns + j] : C(0);
          for (std::int64_t k = 0; k < depth; ++k) sum += a[i * row(depth) + k] * right[k * panel];
          sums[i * columns + j] = sum;
        }
      }
    }
  }

 private:
  // One row by two panels at once, each element in the order of gemm_tile: one panel has too few independent sums.
  static void multiply_row(std::int64_t depth, const float* a, const float* b, float* sums) {
    constexpr std::int64_t width = gemm_tile::width;
    constexpr int vectors = gemm_tile::max_vectors;
    Vec<float> total[2][vectors];
    for (std::int64_t begin = 0; begin == 0 || begin < depth; begin += gemm_tile::chain) {
      Vec<float> sum[2][vectors];
      for (auto& half : sum) for (auto& v : half) v = Vec<float>(0.0f);
      for (std::int64_t k = begin; k < std::min(depth, begin + gemm_tile::chain); ++k) {
        const Vec<float> left(a[k]);
#pragma GCC unroll 2
        for (int p = 0; p < 2; ++p) {
#pragma GCC unroll 4
          for (int j = 0; j < vectors; ++j)
            sum[p][j] = xsimd::fma(left, load(b + (p * depth + k) * panel + j * width), sum[p][j]);
        }
      }
      for (int p = 0; p < 2; ++p)
        for (int j = 0; j < vectors; ++j) total[p][j] = begin > 0 ? sum[p][j] + total[p][j] : sum[p][j];
    }
    for (int p = 0; p < 2; ++p)
      for (int j = 0; j < vectors; ++j) store(sums + p * panel + j * width, total[p][j]);
  }
};

#if defined(MANTISSA_HAS_AMX)
// In pairs of bf16: panels of sums are stored one after the other. Depths are padded with zeros to whole tiles of AMX.
struct Pairs {
  using C = float;
  using Operand = BFloat16;
  using Packed = gemm_pack::Unit;
  static constexpr std::int64_t panel = half_panel;
  static std::int64_t rows_at_once() { return uses_amx() ? gemm_amx::block_rows : gemm_tile::max_rows; }
  static constexpr std::int64_t units_of(std::int64_t) { return panel; }
  static std::int64_t row(std::int64_t depth) { return 2 * gemm_amx::units_of(depth) + 32; }
  static std::int64_t panel_size(std::int64_t depth) { return gemm_amx::units_of(depth) * panel; }

  template <std::int64_t gates>
  static void pack_gates(Packed* to, const View& w, std::int64_t first, std::int64_t count) {
    const std::int64_t hidden = w.size(1);
    for (std::int64_t gate = 0; gate < gates; ++gate)
      gemm_amx::pack_panel(to + gate * panel_size(hidden),
                           w.as<const BFloat16>() + (gate * hidden + first) * w.strides[0], count, w.strides[0], hidden,
                           w.strides[1]);
  }
  static void pack_units(Packed* to, const View& w, std::int64_t first, std::int64_t count) {
    gemm_amx::pack_panel(to, w.as<const BFloat16>() + first * w.strides[1], count, w.strides[1], w.size(0),
                         w.strides[0]);
  }
  static std::int64_t sample_step(std::int64_t) { return panel; }
  static std::int64_t gate_step(std::int64_t rows, std::int64_t) { return rows * panel; }
  static void multiply(std::int64_t rows, std::int64_t columns, std::int64_t depth, const BFloat16* a, const Packed* b,
                       float* sums, bool add) {
    const std::int64_t apart = row(depth);
    const bool by_amx = uses_amx();
    gemm_amx::Tiles tiles;
    const gemm_tile::RowTiles cut(rows);
    for (std::int64_t j = 0; j < columns; j += panel, b += panel_size(depth), sums += rows * panel) {
      for (std::int64_t i = 0; by_amx && i < rows; i += gemm_amx::block_rows) {
        const std::int64_t some = std::min(gemm_amx::block_rows, rows - i);
        tiles.configure(some);
        gemm_amx::multiply(some, gemm_amx::units_of(depth), a + i * apart, apart, b, sums + i * panel, panel, add,
                           [] {});
      }
      for (std::int64_t t = 0; !by_amx && t < cut.tiles; ++t) {
        const std::int64_t i = cut.begin(t);
        gemm_pairs::multiply(cut.size(t), panel, gemm_pack::units_of<true>(depth),
                             reinterpret_cast<const std::uint16_t*>(a + i * apart), apart, 2, b, sums + i * panel, add);
      }
    }
  }
};
#endif

// Shared by the forward and backward passes.
template <class F, class T>
struct Layer {
  using C = Compute<T>;
  static constexpr std::int64_t gates = F::gates;
  std::int64_t steps, batch, hidden;
  bool reverse;

  Layer(const View& kept, bool reverse)
      : steps(kept.size(0)), batch(kept.size(1)), hidden(kept.size(2)), reverse(reverse) {}
  std::int64_t time(std::int64_t i) const { return reverse ? steps - 1 - i : i; }
  std::int64_t state() const { return batch * hidden; }  // elements of h
  std::int64_t pieces(std::int64_t units,
                      std::int64_t depth) const {  // how many blocks of units one thread takes at least
    constexpr std::int64_t few = 8;  // up to so many rows, the time is that of reading the weights
    return std::max<std::int64_t>(
        1, flops_of_a_piece / std::max<std::int64_t>(1, 2 * std::max(batch, few) * depth * units));
  }
  // Loads a state in the compute type.
  void load_state(C* to, const View& from) const { load_run(to, from.data, from.dtype, 0, 1, state()); }
};

template <class F, class T, class Product>
struct Forward : Layer<F, T> {
  using Base = Layer<F, T>;
  using C = Compute<T>;
  using Operand = typename Product::Operand;
  using Base::gates, Base::steps, Base::batch, Base::hidden;
  static constexpr std::int64_t units = Product::units_of(gates), columns = gates * units;
  static constexpr bool split = !std::is_same_v<Operand, C>;  // the state is split into two bf16 for the product

  // One step's part of each tensor. operand: the previous state as the product's operand, `parts` matrices
  // [batch, row].
  struct Step {
    C* gates;
    T* y;
    const C *h_before, *c_before;
    C *h_next, *kept;
    const Operand* operand;
    Operand* operand_next;
    bool keeps;  // stores activated gates
  };
  std::int64_t row() const { return Product::row(hidden); }
  std::int64_t h_row() const { return split ? hidden : row(); }  // of h_before and h_next

  // The next step's operand, from a state that was loaded from or is stored to `next`.
  template <class Lanes>
  void store_operand(const Lanes& lanes, Operand* to, const Vec<C>& next) const {
    if constexpr (split) {
      lanes.store(to, next);
      lanes.store(to + batch * row(), next - lanes.load(to));
    }
  }

  // Applies the gates of units [first, first + n) of all samples, given W_hh h. Its element for gate k of unit u of a
  // sample is sums[sample * sample_step + k * gate_step + u - first].
  void apply_gates(const Step& s, const C* sums, std::int64_t sample_step, std::int64_t gate_step, const C* bias,
                   std::int64_t first, std::int64_t n) const {
    const C* bias_h = bias + gates * hidden;
    for (std::int64_t sample = 0; sample < batch; ++sample) {
      C* gates_here = s.gates + sample * gates * hidden + first;
      const C* sums_here = sums + sample * sample_step;
      const std::int64_t at = sample * hidden + first, at_h = sample * h_row() + first;
      for_vectors<C>(n, [&](const auto& lanes, std::int64_t j) {
        Vec<C> gate[gates], p[gates], kept;
        for (std::int64_t k = 0; k < gates; ++k) {
          const std::int64_t unit = k * hidden + first + j;
          gate[k] = lanes.load(gates_here + k * hidden + j) + lanes.load(bias + unit);
          p[k] = lanes.load(sums_here + k * gate_step + j);
          if (k >= F::apart) p[k] += lanes.load(bias_h + unit);
        }
        const Vec<C> next =
            F{}.forward(gate, p, lanes.load(s.h_before + at_h + j), lanes.load(s.c_before + at + j), kept);
        for (std::int64_t k = 0; s.keeps && k < gates; ++k) lanes.store(gates_here + k * hidden + j, gate[k]);
        lanes.store(s.kept + at + j, kept);
        lanes.store(s.h_next + at_h + j, next);
        lanes.store(s.y + at + j, next);
        store_operand(lanes, s.operand_next + sample * row() + first + j, next);
      });
    }
  }

  void run(const View& y, const View& all_gates, const View& all_kept, const View& h0, const View& c0, const View& w,
           const View& bias_ih, const View& bias_hh) const {
    const std::int64_t state = this->state(), rows = gates * hidden, operand = 2 * batch * row();
    const std::int64_t kept_step = all_kept.strides[0];
    const Scratch<C> h(2 * batch * h_row()), c(state), bias(2 * rows);
    const Scratch<Operand> operands(split ? 2 * operand : 0);
    for (std::int64_t sample = 0; sample < batch; ++sample)
      load_run(h.data() + sample * h_row(), h0.data, h0.dtype, sample * hidden, 1, hidden);
    if constexpr (split) {
      std::fill_n(operands.data(), 2 * operand, Operand{});
      for (std::int64_t sample = 0; sample < batch; ++sample) {
        for_vectors<C>(hidden, [&](const auto& lanes, std::int64_t j) {
          store_operand(lanes, operands.data() + sample * row() + j, lanes.load(h.data() + sample * hidden + j));
        });
      }
    }
    if (c0) this->load_state(c.data(), c0);
    std::fill_n(bias.data(), 2 * rows, C(0));
    if (bias_ih) load_run(bias.data(), bias_ih.data, bias_ih.dtype, 0, bias_ih.strides[0], rows);
    if (bias_hh) load_run(bias.data() + rows, bias_hh.data, bias_hh.dtype, 0, bias_hh.strides[0], rows);
    for (std::int64_t i = 0; i < F::apart * hidden; ++i) bias.data()[i] += bias.data()[rows + i];
    const auto step = [&](std::int64_t i) {
      const std::int64_t t = this->time(i);
      Step s{all_gates.as<C>() + t * state * gates,
             y.as<T>() + t * state,
             h.data() + i % 2 * batch * h_row(),
             i > 0 ? all_kept.as<C>() + this->time(i - 1) * kept_step : c.data(),
             h.data() + (i + 1) % 2 * batch * h_row(),
             all_kept.as<C>() + t * kept_step,
             {},
             {},
             kept_step > 0};
      if constexpr (split) {
        s.operand = operands.data() + i % 2 * operand;
        s.operand_next = operands.data() + (i + 1) % 2 * operand;
      } else {
        s.operand = s.h_before;
        s.operand_next = s.h_next;
      }
      return s;
    };
    if (steps == 1 && batch <= most_few_rows && sizeof(T) <= 4 && w.strides[1] == 1)
      one_step(step(0), w, bias.data());
    else
      all_steps(step, w, bias.data());
    if (y.size(0) > steps) {  // copies the last c
      store_run(y.data, y.dtype, steps * state, 1, all_kept.as<const C>() + this->time(steps - 1) * kept_step, state);
    }
  }

  // For single steps, as in autoregressive generation: packing would cost more than the product.
  void one_step(const Step& s, const View& w, const C* bias) const {
    if constexpr (sizeof(T) <= 4) {
      const std::int64_t rows = gates * hidden;
      const Scratch<C> sums(batch * rows);
      const FewRows product{w.dtype, batch,        rows,    hidden,      s.h_before, h_row(),
                            w.data,  w.strides[0], nullptr, sums.data(), rows,       true};
      parallel_for(rows, divide_up(flops_of_a_piece / 16, std::max<std::int64_t>(1, batch * hidden)),
                   [&](std::int64_t begin, std::int64_t end) { gemm_few_rows(product, begin, end); });
      apply_gates(s, sums.data(), rows, hidden, bias, 0, hidden);
    }
  }

  template <class StepOf>
  void all_steps(const StepOf& step, const View& w, const C* bias) const {
    constexpr std::int64_t panels = divide_up(columns, Product::panel);
    const std::int64_t blocks = divide_up(hidden, units), block = panels * Product::panel_size(hidden);
    // For few states both bf16 parts are multiplied with the weights together.
    const bool together = split && batch <= Product::rows_at_once() / 2;
    const std::int64_t rows = together ? 2 * batch : batch, one = batch * Product::panel;
    const std::int64_t sums_size = rows * panels * Product::panel, grain = this->pieces(columns, hidden);
    const Scratch<typename Product::Packed> packed(blocks * block);
    const Scratch<C> sums(blocks * sums_size);
    const auto count = [&](std::int64_t b) { return std::min(units, hidden - b * units); };
    parallel_for(blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b)
        Product::template pack_gates<gates>(packed.data() + b * block, w, b * units, count(b));
    });
    for (std::int64_t i = 0; i < steps; ++i) {
      const Step s = step(i);
      parallel_for(blocks, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t b = begin; b < end; ++b) {
          C* here = sums.data() + b * sums_size;
          const auto* weights = packed.data() + b * block;
          Product::multiply(rows, columns, hidden, s.operand, weights, here, false);
          if (together) {
            for (C* p = here; p < here + sums_size; p += 2 * one)
              map_run(one, p, Sum{}, static_cast<const C*>(p), static_cast<const C*>(p + one));
          } else if constexpr (split) {
            Product::multiply(batch, columns, hidden, s.operand + batch * row(), weights, here, true);
          }
          apply_gates(s, here, Product::sample_step(columns), Product::gate_step(rows, units), bias, b * units,
                      count(b));
        }
      });
    }
  }
};

template <class F, class T, class Product>
struct Backward : Layer<F, T> {
  using Base = Layer<F, T>;
  using C = Compute<T>;
  using Operand = typename Product::Operand;
  using Base::gates, Base::steps, Base::batch, Base::hidden;
  static constexpr std::int64_t units = Product::panel;  // per block

  void run(const View& d_x, const View& d_h, const View& d_h0, const View& d_c0, const View& g, const View& y,
           const View& all_gates, const View& all_kept, const View& h0, const View& c0, const View& w) const {
    const std::int64_t rows = gates * hidden, blocks = divide_up(hidden, units), state = this->state();
    const std::int64_t grain = this->pieces(units, rows), row_step = Product::row(rows);
    const std::int64_t block = Product::panel_size(rows);
    // W_hh [gates * hidden, units of a block]; the gradients of p of two steps; the gradient of the previous state.
    const Scratch<typename Product::Packed> packed(blocks * block);
    const Scratch<Operand> d_p(2 * batch * row_step);
    const Scratch<C> products(blocks * batch * units), past(state), d_c(state), c(state);
    if (row_step > rows) std::fill_n(d_p.data(), 2 * batch * row_step, Operand{});
    std::fill_n(past.data(), state, C(0));
    std::fill_n(d_c.data(), state, C(0));
    if (c0) {
      this->load_state(c.data(), c0);
      load_run(d_c.data(), g.data, g.dtype, steps * state, 1, state);
    }
    parallel_for(blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b)
        Product::pack_units(packed.data() + b * block, w, b * units, std::min(units, hidden - b * units));
    });
    for (std::int64_t i = steps; i >= 0; --i) {  // step i, after the product that completes the gradient of its h
      const std::int64_t t = i > 0 ? this->time(i - 1) : 0;
      const Operand* d_after = d_p.data() + i % 2 * batch * row_step;
      Operand* d_here = d_p.data() + (i + 1) % 2 * batch * row_step;
      parallel_for(blocks, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t b = begin; b < end; ++b) {
          const std::int64_t first = b * units, n = std::min(units, hidden - first);
          C* product = products.data() + b * batch * units;
          if (i < steps)
            Product::multiply(batch, units, rows, d_after, packed.data() + b * block, product, false);
          else
            std::fill_n(product, batch * units, C(0));
          for (std::int64_t row = 0; row < batch; ++row) {
            const std::int64_t at = row * hidden + first, gate_at = (t * batch + row) * rows + first;
            for_vectors<C>(n, [&](const auto& lanes, std::int64_t j) {
              const Vec<C> reached = lanes.load(product + row * units + j) + lanes.load(past.data() + at + j);
              if (i == 0) {
                lanes.store(d_h0.as<T>() + at + j, reached);
                if (d_c0) lanes.store(d_c0.as<T>() + at + j, lanes.load(d_c.data() + at + j));
                return;
              }
              const Vec<C> h_before = i > 1 ? lanes.load(y.as<const T>() + this->time(i - 2) * state + at + j)
                                            : lanes.load(h0.as<const T>() + at + j);
              const Vec<C> c_before = i > 1 ? lanes.load(all_kept.as<const C>() + this->time(i - 2) * state + at + j)
                                            : lanes.load(c.data() + at + j);
              Vec<C> gate[gates], p[gates], dc = lanes.load(d_c.data() + at + j);
              for (std::int64_t k = 0; k < gates; ++k)
                gate[k] = lanes.load(all_gates.as<const C>() + gate_at + k * hidden + j);
              const Vec<C> kept = lanes.load(all_kept.as<const C>() + t * state + at + j);
              const Vec<C> dh = reached + lanes.load(g.as<const T>() + t * state + at + j);
              lanes.store(past.data() + at + j, F{}.backward(gate, p, dh, dc, kept, h_before, c_before));
              lanes.store(d_c.data() + at + j, dc);
              for (std::int64_t k = 0; k < gates; ++k) {
                lanes.store(d_x.as<T>() + gate_at + k * hidden + j, gate[k]);
                if (d_h) lanes.store(d_h.as<T>() + gate_at + k * hidden + j, p[k]);
                lanes.store(d_here + row * row_step + k * hidden + first + j, p[k]);
              }
            });
          }
        }
      });
    }
  }
};

// Calls f.operator()<T, Product>() for the dtypes listed in core/recurrence.h.
template <class F>
void visit_dtypes(Dtype dtype, F&& f) {
  if (dtype == f64) return f.template operator()<double, Exact<double>>();
#if defined(MANTISSA_HAS_AMX)
  if (dtype == bf16 && gemm_pairs::has_bf16()) return f.template operator()<BFloat16, Pairs>();
#endif
  check(dtype == f32, "recurrence: has no products of ", dtype, " here");
  f.template operator()<float, Exact<float>>();
}

}  // namespace

void recurrence(const View& y, const View& gates, const View& kept, const View& h0, const View& c0,
                const View& weight_hh, const View& bias_ih, const View& bias_hh, Cell cell, bool reverse) {
  visit_dtypes(y.dtype, [&]<class T, class Product> {
    visit_cell(cell, [&]<class F>(F) {
      Forward<F, T, Product>{{kept, reverse}}.run(y, gates, kept, h0, c0, weight_hh, bias_ih, bias_hh);
    });
  });
}

void recurrence_backward(const View& d_x, const View& d_h, const View& d_h0, const View& d_c0, const View& g,
                         const View& y, const View& gates, const View& kept, const View& h0, const View& c0,
                         const View& weight_hh, Cell cell, bool reverse) {
  visit_dtypes(y.dtype, [&]<class T, class Product> {
    visit_cell(cell, [&]<class F>(F) {
      Backward<F, T, Product>{{kept, reverse}}.run(d_x, d_h, d_h0, d_c0, g, y, gates, kept, h0, c0, weight_hh);
    });
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
