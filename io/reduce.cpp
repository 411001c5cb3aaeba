#include "io/reduce.h"

#include <algorithm>
#include <type_traits>

#include "core/kernel.h"

namespace mantissa {

MANTISSA_KERNEL(copy, const View& y, const View& x)

namespace distributed {
namespace {

constexpr std::int64_t block = 2048;  // elements whose sums fit in the L1 cache

template <class T> T larger(T a, T b) { return a != a || a > b ? a : b; }  // propagates NaN
template <class T> T smaller(T a, T b) { return a != a || a < b ? a : b; }
template <class T> T plus(T a, T b) {
  if constexpr (std::is_integral_v<T> && sizeof(T) >= sizeof(int))
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(a) + static_cast<std::make_unsigned_t<T>>(b));
  else return static_cast<T>(a + b);
}

template <class T> void combine(T* sum, const T* x, std::int64_t n, ReduceOp op) {
  switch (op) {
    case ReduceOp::max:
      for (std::int64_t i = 0; i < n; ++i) sum[i] = larger(sum[i], x[i]);
      break;
    case ReduceOp::min:
      for (std::int64_t i = 0; i < n; ++i) sum[i] = smaller(sum[i], x[i]);
      break;
    default:
      for (std::int64_t i = 0; i < n; ++i) sum[i] = plus(sum[i], x[i]);
  }
}

void convert(void* to, Dtype to_dtype, const void* from, Dtype from_dtype, std::int64_t n) {
  View y, x;
  y.data = to;
  x.data = const_cast<void*>(from);
  y.sizes = x.sizes = {n};
  y.strides = x.strides = {1};
  y.dtype = to_dtype;
  x.dtype = from_dtype;
  kernels::copy(cpu, y, x);
}

// Accumulates in T; elements are stored as T, or as f16 or bf16 that T holds.
template <class T>
void reduce_blocks(char* out, std::span<const void* const> parts, std::int64_t n, Dtype dtype, ReduceOp op) {
  const auto size = static_cast<std::int64_t>(size_of(dtype));
  const bool converts = is_half(dtype);
  T sums[block], wide[block];
  for (std::int64_t begin = 0; begin < n; begin += block) {
    const std::int64_t count = std::min(block, n - begin);
    for (std::size_t r = 0; r < parts.size(); ++r) {
      const char* part = static_cast<const char*>(parts[r]) + begin * size;
      T* to = r == 0 ? sums : wide;
      if (converts) convert(to, dtype_of<T>, part, dtype, count);
      const T* x = converts ? to : reinterpret_cast<const T*>(part);
      if (r > 0) combine(sums, x, count, op);
      else if (!converts) std::copy_n(x, count, sums);
    }
    if constexpr (std::is_floating_point_v<T>) {
      if (op == ReduceOp::mean)
        for (std::int64_t i = 0; i < count; ++i) sums[i] /= static_cast<T>(parts.size());
    }
    if (converts) convert(out + begin * size, dtype, sums, dtype_of<T>, count);
    else std::copy_n(sums, count, reinterpret_cast<T*>(out + begin * size));
  }
}

}  // namespace

void reduce_parts(void* out, std::span<const void* const> parts, std::int64_t n, Dtype dtype, ReduceOp op) {
  char* const to = static_cast<char*>(out);
  switch (dtype) {
    case Dtype::f64:
      return reduce_blocks<double>(to, parts, n, dtype, op);
    case Dtype::i64:
      return reduce_blocks<std::int64_t>(to, parts, n, dtype, op);
    case Dtype::i32:
      return reduce_blocks<std::int32_t>(to, parts, n, dtype, op);
    case Dtype::u8:
    case Dtype::boolean:
      return reduce_blocks<std::uint8_t>(to, parts, n, u8, op);
    default:
      return reduce_blocks<float>(to, parts, n, dtype, op);
  }
}

}  // namespace distributed
}  // namespace mantissa
