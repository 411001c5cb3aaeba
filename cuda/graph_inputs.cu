#include "cuda/graph_inputs.h"

#include <algorithm>
#include <utility>

#include "cuda/launch.cuh"

namespace mantissa::cuda_backend {
namespace {

constexpr int words_of_thread = 4;
constexpr std::int64_t bytes_of_block = std::int64_t{words_of_thread} * block_size * sizeof(uint4);

struct Placing {
  struct Copy {
    char* to = nullptr;
    const char* from = nullptr;
    std::int64_t bytes = 0;
    unsigned first_block = 0;
  };
  static constexpr int most = 32;
  Copy copy[most];
  int count = 0;
  std::uint64_t *random, seed, offset;
};

// By all threads of a block, with several words of each in flight.
template <class Word> __device__ void copy_words(char* to, const char* from, std::int64_t bytes) {
  const std::int64_t n = bytes / static_cast<std::int64_t>(sizeof(Word));
  for (std::int64_t first = threadIdx.x; first < n; first += std::int64_t{words_of_thread} * blockDim.x) {
    Word v[words_of_thread];
#pragma unroll
    for (int k = 0; k < words_of_thread; ++k) {
      const std::int64_t i = first + std::int64_t{k} * blockDim.x;
      if (i < n) v[k] = reinterpret_cast<const Word*>(from)[i];
    }
#pragma unroll
    for (int k = 0; k < words_of_thread; ++k) {
      const std::int64_t i = first + std::int64_t{k} * blockDim.x;
      if (i < n) reinterpret_cast<Word*>(to)[i] = v[k];
    }
  }
}

__global__ void __launch_bounds__(block_size) place_inputs_kernel(Placing p) {
  wait_for_previous_kernel();
  if (blockIdx.x == 0 && threadIdx.x == 0) {
    p.random[0] = p.seed;
    p.random[1] = p.offset;
  }
  int k = p.count - 1;
  while (k > 0 && blockIdx.x < p.copy[k].first_block) --k;
  if (k < 0) return;
  const Placing::Copy& c = p.copy[k];
  const std::int64_t begin = std::int64_t{blockIdx.x - c.first_block} * bytes_of_block, rest = c.bytes - begin,
                     bytes = rest < bytes_of_block ? rest : bytes_of_block;
  char* const to = c.to + begin;
  const char* const from = c.from + begin;
  const std::uintptr_t odd = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  const std::int64_t whole = odd % 16 == 0 ? bytes / 16 * 16 : odd % 4 == 0 ? bytes / 4 * 4 : 0;  // bytes in words
  if (odd % 16 == 0) copy_words<uint4>(to, from, whole);
  else if (odd % 4 == 0) copy_words<std::uint32_t>(to, from, whole);
  copy_words<char>(to + whole, from + whole, bytes - whole);
}

}  // namespace

void place_inputs(std::span<const GraphInput> inputs, std::uint64_t* random, std::uint64_t seed, std::uint64_t offset) {
  do {
    Placing p;
    p.random = random, p.seed = seed, p.offset = offset;
    std::int64_t blocks = 0;
    for (const GraphInput& x : inputs.first(std::min<std::size_t>(inputs.size(), Placing::most))) {
      p.copy[p.count++] = {static_cast<char*>(x.to), static_cast<const char*>(x.from),
                           static_cast<std::int64_t>(x.bytes), static_cast<unsigned>(blocks)};
      blocks += (static_cast<std::int64_t>(x.bytes) + bytes_of_block - 1) / bytes_of_block;
    }
    check(std::in_range<int>(blocks), "internal error: ", blocks, " blocks of inputs do not fit into one launch");
    const Grid grid{dim3(static_cast<unsigned>(std::max<std::int64_t>(blocks, 1))), dim3(block_size)};
    launch("place_inputs", &place_inputs_kernel, grid, p);
    inputs = inputs.subspan(static_cast<std::size_t>(p.count));
  } while (!inputs.empty());
}

}  // namespace mantissa::cuda_backend
