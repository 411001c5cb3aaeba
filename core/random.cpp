#include "core/random.h"

#include <cmath>
#include <mutex>
#include <numeric>
#include <utility>
#include <vector>

#include "core/distribution.h"
#include "core/kernel.h"
#include "core/ops.h"
#include "core/parallel.h"

namespace mantissa {

// Element i of y (contiguous) comes from counter offset + i / 4.
MANTISSA_KERNEL(random_fill, const View& y, Distribution distribution, double low, double range,
                std::uint64_t seed, std::uint64_t offset)
// y := the permutation of randperm
MANTISSA_CUDA_KERNEL(shuffle, const View& y, std::uint64_t seed, std::uint64_t offset)

namespace {

std::mutex default_mutex;
RngState default_state{.seed = 0x853c49e6748fea9bull};
constinit thread_local RngState* scoped = nullptr;  // the innermost RandomScope's

// Fills a tensor four elements per counter.
Tensor draw(const Dims& sizes, TensorOptions o, Distribution distribution, double low = 0, double range = 1) {
  // Integers are drawn as i64, which holds every range, and cast to the dtype at the end.
  Tensor t = Tensor::allocate(sizes, !is_floating(o.dtype) ? i64 : o.dtype == f64 ? f64 : f32, o.device);
  const std::int64_t groups = (t.numel() + 3) / 4;
  const RngState at = reserve_random(static_cast<std::uint64_t>(groups));
  kernels::random_fill(o.device, t.view(), distribution, low, range, at.seed, at.offset);
  Tensor y = t.dtype() == o.dtype ? t : Tensor::allocate(sizes, o.dtype, o.device).copy_(t);
  if (o.requires_grad) y.requires_grad_();
  return y;
}

}  // namespace

void manual_seed(std::uint64_t seed) { set_rng_state({seed, 0}); }
RngState reserve_random(std::uint64_t count) {
  if (scoped) return std::exchange(*scoped, {scoped->seed, scoped->offset + count});
  const std::lock_guard lock(default_mutex);
  return std::exchange(default_state, {default_state.seed, default_state.offset + count});
}
RngState rng_state() {
  if (scoped) return *scoped;
  const std::lock_guard lock(default_mutex);
  return default_state;
}
void set_rng_state(RngState s) {
  if (scoped) {
    *scoped = s;
    return;
  }
  const std::lock_guard lock(default_mutex);
  default_state = s;
}

RandomScope::RandomScope(RngState& stream) : outer_(std::exchange(scoped, &stream)) {}
RandomScope::~RandomScope() { scoped = outer_; }

Tensor rand(const Dims& sizes, TensorOptions o) {
  check(is_floating(o.dtype), "rand: the dtype must be floating, got ", o.dtype);
  // f16 and bf16 hold fewer bits than are drawn, and rounding the rest could give 1.
  const int dropped = o.dtype == f16 ? 21 : o.dtype == bf16 ? 24 : 8;
  if (o.dtype != f64) return draw(sizes, o, Distribution::uniform, dropped);
  // All 53 bits: 27 of one word and 26 of another.
  const TensorOptions plain{.dtype = f64, .device = o.device};
  Tensor y = draw(sizes, plain, Distribution::uniform, 32 - 27);
  y.add_(draw(sizes, plain, Distribution::uniform, 32 - 26), 0x1p-27);
  if (o.requires_grad) y.requires_grad_();
  return y;
}
Tensor randn(const Dims& sizes, TensorOptions o) {
  check(is_floating(o.dtype), "randn: the dtype must be floating, got ", o.dtype);
  return draw(sizes, o, Distribution::normal);
}
Tensor randint(std::int64_t low, std::int64_t high, const Dims& sizes, TensorOptions o) {
  o.dtype = o.dtype.or_else(i64);
  check(low < high, "randint: low ", low, " is not below high ", high);
  const std::uint64_t count = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  check(count <= std::uint64_t{INT64_MAX}, "randint: the range has more than 2^63 - 1 values");
  if (o.dtype == u8 || o.dtype == boolean || o.dtype == i32) {
    const std::int64_t least = o.dtype == i32 ? INT32_MIN : 0, most = o.dtype == i32  ? INT32_MAX
                                                                      : o.dtype == u8 ? 255
                                                                                      : 1;
    check(low >= least && high - 1 <= most, "randint: ", o.dtype, " holds ", least, " to ", most, ", not [", low, ", ",
          high, ")");
  }
  constexpr std::int64_t word = std::int64_t{1} << 32, exact = std::int64_t{1} << 52;
  if (count <= word && low > -exact && low < exact)
    return draw(sizes, o, Distribution::integers, static_cast<double>(low), static_cast<double>(count));
  // What 63 bits leave when divided by the number of values, as PyTorch does it with 64: of a number far below 2^63
  // every value is as likely.
  const TensorOptions plain{.dtype = i64, .device = o.device};
  const auto number = [&](std::int64_t v) { return from_data(std::vector<std::int64_t>{v}, {}).to(o.device); };
  const Tensor upper = draw(sizes, plain, Distribution::integers, 0, 0x1p31),
               lower = draw(sizes, plain, Distribution::integers, 0, 0x1p32);
  const Tensor offsets = remainder(upper * number(word) + lower, number(static_cast<std::int64_t>(count)));
  Tensor y = cast(offsets + number(low), o.dtype);
  if (o.requires_grad) y.requires_grad_();
  return y;
}
Tensor randperm(std::int64_t n, TensorOptions o) {
  o.dtype = o.dtype.or_else(i64);
  check(n >= 0 && n < (std::int64_t{1} << 32), "randperm: n must be in [0, 2^32), got ", n);
  const RngState at = reserve_random(static_cast<std::uint64_t>(n));
  if (!o.device.is_cpu()) {  // as for mixing the samples of a batch, also while it is captured
    const Tensor t = Tensor::allocate({n}, i64, o.device);
    cuda_backend::prepare(&cuda_backend::shuffle, o.device)(t.view(), at.seed, at.offset);
    return o.dtype == i64 ? t : Tensor::allocate({n}, o.dtype, o.device).copy_(t);
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  const Philox philox{at.seed};
  for (std::int64_t i = n - 1; i > 0; --i) {  // Fisher-Yates shuffle; with 64 random bits the bias is negligible
    const Philox::Words w = philox(at.offset + static_cast<std::uint64_t>(i));
    const std::uint64_t bits = (std::uint64_t{w.v[0]} << 32) | w.v[1];
    std::swap(order[static_cast<std::size_t>(i)], order[bits % static_cast<std::uint64_t>(i + 1)]);
  }
  const Tensor t = from_data<std::int64_t>(order, {n});
  return o.dtype == i64 ? t : Tensor::allocate({n}, o.dtype, o.device).copy_(t);
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
