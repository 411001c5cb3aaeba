// Attention in one pass over blocks of keys: scores stay in cache, and memory is linear in the sequence length. The
// running maximum and sum of each row are carried from block to block (online softmax; Milakov & Gimelshein, 2018);
// backward recomputes the weights from the scores and the saved logarithm of the sum
// (FlashAttention; Dao et al., 2022). Blocks hidden by a causal mask are skipped. All arithmetic is in f32, whatever
// the storage (core/cpu/attention_wide.h), but for products of bf16 with AMX (core/cpu/attention_tiles.h). Every head
// is computed by one thread in a fixed order, so results do not depend on the number of threads.
#include "core/attention.h"

#include "core/amx.h"
#include "core/cpu/attention_block.h"
#include "core/cpu/attention_few.h"
#include "core/cpu/attention_tiles.h"
#include "core/cpu/attention_wide.h"
#include "core/parallel.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

using namespace attention_block;

constexpr std::int64_t few_flops = 1000000;  // not worth waking a thread
constexpr std::int64_t few_queries = 4;      // up to so many queries, keys and values are not packed
constexpr std::int64_t enough_items = 16;    // heads; with fewer, queries are also split over threads

// Blocks [first_block, last_block) of the queries of one head.
template <class T, class Products>
void attend(const Problem& p, const View& y, float* log_sum, std::int64_t item, std::int64_t first_block,
            std::int64_t last_block) {
  constexpr std::int64_t most_queries = Products::most_queries;
  const std::int64_t width = whole_panels(p.width);
  Scratch memory(Products::memory(p) + most_queries * (width + most_keys));
  float *out = memory.take(most_queries * width), *s = memory.take(most_queries * most_keys);
  Products products(p, item, memory);
  const Matrix<T> result(y, item);
  Dropper dropper(p.settings);
  constexpr float nothing = -std::numeric_limits<float>::infinity();
  for (std::int64_t b = first_block; b < last_block; ++b) {
    const std::int64_t i = Products::begin(b, p.queries), rows = Products::begin(b + 1, p.queries) - i,
                       seen = p.visible(i + rows - 1);
    products.set_queries(i, rows);
    float top[most_queries], sum[most_queries];
    std::fill_n(top, rows, nothing);
    std::fill_n(sum, rows, 0.0f);
    for (std::int64_t j = 0; j < seen; j += most_keys) {
      const std::int64_t n = std::min(most_keys, seen - j);
      const float factor = products.scores(s, rows, j, n);
      p.add_mask(s, item, i, rows, j, n);
      for (std::int64_t r = 0; r < rows; ++r) {
        float *line = s + r * most_keys, *o = out + r * width;
        const std::int64_t own = std::clamp<std::int64_t>(p.visible(i + r) - j, 0, n);
        const float largest = Max{}(top[r], factor * fold_run<Max>(own, static_cast<const float*>(line)));
        std::fill(line + own, line + n, 0.0f);
        if (largest == nothing) {
          std::fill_n(line, own, 0.0f);
          continue;
        }
        const float fade = std::exp(top[r] - largest);
        sum[r] = sum[r] * fade + exponentials(line, own, factor, largest);
        top[r] = largest;
        if (j > 0 && fade != 1) map_run(p.width, o, [fade](auto v) { return v * decltype(v)(fade); }, o);
        if (p.settings.dropout_p > 0) {
          float kept[most_keys];
          dropper.factors(kept, (item * p.queries + i + r) * p.keys + j, own);
          map_run(own, line, [](auto a, auto b) { return a * b; }, line, static_cast<const float*>(kept));
        }
      }
      products.add_values(out, s, rows, j, n);
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
      sum = sum * fade + exponentials(s, n, 1, largest);
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
template <class T, class Products>
void attend_backward(const Problem& p, const View& d_query, const View& d_key, const View& d_value, const View& g,
                     const View& y, const float* log_sum, std::int64_t key_item) {
  constexpr std::int64_t most_queries = Products::most_queries, tile = most_queries * most_keys;
  const std::int64_t depth = whole_panels(p.depth), width = whole_panels(p.width);
  Scratch memory(Products::memory(p) + p.keys * (depth + width) + most_queries * (depth + 2 * width) + 2 * tile);
  float *dk = memory.take(p.keys * depth), *dv = memory.take(p.keys * width), *dq = memory.take(most_queries * depth);
  float *some_y = memory.take(most_queries * width), *some_g = memory.take(most_queries * width);
  float *s = memory.take(tile), *ds = memory.take(tile);
  Products products(p, key_item, memory);
  std::fill_n(dk, p.keys * depth, 0.0f);
  std::fill_n(dv, p.keys * width, 0.0f);
  Dropper dropper(p.settings);
  const bool one_block = p.keys <= most_keys, drops = p.settings.dropout_p > 0;
  const std::int64_t served = p.heads / p.groups, first = key_item / p.groups * p.heads + key_item % p.groups * served;
  for (std::int64_t item = first; item < first + served; ++item) {
    const Matrix<const T> query(p.query, item), gradient(g, item), result(y, item);
    for (std::int64_t b = 0; b < Products::count(p.queries); ++b) {
      const std::int64_t i = Products::begin(b, p.queries), rows = Products::begin(b + 1, p.queries) - i,
                         seen = p.visible(i + rows - 1);
      float dot[most_queries];  // subtracted in softmax's gradient: the weighted sum of the weights' gradients
      if (!one_block) {         // equals y times its gradient, up to the rounding of y
        result.load(some_y, width, i, rows, 1);
        gradient.load(some_g, width, i, rows, 1);
        for (std::int64_t r = 0; r < rows; ++r) dot[r] = dot_product(some_g + r * width, some_y + r * width, p.width);
      }
      products.set_queries(query, gradient, i, rows);
      std::fill_n(dq, rows * depth, 0.0f);
      for (std::int64_t j = 0; j < seen; j += most_keys) {
        const std::int64_t n = std::min(most_keys, seen - j);
        const float factor = products.scores(s, rows, j, n);
        p.add_mask(s, item, i, rows, j, n);
        products.weight_gradients(ds, rows, j, n);
        for (std::int64_t r = 0; r < rows; ++r) {
          float *weight = s + r * most_keys, *change = ds + r * most_keys;
          const std::int64_t own = std::clamp<std::int64_t>(p.visible(i + r) - j, 0, n);
          std::fill(weight + own, weight + n, 0.0f);
          std::fill(change + own, change + n, 0.0f);
          const float shift = log_sum[item * p.queries + i + r];
          const auto *w = static_cast<const float*>(weight), *c = static_cast<const float*>(change);
          const auto power = [factor, shift](auto v) {
            return exp_inside(xsimd::fms(v, decltype(v)(factor), decltype(v)(shift)));
          };
          map_run(own, weight, power, w);
          float kept[most_keys];
          if (drops) {
            dropper.factors(kept, (item * p.queries + i + r) * p.keys + j, own);
            map_run(own, change, [](auto a, auto m) { return a * m; }, c, static_cast<const float*>(kept));
          }
          const float d = one_block ? dot_product(w, c, own) : dot[r];
          map_run(own, change, [d](auto a, auto b) { return a * (b - decltype(a)(d)); }, w, c);
          if (drops) map_run(own, weight, [](auto a, auto m) { return a * m; }, w, static_cast<const float*>(kept));
        }
        products.add_gradients(dq, dk, dv, s, ds, rows, j, n);
      }
      const float scale = static_cast<float>(p.settings.scale);
      map_run(rows * depth, dq, [scale](auto v) { return v * decltype(v)(scale); }, static_cast<const float*>(dq));
      Matrix<T>(d_query, item).store(dq, depth, i, rows);
    }
  }
  if (!Products::scales_queries) {
    const float scale = static_cast<float>(p.settings.scale);
    map_run(p.keys * depth, dk, [scale](auto v) { return v * decltype(v)(scale); }, static_cast<const float*>(dk));
  }
  Matrix<T>(d_key, key_item).store(dk, depth, 0, p.keys);
  Matrix<T>(d_value, key_item).store(dv, width, 0, p.keys);
}

// Calls f.operator()<T, Forward, Backward>() with the products to use.
template <class F> void visit_products(Dtype t, F&& f) {
#if defined(MANTISSA_HAS_AMX)
  if (t == bf16 && uses_amx())
    return f.template operator()<BFloat16, attention_tiles::Forward, attention_tiles::Backward>();
#endif
  const auto widened = [&]<class T> {
    f.template operator()<T, attention_wide::Forward<T>, attention_wide::Backward<T>>();
  };
  if (t == f32) widened.template operator()<float>();
  else if (t == f16) widened.template operator()<Half>();
  else widened.template operator()<BFloat16>();
}

}  // namespace

void attention(const View& y, const View& log_sum, const View& query, const View& key, const View& value,
               const View& mask, const AttentionSettings& settings) {
  const Problem p(query, key, value, mask, settings);
  visit_products(y.dtype, [&]<class T, class Forward, class> {
    const std::int64_t blocks = Forward::count(p.queries),
                       cuts = p.items >= enough_items ? 1 : std::min(blocks, enough_items / p.items);
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
                     attend<T, Forward>(p, y, log_sum.as<float>(), u / cuts, c * blocks / cuts,
                                        (c + 1) * blocks / cuts);
                   }
                 });
  });
}

void attention_backward(const View& d_query, const View& d_key, const View& d_value, const View& g, const View& query,
                        const View& key, const View& value, const View& mask, const View& y, const View& log_sum,
                        const AttentionSettings& settings) {
  const Problem p(query, key, value, mask, settings);
  const std::int64_t served = p.heads / p.groups, items = p.items / served;
  visit_products(y.dtype, [&]<class T, class, class Backward> {
    parallel_for(items, std::max<std::int64_t>(1, few_flops / (2 * served * p.flops())),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i)
                     attend_backward<T, Backward>(p, d_query, d_key, d_value, g, y, log_sum.as<const float>(), i);
                 });
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
