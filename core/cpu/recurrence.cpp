// Recurrent layers over a sequence. Weights are packed once for all steps (for a single one not at all), state and sums
// stay in f32 (f64 for f64), and a step is cut by units: a piece of work multiplies for a few units of all samples and
// applies their gates while the sums are in its cache. The same units go to the same thread in every step, with their
// part of the weights.
#include "core/recurrence.h"

#include <algorithm>

#include "core/cpu/gemm_tile.h"
#include "core/cpu/vectors.h"
#include "core/gemm_few_rows.h"
#include "core/parallel.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

using recurrent::visit_cell;

constexpr std::int64_t panel = gemm_tile::max_columns;  // packed columns side by side
constexpr std::int64_t flops_of_a_piece = 1 << 20;      // what is worth handing to another thread

std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

// c [rows, columns] = a [rows, depth] times packed panels of b [depth, panel].
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t depth, const float* a, const float* b, float* c) {
  const gemm_tile::Operands o{a, depth, 1, b, panel, c, columns, depth};
  gemm_tile::multiply_block(rows, columns, o, depth * panel, false);
}
void multiply(std::int64_t rows, std::int64_t columns, std::int64_t depth, const double* a, const double* b,
              double* c) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const double* right = b + j / panel * depth * panel + j % panel;
      double sum = 0;
      for (std::int64_t k = 0; k < depth; ++k) sum += a[i * depth + k] * right[k * panel];
      c[i * columns + j] = sum;
    }
  }
}

// Uninitialised numbers from the caching allocator.
template <class C>
class Scratch {
 public:
  explicit Scratch(std::int64_t n)
      : tensor_(Tensor::allocate({std::max<std::int64_t>(n, 1)}, sizeof(C) == 8 ? f64 : f32)),
        data_(tensor_.data<C>()) {}
  C* data() const { return data_; }

 private:
  Tensor tensor_;
  C* data_;
};

// What both directions through time share.
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
    return std::max<std::int64_t>(1, flops_of_a_piece / std::max<std::int64_t>(1, 2 * batch * depth * units));
  }
  // A state in the compute type.
  void load_state(C* to, const View& from) const { load_run(to, from.data, from.dtype, 0, 1, state()); }
};

template <class F, class T>
struct Forward : Layer<F, T> {
  using Base = Layer<F, T>;
  using C = Compute<T>;
  using Base::gates, Base::steps, Base::batch, Base::hidden;
  // Units of a block: its columns are `units` of each gate, and fill whole panels where that is possible.
  static constexpr std::int64_t units = gates == 1 ? panel : gemm_tile::width, columns = gates * units;

  // W_hh^T [hidden, columns] of a block of units, in panels. Columns of units beyond the last are zeros.
  void pack(C* to, const View& w, std::int64_t first) const {
    Scratch<C> line(hidden);
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t gate = j / units, unit = first + j % units;
      if (unit < hidden) {
        load_run(line.data(), w.data, w.dtype, (gate * hidden + unit) * w.strides[0], w.strides[1], hidden);
      } else {
        std::fill_n(line.data(), hidden, C(0));
      }
      C* column = to + j / panel * hidden * panel + j % panel;
      for (std::int64_t k = 0; k < hidden; ++k) column[k * panel] = line.data()[k];
    }
  }

  // A step's part of each tensor.
  struct Step {
    T *gates, *y;
    const C *h_before, *c_before;
    C *h_next, *kept;
  };
  // Units [first, first + n) of all samples, from W_hh h. Its element for gate k of unit u of a sample is
  // sums[sample * sample_step + k * gate_step + u - first].
  template <class P>
  void apply_gates(const Step& s, const P* sums, std::int64_t sample_step, std::int64_t gate_step, const C* bias,
                   std::int64_t first, std::int64_t n) const {
    for (std::int64_t sample = 0; sample < batch; ++sample) {
      T* gates_here = s.gates + sample * gates * hidden + first;
      const P* sums_here = sums + sample * sample_step;
      const std::int64_t at = sample * hidden + first;
      for_vectors<C>(n, [&](const auto& lanes, std::int64_t j) {
        Vec<C> gate[gates], p[gates], kept;
        for (std::int64_t k = 0; k < gates; ++k) {
          gate[k] = lanes.load(gates_here + k * hidden + j);
          p[k] = lanes.load(sums_here + k * gate_step + j) + lanes.load(bias + k * hidden + first + j);
        }
        const Vec<C> next =
            F{}.forward(gate, p, lanes.load(s.h_before + at + j), lanes.load(s.c_before + at + j), kept);
        for (std::int64_t k = 0; k < gates; ++k) lanes.store(gates_here + k * hidden + j, gate[k]);
        lanes.store(s.kept + at + j, kept);
        lanes.store(s.h_next + at + j, next);
        lanes.store(s.y + at + j, next);
      });
    }
  }

  void run(const View& y, const View& all_gates, const View& all_kept, const View& h0, const View& c0, const View& w,
           const View& bias_hh) const {
    const std::int64_t state = this->state();
    const Scratch<C> h(2 * state), c(state), bias(gates * hidden);
    this->load_state(h.data(), h0);
    if (c0) this->load_state(c.data(), c0);
    std::fill_n(bias.data(), gates * hidden, C(0));
    if (bias_hh) load_run(bias.data(), bias_hh.data, bias_hh.dtype, 0, bias_hh.strides[0], gates * hidden);
    const auto step = [&](std::int64_t i) {
      const std::int64_t t = this->time(i);
      return Step{all_gates.as<T>() + t * state * gates,
                  y.as<T>() + t * state,
                  h.data() + i % 2 * state,
                  i > 0 ? all_kept.as<C>() + this->time(i - 1) * state : c.data(),
                  h.data() + (i + 1) % 2 * state,
                  all_kept.as<C>() + t * state};
    };
    if (steps == 1 && batch <= most_few_rows && sizeof(T) <= 4 && w.strides[1] == 1)
      one_step(step(0), w, bias.data());
    else
      all_steps(step, w, bias.data());
    if (y.size(0) > steps) {  // the last c
      store_run(y.data, y.dtype, steps * state, 1, all_kept.as<const C>() + this->time(steps - 1) * state, state);
    }
  }

  // As when a model writes: packing would cost more than the product.
  void one_step(const Step& s, const View& w, const C* bias) const {
    if constexpr (sizeof(T) <= 4) {
      const std::int64_t rows = gates * hidden;
      const Tensor sums = Tensor::allocate({batch, rows}, w.dtype);
      const FewRows product{w.dtype, batch,        rows,    hidden,          s.h_before, hidden,
                            w.data,  w.strides[0], nullptr, sums.raw_data(), rows};
      parallel_for(rows, divide_up(flops_of_a_piece / 16, std::max<std::int64_t>(1, batch * hidden)),
                   [&](std::int64_t begin, std::int64_t end) { gemm_few_rows(product, begin, end); });
      apply_gates(s, sums.data<T>(), rows, hidden, bias, 0, hidden);
    }
  }

  template <class StepOf>
  void all_steps(const StepOf& step, const View& w, const C* bias) const {
    const std::int64_t blocks = divide_up(hidden, units), block = divide_up(columns, panel) * panel * hidden;
    const std::int64_t grain = this->pieces(columns, hidden);
    const Scratch<C> packed(blocks * block), sums(blocks * batch * columns);
    parallel_for(blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) pack(packed.data() + b * block, w, b * units);
    });
    for (std::int64_t i = 0; i < steps; ++i) {
      const Step s = step(i);
      parallel_for(blocks, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t b = begin; b < end; ++b) {
          C* here = sums.data() + b * batch * columns;
          multiply(batch, columns, hidden, s.h_before, packed.data() + b * block, here);
          apply_gates(s, here, columns, units, bias, b * units, std::min(units, hidden - b * units));
        }
      });
    }
  }
};

template <class F, class T>
struct Backward : Layer<F, T> {
  using Base = Layer<F, T>;
  using C = Compute<T>;
  using Base::gates, Base::steps, Base::batch, Base::hidden;
  static constexpr std::int64_t units = panel;  // of a block

  void run(const View& d_x, const View& d_h, const View& d_h0, const View& d_c0, const View& g, const View& y,
           const View& all_gates, const View& all_kept, const View& h0, const View& c0, const View& w) const {
    const std::int64_t rows = gates * hidden, blocks = divide_up(hidden, units), state = this->state();
    const std::int64_t grain = this->pieces(units, rows);
    // W_hh [gates * hidden, units of a block]; the gradients of p of two steps; what reaches the state before.
    const Scratch<C> packed(blocks * rows * panel), d_p(2 * batch * rows), products(blocks * batch * units),
        past(state), d_c(state), c(state);
    std::fill_n(past.data(), state, C(0));
    std::fill_n(d_c.data(), state, C(0));
    if (c0) {
      this->load_state(c.data(), c0);
      load_run(d_c.data(), g.data, g.dtype, steps * state, 1, state);
    }
    parallel_for(blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t b = begin; b < end; ++b) {
        const std::int64_t n = std::min(units, hidden - b * units);
        for (std::int64_t k = 0; k < rows; ++k) {
          C* to = packed.data() + (b * rows + k) * panel;
          load_run(to, w.data, w.dtype, k * w.strides[0] + b * units * w.strides[1], w.strides[1], n);
          std::fill(to + n, to + panel, C(0));
        }
      }
    });
    for (std::int64_t i = steps; i >= 0; --i) {  // step i, after the product that brings it the gradient of its h
      const std::int64_t t = i > 0 ? this->time(i - 1) : 0;
      const C* d_after = d_p.data() + i % 2 * batch * rows;
      C* d_here = d_p.data() + (i + 1) % 2 * batch * rows;
      parallel_for(blocks, grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t b = begin; b < end; ++b) {
          const std::int64_t first = b * units, n = std::min(units, hidden - first);
          C* product = products.data() + b * batch * units;
          if (i < steps)
            multiply(batch, units, rows, d_after, packed.data() + b * rows * panel, product);
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
                gate[k] = lanes.load(all_gates.as<const T>() + gate_at + k * hidden + j);
              const Vec<C> kept = lanes.load(all_kept.as<const C>() + t * state + at + j);
              const Vec<C> dh = reached + lanes.load(g.as<const T>() + t * state + at + j);
              lanes.store(past.data() + at + j, F{}.backward(gate, p, dh, dc, kept, h_before, c_before));
              lanes.store(d_c.data() + at + j, dc);
              for (std::int64_t k = 0; k < gates; ++k) {
                lanes.store(d_x.as<T>() + gate_at + k * hidden + j, gate[k]);
                if (d_h) lanes.store(d_h.as<T>() + gate_at + k * hidden + j, p[k]);
                lanes.store(d_here + row * rows + k * hidden + first + j, p[k]);
              }
            });
          }
        }
      });
    }
  }
};

}  // namespace

void recurrence(const View& y, const View& gates, const View& kept, const View& h0, const View& c0,
                const View& weight_hh, const View& bias_hh, Cell cell, bool reverse) {
  visit_floating(y.dtype, [&]<class T> {
    visit_cell(cell, [&]<class F>(F) {
      Forward<F, T>{{kept, reverse}}.run(y, gates, kept, h0, c0, weight_hh, bias_hh);
    });
  });
}

void recurrence_backward(const View& d_x, const View& d_h, const View& d_h0, const View& d_c0, const View& g,
                         const View& y, const View& gates, const View& kept, const View& h0, const View& c0,
                         const View& weight_hh, Cell cell, bool reverse) {
  visit_floating(y.dtype, [&]<class T> {
    visit_cell(cell, [&]<class F>(F) {
      Backward<F, T>{{kept, reverse}}.run(d_x, d_h, d_h0, d_c0, g, y, gates, kept, h0, c0, weight_hh);
    });
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
