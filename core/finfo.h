// Numeric limits of a dtype, as torch.finfo and torch.iinfo:
//   scores = scores.masked_fill(mask, finfo(scores.dtype()).min);
#pragma once

#include <cstdint>
#include <limits>

#include "core/dtype.h"
#include "core/error.h"

namespace mantissa {

struct FloatInfo {
  double min, max;  // the lowest and the highest finite value
  double eps;       // difference between 1 and the next number
  double tiny;      // the smallest positive normal number
  int bits;
};
// For f16, bf16, f32 and f64.
inline FloatInfo finfo(Dtype dtype) {
  switch (dtype) {
    case f16: return {-65504, 65504, 0x1p-10, 0x1p-14, 16};
    case bf16: return {-0x1.fep127, 0x1.fep127, 0x1p-7, 0x1p-126, 16};
    case f32: return {-0x1.fffffep127, 0x1.fffffep127, 0x1p-23, 0x1p-126, 32};
    case f64: return {-0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023, 0x1p-52, 0x1p-1022, 64};
    default: fail("finfo: ", dtype, " is no floating dtype; iinfo is for integers");
  }
}

struct IntegerInfo {
  std::int64_t min, max;
  int bits;
};
// For u8, i32 and i64.
inline IntegerInfo iinfo(Dtype dtype) {
  switch (dtype) {
    case u8: return {0, 255, 8};
    case i32: return {INT32_MIN, INT32_MAX, 32};
    case i64: return {INT64_MIN, INT64_MAX, 64};
    default: fail("iinfo: ", dtype, " is no integer dtype; finfo is for floating ones");
  }
}

}  // namespace mantissa
