// Tensor factories: filled, ranges, copied from memory or from braced lists. Random ones are in core/random.cpp.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/kernel.h"
#include "core/tensor.h"

namespace mantissa {

// The elements of a NumberRange, below.
MANTISSA_CUDA_KERNEL(fill_range, const View& y, double begin, double step, double parts, double last)

Tensor empty(const Dims& sizes, TensorOptions o) {
  Tensor t = Tensor::allocate(sizes, o.dtype, o.device);
  if (o.requires_grad) t.requires_grad_();
  return t;
}
Tensor full(const Dims& sizes, double value, TensorOptions o) {
  Tensor t = Tensor::allocate(sizes, o.dtype, o.device);
  t.fill_(value);
  if (o.requires_grad) t.requires_grad_();
  return t;
}
Tensor zeros(const Dims& sizes, TensorOptions o) { return full(sizes, 0, o); }
Tensor ones(const Dims& sizes, TensorOptions o) { return full(sizes, 1, o); }
Tensor scalar(double value, TensorOptions o) { return full({}, value, o); }
Tensor empty_like(const Tensor& t) { return Tensor::allocate(t.sizes(), t.dtype(), t.device(), t.layout()); }
Tensor zeros_like(const Tensor& t) { return empty_like(t).fill_(0); }
Tensor ones_like(const Tensor& t) { return empty_like(t).fill_(1); }

namespace {
// Numbers begin + step * i / parts; `last`, if it is not NaN, is the last one.
struct NumberRange {
  double begin, step, parts = 1, last = NAN;
  double at(std::int64_t i, std::int64_t n) const {
    if (i == n - 1 && last == last) return last;
    const double far = step * static_cast<double>(i);
    return begin + (parts == 1 ? far : far / parts);
  }
};
// n of them, computed in f64 and converted.
Tensor numbers(std::int64_t n, const NumberRange& range, TensorOptions o) {
  Tensor y = Tensor::allocate({n}, o.dtype, o.device);
  if (!o.device.is_cpu()) {
    cuda_backend::prepare(&cuda_backend::fill_range, o.device)(y.view(), range.begin, range.step, range.parts,
                                                               range.last);
  } else if (o.dtype == i64) {
    std::int64_t* const to = y.data<std::int64_t>();
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<std::int64_t>(range.at(i, n));
  } else {
    const Tensor wide = o.dtype == f64 ? y : Tensor::allocate({n}, f64);
    double* const to = wide.data<double>();
    for (std::int64_t i = 0; i < n; ++i) to[i] = range.at(i, n);
    if (o.dtype != f64) y.copy_(wide);
  }
  if (o.requires_grad) y.requires_grad_();
  return y;
}
}  // namespace

Tensor arange(double begin, double end, double step, TensorOptions o) {
  o.dtype = o.dtype.or_else(i64);
  check(step != 0 && (end - begin) / step >= 0, "arange: step ", step, " does not lead from ", begin, " to ", end);
  const double count = std::ceil((end - begin) / step);
  check(count < 0x1p47, "arange: too many elements");
  const bool whole = std::trunc(begin) == begin && std::trunc(end) == end && std::trunc(step) == step;
  check(whole || is_floating(o.dtype), "arange: ", begin, " to ", end, " by ", step, " has fractions, which ", o.dtype,
        " cannot hold; pass {.dtype = f32}");
  return numbers(static_cast<std::int64_t>(count), {begin, step}, o);
}
Tensor arange(std::int64_t end, TensorOptions o) { return arange(0, static_cast<double>(end), 1, o); }
Tensor linspace(double begin, double end, std::int64_t count, TensorOptions o) {
  check(count >= 0, "linspace: count ", count, " is negative");
  const double parts = static_cast<double>(std::max<std::int64_t>(1, count - 1));
  return numbers(count, {begin, end - begin, parts, count > 1 ? end : begin}, o);
}
Tensor eye(std::int64_t n, TensorOptions o) {
  Tensor t = zeros({n, n}, {.dtype = o.dtype, .device = o.device});
  if (n > 0) t.raw_view({n}, {n + 1}).fill_(1);
  if (o.requires_grad) t.requires_grad_();
  return t;
}

template <class T> Tensor from_data(std::span<const T> values, const Dims& sizes) {
  const std::int64_t n = checked_numel(sizes);
  check(n == static_cast<std::int64_t>(values.size()), "from_data: shape ", sizes, " needs ", n, " values, got ",
        values.size());
  Tensor t = Tensor::allocate(sizes, dtype_of<T>);
  if (n > 0) std::memcpy(t.raw_data(), values.data(), values.size_bytes());
  return t;
}
template Tensor from_data(std::span<const double>, const Dims&);
template Tensor from_data(std::span<const float>, const Dims&);
template Tensor from_data(std::span<const std::int64_t>, const Dims&);
template Tensor from_data(std::span<const std::int32_t>, const Dims&);
template Tensor from_data(std::span<const std::uint8_t>, const Dims&);

namespace {
// Integers keep all digits.
template <class T> using Wide = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
template <class W> Tensor literal(const std::vector<W>& values, const Dims& sizes, TensorOptions o) {
  Tensor t = Tensor::allocate(sizes, o.dtype, o.device);
  t.copy_(from_data<W>(values, sizes));
  if (o.requires_grad) t.requires_grad_();
  return t;
}
template <class T> constexpr Dtype literal_dtype = f32;  // of numbers of several types
template <detail::ListedAlone T> constexpr Dtype literal_dtype<T> = detail::listed_dtype<T>;
template <class T> Tensor literal_rows(std::initializer_list<std::initializer_list<T>> rows, TensorOptions o) {
  o.dtype = o.dtype.or_else(literal_dtype<T>);
  std::vector<Wide<T>> values;
  const std::size_t columns = rows.size() > 0 ? rows.begin()->size() : 0;
  for (const auto& row : rows) {
    check(row.size() == columns, "tensor: rows of ", columns, " and ", row.size(), " values");
    values.insert(values.end(), row.begin(), row.end());
  }
  return literal(values, {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns)}, o);
}
template <class T> Tensor literal_row(std::initializer_list<T> v, TensorOptions o) {
  o.dtype = o.dtype.or_else(literal_dtype<T>);
  return literal(std::vector<Wide<T>>(v.begin(), v.end()), {static_cast<std::int64_t>(v.size())}, o);
}
}  // namespace
template <detail::ListedAlone T> Tensor tensor(std::initializer_list<T> v, TensorOptions o) {
  return literal_row(v, o);
}
template <detail::ListedAlone T> Tensor tensor(std::initializer_list<std::initializer_list<T>> rows, TensorOptions o) {
  return literal_rows(rows, o);
}
#define MANTISSA_X(type)                                              \
  template Tensor tensor(std::initializer_list<type>, TensorOptions); \
  template Tensor tensor(std::initializer_list<std::initializer_list<type>>, TensorOptions);
MANTISSA_X(int) MANTISSA_X(std::int64_t) MANTISSA_X(bool) MANTISSA_X(float) MANTISSA_X(double)
#undef MANTISSA_X
Tensor tensor(std::initializer_list<detail::Listed> v, TensorOptions o) {
  return literal_row(v, o);
}
Tensor tensor(std::initializer_list<std::initializer_list<detail::Listed>> rows, TensorOptions o) {
  return literal_rows(rows, o);
}

}  // namespace mantissa
