// Indexing by tensors, numbers and slices together (core/indexing.h): the plain entries give a view, whose dimensions
// that tensors pick from are brought to the front, where `index` wants them.
#include "core/indexing.h"

#include <algorithm>

#include "core/ops.h"
#include "core/ops_special.h"
#include "ops/apply.h"

namespace mantissa {
namespace {

struct Picked {
  Tensor view;                  // by the entries that are no tensors
  std::vector<int> dims;        // of the view, where tensors pick
  std::vector<Tensor> indices;  // one i64 tensor for each
};

int dims_taken(const AnyIndex& e) {
  if (!e.is_tensor()) return e.plain().kind == Index::integer || e.plain().kind == Index::range ? 1 : 0;
  return e.tensor().dtype() == boolean ? e.tensor().dim() : 1;
}

Picked pick(const char* name, const Tensor& x, std::initializer_list<AnyIndex> entries) {
  int taken = 0, rests = 0;
  for (const AnyIndex& e : entries) {
    taken += dims_taken(e);
    if (!e.is_tensor() && e.plain().kind == Index::rest) ++rests;
  }
  check(taken <= x.dim(), name, ": the entries are for ", taken, " dimensions, x is ", x);
  check(rests <= 1, name, ": there is more than one ellipsis");
  Picked p{x, {}, {}};
  int d = 0;
  for (const AnyIndex& e : entries) {
    if (!e.is_tensor()) {
      const Index& i = e.plain();
      switch (i.kind) {
        case Index::integer:
          p.view = select(p.view, d, i.begin);
          break;
        case Index::range:
          p.view = slice(p.view, d++, i.begin, i.end, i.step);
          break;
        case Index::axis:
          p.view = unsqueeze(p.view, d++);
          break;
        case Index::rest:
          d += x.dim() - taken;
          break;
      }
      continue;
    }
    const Tensor& t = e.tensor();
    if (t.dtype() != boolean) {
      check(t.dtype() == i64, name, ": a tensor of indices must be i64 or bool, got ", t);
      p.dims.push_back(d++);
      p.indices.push_back(t);
      continue;
    }
    check(t.dim() > 0, name, ": a mask needs at least one dimension, got ", t);
    for (int k = 0; k < t.dim(); ++k)
      check(t.size(k) == p.view.size(d + k), name, ": the mask ", t, " has size ", t.size(k), " where x has ",
            p.view.size(d + k));
    const Tensor places = nonzero(t);
    for (int k = 0; k < t.dim(); ++k) {
      p.dims.push_back(d++);
      p.indices.push_back(select(places, 1, k));
    }
  }
  return p;
}

}  // namespace

Tensor index(const Tensor& x, std::initializer_list<AnyIndex> entries) {
  const Picked p = pick("index", x, entries);
  if (p.indices.empty()) return p.view;
  const int count = static_cast<int>(p.dims.size()), first = p.dims[0];
  Dims order;
  for (const int d : p.dims) order.push_back(d);
  for (int d = 0; d < p.view.dim(); ++d)
    if (std::find(p.dims.begin(), p.dims.end(), d) == p.dims.end()) order.push_back(d);
  const Tensor y = index(permute(p.view, order), std::span<const Tensor>(p.indices));
  if (first == 0 || p.dims.back() - first != count - 1) return y;
  const int picked = y.dim() - (p.view.dim() - count);  // dimensions of the broadcast indices
  Dims back;
  for (int d = 0; d < first; ++d) back.push_back(picked + d);
  for (int d = 0; d < picked; ++d) back.push_back(d);
  for (int d = picked + first; d < y.dim(); ++d) back.push_back(d);
  return permute(y, back);
}

Tensor index_put(const Tensor& x, std::initializer_list<AnyIndex> entries, const Tensor& values, bool accumulate) {
  const Tensor numbers = arange(x.numel(), {.dtype = i64, .device = x.device()}).reshape(x.sizes());
  const Tensor places = index(numbers, entries);
  check(values.dtype() == x.dtype(), "index_put: the values are ", values.dtype(), " and x ", x.dtype(),
        "; cast one with to()");
  check(values.dim() <= places.dim(), "index_put: the values ", values, " do not broadcast to the picked ",
        places.sizes());
  return put(x, places, broadcast_to(values, places.sizes()), accumulate);
}
Tensor index_put(const Tensor& x, std::initializer_list<AnyIndex> entries, double value) {
  return index_put(x, entries, full({}, value, {.dtype = x.dtype(), .device = x.device()}));
}

}  // namespace mantissa
