// Operators as those of core/ops.h, whose conventions hold here too: integrals and derivatives of sampled functions,
// and quantiles and random numbers that few programs need.
#pragma once

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

// --- random, from the default generator of core/random.h ---
// Numbers of events whose mean is rate, which must be finite and not negative, in rate's dtype.
Tensor poisson(const Tensor& rate);
// Successes in `count` trials of probability prob; both floating, of one dtype; they broadcast.
Tensor binomial(const Tensor& count, const Tensor& prob);

}  // namespace mantissa
