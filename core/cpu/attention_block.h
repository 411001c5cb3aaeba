// What every kernel of core/cpu/attention.cpp needs: the problem, matrices in memory, dropout, exponentials.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/attention.h"
#include "core/cpu/columns.h"
#include "core/cpu/gemm_pack.h"
#include "core/cpu/gemm_tile.h"
#include "core/cpu/philox.h"
#include "core/cpu/rows.h"
#include "core/gemm.h"

namespace mantissa::cpu_backend::MANTISSA_ISA::attention_block {

inline constexpr std::int64_t panel = gemm_tile::max_columns;
inline constexpr std::int64_t most_keys = 256;  // per block of scores

inline std::int64_t whole_panels(std::int64_t n) { return (n + panel - 1) / panel * panel; }

// A matrix in memory.
template <class T> struct Matrix {
  T* data;
  std::int64_t rows, columns, row, column;  // sizes, strides
  Matrix(const View& v, std::int64_t item)
      : data(v.as<T>() + item_offset(v, item)), rows(v.size(v.dim() - 2)), columns(v.size(v.dim() - 1)),
        row(v.strides[v.dim() - 2]), column(v.strides[v.dim() - 1]) {}

  // Rows [first, first + count) times `factor`, with row stride `length`; rows are zero-padded.
  void load(float* to, std::int64_t length, std::int64_t first, std::int64_t count, float factor) const {
    for (std::int64_t i = 0; i < count; ++i) {
      float* line = to + i * length;
      convert_run(line, data + (first + i) * row, column, columns);
      std::fill(line + columns, line + length, 0.0f);
      if (factor != 1) map_run(columns, line, [factor](auto v) { return v * decltype(v)(factor); }, line);
    }
  }
  void store(const float* from, std::int64_t length, std::int64_t first, std::int64_t count) const {
    for (std::int64_t i = 0; i < count; ++i) convert_run(data + (first + i) * row, from + i * length, 1, columns);
  }
  // Packs the matrix (or its transpose) as the right-hand side of a product: rows * whole_panels(columns) floats.
  void pack(float* to) const {
    for (std::int64_t j = 0; j < columns; j += panel) {
      gemm_pack::pack<false, panel>(reinterpret_cast<gemm_pack::Unit*>(to + j * rows), data + j * column,
                                    std::min(panel, columns - j), column, rows, row);
    }
  }
  void pack_transposed(float* to) const {
    for (std::int64_t i = 0; i < rows; i += panel) {
      gemm_pack::pack<false, panel>(reinterpret_cast<gemm_pack::Unit*>(to + i * columns), data + i * row,
                                    std::min(panel, rows - i), row, columns, column);
    }
  }
};

// A per-thread stack of floats, in at most most_pieces pieces aligned to cache lines.
class Scratch {
 public:
  static constexpr std::int64_t line = 16, most_pieces = 24;
  explicit Scratch(std::int64_t n) {
    n += line * (most_pieces + 1);
    if (static_cast<std::int64_t>(memory().size()) < n) memory().resize(static_cast<std::size_t>(n));
    const auto address = reinterpret_cast<std::uintptr_t>(memory().data());
    next_ = memory().data() + (64 - address % 64) % 64 / sizeof(float);
  }
  float* take(std::int64_t n) {
    float* p = next_;
    next_ += (n + line - 1) / line * line;
    return p;
  }

 private:
  static std::vector<float>& memory() {
    thread_local std::vector<float> m;
    return m;
  }
  float* next_;
};

// Dropout factors of the weights: 0 or 1 / (1 - p).
class Dropper {
 public:
  explicit Dropper(const AttentionSettings& s)
      : seed_(s.seed), offset_(s.offset), scale_(s.dropout_p < 1 ? static_cast<float>(1 / (1 - s.dropout_p)) : 0.0f),
        keep_from_(static_cast<std::int32_t>(std::ceil(std::ldexp(static_cast<float>(s.dropout_p), 24)))) {}
  // For elements [first, first + n).
  void factors(float* to, std::int64_t first, std::int64_t n) {
    constexpr std::int64_t size = 4 * philox_counters;
    for (std::int64_t done = 0; done < n;) {
      const std::int64_t block = (first + done) / size, from = (first + done) % size,
                         count = std::min(size - from, n - done);
      if (block != block_) philox_bits(seed_, offset_ + static_cast<std::uint64_t>(block * philox_counters), bits_);
      block_ = block;
      for (std::int64_t i = 0; i < count; ++i) {
        to[done + i] = static_cast<std::int32_t>(bits_[from + i] >> 8) >= keep_from_ ? scale_ : 0.0f;
      }
      done += count;
    }
  }

 private:
  std::uint64_t seed_, offset_;
  float scale_;
  std::int32_t keep_from_;
  std::int64_t block_ = -1;
  std::uint32_t bits_[4 * philox_counters];
};

// The whole problem, and the scores of one block.
struct Problem {
  const View &query, &key, &value, &mask;
  const AttentionSettings& settings;
  std::int64_t heads, groups, items, queries, keys, depth, width;

  Problem(const View& q, const View& k, const View& v, const View& m, const AttentionSettings& s)
      : query(q), key(k), value(v), mask(m), settings(s), heads(q.dim() > 2 ? q.size(q.dim() - 3) : 1),
        groups(k.dim() > 2 ? k.size(k.dim() - 3) : 1), queries(q.size(q.dim() - 2)), keys(k.size(k.dim() - 2)),
        depth(q.size(q.dim() - 1)), width(v.size(v.dim() - 1)) {
    items = q.numel() / (queries * depth);
  }
  std::int64_t key_item(std::int64_t item) const { return item / heads * groups + item % heads / (heads / groups); }
  std::int64_t flops() const { return 2 * queries * keys * (depth + width); }  // per head, forward
  // Number of keys that query i may attend to, ignoring the mask.
  std::int64_t visible(std::int64_t i) const { return settings.causal ? std::min(keys, i + 1) : keys; }

  // to scores [rows][most_keys] of queries from i and keys [j, j + n)
  void add_mask(float* s, std::int64_t item, std::int64_t i, std::int64_t rows, std::int64_t j, std::int64_t n) const {
    if (!mask) return;
    const std::int64_t at = item_offset(mask, item) + j * mask.strides[mask.dim() - 1];
    const std::int64_t row = mask.strides[mask.dim() - 2], column = mask.strides[mask.dim() - 1];
    for (std::int64_t r = 0; r < rows; ++r) {
      float* line = s + r * most_keys;
      if (mask.dtype == boolean) {
        const bool* may = mask.as<const bool>() + at + (i + r) * row;
        for (std::int64_t c = 0; c < n; ++c)
          line[c] = may[c * column] ? line[c] : -std::numeric_limits<float>::infinity();
      } else {
        float added[most_keys];
        load_run(added, mask.data, mask.dtype, at + (i + r) * row, column, n);
        map_run(n, line, [](auto a, auto b) { return a + b; }, line, static_cast<const float*>(added));
      }
    }
  }
};

// x[i] = exp(factor * x[i] - shift); returns the sum.
inline float exponentials(float* x, std::int64_t n, float factor, float shift) {
  using V = Vec<float>;
  constexpr auto lanes = static_cast<std::int64_t>(V::size);
  V sum(0.0f);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const V e = exp_inside(xsimd::fms(load(x + i), V(factor), V(shift)));
    store(x + i, e);
    sum += e;
  }
  if (i < n) {
    const V e = exp_inside(xsimd::fms(load_part(x + i, n - i), V(factor), V(shift)));
    store_part(x + i, e, n - i);
    sum += keep_part<Sum>(e, n - i);
  }
  return fold_lanes<Sum, float>(sum);
}

inline float dot_product(const float* a, const float* b, std::int64_t n) {
  return fold_run<Sum>(n, [](auto x, auto y) { return x * y; }, a, b);
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA::attention_block
