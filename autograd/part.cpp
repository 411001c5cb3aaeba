#include "autograd/part.h"

#include <algorithm>
#include <array>

namespace mantissa::autograd {
namespace {

std::int64_t place_in_storage(const Tensor& t) {  // offset in its storage, in elements
  const auto bytes = static_cast<const char*>(t.raw_data()) - static_cast<const char*>(t.storage()->data());
  return bytes / static_cast<std::int64_t>(size_of(t.dtype()));
}

// A tensor as rows, each a contiguous run of `length` elements; the first run starts at `begin`.
struct Runs {
  std::int64_t begin = 0, length = 1;
  Dims sizes, strides;  // of the rows

  Runs() = default;
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

bool gradients_in_place(std::span<const Tensor* const> x, std::span<Tensor> g) {
  std::array<Runs, 3> all_runs;
  check(x.size() <= all_runs.size() && x.size() == g.size(), "internal error: gradients in place of ", x.size(),
        " tensors");
  const std::span runs(all_runs.data(), x.size());
  const Tensor& first = *x[0];
  std::int64_t width = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!(x[i]->storage() == first.storage()) || x[i]->dtype() != first.dtype() || x[i]->numel() == 0) return false;
    runs[i] = Runs(*x[i]);
    if (!(runs[i].sizes == runs[0].sizes) || !(runs[i].strides == runs[0].strides)) return false;
    width += runs[i].length;
  }
  std::int64_t all = width;  // rows must be contiguous
  for (int d = runs[0].sizes.rank() - 1; d >= 0; --d) {
    if (runs[0].strides[d] != all) return false;
    all *= runs[0].sizes[d];
  }
  if (first.storage()->nbytes() != all * static_cast<std::int64_t>(size_of(first.dtype()))) return false;
  std::int64_t end = 0;  // and so must the runs within a row
  for (std::size_t found = 0; found < runs.size(); ++found) {
    const auto next = std::ranges::find(runs, end, &Runs::begin);
    if (next == runs.end()) return false;
    end += next->length;
  }
  const Tensor memory = Tensor::allocate({all}, first.dtype(), first.device());
  for (std::size_t i = 0; i < x.size(); ++i) g[i] = memory.raw_view(x[i]->sizes(), x[i]->strides(), runs[i].begin);
  return true;
}

}  // namespace mantissa::autograd
