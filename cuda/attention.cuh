// FlashAttention-2 (Dao, 2023): a block owns some rows of the result and iterates over tiles of the other operand, so
// scores stay in registers. Forward owns queries and keeps a running maximum and sum (Milakov and Gimelshein, 2018).
// Backward recomputes the weights from the saved log-sum-exp, in two kernels without atomics: one owns queries and
// accumulates dq, one owns keys and accumulates dk and dv. Both need delta, the sum of dy * y per query. Every sum has
// a fixed order, so results are bitwise reproducible.
//
// An arithmetic `A` defines how a block multiplies tiles and which elements of a product each thread holds:
//   Compute, Stored                types in registers and in memory
//   threads, rows, columns, width  threads of a block; rows of its own tile and of the other tiles; padded head size
//   stages                         2: the next tile is prefetched while this one is used
//   slots, score_columns, result_columns   rows that a thread holds part of, and the number of columns of each
//   lanes                          neighbouring threads that share a row
//   row_of(slot), column_of(i)     their positions in a tile
//   has_pairs                      results are stored in pairs: column_of(i + 1) follows column_of(i) where i is even
//   Scores, Result                 .at(slot, i) is an element of an own-rows x columns or own-rows x width product
//   tile_bytes(rows), spare_bytes  shared memory
//   fetch(shared, source, stride, first, end, used, rows), commit(), wait()
//   scores(s, own, other)          s = own @ other^T
//   multiply<of_gradients>(r, s, other, spare)   r += s @ other; s has weights in [0, 1], or gradients of any size
#pragma once

#include <bit>
#include <cmath>

#include "core/random.h"
#include "cuda/attention.h"
#include "cuda/launch.cuh"
#include "cuda/ptx.cuh"
#include "cuda/vec.cuh"

namespace mantissa::cuda_backend::flash {

__device__ inline float exp2_of(float x) { return ptx::exp2_flushed(x); }
__device__ inline float larger(float a, float b) { return fmaxf(a, b); }
__device__ inline double larger(double a, double b) { return a > b ? a : b; }
__device__ inline double exp2_of(double x) { return exp2(x); }
template <class C> __device__ inline C infinity() { return C(__builtin_huge_val()); }

template <class T> __device__ inline T* row_pointer(const AttentionRows& r, std::int64_t batch, std::int64_t head) {
  return static_cast<T*>(r.data) + batch * r.batch + head * r.head;
}

// A block's work: one head, and a range of its own rows.
struct Place {
  std::int64_t batch, head, first;
};
__device__ inline Place place_of(std::int64_t tiles, std::int64_t heads, int rows, bool last_first) {
  const std::int64_t tile = blockIdx.x % tiles, at = blockIdx.x / tiles;
  return {at / heads, at % heads, (last_first ? tiles - 1 - tile : tile) * rows};
}

// A score without mask, in units of log(2).
template <class C> struct ScoreOf {
  const AttentionProblem& p;
  C scale;

  __device__ explicit ScoreOf(const AttentionProblem& problem)
      : p(problem), scale(static_cast<C>(problem.scale * log2_e)) {}
  // inside: the tile contains neither a border nor the diagonal.
  __device__ C operator()(C product, std::int64_t query, std::int64_t key, bool inside) const {
    if (!inside && (key >= p.keys || query >= p.queries || (p.causal && key > query))) return -infinity<C>();
    return product * scale;
  }
};

// Problems with a mask or dropout have kernels of their own, which make the scores of a tile before they use them: so
// the dtype of the mask is looked at once for a tile, not for each of a thread's 64 scores. queries: rows of the tile
// are queries, else keys.
template <class A, bool queries>
__device__ inline void make_scores(typename A::Scores& w, const ScoreOf<typename A::Compute>& score, std::int64_t batch,
                                   std::int64_t head, std::int64_t first_query, std::int64_t first_key, bool inside) {
  using C = typename A::Compute;
#pragma unroll
  for (int s = 0; s < A::slots; ++s) {
#pragma unroll
    for (int i = 0; i < A::score_columns; ++i) {
      const int row = A::row_of(s), column = A::column_of(i);
      w.at(s, i) =
          score(w.at(s, i), first_query + (queries ? row : column), first_key + (queries ? column : row), inside);
    }
  }
  const AttentionProblem& p = score.p;
  if (!p.mask) return;
  const std::int64_t first = batch * p.mask_strides[0] + head * p.mask_strides[1] + first_query * p.mask_strides[2] +
                             first_key * p.mask_strides[3];
  const std::int64_t next_row = p.mask_strides[queries ? 2 : 3], next_column = p.mask_strides[queries ? 3 : 2];
  // from even columns to odd ones, and on: the same distances everywhere
  const std::int64_t to_odd = (A::column_of(1) - A::column_of(0)) * next_column,
                     to_even = (A::column_of(2) - A::column_of(1)) * next_column;
  const auto add = [&]<class T>(T) {
#pragma unroll
    for (int s = 0; s < A::slots; ++s) {
      const T* at = static_cast<const T*>(p.mask) + first + A::row_of(s) * next_row + A::column_of(0) * next_column;
#pragma unroll
      for (int i = 0; i < A::score_columns; at += i % 2 ? to_even : to_odd, ++i) {
        if (w.at(s, i) == -infinity<C>()) continue;  // so are those beyond the border, where there is no mask
        if constexpr (std::is_same_v<T, bool>) w.at(s, i) = *at ? w.at(s, i) : -infinity<C>();
        else w.at(s, i) += widen<C>(*at) * static_cast<C>(log2_e);
      }
    }
  };
  if (p.mask_dtype == boolean) add(bool());
  else if (p.mask_dtype == p.dtype) add(typename A::Stored());
  else if constexpr (!std::is_same_v<typename A::Stored, C>) add(C());
}

// Whether dropout keeps the weights of one head. Neighbours mostly use the same Philox counter, whose words are cached.
struct Keeper {
  const AttentionProblem& p;
  std::uint64_t first, seed, offset;  // first: index of the head's first weight
  std::uint64_t group = ~std::uint64_t{0};
  std::uint32_t threshold;  // of the 24 bits that uniform_from_bits makes a number of
  Philox::Words words;

  __device__ Keeper(const AttentionProblem& problem, std::int64_t batch, std::int64_t head)
      : p(problem), seed(problem.random.seed), offset(problem.random.offset),
        threshold(static_cast<std::uint32_t>(ceilf(static_cast<float>(problem.dropout) * 0x1p24f))), words{} {
    first = static_cast<std::uint64_t>((batch * p.heads + head) * p.queries * p.keys);
    if (p.random.state) seed = p.random.state[0], offset += p.random.state[1];
  }
  __device__ bool operator()(std::uint64_t number) {
    if (number / 4 != group) {
      group = number / 4;
      words = Philox{seed}(offset + group);
    }
    const std::uint32_t low = number & 1 ? words.v[1] : words.v[0], high = number & 1 ? words.v[3] : words.v[2];
    return (number & 2 ? high : low) >> 8 >= threshold;
  }
};
// Bit i: whether it keeps the weight in column i of a row of the tile. A loop, because the code for Philox is long.
template <class A, bool queries>
__device__ inline unsigned kept_weights(Keeper& keep, int slot, std::int64_t first_query, std::int64_t first_key) {
  static_assert(A::score_columns <= 32);
  const AttentionProblem& p = keep.p;
  if (p.dropout <= 0) return ~0u;
  const std::int64_t query = first_query + (queries ? A::row_of(slot) : A::column_of(0)),
                     key = first_key + (queries ? A::column_of(0) : A::row_of(slot)), next = queries ? 1 : p.keys;
  std::uint64_t number = keep.first + static_cast<std::uint64_t>(query * p.keys + key);
  // from even columns to odd ones, and on: the same distances everywhere
  const auto to_odd = static_cast<std::uint64_t>((A::column_of(1) - A::column_of(0)) * next),
             to_even = static_cast<std::uint64_t>((A::column_of(2) - A::column_of(1)) * next);
  unsigned bits = 0;
#pragma unroll 1
  for (int i = 0; i < A::score_columns; ++i) {
    bits |= static_cast<unsigned>(keep(number)) << i;
    number += i % 2 ? to_even : to_odd;
  }
  return bits;
}
template <class C> __device__ inline C kept_scale(const AttentionProblem& p) {
  return p.dropout < 1 ? static_cast<C>(1 / (1 - p.dropout)) : C(0);
}

template <class A, class Fold> __device__ inline typename A::Compute fold_lanes(typename A::Compute v, Fold fold) {
#pragma unroll
  for (int distance = A::lanes / 2; distance > 0; distance /= 2) {
    v = fold(v, __shfl_xor_sync(0xffffffffu, v, distance));
  }
  return v;
}

// Iterates over tiles [begin, end), two operands each: f(tile, first operand, second operand) in shared memory.
// fetch(tile, a, b) starts the copies of one tile.
template <class A, class Fetch, class F>
__device__ inline void walk(char* shared, std::int64_t begin, std::int64_t end, Fetch&& fetch, F&& f) {
  constexpr int bytes = A::tile_bytes(A::columns);
  const auto slot = [&](std::int64_t tile) { return shared + (A::stages == 2 ? tile % 2 * 2 * bytes : 0); };
  if constexpr (A::stages == 2) {
    if (begin < end) fetch(begin, slot(begin), slot(begin) + bytes);
    A::commit();
  }
  for (std::int64_t tile = begin; tile < end; ++tile) {
    if constexpr (A::stages == 2) {
      A::wait();
      __syncthreads();  // this tile has arrived for all threads, and all have read the previous one
      if (tile + 1 < end) fetch(tile + 1, slot(tile + 1), slot(tile + 1) + bytes);
      A::commit();
    } else {
      __syncthreads();
      fetch(tile, slot(tile), slot(tile) + bytes);
      __syncthreads();
    }
    f(tile, static_cast<const char*>(slot(tile)), static_cast<const char*>(slot(tile) + bytes));
  }
  A::wait();
}

template <class A>
__device__ inline void store_rows(const AttentionRows& to, const Place& at, std::int64_t length, int width,
                                  const typename A::Result& r, const typename A::Compute (&factors)[A::slots]) {
  using T = typename A::Stored;
  auto* data = row_pointer<T>(to, at.batch, at.head);
  const bool even = to.row % 2 == 0 && reinterpret_cast<std::uintptr_t>(data) % (2 * sizeof(T)) == 0;
#pragma unroll
  for (int s = 0; s < A::slots; ++s) {
    const std::int64_t row = at.first + A::row_of(s);
    if (row >= length) continue;
    T* const line = data + row * to.row;
    const auto value = [&](int i) { return static_cast<T>(r.at(s, i) * factors[s]); };
    const auto store_one = [&](int i) {
      if (A::column_of(i) < width) line[A::column_of(i)] = value(i);
    };
    if constexpr (A::has_pairs) {  // two halves in one access
      struct Two { T v[2]; };
#pragma unroll
      for (int i = 0; i < A::result_columns; i += 2) {
        const int column = A::column_of(i);
        if (even && column + 1 < width) {
          const Two two{{value(i), value(i + 1)}};
          *reinterpret_cast<std::uint32_t*>(line + column) = std::bit_cast<std::uint32_t>(two);
        } else {
          store_one(i), store_one(i + 1);
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < A::result_columns; ++i) store_one(i);
    }
  }
}

template <class A, bool plain>
__global__ void __launch_bounds__(A::threads) attention_forward_kernel(AttentionProblem p, std::int64_t tiles) {
  wait_for_previous_kernel();
  using C = typename A::Compute;
  using T = typename A::Stored;
  MANTISSA_SHARED(char, shared);
  char* const own = shared;
  char* const walked = own + A::tile_bytes(A::rows);
  char* const spare = walked + 2 * A::stages * A::tile_bytes(A::columns);
  const Place at = place_of(tiles, p.heads, A::rows, true);  // long rows of a causal problem are scheduled first
  const std::int64_t kv_head = at.head / (p.heads / p.kv_heads);
  const T* k = row_pointer<const T>(p.k, at.batch, kv_head);
  const T* v = row_pointer<const T>(p.v, at.batch, kv_head);

  A::fetch(own, row_pointer<const T>(p.q, at.batch, at.head), p.q.row, at.first, p.queries, p.width, A::rows);
  const ScoreOf<C> score(p);
  Keeper keep(p, at.batch, at.head);
  typename A::Result sums;
  C highest[A::slots], total[A::slots];
#pragma unroll
  for (int s = 0; s < A::slots; ++s) highest[s] = -infinity<C>(), total[s] = 0;

  const std::int64_t diagonal = at.first + A::rows, last = p.causal && diagonal < p.keys ? diagonal : p.keys;
  const auto fetch = [&](std::int64_t tile, char* a, char* b) {
    A::fetch(a, k, p.k.row, tile * A::columns, p.keys, p.width, A::columns);
    A::fetch(b, v, p.v.row, tile * A::columns, p.keys, p.v_width, A::columns);
  };
  const auto use = [&](std::int64_t tile, const char* k_tile, const char* v_tile) {
    const std::int64_t first_key = tile * A::columns, end = first_key + A::columns;
    const bool inside = end <= p.keys && at.first + A::rows <= p.queries && (!p.causal || end <= at.first + 1);
    typename A::Scores w;
    A::scores(w, own, k_tile);
    C highest_now[A::slots];
    const auto score_all = [&](const auto& score_of) {
#pragma unroll
      for (int s = 0; s < A::slots; ++s) {
        highest_now[s] = highest[s];
#pragma unroll
        for (int i = 0; i < A::score_columns; ++i) {
          w.at(s, i) = score_of(w.at(s, i), s, i);
          highest_now[s] = larger(w.at(s, i), highest_now[s]);
        }
      }
    };
    if constexpr (!plain) {
      make_scores<A, true>(w, score, at.batch, at.head, at.first, first_key, inside);
      score_all([](C made, int, int) { return made; });
    } else if (inside) {
      score_all([&](C product, int, int) { return product * score.scale; });
    } else {
      score_all([&](C product, int s, int i) {
        return score(product, at.first + A::row_of(s), first_key + A::column_of(i), false);
      });
    }
#pragma unroll
    for (int s = 0; s < A::slots; ++s) {
      const unsigned kept = plain ? ~0u : kept_weights<A, true>(keep, s, at.first, first_key);
      const C top = fold_lanes<A>(highest_now[s], [](C a, C b) { return larger(a, b); });
      const C base = top == -infinity<C>() ? C(0) : top;  // so far every key is masked
      const C shrink = exp2_of(highest[s] - base);
      highest[s] = top;
      C sum = 0;
#pragma unroll
      for (int i = 0; i < A::score_columns; ++i) {
        const C e = exp2_of(w.at(s, i) - base);
        sum += e;
        w.at(s, i) = plain || (kept >> i & 1) ? e : C(0);
      }
      total[s] = total[s] * shrink + sum;
#pragma unroll
      for (int i = 0; i < A::result_columns; ++i) sums.at(s, i) *= shrink;
    }
    A::template multiply<false>(sums, w, v_tile, spare);
  };
  walk<A>(walked, 0, (last + A::columns - 1) / A::columns, fetch, use);

  C factors[A::slots];
#pragma unroll
  for (int s = 0; s < A::slots; ++s) {
    total[s] = fold_lanes<A>(total[s], [](C a, C b) { return a + b; });
    factors[s] = total[s] == C(0) ? C(0) : (p.dropout > 0 ? kept_scale<C>(p) : C(1)) / total[s];
    const std::int64_t row = at.first + A::row_of(s);
    if (row < p.queries && A::column_of(0) == 0) {
      const C log_sum = (highest[s] + std::log2(total[s])) * static_cast<C>(1 / log2_e);
      C* lse = static_cast<C*>(p.lse) + (at.batch * p.heads + at.head) * p.queries;
      lse[row] = total[s] == C(0) ? infinity<C>() : log_sum;
    }
  }
  store_rows<A>(p.y, at, p.queries, p.v_width, sums, factors);
}

// lse in units of log(2); infinity, which makes every weight zero, for a query with every key masked or out of range.
template <class C>
__device__ inline C stored_lse(const AttentionProblem& p, std::int64_t base, std::int64_t query) {
  return query < p.queries ? static_cast<const C*>(p.lse)[base + query] * static_cast<C>(log2_e) : infinity<C>();
}
template <class C>
__device__ inline C stored_delta(const AttentionProblem& p, std::int64_t base, std::int64_t query) {
  return query < p.queries ? static_cast<const C*>(p.delta)[base + query] : C(0);
}

// For both backward kernels, from a score and the product dy v^T: the weight after dropout (not yet divided by the keep
// probability), and the gradient of the score.
template <class C, bool plain> struct Derivative {
  const AttentionProblem& p;
  C kept_scale;
  struct Of { C weight, gradient; };

  __device__ explicit Derivative(const AttentionProblem& problem)
      : p(problem), kept_scale(flash::kept_scale<C>(problem)) {}
  __device__ Of operator()(C score, C dy_v, C lse, C delta, bool kept) const {
    const C weight = exp2_of(score - lse);
    if (!plain && p.dropout > 0) {
      if (!kept) return {C(0), -weight * delta};
      dy_v *= kept_scale;
    }
    return {weight, weight * (dy_v - delta)};
  }
};

// for_delta: computes, instead of dq, delta from the weights and dy v, because y may have been rounded.
template <class A, bool for_delta, bool plain>
__global__ void __launch_bounds__(A::threads) attention_dq_kernel(AttentionProblem p, std::int64_t tiles) {
  wait_for_previous_kernel();
  using C = typename A::Compute;
  using T = typename A::Stored;
  MANTISSA_SHARED(char, shared);
  char* const own_q = shared;
  char* const own_dy = own_q + A::tile_bytes(A::rows);
  char* const walked = own_dy + A::tile_bytes(A::rows);
  char* const spare = walked + 2 * A::stages * A::tile_bytes(A::columns);
  const Place at = place_of(tiles, p.heads, A::rows, true);
  const std::int64_t kv_head = at.head / (p.heads / p.kv_heads), base = (at.batch * p.heads + at.head) * p.queries;
  const T* q = row_pointer<const T>(p.q, at.batch, at.head);
  const T* dy = row_pointer<const T>(p.dy, at.batch, at.head);
  const T* k = row_pointer<const T>(p.k, at.batch, kv_head);
  const T* v = row_pointer<const T>(p.v, at.batch, kv_head);

  A::fetch(own_q, q, p.q.row, at.first, p.queries, p.width, A::rows);
  A::fetch(own_dy, dy, p.dy.row, at.first, p.queries, p.v_width, A::rows);
  const ScoreOf<C> score(p);
  const Derivative<C, plain> derive(p);
  Keeper keep(p, at.batch, at.head);
  typename A::Result sums;
  C lse[A::slots], delta[A::slots], total[A::slots] = {};
#pragma unroll
  for (int s = 0; s < A::slots; ++s) {
    lse[s] = stored_lse<C>(p, base, at.first + A::row_of(s));
    delta[s] = for_delta ? C(0) : stored_delta<C>(p, base, at.first + A::row_of(s));
  }

  const std::int64_t diagonal = at.first + A::rows, last = p.causal && diagonal < p.keys ? diagonal : p.keys;
  const auto fetch = [&](std::int64_t tile, char* a, char* b) {
    A::fetch(a, k, p.k.row, tile * A::columns, p.keys, p.width, A::columns);
    A::fetch(b, v, p.v.row, tile * A::columns, p.keys, p.v_width, A::columns);
  };
  const auto use = [&](std::int64_t tile, const char* k_tile, const char* v_tile) {
    const std::int64_t first_key = tile * A::columns, end = first_key + A::columns;
    const bool inside = end <= p.keys && at.first + A::rows <= p.queries && (!p.causal || end <= at.first + 1);
    typename A::Scores w, dw;
    A::scores(w, own_q, k_tile);
    A::scores(dw, own_dy, v_tile);
    if constexpr (!plain) make_scores<A, true>(w, score, at.batch, at.head, at.first, first_key, inside);
#pragma unroll
    for (int s = 0; s < A::slots; ++s) {
      const std::int64_t query = at.first + A::row_of(s);
      const unsigned kept = plain ? ~0u : kept_weights<A, true>(keep, s, at.first, first_key);
#pragma unroll
      for (int i = 0; i < A::score_columns; ++i) {
        const C made = plain ? score(w.at(s, i), query, first_key + A::column_of(i), inside) : w.at(s, i);
        w.at(s, i) = derive(made, dw.at(s, i), lse[s], delta[s], kept >> i & 1).gradient;
        if (for_delta) total[s] += w.at(s, i);
      }
    }
    if (!for_delta) A::template multiply<true>(sums, w, k_tile, spare);
  };
  walk<A>(walked, 0, (last + A::columns - 1) / A::columns, fetch, use);

  if constexpr (for_delta) {
#pragma unroll
    for (int s = 0; s < A::slots; ++s) {
      const C sum = fold_lanes<A>(total[s], [](C a, C b) { return a + b; });
      const std::int64_t row = at.first + A::row_of(s);
      if (row < p.queries && A::column_of(0) == 0) static_cast<C*>(p.delta)[base + row] = sum;
    }
  } else {
    C factors[A::slots];
#pragma unroll
    for (int s = 0; s < A::slots; ++s) factors[s] = static_cast<C>(p.scale);
    store_rows<A>(p.dq, at, p.queries, p.width, sums, factors);
  }
}

// for_dk, for_dv: which of the two are computed; wide heads have registers for only one at a time.
template <class A, bool for_dk, bool for_dv, bool plain>
__global__ void __launch_bounds__(A::threads) attention_dkv_kernel(AttentionProblem p, std::int64_t tiles) {
  wait_for_previous_kernel();
  using C = typename A::Compute;
  using T = typename A::Stored;
  MANTISSA_SHARED(char, shared);
  char* const own_k = shared;
  char* const own_v = own_k + A::tile_bytes(A::rows);
  char* const walked = own_v + A::tile_bytes(A::rows);
  char* const spare = walked + 2 * A::stages * A::tile_bytes(A::columns);
  const Place at = place_of(tiles, p.kv_heads, A::rows, false);
  const std::int64_t group = p.heads / p.kv_heads;
  const T* k = row_pointer<const T>(p.k, at.batch, at.head);
  const T* v = row_pointer<const T>(p.v, at.batch, at.head);

  A::fetch(own_k, k, p.k.row, at.first, p.keys, p.width, A::rows);
  if (for_dk) A::fetch(own_v, v, p.v.row, at.first, p.keys, p.v_width, A::rows);
  typename A::Result dk, dv;
  const ScoreOf<C> score(p);
  const Derivative<C, plain> derive(p);

  // One pass over the queries of all heads that attend to this one.
  const std::int64_t query_tiles = (p.queries + A::columns - 1) / A::columns, diagonal = at.first / A::columns;
  const std::int64_t from = !p.causal ? 0 : diagonal < query_tiles ? diagonal : query_tiles;
  const std::int64_t per_head = query_tiles - from;
  const auto fetch = [&](std::int64_t step, char* a, char* b) {
    const std::int64_t head = at.head * group + step / per_head, first = (from + step % per_head) * A::columns;
    A::fetch(a, row_pointer<const T>(p.q, at.batch, head), p.q.row, first, p.queries, p.width, A::columns);
    A::fetch(b, row_pointer<const T>(p.dy, at.batch, head), p.dy.row, first, p.queries, p.v_width, A::columns);
  };
  const auto use = [&](std::int64_t step, const char* q_tile, const char* dy_tile) {
    const std::int64_t head = at.head * group + step / per_head, first_query = (from + step % per_head) * A::columns;
    const std::int64_t base = (at.batch * p.heads + head) * p.queries, end_key = at.first + A::rows;
    const bool inside =
        first_query + A::columns <= p.queries && end_key <= p.keys && (!p.causal || end_key <= first_query + 1);
    unsigned kept[A::slots];
    if constexpr (!plain) {
      Keeper keep(p, at.batch, head);
#pragma unroll
      for (int s = 0; s < A::slots; ++s) kept[s] = kept_weights<A, false>(keep, s, first_query, at.first);
    }
    typename A::Scores w, dw;
    A::scores(w, own_k, q_tile);
    if constexpr (!plain) make_scores<A, false>(w, score, at.batch, head, first_query, at.first, inside);
    if (for_dk) A::scores(dw, own_v, dy_tile);
#pragma unroll
    for (int i = 0; i < A::score_columns; ++i) {
      const std::int64_t query = first_query + A::column_of(i);
      const C lse = stored_lse<C>(p, base, query), delta = for_dk ? stored_delta<C>(p, base, query) : C(0);
#pragma unroll
      for (int s = 0; s < A::slots; ++s) {
        const C made = plain ? score(w.at(s, i), query, at.first + A::row_of(s), inside) : w.at(s, i);
        const auto [weight, gradient] =
            derive(made, for_dk ? dw.at(s, i) : C(0), lse, delta, plain || (kept[s] >> i & 1));
        if (for_dk) dw.at(s, i) = gradient;
        if (for_dv) w.at(s, i) = weight;
      }
    }
    if (for_dv) A::template multiply<false>(dv, w, dy_tile, spare);
    if (for_dk) A::template multiply<true>(dk, dw, q_tile, spare);
  };
  walk<A>(walked, 0, group * per_head, fetch, use);

  C factors[A::slots];
#pragma unroll
  for (int s = 0; s < A::slots; ++s) factors[s] = static_cast<C>(p.scale);
  if (for_dk) store_rows<A>(p.dk, at, p.keys, p.width, dk, factors);
#pragma unroll
  for (int s = 0; s < A::slots; ++s) factors[s] = p.dropout > 0 ? kept_scale<C>(p) : C(1);
  if (for_dv) store_rows<A>(p.dv, at, p.keys, p.v_width, dv, factors);
}

// --- launches ---
template <class A> constexpr int shared_bytes(int own_tiles) {
  return own_tiles * A::tile_bytes(A::rows) + 2 * A::stages * A::tile_bytes(A::columns) + A::spare_bytes;
}
template <class A, class... P>
void launch_tiles(const char* name, void (*kernel)(P...), const AttentionProblem& p, std::int64_t length,
                  std::int64_t heads, int own_tiles) {
  const std::int64_t tiles = (length + A::rows - 1) / A::rows, blocks = tiles * heads * p.batch;
  check(blocks <= 0x7fffffff, "internal error: ", blocks, " tiles do not fit into one launch");
  const auto bytes = static_cast<std::size_t>(shared_bytes<A>(own_tiles));
  launch(name, kernel, {dim3(static_cast<unsigned>(blocks)), dim3(A::threads), bytes}, p, tiles);
}

inline bool is_plain(const AttentionProblem& p) { return !p.mask && p.dropout <= 0; }
template <class A> void launch_forward(const AttentionProblem& p) {
  launch_tiles<A>("attention", is_plain(p) ? attention_forward_kernel<A, true> : attention_forward_kernel<A, false>, p,
                  p.queries, p.heads, 1);
}
// at_once: dk and dv in one pass. finds_delta: p.delta has not been computed yet.
template <class A, bool at_once, bool finds_delta> void launch_backward(const AttentionProblem& p) {
  if constexpr (finds_delta) {
    launch_tiles<A>("attention_delta_of_weights", attention_dq_kernel<A, true, false>, p, p.queries, p.heads, 2);
  }
  launch_tiles<A>("attention_dq",
                  is_plain(p) ? attention_dq_kernel<A, false, true> : attention_dq_kernel<A, false, false>, p,
                  p.queries, p.heads, 2);
  if constexpr (at_once) {
    const auto kernel =
        is_plain(p) ? attention_dkv_kernel<A, true, true, true> : attention_dkv_kernel<A, true, true, false>;
    launch_tiles<A>("attention_dkv", kernel, p, p.keys, p.kv_heads, 2);
  } else {
    launch_tiles<A>("attention_dk", attention_dkv_kernel<A, true, false, false>, p, p.keys, p.kv_heads, 2);
    launch_tiles<A>("attention_dv", attention_dkv_kernel<A, false, true, false>, p, p.keys, p.kv_heads, 2);
  }
}

}  // namespace mantissa::cuda_backend::flash
