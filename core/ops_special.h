// Less common operators: special functions, fractional pooling, and short compositions of other operators. The
// conventions of core/ops.h hold here too.
#pragma once

#include "core/ops.h"
#include "core/tensor.h"

namespace mantissa {

// Integers give f32. The gradient of each is the next one: lgamma, digamma, polygamma(1), polygamma(2), ...
Tensor lgamma(const Tensor& x);                     // log |gamma(x)|; for an integer n > 0: log (n - 1)!
Tensor digamma(const Tensor& x);                    // the derivative of lgamma
Tensor polygamma(std::int64_t n, const Tensor& x);  // the n-th derivative of digamma, n >= 0
// log of the multivariate gamma function of dimension p >= 1, for x > (p - 1) / 2
Tensor mvlgamma(const Tensor& x, int p);

// Fractional max pooling (Graham, 2014; windows by PyTorch's rule): windows of one size start at random positions whose
// average distance is (in - kernel) / (output - 1), rounded down. x [N, C, H, W] or [C, H, W] (volumes: D first),
// output and kernel [H, W] with output + kernel - 1 no larger than the image. samples: random numbers in [0, 1] for
// each image and channel, [N, C, 2] (volumes [N, C, 3]), N = 1 if x has no batch; absent: drawn from the generator of
// x's device.
Tensor fractional_max_pool2d(const Tensor& x, PerDim<2> kernel, PerDim<2> output,
                             const Tensor& samples = {});
Tensor fractional_max_pool3d(const Tensor& x, PerDim<3> kernel, PerDim<3> output,
                             const Tensor& samples = {});
// Also returns the i64 index of each maximum in its flattened image or volume.
ValuesIndices fractional_max_pool2d_with_indices(const Tensor& x, PerDim<2> kernel, PerDim<2> output,
                                                 const Tensor& samples = {});
ValuesIndices fractional_max_pool3d_with_indices(const Tensor& x, PerDim<3> kernel, PerDim<3> output,
                                                 const Tensor& samples = {});

// Means, or sums, of bags of rows of weight [rows, columns], read once and not copied, as
// torch.nn.functional.embedding_bag with include_last_offset. Bag i of the result [bags, columns] consists of the rows
// indices[k] for k from offsets[i] to offsets[i + 1], exclusive; an empty bag gives 0. indices i64 [n]; offsets i64
// [bags + 1] begins with 0, does not fall and ends with n. factors [n], of weight's dtype, multiply the rows of sums.
// Rows padding_idx (negative: from the end) do not count, and get no gradient. f16 and bf16 are summed in f32.
Tensor embedding_bag(const Tensor& weight, const Tensor& indices, const Tensor& offsets, bool mean = true,
                     const Tensor& factors = {}, std::optional<std::int64_t> padding_idx = {});

// y[i] = a[i] * y[i - 1] + b[i] along dim, with y[-1] = 0, in one pass: the states of a state-space model (Mamba, Gu
// and Dao, 2023) or of a linear filter of the first order. a and b are floating, of one dtype, and broadcast.
Tensor linear_recurrence(const Tensor& a, const Tensor& b, int dim);

// --- elementwise ---
Tensor fmax(const Tensor& a, const Tensor& b);  // as maximum, but a number is preferred to NaN
Tensor fmin(const Tensor& a, const Tensor& b);
// 0 for x < 0 and NaN, `values` for x = 0, 1 for x > 0; same dtype; no gradient
Tensor heaviside(const Tensor& x, const Tensor& values);
Tensor deg2rad(const Tensor& x);                          // integers give f32
Tensor rad2deg(const Tensor& x);
Tensor ldexp(const Tensor& x, const Tensor& exponent);  // x * 2^exponent; an integer x gives f32
Tensor float_power(const Tensor& a, const Tensor& b);   // pow in f64, whatever the dtypes
inline Tensor float_power(const Tensor& a, double b) { return float_power(a, Tensor(b)); }
Tensor isposinf(const Tensor& x);  // bool
Tensor isneginf(const Tensor& x);

// --- shapes: views unless stated otherwise ---
Tensor atleast_1d(const Tensor& x);
Tensor atleast_2d(const Tensor& x);  // [n] -> [1, n]
Tensor atleast_3d(const Tensor& x);  // [n] -> [1, n, 1], [m, n] -> [m, n, 1]
Tensor fliplr(const Tensor& x);      // a copy with dim 1 reversed
Tensor flipud(const Tensor& x);      // a copy with dim 0 reversed
std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors);
// `sections` parts of almost equal size, the first ones longer by one; or split before each of the indices, which may
// be negative and are clamped to the size, as in Python. (split() takes the sizes of the parts.)
std::vector<Tensor> tensor_split(const Tensor& x, std::int64_t sections, int dim = 0);
std::vector<Tensor> tensor_split(const Tensor& x, const Dims& indices, int dim = 0);
// tensor_split along dim 1 (vectors: dim 0), dim 0 and dim 2.
std::vector<Tensor> hsplit(const Tensor& x, std::int64_t sections);
std::vector<Tensor> hsplit(const Tensor& x, const Dims& indices);
std::vector<Tensor> vsplit(const Tensor& x, std::int64_t sections);
std::vector<Tensor> vsplit(const Tensor& x, const Dims& indices);
std::vector<Tensor> dsplit(const Tensor& x, std::int64_t sections);
std::vector<Tensor> dsplit(const Tensor& x, const Dims& indices);
Tensor column_stack(std::span<const Tensor> tensors);  // along dim 1; vectors and scalars become columns
Tensor dstack(std::span<const Tensor> tensors);        // atleast_3d of each, along dim 2
// block-diagonal matrix of the given matrices (vectors are rows), zeros elsewhere
Tensor block_diag(std::span<const Tensor> tensors);
inline std::vector<Tensor> broadcast_tensors(std::initializer_list<Tensor> t) {
  return broadcast_tensors(std::span(t.begin(), t.size()));
}
inline Tensor column_stack(std::initializer_list<Tensor> t) { return column_stack(std::span(t.begin(), t.size())); }
inline Tensor dstack(std::initializer_list<Tensor> t) { return dstack(std::span(t.begin(), t.size())); }
inline Tensor block_diag(std::initializer_list<Tensor> t) { return block_diag(std::span(t.begin(), t.size())); }
Tensor diagflat(const Tensor& x, std::int64_t offset = 0);  // diag of the flattened x

// --- indexing ---
// writes into the flattened x (a copy); index may be negative
Tensor put(const Tensor& x, const Tensor& index, const Tensor& source, bool accumulate = false);
// index_add with another reduction: prod, mean, amax, amin. include_self: x's own elements take part.
Tensor index_reduce(const Tensor& x, int dim, const Tensor& index, const Tensor& source, std::string_view reduce,
                    bool include_self = true);
// converts flat indices into `shape` to coordinates, one i64 tensor per dim
std::vector<Tensor> unravel_index(const Tensor& index, const Dims& shape);
// all r-element combinations of a vector's elements: [count, r]
Tensor combinations(const Tensor& x, int r = 2, bool with_replacement = false);
// Cartesian product: [count, vectors]; a single vector is returned as it is
Tensor cartesian_prod(std::span<const Tensor> vectors);
inline Tensor cartesian_prod(std::initializer_list<Tensor> t) { return cartesian_prod(std::span(t.begin(), t.size())); }

// --- reductions ---
struct MinMax { Tensor min, max; };
MinMax aminmax(const Tensor& x, std::optional<int> dim = {}, bool keepdim = false);  // amin and amax
struct StdMean { Tensor std, mean; };
StdMean std_mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false, int correction = 1);
struct VarMean { Tensor var, mean; };
VarMean var_mean(const Tensor& x, const Dims& dims = {}, bool keepdim = false, int correction = 1);
Tensor dist(const Tensor& a, const Tensor& b, double p = 2);  // norm(a - b, p)
// of the elements that are not NaN; NaN if there are none
ValuesIndices nanmedian(const Tensor& x, int dim, bool keepdim = false);
Tensor nanmedian(const Tensor& x);
// Number of elements in each of `bins` equal parts of [min, max], in x's dtype; min = max: from the smallest to the
// largest element, which must then be finite. No gradient.
Tensor histc(const Tensor& x, std::int64_t bins = 100, double min = 0, double max = 0);
// Covariance matrix of the rows of x [variables, observations] or [observations]: [variables, variables], a scalar for
// one variable. fweights i64 [observations]: frequency of each observation; aweights: its importance. Neither may be
// negative; both may be undefined.
Tensor cov(const Tensor& x, int correction = 1, const Tensor& fweights = {}, const Tensor& aweights = {});
Tensor corrcoef(const Tensor& x);  // cov divided by the standard deviations, in [-1, 1]
// scales slices of dim whose p-norm exceeds maxnorm down to it
Tensor renorm(const Tensor& x, double p, int dim, double maxnorm);

// --- windows of `count` values; periodic: the symmetric window of count + 1 values without its last ---
Tensor hann_window(std::int64_t count, bool periodic = true, TensorOptions = {});
Tensor hamming_window(std::int64_t count, bool periodic = true, double alpha = 0.54, double beta = 0.46,
                      TensorOptions = {});
Tensor blackman_window(std::int64_t count, bool periodic = true, TensorOptions = {});
Tensor bartlett_window(std::int64_t count, bool periodic = true, TensorOptions = {});
Tensor kaiser_window(std::int64_t count, bool periodic = true, double beta = 12, TensorOptions = {});

}  // namespace mantissa
