// Pooling over volumes [N, C, D, H, W], one channel of one sample after the other. Straightforward
// loops over windows: images without dilation have their own kernels in core/cpu/pool.cpp.
#include <algorithm>
#include <limits>

#include "core/cpu/rows.h"
#include "core/kernel.h"
#include "core/parallel.h"
#include "core/pool.h"

namespace mantissa {
MANTISSA_KERNEL(max_pool3d, const VolumePoolShape& shape, const View& y, const View& index, const View& x)
MANTISSA_KERNEL(avg_pool3d, const VolumePoolShape& shape, const View& y, const View& x)
MANTISSA_KERNEL(avg_pool3d_backward, const VolumePoolShape& shape, const View& dx, const View& g)
}

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

using Window = VolumePoolShape::Window;

// Calls f(output position, its three windows) in row-major order.
template <class F> void for_windows(const VolumePoolShape& s, F&& f) {
  std::int64_t at = 0;
  for (std::int64_t oz = 0; oz < s.out[0]; ++oz) {
    const Window z = s.window(0, oz);
    for (std::int64_t oy = 0; oy < s.out[1]; ++oy) {
      const Window y = s.window(1, oy);
      for (std::int64_t ox = 0; ox < s.out[2]; ++ox) f(at++, z, y, s.window(2, ox));
    }
  }
}
// Calls f(input position) for all inputs of a window.
template <class F> void for_inputs(const VolumePoolShape& s, const Window& z, const Window& y, const Window& x, F&& f) {
  for (std::int64_t iz = z.begin; iz < z.end; iz += z.step) {
    for (std::int64_t iy = y.begin; iy < y.end; iy += y.step) {
      const std::int64_t row = (iz * s.in[1] + iy) * s.in[2];
      for (std::int64_t ix = x.begin; ix < x.end; ix += x.step) f(row + ix);
    }
  }
}
template <class C> C divisor_of(const VolumePoolShape& s, const Window& z, const Window& y, const Window& x) {
  return static_cast<C>(s.divisor > 0 ? s.divisor : z.extent * y.extent * x.extent);
}

template <class C> void max_volume(const VolumePoolShape& s, const C* x, C* y, std::int64_t* index) {
  for_windows(s, [&](std::int64_t o, const Window& wz, const Window& wy, const Window& wx) {
    C best = -std::numeric_limits<C>::infinity();  // of a window that lies between all inputs
    std::int64_t at = -1;
    for_inputs(s, wz, wy, wx, [&](std::int64_t i) {
      if (at < 0 || x[i] > best || x[i] != x[i]) best = x[i], at = i;
    });
    y[o] = best;
    index[o] = at < 0 ? 0 : at;
  });
}
template <class C> void average_volume(const VolumePoolShape& s, const C* x, C* y) {
  for_windows(s, [&](std::int64_t o, const Window& wz, const Window& wy, const Window& wx) {
    C sum = 0;
    for_inputs(s, wz, wy, wx, [&](std::int64_t i) { sum += x[i]; });
    y[o] = sum / divisor_of<C>(s, wz, wy, wx);
  });
}
template <class C> void spread_volume(const VolumePoolShape& s, const C* g, C* dx) {
  std::fill_n(dx, s.in_pixels(), C(0));
  for_windows(s, [&](std::int64_t o, const Window& wz, const Window& wy, const Window& wx) {
    const C share = g[o] / divisor_of<C>(s, wz, wy, wx);
    for_inputs(s, wz, wy, wx, [&](std::int64_t i) { dx[i] += share; });
  });
}

// Calls f(begin, end) for ranges of the samples' channels.
template <class F> void for_volumes(const VolumePoolShape& s, const View& v, F&& f) {
  parallel_for(v.size(0) * v.size(1),
               std::max<std::int64_t>(grain_size / 4 / std::max<std::int64_t>(s.in_pixels(), 1), 1), f);
}

}  // namespace

void max_pool3d(const VolumePoolShape& s, const View& y, const View& index, const View& x) {
  visit_compute(x.dtype, [&]<class C> {
    const Dense<C> from(x);
    DenseResult<C> to(y);
    for_volumes(s, x, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t v = begin; v < end; ++v) {
        max_volume(s, from.data() + v * s.in_pixels(), to.data() + v * s.out_pixels(),
                   index.as<std::int64_t>() + v * s.out_pixels());
      }
    });
    to.finish();
  });
}
void avg_pool3d(const VolumePoolShape& s, const View& y, const View& x) {
  visit_compute(x.dtype, [&]<class C> {
    const Dense<C> from(x);
    DenseResult<C> to(y);
    for_volumes(s, x, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t v = begin; v < end; ++v)
        average_volume(s, from.data() + v * s.in_pixels(), to.data() + v * s.out_pixels());
    });
    to.finish();
  });
}
void avg_pool3d_backward(const VolumePoolShape& s, const View& dx, const View& g) {
  visit_compute(dx.dtype, [&]<class C> {
    const Dense<C> from(g);
    DenseResult<C> to(dx);
    for_volumes(s, dx, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t v = begin; v < end; ++v)
        spread_volume(s, from.data() + v * s.out_pixels(), to.data() + v * s.in_pixels());
    });
    to.finish();
  });
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
