// Pooling of contiguous images (channels as planes), as many planes at a time as a vector has lanes: they are
// transposed to one vector per pixel, and results are transposed back. Sums and comparisons are in the same order as
// for channels-last images (core/cpu/pool_channels.cpp), so both layouts give the same bits.
#pragma once

#include <bit>

#include "core/cpu/reduce_source.h"
#include "core/parallel.h"
#include "core/pool.h"
#include "core/scratch.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {

template <class C> inline constexpr auto planes_at_once = static_cast<std::int64_t>(Vec<C>::size);
inline constexpr std::int64_t largest_turned = 4096;  // pixels: the transposed planes fit in the L2 cache

// body(oy, ox, rows, columns) for the windows of all outputs, row by row.
template <class F> void for_pool_windows(const PoolShape& s, const F& body) {
  for (std::int64_t oy = 0; oy < s.out[0]; ++oy) {
    const auto rows = s.window(0, oy);
    for (std::int64_t ox = 0; ox < s.out[1]; ++ox) body(oy * s.out[1] + ox, rows, s.window(1, ox));
  }
}

// x [pixels, lanes] to y [results, lanes].
template <class C> void average_planes(const PoolShape& s, const C* x, C* y) {
  constexpr std::int64_t lanes = planes_at_once<C>;
  for_pool_windows(s, [&](std::int64_t o, const PoolShape::Window& rows, const PoolShape::Window& columns) {
    Vec<C> sum(C(0));
    for (std::int64_t iy = rows.begin; iy < rows.end; ++iy) {
      Vec<C> row(C(0));
      for (std::int64_t ix = columns.begin; ix < columns.end; ++ix) row = row + load(x + (iy * s.in[1] + ix) * lanes);
      sum = sum + row;
    }
    store(y + o * lanes, sum / Vec<C>(static_cast<C>(rows.extent * columns.extent)));
  });
}
// Maxima with their positions; `first` is the position of the first candidate. A later one replaces the maximum if it
// is larger or NaN. Positions are as wide as C, so that a select by a comparison of C needs no conversion.
template <class C> using Place = std::conditional_t<sizeof(C) == 4, std::int32_t, std::int64_t>;
template <class C> struct MaxOfPlanes {
  Vec<C> best;
  Vec<Place<C>> place;
  MaxOfPlanes(const C* x, std::int64_t first) : best(load(x)), place(static_cast<Place<C>>(first)) {}
  void add(const C* x, std::int64_t at) {
    const Vec<C> v = load(x);
    const auto take = (v > best) | !(v == v);
    best = xsimd::select(take, v, best);
    place = xsimd::select(xsimd::bool_cast(take), Vec<Place<C>>(static_cast<Place<C>>(at)), place);
  }
};
// Positions [results, lanes] as written by store_place, to index [lanes, results] with lanes `pitch` apart.
template <class C> void store_place(C* to, const Vec<Place<C>>& place) {
  store(to, xsimd::bitwise_cast<Vec<C>>(place));
}
template <class C>
void turn_places(const C* places, std::int64_t results, std::int64_t* index, std::int64_t pitch, C* room) {
  constexpr std::int64_t lanes = planes_at_once<C>;
  turn(places, lanes, room, results, lanes, results);
  for (std::int64_t l = 0; l < lanes; ++l) {
    for (std::int64_t o = 0; o < results; ++o) index[l * pitch + o] = std::bit_cast<Place<C>>(room[l * results + o]);
  }
}
// y and the positions of its maxima.
template <class C> void max_planes(const PoolShape& s, const C* x, C* y, C* places) {
  constexpr std::int64_t lanes = planes_at_once<C>;
  for_pool_windows(s, [&](std::int64_t o, const PoolShape::Window& rows, const PoolShape::Window& columns) {
    const std::int64_t first = rows.begin * s.in[1] + columns.begin;
    MaxOfPlanes<C> largest(x + first * lanes, first);
    for (std::int64_t iy = rows.begin; iy < rows.end; ++iy) {
      for (std::int64_t ix = columns.begin; ix < columns.end; ++ix) {
        const std::int64_t pixel = iy * s.in[1] + ix;
        largest.add(x + pixel * lanes, pixel);
      }
    }
    store(y + o * lanes, largest.best);
    store_place(places + o * lanes, largest.place);
  });
}

// The gradient of average pooling: g [results, lanes] to dx [pixels, lanes].
template <class C> void spread_planes(const PoolShape& s, const C* g, C* dx) {
  constexpr std::int64_t lanes = planes_at_once<C>;
  std::fill_n(dx, s.in[0] * s.in[1] * lanes, C(0));
  for_pool_windows(s, [&](std::int64_t o, const PoolShape::Window& rows, const PoolShape::Window& columns) {
    const Vec<C> share = load(g + o * lanes) / Vec<C>(static_cast<C>(rows.extent * columns.extent));
    for (std::int64_t iy = rows.begin; iy < rows.end; ++iy) {
      for (std::int64_t ix = columns.begin; ix < columns.end; ++ix) {
        C* pixel = dx + (iy * s.in[1] + ix) * lanes;
        store(pixel, load(static_cast<const C*>(pixel)) + share);
      }
    }
  });
}

inline bool can_turn_planes(const PoolShape& s, const View& y, const View& x) {
  return x.is_contiguous() && y.is_contiguous() && s.in[0] * s.in[1] <= largest_turned;
}
// Calls run(first plane, pixels of x, memory for those of y, two more buffers of that size) for full groups of planes,
// and rest(first, last) for the remaining planes.
template <class T, class Run, class Rest>
void for_groups_of_planes(const View& y, const View& x, const Run& run, const Rest& rest) {
  using C = Compute<T>;
  constexpr std::int64_t lanes = planes_at_once<C>;
  const std::int64_t in = x.size(2) * x.size(3), out = y.size(2) * y.size(3), planes = x.size(0) * x.size(1),
                     groups = planes / lanes;
  parallel_for(groups + 1, std::max<std::int64_t>(1, grain_size / (lanes * std::max(in, out))),
               [&](std::int64_t begin, std::int64_t end) {
                 const auto size = static_cast<std::size_t>(out * lanes);
                 ScratchVector<C> pixels(static_cast<std::size_t>(in * lanes)), results(size), back(size), more(size);
                 for (std::int64_t g = begin; g < end; ++g) {
                   if (g == groups) {
                     rest(groups * lanes, planes);
                     continue;
                   }
                   turn(x.as<const T>() + g * lanes * in, in, pixels.data(), lanes, in, lanes);
                   run(g * lanes, static_cast<const C*>(pixels.data()), results.data(), more.data(), back.data());
                   turn(static_cast<const C*>(results.data()), lanes, back.data(), out, lanes, out);
                   convert_run(y.as<T>() + g * lanes * out, static_cast<const C*>(back.data()), 1, lanes * out);
                 }
               });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
