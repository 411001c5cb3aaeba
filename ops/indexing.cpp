// Indexing by tensors, numbers and slices together (core/indexing.h): numbers and slices give a view; its dimensions
// that are indexed by tensors are moved to the front, where `index` expects them.
#include "core/indexing.h"

#include <algorithm>
#include <cstddef>

#include "autograd/grad_mode.h"
#include "core/kernel.h"
#include "core/ops.h"
#include "core/ops_special.h"
#include "ops/apply.h"

namespace mantissa {

MANTISSA_KERNEL(check_indices, const View& index, std::int64_t size)
MANTISSA_KERNEL(scatter, const View& y, int dim, const View& index, const View& source)
MANTISSA_KERNEL(scatter_add, const View& y, int dim, const View& index, const View& source)

namespace {

struct Picked {
  Tensor view;                  // after the number and slice entries
  std::vector<int> dims;        // of the view: dimensions indexed by tensors
  std::vector<Tensor> indices;  // one i64 tensor per dimension
};

int dims_taken(const AnyIndex& e) {
  if (!e.is_tensor()) return e.plain().kind == Index::integer || e.plain().kind == Index::range ? 1 : 0;
  return e.tensor().dtype() == boolean ? e.tensor().dim() : 1;
}

// PyTorch treats a 0-d index tensor as a number, which affects whether the other index tensors are adjacent. If all are
// adjacent anyway it stays a tensor, which avoids a device synchronization.
std::vector<AnyIndex> with_numbers(std::initializer_list<AnyIndex> entries) {
  std::vector<AnyIndex> all(entries);
  const auto is_tensor = [](const AnyIndex& e) { return e.is_tensor(); };
  const auto first = std::find_if(all.begin(), all.end(), is_tensor);
  const auto last = std::find_if(all.rbegin(), all.rend(), is_tensor).base();
  if (first == all.end() || std::all_of(first, last, is_tensor)) return all;
  for (AnyIndex& e : all)
    if (e.is_tensor() && e.tensor().dim() == 0 && e.tensor().dtype() == i64) e = e.tensor().item<std::int64_t>();
  return all;
}

Picked pick(const char* name, const Tensor& x, std::initializer_list<AnyIndex> given) {
  for (const AnyIndex& e : given) check(!e.is_tensor() || e.tensor().defined(), name, ": an index tensor is undefined");
  const std::vector<AnyIndex> entries = with_numbers(given);
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

// The view with the tensor-indexed dimensions moved to the front.
Tensor picked_in_front(const Picked& p) {
  Dims order;
  for (const int d : p.dims) order.push_back(d);
  for (int d = 0; d < p.view.dim(); ++d)
    if (std::find(p.dims.begin(), p.dims.end(), d) == p.dims.end()) order.push_back(d);
  return permute(p.view, order);
}
// Moves the indexed dimensions of y, [indexed..., rest...], to where PyTorch puts them.
Tensor moved_back(const Picked& p, const Tensor& y) {
  const int count = static_cast<int>(p.dims.size()), first = p.dims[0];
  if (first == 0 || p.dims.back() - first != count - 1) return y;
  const int picked = y.dim() - (p.view.dim() - count);  // dimensions of the broadcast indices
  Dims back;
  for (int d = 0; d < first; ++d) back.push_back(picked + d);
  for (int d = 0; d < picked; ++d) back.push_back(d);
  for (int d = picked + first; d < y.dim(); ++d) back.push_back(d);
  return permute(y, back);
}

// The i64 memory offset, from the view's first element, of each selected element.
Tensor memory_places(const Picked& p) {
  const Tensor v = picked_in_front(p);
  const Device device = v.device();
  const TensorOptions integers{.dtype = i64, .device = device};
  const auto number = [&](std::int64_t n) { return full({}, static_cast<double>(n), integers); };
  const int count = static_cast<int>(p.indices.size());
  Tensor places = number(0);
  for (int k = 0; k < count; ++k) {
    const Tensor& given = p.indices[static_cast<std::size_t>(k)];
    const Tensor at = where(given < 0, given + number(v.size(k)), given);
    kernels::check_indices(device, at.view(), v.size(k));
    const Tensor offset = at * number(v.stride(k));
    places = places + offset;
  }
  for (int d = count; d < v.dim(); ++d)
    places = places.unsqueeze(-1) + arange(v.size(d), integers) * number(v.stride(d));
  return count == 0 ? places : moved_back(p, places);
}

// The index vector if it is the only one, has no negative entries and all other entries are numbers or slices: then
// whole slices of the view are selected along one dimension, and no element offsets are needed. Undefined otherwise.
Tensor one_vector(const Picked& p) {
  if (p.indices.size() != 1 || p.indices[0].dim() != 1) return {};
  const Tensor& given = p.indices[0];
  const std::int64_t size = p.view.size(p.dims[0]);
  const Tensor at = where(given < 0, given + Tensor(size), given);
  kernels::check_indices(at.device(), at.view(), size);
  return at;
}
Dims picked_sizes(const Picked& p, const Tensor& vector) {
  Dims sizes = p.view.sizes();
  sizes[p.dims[0]] = vector.numel();
  return sizes;
}

void check_values(const char* name, const Tensor& x, const Dims& picked, const Tensor& values) {
  check(values.dtype() == x.dtype(), name, ": the values are ", values, " and x ", x, "; cast one with to()");
  check(values.device() == x.device(), name, ": the values are on ", values.device(), " and x on ", x.device(),
        "; move one with to()");
  bool fits = values.dim() <= picked.rank();
  for (int d = 1; fits && d <= values.dim(); ++d)
    fits = values.size(-d) == 1 || values.size(-d) == picked[picked.rank() - d];
  check(fits, name, ": the values ", values, " do not broadcast to the picked ", picked,
        " of x ", x);
}

// Adds this call to the message of any error that `f` throws.
template <class F> Tensor told(const char* name, const Tensor& x, F f) {
  try {
    return f();
  } catch (Error& e) {
    e.add_outer_context(concat(name, " of x ", x));
    throw;
  }
}

}  // namespace

Tensor index(const Tensor& x, std::initializer_list<AnyIndex> entries) {
  const Picked p = pick("index", x, entries);
  if (p.indices.empty()) return p.view;
  return moved_back(p, index(picked_in_front(p), std::span<const Tensor>(p.indices)));
}

Tensor index_put(const Tensor& x, std::initializer_list<AnyIndex> entries, const Tensor& values, bool accumulate) {
  const Tensor flat = x.detach().contiguous();
  const Picked p = pick("index_put", flat, entries);
  const Tensor rows = p.view.sizes() == x.sizes() ? told("index_put", x, [&] { return one_vector(p); }) : Tensor();
  if (rows.defined()) {
    const Dims sizes = picked_sizes(p, rows);
    check_values("index_put", x, sizes, values);
    const Tensor source = contiguous(broadcast_to(values, sizes));
    return accumulate ? index_add(x, p.dims[0], rows, source) : index_copy(x, p.dims[0], rows, source);
  }
  const auto before = static_cast<const char*>(p.view.raw_data()) - static_cast<const char*>(flat.raw_data());
  const auto first = static_cast<double>(before / static_cast<std::ptrdiff_t>(size_of(x.dtype())));
  const Tensor places = told("index_put", x, [&] { return memory_places(p); }) +
                        full({}, first, {.dtype = i64, .device = x.device()});
  check_values("index_put", x, places.sizes(), values);
  return put(x, places, broadcast_to(values, places.sizes()), accumulate);
}
Tensor index_put(const Tensor& x, std::initializer_list<AnyIndex> entries, double value, bool accumulate) {
  return index_put(x, entries, full({}, value, {.dtype = x.dtype(), .device = x.device()}), accumulate);
}

void index_put_(const Tensor& x, std::initializer_list<AnyIndex> entries, const Tensor& values, bool accumulate) {
  check(x.defined(), "index_put_: x is undefined");
  check(!x.requires_grad() || !grad_enabled(), "index_put_: ", x,
        " needs a gradient and in-place changes are not recorded; use index_put, or a NoGrad scope");
  check(!values.defined() || values.is_leaf() || !grad_enabled(), "index_put_: ", values,
        " was computed with a gradient, which writing it into ", x,
        " does not record; use index_put, or what the gradient is not wanted of, detach()");
  const NoGrad no_grad;
  const Picked p = pick("index_put_", x, entries);
  if (p.indices.empty()) {  // numbers and slices only: a view
    check_values("index_put_", x, p.view.sizes(), values);
    Tensor view = p.view;
    if (accumulate) view.add_(values);
    else view.copy_(values);
    return;
  }
  const Tensor rows = told("index_put_", x, [&] { return one_vector(p); });
  // Memory offset of each element from the view's first one.
  const Tensor places = rows.defined() ? Tensor() : told("index_put_", x, [&] { return memory_places(p); });
  const Dims sizes = rows.defined() ? picked_sizes(p, rows) : places.sizes();
  check_values("index_put_", x, sizes, values);
  std::int64_t span = 1;
  for (int d = 0; d < p.view.dim(); ++d) {
    check(p.view.stride(d) != 0 || p.view.size(d) <= 1, "index_put_: ", x,
          " is expanded: several of its elements are one in memory; write to a clone()");
    span += (p.view.size(d) - 1) * p.view.stride(d);
  }
  if (numel_of(sizes) == 0) return;
  x.storage()->written_by("index_put_");
  Tensor source = broadcast_to(values, sizes), to = p.view, at;
  const int dim = rows.defined() ? p.dims[0] : 0;
  if (rows.defined()) {
    Dims along = Dims::filled(sizes.rank(), 1);
    along[dim] = rows.numel();
    at = expand(reshape(rows, along), sizes), source = contiguous(source);
  } else {
    to = p.view.raw_view({span}, {1}), at = flatten(places), source = source.reshape(-1);
  }
  if (source.storage() == x.storage()) source = source.clone();  // x[rows] = x[others]
  if (accumulate) kernels::scatter_add(x.device(), to.view(), dim, at.view(), source.view());
  else kernels::scatter(x.device(), to.view(), dim, at.view(), source.view());
}
void index_put_(const Tensor& x, std::initializer_list<AnyIndex> entries, double value, bool accumulate) {
  index_put_(x, entries, full({}, value, {.dtype = x.dtype(), .device = x.device()}), accumulate);
}

std::vector<Tensor> where(const Tensor& condition) { return unbind(nonzero(condition), 1); }

}  // namespace mantissa
