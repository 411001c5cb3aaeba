// Pooling of volumes [N, C, D, H, W], as many channels at a time as a vector has lanes if windows are not too deep
// (core/cpu/pool_planes.h), else one after the other, with the same bits. Images without dilation have separate kernels
// in core/cpu/pool.cpp.
#include <algorithm>
#include <limits>
#include <optional>

#include "core/cpu/pool_planes.h"
#include "core/cpu/rows.h"
#include "core/kernel.h"
#include "core/parallel.h"
#include "core/pool.h"

namespace mantissa {
MANTISSA_KERNEL(max_pool3d, const VolumePoolShape& shape, const View& y, const View& index, const View& x)
MANTISSA_KERNEL(max_pool3d_backward, const VolumePoolShape& shape, const View& dx, const View& g, const View& index)
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
    C best = -std::numeric_limits<C>::infinity();  // for a window between all inputs (dilation)
    std::int64_t at = -1;
    for_inputs(s, wz, wy, wx, [&](std::int64_t i) {
      if (at < 0 || x[i] > best || x[i] != x[i]) best = x[i], at = i;
    });
    y[o] = best;
    index[o] = at < 0 ? 0 : at;
  });
}
template <class C>
void scatter_volume(const VolumePoolShape& s, const C* g, const std::int64_t* index, C* dx) {
  std::fill_n(dx, s.in_pixels(), C(0));
  for_windows(s, [&](std::int64_t o, const Window& wz, const Window& wy, const Window& wx) {
    const bool empty = wz.begin >= wz.end || wy.begin >= wy.end || wx.begin >= wx.end;
    if (!empty) dx[index[o]] += g[o];  // of an empty one the index means nothing
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

// --- several channels at a time ---

// The planes of x that an output plane needs are transposed to one vector per pixel, and stay in the L2 cache. Whether
// they fit:
bool can_turn_slabs(const VolumePoolShape& s) {
  std::int64_t deepest = 0;
  for (std::int64_t oz = 0; oz < s.out[0]; ++oz) {
    const Window z = s.window(0, oz);
    deepest = std::max(deepest, (z.end - z.begin + z.step - 1) / z.step);
  }
  return deepest * s.in[1] * s.in[2] <= 2 * largest_turned && s.in_pixels() <= std::numeric_limits<std::int32_t>::max();
}
template <class C> struct Slab {
  static constexpr std::int64_t lanes = planes_at_once<C>;
  const VolumePoolShape& s;
  Window z;
  const C* pixels;  // [planes of the window, height, width, lanes]

  // body(vector of lanes, position in the volume) for the inputs of the window of one output in the plane.
  template <class F> void for_inputs(const Window& y, const Window& x, const F& body) const {
    const C* plane = pixels;
    for (std::int64_t iz = z.begin; iz < z.end; iz += z.step, plane += s.in[1] * s.in[2] * lanes) {
      for (std::int64_t iy = y.begin; iy < y.end; iy += y.step) {
        for (std::int64_t ix = x.begin; ix < x.end; ix += x.step) {
          const std::int64_t at = iy * s.in[2] + ix;
          body(plane + at * lanes, iz * s.in[1] * s.in[2] + at);
        }
      }
    }
  }
  // body(output in the plane, its row and column windows)
  template <class F> void for_results(const F& body) const {
    for (std::int64_t oy = 0; oy < s.out[1]; ++oy) {
      const Window y = s.window(1, oy);
      for (std::int64_t ox = 0; ox < s.out[2]; ++ox) body(oy * s.out[2] + ox, y, s.window(2, ox));
    }
  }
};
// run(slab, results [plane of y, lanes], offset of the first in y) for output planes; returns the number of volumes
// done.
template <class C, class F>
std::int64_t for_slabs(const VolumePoolShape& s, std::int64_t volumes, const C* x, C* y, const F& run) {
  constexpr std::int64_t lanes = planes_at_once<C>;
  if (!can_turn_slabs(s)) return 0;
  const std::int64_t in = s.in[1] * s.in[2], out = s.out[1] * s.out[2], groups = volumes / lanes;
  parallel_for(groups * s.out[0], std::max<std::int64_t>(1, grain_size / (lanes * std::max(in, out))),
               [&](std::int64_t begin, std::int64_t end) {
                 ScratchVector<C> pixels, results(static_cast<std::size_t>(out * lanes));
                 for (std::int64_t i = begin; i < end; ++i) {
                   const std::int64_t first = i / s.out[0] * lanes, oz = i % s.out[0];
                   const Window z = s.window(0, oz);
                   const std::int64_t planes = std::max<std::int64_t>(0, (z.end - z.begin + z.step - 1) / z.step);
                   pixels.resize(static_cast<std::size_t>(planes * in * lanes));
                   for (std::int64_t p = 0; p < planes; ++p) {
                     turn(x + first * s.in_pixels() + (z.begin + p * z.step) * in, s.in_pixels(),
                          pixels.data() + p * in * lanes, lanes, in, lanes);
                   }
                   const std::int64_t place = first * s.out_pixels() + oz * out;
                   run(Slab<C>{s, z, pixels.data()}, results.data(), place);
                   turn(static_cast<const C*>(results.data()), lanes, y + place, s.out_pixels(), lanes, out);
                 }
               });
  return groups * lanes;
}

template <class C>
std::int64_t max_slabs(const VolumePoolShape& s, std::int64_t volumes, const C* x, C* y, std::int64_t* index) {
  constexpr std::int64_t lanes = planes_at_once<C>;
  const std::int64_t out = s.out[1] * s.out[2];
  return for_slabs(s, volumes, x, y, [&](const Slab<C>& slab, C* results, std::int64_t place) {
    const auto size = static_cast<std::size_t>(out * lanes);
    ScratchVector<C> places(size), room(size);
    slab.for_results([&](std::int64_t o, const Window& wy, const Window& wx) {
      std::optional<MaxOfPlanes<C>> largest;
      slab.for_inputs(wy, wx, [&](const C* v, std::int64_t at) {
        if (largest) largest->add(v, at);
        else largest.emplace(v, at);
      });
      // for a window between all inputs
      store(results + o * lanes, largest ? largest->best : Vec<C>(-std::numeric_limits<C>::infinity()));
      store_place(places.data() + o * lanes, largest ? largest->place : Vec<Place<C>>(0));
    });
    turn_places(places.data(), out, index + place, s.out_pixels(), room.data());
  });
}
template <class C> std::int64_t average_slabs(const VolumePoolShape& s, std::int64_t volumes, const C* x, C* y) {
  return for_slabs(s, volumes, x, y, [&](const Slab<C>& slab, C* results, std::int64_t) {
    slab.for_results([&](std::int64_t o, const Window& wy, const Window& wx) {
      Vec<C> sum(C(0));
      slab.for_inputs(wy, wx, [&](const C* v, std::int64_t) { sum = sum + load(v); });
      store(results + o * planes_at_once<C>, sum / Vec<C>(divisor_of<C>(s, slab.z, wy, wx)));
    });
  });
}

// Calls f(begin, end) for ranges of volumes (samples times channels).
template <class F> void for_volumes(const VolumePoolShape& s, const View& v, F&& f) {
  parallel_for(v.size(0) * v.size(1),
               std::max<std::int64_t>(grain_size / 4 / std::max<std::int64_t>(s.in_pixels(), 1), 1), f);
}

}  // namespace

void max_pool3d(const VolumePoolShape& s, const View& y, const View& index, const View& x) {
  visit_compute(x.dtype, [&]<class C> {
    const Dense<C> from(x);
    DenseResult<C> to(y);
    DenseResult<std::int64_t> places(index);
    const std::int64_t done = max_slabs(s, x.size(0) * x.size(1), from.data(), to.data(), places.data());
    for_volumes(s, x, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t v = std::max(begin, done); v < end; ++v) {
        max_volume(s, from.data() + v * s.in_pixels(), to.data() + v * s.out_pixels(),
                   places.data() + v * s.out_pixels());
      }
    });
    to.finish();
    places.finish();
  });
}
void max_pool3d_backward(const VolumePoolShape& s, const View& dx, const View& g, const View& index) {
  visit_compute(dx.dtype, [&]<class C> {
    const Dense<C> from(g);
    const Dense<std::int64_t> places(index);
    DenseResult<C> to(dx);
    for_volumes(s, dx, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t v = begin; v < end; ++v) {
        const std::int64_t first = v * s.out_pixels();
        scatter_volume(s, from.data() + first, places.data() + first, to.data() + v * s.in_pixels());
      }
    });
    to.finish();
  });
}
void avg_pool3d(const VolumePoolShape& s, const View& y, const View& x) {
  visit_compute(x.dtype, [&]<class C> {
    const Dense<C> from(x);
    DenseResult<C> to(y);
    const bool whole = s.adaptive && s.out_pixels() == 1;  // one contiguous run
    const std::int64_t done = whole ? 0 : average_slabs(s, x.size(0) * x.size(1), from.data(), to.data());
    for_volumes(s, x, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t v = begin; whole && v < end; ++v)
        to.data()[v] = fold_run<Sum>(s.in_pixels(), from.data() + v * s.in_pixels()) / static_cast<C>(s.in_pixels());
      for (std::int64_t v = std::max(begin, done); !whole && v < end; ++v)
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
