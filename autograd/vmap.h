// vmap: a function of single examples for a batch of them, as torch.vmap.
//
//   Tensor distances = vmap([&](const Tensor& x) { return norm(x - centre); })(points);         // [n, d] to [n]
//   // the gradient of each example's loss alone
//   Tensor each = vmap([&](const Tensor& x, const Tensor& y) {
//     return grad({loss_of(net(x), y)}, {net.weight})[0];
//   })(images, labels);
//
// The function is called for one slice after the other and its results are stacked: results and gradients are those
// of torch.vmap, random numbers and whatever else the function does are each slice's own (randomness="different"), and
// it may look at values and branch. Nothing is computed for several slices at once: where a function takes a batch as
// it is, calling it with one is faster.
#pragma once

#include <array>
#include <concepts>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/ops.h"

namespace mantissa {

struct VmapOptions {
  // Which dim of each argument the slices are of; absent: the argument is the same for all. No entries: dim 0 of all.
  std::vector<std::optional<int>> in_dims = {};
  int out_dim = 0;  // where the results have that dim
};

namespace detail {
// How many slices the arguments have: Error where they differ, are empty or none has a dim for them.
std::int64_t vmap_size(const std::vector<Tensor>& x, VmapOptions& o);
Tensor vmap_slice(const Tensor& x, std::optional<int> dim, std::int64_t i);
Tensor vmap_stack(const std::vector<Tensor>& parts, int out_dim);
std::vector<Tensor> vmap_stack(const std::vector<std::vector<Tensor>>& parts, int out_dim);
}  // namespace detail

// Gives a function of the same number of tensors. f has a Tensor or a std::vector<Tensor> as its result.
template <class F> auto vmap(F f, VmapOptions options = {}) {
  return [f = std::move(f), options = std::move(options)]<std::convertible_to<Tensor>... X>(const X&... x) {
    VmapOptions o = options;
    const std::vector<Tensor> all = {x...};
    const std::int64_t n = detail::vmap_size(all, o);
    const auto call = [&]<std::size_t... k>(std::int64_t i, std::index_sequence<k...>) {
      return f(detail::vmap_slice(all[k], o.in_dims[k], i)...);
    };
    constexpr auto numbers = std::index_sequence_for<X...>{};
    std::vector<decltype(call(0, numbers))> parts;
    for (std::int64_t i = 0; i < n; ++i) parts.push_back(call(i, numbers));
    return detail::vmap_stack(parts, o.out_dim);
  };
}

}  // namespace mantissa
