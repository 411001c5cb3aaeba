// Separable linear maps of images and volumes (core/resample.h) in one pass, whatever the number of dimensions. A
// thread makes an element of the result, or eight channels of a channels-last pixel, for one plane after another: it
// reads taps once and keeps them in registers, unless there are more than two along a dimension. Maps that select
// elements copy words of up to 16 bytes. Sums are those of core/cpu/resample.cpp.
#include "core/resample.h"

#include "cuda/rows.cuh"
#include "cuda/runtime.h"
#include "cuda/split.cuh"

namespace mantissa::cuda_backend {
namespace {

struct Line {
  const std::int64_t *start = nullptr, *at = nullptr;  // no `at`: the identity
  const void* weight = nullptr;
};

struct Shape {
  Line lines[3];  // of depth, rows and columns
  std::int64_t in[3], out[3];
  std::int64_t planes, pixel;  // `pixel` neighbours share a position: channels, or what no map changes
  Shape(const View& y, const View& x, const LineMaps& maps, bool last) {
    const int first = y.sizes.rank() == 4 ? 1 : 0;  // images have no depth
    for (int d = 0; d < 3; ++d) {
      in[d] = d < first ? 1 : x.sizes[d - first + 2];
      out[d] = d < first ? 1 : y.sizes[d - first + 2];
      const LineMap& m = maps[static_cast<std::size_t>(d)];
      if (m.taps) lines[d] = {m.start.as<const std::int64_t>(), m.at.as<const std::int64_t>(), m.weight.data};
    }
    planes = y.sizes[0] * (last ? 1 : y.sizes[1]);
    pixel = last ? y.sizes[1] : 1;
    for (int d = 2; d >= 0 && !lines[d].at; --d) pixel *= std::exchange(in[d], out[d] = 1);
    if (!lines[0].at) planes *= std::exchange(in[0], out[0] = 1);
  }
  std::int64_t positions() const { return out[0] * out[1] * out[2]; }
};

// Maps a thread index to a position and the first of `width` neighbours there; planes are dealt to blockIdx.y.
struct Walk {
  Shape shape;
  std::int64_t count, width;  // count: threads for a plane
  Split slots, areas, rows;
  Walk(const Shape& s, std::int64_t w)
      : shape(s), count(s.positions() * s.pixel / w), width(w), slots(s.pixel / w, count),
        areas(s.out[1] * s.out[2], count), rows(s.out[2], count) {}

  struct Place {
    std::int64_t index[3];
    std::int64_t position, first;
  };
  __device__ Place operator()(std::int64_t i) const {
    const Split::Parts slot = slots(i), area = areas(slot.quotient), row = rows(area.rest);
    return {{area.quotient, row.quotient, row.rest}, slot.quotient, slot.rest * width};
  }
  // Of what is at z, y, x of a plane of the input.
  __device__ std::int64_t source(std::int64_t plane, std::int64_t z, std::int64_t y, std::int64_t x) const {
    return (((plane * shape.in[0] + z) * shape.in[1] + y) * shape.in[2] + x) * shape.pixel;
  }
  __device__ std::int64_t result(std::int64_t plane, const Place& to) const {
    return (plane * count + to.position * (shape.pixel / width)) * width + to.first;
  }
  // Few threads for each plane take several planes, so that taps are read for all of them, but every multiprocessor
  // gets some.
  Grid grid() const {
    int threads = 32;
    while (threads < block_size && threads < count) threads *= 2;
    Grid g = grid_for(count, 1, threads);
    const std::int64_t wanted = 16 * std::int64_t{multiprocessors()} / std::max<std::int64_t>(g.blocks.x, 1) + 1;
    g.blocks.y = static_cast<unsigned>(std::min<std::int64_t>({shape.planes, wanted, 65535}));
    if (g.blocks.y == 0) g.blocks.x = 0;
    return g;
  }
};

// The taps of one result along a line. most: how many are kept; 0: any number, which each call reads anew.
template <class C, int most> struct LineTaps {
  int count = 1;
  std::int64_t at[most];
  C weight[most];
  __device__ LineTaps(const Line& line, std::int64_t i) {
    at[0] = i;
    weight[0] = 1;
    if (!line.at) return;
    const std::int64_t begin = line.start[i];
    count = static_cast<int>(line.start[i + 1] - begin);
#pragma unroll
    for (int k = 0; k < most; ++k) {
      if (k < count) at[k] = line.at[begin + k], weight[k] = static_cast<const C*>(line.weight)[begin + k];
    }
  }
  template <class F> __device__ void each(F&& f) const {
#pragma unroll
    for (int k = 0; k < most; ++k)
      if (k < count) f(at[k], weight[k]);
  }
};
template <class C> struct LineTaps<C, 0> {
  const Line& line;
  std::int64_t i, begin = 0, end = 0;
  __device__ LineTaps(const Line& l, std::int64_t i) : line(l), i(i) {
    if (line.at) begin = line.start[i], end = line.start[i + 1];
  }
  template <class F> __device__ void each(F&& f) const {
    if (!line.at) return f(i, C(1));
    for (std::int64_t k = begin; k < end; ++k) f(line.at[k], static_cast<const C*>(line.weight)[k]);
  }
};

template <class C, int width, int most> __global__ void sum_taps(Walk walk, RowOperand y, RowOperand x) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= walk.count) return;
  const Walk::Place to = walk(i);
  const LineTaps<C, most> depth(walk.shape.lines[0], to.index[0]), rows(walk.shape.lines[1], to.index[1]),
      columns(walk.shape.lines[2], to.index[2]);
  for (std::int64_t plane = blockIdx.y; plane < walk.shape.planes; plane += gridDim.y) {
    C sum[width] = {};
    depth.each([&](std::int64_t z, C of_area) {
      C area[width] = {};
      columns.each([&](std::int64_t column, C of_line) {
        C line[width] = {};
        rows.each([&](std::int64_t row, C weight) {
          C v[width];
          load_slot(v, x, walk.source(plane, z, row, column) + to.first);
#pragma unroll
          for (int k = 0; k < width; ++k) line[k] += weight * v[k];
        });
#pragma unroll
        for (int k = 0; k < width; ++k) area[k] += of_line * line[k];
      });
#pragma unroll
      for (int k = 0; k < width; ++k) sum[k] += of_area * area[k];
    });
    store_slot(y, walk.result(plane, to), sum);
  }
}

template <class Word> __global__ void choose(Walk walk, Word* y, const Word* x) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= walk.count) return;
  const Walk::Place to = walk(i);
  std::int64_t at[3];
#pragma unroll
  for (int d = 0; d < 3; ++d) at[d] = walk.shape.lines[d].at ? walk.shape.lines[d].at[to.index[d]] : to.index[d];
  for (std::int64_t plane = blockIdx.y; plane < walk.shape.planes; plane += gridDim.y)
    y[walk.result(plane, to)] = x[walk.source(plane, at[0], at[1], at[2]) + to.first];
}

using Word16 = Neighbours<std::uint64_t, 2>;

void choose_words(const Shape& elements, const View& y, const View& x) {
  const auto bytes = static_cast<std::int64_t>(size_of(y.dtype)), pixel = elements.pixel * bytes;
  const auto run = [&]<class Word>(Word) {
    Shape words = elements;
    words.pixel = pixel / static_cast<std::int64_t>(sizeof(Word));
    const Walk walk(words, 1);
    launch("resample", &choose<Word>, walk.grid(), walk, static_cast<Word*>(y.data), static_cast<const Word*>(x.data));
  };
  const auto fits = [&](std::int64_t word) {
    return pixel % word == 0 && reinterpret_cast<std::uintptr_t>(y.data) % static_cast<std::uintptr_t>(word) == 0 &&
           reinterpret_cast<std::uintptr_t>(x.data) % static_cast<std::uintptr_t>(word) == 0;
  };
  if (fits(16)) run(Word16());
  else if (bytes == 1) run(std::uint8_t());
  else if (bytes == 2) run(std::uint16_t());
  else if (bytes == 4) run(std::uint32_t());
  else run(std::uint64_t());
}

template <int most> void sum_elements(const Shape& shape, const View& y, const View& x) {
  const Dtype compute = compute_dtype(y.dtype);
  const auto run = [&]<class C, int width>() {
    const Walk walk(shape, width);
    launch("resample", &sum_taps<C, width, most>, walk.grid(), walk, operand(y), operand(x));
  };
  if (compute == f64) run.template operator()<double, 1>();
  else if (plan_rows(shape.pixel, {x, y}, compute).packs) run.template operator()<float, pack>();
  else run.template operator()<float, 1>();
}

}  // namespace

void resample(const View& y, const View& x, const LineMaps& maps) {
  if (y.numel() == 0) return;
  const Layout layout = y.layout();
  const DenseInput from(x, layout);
  const Shape shape(y, from.view, maps, layout == Layout::channels_last);
  bool chooses = true;
  std::int64_t most = 1;
  for (const LineMap& m : maps) {
    if (!m.taps) continue;
    chooses = chooses && m.taps->only_chooses();
    for (std::size_t i = 0; i + 1 < m.taps->start.size(); ++i)
      most = std::max(most, m.taps->start[i + 1] - m.taps->start[i]);
  }
  if (chooses) choose_words(shape, y, from.view);
  else if (most <= 2) sum_elements<2>(shape, y, from.view);
  else sum_elements<0>(shape, y, from.view);
}

}  // namespace mantissa::cuda_backend
