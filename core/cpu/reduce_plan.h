// Which of a tensor's dimensions a reduction keeps, the order in which it computes their results, and iteration over
// the reduced ones.
#pragma once

#include "core/layout.h"
#include "core/tensor.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

// x's dimensions, split into kept and reduced ones, with x's strides. Results are numbered row-major.
struct ReducePlan {
  Dims kept, kept_strides, reduced, reduced_strides;
  bool inner_reduced = false;
  std::int64_t outputs = 1, count = 1;
  // The kept dimension whose results are computed side by side (the one that is dense in memory, else the innermost):
  // its size, its stride in memory and among the results. `around`: the other kept dimensions.
  std::int64_t columns = 1, column_stride = 0, column_step = 1;
  Dims around, around_strides, around_steps;

  // `y` has x's rank, size 1 where x is reduced.
  ReducePlan(const Dims& y, const View& x) : outputs(numel_of(y)) {
    Dims mark = contiguous_strides(y);  // 0 marks what is reduced
    for (int d = 0; d < x.dim(); ++d) {
      if (y[d] != x.sizes[d]) mark[d] = 0, count *= x.sizes[d];
    }
    if (outputs == 0 || count == 0) return;
    const Dims* strides[] = {&x.strides, &mark};
    const Loop loop = collapse(x.sizes, strides, 2);
    for (int d = 0; d < loop.sizes.rank(); ++d) {
      inner_reduced = loop.strides[1][d] == 0;
      (inner_reduced ? reduced : kept).push_back(loop.sizes[d]);
      (inner_reduced ? reduced_strides : kept_strides).push_back(loop.strides[0][d]);
    }
    int column = kept.rank() - 1;
    for (int d = 0; d < kept.rank(); ++d) if (kept_strides[column] != 1 && kept_strides[d] == 1) column = d;
    const Dims steps = contiguous_strides(kept);
    for (int d = 0; d < kept.rank(); ++d) {
      if (d == column) columns = kept[d], column_stride = kept_strides[d], column_step = steps[d];
      else around.push_back(kept[d]), around_strides.push_back(kept_strides[d]), around_steps.push_back(steps[d]);
    }
  }

  bool reduces_runs() const { return reduced_strides.empty() || reduced_strides.back() == 1; }
  // Memory is dense along the reduced dimension just outside the innermost one, which is not too long: many of its rows
  // form one segment.
  bool turned() const {
    const int d = reduced.rank() - 2;
    return d >= 0 && !reduces_runs() && column_stride != 1 && reduced_strides[d] == 1 && reduced[d] >= 16 &&
           reduced.back() >= 8 && reduced.back() <= 4096;
  }
};

// Offset in x for results o * columns, ..., and the number of the first of them.
struct Columns {
  std::int64_t offset = 0, result = 0;
  Columns(const ReducePlan& p, std::int64_t o) {
    for (int d = p.around.rank() - 1; d >= 0; o /= p.around[d--]) {
      offset += o % p.around[d] * p.around_strides[d];
      result += o % p.around[d] * p.around_steps[d];
    }
  }
};

// Iterates over some dimensions in row-major order, one piece of the innermost one at a time.
class Walker {
 public:
  Walker(const Dims& sizes, const Dims& strides, std::int64_t start) : sizes_(sizes), strides_(strides) {
    for (int d = sizes.rank() - 1; d >= 0; --d) {
      index_[d] = start % sizes[d];
      start /= sizes[d];
      offset_ += index_[d] * strides[d];
    }
  }
  std::int64_t offset() const { return offset_; }
  std::int64_t inner_stride() const { return strides_.empty() ? 1 : strides_.back(); }
  std::int64_t left_in_row() const { return sizes_.empty() ? 1 : sizes_.back() - index_[sizes_.rank() - 1]; }
  void advance(std::int64_t n) {  // n <= left_in_row()
    if (sizes_.empty()) return;
    int d = sizes_.rank() - 1;
    index_[d] += n;
    offset_ += n * strides_[d];
    for (; d > 0 && index_[d] == sizes_[d]; --d) {
      offset_ += strides_[d - 1] - sizes_[d] * strides_[d];
      index_[d] = 0;
      ++index_[d - 1];
    }
  }

 private:
  const Dims& sizes_;
  const Dims& strides_;
  std::int64_t index_[Dims::max_rank] = {};
  std::int64_t offset_ = 0;
};

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
