// Dot product of two vectors. Runs of products are summed in eight vectors, and the runs in f64, so that a long sum
// loses no precision; the order depends on the length alone.
#include "core/cpu/vectors.h"
#include "core/kernel.h"
#include "core/scratch.h"

namespace mantissa {
MANTISSA_KERNEL(gemm_dot, Dtype dtype, std::int64_t n, const void* a, std::int64_t a_step, const void* b,
                std::int64_t b_step, double* sum)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

constexpr std::int64_t run = 4096;

template <class T> Compute<T> sum_of_run(std::int64_t n, const T* a, const T* b) {
  using C = Compute<T>;
  constexpr int together = 8;
  constexpr auto width = static_cast<std::int64_t>(Vec<C>::size);
  Vec<C> sum[together];
#pragma GCC unroll 8
  for (int j = 0; j < together; ++j) sum[j] = Vec<C>(C(0));
  std::int64_t i = 0;
  for (; i + together * width <= n; i += together * width) {
#pragma GCC unroll 8
    for (int j = 0; j < together; ++j)
      sum[j] = xsimd::fma(load_wide(a + i + j * width), load_wide(b + i + j * width), sum[j]);
  }
  for_vectors<C>(n - i, [&](const auto& lanes, std::int64_t j) {
    sum[0] = xsimd::fma(lanes.load(a + i + j), lanes.load(b + i + j), sum[0]);
  });
#pragma GCC unroll 3
  for (int half = together / 2; half > 0; half /= 2) {
#pragma GCC unroll 4
    for (int j = 0; j < half; ++j) sum[j] += sum[half + j];
  }
  return fold_lanes<Sum, C>(sum[0]);
}

template <class T> const T* gathered(std::int64_t n, const T* from, std::int64_t step, T* to) {
  if (step == 1) return from;
  for (std::int64_t i = 0; i < n; ++i) to[i] = from[i * step];
  return to;
}

}  // namespace

void gemm_dot(Dtype dtype, std::int64_t n, const void* a, std::int64_t a_step, const void* b, std::int64_t b_step,
              double* sum) {
  visit_floating(dtype, [&]<class T> {
    const auto room = static_cast<std::size_t>(std::min(n, run));
    ScratchVector<T> left(a_step == 1 ? 0 : room), right(b_step == 1 ? 0 : room);
    double total = 0;
    for (std::int64_t i = 0; i < n; i += run) {
      const std::int64_t count = std::min(run, n - i);
      total += sum_of_run(count, gathered(count, static_cast<const T*>(a) + i * a_step, a_step, left.data()),
                          gathered(count, static_cast<const T*>(b) + i * b_step, b_step, right.data()));
    }
    *sum = total;
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
