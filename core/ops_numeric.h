// Integrals and derivatives of sampled functions, bit functions, less common quantiles and random distributions. The
// conventions of core/ops.h hold here too.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "core/ops.h"
#include "core/tensor.h"

namespace mantissa {

// --- calculus on samples; integers give f32 ---
// The integral of y along dim by the trapezoidal rule. Samples are dx apart, or at the coordinates x, which has the
// size of dim or broadcasts with y.
Tensor trapezoid(const Tensor& y, double dx = 1, int dim = -1);
Tensor trapezoid(const Tensor& y, const Tensor& x, int dim = -1);
Tensor cumulative_trapezoid(const Tensor& y, double dx = 1, int dim = -1);  // up to each sample except the first
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int dim = -1);
// The derivative along each of dims (none: all), one tensor of x's shape per dim: second-order central differences, at
// the ends differences of order edge_order (1 or 2). Samples are `spacing` apart, or at the given coordinates, one
// vector for each of dims.
std::vector<Tensor> gradient(const Tensor& x, double spacing = 1, const Dims& dims = {}, int edge_order = 1);
std::vector<Tensor> gradient(const Tensor& x, const std::vector<Tensor>& coordinates, const Dims& dims = {},
                             int edge_order = 1);

// quantile of the elements that are not NaN; NaN if there are none.
Tensor nanquantile(const Tensor& x, const Tensor& q, std::optional<int> dim = {}, bool keepdim = false,
                   std::string_view interpolation = "linear");
Tensor nanquantile(const Tensor& x, double q, std::optional<int> dim = {}, bool keepdim = false,
                   std::string_view interpolation = "linear");

// Number of elements of x (any shape) in each bin between neighbouring edges, the last edge included: hist [bins],
// bin_edges [bins + 1], both in x's dtype, which must be floating. Elements outside and NaN do not count. Edges: `bins`
// equal parts of range = {min, max}, by default that of x, which must then be finite; or a non-descending vector.
// weight (x's shape): weight of each element. density: divided by the total and by the bin widths. No gradient.
struct HistogramResult { Tensor hist, bin_edges; };
HistogramResult histogram(const Tensor& x, std::int64_t bins, std::optional<std::array<double, 2>> range = {},
                          const Tensor& weight = {}, bool density = false);
HistogramResult histogram(const Tensor& x, const Tensor& edges, const Tensor& weight = {}, bool density = false);
// The same for n points in d dimensions: x [n, d], or [..., d], of which all but the last dim are flattened. hist has
// the number of bins along each dimension as its sizes; bin_edges has one vector per dimension. Arguments: the number
// of bins per dimension, and optionally `range` for all of them; or the edges. weight: one per point.
struct HistogramddResult { Tensor hist; std::vector<Tensor> bin_edges; };
HistogramddResult histogramdd(const Tensor& x, const Dims& bins, const std::vector<std::array<double, 2>>& range = {},
                              const Tensor& weight = {}, bool density = false);
HistogramddResult histogramdd(const Tensor& x, const std::vector<Tensor>& edges, const Tensor& weight = {},
                              bool density = false);

// --- bits. Operands are integers of any width, not bool, and promote; no gradient ---
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b);   // a << b; 0 for b < 0 or beyond the width
// a >> b, rounds down; b out of range gives -1 or 0 by a's sign
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b);
Tensor gcd(const Tensor& a, const Tensor& b);                  // not negative; gcd(0, 0) = 0
Tensor lcm(const Tensor& a, const Tensor& b);                  // not negative; lcm(a, 0) = 0
// Floating dtypes.
Tensor nextafter(const Tensor& a, const Tensor& b);  // the next representable number from a towards b; f32 or f64
struct FrexpResult { Tensor mantissa, exponent; };
// x = mantissa * 2^exponent with 0.5 <= |mantissa| < 1; exponent is i32, and 0 for 0, infinity and NaN
FrexpResult frexp(const Tensor& x);

// --- random, from the default generator of core/random.h ---
// Errors about values come, on a GPU, when the host next waits.
// Poisson-distributed counts with mean `rate`, which must be finite and not negative, in rate's dtype.
Tensor poisson(const Tensor& rate);
// Binomial: successes in `count` trials of probability prob; both of the same floating dtype; they broadcast.
Tensor binomial(const Tensor& count, const Tensor& prob);

}  // namespace mantissa
