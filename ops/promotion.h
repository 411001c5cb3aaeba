// Type promotion like torch.result_type: tensors take precedence over 0-d tensors, and these over C++ numbers. A
// lower-precedence operand changes the result only if its kind is higher: floating over integer, integer over bool. So
// bf16[8] times an f32 scalar stays bf16, and i64[8] times 0.5 is f32.
#pragma once

#include "core/tensor.h"

namespace mantissa {

struct Meeting {  // an operand: its dtype and precedence
  enum Rank : std::uint8_t { number, scalar, dimensions };
  Dtype dtype;
  Rank rank;

  explicit Meeting(const Tensor& t) : Meeting(t.dtype(), t.is_weak_scalar(), t.dim()) {}
  explicit Meeting(const View& v) : Meeting(v.dtype, v.weak_scalar, v.dim()) {}
  Meeting(Dtype d, Rank r) : dtype(d), rank(r) {}

 private:
  Meeting(Dtype d, bool is_number, int dims) : dtype(d), rank(is_number ? number : dims == 0 ? scalar : dimensions) {}
};
inline Meeting meet(Meeting a, Meeting b) {
  if (a.rank == b.rank) return {promote(a.dtype, b.dtype), a.rank};
  const Meeting high = a.rank > b.rank ? a : b, low = a.rank > b.rank ? b : a;
  if (is_floating(high.dtype)) return high;
  if (is_floating(low.dtype)) return {low.rank == Meeting::number ? f32 : low.dtype, high.rank};
  return {high.dtype == boolean ? low.dtype : high.dtype, high.rank};
}
inline Dtype common_dtype(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() ? a.dtype() : meet(Meeting(a), Meeting(b)).dtype;
}
inline Dtype common_dtype(const View& a, const View& b) {
  return a.dtype == b.dtype ? a.dtype : meet(Meeting(a), Meeting(b)).dtype;
}

}  // namespace mantissa
