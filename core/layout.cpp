#include "core/layout.h"

#include <algorithm>
#include <span>

#include "core/collapse.h"
#include "core/error.h"

namespace mantissa {

std::int64_t checked_numel(const Dims& sizes) {
  std::int64_t n = 1;
  bool overflow = false, zero = false;
  for (std::int64_t s : sizes) {
    check(s >= 0, "negative size ", s, " in shape ", sizes);
    zero |= s == 0;
    overflow |= s != 0 && __builtin_mul_overflow(n, s, &n);
  }
  check(!overflow, "shape ", sizes, " has more elements than fit in 63 bits");
  return zero ? 0 : n;
}

std::int64_t checked_nbytes(const Dims& sizes, Dtype dtype) {
  std::int64_t bytes = 0;
  const bool overflow =
      __builtin_mul_overflow(checked_numel(sizes), static_cast<std::int64_t>(size_of(dtype)), &bytes);
  check(!overflow && bytes <= (std::int64_t{1} << 47), "shape ", sizes, " of ", dtype,
        " needs more than 128 TiB");
  return bytes;
}

Dims contiguous_strides(const Dims& sizes) {
  Dims strides = sizes;
  std::uint64_t step = 1;  // may wrap around if the tensor is empty and its other sizes are absurd
  for (int i = sizes.rank() - 1; i >= 0; --i) {
    strides[i] = static_cast<std::int64_t>(step);
    step *= static_cast<std::uint64_t>(sizes[i] > 0 ? sizes[i] : 1);
  }
  return strides;
}

bool is_contiguous(const Dims& sizes, const Dims& strides) {
  std::uint64_t step = 1;  // as above
  for (int i = sizes.rank() - 1; i >= 0; --i) {
    if (sizes[i] == 0) return true;
    if (sizes[i] != 1 && strides[i] != static_cast<std::int64_t>(step)) return false;
    step *= static_cast<std::uint64_t>(sizes[i]);
  }
  return true;
}

namespace {

bool has_channels(const Dims& sizes) { return sizes.rank() == 4 || sizes.rank() == 5; }
// The dimensions of images or volumes from the innermost in memory to the outermost.
std::span<const int> channels_last_order(const Dims& sizes) {
  static constexpr int images[] = {1, 3, 2, 0}, volumes[] = {1, 4, 3, 2, 0};
  return sizes.rank() == 4 ? std::span<const int>(images) : std::span<const int>(volumes);
}
// Apart from what every operator calls.
[[gnu::noinline]] Dims channels_last_strides(const Dims& sizes) {
  Dims strides = sizes;
  std::uint64_t step = 1;  // as in contiguous_strides
  for (const int d : channels_last_order(sizes)) {
    strides[d] = static_cast<std::int64_t>(step);
    step *= static_cast<std::uint64_t>(std::max<std::int64_t>(sizes[d], 1));
  }
  return strides;
}

}  // namespace

bool is_channels_last(const Dims& sizes, const Dims& strides) {
  if (!has_channels(sizes)) return false;
  std::int64_t step = 1;
  for (const int d : channels_last_order(sizes)) {
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1 && strides[d] != step) return false;
    step *= sizes[d];
  }
  return true;
}

Dims dense_strides(const Dims& sizes, Layout layout) {
  if (layout == Layout::contiguous || !has_channels(sizes)) return contiguous_strides(sizes);
  return channels_last_strides(sizes);
}

Layout layout_of(const Dims& sizes, const Dims& strides) {
  if (!has_channels(sizes) || numel_of(sizes) == 0 || is_contiguous(sizes, strides)) return Layout::contiguous;
  return is_channels_last(sizes, strides) ? Layout::channels_last : Layout::contiguous;
}

Dims broadcast(const Dims& a, const Dims& b) {
  if (a == b) return a;
  const Dims& longer = a.rank() >= b.rank() ? a : b;
  const Dims& shorter = a.rank() >= b.rank() ? b : a;
  Dims out = longer;
  const int shift = longer.rank() - shorter.rank();
  for (int i = 0; i < shorter.rank(); ++i) {
    const std::int64_t x = longer[i + shift], y = shorter[i];
    check(x == y || x == 1 || y == 1, "sizes ", a, " and ", b, " do not broadcast: dimension ",
          i + shift, " is ", x, " and ", y);
    if (x == 1) out[i + shift] = y;
  }
  return out;
}

Dims broadcast_strides(const Dims& sizes, const Dims& strides, const Dims& target) {
  Dims out = Dims::filled(target.rank(), 0);
  const int shift = target.rank() - sizes.rank();
  for (int i = 0; i < sizes.rank(); ++i) {
    out[i + shift] = sizes[i] == 1 && target[i + shift] != 1 ? 0 : strides[i];
  }
  return out;
}

// Merges dimensions that are adjacent in memory, then splits each merged run into the new sizes from the back.
bool view_strides(const Dims& sizes, const Dims& strides, const Dims& shape, Dims* out) {
  *out = contiguous_strides(shape);
  if (numel_of(sizes) == 0) return true;
  const Dims* list[] = {&strides};
  const Loop runs = collapse(sizes, list, 1);
  int to = shape.rank() - 1;
  for (int run = runs.sizes.rank() - 1; run >= 0; --run) {
    std::int64_t covered = 1;
    while (to >= 0 && (covered < runs.sizes[run] || shape[to] == 1)) {
      (*out)[to] = covered * runs.strides[0][run];
      covered *= shape[to--];
    }
    if (covered != runs.sizes[run]) return false;
  }
  return true;
}

Dims infer_shape(const Dims& shape, std::int64_t numel) {
  Dims out = shape;
  int unknown = -1;
  std::int64_t known = 1;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == -1) {
      check(unknown < 0, "shape ", shape, " has more than one -1");
      unknown = i;
    } else {
      check(shape[i] >= 0, "negative size ", shape[i], " in shape ", shape);
      check(!__builtin_mul_overflow(known, shape[i], &known), "shape ", shape, " is too large");
    }
  }
  if (unknown >= 0) {
    check(known > 0 && numel % known == 0, "shape ", shape, " does not divide ", numel, " elements");
    out[unknown] = numel / known;
  } else {
    check(known == numel, "shape ", shape, " needs ", known, " elements, the tensor has ", numel);
  }
  return out;
}

int wrap_dim(std::int64_t dim, int rank) {
  const int n = rank > 0 ? rank : 1;  // a scalar accepts dim 0 and -1, as PyTorch does
  check(dim >= -n && dim < n, "dim ", dim, " is out of range for ", rank, " dimensions");
  return static_cast<int>(dim < 0 ? dim + n : dim);
}

Loop collapse(const Dims& sizes, const Dims* const* strides, int operands) {
  return collapse_dimensions<Loop>(sizes, strides, operands);
}
Loop collapse_in_memory_order(const Dims& sizes, const Dims* const* strides, int operands) {
  return collapse_dimensions_in_memory_order<Loop>(sizes, strides, operands);
}

}  // namespace mantissa
