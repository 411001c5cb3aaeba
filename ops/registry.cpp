#include "ops/registry.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "core/random.h"

namespace mantissa {
namespace {

std::vector<OpInfo>& entries() {
  static std::vector<OpInfo> list;
  return list;
}

template <class T, class F> Tensor generate(const Dims& sizes, std::uint64_t seed, std::uint64_t stream, F&& value) {
  Tensor t = Tensor::allocate(sizes, dtype_of<T>);
  const Philox philox{seed};
  T* p = t.data<T>();
  for (std::int64_t i = 0, n = t.numel(); i < n; ++i) {
    const auto words = philox(static_cast<std::uint64_t>(i), stream);
    p[i] = static_cast<T>(value(static_cast<double>(words.v[0]) * 0x1p-32, static_cast<double>(words.v[1]) * 0x1p-32));
  }
  return t;
}

}  // namespace

RegisterOp::RegisterOp(const OpInfo& info) {
  entries().push_back(info);
  if (!info.composite || info.has_policy) amp::announce_operator(info.name, info.autocast);
}

const std::vector<OpInfo>& registry() {
  std::sort(entries().begin(), entries().end(),
            [](const OpInfo& a, const OpInfo& b) { return std::strcmp(a.name, b.name) < 0; });
  return entries();
}

Tensor Samples::randn(const Dims& sizes) {
  return generate<double>(sizes, seed_, next_++, [](double u, double v) {
    const double x = std::sqrt(-2 * std::log(1 - u)) * std::cos(6.283185307179586 * v);
    return x + (x < 0 ? -0.05 : 0.05);
  });
}
Tensor Samples::uniform(const Dims& sizes, double low, double high) {
  return generate<double>(sizes, seed_, next_++, [=](double u, double) { return low + (high - low) * u; });
}
Tensor Samples::integers(const Dims& sizes, std::int64_t low, std::int64_t high) {
  return generate<std::int64_t>(sizes, seed_, next_++, [=](double u, double) {
    return low + static_cast<std::int64_t>(u * static_cast<double>(high - low));
  });
}
Tensor Samples::booleans(const Dims& sizes) {
  return generate<bool>(sizes, seed_, next_++, [](double u, double) { return u < 0.5; });
}
Tensor Samples::distinct(const Dims& sizes) {
  Tensor key = uniform(sizes, 0, 1);
  const std::int64_t n = key.numel();
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const double* k = key.data<double>();
  std::sort(order.begin(), order.end(), [k](auto a, auto b) { return k[a] < k[b]; });
  Tensor t = Tensor::allocate(sizes, f64);
  // Steps of 1/16 around 0: exact in every dtype for up to a few hundred elements.
  for (std::int64_t i = 0; i < n; ++i)
    t.data<double>()[order[static_cast<std::size_t>(i)]] = (static_cast<double>(i) - static_cast<double>(n) / 2) / 16;
  return t;
}

Sample& Samples::keep(Tensors inputs, Call f, Call reference) {
  Sample s;
  s.inputs = std::move(inputs);
  s.call = std::move(f);
  s.reference = std::move(reference);
  all.push_back(std::move(s));
  return all.back();
}

}  // namespace mantissa
