// Shape functions composed of other views: movedim, unflatten, windows along a dimension, broadcasting, atleast_1d to
// 3d, meshgrid. Read first: ops/view.cpp.
#include "core/ops_special.h"
#include "ops/apply.h"
#include "ops/device_table.h"
#include "ops/named.h"
#include "ops/registry.h"

namespace mantissa {

Tensor movedim(const Tensor& x, const Dims& source, const Dims& destination) {
  check(source.rank() == destination.rank(), "movedim: ", source.rank(), " dimensions to ", destination.rank(),
        " places");
  Dims order = Dims::filled(x.dim(), -1);
  bool moved[Dims::max_rank] = {};
  for (int i = 0; i < source.rank(); ++i) {
    const int from = named_dim("movedim", x, source[i]), to = named_dim("movedim", x, destination[i]);
    check(!moved[from] && order[to] < 0, "movedim: source ", source, " or destination ", destination,
          " names a dimension twice");
    moved[from] = true;
    order[to] = from;
  }
  for (int to = 0, from = 0; to < x.dim(); ++to) {
    if (order[to] >= 0) continue;
    while (moved[from]) ++from;
    order[to] = from++;
  }
  return permute(x, order);
}
Tensor unflatten(const Tensor& x, int dim, const Dims& sizes) {
  const int d = named_dim("unflatten", x, dim);
  check(x.dim() > 0, "unflatten: a scalar has no dimensions");
  const Dims parts = named("unflatten", x, [&] { return infer_shape(sizes, x.sizes()[d]); });
  Dims shape;
  for (int i = 0; i < d; ++i) shape.push_back(x.sizes()[i]);
  for (std::int64_t s : parts) shape.push_back(s);
  for (int i = d + 1; i < x.dim(); ++i) shape.push_back(x.sizes()[i]);
  return reshape(x, shape);
}
Tensor unfold(const Tensor& x, int dim, std::int64_t size, std::int64_t step) {
  check(x.dim() > 0, "unfold: a scalar has no dimensions");
  const int d = named_dim("unfold", x, dim);
  const std::int64_t n = x.sizes()[d];
  check(size >= 0 && size <= n && step > 0, "unfold: windows of ", size, " with step ", step,
        " do not fit into dimension ", dim, " of ", x);
  const std::int64_t windows = (n - size) / step + 1;
  std::vector<std::int64_t> at;
  for (std::int64_t w = 0; w < windows; ++w) for (std::int64_t i = 0; i < size; ++i) at.push_back(w * step + i);
  const Tensor picked = index_select(x, d, device_table(at, {windows * size}, x.device()));
  return movedim(unflatten(picked, d, {windows, size}), {d + 1}, {-1});
}
Tensor broadcast_to(const Tensor& x, const Dims& shape) { return expand(x, shape); }
std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors) {
  check(!tensors.empty(), "broadcast_tensors: needs at least one tensor");
  Dims sizes;
  for (const Tensor& t : tensors) sizes = broadcast(sizes, t.sizes());
  std::vector<Tensor> all;
  for (const Tensor& t : tensors) all.push_back(expand(t, sizes));
  return all;
}
Tensor atleast_1d(const Tensor& x) { return x.dim() == 0 ? reshape(x, {1}) : x; }
Tensor atleast_2d(const Tensor& x) { return x.dim() == 0 ? reshape(x, {1, 1}) : x.dim() == 1 ? unsqueeze(x, 0) : x; }
Tensor atleast_3d(const Tensor& x) { return x.dim() > 2 ? x : unsqueeze(atleast_2d(x), 2); }
std::vector<Tensor> meshgrid(std::span<const Tensor> tensors, std::string_view indexing) {
  check(indexing == "ij" || indexing == "xy", "meshgrid: indexing must be \"ij\" or \"xy\", got \"", indexing, "\"");
  const int n = static_cast<int>(tensors.size());
  check(n > 0, "meshgrid: needs at least one tensor");
  const bool swapped = indexing == "xy" && n >= 2;
  const auto axis_of = [=](int k) { return swapped && k < 2 ? 1 - k : k; };
  Dims sizes = Dims::filled(n, 1);
  for (int k = 0; k < n; ++k) {
    const Tensor& t = tensors[static_cast<std::size_t>(k)];
    check(t.dim() <= 1, "meshgrid: needs tensors of at most 1 dimension, got ", t);
    sizes[axis_of(k)] = t.numel();
  }
  std::vector<Tensor> grids;
  for (int k = 0; k < n; ++k) {
    Dims line = Dims::filled(n, 1);
    line[axis_of(k)] = sizes[axis_of(k)];
    grids.push_back(expand(reshape(tensors[static_cast<std::size_t>(k)], line), sizes));
  }
  return grids;
}

namespace {

void movedim_samples(Samples& s) {
  s.call({s.randn({2, 3, 4})}, [](const Tensors& x) { return movedim(x[0], {0, -1}, {1, 0}); });
  s.error_call(
      {s.randn({2, 3})},
      [](const Tensors& x) {
        return movedim(x[0], {0, 0}, {1, 0});
      },
      "names a dimension twice");
  s.error_call(
      {s.randn({2, 3})},
      [](const Tensors& x) {
        return movedim(x[0], {0}, {1, 0});
      },
      "1 dimensions to 2 places");
}
void unflatten_samples(Samples& s) {
  s.call({s.randn({2, 6, 2})}, [](const Tensors& x) { return unflatten(x[0], 1, {2, -1}); });
  s.error_call(
      {s.randn({2, 6})},
      [](const Tensors& x) {
        return unflatten(x[0], 1, {4, -1});
      },
      "shape [4, -1] does not divide 6 elements");
}
void unfold_windows_samples(Samples& s) {
  s.call({s.randn({2, 7, 2})}, [](const Tensors& x) { return unfold(x[0], 1, 3, 2); });
  s.call({s.randn({5})}, [](const Tensors& x) { return unfold(x[0], 0, 5, 1); });
  s.error_call(
      {s.randn({5})}, [](const Tensors& x) { return unfold(x[0], 0, 6, 1); }, "windows of 6 with step 1 do not fit");
}
void broadcast_to_samples(Samples& s) {
  s.call({s.randn({3, 1})}, [](const Tensors& x) { return broadcast_to(x[0], {2, 3, 4}); });
}
void broadcast_tensors_samples(Samples& s) {
  const auto f = [](const Tensors& x) { return broadcast_tensors(x); };
  s.call({s.randn({3, 1}), s.randn({2}), s.randn({})}, f);
  s.error_call({s.randn({3}), s.randn({2})}, f, "do not broadcast");
  s.error_call({}, f, "needs at least one tensor");
}
template <Tensor (*f)(const Tensor&)> void at_least_samples(Samples& s) {
  for (const Dims& sizes : {Dims{}, Dims{3}, Dims{2, 3}, Dims{2, 3, 2}})
    s.call({s.randn(sizes)}, [](const Tensors& x) { return f(x[0]); });
}
void meshgrid_samples(Samples& s) {
  const auto ij = [](const Tensors& x) { return meshgrid(x); };
  s.call({s.randn({3}), s.randn({2}), s.randn({2})}, ij);
  s.call({s.randn({3}), s.randn({2})}, [](const Tensors& x) { return meshgrid(x, "xy"); });
  s.error_call({s.randn({3, 2})}, ij, "at most 1 dimension");
  s.error_call({s.randn({3})}, [](const Tensors& x) { return meshgrid(x, "yx"); }, "indexing must be");
}
MANTISSA_COMPOSITE(movedim, movedim_samples)
MANTISSA_COMPOSITE(unflatten, unflatten_samples)
const RegisterOp unfold_windows({.name = "unfold_windows", .composite = true, .samples = &unfold_windows_samples});
MANTISSA_COMPOSITE(broadcast_to, broadcast_to_samples)
MANTISSA_COMPOSITE(broadcast_tensors, broadcast_tensors_samples)
MANTISSA_COMPOSITE(atleast_1d, at_least_samples<atleast_1d>)
MANTISSA_COMPOSITE(atleast_2d, at_least_samples<atleast_2d>)
MANTISSA_COMPOSITE(atleast_3d, at_least_samples<atleast_3d>)
MANTISSA_COMPOSITE(meshgrid, meshgrid_samples)

}  // namespace
}  // namespace mantissa
