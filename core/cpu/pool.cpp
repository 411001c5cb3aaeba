// Pooling, one plane (channel of an image) after the other. Planes are first copied to contiguous f32 or f64 if
// necessary, so the loops below handle neither strides nor f16 and bf16. Small planes are processed several at a time
// (core/cpu/pool_planes.h). Channels-last images have separate kernels, core/cpu/pool_channels.cpp.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "core/cpu/pool_channels.h"
#include "core/cpu/pool_planes.h"
#include "core/cpu/rows.h"
#include "core/kernel.h"
#include "core/parallel.h"
#include "core/pool.h"

namespace mantissa {
MANTISSA_KERNEL(max_pool2d, const PoolShape& shape, const View& y, const View& index, const View& x)
MANTISSA_KERNEL(max_pool2d_backward, const View& dx, const View& g, const View& index)
MANTISSA_KERNEL(avg_pool2d, const PoolShape& shape, const View& y, const View& x)
MANTISSA_KERNEL(avg_pool2d_backward, const PoolShape& shape, const View& dx, const View& g)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {

void reduce_sum(const View& y, const View& x, double divisor);  // core/cpu/reduce.cpp

namespace {

// Planes of a [N, C, H, W] view as contiguous C: in place if possible, else in a buffer.
template <class C> class Planes {
 public:
  explicit Planes(const View& v) : v_(v), size_(v.size(2) * v.size(3)) {
    direct_ = v.dtype == dtype_of<C> && (v.strides[3] == 1 || v.size(3) == 1) &&
              (v.strides[2] == v.size(3) || v.size(2) == 1);
    if (!direct_) buffer_.resize(static_cast<std::size_t>(size_));
    dense_ = v.strides[3] == 1 && v.strides[2] == v.size(3);
  }
  const C* load(std::int64_t plane) {
    if (direct_) return v_.as<const C>() + offset(plane);
    if (dense_) {  // a plane of f16 or bf16 is one run
      load_run(buffer_.data(), v_.data, v_.dtype, offset(plane), 1, size_);
      return buffer_.data();
    }
    for (std::int64_t r = 0; r < v_.size(2); ++r) {
      load_run(buffer_.data() + r * v_.size(3), v_.data, v_.dtype, offset(plane) + r * v_.strides[2], v_.strides[3],
               v_.size(3));
    }
    return buffer_.data();
  }
  C* begin(std::int64_t plane) { return direct_ ? v_.as<C>() + offset(plane) : buffer_.data(); }
  void finish(std::int64_t plane) {  // results are contiguous
    if (!direct_) store_run(v_.data, v_.dtype, plane * size_, 1, buffer_.data(), size_);
  }

 private:
  std::int64_t offset(std::int64_t plane) const {
    return plane / v_.size(1) * v_.strides[0] + plane % v_.size(1) * v_.strides[1];
  }
  const View& v_;
  std::int64_t size_;
  bool direct_, dense_;
  std::vector<C> buffer_;
};

template <class F> void for_planes(const View& x, F&& run) {
  const std::int64_t size = std::max<std::int64_t>(x.size(2) * x.size(3), 1);
  parallel_for(x.size(0) * x.size(1), std::max<std::int64_t>(grain_size / 4 / size, 1), run);
}

// A later value replaces the maximum if it is larger or NaN.
template <class C> bool replaces(C value, C best) { return (value > best) | (value != value); }

// The common case, without windows: 2 x 2 pixels, non-overlapping, all inside the image. Pixels are first sorted into
// four rows of a tile; the maximum then needs no branch, which would be unpredictable.
template <class C> void max_plane_2x2(const PoolShape& s, const C* x, C* y, std::int64_t* index) {
  constexpr std::int64_t tile = 64;
  const std::int64_t total = s.out[0] * s.out[1], width = s.in[1];
  using Lane = std::conditional_t<sizeof(C) == 4, std::int32_t, std::int64_t>;  // as wide as C: selects vectorise
  C pixel[4][tile] = {}, best[tile];
  std::int64_t first[tile] = {};
  Lane which[tile];  // which of the four pixels
  for (std::int64_t done = 0, oy = 0, ox = 0; done < total; done += tile) {
    const std::int64_t n = std::min(tile, total - done);
    for (std::int64_t i = 0; i < n;) {
      const std::int64_t run = std::min(n - i, s.out[1] - ox), from = 2 * oy * width + 2 * ox;
      for (std::int64_t j = 0; j < run; ++j) {
        const C* corner = x + from + 2 * j;
        pixel[0][i + j] = corner[0];
        pixel[1][i + j] = corner[1];
        pixel[2][i + j] = corner[width];
        pixel[3][i + j] = corner[width + 1];
        first[i + j] = from + 2 * j;
      }
      i += run;
      ox += run;
      if (ox == s.out[1]) ox = 0, ++oy;
    }
    for (std::int64_t i = 0; i < tile; ++i) best[i] = pixel[0][i], which[i] = 0;
    for (int k = 1; k < 4; ++k) {
      for (std::int64_t i = 0; i < tile; ++i) {
        const bool take = replaces(pixel[k][i], best[i]);
        best[i] = take ? pixel[k][i] : best[i];
        which[i] = take ? Lane(k) : which[i];
      }
    }
    std::copy_n(best, n, y + done);
    for (std::int64_t i = 0; i < n; ++i) index[done + i] = first[i] + (which[i] >> 1) * width + (which[i] & 1);
  }
}

bool is_2x2(const PoolShape& s) {
  return s.kernel[0] == 2 && s.kernel[1] == 2 && s.stride[0] == 2 && s.stride[1] == 2 && s.padding[0] == 0 &&
         s.padding[1] == 0 && 2 * s.out[0] <= s.in[0] && 2 * s.out[1] <= s.in[1];
}
template <class C> void max_plane(const PoolShape& s, const C* x, C* y, std::int64_t* index) {
  if (is_2x2(s)) return max_plane_2x2(s, x, y, index);
  for (std::int64_t oy = 0; oy < s.out[0]; ++oy) {
    const auto rows = s.window(0, oy);
    for (std::int64_t ox = 0; ox < s.out[1]; ++ox) {
      const auto columns = s.window(1, ox);
      std::int64_t at = rows.begin * s.in[1] + columns.begin;
      for (std::int64_t iy = rows.begin; iy < rows.end; ++iy) {
        for (std::int64_t ix = columns.begin; ix < columns.end; ++ix) {
          const std::int64_t i = iy * s.in[1] + ix;
          if (replaces(x[i], x[at])) at = i;
        }
      }
      *y++ = x[at];
      *index++ = at;
    }
  }
}

template <class C> void average_plane(const PoolShape& s, const C* x, C* y) {
  for (std::int64_t oy = 0; oy < s.out[0]; ++oy) {
    const auto rows = s.window(0, oy);
    for (std::int64_t ox = 0; ox < s.out[1]; ++ox) {
      const auto columns = s.window(1, ox);
      C sum = 0;
      for (std::int64_t iy = rows.begin; iy < rows.end; ++iy) {
        C row = 0;
        for (std::int64_t ix = columns.begin; ix < columns.end; ++ix) row += x[iy * s.in[1] + ix];
        sum += row;
      }
      *y++ = sum / static_cast<C>(rows.extent * columns.extent);
    }
  }
}

template <class C> void spread_plane(const PoolShape& s, const C* g, C* dx) {
  if (s.adaptive && s.out[0] * s.out[1] == 1) {  // all pixels share the gradient
    const C share = C(0) + *g / static_cast<C>(s.in[0] * s.in[1]);
    std::fill_n(dx, s.in[0] * s.in[1], share);
    return;
  }
  std::fill_n(dx, s.in[0] * s.in[1], C(0));
  for (std::int64_t oy = 0; oy < s.out[0]; ++oy) {
    const auto rows = s.window(0, oy);
    for (std::int64_t ox = 0; ox < s.out[1]; ++ox) {
      const auto columns = s.window(1, ox);
      const C share = *g++ / static_cast<C>(rows.extent * columns.extent);
      for (std::int64_t iy = rows.begin; iy < rows.end; ++iy) {
        for (std::int64_t ix = columns.begin; ix < columns.end; ++ix) dx[iy * s.in[1] + ix] += share;
      }
    }
  }
}

// Calls f.template operator()<C>() with the compute type.
template <class F> void with_compute_type(Dtype dtype, F&& f) {
  if (dtype == f64) f.template operator()<double>();
  else f.template operator()<float>();
}

bool last(const View& v) { return v.layout() == Layout::channels_last; }

// Planes too large to be transposed one by one, with enough channels for vectors: whole images are converted to
// channels-last and back.
bool turns_images(const View& planes) {
  constexpr std::int64_t enough = 16;
  return planes.sizes[2] * planes.sizes[3] > largest_turned && planes.sizes[1] >= enough;
}
Tensor channels_last_like(const View& v) { return Tensor::allocate(v.sizes, v.dtype, cpu, Layout::channels_last); }

}  // namespace

void max_pool2d(const PoolShape& shape, const View& y, const View& index, const View& x) {
  if (last(x)) return max_pool2d_channels(shape, y, index, x);
  if (turns_images(x) && !is_2x2(shape)) {
    Tensor x_copy;
    const Tensor values = channels_last_like(y), places = channels_last_like(index);
    max_pool2d_channels(shape, values.view(), places.view(), moved(x, x.dtype, x_copy));
    copy(y, values.view());
    return copy(index, places.view());
  }
  const std::int64_t out = shape.out[0] * shape.out[1];
  visit_floating(x.dtype, [&]<class T> {
    using C = Compute<T>;
    const auto one_by_one = [&](std::int64_t begin, std::int64_t end) {
      Planes<C> from(x), to(y);
      for (std::int64_t p = begin; p < end; ++p) {
        max_plane(shape, from.load(p), to.begin(p), index.as<std::int64_t>() + p * out);
        to.finish(p);
      }
    };
    if (is_2x2(shape) || !can_turn_planes(shape, y, x) || !index.is_contiguous()) return for_planes(x, one_by_one);
    for_groups_of_planes<T>(
        y, x,
        [&](std::int64_t plane, const C* pixels, C* results, C* places, C* room) {
          max_planes(shape, pixels, results, places);
          turn_places<C>(places, out, index.as<std::int64_t>() + plane * out, out, room);
        },
        one_by_one);
  });
}

void max_pool2d_backward(const View& dx, const View& g, const View& index) {
  Tensor g_copy, index_copy;
  if (last(dx)) return max_pool2d_channels_backward(dx, moved(g, dx.dtype, g_copy), moved(index, i64, index_copy));
  const std::int64_t in = dx.size(2) * dx.size(3), out = g.size(2) * g.size(3);
  with_compute_type(dx.dtype, [&]<class C> {
    for_planes(dx, [&](std::int64_t begin, std::int64_t end) {
      Planes<C> from(g), to(dx);
      Planes<std::int64_t> places(index);
      for (std::int64_t p = begin; p < end; ++p) {
        const C* value = from.load(p);
        const std::int64_t* place = places.load(p);
        C* sum = to.begin(p);
        std::fill_n(sum, in, C(0));
        for (std::int64_t o = 0; o < out; ++o) {
          if (place[o] >= 0 && place[o] < in) sum[place[o]] += value[o];
        }
        to.finish(p);
      }
    });
  });
}

void avg_pool2d(const PoolShape& shape, const View& y, const View& x) {
  if (last(x)) return avg_pool2d_channels(shape, y, x);
  if (shape.adaptive && shape.out[0] * shape.out[1] == 1)  // a plane is contiguous
    return reduce_sum(y, x, static_cast<double>(shape.in[0] * shape.in[1]));
  if (turns_images(x)) {
    Tensor x_copy;
    const Tensor means = channels_last_like(y);
    avg_pool2d_channels(shape, means.view(), moved(x, x.dtype, x_copy));
    return copy(y, means.view());
  }
  visit_floating(x.dtype, [&]<class T> {
    using C = Compute<T>;
    const auto one_by_one = [&](std::int64_t begin, std::int64_t end) {
      Planes<C> from(x), to(y);
      for (std::int64_t p = begin; p < end; ++p) {
        average_plane(shape, from.load(p), to.begin(p));
        to.finish(p);
      }
    };
    if (!can_turn_planes(shape, y, x)) return for_planes(x, one_by_one);
    for_groups_of_planes<T>(
        y, x, [&](std::int64_t, const C* pixels, C* results, C*, C*) { average_planes(shape, pixels, results); },
        one_by_one);
  });
}

void avg_pool2d_backward(const PoolShape& shape, const View& dx, const View& g) {
  Tensor g_copy;
  if (last(dx)) return avg_pool2d_channels_backward(shape, dx, moved(g, dx.dtype, g_copy));
  visit_floating(dx.dtype, [&]<class T> {
    using C = Compute<T>;
    const auto one_by_one = [&](std::int64_t begin, std::int64_t end) {
      Planes<C> from(g), to(dx);
      for (std::int64_t p = begin; p < end; ++p) {
        spread_plane(shape, from.load(p), to.begin(p));
        to.finish(p);
      }
    };
    const bool shared = shape.out[0] * shape.out[1] == 1;  // one value per plane: nothing to transpose
    if (shared || g.dtype != dx.dtype || !can_turn_planes(shape, dx, g)) return for_planes(dx, one_by_one);
    for_groups_of_planes<T>(
        dx, g, [&](std::int64_t, const C* from, C* to, C*, C*) { spread_planes(shape, from, to); }, one_by_one);
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
