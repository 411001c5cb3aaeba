// Dimensions rearranged, reduced and repeated by name, as einops does it (Rogozhnikov, "Einops", ICLR 2022):
//
//   q = rearrange(q, "b t (heads d) -> b heads t d", {{"heads", 8}});
//   patches = rearrange(image, "b c (h p) (w q) -> b (h w) (c p q)", {{"p", 16}, {"q", 16}});
//   pooled = reduce(x, "b c (h 2) (w 2) -> b c h w", "mean");
//   tokens = repeat(token, "d -> b 1 d", {{"b", x.size(0)}});
//
// A pattern names every dimension of x on the left and of the result on the right. Parentheses compose several names
// into one dimension, the first varying slowest; of their sizes one may be left out. A number stands for a nameless
// dimension of that size, "..." for any number of dimensions. Composed of views, reductions and at most one copy, so
// differentiable and of any dtype; at most eight names. Errors quote the pattern.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "core/tensor.h"

namespace mantissa {

using NamedSizes = std::initializer_list<std::pair<std::string_view, std::int64_t>>;

// Both sides have the same names.
Tensor rearrange(const Tensor& x, std::string_view pattern, NamedSizes sizes = {});
// Names that the right side lacks are reduced: "sum", "mean", "prod", "min", "max", "any" or "all".
Tensor reduce(const Tensor& x, std::string_view pattern, std::string_view how, NamedSizes sizes = {});
// Along names that the left side lacks, whose sizes are given, elements are repeated.
Tensor repeat(const Tensor& x, std::string_view pattern, NamedSizes sizes = {});

}  // namespace mantissa
