// Recurrent layers over a sequence: each step is one product of the state with W_hh and one kernel for the gates of all
// samples, both on the current stream, so that they can be captured. Mirrors core/cpu/recurrence.cpp: the state stays
// in the compute type, and enters an f16 or bf16 product as the sum of two values (rounded state and remainder),
// stacked as rows of one product.
#include "core/recurrence.h"
#include "cuda/gemm.h"
#include "cuda/launch.cuh"
#include "cuda/vec.cuh"

namespace mantissa {
MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(fill, const View& y, double value)
}  // namespace mantissa

namespace mantissa::cuda_backend {
namespace {

using recurrent::visit_cell;

// Elements from `begin` on of a tensor whose dtype is a run-time value; null data: absent.
struct Part {
  void* data = nullptr;
  Dtype dtype = f32;
  std::int64_t begin = 0;

  Part() = default;
  Part(const View& v, std::int64_t begin = 0) : data(v.data), dtype(v.dtype), begin(begin) {}
  template <class C>
  __device__ C load(std::int64_t i) const {
    return load_element<C>(data, dtype, begin + i);
  }
  template <class C>
  __device__ void store(std::int64_t i, C value) const {
    store_element(data, dtype, begin + i, value);
  }
};

// Splits a state into 16-bit values: the rounded state, [N, H], followed by the remainder.
template <class C>
__device__ void store_split(const Part& halves, std::int64_t i, std::int64_t below, C value) {
  halves.store(i, value);
  halves.store(below + i, value - halves.load<C>(i));
}

// Prepares the initial state for the first step.
template <class C>
__global__ void start_forward(Part h0, C* h, Part halves, std::int64_t n) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  h[i] = h0.load<C>(i);
  store_split(halves, i, n, h[i]);
}

// One thread per unit of a sample. sums [N, G * H]: the product with the previous state; for f16 and bf16 two of them,
// to be added. In that case `halves` is the operand of the next step's product, and `h`, in the compute type, is read
// and then written.
template <class F, class C>
__global__ void step_forward(Part y, C* gates, C* kept, Part h, Part c_before, const C* sums, Part halves, Part bias_x,
                             Part bias_h, std::int64_t batch, std::int64_t hidden) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x, n = batch * hidden;
  if (i >= n) return;
  const std::int64_t sample = i / hidden, unit = i % hidden, first = sample * F::gates * hidden + unit;
  C gate[F::gates], p[F::gates], keep{};
#pragma unroll
  for (int k = 0; k < F::gates; ++k) {
    gate[k] = gates[first + k * hidden];
    p[k] = sums[first + k * hidden];
    if (halves.data) p[k] += sums[F::gates * n + first + k * hidden];
    if (bias_x.data) gate[k] += bias_x.load<C>(k * hidden + unit);
    if (bias_h.data) p[k] += bias_h.load<C>(k * hidden + unit);
  }
  const C next = F{}.forward(gate, p, h.load<C>(i), c_before.data ? c_before.load<C>(i) : C(0), keep);
#pragma unroll
  for (int k = 0; k < F::gates; ++k) gates[first + k * hidden] = gate[k];
  kept[i] = keep;
  y.store(i, next);
  if (!halves.data) return;
  h.store(i, next);
  store_split(halves, i, n, next);
}

// The gradient that reaches the state after a step, besides that of y: a product [N, H], and the part that bypasses it.
template <class F, class C>
__global__ void step_backward(Part d_x, Part d_p, C* past, C* d_c, Part g, const C* product, Part gates, Part kept,
                              Part h_before, Part c_before, std::int64_t batch, std::int64_t hidden) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= batch * hidden) return;
  const std::int64_t sample = i / hidden, unit = i % hidden, first = sample * F::gates * hidden + unit;
  C gate[F::gates], p[F::gates], dc = d_c[i];
#pragma unroll
  for (int k = 0; k < F::gates; ++k) gate[k] = gates.load<C>(first + k * hidden);
  const C dh = product[i] + past[i] + g.load<C>(i);
  past[i] =
      F{}.backward(gate, p, dh, dc, kept.load<C>(i), h_before.load<C>(i), c_before.data ? c_before.load<C>(i) : C(0));
  d_c[i] = dc;
#pragma unroll
  for (int k = 0; k < F::gates; ++k) {
    d_x.store(first + k * hidden, gate[k]);
    if (d_p.data != d_x.data) d_p.store(first + k * hidden, p[k]);
  }
}

// The gradients of the initial state, after all steps.
template <class C>
__global__ void start_backward(Part d_h0, Part d_c0, const C* past, const C* d_c, const C* product, std::int64_t n) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  d_h0.store(i, product[i] + past[i]);
  if (d_c0.data) d_c0.store(i, d_c[i]);
}

// c [m, n] in the compute type = a [m, k] times b, or b^T where b is [n, k].
void multiply(const View& c, const void* a, const View& b, bool b_transposed, Dtype in) {
  tensor_core::Gemm g;
  g.m = c.sizes[0], g.n = c.sizes[1], g.k = b.size(b_transposed ? 1 : 0);
  g.in = in, g.out = c.dtype;
  g.a = a, g.b = b.data, g.c = c.data;
  g.lda = g.k, g.ldb = b.size(1), g.ldc = g.n;
  g.b_transposed = b_transposed;
  run(g, c.device);
}

View step(const View& v, std::int64_t t) {  // v[t]
  View one = v;
  one.data = static_cast<char*>(v.data) + t * v.strides[0] * static_cast<std::int64_t>(size_of(v.dtype));
  one.sizes.erase(0);
  one.strides.erase(0);
  return one;
}

}  // namespace

void recurrence(const View& y, const View& gates, const View& kept, const View& h0, const View& c0,
                const View& weight_hh, const View& bias_ih, const View& bias_hh, Cell cell, bool reverse) {
  const std::int64_t steps = kept.size(0), batch = kept.size(1), hidden = kept.size(2);
  const auto time = [&](std::int64_t i) { return reverse ? steps - 1 - i : i; };
  const std::int64_t parts = is_half(y.dtype) ? 2 : 1;
  const Tensor sums = Tensor::allocate({parts * batch, weight_hh.size(0)}, kept.dtype, y.device);
  Tensor state, halves;
  if (parts == 2) {
    state = Tensor::allocate({batch, hidden}, kept.dtype, y.device);
    halves = Tensor::allocate({parts * batch, hidden}, y.dtype, y.device);
    launch("recurrence_first", &start_forward<float>, grid_for(batch * hidden), Part(h0), state.data<float>(),
           Part(halves.view()), batch * hidden);
  }
  for (std::int64_t i = 0; i < steps; ++i) {
    const std::int64_t t = time(i);
    const View h_before = parts == 2 ? state.view() : i > 0 ? step(y, time(i - 1)) : h0;
    const View c_before = i > 0 ? step(kept, time(i - 1)) : c0;
    multiply(sums.view(), parts == 2 ? halves.view().data : h_before.data, weight_hh, true, y.dtype);
    visit_compute(y.dtype, [&]<class C>() {
      visit_cell(cell, [&]<class F>(F) {
        launch("recurrence", &step_forward<F, C>, grid_for(batch * hidden), Part(step(y, t)),
               step(gates, t).template as<C>(), step(kept, t).template as<C>(), Part(h_before), Part(c_before),
               sums.data<C>(), parts == 2 ? Part(halves.view()) : Part(), Part(bias_ih), Part(bias_hh), batch, hidden);
      });
    });
  }
  if (y.size(0) > steps) copy(step(y, steps), step(kept, time(steps - 1)));
}

void recurrence_backward(const View& d_x, const View& d_h, const View& d_h0, const View& d_c0, const View& g,
                         const View& y, const View& gates, const View& kept, const View& h0, const View& c0,
                         const View& weight_hh, Cell cell, bool reverse) {
  const std::int64_t steps = kept.size(0), batch = kept.size(1), hidden = kept.size(2);
  const auto time = [&](std::int64_t i) { return reverse ? steps - 1 - i : i; };
  const auto zeros = [&] {
    Tensor z = Tensor::allocate({batch, hidden}, kept.dtype, y.device);
    fill(z.view(), 0.0);
    return z;
  };
  const Tensor product = zeros(), past = zeros(), d_c = zeros();
  if (c0) copy(d_c.view(), step(g, steps));
  const View& d_p = d_h ? d_h : d_x;
  visit_compute(y.dtype, [&]<class C>() {
    for (std::int64_t i = steps - 1; i >= 0; --i) {
      const std::int64_t t = time(i);
      const View h_before = i > 0 ? step(y, time(i - 1)) : h0, c_before = i > 0 ? step(kept, time(i - 1)) : c0;
      visit_cell(cell, [&]<class F>(F) {
        launch("recurrence_backward", &step_backward<F, C>, grid_for(batch * hidden), Part(step(d_x, t)),
               Part(step(d_p, t)), past.data<C>(), d_c.data<C>(), Part(step(g, t)), product.data<C>(),
               Part(step(gates, t)), Part(step(kept, t)), Part(h_before), Part(c_before), batch, hidden);
      });
      multiply(product.view(), step(d_p, t).data, weight_hh, false, y.dtype);
    }
    launch("recurrence_start", &start_backward<C>, grid_for(batch * hidden), Part(d_h0), Part(d_c0), past.data<C>(),
           d_c.data<C>(), product.data<C>(), batch * hidden);
  });
}

}  // namespace mantissa::cuda_backend
