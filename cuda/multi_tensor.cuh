// Kernels over many flat tensors in one launch: the tensor descriptions are launch parameters, so nothing has to be
// copied to the device first, and a captured graph contains them. A block works on `chunk` elements of one tensor. The
// contract of every kernel is in core/multi_tensor.h.
#pragma once

#include <span>

#include "core/multi_tensor.h"
#include "cuda/elementwise.h"
#include "cuda/launch.cuh"
#include "cuda/vec.cuh"

namespace mantissa::cuda_backend {

inline constexpr std::int64_t chunk = 2048;  // eight elements per thread for 256 threads: small models fill the GPU too
inline constexpr int list_bytes = 3900;      // of launch parameters, of which 4 KB are available

template <class V> struct TensorList {
  static constexpr int most = (list_bytes - 8) / static_cast<int>(sizeof(V) + sizeof(unsigned));
  V tensor[most];
  unsigned first_block[most + 1] = {};  // of each tensor; the last entry is the number of blocks
  int count = 0;

  // The tensor that this block works on, and its first element.
  __device__ const V& find(std::int64_t* begin) const {
    int t = 0, after = count;  // it is in [t, after)
    while (after - t > 1) {
      const int middle = (t + after) / 2;
      if (blockIdx.x >= first_block[middle]) t = middle;
      else after = middle;
    }
    *begin = std::int64_t{blockIdx.x - first_block[t]} * chunk;
    return tensor[t];
  }
};

// Calls run(list, index of the list's first block among all) for lists that together hold all tensors that `takes`
// accepts.
template <class V, class Takes, class F> void for_lists(std::span<const V> tensors, Takes&& takes, F&& run) {
  TensorList<V> list;
  std::int64_t before = 0;
  const auto flush = [&] {
    if (list.count == 0) return;
    run(list, before);
    before += list.first_block[list.count];
    list.count = 0;
  };
  list.first_block[0] = 0;
  for (const V& t : tensors) {
    if (!takes(t) || t.numel == 0) continue;
    const std::int64_t blocks = (t.numel + chunk - 1) / chunk;
    if (list.count == list.most || list.first_block[list.count] + blocks > 0x7fffffff) flush();
    list.tensor[list.count] = t;
    list.first_block[list.count + 1] = list.first_block[list.count] + static_cast<unsigned>(blocks);
    ++list.count;
  }
  flush();
}
template <class V> Grid grid_of(const TensorList<V>& list) {
  return {dim3(list.first_block[list.count]), dim3(block_size)};
}

__device__ inline bool is_aligned(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }

// This thread's part of its block's chunk. It is moved as a pack if the tensor is aligned.
__device__ inline Share share_of_chunk(std::int64_t begin, std::int64_t numel, bool interleaves) {
  const std::int64_t rest = numel - begin;
  return share_of(begin, static_cast<unsigned>(rest < chunk ? rest : chunk), interleaves);
}
template <class C>
__device__ inline void load_share(C (&to)[pack], const void* p, Dtype t, const Share& share, bool aligned) {
  if (aligned && share.count == pack && has_packs(dtype_of<C>, t)) return load_pack(to, p, t, share.at);
  for (int k = 0; k < pack; ++k) to[k] = k < share.count ? load_element<C>(p, t, share.at[k]) : C(0);
}
template <class C>
__device__ inline void store_share(void* p, Dtype t, const Share& share, bool aligned, const C (&from)[pack]) {
  if (aligned && share.count == pack && has_packs(dtype_of<C>, t)) return store_pack(p, t, share.at, from);
  for (int k = 0; k < pack && k < share.count; ++k) store_element(p, t, share.at[k], from[k]);
}

}  // namespace mantissa::cuda_backend
