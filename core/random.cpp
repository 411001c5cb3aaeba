#include "core/random.h"

#include <cmath>
#include <mutex>
#include <numeric>
#include <vector>

#include "core/parallel.h"

namespace mantissa {

Philox::Words Philox::operator()(std::uint64_t offset, std::uint64_t stream) const {
  std::uint32_t c[4] = {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(offset >> 32),
                        static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)};
  std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * c[0], b = std::uint64_t{0xCD9E8D57} * c[2];
    const std::uint32_t next[4] = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(b),
                                   static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(a)};
    for (int i = 0; i < 4; ++i) c[i] = next[i];
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

namespace {

std::mutex default_mutex;
Generator& default_generator() {
  static Generator g(0x853c49e6748fea9bull);
  return g;
}

// Fills a tensor four elements per counter: value(words, out) writes four doubles.
template <class F> Tensor draw(const Dims& sizes, TensorOptions o, F&& four) {
  Tensor t = Tensor::allocate(sizes, o.dtype == i64 ? i64 : o.dtype == f64 ? f64 : f32);
  const std::int64_t n = t.numel(), groups = (n + 3) / 4;
  const RngState at = reserve_random(static_cast<std::uint64_t>(groups));
  const Philox philox{at.seed};
  visit(t.dtype(), [&]<class T> {
    T* p = static_cast<T*>(t.raw_data());
    parallel_for(groups, grain_size / 8, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t g = begin; g < end; ++g) {
        double v[4];
        four(philox(at.offset + static_cast<std::uint64_t>(g)), v);
        for (std::int64_t i = 0; i < 4 && g * 4 + i < n; ++i) p[g * 4 + i] = static_cast<T>(v[i]);
      }
    });
  });
  Tensor y = t.dtype() == o.dtype && o.device.is_cpu() ? t : Tensor::allocate(sizes, o.dtype, o.device).copy_(t);
  if (o.requires_grad) y.requires_grad_();
  return y;
}

// Box and Muller's transform; u is kept above 0.
void normal_four(const Philox::Words& w, double* v) {
  for (int i = 0; i < 4; i += 2) {
    const double u = (static_cast<double>(w.v[i]) + 0.5) * 0x1p-32, angle = static_cast<double>(w.v[i + 1]) * (6.283185307179586 * 0x1p-32);
    const double r = std::sqrt(-2 * std::log(u));
    v[i] = r * std::cos(angle);
    v[i + 1] = r * std::sin(angle);
  }
}

}  // namespace

void manual_seed(std::uint64_t seed) { set_rng_state({seed, 0}); }
RngState reserve_random(std::uint64_t count) {
  const std::lock_guard lock(default_mutex);
  return default_generator().reserve(count);
}
RngState rng_state() {
  const std::lock_guard lock(default_mutex);
  return default_generator().state();
}
void set_rng_state(RngState s) {
  const std::lock_guard lock(default_mutex);
  default_generator().set_state(s);
}

Tensor rand(const Dims& sizes, TensorOptions o) {
  check(is_floating(o.dtype), "rand: the dtype must be floating, got ", o.dtype);
  // A half keeps fewer bits than are drawn, and rounding the rest could give 1.
  const int dropped = o.dtype == f16 ? 21 : o.dtype == bf16 ? 24 : 8;
  return draw(sizes, o, [dropped](const Philox::Words& w, double* v) {
    for (int i = 0; i < 4; ++i) v[i] = std::ldexp(static_cast<double>(w.v[i] >> dropped), dropped - 32);
  });
}
Tensor randn(const Dims& sizes, TensorOptions o) {
  check(is_floating(o.dtype), "randn: the dtype must be floating, got ", o.dtype);
  return draw(sizes, o, normal_four);
}
Tensor randint(std::int64_t low, std::int64_t high, const Dims& sizes, TensorOptions o) {
  check(low < high, "randint: low ", static_cast<long long>(low), " is not below high ", static_cast<long long>(high));
  check(static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low) <= (std::uint64_t{1} << 32), "randint: the range has more than 2^32 values");
  const double range = static_cast<double>(high - low);
  return draw(sizes, o, [=](const Philox::Words& w, double* v) {
    for (int i = 0; i < 4; ++i) v[i] = static_cast<double>(low) + std::floor(static_cast<double>(w.v[i]) * 0x1p-32 * range);
  });
}
Tensor randperm(std::int64_t n, TensorOptions o) {
  check(n >= 0 && n < (std::int64_t{1} << 32), "randperm: n must be in [0, 2^32), got ", static_cast<long long>(n));
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const RngState at = reserve_random(static_cast<std::uint64_t>(n));
  const Philox philox{at.seed};
  for (std::int64_t i = n - 1; i > 0; --i) {  // Fisher and Yates; 64 random bits make the bias negligible
    const Philox::Words w = philox(at.offset + static_cast<std::uint64_t>(i));
    const std::uint64_t bits = (std::uint64_t{w.v[0]} << 32) | w.v[1];
    std::swap(order[static_cast<std::size_t>(i)], order[bits % static_cast<std::uint64_t>(i + 1)]);
  }
  const Tensor t = from_data<std::int64_t>(order, {n});
  return o.dtype == i64 && o.device.is_cpu() ? t : Tensor::allocate({n}, o.dtype, o.device).copy_(t);
}

void uniform_(Tensor& t, double low, double high) {
  const Tensor u = rand(t.sizes(), {.dtype = t.dtype() == f64 ? f64 : f32, .device = t.device()});
  Tensor scaled = Tensor::allocate(t.sizes(), u.dtype(), t.device()).fill_(low);
  t.copy_(scaled.add_(u, high - low));
}
void normal_(Tensor& t, double mean, double std) {
  const Tensor z = randn(t.sizes(), {.dtype = t.dtype() == f64 ? f64 : f32, .device = t.device()});
  Tensor scaled = Tensor::allocate(t.sizes(), z.dtype(), t.device()).fill_(mean);
  t.copy_(scaled.add_(z, std));
}

}  // namespace mantissa
