// Random permutations, the same as the host's Fisher-Yates shuffle (core/random.cpp): swaps of the places i and
// partner(i) <= i, for i = n - 1, ..., 1. Two swaps may change their order unless they share a place. So all that are
// left claim their places at once, the largest i wins a place, and a swap that has won both is made; the others try
// again. Of a million swaps a quarter is left after four rounds, and none after 50 (deterministic reservations: Shun,
// Gu, Blelloch, Fineman, Gibbons, "Sequential random permutation, list contraction and tree contraction are highly
// parallel", 2015).
#include "core/kernel.h"
#include "cuda/launch.cuh"
#include "cuda/random.cuh"

namespace mantissa {
MANTISSA_CUDA_KERNEL(shuffle, const View& y, std::uint64_t seed, std::uint64_t offset)
}

namespace mantissa::cuda_backend {
namespace {

constexpr std::int64_t most_in_block = 4096;  // whose swaps fit into 64 KiB of shared memory
constexpr std::int64_t few = 16384;           // swaps left to one block; not tuned, since no GPU has timed it
constexpr unsigned made = 0xffffffffu;        // partner of a swap that has been made

using Claim = unsigned long long;  // as atomicMax wants it
__device__ inline Claim claim_of(unsigned round, unsigned i) { return Claim{round} << 32 | i; }

template <class Number> struct Swaps {
  Number* order;      // [n]
  unsigned* partner;  // [n]
  Claim* claim;       // [n], the latest round, and of that the largest i that claims this place

  __device__ void begin(std::int64_t i, const RandomPosition& at) const {
    const Philox::Words w = words_at(at, i);
    const std::uint64_t bits = (std::uint64_t{w.v[0]} << 32) | w.v[1];
    order[i] = static_cast<Number>(i);
    partner[i] = i == 0 ? made : static_cast<unsigned>(bits % static_cast<std::uint64_t>(i + 1));
    claim[i] = 0;
  }
  __device__ void try_to_claim(unsigned round, unsigned i) const {  // rounds count from 1
    const unsigned other = partner[i];
    if (other == made) return;
    atomicMax(claim + i, claim_of(round, i));
    atomicMax(claim + other, claim_of(round, i));
  }
  // After all claims of a round. Whether the swap is left.
  __device__ bool try_to_swap(unsigned round, unsigned i) const {
    const unsigned other = partner[i];
    if (other == made) return false;
    if (claim[i] != claim_of(round, i) || claim[other] != claim_of(round, i)) return true;
    const Number mine = order[i];
    order[i] = order[other];
    order[other] = mine;
    partner[i] = made;
    return false;
  }
};

// All rounds from `round` on for the swaps i_of(0), ..., i_of(count - 1), by one block.
template <class Number, class Places>
__device__ void finish(const Swaps<Number>& swaps, unsigned round, unsigned count, const Places& i_of) {
  for (int left = 1; left; ++round) {
    __syncthreads();
    for (unsigned k = threadIdx.x; k < count; k += blockDim.x) swaps.try_to_claim(round, i_of(k));
    __syncthreads();
    int mine = 0;
    for (unsigned k = threadIdx.x; k < count; k += blockDim.x) mine |= swaps.try_to_swap(round, i_of(k));
    left = __syncthreads_or(mine);
  }
}

__global__ void shuffle_in_block_kernel(std::int64_t* y, unsigned n, RandomPosition at) {
  wait_for_previous_kernel();
  MANTISSA_SHARED(Claim, claim);
  auto* const order = reinterpret_cast<unsigned*>(claim + n);
  const Swaps<unsigned> swaps{order, order + n, claim};
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) swaps.begin(i, at);
  finish(swaps, 1, n, [](unsigned k) { return k; });
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) y[i] = order[i];
}

__global__ void begin_kernel(Swaps<std::int64_t> swaps, std::int64_t n, unsigned* left, RandomPosition at) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i == 0) *left = 0;
  if (i < n) swaps.begin(i, at);
}
__global__ void claim_kernel(Swaps<std::int64_t> swaps, unsigned round, std::int64_t n) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) swaps.try_to_claim(round, static_cast<unsigned>(i));
}
// list: null but in the last round, which lists what is left, in any order.
__global__ void swap_kernel(Swaps<std::int64_t> swaps, unsigned round, std::int64_t n, unsigned* list, unsigned* left) {
  wait_for_previous_kernel();
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n || !swaps.try_to_swap(round, static_cast<unsigned>(i)) || !list) return;
  list[atomicAdd(left, 1u)] = static_cast<unsigned>(i);
}
__global__ void finish_kernel(Swaps<std::int64_t> swaps, unsigned round, const unsigned* list, const unsigned* left) {
  wait_for_previous_kernel();
  finish(swaps, round, *left, [list](unsigned k) { return list[k]; });
}

}  // namespace

void shuffle(const View& y, std::uint64_t seed, std::uint64_t offset) {
  const std::int64_t n = y.numel();
  if (n == 0) return;
  const RandomPosition at = random_position(seed, offset);
  auto* const order = y.as<std::int64_t>();
  if (n <= most_in_block) {
    Grid grid{dim3(1), dim3(n > 1024 ? 1024 : block_size)};
    grid.shared = static_cast<std::size_t>(n) * (sizeof(Claim) + 2 * sizeof(unsigned));
    return launch("shuffle", &shuffle_in_block_kernel, grid, order, static_cast<unsigned>(n), at);
  }
  const Tensor claims = Tensor::allocate({n}, i64, y.device), words = Tensor::allocate({2 * n + 1}, i32, y.device);
  auto* const partner = static_cast<unsigned*>(words.raw_data());
  const Swaps<std::int64_t> swaps{order, partner, static_cast<Claim*>(claims.raw_data())};
  unsigned *const list = partner + n, *const left = list + n;
  launch("shuffle", &begin_kernel, grid_for(n), swaps, n, left, at);
  bool last = false;
  unsigned round = 1;
  for (double expected = static_cast<double>(n); !last; ++round) {
    expected *= 0.75;  // what a round leaves
    last = expected <= static_cast<double>(few);
    launch("shuffle", &claim_kernel, grid_for(n), swaps, round, n);
    launch("shuffle", &swap_kernel, grid_for(n), swaps, round, n, last ? list : nullptr, left);
  }
  launch("shuffle", &finish_kernel, Grid{dim3(1), dim3(1024)}, swaps, round, static_cast<const unsigned*>(list),
         static_cast<const unsigned*>(left));
}

}  // namespace mantissa::cuda_backend
