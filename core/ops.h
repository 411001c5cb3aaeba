// The catalogue: every public operator, one documented line each. Definitions are in ops/.
// Conventions, unless stated otherwise: shapes broadcast by NumPy's rule; negative dims count from the end; names,
// defaults and semantics follow PyTorch. Results are contiguous, except that convolutions choose the faster memory
// layout (core/conv.h), and elementwise operators, copies, batch_norm, pooling and cat preserve channels-last if an
// operand has it. Call contiguous(x) before data(); operators themselves accept any strides.
// A test compares this list with the registry: an operator here without an entry there fails.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/per_dim.h"
#include "core/tensor.h"

namespace mantissa {

// --- arithmetic (mixed dtypes promote; a Python-style scalar adopts the tensor's dtype) ---
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);      // true division: integers give f32
Tensor pow(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);  // NaN propagates; ties share the gradient
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor square(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor fmod(const Tensor& a, const Tensor& b);       // sign of a; integer division by 0 is an error
Tensor remainder(const Tensor& a, const Tensor& b);  // sign of b, as Python's %
Tensor clamp(const Tensor& x, double low, double high);
Tensor clamp_min(const Tensor& x, double low);
Tensor clamp_max(const Tensor& x, double high);
// floor(a / b); integers stay integers; integer division by 0 is an error
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor frac(const Tensor& x);                           // x - trunc(x)
Tensor hypot(const Tensor& a, const Tensor& b);         // sqrt(a^2 + b^2) without intermediate overflow
Tensor copysign(const Tensor& a, const Tensor& b);      // |a| with the sign of b
// posinf, neginf: by default the dtype's largest and smallest finite values
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {});
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);  // condition is bool
Tensor lerp(const Tensor& start, const Tensor& end, const Tensor& weight);  // start + weight * (end - start)
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, double value = 1);  // x + value * a * b
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, double value = 1);  // x + value * a / b

// --- rounding: the gradient is 0; integers are returned unchanged ---
Tensor sign(const Tensor& x);   // 0 for NaN
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor trunc(const Tensor& x);
Tensor round(const Tensor& x);  // half to even

// --- exponentials and logarithms: integers give f32 ---
Tensor exp(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor expm1(const Tensor& x);   // exp(x) - 1, accurate near 0
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);   // log(1 + x), accurate near 0
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor erfc(const Tensor& x);    // 1 - erf(x)
Tensor erfinv(const Tensor& x);  // infinite at -1 and 1, NaN outside
Tensor logaddexp(const Tensor& a, const Tensor& b);   // log(exp(a) + exp(b))
Tensor logaddexp2(const Tensor& a, const Tensor& b);  // the same in base 2
Tensor xlogy(const Tensor& a, const Tensor& b);       // a * log(b), 0 where a is 0
Tensor logit(const Tensor& x, std::optional<double> eps = {});  // log(x / (1 - x)); eps: x is clamped to [eps, 1 - eps]

// --- trigonometric, in radians, and hyperbolic: integers give f32 ---
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor atan2(const Tensor& a, const Tensor& b);  // the angle of the point (x = b, y = a)
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);
Tensor sinc(const Tensor& x);  // sin(pi x) / (pi x), 1 at 0

// --- activations ---
Tensor sigmoid(const Tensor& x);
Tensor logsigmoid(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor relu6(const Tensor& x);  // hardtanh between 0 and 6
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
Tensor prelu(const Tensor& x, const Tensor& weight);  // weight [1] or one slope per channel, dim 1
Tensor elu(const Tensor& x, double alpha = 1);
Tensor selu(const Tensor& x);
Tensor celu(const Tensor& x, double alpha = 1);
Tensor gelu(const Tensor& x, std::string_view approximate = "none");  // x * Phi(x); or "tanh"
Tensor silu(const Tensor& x);   // x * sigmoid(x)
Tensor mish(const Tensor& x);   // x * tanh(softplus(x))
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20);  // linear where beta * x > threshold
Tensor hardtanh(const Tensor& x, double low = -1, double high = 1);
Tensor hardsigmoid(const Tensor& x);
Tensor hardswish(const Tensor& x);
Tensor softsign(const Tensor& x);    // x / (1 + |x|)
Tensor tanhshrink(const Tensor& x);  // x - tanh(x)
Tensor hardshrink(const Tensor& x, double lambd = 0.5);  // 0 where |x| <= lambd
Tensor softshrink(const Tensor& x, double lambd = 0.5);  // shrinks x towards 0 by lambd
Tensor threshold(const Tensor& x, double threshold, double value);  // value where x <= threshold
// leaky_relu with a random slope per element; outside training the mean slope
Tensor rrelu(const Tensor& x, double lower = 1.0 / 8, double upper = 1.0 / 3, bool training = false);
Tensor glu(const Tensor& x, int dim = -1);  // first half of dim times the sigmoid of the second half

// --- comparison: bool results, no gradient ---
Tensor eq(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);
Tensor signbit(const Tensor& x);  // true for -0
// |a - b| <= atol + rtol * |b|
Tensor isclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);
bool allclose(const Tensor& a, const Tensor& b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);
bool equal(const Tensor& a, const Tensor& b);  // same shape and values
Tensor isin(const Tensor& x, const Tensor& values);
Tensor logical_and(const Tensor& a, const Tensor& b);  // of any dtype: nonzero is true
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);

// --- bitwise: integers and bool ---
Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
Tensor bitwise_not(const Tensor& x);

// --- reductions; empty `dims` means all; sums and products of integers are i64 ---
// If `dtype` is given, x is cast to it first, and autocast leaves the call alone.
Tensor sum(const Tensor& x, const Dims& dims = {}, bool keepdim = false, std::optional<Dtype> dtype = {});
Tensor mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false, std::optional<Dtype> dtype = {});
// sum and mean of the elements that are not NaN.
Tensor nansum(const Tensor& x, const Dims& dims = {}, bool keepdim = false, std::optional<Dtype> dtype = {});
Tensor nanmean(const Tensor& x, const Dims& dims = {}, bool keepdim = false, std::optional<Dtype> dtype = {});
Tensor prod(const Tensor& x, const Dims& dims = {}, bool keepdim = false, std::optional<Dtype> dtype = {});
Tensor var(const Tensor& x, const Dims& dims = {}, bool keepdim = false, int correction = 1);  // unbiased by default
// Write mantissa::std(x) or x.std(), even under `using namespace mantissa`: an unqualified std names the namespace.
Tensor std(const Tensor& x, const Dims& dims = {}, bool keepdim = false, int correction = 1);
// sum(|x|^p)^(1/p); p may be 0, HUGE_VAL, ...
Tensor norm(const Tensor& x, double p = 2, const Dims& dims = {}, bool keepdim = false,
            std::optional<Dtype> dtype = {});
Tensor logsumexp(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor amax(const Tensor& x, const Dims& dims = {}, bool keepdim = false);  // ties share the gradient
Tensor amin(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
struct ValuesIndices { Tensor values, indices; };
ValuesIndices max(const Tensor& x, int dim, bool keepdim = false);  // index of the first maximum, i64
ValuesIndices min(const Tensor& x, int dim, bool keepdim = false);
Tensor max(const Tensor& x);     // of all elements; ties share the gradient
Tensor min(const Tensor& x);
Tensor argmax(const Tensor& x, int dim, bool keepdim = false);
Tensor argmin(const Tensor& x, int dim, bool keepdim = false);
Tensor argmax(const Tensor& x);  // index into the flattened x, row-major
Tensor argmin(const Tensor& x);
Tensor any(const Tensor& x, const Dims& dims = {}, bool keepdim = false);  // bool: is any element nonzero?
// bool: are all elements nonzero? As an index, `all` selects a whole dimension: x[{all, 0}]
Tensor all(const Tensor& x, const Dims& dims = {}, bool keepdim = false);
Tensor count_nonzero(const Tensor& x, const Dims& dims = {});
Tensor sum_to(const Tensor& x, const Dims& sizes);  // sums over broadcast dims, back to `sizes`

// --- order statistics: the gradient goes to the selected elements; NaN counts as the largest value ---
ValuesIndices median(const Tensor& x, int dim, bool keepdim = false);  // the lower of two middle values; NaN propagates
Tensor median(const Tensor& x);
// the most frequent value (the smallest, in a tie) and the index of its last occurrence
ValuesIndices mode(const Tensor& x, int dim = -1, bool keepdim = false);
ValuesIndices kthvalue(const Tensor& x, std::int64_t k, int dim = -1, bool keepdim = false);  // k = 1: the smallest
// The q-quantiles of x along dim, q in [0, 1]: one for q [], n in a new first dim for q [n]. Without dim: of the
// flattened x. NaN where x has a NaN. interpolation between two elements: linear, lower, higher, nearest or midpoint.
Tensor quantile(const Tensor& x, const Tensor& q, std::optional<int> dim = {}, bool keepdim = false,
                std::string_view interpolation = "linear");
Tensor quantile(const Tensor& x, double q, std::optional<int> dim = {}, bool keepdim = false,
                std::string_view interpolation = "linear");

// --- cumulative along a dim ---
Tensor cumsum(const Tensor& x, int dim, std::optional<Dtype> dtype = {});  // integers give i64, as for cumprod
Tensor cumprod(const Tensor& x, int dim, std::optional<Dtype> dtype = {});
ValuesIndices cummax(const Tensor& x, int dim);  // index of the last of equal maxima
ValuesIndices cummin(const Tensor& x, int dim);
Tensor logcumsumexp(const Tensor& x, int dim);
Tensor diff(const Tensor& x, int n = 1, int dim = -1);  // x[i + 1] - x[i], n times

// --- products and distances ---
Tensor matmul(const Tensor& a, const Tensor& b);  // PyTorch's rules for 1-d, 2-d, batched, broadcast
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});  // x [*, in], weight [out, in]
Tensor bmm(const Tensor& a, const Tensor& b);    // batches of matrices, no broadcasting
Tensor mv(const Tensor& a, const Tensor& b);     // a matrix and a vector
Tensor dot(const Tensor& a, const Tensor& b);    // of two vectors
Tensor outer(const Tensor& a, const Tensor& b);  // of two vectors
// beta * x + alpha * (a @ b)
Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta = 1, double alpha = 1);
Tensor einsum(std::string_view equation, std::span<const Tensor> tensors);  // "bij,bjk->bik"; ... broadcasts
inline Tensor einsum(std::string_view equation, std::initializer_list<Tensor> t) {
  return einsum(equation, std::span(t.begin(), t.size()));
}
Tensor inner(const Tensor& a, const Tensor& b);  // contracts the last dims
Tensor tensordot(const Tensor& a, const Tensor& b, int dims = 2);  // contracts a's last and b's first dims
Tensor kron(const Tensor& a, const Tensor& b);
Tensor cross(const Tensor& a, const Tensor& b, int dim = -1);  // dim has size 3
// x1 [*, I], x2 [*, J], weight [O, I, J] -> [*, O]
Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias = {});
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2);  // a [..., P, M], b [..., R, M] -> distances [..., P, R]
Tensor pdist(const Tensor& x, double p = 2);  // distances of all pairs of rows i < j, in row-major order
Tensor normalize(const Tensor& x, double p = 2, const Dims& dims = {1}, double eps = 1e-12);  // x / max(norm, eps)

// --- triangles and diagonals ---
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);  // of the last two dims: 0 above the diagonal
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);
// a view; the diagonal becomes the last dim
Tensor diagonal(const Tensor& x, std::int64_t offset = 0, int dim1 = 0, int dim2 = 1);
Tensor trace(const Tensor& x);
Tensor diag(const Tensor& x, std::int64_t diagonal = 0);  // vector to diagonal matrix, or matrix to its diagonal
Tensor diag_embed(const Tensor& x, std::int64_t offset = 0);  // the last dim becomes the diagonal of new matrices

// --- convolution; stride, padding, ... are one number for all dims (3) or one per dim ({3, 5}: height, width). Without
// a bias also conv2d(x, weight, {.padding = 1}) ---
struct Conv1dOptions { int stride = 1, padding = 0, dilation = 1, groups = 1; };
// x [N, C, L], weight [O, C/groups, k]
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Conv1dOptions = {});
inline Tensor conv1d(const Tensor& x, const Tensor& weight, Conv1dOptions o) { return conv1d(x, weight, {}, o); }
struct Conv2dOptions { PerDim<2> stride = 1, padding = 0, dilation = 1; int groups = 1; };
// x [N, C, H, W], weight [O, C/groups, kh, kw]
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Conv2dOptions = {});
inline Tensor conv2d(const Tensor& x, const Tensor& weight, Conv2dOptions o) { return conv2d(x, weight, {}, o); }
struct Conv3dOptions { PerDim<3> stride = 1, padding = 0, dilation = 1; int groups = 1; };
// x [N, C, D, H, W], weight [O, C/groups, kd, kh, kw]
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, Conv3dOptions = {});
inline Tensor conv3d(const Tensor& x, const Tensor& weight, Conv3dOptions o) { return conv3d(x, weight, {}, o); }
// The gradient of conv2d with respect to x, which has `x_sizes`; `gradient` is that of the result.
Tensor conv2d_input_grad(const Tensor& gradient, const Tensor& weight, const Dims& x_sizes, Conv2dOptions = {});
Tensor conv3d_input_grad(const Tensor& gradient, const Tensor& weight, const Dims& x_sizes, Conv3dOptions = {});
struct ConvTranspose1dOptions { int stride = 1, padding = 0, output_padding = 0, dilation = 1, groups = 1; };
// weight [C, O/groups, k]
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, ConvTranspose1dOptions = {});
inline Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, ConvTranspose1dOptions o) {
  return conv_transpose1d(x, weight, {}, o);
}
struct ConvTranspose2dOptions {
  PerDim<2> stride = 1, padding = 0, output_padding = 0, dilation = 1;
  int groups = 1;
};
// weight [C, O/groups, kh, kw]
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, ConvTranspose2dOptions = {});
inline Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, ConvTranspose2dOptions o) {
  return conv_transpose2d(x, weight, {}, o);
}
struct ConvTranspose3dOptions {
  PerDim<3> stride = 1, padding = 0, output_padding = 0, dilation = 1;
  int groups = 1;
};
// weight [C, O/groups, kd, kh, kw]
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, ConvTranspose3dOptions = {});
inline Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, ConvTranspose3dOptions o) {
  return conv_transpose3d(x, weight, {}, o);
}

// --- pooling: x as for convolution; stride 0 means the kernel size ---
// dilation is for max pooling; divisor_override (0: the window size) and count_include_pad are for average pooling.
struct Pool1dOptions {
  int stride = 0, padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;
  int dilation = 1;
};
struct Pool2dOptions {
  PerDim<2> stride = 0, padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;
  PerDim<2> dilation = 1;
  int divisor_override = 0;
};
struct Pool3dOptions {
  PerDim<3> stride = 0, padding = 0;
  bool ceil_mode = false;
  bool count_include_pad = true;
  PerDim<3> dilation = 1;
  int divisor_override = 0;
};
Tensor max_pool1d(const Tensor& x, int kernel, Pool1dOptions = {});
Tensor max_pool2d(const Tensor& x, PerDim<2> kernel, Pool2dOptions = {});
Tensor max_pool3d(const Tensor& x, PerDim<3> kernel, Pool3dOptions = {});
Tensor avg_pool1d(const Tensor& x, int kernel, Pool1dOptions = {});
Tensor avg_pool2d(const Tensor& x, PerDim<2> kernel, Pool2dOptions = {});
Tensor avg_pool3d(const Tensor& x, PerDim<3> kernel, Pool3dOptions = {});
Tensor adaptive_avg_pool1d(const Tensor& x, int output);
Tensor adaptive_avg_pool2d(const Tensor& x, PerDim<2> output);
Tensor adaptive_avg_pool3d(const Tensor& x, PerDim<3> output);
Tensor adaptive_max_pool1d(const Tensor& x, int output);
Tensor adaptive_max_pool2d(const Tensor& x, PerDim<2> output);
Tensor adaptive_max_pool3d(const Tensor& x, PerDim<3> output);
// Also returns the index of each maximum in its flattened image or volume, as max_unpool needs it.
ValuesIndices max_pool1d_with_indices(const Tensor& x, int kernel, Pool1dOptions = {});
ValuesIndices max_pool2d_with_indices(const Tensor& x, PerDim<2> kernel, Pool2dOptions = {});
ValuesIndices max_pool3d_with_indices(const Tensor& x, PerDim<3> kernel, Pool3dOptions = {});
ValuesIndices adaptive_max_pool1d_with_indices(const Tensor& x, int output);
ValuesIndices adaptive_max_pool2d_with_indices(const Tensor& x, PerDim<2> output);
ValuesIndices adaptive_max_pool3d_with_indices(const Tensor& x, PerDim<3> output);
// Writes the maxima back to their indices, 0 elsewhere. output_size: spatial size of the result, [L], [H, W]
// or [D, H, W]; empty means (in - 1) * stride - 2 * padding + kernel.
Tensor max_unpool1d(const Tensor& x, const Tensor& indices, int kernel, Pool1dOptions = {},
                    const Dims& output_size = {});
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, PerDim<2> kernel, Pool2dOptions = {},
                    const Dims& output_size = {});
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, PerDim<3> kernel, Pool3dOptions = {},
                    const Dims& output_size = {});
// (sum of x^p over the window)^(1/p)
Tensor lp_pool1d(const Tensor& x, double p, int kernel, int stride = 0, bool ceil_mode = false);
Tensor lp_pool2d(const Tensor& x, double p, PerDim<2> kernel, PerDim<2> stride = 0, bool ceil_mode = false);
Tensor lp_pool3d(const Tensor& x, double p, PerDim<3> kernel, PerDim<3> stride = 0, bool ceil_mode = false);

// --- images ---
// borders: pairs (before, after), the last dimension's first; negative ones crop. mode: constant, reflect, replicate,
// circular.
Tensor pad(const Tensor& x, const Dims& borders, std::string_view mode = "constant", double value = 0);
Tensor pixel_shuffle(const Tensor& x, int upscale_factor);      // [*, C r^2, H, W] -> [*, C, H r, W r]
Tensor pixel_unshuffle(const Tensor& x, int downscale_factor);  // the inverse
struct InterpolateOptions {
  Dims size = {};                          // spatial size of the result; give either this or
  std::vector<double> scale_factor = {};   // one factor for all dims or one per dim
  std::string_view mode = "nearest";       // nearest, nearest-exact, linear, bilinear, bicubic, trilinear, area
  bool align_corners = false;
  bool recompute_scale_factor = false;     // recompute the scale from the rounded sizes
  bool antialias = false;                  // bilinear and bicubic: low-pass filter before downsampling
};
Tensor interpolate(const Tensor& x, const InterpolateOptions&);  // x [N, C, ...]
struct UnfoldOptions { PerDim<2> dilation = 1, padding = 0, stride = 1; };
Tensor unfold(const Tensor& x, PerDim<2> kernel, UnfoldOptions = {});  // [N, C, H, W] -> [N, C kh kw, positions]
// the inverse of unfold; overlapping values are summed
Tensor fold(const Tensor& x, PerDim<2> output, PerDim<2> kernel, UnfoldOptions = {});
// Samples x [N, C, H, W] at the points of grid [N, h, w, 2] -> [N, C, h, w]; x [N, C, D, H, W] with [N, d, h, w, 3].
// Points are (x, y[, z]), from -1 to 1 between the borders. mode: bilinear, nearest, bicubic; padding_mode: zeros,
// border, reflection.
struct GridSampleOptions { std::string_view mode = "bilinear", padding_mode = "zeros"; bool align_corners = false; };
Tensor grid_sample(const Tensor& x, const Tensor& grid, GridSampleOptions = {});
// Grid of an affine transform: theta [N, 2, 3] for sizes [N, C, H, W], [N, 3, 4] for [N, C, D, H, W].
Tensor affine_grid(const Tensor& theta, const Dims& sizes, bool align_corners = false);
// [N, C, ...]: interleaves the channels of the groups
Tensor channel_shuffle(const Tensor& x, int groups);

// --- normalisation and softmax ---
// Training: normalises with the batch statistics over all dims but 1 and updates the running statistics in place
// (running = (1 - momentum) * running + momentum * batch, variance unbiased). Otherwise uses the running statistics.
// weight, bias, running_* may be undefined.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                  const Tensor& running_var, bool training, double momentum = 0.1, double eps = 1e-5);
// relu(batch_norm(x)), or relu(batch_norm(x) + z) with z of x's sizes and dtype; on the CPU in a single pass over
// memory.
Tensor batch_norm_relu(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& running_mean,
                       const Tensor& running_var, bool training, double momentum = 0.1, double eps = 1e-5,
                       const Tensor& z = {});
Tensor layer_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);  // over the trailing dims
// x / sqrt(mean(x^2) + eps) over the trailing dims; default eps: machine epsilon of f64 for f64, else that of f32.
Tensor rms_norm(const Tensor& x, const Dims& normalized_shape, const Tensor& weight = {},
                std::optional<double> eps = {});
// Normalises each group of channels of each sample, over these channels and all trailing dims. x [N, C, ...].
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5);
// Normalises each channel of each sample. running_* may be undefined; they are updated if use_input_stats.
Tensor instance_norm(const Tensor& x, const Tensor& running_mean = {}, const Tensor& running_var = {},
                     const Tensor& weight = {}, const Tensor& bias = {}, bool use_input_stats = true,
                     double momentum = 0.1, double eps = 1e-5);
// x / (k + alpha * mean of x^2 over `size` neighbouring channels)^beta (Krizhevsky et al., 2012). x [N, C, ...].
Tensor local_response_norm(const Tensor& x, int size, double alpha = 1e-4, double beta = 0.75, double k = 1);
Tensor softmax(const Tensor& x, int dim, std::optional<Dtype> dtype = {});
Tensor log_softmax(const Tensor& x, int dim, std::optional<Dtype> dtype = {});
Tensor softmin(const Tensor& x, int dim, std::optional<Dtype> dtype = {});  // softmax of -x

// --- attention ---
struct AttentionOptions {
  double dropout_p = 0;  // always applied: pass 0 outside training
  bool is_causal = false;
  std::optional<double> scale = {};  // 1 / sqrt(D) by default
  bool enable_gqa = false;           // key and value may have fewer heads (dimension -3)
};
// query [..., L, D], key [..., S, D], value [..., S, E] -> [..., L, E]. attn_mask broadcasts to
// [..., L, S]: bool (true: this query may attend to this key) or floating (added to the scores; on CUDA numbers below
// -2.3e38 count as minus infinity).
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const Tensor& attn_mask = {}, const AttentionOptions& = {});
inline Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                           const AttentionOptions& o) {
  return scaled_dot_product_attention(query, key, value, {}, o);
}
// Rotates pair i of position t in x [..., T, D] by the angle (start + t) * base^(-2i / D). A pair is the elements
// (i, i + D / 2), or (2i, 2i + 1) if interleaved.
Tensor rotary_embedding(const Tensor& x, std::int64_t start = 0, double base = 10000, bool interleaved = false);

// --- losses: scalars unless reduction is none ---
enum class Reduction { none, mean, sum };
struct CrossEntropyOptions {
  double label_smoothing = 0;
  std::int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;
};
// logits [N, C, ...] or [C]; target: class indices, i64 [N, ...] or [], or probabilities of the logits' shape. weight
// [C] may be undefined.
Tensor cross_entropy(const Tensor& logits, const Tensor& target, CrossEntropyOptions = {}, const Tensor& weight = {});
struct NllOptions { std::int64_t ignore_index = -100; Reduction reduction = Reduction::mean; };
// log_probabilities: same shape as the logits of cross_entropy; target: class indices.
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, NllOptions = {}, const Tensor& weight = {});
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction = Reduction::mean);
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction = Reduction::mean);
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduction = Reduction::mean, double beta = 1);
Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction = Reduction::mean, double delta = 1);
// x: probabilities. An error under autocast, where 1 - x would lose precision: use the next one. weight is optional.
Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                            Reduction = Reduction::mean);
inline Tensor binary_cross_entropy(const Tensor& x, const Tensor& target, Reduction reduction) {
  return binary_cross_entropy(x, target, {}, reduction);
}
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                                        Reduction = Reduction::mean, const Tensor& pos_weight = {});
inline Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target, Reduction reduction) {
  return binary_cross_entropy_with_logits(x, target, {}, reduction);
}
enum class KlReduction { none, mean, sum, batchmean };  // mean: over all elements, as in PyTorch
// x: log-probabilities; target: probabilities, or log-probabilities if log_target.
Tensor kl_div(const Tensor& x, const Tensor& target, KlReduction = KlReduction::mean, bool log_target = false);
struct PoissonNllOptions {
  bool log_input = true, full = false;
  double eps = 1e-8;
  Reduction reduction = Reduction::mean;
};
Tensor poisson_nll_loss(const Tensor& x, const Tensor& target, PoissonNllOptions = {});
struct GaussianNllOptions { bool full = false; double eps = 1e-6; Reduction reduction = Reduction::mean; };
Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& var, GaussianNllOptions = {});
// target 1 or -1
Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target, double margin = 1, Reduction = Reduction::mean);
Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& target, double margin = 0,
                           Reduction = Reduction::mean);
Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int dim = 1, double eps = 1e-8);
// over the last dim
Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p = 2, double eps = 1e-6, bool keepdim = false);
Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target, double margin = 0,
                             Reduction = Reduction::mean);
struct TripletMarginOptions {
  double margin = 1, p = 2, eps = 1e-6;
  bool swap = false;
  Reduction reduction = Reduction::mean;
};
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           TripletMarginOptions = {});
// The same with a custom distance function, which maps a pair of [N, ...] to [N].
struct TripletMarginWithDistanceOptions {
  double margin = 1;
  bool swap = false;
  Reduction reduction = Reduction::mean;
};
using Distance = std::function<Tensor(const Tensor&, const Tensor&)>;
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         const Distance& distance = {}, TripletMarginWithDistanceOptions = {});
// log(1 + exp(-target * x)); target 1 or -1
Tensor soft_margin_loss(const Tensor& x, const Tensor& target, Reduction = Reduction::mean);
struct MultiMarginOptions { int p = 1; double margin = 1; Reduction reduction = Reduction::mean; };
// x [N, C] or [C], target i64 [N] or []
Tensor multi_margin_loss(const Tensor& x, const Tensor& target, MultiMarginOptions = {}, const Tensor& weight = {});
// target i64, same shape as x: class indices, terminated by -1
Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target, Reduction = Reduction::mean);
Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, const Tensor& weight = {},
                                   Reduction = Reduction::mean);
inline Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  return multilabel_soft_margin_loss(x, target, {}, reduction);
}
// Connectionist temporal classification (Graves et al., 2006). log_probs [T, N, C] or [T, C], targets i64 [N, S] or
// concatenated, [sum of target_lengths]; lengths i64 [N] or []. mean first divides each loss by its target length.
// zero_infinity: a target too long for its input gives 0 instead of infinity.
struct CtcOptions { std::int64_t blank = 0; Reduction reduction = Reduction::mean; bool zero_infinity = false; };
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, CtcOptions = {});

// --- indexing: indices are i64 and must be in range; negative ones only where stated ---
// weight [V, D] -> [*, D]; row padding_idx (negative: from the end) gets no gradient.
Tensor embedding(const Tensor& weight, const Tensor& indices, std::optional<std::int64_t> padding_idx = {});
// For dim 0: y[i, j] = x[index[i, j], j]. index has x's rank.
Tensor gather(const Tensor& x, int dim, const Tensor& index);
Tensor take_along_dim(const Tensor& x, const Tensor& index, int dim);  // gather; the other dims broadcast
Tensor take_along_dim(const Tensor& x, const Tensor& index);           // on the flattened x
Tensor take(const Tensor& x, const Tensor& index);                     // on the flattened x; index may be negative
Tensor index_select(const Tensor& x, int dim, const Tensor& index);    // index [n]
// x[i, j, ...] with index tensors for the first dims: i64 (they broadcast and may be negative) or bool masks.
Tensor index(const Tensor& x, std::span<const Tensor> indices);
inline Tensor index(const Tensor& x, std::initializer_list<Tensor> i) {
  return index(x, std::span(i.begin(), i.size()));
}
Tensor index_put(const Tensor& x, std::span<const Tensor> indices, const Tensor& values, bool accumulate = false);
inline Tensor index_put(const Tensor& x, std::initializer_list<Tensor> i, const Tensor& values,
                        bool accumulate = false) {
  return index_put(x, std::span(i.begin(), i.size()), values, accumulate);
}
Tensor index_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source, double alpha = 1);
Tensor index_copy(const Tensor& x, int dim, const Tensor& index, const Tensor& source);
Tensor index_fill(const Tensor& x, int dim, const Tensor& index, double value);  // index may be negative
// The adjoint of gather: a copy y of x with y[index[i, j], j] += source[i, j].
Tensor scatter_add(const Tensor& x, int dim, const Tensor& index, const Tensor& source);
// For equal indices the last one wins.
Tensor scatter(const Tensor& x, int dim, const Tensor& index, const Tensor& source);
Tensor scatter(const Tensor& x, int dim, const Tensor& index, double value);
// Reduces the sources of equal indices; reduce: sum, prod, mean, amax, amin. include_self: x's own element takes part.
Tensor scatter_reduce(const Tensor& x, int dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                      bool include_self = true);
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);
Tensor masked_select(const Tensor& x, const Tensor& mask);  // 1-d, in row-major order
// consecutive elements of source replace those of x where mask is true
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);
Tensor nonzero(const Tensor& x);  // i64 [count, rank of x]
// x i64 [*] -> i64 [*, classes]; classes = -1: max(x) + 1
Tensor one_hot(const Tensor& x, std::int64_t classes = -1);
// Number of occurrences of each value from 0 to max(x) in x [n]; with weights, the sum of their weights.
Tensor bincount(const Tensor& x, const Tensor& weights = {}, std::int64_t minlength = 0);

// --- sorting and searching ---
ValuesIndices sort(const Tensor& x, int dim = -1, bool descending = false);  // stable
Tensor argsort(const Tensor& x, int dim = -1, bool descending = false);      // stable
ValuesIndices topk(const Tensor& x, std::int64_t k, int dim = -1, bool largest = true);  // sorted
// Insertion positions of values [*, m] in sorted [n] or [*, n]: i64 [*, m]. right: after equal elements.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);
Tensor bucketize(const Tensor& x, const Tensor& boundaries, bool right = false);  // searchsorted(boundaries, x)
struct UniqueResult { Tensor values, inverse, counts; };  // values[inverse] is x
UniqueResult unique(const Tensor& x);              // sorted, of the flattened x
UniqueResult unique_consecutive(const Tensor& x);  // one value per run of equal values

// --- joining and splitting (split, chunk, unbind: views) ---
Tensor cat(std::span<const Tensor> tensors, int dim = 0);
inline Tensor cat(std::initializer_list<Tensor> t, int dim = 0) { return cat(std::span(t.begin(), t.size()), dim); }
Tensor stack(std::span<const Tensor> tensors, int dim = 0);
inline Tensor stack(std::initializer_list<Tensor> t, int dim = 0) { return stack(std::span(t.begin(), t.size()), dim); }
Tensor hstack(std::span<const Tensor> tensors);  // along dim 1; vectors along dim 0
Tensor vstack(std::span<const Tensor> tensors);  // along dim 0; vectors become rows
inline Tensor hstack(std::initializer_list<Tensor> t) { return hstack(std::span(t.begin(), t.size())); }
inline Tensor vstack(std::initializer_list<Tensor> t) { return vstack(std::span(t.begin(), t.size())); }
std::vector<Tensor> split(const Tensor& x, std::int64_t size, int dim = 0);    // the last may be smaller
std::vector<Tensor> split(const Tensor& x, const Dims& sizes, int dim);        // of the given sizes
// `chunks` equal parts; the last may be smaller
std::vector<Tensor> chunk(const Tensor& x, std::int64_t chunks, int dim = 0);
std::vector<Tensor> unbind(const Tensor& x, int dim = 0);                      // slices of size 1, with dim removed

// --- rearranging ---
Tensor flip(const Tensor& x, const Dims& dims);
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims = {});  // without dims: rolls the flattened x
Tensor repeat(const Tensor& x, const Dims& repeats);  // repeats along each dim; extra repeats add leading dims
Tensor tile(const Tensor& x, const Dims& repeats);    // like repeat, but missing repeats are 1
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, int dim);  // a, a, b, b
std::vector<Tensor> meshgrid(std::span<const Tensor> tensors, std::string_view indexing = "ij");
// rotates by 90 degrees k times, from the first dim towards the second
Tensor rot90(const Tensor& x, int k = 1, const Dims& dims = {0, 1});

// --- copies and views (a view shares storage; a write to one is visible in the other) ---
Tensor cast(const Tensor& x, Dtype dtype);                   // x itself if it already has the dtype
Tensor contiguous(const Tensor& x);                          // x itself if already contiguous
// [N, C, H, W] or [N, C, D, H, W] with channels innermost in memory; x itself if it is so already
Tensor channels_last(const Tensor& x);
Tensor clone(const Tensor& x);                               // always a copy, preserves the layout of x
Tensor reshape(const Tensor& x, const Dims& shape);          // a view if strides allow, else a copy; one -1 allowed
Tensor flatten(const Tensor& x, int start = 0, int end = -1);
Tensor transpose(const Tensor& x, int a, int b);
Tensor transpose(const Tensor& x);                           // the last two dims
Tensor permute(const Tensor& x, const Dims& order);
Tensor expand(const Tensor& x, const Dims& shape);           // -1 keeps the size
Tensor unsqueeze(const Tensor& x, int dim);
Tensor squeeze(const Tensor& x, int dim);                    // x itself unless the size is 1
Tensor squeeze(const Tensor& x);
Tensor slice(const Tensor& x, int dim, std::int64_t begin, std::optional<std::int64_t> end = {}, std::int64_t step = 1);
Tensor select(const Tensor& x, int dim, std::int64_t index);
Tensor narrow(const Tensor& x, int dim, std::int64_t start, std::int64_t length);  // a view
Tensor movedim(const Tensor& x, const Dims& source, const Dims& destination);      // a view
Tensor unfold(const Tensor& x, int dim, std::int64_t size, std::int64_t step);  // sliding windows, in a new last dim
Tensor unflatten(const Tensor& x, int dim, const Dims& sizes);  // splits dim into several; one size may be -1
Tensor broadcast_to(const Tensor& x, const Dims& shape);                      // expand

// --- creating tensors (more in core/tensor.h) ---
Tensor full_like(const Tensor& x, double value);
Tensor logspace(double begin, double end, std::int64_t count, double base = 10, TensorOptions = {});  // base^linspace
// [2, count], i64 by default
Tensor tril_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset = 0, TensorOptions o = {});
Tensor triu_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset = 0, TensorOptions o = {});

// --- random, from the default generator (core/random.h); results do not depend on the number of threads ---
Tensor rand_like(const Tensor& x);
Tensor randn_like(const Tensor& x);
Tensor randint_like(const Tensor& x, std::int64_t low, std::int64_t high);
Tensor bernoulli(const Tensor& p);  // each element is 1 with probability p; p's dtype
Tensor normal(const Tensor& mean, const Tensor& std);  // they broadcast
Tensor normal(double mean, double std, const Dims& sizes, TensorOptions = {});
// Indices i64 [*, num_samples], drawn with probabilities proportional to x [*, categories]; x has at most 2 dims.
Tensor multinomial(const Tensor& x, std::int64_t num_samples, bool replacement = false);
// hard: one-hot in the forward pass, with the gradient of the soft sample
Tensor gumbel_softmax(const Tensor& logits, double tau = 1, bool hard = false, int dim = -1);
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);        // survivors are scaled by 1 / (1 - p)
// Dropout of whole channels, x [N, C, L], [N, C, H, W], [N, C, D, H, W]; unbatched [C, ...].
Tensor dropout1d(const Tensor& x, double p = 0.5, bool training = true);
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true);
Tensor dropout3d(const Tensor& x, double p = 0.5, bool training = true);
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = false);  // for selu: preserves mean and variance
Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = false);

// --- operators ---
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }
// A Python-style scalar adopts the dtype of the tensor: labels + 1 stays i64, and labels * 0.5 is f32.
template <class T> concept Number = std::convertible_to<T, double>;
#define MANTISSA_NUMBER_OPERATORS(op, name)                                        \
  Tensor operator op(const Tensor& a, Number auto b) { return name(a, Tensor(b)); } \
  Tensor operator op(Number auto a, const Tensor& b) { return name(Tensor(a), b); }
MANTISSA_NUMBER_OPERATORS(+, add)
MANTISSA_NUMBER_OPERATORS(-, sub)
MANTISSA_NUMBER_OPERATORS(*, mul)
MANTISSA_NUMBER_OPERATORS(/, div)
MANTISSA_NUMBER_OPERATORS(<, lt)
MANTISSA_NUMBER_OPERATORS(<=, le)
MANTISSA_NUMBER_OPERATORS(>, gt)
MANTISSA_NUMBER_OPERATORS(>=, ge)
MANTISSA_NUMBER_OPERATORS(==, eq)
MANTISSA_NUMBER_OPERATORS(!=, ne)
#undef MANTISSA_NUMBER_OPERATORS
inline Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }
inline Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
Tensor pow(const Tensor& a, Number auto b) { return pow(a, Tensor(b)); }
Tensor pow(Number auto a, const Tensor& b) { return pow(Tensor(a), b); }

}  // namespace mantissa
