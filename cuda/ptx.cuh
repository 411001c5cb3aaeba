// The PTX instructions that kernels use: asynchronous copies to shared memory, ldmatrix and the m16n8k16 Tensor Core
// product. Each has a CPU shim counterpart with the same mapping of elements to lanes, so that a wrong fragment index
// gives wrong results there too.
// Source: PTX ISA, sections "cp.async", "ldmatrix" and "Matrix fragments for mma.m16n8k16".
#pragma once

#include <cstdint>

#include "core/half.h"
#include "cuda/launch.cuh"

#if defined(MANTISSA_CUDA_SHIM)
#include <chrono>
#include <cstring>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>
#endif

namespace mantissa::ptx {

// The four floats of a lane in a 16x8 accumulator: rows lane/4 and lane/4 + 8, columns 2*(lane%4) and the next:
// (row, column), (row, column+1), (row+8, column), (row+8, column+1).
struct Accumulator { float v[4] = {0, 0, 0, 0}; };
struct FragmentA { std::uint32_t v[4]; };  // 16x16: two elements each of (row, k), (row+8, k), (row, k+8), (row+8, k+8)
struct FragmentB { std::uint32_t v[2]; };  // 16x8: two elements each of (k, column), (k+8, column)

#if !defined(MANTISSA_CUDA_SHIM)

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// Nanoseconds since some moment.
__device__ inline std::uint64_t global_timer() {
  std::uint64_t t;
  asm volatile("mov.u64 %0, %%globaltimer;\n" : "=l"(t));
  return t;
}

// Starts copying `valid` bytes (0 to 16) from global to shared memory; the rest of the 16 becomes zero.
__device__ inline void copy_async_16(void* to, const void* from, int valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)), "l"(from), "r"(valid));
}
// Commits the group of copies that this thread has started since the last call.
__device__ inline void copy_async_commit() { asm volatile("cp.async.commit_group;\n" ::); }
// Waits until at most `pending` of this thread's groups are still in flight.
template <int pending> __device__ inline void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(pending));
}

// Loads four 8x8 matrices of 16-bit elements. Lane 8*i + r gives the address of row r of matrix i (16 bytes);
// register i of a lane receives elements (lane/4, 2*(lane%4)) and the next of matrix i, or of its transpose.
template <bool transpose> __device__ inline void load_matrices(std::uint32_t (&r)[4], const void* row) {
  if constexpr (transpose) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)));
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(row)));
  }
}

// c += a @ b with products and sums in f32.
template <class T> __device__ inline void mma(Accumulator& c, const FragmentA& a, const FragmentB& b);
template <> __device__ inline void mma<Half>(Accumulator& c, const FragmentA& a, const FragmentB& b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c.v[0]), "+f"(c.v[1]), "+f"(c.v[2]), "+f"(c.v[3])
      : "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(b.v[0]), "r"(b.v[1]));
}
template <> __device__ inline void mma<BFloat16>(Accumulator& c, const FragmentA& a, const FragmentB& b) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c.v[0]), "+f"(c.v[1]), "+f"(c.v[2]), "+f"(c.v[3])
      : "r"(a.v[0]), "r"(a.v[1]), "r"(a.v[2]), "r"(a.v[3]), "r"(b.v[0]), "r"(b.v[1]));
}

// 2^x; a result below 2^-126 is 0.
__device__ inline float exp2_flushed(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}

// NaN if either is; 0 is larger than -0.
__device__ inline float larger_or_nan(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;\n" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
__device__ inline float smaller_or_nan(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;\n" : "=f"(y) : "f"(a), "f"(b));
  return y;
}

#else

inline float exp2_flushed(float x) { return exp2f(x); }
inline float larger_or_nan(float a, float b) {
  return a != a || b != b ? a + b : a == b ? (std::signbit(a) ? b : a) : a > b ? a : b;
}
inline float smaller_or_nan(float a, float b) {
  return a != a || b != b ? a + b : a == b ? (std::signbit(a) ? a : b) : a < b ? a : b;
}

inline std::uint64_t global_timer() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

namespace shim {

// A thread's pending copies. They are executed only when waited for; until then the destination holds NaNs, so that a
// missing wait is detected.
struct Copy { void* to; const void* from; int valid; };
inline std::deque<std::vector<Copy>>& groups_of_thread() {
  static std::deque<std::vector<Copy>> all[1024];
  return all[threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)];
}
inline std::vector<Copy>& open_group() {
  static std::vector<Copy> all[1024];
  return all[threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)];
}

// What the last lane that comes to an instruction does for its whole warp, from what each lane brought.
inline void check_whole(const void* const* lanes, const char* name) {
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!lanes[lane]) throw std::runtime_error(std::string("cuda_shim: ") + name + " in a warp without all its lanes");
  }
}
struct MatrixRow { const void* row; std::uint32_t* to; };
template <bool transpose> void load_matrices(unsigned, const void* const* lanes) {
  check_whole(lanes, "ldmatrix");
  const auto of = [&](unsigned lane) -> const MatrixRow& { return *static_cast<const MatrixRow*>(lanes[lane]); };
  for (unsigned i = 0; i < 4; ++i) {
    std::uint16_t m[8][8];
    for (unsigned r = 0; r < 8; ++r) std::memcpy(m[r], of(8 * i + r).row, 16);
    for (unsigned lane = 0; lane < 32; ++lane) {
      const unsigned line = lane / 4, pair = lane % 4 * 2;
      const std::uint32_t low = transpose ? m[pair][line] : m[line][pair],
                          high = transpose ? m[pair + 1][line] : m[line][pair + 1];
      of(lane).to[i] = low | high << 16;
    }
  }
}

template <class T> [[gnu::always_inline]] inline float element(std::uint32_t pair, unsigned which) {
  T v;
  const auto bits = static_cast<std::uint16_t>(pair >> (16 * which));
  std::memcpy(static_cast<void*>(&v), &bits, sizeof v);
  return static_cast<float>(v);
}
struct Fragments { const FragmentA& a; const FragmentB& b; Accumulator& c; };
template <class T> void multiply(unsigned, const void* const* lanes) {
  check_whole(lanes, "mma.sync");
  const auto of = [&](unsigned lane) -> const Fragments& { return *static_cast<const Fragments*>(lanes[lane]); };
  float a[16][16], b[16][8], c[16][8];
  for (unsigned lane = 0; lane < 32; ++lane) {
    const Fragments& f = of(lane);
    const unsigned line = lane / 4, pair = lane % 4 * 2;
    for (unsigned e = 0; e < 2; ++e) {
      for (unsigned i = 0; i < 4; ++i) a[line + i % 2 * 8][pair + i / 2 * 8 + e] = element<T>(f.a.v[i], e);
      for (unsigned i = 0; i < 2; ++i) b[pair + i * 8 + e][line] = element<T>(f.b.v[i], e);
      for (unsigned i = 0; i < 2; ++i) c[line + i * 8][pair + e] = f.c.v[2 * i + e];
    }
  }
  for (auto& row : c) {
    const float* factor = a[&row - c];
    for (unsigned k = 0; k < 16; ++k) {
      for (unsigned j = 0; j < 8; ++j) row[j] += factor[k] * b[k][j];
    }
  }
  for (unsigned lane = 0; lane < 32; ++lane) {
    for (unsigned i = 0; i < 4; ++i) of(lane).c.v[i] = c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
  }
}

}  // namespace shim

inline void copy_async_16(void* to, const void* from, int valid) {
  cuda_shim::check_aligned(to, 16, "place of cp.async in shared memory");
  cuda_shim::check_aligned(from, 16, "source of cp.async");  // also for an empty copy
  std::memset(to, 0xff, 16);
  shim::open_group().push_back({to, from, valid});
}
inline void copy_async_commit() {
  shim::groups_of_thread().push_back(std::move(shim::open_group()));
  shim::open_group().clear();
}
template <int pending> inline void copy_async_wait() {
  auto& groups = shim::groups_of_thread();
  while (groups.size() > static_cast<std::size_t>(pending)) {
    for (const shim::Copy& c : groups.front()) {
      std::memset(c.to, 0, 16);
      if (c.valid > 0) std::memcpy(c.to, c.from, static_cast<std::size_t>(c.valid));
    }
    groups.pop_front();
  }
}

template <bool transpose> inline void load_matrices(std::uint32_t (&r)[4], const void* row) {
  cuda_shim::check_aligned(row, 16, "row of ldmatrix");
  const shim::MatrixRow mine{row, r};
  cuda_shim::warp_together("ldmatrix", &shim::load_matrices<transpose>, &mine);
}

template <class T> inline void mma(Accumulator& c, const FragmentA& a, const FragmentB& b) {
  const shim::Fragments mine{a, b, c};
  cuda_shim::warp_together("mma.sync", &shim::multiply<T>, &mine);
}

#endif

}  // namespace mantissa::ptx
