// Iterates over the rows of a collapsed loop: the offset of the row's first element in each operand. Advancing takes
// additions only; the divisions for an index are done once per thread.
#pragma once

#include <algorithm>
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
  void next(std::int64_t rows = 1) {  // rows must be among those of side_by_side
    for (int d = inner_ - 1; d >= 0; --d, rows = 1) {
      const bool carry = (index_[d] += rows) == loop_.sizes[d];
      for (int k = 0; k < operands_; ++k) offset_[k] += loop_.strides[k][d] * (carry ? rows - loop_.sizes[d] : rows);
      if (!carry) return;
      index_[d] = 0;
    }
  }
  // Number of rows from here on that are equally spaced.
  std::int64_t side_by_side() const { return inner_ > 0 ? loop_.sizes[inner_ - 1] - index_[inner_ - 1] : 1; }
  std::int64_t offset(int operand) const { return offset_[operand]; }

 private:
  const Loop& loop_;
  int operands_, inner_;
  std::int64_t index_[Dims::max_rank] = {}, offset_[Loop::max_operands] = {};
};

// body(walk, column, count) for the row pieces that make up elements [begin, end) of the loop.
template <class F> void for_row_pieces(const Loop& loop, int operands, std::int64_t begin, std::int64_t end, F&& body) {
  const std::int64_t length = loop.sizes.back();
  RowWalk walk(loop, operands, begin / length);
  for (std::int64_t column = begin % length; begin < end; walk.next(), column = 0) {
    const std::int64_t count = end - begin < length - column ? end - begin : length - column;
    body(walk, column, count);
    begin += count;
  }
}

// The same with equally spaced whole rows grouped: body(walk, column, count, rows).
template <class F> void for_row_blocks(const Loop& loop, int operands, std::int64_t begin, std::int64_t end, F&& body) {
  const std::int64_t length = loop.sizes.back();
  RowWalk walk(loop, operands, begin / length);
  for (std::int64_t column = begin % length, rows; begin < end; walk.next(rows), column = 0) {
    const std::int64_t count = end - begin < length - column ? end - begin : length - column;
    rows = count < length ? 1 : std::min(walk.side_by_side(), (end - begin) / length);
    body(walk, column, count, rows);
    begin += count * rows;
  }
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
