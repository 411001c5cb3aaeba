// Elementwise kernels. One small loop per formula and compute type works on contiguous tiles
// (core/cpu/pointwise_tiles.h); dtype conversion, strides and broadcasting are handled by loading and storing tiles,
// which is shared by all formulas. Every element is computed by the same vector code wherever it is in memory, so
// results do not depend on layout or on the number of threads.
#include <algorithm>
#include <array>
#include <vector>

#include "core/cpu/integer_division.h"
#include "core/cpu/pointwise_tiles.h"
#include "core/cpu/row_walk.h"
#include "core/cpu/tile_operand.h"
#include "core/kernel.h"
#include "core/parallel.h"
#include "core/scratch.h"

namespace mantissa {
MANTISSA_KERNEL(copy, const View& y, const View& x)
MANTISSA_KERNEL(pointwise, int opcode, const void* formula, Dtype compute, const View& y,
                std::span<const View* const> x)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

// Converts runs of f16 or bf16 to tiles of f32 and back, by whole vectors.
void widen(float* to, const View& v, std::int64_t offset, std::int64_t n) {
  const auto run = [&]<class T>(const T* from) {
    for_vectors<float>(n, [&](const auto& lanes, std::int64_t j) { lanes.store(to + j, lanes.load(from + j)); });
  };
  v.dtype == bf16 ? run(v.as<const BFloat16>() + offset) : run(v.as<const Half>() + offset);
}
void round(const View& y, std::int64_t offset, const float* from, std::int64_t n) {
  const auto run = [&]<class T>(T* to) {
    for_vectors<float>(n, [&](const auto& lanes, std::int64_t j) { lanes.store(to + j, lanes.load(from + j)); });
  };
  y.dtype == bf16 ? run(y.as<BFloat16>() + offset) : run(y.as<Half>() + offset);
}

// to[i] = element offset + i * stride of v. S is the type that a loop reads and writes: the compute type, or bf16 or
// f16 if all operands have that.
template <class S> void load_stored(S* to, const View& v, std::int64_t offset, std::int64_t stride, std::int64_t n) {
  if constexpr (std::is_same_v<S, float>) {
    if (stride == 1 && is_half(v.dtype)) return widen(to, v, offset, n);
  }
  if constexpr (is_half(dtype_of<S>)) for (std::int64_t i = 0; i < n; ++i) to[i] = v.as<const S>()[offset + i * stride];
  else load_run(to, v.data, v.dtype, offset, stride, n);
}
template <class S>
void store_stored(const View& y, std::int64_t offset, std::int64_t stride, const S* from, std::int64_t n) {
  if constexpr (std::is_same_v<S, float>) {
    if (stride == 1 && is_half(y.dtype)) return round(y, offset, from, n);
  }
  if constexpr (is_half(dtype_of<S>)) for (std::int64_t i = 0; i < n; ++i) y.as<S>()[offset + i * stride] = from[i];
  else store_run(y.data, y.dtype, offset, stride, from, n);
}

// Blocks of dense rows combined with operands that are the same for every row of a block, such as a bias with channels
// innermost: those are expanded to as many rows as fill a tile, and the tiles are contiguous runs of the others. False
// if the operands are not so.
template <class S>
bool run_periodic(TileFn fn, const void* formula, const View& y, std::span<const View* const> x, const Loop& loop) {
  constexpr Dtype stored = dtype_of<S>;
  const int inner = loop.sizes.rank() - 1, operands = static_cast<int>(x.size()) + 1;
  if (inner < 1 || loop.sizes[inner] > 16 * tile) return false;
  const std::int64_t row = loop.sizes[inner], period = row * std::max<std::int64_t>(1, 2 * tile / row),
                     block = row * loop.sizes[inner - 1];
  if (inner > 1 && block < 4 * period) return false;
  const auto dense = [&](int k) { return loop.strides[k][inner - 1] == row && loop.strides[k][inner] == 1; };
  bool direct = y.dtype == stored;
  for (int k = 0; k < operands; ++k) {
    if (!dense(k) && (k == 0 || loop.strides[k][inner - 1] != 0)) return false;
    if (k > 0) direct = direct && (!dense(k) || x[static_cast<std::size_t>(k - 1)]->dtype == stored);
  }
  parallel_for(y.numel(), grain_size, [&](std::int64_t begin, std::int64_t end) {
    ScratchVector<S> repeated[3];
    S buffers[3][tile], out[tile];
    std::int64_t offset[4], filled = -1;  // where a block begins, and the block that the repeated rows are for
    for (std::int64_t i = begin, n = 0; i < end; i += n) {
      const std::int64_t in_block = i % block, column = in_block % period;
      if (filled != i / block) {
        filled = i / block;
        for (int k = 0; k < operands; ++k) {
          offset[k] = 0;
          for (std::int64_t d = inner - 2, rest = filled; d >= 0; rest /= loop.sizes[static_cast<int>(d--)])
            offset[k] += rest % loop.sizes[static_cast<int>(d)] * loop.strides[k][static_cast<int>(d)];
          if (dense(k)) continue;
          ScratchVector<S>& to = repeated[k - 1];
          to.resize(static_cast<std::size_t>(period));
          load_stored(to.data(), *x[static_cast<std::size_t>(k - 1)], offset[k], loop.strides[k][inner], row);
          for (std::int64_t at = row; at < period; at += row) std::copy_n(to.data(), row, to.data() + at);
        }
      }
      n = std::min({end - i, block - in_block, period - column, direct ? period : tile});
      const void* inputs[3];
      for (std::size_t k = 0; k < x.size(); ++k) {
        const View& v = *x[k];
        const std::int64_t from = offset[k + 1] + in_block;
        if (!repeated[k].empty()) {
          inputs[k] = repeated[k].data() + column;
        } else if (v.dtype == stored) {
          inputs[k] = v.as<const S>() + from;
        } else {
          load_stored(buffers[k], v, from, 1, n);
          inputs[k] = buffers[k];
        }
      }
      if (y.dtype == stored) {
        fn(formula, n, y.as<S>() + offset[0] + in_block, inputs, {});
      } else {
        fn(formula, n, out, inputs, {});
        store_stored(y, offset[0] + in_block, 1, out, n);
      }
    }
  });
  return true;
}

// Rows of at least block_row elements are processed in place, those of at least long_row also via tiles.
constexpr std::int64_t block_row = 16, long_row = 128;

// Row by row: operands dense within a row, and those with a single element per row, are read and written in place; the
// rest goes through tiles.
template <class S>
void run_rows(TileFn fn, const void* formula, const View& y, std::span<const View* const> x, const Loop& loop) {
  constexpr Dtype stored = dtype_of<S>;
  const int inputs = static_cast<int>(x.size()), inner = loop.sizes.rank() - 1;
  const std::int64_t y_step = loop.strides[0][inner];
  const bool y_direct = y_step == 1 && y.dtype == stored;
  bool direct[3];
  TileRows row;
  for (int k = 0; k < inputs; ++k) {
    const std::int64_t stride = loop.strides[k + 1][inner];
    direct[k] = (stride == 0 || stride == 1) && x[static_cast<std::size_t>(k)]->dtype == stored;
    if (stride == 0) row.repeated |= 1u << k;
  }
  parallel_for(y.numel(), grain_size, [&](std::int64_t begin, std::int64_t end) {
    S buffer[3][tile], out[tile];
    std::int64_t repeated[3] = {-1, -1, -1};  // the element currently in a buffer
    for_row_pieces(loop, inputs + 1, begin, end, [&](const RowWalk& walk, std::int64_t column, std::int64_t count) {
      for (std::int64_t i = 0; i < count; i += tile) {
        const std::int64_t n = std::min(tile, count - i), to = walk.offset(0) + (column + i) * y_step;
        const void* from[3];
        for (int k = 0; k < inputs; ++k) {
          const View& v = *x[static_cast<std::size_t>(k)];
          const std::int64_t stride = loop.strides[k + 1][inner], at = walk.offset(k + 1) + (column + i) * stride;
          from[k] = buffer[k];
          if (direct[k]) {
            from[k] = v.as<const S>() + at;
          } else if (stride != 0) {
            load_stored(buffer[k], v, at, stride, n);
          } else if (repeated[k] != at) {
            load_stored(buffer[k], v, at, 0, 1);
            repeated[k] = at;
          }
        }
        fn(formula, n, y_direct ? static_cast<void*>(y.as<S>() + to) : out, from, row);
        if (y_direct) continue;
        store_stored(y, to, y_step, out, n);
      }
    });
  });
}
// The same if no operand goes through tiles: as many equally spaced rows as possible at once. False if that is not so.
template <class S>
bool run_blocks(TileFn fn, const void* formula, const View& y, std::span<const View* const> x, const Loop& loop) {
  const int operands = static_cast<int>(x.size()) + 1, inner = loop.sizes.rank() - 1;
  const auto step = [&](int k) { return inner > 0 ? loop.strides[k][inner - 1] : 0; };
  TileRows block{.y_step = step(0)};
  if (y.dtype != dtype_of<S> || loop.strides[0][inner] != 1) return false;
#if !defined(__AVX512BW__)
  // Without masks, a partial vector at the end of an f16 or bf16 row takes longer than gathering a short row.
  const std::int64_t length = loop.sizes[inner];
  if (sizeof(S) == 2 && length < long_row && length % static_cast<std::int64_t>(Vec<float>::size) != 0) return false;
#endif
  for (int k = 1; k < operands; ++k) {
    const std::int64_t stride = loop.strides[k][inner];
    if (x[static_cast<std::size_t>(k - 1)]->dtype != y.dtype || (stride != 0 && stride != 1)) return false;
    if (stride == 0) block.repeated |= 1u << (k - 1);
    block.x_steps[k - 1] = step(k);
  }
  parallel_for(y.numel(), grain_size, [&](std::int64_t begin, std::int64_t end) {
    TileRows rows = block;
    for_row_blocks(loop, operands, begin, end,
                   [&](const RowWalk& walk, std::int64_t column, std::int64_t count, std::int64_t many) {
                     rows.count = many;
                     const void* from[3];
                     for (int k = 1; k < operands; ++k)
                       from[k - 1] = x[static_cast<std::size_t>(k - 1)]->as<const S>() + walk.offset(k) +
                                     column * loop.strides[k][inner];
                     fn(formula, count, y.as<S>() + walk.offset(0) + column, from, rows);
                   });
  });
  return true;
}
template <class C> void run_tiles(const Entry& e, const void* formula, const View& y, std::span<const View* const> x) {
  const TileFn fn = dtype_of<C> == f64 ? e.f64 : dtype_of<C> == i64 ? e.i64 : e.f32;
  Dims strides[4];
  const Dims* list[4];
  for (std::size_t k = 0; k < x.size(); ++k) {
    strides[k + 1] = broadcast_strides(x[k]->sizes, x[k]->strides, y.sizes);
    list[k + 1] = &strides[k + 1];
  }
  list[0] = &y.strides;
  const Loop loop = collapse_in_memory_order(y.sizes, list, static_cast<int>(x.size()) + 1);
  const auto is_long = [&](std::int64_t least) { return loop.sizes.rank() == 1 || loop.sizes.back() >= least; };
  // Periodic operands, rows in blocks, rows one by one.
  const auto run_known = [&]<class S>(TileFn run) {
    if (run_periodic<S>(run, formula, y, x, loop)) return true;
    if (is_long(block_row) && run_blocks<S>(run, formula, y, x, loop)) return true;
    if (!is_long(long_row)) return false;
    run_rows<S>(run, formula, y, x, loop);
    return true;
  };
  if constexpr (dtype_of<C> == f32) {
    const bool halves =
        e.bf16 && is_half(y.dtype) && std::ranges::all_of(x, [&](const View* v) { return v->dtype == y.dtype; });
    if (halves && y.dtype == bf16 && run_known.template operator()<BFloat16>(e.bf16)) return;
    if (halves && y.dtype == f16 && run_known.template operator()<Half>(e.f16)) return;
  }
  if (run_known.template operator()<C>(fn)) return;
  parallel_for(y.numel(), grain_size, [&](std::int64_t begin, std::int64_t end) {
    Operand<C> out, in[3];
    out.init(y, loop.sizes, loop.strides[0]);
    bool all_direct = out.direct;
    for (std::size_t k = 0; k < x.size(); ++k) {
      in[k].init(*x[k], loop.sizes, loop.strides[k + 1]);
      all_direct = all_direct && in[k].direct;
    }
    const std::int64_t step = all_direct ? end - begin : tile;
    for (std::int64_t i = begin; i < end; i += step) {
      const std::int64_t n = std::min(step, end - i);
      const void* inputs[3];
      for (std::size_t k = 0; k < x.size(); ++k) inputs[k] = in[k].load(i, n);
      fn(formula, n, out.direct ? static_cast<void*>(static_cast<C*>(y.data) + i) : out.buffer, inputs, {});
      if (out.direct) continue;
      out.pieces(out.loop.sizes, out.loop.strides[0], i, n,
                 [&](std::int64_t at, std::int64_t offset, std::int64_t stride, std::int64_t count) {
                   store_stored(y, offset, stride, out.buffer + at, count);
                 });
    }
  });
}

// Dense operands of one dtype with the same strides: a single run of elements.
bool plain(const View& y, std::span<const View* const> x, Dtype dtype) {
  if (y.dtype != dtype) return false;
  for (const View* v : x) {
    if (v->dtype != dtype || !(v->sizes == y.sizes)) return false;
  }
  const auto all = [&](auto&& dense) {
    return dense(y) && std::ranges::all_of(x, [&](const View* v) { return dense(*v); });
  };
  return all([](const View& v) { return v.is_contiguous(); }) ||
         all([](const View& v) { return is_channels_last(v.sizes, v.strides); });
}

// Logical operators on dense booleans, a byte each: the integer compute type would move eight times as much memory.
// False if the formula is another one.
bool run_booleans(int opcode, const View& y, std::span<const View* const> x) {
  using namespace mantissa::pointwise;
  const auto each = [&](const auto& f) {
    parallel_for(y.numel(), 8 * grain_size, [&](std::int64_t begin, std::int64_t end) {
      // local copies: byte-sized stores might alias the captured ones
      const auto *a = x.front()->as<const std::uint8_t>(), *b = x.back()->as<const std::uint8_t>();
      auto* const to = y.as<std::uint8_t>();
      for (std::int64_t i = begin; i < end; ++i) to[i] = f(a[i] != 0, b[i] != 0);
    });
    return true;
  };
  const auto is = [&]<class... F>(List<F...>) { return ((opcode == mantissa::pointwise::opcode<F>) || ...); };
  if (is(List<LogicalAnd, BitwiseAnd>{})) return each([](bool a, bool b) { return a & b; });
  if (is(List<LogicalOr, BitwiseOr>{})) return each([](bool a, bool b) { return a | b; });
  if (is(List<LogicalXor, BitwiseXor, Ne>{})) return each([](bool a, bool b) { return a ^ b; });
  if (is(List<Eq>{})) return each([](bool a, bool b) { return a == b; });
  if (is(List<LogicalNot>{})) return each([](bool a, bool) { return !a; });
  return false;
}

// Sign operations on dense f16 or bf16, without conversion to f32. False if the formula is another one.
bool run_signs(int opcode, const View& y, std::span<const View* const> x) {
  using namespace mantissa::pointwise;
  constexpr std::uint16_t sign = 0x8000, rest = 0x7fff;
  const auto each = [&](const auto& f) {
    parallel_for(y.numel(), 2 * grain_size, [&](std::int64_t begin, std::int64_t end) {
      const auto *a = x.front()->as<const std::uint16_t>(), *b = x.back()->as<const std::uint16_t>();
      auto* const to = y.as<std::uint16_t>();
      for (std::int64_t i = begin; i < end; ++i) to[i] = static_cast<std::uint16_t>(f(a[i], b[i]));
    });
    return true;
  };
  const std::uint16_t infinity = y.dtype == bf16 ? 0x7f80 : 0x7c00;
  if (opcode == mantissa::pointwise::opcode<Neg>) return each([](unsigned a, unsigned) { return a ^ sign; });
  if (opcode == mantissa::pointwise::opcode<Abs>) return each([](unsigned a, unsigned) { return a & rest; });
  if (opcode == mantissa::pointwise::opcode<Copysign>)
    return each([=](unsigned a, unsigned b) { return (a & rest) | ((b & rest) > infinity ? 0 : b & sign); });
  return false;
}

// Two operands that are dense integers of type S with y's strides; the second may be a scalar.
template <class S> struct Integers {
  const S* from[2] = {};  // null: the scalar
  S number = 0;
  bool found = false;

  Integers(const View& y, std::span<const View* const> x) {
    if (x.size() != 2 || !y.is_contiguous()) return;
    for (std::size_t k = 0; k < 2; ++k) {
      if (x[k]->dtype == dtype_of<S> && x[k]->sizes == y.sizes && x[k]->is_contiguous()) {
        from[k] = x[k]->as<const S>();
      } else if (x[k]->numel() == 1 && k > 0) {
        std::int64_t v = 0;
        load_run(&v, x[k]->data, x[k]->dtype, 0, 0, 1);
        number = static_cast<S>(v);
        if (number != v) return;
      } else {
        return;
      }
    }
    found = true;
  }
};

// Their quotients and remainders. False if operands or formula are others.
template <class S> bool run_divisions(int opcode, const View& y, std::span<const View* const> x) {
  using namespace mantissa::pointwise;
  const auto each = [&]<class F>(List<F>) {
    if (opcode != mantissa::pointwise::opcode<F>) return false;
    const Integers<S> in(y, x);
    if (!in.found || y.dtype != dtype_of<S>) return false;
    parallel_for(y.numel(), grain_size / 4, [&](std::int64_t begin, std::int64_t end) {
      constexpr std::int64_t run = 256;
      S same[run];
      if (!in.from[1]) std::fill_n(same, run, in.number);
      for (std::int64_t i = begin; i < end; i += run)
        divide_run<F>(std::min(run, end - i), in.from[0] + i, in.from[1] ? in.from[1] + i : same, y.as<S>() + i);
    });
    return true;
  };
  return each(List<Fmod>{}) || each(List<Remainder>{}) || each(List<FloorDivide>{});
}

// Sums, differences, products and comparisons of dense integers of type S, or of those and one scalar, in their own
// type: the integer compute type would move two or eight times as much memory. Results are those of it after storing.
template <class S> bool run_narrow(int opcode, const View& y, std::span<const View* const> x) {
  using namespace mantissa::pointwise;
  const Integers<S> in(y, x);
  if (!in.found || (y.dtype != boolean && y.dtype != dtype_of<S>)) return false;
  const auto each = [&]<class To>(To* to, const auto& f) {
    parallel_for(y.numel(), 2 * grain_size, [&](std::int64_t begin, std::int64_t end) {
      const auto *a = in.from[0], *b = in.from[1];  // local copies: stores might alias the captured ones
      const S v = in.number;
      To* const out = to;
      if (b) for (std::int64_t i = begin; i < end; ++i) out[i] = static_cast<To>(f(a[i], b[i]));
      else for (std::int64_t i = begin; i < end; ++i) out[i] = static_cast<To>(f(a[i], v));
    });
    return true;
  };
  using U = std::make_unsigned_t<S>;  // wraps on overflow
  const auto is = [&]<class F>(List<F>) { return opcode == mantissa::pointwise::opcode<F>; };
  if (y.dtype != boolean) {
    if (is(List<Add>{})) return each(y.as<U>(), [](S a, S b) { return static_cast<U>(a) + static_cast<U>(b); });
    if (is(List<Sub>{})) return each(y.as<U>(), [](S a, S b) { return static_cast<U>(a) - static_cast<U>(b); });
    if (is(List<Mul>{})) return each(y.as<U>(), [](S a, S b) { return static_cast<U>(a) * static_cast<U>(b); });
    return false;
  }
  auto* const truth = y.as<std::uint8_t>();
  if (is(List<Eq>{})) return each(truth, [](S a, S b) { return a == b; });
  if (is(List<Ne>{})) return each(truth, [](S a, S b) { return a != b; });
  if (is(List<Lt>{})) return each(truth, [](S a, S b) { return a < b; });
  if (is(List<Le>{})) return each(truth, [](S a, S b) { return a <= b; });
  if (is(List<Gt>{})) return each(truth, [](S a, S b) { return a > b; });
  if (is(List<Ge>{})) return each(truth, [](S a, S b) { return a >= b; });
  return false;
}

Layout layout_of(const View& y) { return y.is_contiguous() ? Layout::contiguous : Layout::channels_last; }
// Whether the operand is contiguous along another dimension than y's innermost, such as a transposed matrix or an image
// in the other layout. Read by rows of y, each element would take a cache line, so it is transposed first.
bool lies_across(const View& v, const View& y) {
  constexpr std::int64_t few = 16, small = 4096;
  const bool planes = y.is_contiguous(), last = is_channels_last(y.sizes, y.strides);
  if (v.dim() < 2 || v.numel() < small || !(planes || last)) return false;
  const int inner = planes ? v.dim() - 1 : 1;
  bool runs = false;
  for (int d = 0; d < v.dim(); ++d) runs = runs || (d != inner && v.strides[d] == 1 && v.sizes[d] >= few);
  return runs && v.strides[inner] > 1 && v.sizes[inner] >= few;
}

// The strides shared by two or more operands (apart from scalars), if these are dense in memory and transposed relative
// to y; else null.
const Dims* strides_across(const View& y, std::span<const View* const> x) {
  if (y.dim() < 2 || x.size() < 2) return nullptr;
  const Dims* strides = nullptr;
  int tensors = 0;
  for (const View* v : x) {
    if (v->numel() == 1) continue;
    if (!(v->sizes == y.sizes) || !lies_across(*v, y) || (strides && !(*strides == v->strides))) return nullptr;
    strides = &v->strides;
    ++tensors;
  }
  if (tensors < 2) return nullptr;
  const Loop loop = collapse_in_memory_order(y.sizes, &strides, 1);
  return loop.sizes.rank() == 1 && loop.strides[0][0] == 1 ? strides : nullptr;
}

}  // namespace

void pointwise(int opcode, const void* formula, Dtype compute, const View& y, std::span<const View* const> x) {
  const Entry* const tiles[tile_files] = {tiles_0, tiles_1, tiles_2, tiles_3, tiles_4, tiles_5};
  const Entry& e = tiles[opcode % tile_files][opcode / tile_files];
  const TileFn fn = compute == f64 ? e.f64 : compute == i64 ? e.i64 : e.f32;
  const auto run_plain = [&](TileFn run) {
    const std::size_t size = size_of(y.dtype);
    parallel_for(y.numel(), grain_size, [&](std::int64_t begin, std::int64_t end) {
      const void* inputs[3];
      const std::size_t skip = static_cast<std::size_t>(begin) * size;
      for (std::size_t k = 0; k < x.size(); ++k) inputs[k] = x[k]->as<const char>() + skip;
      run(formula, end - begin, y.as<char>() + skip, inputs, {});
    });
  };
  if (compute == i64 && x[0]->dtype == i64 && run_divisions<std::int64_t>(opcode, y, x)) return;
  if (plain(y, x, compute)) return run_plain(fn);
  if (compute == f32 && e.bf16 && is_half(y.dtype) && plain(y, x, y.dtype)) {
    if (!run_signs(opcode, y, x)) run_plain(e.of_halves(y.dtype));
    return;
  }
  if (compute == i64 && plain(y, x, boolean) && run_booleans(opcode, y, x)) return;
  if (compute == i64 && x[0]->dtype == i32 && run_divisions<std::int32_t>(opcode, y, x)) return;
  if (compute == i64 && x[0]->dtype == i32 && run_narrow<std::int32_t>(opcode, y, x)) return;
  if (compute == i64 && x[0]->dtype == u8 && run_narrow<std::uint8_t>(opcode, y, x)) return;
  if (y.numel() == 0) return;
  View views[3];
  const View* operands[3];
  if (const Dims* strides = strides_across(y, x)) {  // computed in the operands' order; only the result is transposed
    const Tensor run = Tensor::allocate({y.numel()}, y.dtype);
    for (std::size_t k = 0; k < x.size(); ++k) {
      const bool number = x[k]->numel() == 1;
      views[k] = *x[k];
      views[k].sizes = number ? Dims{} : run.sizes();
      views[k].strides = number ? Dims{} : run.strides();
      operands[k] = &views[k];
    }
    pointwise(opcode, formula, compute, run.view(), {operands, x.size()});
    View result = run.view();
    result.sizes = y.sizes;
    result.strides = *strides;
    return copy(y, result);
  }
  Tensor turned[3];
  double numbers[3];
  for (std::size_t k = 0; k < x.size(); ++k) {
    operands[k] = x[k];
    if (x[k]->numel() == 1 && x[k]->dtype != compute && y.dtype == compute && is_floating(compute)) {
      // a scalar: converted to the result's dtype, so that rows are read in place
      views[k] = *x[k];
      views[k].data = &numbers[k], views[k].dtype = compute;
      if (compute == f64) load_run(views[k].as<double>(), x[k]->data, x[k]->dtype, 0, 0, 1);
      else load_run(views[k].as<float>(), x[k]->data, x[k]->dtype, 0, 0, 1);
      operands[k] = &views[k];
      continue;
    }
    if (x[k]->numel() == 1 && x[k]->dtype != y.dtype && is_half(y.dtype) && compute == f32 && e.bf16) {
      // a scalar that f16 or bf16 represents exactly, as most constants: converted, for the loops that read these types
      float number, kept;
      views[k] = *x[k];
      views[k].data = &numbers[k], views[k].dtype = y.dtype;
      load_run(&number, x[k]->data, x[k]->dtype, 0, 0, 1);
      store_run(views[k].data, y.dtype, 0, 1, &number, 1);
      load_run(&kept, views[k].data, y.dtype, 0, 1, 1);
      if (number == kept) operands[k] = &views[k];
      continue;
    }
    if (!lies_across(*x[k], y)) continue;
    turned[k] = Tensor::allocate(x[k]->sizes, x[k]->dtype, cpu, layout_of(y));
    views[k] = turned[k].view();
    copy(views[k], *x[k]);
    operands[k] = &views[k];
  }
  x = {operands, x.size()};
  if (compute == f64) run_tiles<double>(e, formula, y, x);
  else if (compute == i64) run_tiles<std::int64_t>(e, formula, y, x);
  else run_tiles<float>(e, formula, y, x);
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
