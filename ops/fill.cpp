// Tensors filled by a rule: full_like, logspace, indices of triangles. More in core/factories.cpp; those of signal
// processing are in ops/window.cpp.
#include "core/ops.h"
#include "ops/apply.h"
#include "ops/device_table.h"
#include "ops/registry.h"

namespace mantissa {
namespace {

Tensor triangle_indices(const char* name, std::int64_t rows, std::int64_t columns, std::int64_t offset, bool lower,
                        const TensorOptions& o) {
  check(rows >= 0 && columns >= 0, name, ": ", rows, " rows and ", columns, " columns must not be negative");
  std::vector<std::int64_t> row, column;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      if (lower ? j - i <= offset : j - i >= offset) row.push_back(i), column.push_back(j);
    }
  }
  const auto n = static_cast<std::int64_t>(row.size());
  row.insert(row.end(), column.begin(), column.end());
  const Tensor indices = device_table(row, {2, n}, o.device);
  const Dtype dtype = o.dtype.or_else(i64);
  return dtype != i64 ? cast(indices, dtype) : o.device.is_cpu() ? indices : clone(indices);
}

}  // namespace

Tensor full_like(const Tensor& x, double value) {
  return full(x.sizes(), value, {.dtype = x.dtype(), .device = x.device()});
}
Tensor logspace(double begin, double end, std::int64_t count, double base, TensorOptions o) {
  const Tensor exponent = linspace(begin, end, count, {.dtype = f64, .device = o.device});
  Tensor y = cast(pow(full(exponent.sizes(), base, {.dtype = f64, .device = o.device}), exponent), o.dtype);
  if (o.requires_grad) y.requires_grad_();
  return y;
}
Tensor tril_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset, TensorOptions o) {
  return triangle_indices("tril_indices", rows, columns, offset, true, o);
}
Tensor triu_indices(std::int64_t rows, std::int64_t columns, std::int64_t offset, TensorOptions o) {
  return triangle_indices("triu_indices", rows, columns, offset, false, o);
}

namespace {

void full_like_samples(Samples& s) {
  s.call({s.randn({2, 3})}, [](const Tensors& x) { return full_like(x[0], 0.5); });
}
void logspace_samples(Samples& s) {
  s.call({}, [](const Tensors&) { return logspace(-1, 2, 4, 2, {.dtype = f64}); });
}
void tril_indices_samples(Samples& s) {
  s.call({}, [](const Tensors&) { return tril_indices(3, 4, -1); });
  s.error_call(
      {}, [](const Tensors&) { return tril_indices(-1, 4); }, "must not be negative");
}
void triu_indices_samples(Samples& s) {
  s.call({}, [](const Tensors&) { return triu_indices(3, 4, 1); });
  s.error_call(
      {}, [](const Tensors&) { return triu_indices(2, -1); }, "must not be negative");
}
MANTISSA_COMPOSITE(full_like, full_like_samples, .differentiable = false)
MANTISSA_COMPOSITE(logspace, logspace_samples, .differentiable = false)
MANTISSA_COMPOSITE(tril_indices, tril_indices_samples, .differentiable = false)
MANTISSA_COMPOSITE(triu_indices, triu_indices_samples, .differentiable = false)

}  // namespace
}  // namespace mantissa
