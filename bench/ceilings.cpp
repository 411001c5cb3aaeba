#include "ceilings.h"

#include <mantissa/core/parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#define MANTISSA_KEEP(vector) asm volatile("" : "+v"(vector))  // no function: clang has its target look at it
#else
#define MANTISSA_KEEP(vector) asm volatile("" : "+w"(vector))
#endif

namespace bench {
namespace {

constexpr int lanes_of_work = 12;  // independent chains: more than latency times ports
constexpr std::int64_t rounds = 200'000;

#if defined(__x86_64__)
[[gnu::target("avx512f")]] void fma_512() {
  __m512 sums[lanes_of_work], x = _mm512_set1_ps(0.5f);
  for (auto& s : sums) s = x;
  for (std::int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (auto& s : sums) {
      s = _mm512_fmadd_ps(s, x, x);
      MANTISSA_KEEP(s);
    }
}
[[gnu::target("avx2,fma")]] void fma_256() {
  __m256 sums[lanes_of_work], x = _mm256_set1_ps(0.5f);
  for (auto& s : sums) s = x;
  for (std::int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (auto& s : sums) {
      s = _mm256_fmadd_ps(s, x, x);
      MANTISSA_KEEP(s);
    }
}
[[gnu::target("avx512f,avx512bf16")]] void dot_512() {
  __m512 sums[lanes_of_work];
  const __m512bh x = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.5f));
  for (auto& s : sums) s = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (auto& s : sums) {
      s = _mm512_dpbf16_ps(s, x, x);
      MANTISSA_KEEP(s);
    }
}
#endif
void fma_128() {
  using Four [[gnu::vector_size(16)]] = float;
  Four sums[lanes_of_work], x = {0.5f, 0.5f, 0.5f, 0.5f};
  for (auto& s : sums) s = x;
  for (std::int64_t i = 0; i < rounds; ++i)
#pragma GCC unroll 12
    for (auto& s : sums) {
      s = s * x + x;
      MANTISSA_KEEP(s);
    }
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The best of several tries, each on all threads at the same time, for as long as a
// sleeping processor may take to wake.
template <class F> double rate(double amount_per_thread, int tries, F&& body) {
  constexpr double least_seconds = 0.25;
  double best = 0;
  const std::int64_t threads = mantissa::num_threads();
  const double start = now();
  for (int i = 0; i < tries || now() - start < least_seconds; ++i) {
    const double begin = now();
    mantissa::parallel_for(threads, 1, [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t t = first; t < end; ++t) body(t);
    });
    best = std::max(best, amount_per_thread * static_cast<double>(threads) / (now() - begin));
  }
  return best;
}
double operations(double per_instruction) { return per_instruction * lanes_of_work * static_cast<double>(rounds); }

}  // namespace

double fma_f32() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return rate(operations(32), 10, [](std::int64_t) { fma_512(); });
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return rate(operations(16), 10, [](std::int64_t) { fma_256(); });
#endif
  return rate(operations(8), 10, [](std::int64_t) { fma_128(); });
}

double dot_bf16() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bf16")) return rate(operations(64), 10, [](std::int64_t) { dot_512(); });
#endif
  return fma_f32();
}

std::vector<std::pair<double, double>> copies() {
  std::vector<std::pair<double, double>> found;
  const std::int64_t threads = mantissa::num_threads();
  for (const int bits : {18, 20, 22, 24, 27}) {
    const std::int64_t total = std::int64_t{1} << bits;
    const std::int64_t half = total / threads / 2, repeats = std::max<std::int64_t>(1, (std::int64_t{1} << 25) / half);
    std::vector<char> from(static_cast<std::size_t>(half * threads), 1), to(from.size());
    const double moved = 2.0 * static_cast<double>(half * repeats);
    found.emplace_back(static_cast<double>(total), rate(moved, 5, [&](std::int64_t t) {
                         for (std::int64_t i = 0; i < repeats; ++i) {
                           std::memcpy(to.data() + t * half, from.data() + t * half, static_cast<std::size_t>(half));
                           asm volatile("" ::: "memory");
                         }
                       }));
  }
  return found;
}

}  // namespace bench
