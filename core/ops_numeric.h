// Operators as those of core/ops.h, whose conventions hold here too: integrals and derivatives of sampled functions,
// functions of bits, and quantiles and random numbers that few programs need.
#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <vector>

#include "core/ops.h"
#include "core/tensor.h"

namespace mantissa {

// --- calculus on samples; integers give f32 ---
// The area under y along dim, by trapezoids: samples are dx apart, or lie at x, which has the size of dim, or
// broadcasts with y.
Tensor trapezoid(const Tensor& y, double dx = 1, int dim = -1);
Tensor trapezoid(const Tensor& y, const Tensor& x, int dim = -1);
Tensor cumulative_trapezoid(const Tensor& y, double dx = 1, int dim = -1);  // up to each sample but the first
Tensor cumulative_trapezoid(const Tensor& y, const Tensor& x, int dim = -1);
// The derivative along each of dims (none: all), one tensor shaped as x for each: central differences of second order,
// at the ends differences of edge_order 1 or 2. Samples are `spacing` apart, or lie at coordinates, one vector for each
// of dims.
std::vector<Tensor> gradient(const Tensor& x, double spacing = 1, const Dims& dims = {}, int edge_order = 1);
std::vector<Tensor> gradient(const Tensor& x, const std::vector<Tensor>& coordinates, const Dims& dims = {},
                             int edge_order = 1);

// quantile of what is not NaN; NaN where nothing else is.
Tensor nanquantile(const Tensor& x, const Tensor& q, std::optional<int> dim = {}, bool keepdim = false,
                   std::string_view interpolation = "linear");
Tensor nanquantile(const Tensor& x, double q, std::optional<int> dim = {}, bool keepdim = false,
                   std::string_view interpolation = "linear");

// How many elements of x (any shape) lie between one edge and the next, the last edge included: hist [bins], bin_edges
// [bins + 1], both in x's dtype, a floating one. Elements outside and NaN do not count. Edges: `bins` equal parts of
// range = {least, greatest}, absent: that of x, which must be finite; or a vector that does not descend. weight, as x:
// how much each counts. density: divided by the total and by the bins' widths. No gradient.
struct HistogramResult { Tensor hist, bin_edges; };
HistogramResult histogram(const Tensor& x, std::int64_t bins, std::optional<std::array<double, 2>> range = {},
                          const Tensor& weight = {}, bool density = false);
HistogramResult histogram(const Tensor& x, const Tensor& edges, const Tensor& weight = {}, bool density = false);
// The same of n points in d dimensions: x [n, d], or [..., d], of which all but the last dim are flattened. hist has as
// sizes the numbers of bins along each; bin_edges is a vector for each. Given: the number of bins along each dim, and
// `range` for each or for none; or their edges. weight: one for each point.
struct HistogramddResult { Tensor hist; std::vector<Tensor> bin_edges; };
HistogramddResult histogramdd(const Tensor& x, const Dims& bins, const std::vector<std::array<double, 2>>& range = {},
                              const Tensor& weight = {}, bool density = false);
HistogramddResult histogramdd(const Tensor& x, const std::vector<Tensor>& edges, const Tensor& weight = {},
                              bool density = false);

// --- bits. Of two integers of any width, not bool, which promote; no gradient ---
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b);   // a << b; 0 for b < 0 or beyond the width
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b);  // a >> b, rounds down; for such b -1 or 0, a's sign
Tensor gcd(const Tensor& a, const Tensor& b);                  // not negative; gcd(0, 0) = 0
Tensor lcm(const Tensor& a, const Tensor& b);                  // not negative; lcm(a, 0) = 0
// Of floats.
Tensor nextafter(const Tensor& a, const Tensor& b);  // the next number from a towards b; f32 or f64
struct FrexpResult { Tensor mantissa, exponent; };
// x = mantissa * 2^exponent with 0.5 <= |mantissa| < 1; exponent is i32, and 0 for 0, infinity and NaN
FrexpResult frexp(const Tensor& x);

// --- random, from the default generator of core/random.h ---
// Numbers of events whose mean is rate, which must be finite and not negative, in rate's dtype.
Tensor poisson(const Tensor& rate);
// Successes in `count` trials of probability prob; both floating, of one dtype; they broadcast.
Tensor binomial(const Tensor& count, const Tensor& prob);

}  // namespace mantissa
