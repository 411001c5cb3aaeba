// vmap: applies a function of single examples to a batch of them, as torch.vmap.
//
//   Tensor distances = vmap([&](const Tensor& x) { return norm(x - centre); })(points);         // [n, d] to [n]
//   // the gradient of each example's loss alone
//   Tensor each = vmap([&](const Tensor& x, const Tensor& y) {
//     return grad({loss_of(net(x), y)}, {net.weight})[0];
//   })(images, labels);
//
// The function is called for one slice after the other and its results are stacked: results and gradients are those of
// torch.vmap, random numbers and other side effects are separate for each slice (randomness="different"), and it may
// read values and branch. Nothing is computed for several slices at once: a function that accepts a batch directly is
// faster when called with one.
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
  // The dim of each argument to slice along; absent: the argument is the same for all. Empty: dim 0 of all.
  std::vector<std::optional<int>> in_dims = {};
  int out_dim = 0;  // the batch dim of the results
};

namespace detail {
// Number of slices of the arguments: Error if they differ, are empty or none has a batch dim.
std::int64_t vmap_size(const std::vector<Tensor>& x, VmapOptions& o);
Tensor vmap_slice(const Tensor& x, std::optional<int> dim, std::int64_t i);
Tensor vmap_stack(const std::vector<Tensor>& parts, int out_dim);
std::vector<Tensor> vmap_stack(const std::vector<std::vector<Tensor>>& parts, int out_dim);
}  // namespace detail

// Returns a function of the same number of tensors. f returns a Tensor or a std::vector<Tensor>.
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
