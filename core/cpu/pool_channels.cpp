// Pooling of channels-last images, vectorised over channels. Maxima come with the index of their pixel, as elsewhere
// (max_pool2d_channels), or with their tap, the number of the pixel in its window (max_pool2d_taps): one byte instead
// of eight for a tensor that only backward reads.
#include "core/cpu/pool_channels.h"

#include "core/cpu/vectors_together.h"
#include "core/kernel.h"
#include "core/parallel.h"

namespace mantissa {
MANTISSA_KERNEL(max_pool2d_taps, const PoolShape& shape, const View& y, const View& taps, const View& x)
MANTISSA_KERNEL(max_pool2d_taps_backward, const PoolShape& shape, const View& dx, const View& g, const View& taps)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

// Integers as wide as C, so that a select by a comparison of C needs no conversion.
template <class C> using Lane = std::conditional_t<sizeof(C) == 4, std::int32_t, std::int64_t>;
template <class C> constexpr auto width = static_cast<std::int64_t>(Vec<C>::size);
constexpr int together = 4;  // vectors whose results are kept in registers

// Stores or loads the first n lanes as bytes or 64-bit integers.
template <class L, class To> void store_lanes(To* to, const Vec<L>& v, std::int64_t n) {
  L lanes[Vec<L>::size];
  store(lanes, v);
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(lanes[i]);
}
template <class L> Vec<L> load_lanes(const std::uint8_t* from, std::int64_t n) {
  L lanes[Vec<L>::size] = {};
  for (std::int64_t i = 0; i < n; ++i) lanes[i] = from[i];
  return load(lanes);
}
#if defined(__AVX512BW__)
inline void store_lanes(std::uint8_t* to, const Vec<std::int32_t>& v, std::int64_t n) {
  _mm_mask_storeu_epi8(to, first_lanes(n), _mm512_cvtepi32_epi8(v));
}
inline void store_lanes(std::int64_t* to, const Vec<std::int32_t>& v, std::int64_t n) {
  const __mmask16 mask = first_lanes(n);
  _mm512_mask_storeu_epi64(to, static_cast<__mmask8>(mask), _mm512_cvtepi32_epi64(_mm512_castsi512_si256(v)));
  _mm512_mask_storeu_epi64(to + 8, static_cast<__mmask8>(mask >> 8),
                           _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(v, 1)));
}
template <> inline Vec<std::int32_t> load_lanes<std::int32_t>(const std::uint8_t* from, std::int64_t n) {
  return Vec<std::int32_t>(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(first_lanes(n), from)));
}
#endif
template <class C> std::int64_t count_of(const WholeVector&) { return width<C>; }
template <class C> std::int64_t count_of(const PartOfVector& lanes) { return lanes.n; }

// --- partitioning of work ---
// f(n, oy) for all output rows, in parallel.
template <class F> void for_result_rows(const PoolShape& s, const View& y, const View& x, const F& f) {
  const std::int64_t rows = x.size(0) * s.out[0],
                     work = std::max(x.numel(), y.numel()) / std::max<std::int64_t>(1, rows);
  parallel_for(rows, std::max<std::int64_t>(1, grain_size / std::max<std::int64_t>(1, work)),
               [&](std::int64_t first, std::int64_t last) {
                 for (std::int64_t r = first; r < last; ++r) f(r / s.out[0], r % s.out[0]);
               });
}
// Whether the windows partition the image: every pixel is in exactly one.
bool windows_partition(const PoolShape& s) {
  for (int d = 0; d < 2; ++d) {
    std::int64_t at = 0;
    for (std::int64_t o = 0; o < s.out[d]; ++o) {
      const auto w = s.window(d, o);
      if (w.begin != at) return false;
      at = w.end;
    }
    if (at != s.in[d]) return false;
  }
  return true;
}
// Gradients that are summed: run(n, c, count, sums) adds the contribution of image n for channels [c, c + count) to
// sums [pixels, count], which then become dx.
template <class T, class F> void sum_images(const View& dx, const F& run) {
  using C = Compute<T>;
  const std::int64_t images = dx.size(0), channels = dx.size(1), pixels = dx.size(2) * dx.size(3);
  const std::int64_t part = images >= 8 ? channels : 64, parts = (channels + part - 1) / part;
  parallel_for(images * parts, std::max<std::int64_t>(1, grain_size / (part * pixels)),
               [&](std::int64_t first, std::int64_t last) {
                 std::vector<C> sums(static_cast<std::size_t>(part * pixels));
                 for (std::int64_t i = first; i < last; ++i) {
                   const std::int64_t n = i / parts, c = i % parts * part, count = std::min(part, channels - c);
                   std::fill(sums.begin(), sums.end(), C(0));
                   run(n, c, count, sums.data());
                   for (std::int64_t p = 0; p < pixels; ++p) {
                     T* to = dx.as<T>() + (n * pixels + p) * channels + c;
                     for_vectors<C>(count, [&](const auto& lanes, std::int64_t j) {
                       lanes.store(to + j, lanes.load(sums.data() + p * count + j));
                     });
                   }
                 }
               });
}

// --- maximum ---
// code(iy, ix): what is stored for a pixel of the window of output pixel (oy, ox).
template <class T, class Code, class F>
void maxima(const PoolShape& s, const View& y, const View& codes, const View& x, const F& code) {
  using C = Compute<T>;
  using L = Lane<C>;
  const std::int64_t channels = x.size(1);
  for_result_rows(s, y, x, [&](std::int64_t n, std::int64_t oy) {
    const auto rows = s.window(0, oy);
    const T* image = x.as<const T>() + n * s.in[0] * s.in[1] * channels;
    for (std::int64_t ox = 0; ox < s.out[1]; ++ox) {
      const auto columns = s.window(1, ox);
      const std::int64_t to = ((n * s.out[0] + oy) * s.out[1] + ox) * channels;
      for_vectors_together<together, C>(channels, [&]<int count>(const auto& lanes, std::int64_t j) {
        Vec<C> best[count];
        Vec<L> which[count];
        for (int u = 0; u < count; ++u) {
          best[u] = lanes.load(image + (rows.begin * s.in[1] + columns.begin) * channels + j + u * width<C>);
          which[u] = Vec<L>(static_cast<L>(code(oy, ox, rows.begin, columns.begin)));
        }
        for (std::int64_t iy = rows.begin; iy < rows.end; ++iy) {
          for (std::int64_t ix = columns.begin; ix < columns.end; ++ix) {
            const T* pixel = image + (iy * s.in[1] + ix) * channels + j;
            const Vec<L> here(static_cast<L>(code(oy, ox, iy, ix)));
#pragma GCC unroll 4
            for (int u = 0; u < count; ++u) {
              const Vec<C> v = lanes.load(pixel + u * width<C>);
              const auto take = (v > best[u]) | !(v == v);  // like `replaces` in core/cpu/pool.cpp
              best[u] = xsimd::select(take, v, best[u]);
              which[u] = xsimd::select(xsimd::bool_cast(take), here, which[u]);
            }
          }
        }
        for (int u = 0; u < count; ++u) {
          lanes.store(y.as<T>() + to + j + u * width<C>, best[u]);
          store_lanes(codes.as<Code>() + to + j + u * width<C>, which[u], count_of<C>(lanes));
        }
      });
    }
  });
}

// The number of a pixel in its window; padding at the window's start counts too.
struct TapOf {
  const PoolShape& s;
  std::int64_t operator()(std::int64_t oy, std::int64_t ox, std::int64_t iy, std::int64_t ix) const {
    return (iy - oy * s.stride[0] + s.padding[0]) * s.kernel[1] + ix - ox * s.stride[1] + s.padding[1];
  }
};

// body(output pixel, tap, input pixel) for the window pixels of one output row.
template <class F> void for_taps(const PoolShape& s, std::int64_t oy, const F& body) {
  const TapOf tap{s};
  const auto rows = s.window(0, oy);
  for (std::int64_t ox = 0; ox < s.out[1]; ++ox) {
    const auto columns = s.window(1, ox);
    for (std::int64_t iy = rows.begin; iy < rows.end; ++iy) {
      for (std::int64_t ix = columns.begin; ix < columns.end; ++ix)
        body(oy * s.out[1] + ox, tap(oy, ox, iy, ix), iy * s.in[1] + ix);
    }
  }
}
// g where the maximum was at this tap, else 0.
template <class C, class Lanes, class T>
Vec<C> gradient_of_tap(const Lanes& lanes, const T* g, const std::uint8_t* taps, std::int64_t tap) {
  const auto here = load_lanes<Lane<C>>(taps, count_of<C>(lanes)) == Vec<Lane<C>>(static_cast<Lane<C>>(tap));
  return xsimd::select(xsimd::bool_cast(here), lanes.load(g), Vec<C>(C(0)));
}

template <class T> void taps_backward(const PoolShape& s, const View& dx, const View& g, const View& taps) {
  using C = Compute<T>;
  const std::int64_t channels = dx.size(1), in = s.in[0] * s.in[1], out = s.out[0] * s.out[1];
  const T* from = g.as<const T>();
  const auto* tap_of = taps.as<const std::uint8_t>();
  if (windows_partition(s)) {
    return for_result_rows(s, g, dx, [&](std::int64_t n, std::int64_t oy) {
      for_taps(s, oy, [&](std::int64_t o, std::int64_t tap, std::int64_t pixel) {
        const std::int64_t at = (n * out + o) * channels;
        T* to = dx.as<T>() + (n * in + pixel) * channels;
        for_vectors<C>(channels, [&](const auto& lanes, std::int64_t j) {
          lanes.store(to + j, gradient_of_tap<C>(lanes, from + at + j, tap_of + at + j, tap));
        });
      });
    });
  }
  sum_images<T>(dx, [&](std::int64_t n, std::int64_t c, std::int64_t count, C* sums) {
    for (std::int64_t oy = 0; oy < s.out[0]; ++oy) {
      for_taps(s, oy, [&](std::int64_t o, std::int64_t tap, std::int64_t pixel) {
        const std::int64_t at = (n * out + o) * channels + c;
        C* sum = sums + pixel * count;
        for_vectors<C>(count, [&](const auto& lanes, std::int64_t j) {
          lanes.store(sum + j, lanes.load(static_cast<const C*>(sum) + j) +
                                   gradient_of_tap<C>(lanes, from + at + j, tap_of + at + j, tap));
        });
      });
    }
  });
}

// --- average ---
template <class T> void averages(const PoolShape& s, const View& y, const View& x) {
  using C = Compute<T>;
  const std::int64_t channels = x.size(1);
  for_result_rows(s, y, x, [&](std::int64_t n, std::int64_t oy) {
    const auto rows = s.window(0, oy);
    const T* image = x.as<const T>() + n * s.in[0] * s.in[1] * channels;
    for (std::int64_t ox = 0; ox < s.out[1]; ++ox) {
      const auto columns = s.window(1, ox);
      T* to = y.as<T>() + ((n * s.out[0] + oy) * s.out[1] + ox) * channels;
      const Vec<C> size(static_cast<C>(rows.extent * columns.extent));
      const auto average = [&]<int count>(const auto& lanes, std::int64_t j) {
        Vec<C> sum[count], row[count];  // row by row, like average_plane in core/cpu/pool.cpp
        for (auto& v : sum) v = Vec<C>(C(0));
        for (std::int64_t iy = rows.begin; iy < rows.end; ++iy) {
          for (auto& v : row) v = Vec<C>(C(0));
          for (std::int64_t ix = columns.begin; ix < columns.end; ++ix) {
            const T* pixel = image + (iy * s.in[1] + ix) * channels + j;
#pragma GCC unroll 4
            for (int u = 0; u < count; ++u) row[u] = row[u] + lanes.load(pixel + u * width<C>);
          }
          for (int u = 0; u < count; ++u) sum[u] = sum[u] + row[u];
        }
        for (int u = 0; u < count; ++u) lanes.store(to + j + u * width<C>, sum[u] / size);
      };
      for_vectors_together<together, C>(channels, average);
    }
  });
}

template <class T> void averages_backward(const PoolShape& s, const View& dx, const View& g) {
  using C = Compute<T>;
  const std::int64_t channels = dx.size(1), in = s.in[0] * s.in[1], out = s.out[0] * s.out[1];
  const T* from = g.as<const T>();
  // body(output pixel, window size, input pixel) for one output row.
  const auto for_windows = [&](std::int64_t oy, auto&& body) {
    const auto rows = s.window(0, oy);
    for (std::int64_t ox = 0; ox < s.out[1]; ++ox) {
      const auto columns = s.window(1, ox);
      const Vec<C> size(static_cast<C>(rows.extent * columns.extent));
      for (std::int64_t iy = rows.begin; iy < rows.end; ++iy) {
        for (std::int64_t ix = columns.begin; ix < columns.end; ++ix) body(oy * s.out[1] + ox, size, iy * s.in[1] + ix);
      }
    }
  };
  if (windows_partition(s)) {
    return for_result_rows(s, g, dx, [&](std::int64_t n, std::int64_t oy) {
      for_windows(oy, [&](std::int64_t o, const Vec<C>& size, std::int64_t pixel) {
        const T* share = from + (n * out + o) * channels;
        T* to = dx.as<T>() + (n * in + pixel) * channels;
        for_vectors<C>(channels,
                       [&](const auto& lanes, std::int64_t j) { lanes.store(to + j, lanes.load(share + j) / size); });
      });
    });
  }
  sum_images<T>(dx, [&](std::int64_t n, std::int64_t c, std::int64_t count, C* sums) {
    for (std::int64_t oy = 0; oy < s.out[0]; ++oy) {
      for_windows(oy, [&](std::int64_t o, const Vec<C>& size, std::int64_t pixel) {
        const T* share = from + (n * out + o) * channels + c;
        C* sum = sums + pixel * count;
        for_vectors<C>(count, [&](const auto& lanes, std::int64_t j) {
          lanes.store(sum + j, lanes.load(static_cast<const C*>(sum) + j) + lanes.load(share + j) / size);
        });
      });
    }
  });
}

}  // namespace

void max_pool2d_channels(const PoolShape& shape, const View& y, const View& index, const View& x) {
  const std::int64_t row = shape.in[1];
  visit_floating(x.dtype, [&]<class T> {
    maxima<T, std::int64_t>(shape, y, index, x, [row](std::int64_t, std::int64_t, std::int64_t iy, std::int64_t ix) {
      return iy * row + ix;
    });
  });
}
void max_pool2d_taps(const PoolShape& shape, const View& y, const View& taps, const View& x) {
  Tensor keep;
  const View images = moved(x, x.dtype, keep);
  visit_floating(x.dtype, [&]<class T> { maxima<T, std::uint8_t>(shape, y, taps, images, TapOf{shape}); });
}
void max_pool2d_channels_backward(const View& dx, const View& g, const View& index) {
  const std::int64_t channels = dx.size(1), in = dx.size(2) * dx.size(3), out = g.size(2) * g.size(3);
  visit_floating(dx.dtype, [&]<class T> {
    using C = Compute<T>;
    sum_images<T>(dx, [&](std::int64_t n, std::int64_t c, std::int64_t count, C* sums) {
      for (std::int64_t o = 0; o < out; ++o) {
        const T* value = g.as<const T>() + (n * out + o) * channels + c;
        const std::int64_t* place = index.as<const std::int64_t>() + (n * out + o) * channels + c;
        for (std::int64_t j = 0; j < count; ++j) {
          if (place[j] >= 0 && place[j] < in) sums[place[j] * count + j] += static_cast<C>(value[j]);
        }
      }
    });
  });
}
void max_pool2d_taps_backward(const PoolShape& shape, const View& dx, const View& g, const View& taps) {
  Tensor g_copy, taps_copy;
  const View gradient = moved(g, dx.dtype, g_copy), places = moved(taps, u8, taps_copy);
  visit_floating(dx.dtype, [&]<class T> { taps_backward<T>(shape, dx, gradient, places); });
}
void avg_pool2d_channels(const PoolShape& shape, const View& y, const View& x) {
  visit_floating(x.dtype, [&]<class T> { averages<T>(shape, y, x); });
}
void avg_pool2d_channels_backward(const PoolShape& shape, const View& dx, const View& g) {
  visit_floating(dx.dtype, [&]<class T> { averages_backward<T>(shape, dx, g); });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
