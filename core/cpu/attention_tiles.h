// The products of attention in bf16 by AMX (core/amx.h); see core/cpu/attention.cpp. Weights and the gradients of
// scores are f32, and enter a product as the sum of two bf16, or rounded where that is allowed.
#pragma once

#include "core/cpu/attention_block.h"
#include "core/cpu/gemm_amx.h"

#if defined(MANTISSA_HAS_AMX)
namespace mantissa::cpu_backend::MANTISSA_ISA::attention_tiles {

using attention_block::Matrix, attention_block::most_keys, attention_block::Problem, attention_block::Scratch,
    attention_block::whole_panels;
using gemm_amx::block_rows, gemm_amx::units_of, gemm_pack::Unit;

constexpr std::int64_t panels_of(std::int64_t columns) { return (columns + half_panel - 1) / half_panel; }
// Four-byte units of `columns` columns packed for a product over `depth`.
constexpr std::int64_t packed_size(std::int64_t columns, std::int64_t depth) {
  return panels_of(columns) * half_panel * units_of(depth);
}
// Packs the columns of a matrix, as right-hand side of products over its rows, or its rows, for products over columns.
inline void pack(Unit* to, const Matrix<const BFloat16>& m, std::int64_t first_row, std::int64_t rows) {
  for (std::int64_t j = 0; j < m.columns; j += half_panel, to += units_of(rows) * half_panel)
    gemm_amx::pack_panel(to, m.data + first_row * m.row + j * m.column, std::min(half_panel, m.columns - j), m.column,
                         rows, m.row);
}
inline void pack_transposed(Unit* to, const Matrix<const BFloat16>& m) {
  for (std::int64_t i = 0; i < m.rows; i += half_panel, to += units_of(m.columns) * half_panel)
    gemm_amx::pack_panel(to, m.data + i * m.row, std::min(half_panel, m.rows - i), m.row, m.columns, m.column);
}

// The left-hand side of a product: rows of bf16 along k, zero-padded to whole tiles.
struct Left {
  const BFloat16* data;
  std::int64_t row;
};
// Rows of a matrix, in place if possible, else copied to [rows][units_of(columns)].
inline Left left_of(const Matrix<const BFloat16>& m, std::int64_t first, std::int64_t rows, Unit* copy) {
  const std::int64_t length = 2 * units_of(m.columns);
  const BFloat16* from = m.data + first * m.row;
  if (m.column == 1 && m.columns == length) return {from, m.row};
  gemm_amx::pack_rows(copy, from, rows, m.row, m.columns, m.column);
  return {reinterpret_cast<const BFloat16*>(copy), length};
}
inline Unit* take(std::int64_t n, Scratch& memory) { return reinterpret_cast<Unit*>(memory.take(n)); }

// sums [rows][sum_row] (+)= left @ packed, whole panels of `columns`, whose `units` begin at `packed` and of which the
// next panel is `panel_units` further.
inline void multiply(gemm_amx::Tiles& tiles, std::int64_t rows, std::int64_t columns, std::int64_t units, Left left,
                     const Unit* packed, std::int64_t panel_units, float* sums, std::int64_t sum_row, bool add) {
  for (std::int64_t i = 0; i < rows; i += block_rows) {
    const std::int64_t some = std::min(block_rows, rows - i);
    tiles.configure(some);
    for (std::int64_t q = 0; q < panels_of(columns); ++q)
      gemm_amx::multiply(some, units, left.data + i * left.row, left.row, packed + q * panel_units,
                         sums + i * sum_row + q * half_panel, sum_row, add, [] {});
  }
}

// Numbers of f32 as one or two bf16.
class Split {
 public:
  static std::int64_t memory(std::int64_t rows, std::int64_t columns) { return rows * row(columns); }
  Split(std::int64_t rows, std::int64_t columns, bool round, Scratch& memory)
      : row_(row(columns)), high_(reinterpret_cast<BFloat16*>(take(rows * row_ / 2, memory))),
        low_(round ? nullptr : reinterpret_cast<BFloat16*>(take(rows * row_ / 2, memory))) {}
  // x [rows][most_keys], of which `columns`, a multiple of 32, are read.
  void set(const float* x, std::int64_t rows, std::int64_t columns) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t k = 0; k < columns; k += 32)
        store(r * row_ + k, _mm512_loadu_ps(x + r * most_keys + k), _mm512_loadu_ps(x + r * most_keys + k + 16));
    }
  }
  // The transpose of x [rows][most_keys], rows <= 32 * blocks, as [columns][32 * blocks]; rows beyond are zeros.
  void set_transposed(const float* x, std::int64_t rows, std::int64_t columns, std::int64_t blocks) {
    for (std::int64_t k = 0; k < columns; k += 16) {
      for (std::int64_t i = 0; i < 32 * blocks; i += 32) {
        __m512i first[16], second[16];
        for (std::int64_t r = 0; r < 16; ++r) {
          const float* line = x + (i + r) * most_keys + k;
          first[r] = i + r < rows ? _mm512_loadu_si512(line) : _mm512_setzero_si512();
          second[r] = i + 16 + r < rows ? _mm512_loadu_si512(line + 16 * most_keys) : _mm512_setzero_si512();
        }
        gemm_pack::transpose16(first);
        gemm_pack::transpose16(second);
        for (std::int64_t r = 0; r < 16; ++r)
          store((k + r) * row_ + i, _mm512_castsi512_ps(first[r]), _mm512_castsi512_ps(second[r]));
      }
    }
  }
  // sums += these @ packed, or are set
  void multiply(gemm_amx::Tiles& tiles, std::int64_t rows, std::int64_t columns, std::int64_t units, const Unit* packed,
                std::int64_t panel_units, float* sums, std::int64_t sum_row, bool add) const {
    attention_tiles::multiply(tiles, rows, columns, units, {high_, row_}, packed, panel_units, sums, sum_row, add);
    if (low_) {
      attention_tiles::multiply(tiles, rows, columns, units, {low_, row_}, packed, panel_units, sums, sum_row, true);
    }
  }

 private:
  // Not a multiple of half a page: such rows would map to the same few cache sets.
  static constexpr std::int64_t row(std::int64_t columns) { return columns + 32; }
  __attribute__((target("avx512bf16"))) void store(std::int64_t at, __m512 first, __m512 second) {
    _mm512_storeu_si512(high_ + at, (__m512i)_mm512_cvtne2ps_pbh(second, first));
    if (!low_) return;
    const auto rest = [](__m512 x, const BFloat16* high) {  // 0 for what is infinite, which stays so
      const __m512 rounded = gemm_pack::load_wide(high, 0xffff);
      const __m512 largest = _mm512_set1_ps(std::numeric_limits<float>::max());
      return _mm512_maskz_sub_ps(_mm512_cmp_ps_mask(_mm512_abs_ps(rounded), largest, _CMP_LE_OQ), x, rounded);
    };
    const __m512 first_rest = rest(first, high_ + at), second_rest = rest(second, high_ + at + 16);
    _mm512_storeu_si512(low_ + at, (__m512i)_mm512_cvtne2ps_pbh(second_rest, first_rest));
  }
  std::int64_t row_;
  BFloat16 *high_, *low_;
};

template <std::int64_t rows> struct Blocks {
  static constexpr std::int64_t most_queries = rows;
  static std::int64_t count(std::int64_t queries) { return (queries + rows - 1) / rows; }
  static std::int64_t begin(std::int64_t block, std::int64_t queries) { return std::min(block * rows, queries); }
};
// Scores [rows][most_keys] are products of unscaled queries. Returns what they must still be multiplied by.
inline float scale(const Problem& p, float* s, std::int64_t rows, std::int64_t n) {
  const float by = static_cast<float>(p.settings.scale);
  if (!p.mask && by > 0) return by;  // together with the exponentials
  for (std::int64_t r = 0; r < rows; ++r, s += most_keys)
    map_run(n, s, [by](auto v) { return v * decltype(v)(by); }, static_cast<const float*>(s));
  return 1;
}

// Zeros in columns [n, whole).
inline void clear(float* s, std::int64_t rows, std::int64_t n, std::int64_t whole) {
  for (std::int64_t r = 0; r < rows; ++r) std::fill(s + r * most_keys + n, s + r * most_keys + whole, 0.0f);
}

// The interface of attention_wide::Forward.
class Forward : public Blocks<block_rows> {
 public:
  static std::int64_t memory(const Problem& p) {
    return packed_size(p.keys, p.depth) + packed_size(p.width, p.keys) + most_queries * units_of(p.depth) +
           Split::memory(most_queries, most_keys);
  }
  Forward(const Problem& p, std::int64_t item, Scratch& memory)
      : p_(p), query_(p.query, item), key_(take(packed_size(p.keys, p.depth), memory)),
        value_(take(packed_size(p.width, p.keys), memory)), copy_(take(most_queries * units_of(p.depth), memory)),
        weights_(most_queries, most_keys, p.settings.may_round_weights, memory) {
    pack_transposed(key_, Matrix<const BFloat16>(p.key, p.key_item(item)));
    pack(value_, Matrix<const BFloat16>(p.value, p.key_item(item)), 0, p.keys);
  }
  void set_queries(std::int64_t i, std::int64_t rows) { q_ = left_of(query_, i, rows, copy_); }
  float scores(float* s, std::int64_t rows, std::int64_t j, std::int64_t n) {
    const std::int64_t units = units_of(p_.depth);
    multiply(tiles_, rows, n, units, q_, key_ + j * units, units * half_panel, s, most_keys, false);
    return scale(p_, s, rows, n);
  }
  void add_values(float* out, float* weights, std::int64_t rows, std::int64_t j, std::int64_t n) {
    const std::int64_t whole = 2 * units_of(n);
    clear(weights, rows, n, whole);
    weights_.set(weights, rows, whole);
    weights_.multiply(tiles_, rows, p_.width, units_of(n), value_ + j / 2 * half_panel, units_of(p_.keys) * half_panel,
                      out, whole_panels(p_.width), j > 0);
  }

 private:
  const Problem& p_;
  Matrix<const BFloat16> query_;
  Unit *key_, *value_, *copy_;
  Split weights_;
  Left q_{};
  gemm_amx::Tiles tiles_;
};

// The interface of attention_wide::Backward.
class Backward : public Blocks<2 * block_rows> {
 public:
  static std::int64_t memory(const Problem& p) {
    return packed_size(p.keys, p.depth) + packed_size(p.keys, p.width) + packed_size(p.depth, p.keys) +
           most_queries * (units_of(p.depth) + units_of(p.width)) + packed_size(p.depth, most_queries) +
           packed_size(p.width, most_queries) + Split::memory(most_queries, most_keys) +
           2 * Split::memory(most_keys, most_queries);
  }
  static constexpr bool scales_queries = false;
  Backward(const Problem& p, std::int64_t key_item, Scratch& memory)
      : p_(p), key_t_(take(packed_size(p.keys, p.depth), memory)), value_t_(take(packed_size(p.keys, p.width), memory)),
        key_(take(packed_size(p.depth, p.keys), memory)), q_copy_(take(most_queries * units_of(p.depth), memory)),
        gradient_copy_(take(most_queries * units_of(p.width), memory)),
        q_packed_(take(packed_size(p.depth, most_queries), memory)),
        gradient_packed_(take(packed_size(p.width, most_queries), memory)),
        changes_(most_queries, most_keys, p.settings.may_round_weights, memory),
        changes_t_(most_keys, most_queries, p.settings.may_round_weights, memory),
        weights_t_(most_keys, most_queries, p.settings.may_round_weights, memory) {
    pack_transposed(key_t_, Matrix<const BFloat16>(p.key, key_item));
    pack_transposed(value_t_, Matrix<const BFloat16>(p.value, key_item));
    pack(key_, Matrix<const BFloat16>(p.key, key_item), 0, p.keys);
  }
  void set_queries(const Matrix<const BFloat16>& query, const Matrix<const BFloat16>& gradient, std::int64_t i,
                   std::int64_t rows) {
    q_ = left_of(query, i, rows, q_copy_), gradient_ = left_of(gradient, i, rows, gradient_copy_);
    pack(q_packed_, query, i, rows);
    pack(gradient_packed_, gradient, i, rows);
  }
  float scores(float* s, std::int64_t rows, std::int64_t j, std::int64_t n) {
    const std::int64_t units = units_of(p_.depth);
    multiply(tiles_, rows, n, units, q_, key_t_ + j * units, units * half_panel, s, most_keys, false);
    return scale(p_, s, rows, n);
  }
  void weight_gradients(float* d_s, std::int64_t rows, std::int64_t j, std::int64_t n) {
    const std::int64_t units = units_of(p_.width);
    multiply(tiles_, rows, n, units, gradient_, value_t_ + j * units, units * half_panel, d_s, most_keys, false);
  }
  void add_gradients(float* dq, float* dk, float* dv, float* weights, float* d_s, std::int64_t rows, std::int64_t j,
                     std::int64_t n) {
    const std::int64_t whole = 2 * units_of(n), depth = whole_panels(p_.depth), width = whole_panels(p_.width);
    clear(weights, rows, n, whole);
    clear(d_s, rows, n, whole);
    changes_.set(d_s, rows, whole);
    changes_.multiply(tiles_, rows, p_.depth, units_of(n), key_ + j / 2 * half_panel, units_of(p_.keys) * half_panel,
                      dq, depth, true);
    const std::int64_t units = units_of(rows), panel_units = units * half_panel, blocks = units / gemm_amx::tile;
    weights_t_.set_transposed(weights, rows, whole, blocks);
    weights_t_.multiply(tiles_, n, p_.width, units, gradient_packed_, panel_units, dv + j * width, width, true);
    changes_t_.set_transposed(d_s, rows, whole, blocks);
    changes_t_.multiply(tiles_, n, p_.depth, units, q_packed_, panel_units, dk + j * depth, depth, true);
  }

 private:
  const Problem& p_;
  Unit *key_t_, *value_t_, *key_, *q_copy_, *gradient_copy_, *q_packed_, *gradient_packed_;
  Split changes_, changes_t_, weights_t_;
  Left q_{}, gradient_{};
  gemm_amx::Tiles tiles_;
};

}  // namespace mantissa::cpu_backend::MANTISSA_ISA::attention_tiles
#endif
