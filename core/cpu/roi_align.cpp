// Averages over parts of rectangles (core/roi_align.h). Images are read and written channels-last, so that all channels
// of a pixel are one vector; results are turned region by region, in the cache. Forward work is cut by regions;
// backward, which adds to images, by images and groups of channels: each pixel gets its regions in order.
#include "core/roi_align.h"

#include <algorithm>
#include <vector>

#include "core/cpu/rows.h"
#include "core/parallel.h"

namespace mantissa::cpu_backend::MANTISSA_ISA {
namespace {

// What each bin takes of the pixels in one direction.
struct Shares {
  struct Bin {
    std::int64_t begin = 0, end = 0;  // pixels
    std::vector<double> share = {};   // of those
  };
  std::vector<Bin> bins;

  Shares(const RegionSpan& span, std::int64_t count, std::int64_t size) : bins(static_cast<std::size_t>(count)) {
    for (std::int64_t i = 0; i < count; ++i) {
      Bin& b = bins[static_cast<std::size_t>(i)];
      b.begin = size;
      span.for_shares(i, size, [&](std::int64_t pixel, double) {
        b.begin = std::min(b.begin, pixel), b.end = std::max(b.end, pixel + 1);
      });
      b.share.assign(static_cast<std::size_t>(std::max<std::int64_t>(b.end - b.begin, 0)), 0);
      span.for_shares(
          i, size, [&](std::int64_t pixel, double s) { b.share[static_cast<std::size_t>(pixel - b.begin)] += s; });
    }
  }
};

struct Region {
  std::int64_t picture;
  Shares rows, columns;
};

std::vector<Region> regions_of(const View& boxes, const View& x, const RegionReading& how) {
  std::vector<Region> all;
  for (std::int64_t k = 0; k < boxes.sizes[0]; ++k) {
    const double* box = boxes.as<const double>() + k * 5;
    check(box[0] >= 0 && box[0] < static_cast<double>(x.sizes[0]) && box[0] == std::floor(box[0]), "box ", k,
          " is of picture ", box[0], ", and x has ", x.sizes[0]);
    const RegionSpan spans[] = {{box, 0, how}, {box, 1, how}};
    check(spans[0].points >= 0 && spans[1].points >= 0, "the region of box ", k, " is not finite, or too large");
    all.push_back({static_cast<std::int64_t>(box[0]), Shares(spans[0], how.height, x.sizes[2]),
                   Shares(spans[1], how.width, x.sizes[3])});
  }
  return all;
}

// Calls f(bin, pixel, share) for every bin of a region and every pixel of which it takes something.
template <class T, class F> void for_pixels(const Region& region, std::int64_t w, const F& f) {
  std::int64_t bin = 0;
  for (const Shares::Bin& i : region.rows.bins) {
    for (const Shares::Bin& j : region.columns.bins) {
      for (std::int64_t r = i.begin; r < i.end; ++r) {
        const double of_row = i.share[static_cast<std::size_t>(r - i.begin)];
        for (std::int64_t q = j.begin; q < j.end; ++q)
          f(bin, r * w + q, static_cast<T>(of_row * j.share[static_cast<std::size_t>(q - j.begin)]));
      }
      ++bin;
    }
  }
}

// A buffer [bins, channels] as [channels, height, width], and the part of a region of y or g for those channels.
template <class T> View turned(T* buffer, std::int64_t channels, const RegionReading& how) {
  return {buffer, {channels, how.height, how.width}, {1, how.width * channels, channels}, dtype_of<T>, cpu};
}
template <class T>
View part_of(const View& y, std::int64_t k, std::int64_t first, std::int64_t channels, const RegionReading& how) {
  const std::int64_t bins = how.height * how.width;
  T* at = const_cast<T*>(y.as<const T>()) + (k * y.sizes[1] + first) * bins;
  return {at, {channels, how.height, how.width}, {bins, how.width, 1}, dtype_of<T>, cpu};
}

template <class T, bool by_position>
void forward(const View& y, const T* x, const View& sizes, const std::vector<Region>& regions,
             const RegionReading& how) {
  const std::int64_t channels = y.sizes[1], planes = sizes.sizes[1], h = sizes.sizes[2], w = sizes.sizes[3];
  const std::int64_t bins = how.height * how.width;
  parallel_for(y.sizes[0], 1, [&](std::int64_t from, std::int64_t to) {
    std::vector<T> sums(static_cast<std::size_t>(bins * channels));
    for (std::int64_t k = from; k < to; ++k) {
      const Region& region = regions[static_cast<std::size_t>(k)];
      std::fill(sums.begin(), sums.end(), T(0));
      for_pixels<T>(region, w, [&](std::int64_t bin, std::int64_t pixel, T share) {
        const T* in = x + (region.picture * h * w + pixel) * planes + (by_position ? bin : 0);
        T* sum = sums.data() + bin * channels;
        const std::int64_t step = by_position ? bins : 1;
        for (std::int64_t c = 0; c < channels; ++c) sum[c] += share * in[c * step];
      });
      copy(part_of<T>(y, k, 0, channels, how), turned(sums.data(), channels, how));
    }
  });
}

constexpr std::int64_t group = 64;  // channels that one thread adds to an image

template <class T, bool by_position>
void backward(T* dx, const View& g, const View& sizes, const std::vector<Region>& regions, const RegionReading& how) {
  const std::int64_t channels = g.sizes[1], planes = sizes.sizes[1], h = sizes.sizes[2], w = sizes.sizes[3];
  const std::int64_t bins = how.height * how.width, groups = (channels + group - 1) / group;
  parallel_for(sizes.sizes[0] * groups, 1, [&](std::int64_t from, std::int64_t to) {
    std::vector<T> gradient(static_cast<std::size_t>(bins * group));
    for (std::int64_t u = from; u < to; ++u) {
      const std::int64_t n = u / groups, first = u % groups * group, count = std::min(group, channels - first);
      const std::int64_t step = by_position ? bins : 1;
      T* image = dx + n * h * w * planes + first * step;
      for (std::int64_t p = 0; p < h * w; ++p) std::fill_n(image + p * planes, count * step, T(0));
      for (std::size_t k = 0; k < regions.size(); ++k) {
        if (regions[k].picture != n) continue;
        copy(turned(gradient.data(), count, how), part_of<T>(g, static_cast<std::int64_t>(k), first, count, how));
        for_pixels<T>(regions[k], w, [&](std::int64_t bin, std::int64_t pixel, T share) {
          T* out = image + pixel * planes + (by_position ? bin : 0);
          const T* of_bin = gradient.data() + bin * count;
          for (std::int64_t c = 0; c < count; ++c) out[c * step] += share * of_bin[c];
        });
      }
    }
  });
}

// Calls f with the element type, and whether bins read channels of their own.
template <class F> void visit(Dtype dtype, const RegionReading& how, const F& f) {
  const auto with = [&]<class T> {
    if (how.by_position) f.template operator()<T, true>();
    else f.template operator()<T, false>();
  };
  if (dtype == f32) with.template operator()<float>();
  else with.template operator()<double>();
}

bool is_last(const View& x) { return is_channels_last(x.sizes, x.strides); }
Tensor channels_last_like(const View& x) { return Tensor::allocate(x.sizes, x.dtype, cpu, Layout::channels_last); }

}  // namespace

void average_regions(const View& y, const View& x, const View& boxes, const RegionReading& how) {
  const std::vector<Region> regions = regions_of(boxes, x, how);
  Tensor last;
  if (!is_last(x)) copy((last = channels_last_like(x)).view(), x);
  visit(x.dtype, how, [&]<class T, bool by_position> {
    forward<T, by_position>(y, last.defined() ? last.data<T>() : x.as<const T>(), x, regions, how);
  });
}
void average_regions_gradient(const View& dx, const View& g, const View& boxes, const RegionReading& how) {
  const std::vector<Region> regions = regions_of(boxes, dx, how);
  Tensor last;
  if (!is_last(dx)) last = channels_last_like(dx);
  visit(dx.dtype, how, [&]<class T, bool by_position> {
    backward<T, by_position>(last.defined() ? last.data<T>() : dx.as<T>(), g, dx, regions, how);
  });
  if (last.defined()) copy(dx, last.view());
}

}  // namespace mantissa::cpu_backend::MANTISSA_ISA
