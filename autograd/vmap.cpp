#include "autograd/vmap.h"

namespace mantissa::detail {

std::int64_t vmap_size(const std::vector<Tensor>& x, VmapOptions& o) {
  if (o.in_dims.empty()) o.in_dims.assign(x.size(), 0);
  check(o.in_dims.size() == x.size(), "vmap: in_dims has ", static_cast<long>(o.in_dims.size()),
        " entries, the function is called with ", static_cast<long>(x.size()), " tensors");
  std::optional<std::size_t> first;
  std::int64_t n = 0;
  for (std::size_t k = 0; k < x.size(); ++k) {
    const auto number = static_cast<long>(k);
    check(x[k].defined(), "vmap: argument ", number, " is undefined");
    if (!o.in_dims[k]) continue;
    check(x[k].dim() > 0, "vmap: argument ", number, ", ", x[k], ", has no dim that slices are of; an absent entry of "
          "in_dims gives it to all as it is");
    o.in_dims[k] = wrap_dim(*o.in_dims[k], x[k].dim());
    const std::int64_t slices = x[k].size(*o.in_dims[k]);
    if (!first) first = k, n = slices;
    check(slices == n, "vmap: argument ", number, ", ", x[k], ", has ", slices, " slices along dim ", *o.in_dims[k],
          ", argument ", static_cast<long>(*first), ", ", x[*first], ", has ", n, " along dim ", *o.in_dims[*first]);
  }
  check(first.has_value(), "vmap: no argument has slices; at least one entry of in_dims names a dim");
  check(n > 0, "vmap: ", x[*first], " has no slices along dim ", *o.in_dims[*first],
        ", so that nobody knows the shape of the result");
  return n;
}

Tensor vmap_slice(const Tensor& x, std::optional<int> dim, std::int64_t i) { return dim ? select(x, *dim, i) : x; }

Tensor vmap_stack(const std::vector<Tensor>& parts, int out_dim) { return stack(parts, out_dim); }
std::vector<Tensor> vmap_stack(const std::vector<std::vector<Tensor>>& parts, int out_dim) {
  std::vector<Tensor> stacked;
  for (std::size_t k = 0; k < parts[0].size(); ++k) {
    std::vector<Tensor> one;
    for (const std::vector<Tensor>& part : parts) {
      check(part.size() == parts[0].size(), "vmap: the function has ", static_cast<long>(parts[0].size()),
            " results for the first slice and ", static_cast<long>(part.size()), " for another");
      one.push_back(part[k]);
    }
    stacked.push_back(stack(one, out_dim));
  }
  return stacked;
}

}  // namespace mantissa::detail
