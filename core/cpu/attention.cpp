// Attention in one pass over blocks of keys: scores stay in cache, and memory is linear in the sequence length. The
// running maximum and sum of each row are carried from block to block (online softmax; Milakov & Gimelshein, 2018);
// backward recomputes the weights from the scores and the saved logarithm of the sum
// (FlashAttention; Dao et al., 2022). Blocks hidden by a causal mask are skipped. All arithmetic is in f32, whatever
// the storage. Every head is computed by one thread in a fixed order, so results do not depend on the number of
// threads.
#include "core/attention.h"

#include <vector>

#include "core/cpu/attention_few.h"
#include "core/cpu/gemm_pack.h"
#include "core/cpu/gemm_tile.h"
#include "core/cpu/philox.h"
#include "core/cpu/rows.h"
#include "core/gemm.h"
#include "core/parallel.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

constexpr std::int64_t panel = gemm_tile::max_columns;
constexpr std::int64_t most_queries = 42, most_keys = 256;  // per block of scores: 42 KB
constexpr std::int64_t few_flops = 1000000;                 // not worth waking a thread
constexpr std::int64_t few_queries = 4;                     // up to so many queries, keys and values are not packed
constexpr std::int64_t enough_items = 16;                   // heads; with fewer, queries are also split over threads

std::int64_t whole_panels(std::int64_t n) { return (n + panel - 1) / panel * panel; }

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

// A per-thread stack of floats.
class Scratch {
 public:
  explicit Scratch(std::int64_t n) {
    if (static_cast<std::int64_t>(memory().size()) < n + 16) memory().resize(static_cast<std::size_t>(n + 16));
    const auto address = reinterpret_cast<std::uintptr_t>(memory().data());
    next_ = memory().data() + (64 - address % 64) % 64 / sizeof(float);
  }
  float* take(std::int64_t n) {
    float* p = next_;
    next_ += n;
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
  std::int64_t tiles() const { return (queries + most_queries - 1) / most_queries; }
  std::int64_t tile_begin(std::int64_t t) const { return t * queries / tiles(); }
  // Number of keys that query i may attend to, ignoring the mask.
  std::int64_t visible(std::int64_t i) const { return settings.causal ? std::min(keys, i + 1) : keys; }

  // scores [rows][most_keys] of queries from i and keys [j, j + n). `q`: scaled rows of `depth` numbers, row stride
  // q_row.
  void scores(float* s, std::int64_t item, const float* q, std::int64_t q_row, const float* packed_key, std::int64_t i,
              std::int64_t rows, std::int64_t j, std::int64_t n) const {
    gemm_tile::multiply_block(rows, n, {q, q_row, 1, packed_key + j * depth, panel, s, most_keys, depth}, depth * panel,
                              false);
    add_mask(s, item, i, rows, j, n);
  }
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

// x[i] = exp(x[i] - shift); returns the sum.
float exponentials(float* x, std::int64_t n, float shift) {
  using V = Vec<float>;
  constexpr auto lanes = static_cast<std::int64_t>(V::size);
  V sum(0.0f);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const V e = exp(load(x + i) - V(shift));
    store(x + i, e);
    sum += e;
  }
  if (i < n) {
    const V e = exp(load_part(x + i, n - i) - V(shift));
    store_part(x + i, e, n - i);
    sum += keep_part<Sum>(e, n - i);
  }
  return fold_lanes<Sum, float>(sum);
}

float dot_product(const float* a, const float* b, std::int64_t n) {
  return fold_run<Sum>(n, [](auto x, auto y) { return x * y; }, a, b);
}

// Query tiles [first_tile, last_tile) of one head.
template <class T>
void attend(const Problem& p, const View& y, float* log_sum, std::int64_t item, std::int64_t first_tile,
            std::int64_t last_tile) {
  const std::int64_t width = whole_panels(p.width);
  Scratch memory(p.depth * whole_panels(p.keys) + p.keys * width + most_queries * (p.depth + width + most_keys));
  float *key = memory.take(p.depth * whole_panels(p.keys)), *value = memory.take(p.keys * width);
  float *q = memory.take(most_queries * p.depth), *out = memory.take(most_queries * width),
        *s = memory.take(most_queries * most_keys);
  Matrix<const T>(p.key, p.key_item(item)).pack_transposed(key);
  Matrix<const T>(p.value, p.key_item(item)).pack(value);
  const Matrix<const T> query(p.query, item);
  const Matrix<T> result(y, item);
  Dropper dropper(p.settings);
  constexpr float nothing = -std::numeric_limits<float>::infinity();
  for (std::int64_t t = first_tile; t < last_tile; ++t) {
    const std::int64_t i = p.tile_begin(t), rows = p.tile_begin(t + 1) - i, seen = p.visible(i + rows - 1);
    query.load(q, p.depth, i, rows, static_cast<float>(p.settings.scale));
    float top[most_queries], sum[most_queries];
    std::fill_n(top, rows, nothing);
    std::fill_n(sum, rows, 0.0f);
    for (std::int64_t j = 0; j < seen; j += most_keys) {
      const std::int64_t n = std::min(most_keys, seen - j);
      p.scores(s, item, q, p.depth, key, i, rows, j, n);
      for (std::int64_t r = 0; r < rows; ++r) {
        float *line = s + r * most_keys, *o = out + r * width;
        const std::int64_t own = std::clamp<std::int64_t>(p.visible(i + r) - j, 0, n);
        const float largest = Max{}(top[r], fold_run<Max>(own, static_cast<const float*>(line)));
        std::fill(line + own, line + n, 0.0f);
        if (largest == nothing) {
          std::fill_n(line, own, 0.0f);
          continue;
        }
        const float fade = std::exp(top[r] - largest);
        sum[r] = sum[r] * fade + exponentials(line, own, largest);
        top[r] = largest;
        if (j > 0 && fade != 1) map_run(p.width, o, [fade](auto v) { return v * decltype(v)(fade); }, o);
        if (p.settings.dropout_p > 0) {
          float kept[most_keys];
          dropper.factors(kept, (item * p.queries + i + r) * p.keys + j, own);
          map_run(own, line, [](auto a, auto b) { return a * b; }, line, static_cast<const float*>(kept));
        }
      }
      gemm_tile::multiply_block(rows, p.width, {s, most_keys, 1, value + j * panel, panel, out, width, n},
                                p.keys * panel, j > 0);
    }
    for (std::int64_t r = 0; r < rows; ++r) {
      const float by = sum[r] == 0 ? 0.0f : 1 / sum[r];
      map_run(p.width, out + r * width, [by](auto v) { return v * decltype(v)(by); }, out + r * width);
      log_sum[item * p.queries + i + r] = sum[r] == 0 ? -nothing : top[r] + std::log(sum[r]);
    }
    result.store(out, width, i, rows);
  }
}

// One head with few queries, as in autoregressive generation.
template <class T> void attend_few(const Problem& p, const View& y, float* log_sum, std::int64_t item) {
  Scratch memory(p.depth + p.width + most_keys * (1 + p.depth + p.width));
  float *q = memory.take(p.depth), *out = memory.take(p.width), *s = memory.take(most_keys);
  float *wide_key = memory.take(most_keys * p.depth), *wide_value = memory.take(most_keys * p.width);
  const Matrix<const T> query(p.query, item), key(p.key, p.key_item(item)), value(p.value, p.key_item(item));
  const Matrix<T> result(y, item);
  constexpr float nothing = -std::numeric_limits<float>::infinity();
  for (std::int64_t i = 0; i < p.queries; ++i) {
    query.load(q, p.depth, i, 1, static_cast<float>(p.settings.scale));
    std::fill_n(out, p.width, 0.0f);
    float top = nothing, sum = 0;
    for (std::int64_t j = 0; j < p.visible(i); j += most_keys) {
      const std::int64_t n = std::min(most_keys, p.visible(i) - j);
      if (key.column == 1) {
        attention_few::scores(s, q, key.data + j * key.row, key.row, n, p.depth);
      } else {
        key.load(wide_key, p.depth, j, n, 1);
        attention_few::scores(s, q, static_cast<const float*>(wide_key), p.depth, n, p.depth);
      }
      p.add_mask(s, item, i, 1, j, n);
      const float largest = Max{}(top, fold_run<Max>(n, static_cast<const float*>(s)));
      if (largest == nothing) continue;
      const float fade = std::exp(top - largest);
      sum = sum * fade + exponentials(s, n, largest);
      top = largest;
      if (j > 0 && fade != 1) map_run(p.width, out, [fade](auto v) { return v * decltype(v)(fade); }, out);
      if (value.column == 1) {
        attention_few::add_values(out, s, value.data + j * value.row, value.row, n, p.width);
      } else {
        value.load(wide_value, p.width, j, n, 1);
        attention_few::add_values(out, s, static_cast<const float*>(wide_value), p.width, n, p.width);
      }
    }
    const float by = sum == 0 ? 0.0f : 1 / sum;
    map_run(p.width, out, [by](auto v) { return v * decltype(v)(by); }, out);
    log_sum[item * p.queries + i] = sum == 0 ? -nothing : top + std::log(sum);
    result.store(out, p.width, i, 1);
  }
}

// One key and value head, and the query heads that share it.
template <class T>
void attend_backward(const Problem& p, const View& d_query, const View& d_key, const View& d_value, const View& g,
                     const View& y, const float* log_sum, std::int64_t key_item) {
  const std::int64_t depth = whole_panels(p.depth), width = whole_panels(p.width), keys = whole_panels(p.keys);
  const std::int64_t tile = most_queries * most_keys;
  Scratch memory(keys * (p.depth + p.width) + p.keys * (2 * depth + width) +
                 most_queries * (depth + width + std::max(depth, width)) + 2 * tile);
  float *key_t = memory.take(keys * p.depth), *value_t = memory.take(keys * p.width),
        *key = memory.take(p.keys * depth);
  float *dk = memory.take(p.keys * depth), *dv = memory.take(p.keys * width);
  float *q = memory.take(most_queries * depth), *dq = memory.take(most_queries * std::max(depth, width)),
        *grad = memory.take(most_queries * width);
  float *s = memory.take(tile), *ds = memory.take(tile);
  Matrix<const T>(p.key, key_item).pack_transposed(key_t);
  Matrix<const T>(p.value, key_item).pack_transposed(value_t);
  Matrix<const T>(p.key, key_item).pack(key);
  std::fill_n(dk, p.keys * depth, 0.0f);
  std::fill_n(dv, p.keys * width, 0.0f);
  Dropper dropper(p.settings);
  const bool one_block = p.keys <= most_keys, drops = p.settings.dropout_p > 0;
  const std::int64_t served = p.heads / p.groups, first = key_item / p.groups * p.heads + key_item % p.groups * served;
  for (std::int64_t item = first; item < first + served; ++item) {
    const Matrix<const T> query(p.query, item), gradient(g, item), result(y, item);
    for (std::int64_t t = 0; t < p.tiles(); ++t) {
      const std::int64_t i = p.tile_begin(t), rows = p.tile_begin(t + 1) - i, seen = p.visible(i + rows - 1);
      gradient.load(grad, width, i, rows, 1);
      float dot[most_queries];  // subtracted in softmax's gradient: the weighted sum of the weights' gradients
      if (!one_block) {         // equals y times its gradient, up to the rounding of y
        result.load(dq, width, i, rows, 1);
        for (std::int64_t r = 0; r < rows; ++r) dot[r] = dot_product(grad + r * width, dq + r * width, p.width);
      }
      query.load(q, depth, i, rows, static_cast<float>(p.settings.scale));
      std::fill_n(dq, rows * depth, 0.0f);
      for (std::int64_t j = 0; j < seen; j += most_keys) {
        const std::int64_t n = std::min(most_keys, seen - j);
        p.scores(s, item, q, depth, key_t, i, rows, j, n);
        gemm_tile::multiply_block(rows, n, {grad, width, 1, value_t + j * p.width, panel, ds, most_keys, p.width},
                                  p.width * panel, false);
        for (std::int64_t r = 0; r < rows; ++r) {
          float *weight = s + r * most_keys, *change = ds + r * most_keys;
          const std::int64_t own = std::clamp<std::int64_t>(p.visible(i + r) - j, 0, n);
          std::fill(weight + own, weight + n, 0.0f);
          std::fill(change + own, change + n, 0.0f);
          const float shift = log_sum[item * p.queries + i + r];
          const auto *w = static_cast<const float*>(weight), *c = static_cast<const float*>(change);
          map_run(own, weight, [shift](auto v) { return exp(v - decltype(v)(shift)); }, w);
          float kept[most_keys];
          if (drops) {
            dropper.factors(kept, (item * p.queries + i + r) * p.keys + j, own);
            map_run(own, change, [](auto a, auto m) { return a * m; }, c, static_cast<const float*>(kept));
          }
          const float d = one_block ? dot_product(w, c, own) : dot[r];
          map_run(own, change, [d](auto a, auto b) { return a * (b - decltype(a)(d)); }, w, c);
          if (drops) map_run(own, weight, [](auto a, auto m) { return a * m; }, w, static_cast<const float*>(kept));
        }
        gemm_tile::multiply_block(n, p.width, {s, 1, most_keys, grad, width, dv + j * width, width, rows}, panel, true);
        gemm_tile::multiply_block(n, p.depth, {ds, 1, most_keys, q, depth, dk + j * depth, depth, rows}, panel, true);
        gemm_tile::multiply_block(rows, p.depth, {ds, most_keys, 1, key + j * panel, panel, dq, depth, n},
                                  p.keys * panel, true);
      }
      const float scale = static_cast<float>(p.settings.scale);
      map_run(rows * depth, dq, [scale](auto v) { return v * decltype(v)(scale); }, static_cast<const float*>(dq));
      Matrix<T>(d_query, item).store(dq, depth, i, rows);
    }
  }
  Matrix<T>(d_key, key_item).store(dk, depth, 0, p.keys);
  Matrix<T>(d_value, key_item).store(dv, width, 0, p.keys);
}

template <class F> void visit_storage(Dtype t, F&& f) {
  if (t == f32) f.template operator()<float>();
  else if (t == f16) f.template operator()<Half>();
  else f.template operator()<BFloat16>();
}

}  // namespace

void attention(const View& y, const View& log_sum, const View& query, const View& key, const View& value,
               const View& mask, const AttentionSettings& settings) {
  const Problem p(query, key, value, mask, settings);
  const std::int64_t cuts = p.items >= enough_items ? 1 : std::min(p.tiles(), enough_items / p.items);
  visit_storage(y.dtype, [&]<class T> {
    if (p.queries <= few_queries && settings.dropout_p == 0) {
      return parallel_for(p.items, std::max<std::int64_t>(1, few_flops / p.flops()),
                          [&](std::int64_t begin, std::int64_t end) {
                            for (std::int64_t item = begin; item < end; ++item)
                              attend_few<T>(p, y, log_sum.as<float>(), item);
                          });
    }
    parallel_for(p.items * cuts, std::max<std::int64_t>(1, few_flops * cuts / p.flops()),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t u = begin; u < end; ++u) {
                     const std::int64_t c = u % cuts;
                     attend<T>(p, y, log_sum.as<float>(), u / cuts, c * p.tiles() / cuts, (c + 1) * p.tiles() / cuts);
                   }
                 });
  });
}

void attention_backward(const View& d_query, const View& d_key, const View& d_value, const View& g, const View& query,
                        const View& key, const View& value, const View& mask, const View& y, const View& log_sum,
                        const AttentionSettings& settings) {
  const Problem p(query, key, value, mask, settings);
  const std::int64_t served = p.heads / p.groups, items = p.items / served;
  visit_storage(y.dtype, [&]<class T> {
    parallel_for(items, std::max<std::int64_t>(1, few_flops / (2 * served * p.flops())),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i)
                     attend_backward<T>(p, d_query, d_key, d_value, g, y, log_sum.as<const float>(), i);
                 });
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
