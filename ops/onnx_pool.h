// Pooling of images and volumes in ONNX. A last window added by ceil_mode is exported as padding at the end, because
// ONNX's own ceil_mode has different rules.
#pragma once

#include <array>
#include <vector>

#include "ops/onnx.h"

namespace mantissa {

template <std::size_t n> struct OnnxPool {
  std::array<int, n> kernel, padding, dilation;
  std::array<std::int64_t, n> stride;
  bool count_padding = true;

  using Ints = std::vector<std::int64_t>;
  template <class T> static Ints ints(const T& v) { return Ints(v.begin(), v.end()); }
  // Elements past the end of the padded x that the windows cover; they do not count in averages.
  Ints overhang(const Dims& x, const Dims& y) const {
    Ints over;
    for (std::size_t d = 0; d < n; ++d) {
      const int at = static_cast<int>(d) + 2;
      const std::int64_t extent = std::int64_t{kernel[d] - 1} * dilation[d] + 1;
      over.push_back(std::max<std::int64_t>((y[at] - 1) * stride[d] + extent - x[at] - 2 * padding[d], 0));
    }
    return over;
  }
  std::vector<OnnxAttribute> attributes(const Ints& front, const Ints& behind) const {
    Ints pads = front;
    pads.insert(pads.end(), behind.begin(), behind.end());
    return {{"kernel_shape", ints(kernel)}, {"strides", ints(stride)}, {"pads", pads}};
  }

  OnnxId max(OnnxCall& c) const {
    const Ints front = ints(padding);
    Ints behind = overhang(c.x(0).sizes(), c.y().sizes());
    for (std::size_t d = 0; d < n; ++d) behind[d] += padding[d];
    auto a = attributes(front, behind);
    a.emplace_back("dilations", ints(dilation));
    const auto y = c.nodes("MaxPool", {c.in(0)}, std::move(a), 2);
    if (c.outputs() > 1 && c.y(1).dtype() == i64) {  // indices per plane here, but into the whole tensor in ONNX
      std::int64_t plane = 1;
      for (int d = 2; d < c.x(0).dim(); ++d) plane *= c.x(0).size(d);
      c.result(c.node("Mod", {y[1], c.constant(scalar(static_cast<double>(plane), {.dtype = i64}))}), 1);
    }
    return y[0];
  }
  OnnxId average(OnnxCall& c) const {
    Ints front = ints(padding), behind = front, over = overhang(c.x(0).sizes(), c.y().sizes());
    bool hangs_over = false;
    for (const std::int64_t o : over) hangs_over = hangs_over || o > 0;
    if (!hangs_over) {
      auto a = attributes(front, behind);
      a.emplace_back("count_include_pad", count_padding);
      return c.node("AveragePool", {c.in(0)}, std::move(a));
    }
    OnnxId x = c.in(0);
    if (count_padding) {  // first the zeros that count, then the padding that does not
      Ints borders{0, 0};
      borders.insert(borders.end(), front.begin(), front.end());
      borders.insert(borders.end(), {0, 0});
      borders.insert(borders.end(), front.begin(), front.end());
      x = c.node("Pad", {x, c.ints(borders), c.number(0, c.x(0).dtype())});
      front.assign(n, 0);
      behind.assign(n, 0);
    }
    for (std::size_t d = 0; d < n; ++d) behind[d] += over[d];
    return c.node("AveragePool", {x}, attributes(front, behind));
  }
};

}  // namespace mantissa
