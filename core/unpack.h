// Parts of a tensor bound to names, as Python unpacks them. Unlike chunk, split and unbind, which return a vector,
// these say how many parts there must be; any other number of them is an error.
//
//   auto [scale, shift] = chunk<2>(x, -1);   // or x.chunk<2>(-1)
//   auto [q, k, v] = unbind<3>(qkv, 2);
//   auto [kept, rest] = split<2>(x, {3, 5}, 1);
//   auto [rows, columns] = meshgrid<2>({a, b});
#pragma once

#include <array>
#include <initializer_list>
#include <string_view>

#include "core/ops.h"

namespace mantissa {

template <std::size_t N> std::array<Tensor, N> unpack(const char* name, const std::vector<Tensor>& parts) {
  check(parts.size() == N, name, ": there are ", parts.size(), " parts, not ", N);
  std::array<Tensor, N> of;
  for (std::size_t i = 0; i < N; ++i) of[i] = parts[i];
  return of;
}

template <std::size_t N> std::array<Tensor, N> chunk(const Tensor& x, int dim = 0) {
  return unpack<N>("chunk", chunk(x, static_cast<std::int64_t>(N), dim));
}
template <std::size_t N> std::array<Tensor, N> unbind(const Tensor& x, int dim = 0) {
  return unpack<N>("unbind", unbind(x, dim));
}
template <std::size_t N> std::array<Tensor, N> split(const Tensor& x, std::int64_t size, int dim = 0) {
  return unpack<N>("split", split(x, size, dim));
}
template <std::size_t N> std::array<Tensor, N> split(const Tensor& x, const Dims& sizes, int dim) {
  return unpack<N>("split", split(x, sizes, dim));
}
template <std::size_t N>
std::array<Tensor, N> meshgrid(std::initializer_list<Tensor> tensors, std::string_view indexing = "ij") {
  return unpack<N>("meshgrid", meshgrid(std::span(tensors.begin(), tensors.size()), indexing));
}

template <std::size_t N> std::array<Tensor, N> Tensor::split(std::int64_t size, int dim) const {
  return mantissa::split<N>(*this, size, dim);
}
template <std::size_t N> std::array<Tensor, N> Tensor::chunk(int dim) const { return mantissa::chunk<N>(*this, dim); }
template <std::size_t N> std::array<Tensor, N> Tensor::unbind(int dim) const {
  return mantissa::unbind<N>(*this, dim);
}

}  // namespace mantissa
