#include "io/call_header.h"

#include <algorithm>

namespace mantissa::distributed {

std::string describe(const Header& h) {
  constexpr const char* names[] = {
      "barrier", "broadcast", "all_reduce", "all_gather", "reduce_scatter",
      "gather",  "scatter",   "all_to_all", "a message",  "the first call with a tensor on a GPU"};
  if (h.magic != group_magic || h.kind > Kind::link || h.op > ReduceOp::min || h.dims > Dims::max_rank ||
      static_cast<int>(h.dtype) >= dtype_count)
    return "something that is no call";
  std::string text = names[static_cast<int>(h.kind)];
  if (h.kind == Kind::barrier || h.kind == Kind::link) return text;
  if (h.kind == Kind::broadcast || h.kind == Kind::scatter || h.kind == Kind::message)
    text += concat(" from rank ", h.root);
  else if (h.kind == Kind::gather) text += concat(" at rank ", h.root);
  else if (h.kind == Kind::all_reduce || h.kind == Kind::reduce_scatter) text += concat(" (", name_of(h.op), ")");
  if (h.tensors == 1) text += concat(" of ", h.dtype, Dims(std::span<const std::int64_t>(h.sizes, h.dims)));
  else text += concat(" of ", h.tensors, " tensors with ", h.elements, " elements, ", h.dtype);
  return text + (h.on_gpu ? " between GPUs" : "");
}

Header header_of(Kind kind, std::span<const Tensor> xs) {
  Header h{.kind = kind, .tensors = static_cast<std::uint32_t>(xs.size())};
  if (!xs.empty()) h.dtype = xs[0].dtype(), h.on_gpu = !xs[0].device().is_cpu();
  std::uint64_t hash = 14695981039346656037ull;  // FNV-1a
  for (const Tensor& x : xs) {
    h.elements += x.numel();
    for (const std::int64_t size : x.sizes()) hash = (hash ^ static_cast<std::uint64_t>(size)) * 1099511628211ull;
    hash = (hash ^ 0xffu) * 1099511628211ull;  // separates consecutive tensors
  }
  if (xs.size() == 1) {
    h.dims = static_cast<std::uint8_t>(xs[0].dim());
    std::copy(xs[0].sizes().begin(), xs[0].sizes().end(), h.sizes);
  } else {
    h.sizes[0] = static_cast<std::int64_t>(hash);
  }
  return h;
}

}  // namespace mantissa::distributed
