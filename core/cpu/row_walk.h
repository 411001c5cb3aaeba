// Walks the rows of a collapsed loop one after the other: where each operand has the row's first element. Moving on
// costs additions; the divisions that an index needs are done once, where a thread begins.
#pragma once

#include <cstdint>

#include "core/layout.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

class RowWalk {
 public:
  RowWalk(const Loop& loop, int operands, std::int64_t row)
      : loop_(loop), operands_(operands), inner_(loop.sizes.rank() - 1) {
    for (int d = inner_ - 1; d >= 0; --d) {
      index_[d] = row % loop.sizes[d];
      row /= loop.sizes[d];
      for (int k = 0; k < operands; ++k) offset_[k] += index_[d] * loop.strides[k][d];
    }
  }
  void next() {
    for (int d = inner_ - 1; d >= 0; --d) {
      const bool carry = ++index_[d] == loop_.sizes[d];
      for (int k = 0; k < operands_; ++k) offset_[k] += loop_.strides[k][d] * (carry ? 1 - loop_.sizes[d] : 1);
      if (!carry) return;
      index_[d] = 0;
    }
  }
  std::int64_t offset(int operand) const { return offset_[operand]; }

 private:
  const Loop& loop_;
  int operands_, inner_;
  std::int64_t index_[Dims::max_rank] = {}, offset_[Loop::max_operands] = {};
};

// body(walk, column, count) for the pieces of rows that make up elements [begin, end) of the loop.
template <class F> void for_row_pieces(const Loop& loop, int operands, std::int64_t begin, std::int64_t end, F&& body) {
  const std::int64_t length = loop.sizes.back();
  RowWalk walk(loop, operands, begin / length);
  for (std::int64_t column = begin % length; begin < end; walk.next(), column = 0) {
    const std::int64_t count = end - begin < length - column ? end - begin : length - column;
    body(walk, column, count);
    begin += count;
  }
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
