// Counter-based random numbers (Philox 4x32-10; Salmon et al., SC'11): number i of a stream is a pure function of
// (seed, i), so results do not depend on the number of threads, and a checkpointed forward pass can be replayed from
// its offset.
#pragma once

#include <cstdint>

#include "core/host_device.h"
#include "core/tensor.h"

namespace mantissa {

struct Philox {
  std::uint64_t seed = 0;
  // Four random 32-bit words for counter (offset, stream).
  struct Words { std::uint32_t v[4]; };
  MANTISSA_HD Words operator()(std::uint64_t offset, std::uint64_t stream = 0) const {
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
};
// [0, 1)
MANTISSA_HD inline float uniform_from_bits(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// A random stream and a position in it. Saved in checkpoints.
struct RngState {
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
  friend bool operator==(const RngState&, const RngState&) = default;
};

// The default generator, shared by all threads. Inside a RandomScope these functions act on its stream instead.
void manual_seed(std::uint64_t seed);
// Reserves `count` counters (four words each) for the caller and returns the position of the first one.
RngState reserve_random(std::uint64_t count);
RngState rng_state();
void set_rng_state(RngState);

// While a RandomScope exists, all random numbers of this thread (randn, dropout, multinomial, initial weights, the
// order of shuffle()) come from `stream` and advance it; other threads are not affected. Corresponds to
// torch.Generator:
//   RngState stream{.seed = 42};
//   const RandomScope scope(stream);
// With a copy of rng_state() it corresponds to torch.random.fork_rng: the default generator does not advance. Place it
// around a captured step, not inside it.
class [[nodiscard]] RandomScope {
 public:
  explicit RandomScope(RngState& stream);
  ~RandomScope();
  RandomScope(const RandomScope&) = delete;
  RandomScope& operator=(const RandomScope&) = delete;

 private:
  RngState* outer_;
};

Tensor rand(const Dims& sizes, TensorOptions = {});                                   // uniform [0, 1)
Tensor randn(const Dims& sizes, TensorOptions = {});                                  // normal (0, 1)
// [low, high), which may hold up to 2^63 - 1 values; i64 by default, as randperm.
Tensor randint(std::int64_t low, std::int64_t high, const Dims& sizes, TensorOptions = {});
Tensor randperm(std::int64_t n, TensorOptions = {});
// In place; used for weight initialisation.
void uniform_(Tensor& t, double low, double high);
void normal_(Tensor& t, double mean, double std);

}  // namespace mantissa
