// Integrals and derivatives of sampled functions, composed of slices and sums: trapezoid, cumulative_trapezoid,
// gradient.
#include <algorithm>

#include "core/ops_numeric.h"
#include "ops/compose.h"

namespace mantissa {
namespace {

// t along dimension d of a tensor with `rank` dimensions, 1 elsewhere.
Tensor along(const Tensor& t, int d, int rank) {
  Dims sizes = Dims::filled(rank, 1);
  sizes[d] = t.numel();
  return reshape(t, sizes);
}

template <bool cumulative> struct Trapezoid {
  static constexpr auto name = cumulative ? "cumulative_trapezoid" : "trapezoid";
  static constexpr const char* args[] = {"y", "x"};
  static constexpr bool differentiable = true;
  double dx = 1;
  int dim = -1;

  // The distances between neighbours along dimension d of y, shaped to broadcast with the trapezoids.
  static Tensor widths(const Tensor& y, const Tensor& x, int d) {
    const std::int64_t n = y.sizes()[d];
    if (x.dim() == 1) {
      check(x.numel() == n, "x has ", x.numel(), " elements for ", n, " samples along dimension ", d, " of y");
      return along(diff(x), d, y.dim());
    }
    const int own = d - (y.dim() - x.dim());
    check(x.dim() <= y.dim() && own >= 0 && x.sizes()[own] == n, "x of shape ", x.sizes(), " does not say where the ",
          n, " samples along dimension ", d, " of y lie");
    return diff(x, 1, own);
  }
  static Tensor compose(const Trapezoid& op, const Tensor& y, const Tensor& x) {
    check(y.dtype() != boolean, "y is bool; convert with to(f32)");
    check(y.dim() >= 1, "y needs at least 1 dimension");
    const int d = wrap_dim(op.dim, y.dim());
    const Tensor sides = slice(y, d, 0, std::max<std::int64_t>(y.sizes()[d] - 1, 0)) + slice(y, d, 1);
    const Tensor areas = x.defined() ? sides * widths(y, x, d) * 0.5 : sides * (op.dx * 0.5);
    return cumulative ? cumsum(areas, d) : sum(areas, {d});
  }
  static void samples(Samples& s) {
    composed(s, {s.randn({2, 4}), Tensor()}, Trapezoid{0.5});
    composed(s, {s.randn({2, 4, 3}), s.randn({4})}, Trapezoid{1, 1});
    composed(s, {s.randn({2, 4}), s.randn({2, 4})}, Trapezoid{});
    composed(s, {s.randn({2, 3, 4}), s.randn({3, 1})}, Trapezoid{1, 1});
    composed(s, {s.integers({5}, 0, 9), Tensor()}, Trapezoid{});
    composed_error(s, {s.randn({}), Tensor()}, Trapezoid{}, "y needs at least 1 dimension");
    composed_error(s, {s.randn({2, 4}), s.randn({3})}, Trapezoid{}, "x has 3 elements for 4 samples");
    composed_error(s, {s.randn({2, 4}), s.randn({4, 2})}, Trapezoid{}, "does not say where the 4 samples");
    composed_error(s, {s.booleans({3}), Tensor()}, Trapezoid{}, "y is bool");
  }
};

// Element i along d, kept as a dimension of size 1; i < 0 counts from the end.
Tensor at(const Tensor& x, int d, std::int64_t i) {
  const std::int64_t begin = i < 0 ? x.sizes()[d] + i : i;
  return slice(x, d, begin, begin + 1);
}

Tensor gradient_even(const Tensor& x, double h, int d, int edge_order) {
  const std::int64_t n = x.sizes()[d];
  const Tensor inside = (slice(x, d, 2) - slice(x, d, 0, n - 2)) * (0.5 / h);
  if (edge_order == 1) return cat({(at(x, d, 1) - at(x, d, 0)) / h, inside, (at(x, d, -1) - at(x, d, -2)) / h}, d);
  const auto edge = [&](int a, int b, int c, double sign) {
    return (at(x, d, b) * 2.0 - at(x, d, a) * 1.5 - at(x, d, c) * 0.5) * (sign / h);
  };
  return cat({edge(0, 1, 2, 1), inside, edge(-1, -2, -3, -1)}, d);
}

// The derivative of the parabola through three neighbours at distances p and q (Fornberg, 1988), at the middle one and,
// for edge_order 2, at the ends.
Tensor gradient_at(const Tensor& x, const Tensor& coordinates, int d, int edge_order) {
  const std::int64_t n = x.sizes()[d];
  const Tensor steps = along(diff(coordinates), d, x.dim());
  const Tensor p = slice(steps, d, 0, n - 2), q = slice(steps, d, 1);
  const Tensor inside = slice(x, d, 2) * (p / (q * (p + q))) + slice(x, d, 1, n - 1) * ((q - p) / (p * q)) -
                        slice(x, d, 0, n - 2) * (q / (p * (p + q)));
  if (edge_order == 1) {
    return cat({(at(x, d, 1) - at(x, d, 0)) / at(steps, d, 0), inside,
                (at(x, d, -1) - at(x, d, -2)) / at(steps, d, -1)},
               d);
  }
  // `near` is the distance from the end to its neighbour, `far` the next one.
  const auto edge = [&](int a, int b, int c, const Tensor& near, const Tensor& far) {
    return at(x, d, b) * ((near + far) / (near * far)) - at(x, d, a) * ((2.0 * near + far) / (near * (near + far))) -
           at(x, d, c) * (near / (far * (near + far)));
  };
  return cat({edge(0, 1, 2, at(steps, d, 0), at(steps, d, 1)), inside,
              -edge(-1, -2, -3, at(steps, d, -1), at(steps, d, -2))},
             d);
}

// Common checks of both overloads; calls derivative(x in f32 or f64, index into dims, d) for each dimension.
template <class F>
std::vector<Tensor> gradients(const Tensor& x, const Dims& dims, int edge_order, const F& derivative) {
  check(edge_order == 1 || edge_order == 2, "gradient: edge_order must be 1 or 2, got ", edge_order);
  check(x.dtype() != boolean, "gradient: x is bool; convert with to(f32)");
  const Tensor wide = is_half(x.dtype()) ? cast(x, f32) : x;
  std::vector<Tensor> all;
  Dims seen;
  for (int i = 0; i < (dims.rank() ? dims.rank() : x.dim()); ++i) {
    const int d = dims.rank() ? wrap_dim(dims[i], x.dim()) : i;
    check(std::find(seen.begin(), seen.end(), d) == seen.end(), "gradient: dimension ", d, " is listed twice in dims ",
          dims);
    check(x.sizes()[d] > edge_order, "gradient: dimension ", d, " of ", x, " has too few samples, edge_order ",
          edge_order, " needs ", edge_order + 1);
    seen.push_back(d);
    const Tensor y = derivative(wide, i, d);
    all.push_back(is_half(x.dtype()) ? cast(y, x.dtype()) : y);
  }
  return all;
}

void gradient_samples(Samples& s) {
  s.call({s.randn({4})}, [](const Tensors& x) { return gradient(x[0], 0.5); });
  s.call({s.randn({3, 4})}, [](const Tensors& x) { return gradient(x[0], 1, {}, 2); });
  s.call({s.randn({2, 5})}, [](const Tensors& x) { return gradient(x[0], 2, {-1}); });
  s.call({s.integers({5}, 0, 9)}, [](const Tensors& x) { return gradient(x[0]); });
  for (const int order : {1, 2}) {
    s.call({s.randn({4, 3}), tensor({0, 1, 3, 3.5}, {.dtype = f64}), tensor({-1.0, 1, 2}, {.dtype = f64})},
           [order](const Tensors& x) { return gradient(x[0], {x[1], x[2]}, {}, order); });
  }
  s.error_call({s.randn({1})}, [](const Tensors& x) { return gradient(x[0]); }, "gradient: dimension 0 of");
  s.error_call(
      {s.randn({3})}, [](const Tensors& x) { return gradient(x[0], 1, {}, 3); }, "gradient: edge_order must be 1 or 2");
  s.error_call(
      {s.randn({3, 3})}, [](const Tensors& x) { return gradient(x[0], 1, {0, -2}); },
      "gradient: dimension 0 is listed twice");
  s.error_call(
      {s.randn({3}), s.randn({4})}, [](const Tensors& x) { return gradient(x[0], {x[1]}); },
      "gradient: coordinates 0 must be a vector of 3");
  s.error_call(
      {s.randn({3, 3}), s.randn({3})}, [](const Tensors& x) { return gradient(x[0], {x[1]}); },
      "gradient: 1 coordinates for 2 dimensions");
}

}  // namespace

MANTISSA_OP(Trapezoid<false>)
MANTISSA_OP(Trapezoid<true>)
MANTISSA_COMPOSITE(gradient, gradient_samples)

Tensor trapezoid(const Tensor& y, double dx, int dim) { return apply_composed(Trapezoid<false>{dx, dim}, y, Tensor()); }
Tensor trapezoid(const Tensor& y, const Tensor& x, int dim) { return apply_composed(Trapezoid<false>{1, dim}, y, x); }
Tensor cumulative_trapezoid(const Tensor& y, double dx, int dim) {
  return apply_composed(Trapezoid<true>{dx, dim}, y, Tensor());
}
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int dim) {
  return apply_composed(Trapezoid<true>{1, dim}, y, x);
}

std::vector<Tensor> gradient(const Tensor& x, double spacing, const Dims& dims, int edge_order) {
  return gradients(x, dims, edge_order,
                   [&](const Tensor& wide, int, int d) { return gradient_even(wide, spacing, d, edge_order); });
}
std::vector<Tensor> gradient(const Tensor& x, const std::vector<Tensor>& coordinates, const Dims& dims,
                             int edge_order) {
  const int count = dims.rank() ? dims.rank() : x.dim();
  check(static_cast<int>(coordinates.size()) == count, "gradient: ", static_cast<int>(coordinates.size()),
        " coordinates for ", count, " dimensions");
  return gradients(x, dims, edge_order, [&](const Tensor& wide, int i, int d) {
    const Tensor& c = coordinates[static_cast<std::size_t>(i)];
    check(c.dim() == 1 && c.numel() == wide.sizes()[d], "gradient: coordinates ", i, " must be a vector of ",
          wide.sizes()[d], " elements, got ", c);
    return gradient_at(wide, is_half(c.dtype()) ? cast(c, f32) : c, d, edge_order);
  });
}

}  // namespace mantissa
