#include "autograd/part.h"

#include <algorithm>

namespace mantissa::autograd {
namespace {

std::int64_t place_in_storage(const Tensor& t) {  // in elements
  const auto bytes = static_cast<const char*>(t.raw_data()) - static_cast<const char*>(t.storage()->data());
  return bytes / static_cast<std::int64_t>(size_of(t.dtype()));
}

// A tensor as rows of `length` elements that lie side by side, of which the first begins at `begin`.
struct Runs {
  std::int64_t begin, length = 1;
  Dims sizes, strides;  // of the rows

  explicit Runs(const Tensor& t) : begin(place_in_storage(t)) {
    int rows = t.dim();
    for (; rows > 0; --rows) {
      const std::int64_t size = t.sizes()[rows - 1];
      if (size != 1 && t.strides()[rows - 1] != length) break;
      length *= size;
    }
    for (int d = 0; d < rows; ++d) {
      if (t.sizes()[d] == 1) continue;
      sizes.push_back(t.sizes()[d]);
      strides.push_back(t.strides()[d]);
    }
  }
};

}  // namespace

bool lies_in_place(const Tensor& g, const Part& part) {
  if (part.step != 1 || g.numel() == 0) return false;
  const Dims strides = dense_strides(part.sizes, Layout::contiguous);
  for (int d = 0; d < g.dim(); ++d) {
    if (g.sizes()[d] > 1 && g.strides()[d] != strides[d]) return false;
  }
  return g.storage()->nbytes() == checked_nbytes(part.sizes, g.dtype()) &&
         place_in_storage(g) == part.begin * strides[part.dim];
}

Tensor whole_around(const Tensor& g, const Part& part) {
  Tensor whole = g.detach();
  whole.impl()->data = g.storage()->data();
  whole.impl()->sizes = part.sizes;
  whole.impl()->strides = dense_strides(part.sizes, Layout::contiguous);
  return whole;
}

std::vector<Tensor> gradients_in_place(std::span<const Tensor* const> x) {
  const Tensor& first = *x[0];
  std::vector<Runs> runs;
  for (const Tensor* t : x) {
    if (!(t->storage() == first.storage()) || t->dtype() != first.dtype() || t->numel() == 0) return {};
    runs.emplace_back(*t);
    if (!(runs.back().sizes == runs[0].sizes) || !(runs.back().strides == runs[0].strides)) return {};
  }
  std::int64_t width = 0, all = 1;
  for (const Runs& r : runs) width += r.length;
  for (int d = runs[0].sizes.rank() - 1; d >= 0; --d) {
    if (runs[0].strides[d] != width * all) return {};
    all *= runs[0].sizes[d];
  }
  if (first.storage()->nbytes() != width * all * static_cast<std::int64_t>(size_of(first.dtype()))) return {};
  std::vector<const Runs*> in_order;
  for (const Runs& r : runs) in_order.push_back(&r);
  std::ranges::sort(in_order, {}, &Runs::begin);
  std::int64_t end = 0;
  for (const Runs* r : in_order) {
    if (r->begin != end) return {};
    end += r->length;
  }
  const Tensor memory = Tensor::allocate({width * all}, first.dtype(), first.device());
  std::vector<Tensor> g;
  for (std::size_t i = 0; i < x.size(); ++i)
    g.push_back(memory.as_strided(x[i]->sizes(), x[i]->strides(), runs[i].begin));
  return g;
}

}  // namespace mantissa::autograd
