#include "nn/kv_cache.h"

#include <algorithm>

#include "autograd/grad_mode.h"

namespace mantissa::nn {
namespace {

constexpr std::int64_t least_room = 64;

// Writes `fresh` [..., T, D] into `all` [..., room, D] from position `at`; reallocates it if there is no room.
void put(Tensor& all, const Tensor& fresh, std::int64_t at, const char* what) {
  const std::int64_t end = at + fresh.size(-2);
  Dims room = fresh.sizes();
  const int rows = room.rank() - 2;
  if (all.defined() && at > 0) {
    room[rows] = all.size(-2);
    check(all.sizes() == room && all.dtype() == fresh.dtype() && all.device() == fresh.device(), "KvCache: holds ",
          what, " ", all.slice(rows, 0, at), " and cannot take ", fresh);
  } else {
    all = Tensor();
  }
  if (!all.defined() || all.size(-2) < end) {
    room[rows] = std::max({least_room, end, all.defined() ? 2 * all.size(-2) : 0});
    Tensor larger = Tensor::allocate(room, fresh.dtype(), fresh.device());
    if (at > 0) larger.slice(rows, 0, at).copy_(all.slice(rows, 0, at));
    all = larger;
  }
  all.slice(rows, at, end).copy_(fresh);
}

}  // namespace

KeysAndValues LayerCache::append(const Tensor& key, const Tensor& value) const {
  if (!part_) return {key, value};
  check(key.dim() >= 2 && key.dim() == value.dim() && key.size(-2) == value.size(-2),
        "KvCache: key and value must be [..., T, D] of as many tokens, got ", key, " and ", value);
  check(!key.requires_grad() && !value.requires_grad(),
        "KvCache: keeps no gradients; write under NoGrad, and train without a cache");
  put(part_->keys, key, part_->length, "keys");
  put(part_->values, value, part_->length, "values");
  part_->length += key.size(-2);
  const auto so_far = [&](const Tensor& all) { return all.slice(all.dim() - 2, 0, part_->length); };
  return {so_far(part_->keys), so_far(part_->values)};
}

LayerCache KvCache::operator[](std::size_t layer) const {
  if (!parts_) return {};
  while (parts_->size() <= layer) parts_->emplace_back();
  return LayerCache(&(*parts_)[layer]);
}

void KvCache::truncate(std::int64_t length) const {
  check(length >= 0, "KvCache: cannot be cut to ", length, " tokens");
  if (!parts_) return;
  for (LayerCache::Part& part : *parts_) part.length = std::min(part.length, length);
}

void KvCache::select(const Tensor& index) const {
  if (!parts_) return;
  const NoGrad no_grad;
  for (LayerCache::Part& part : *parts_) {
    if (part.length == 0) continue;
    part.keys = index_select(part.keys, 0, index);
    part.values = index_select(part.values, 0, index);
  }
}

std::int64_t KvCache::nbytes() const {
  std::int64_t bytes = 0;
  if (!parts_) return bytes;
  for (const LayerCache::Part& part : *parts_)
    if (part.keys.defined()) bytes += part.keys.nbytes() + part.values.nbytes();
  return bytes;
}

Tensor causal_attention(const Tensor& query, const Tensor& key, const Tensor& value, const LayerCache& past,
                        AttentionOptions options, std::int64_t window) {
  check(query.dim() >= 2 && key.dim() >= 2, "causal_attention: query and key must be [..., T, D], got ", query, " and ",
        key);
  check(window >= 0, "causal_attention: the window must not be negative, got ", window);
  const std::int64_t before = past.length(), fresh = query.size(-2), after = before + fresh;
  options.enable_gqa = query.dim() > 2 && key.dim() > 2 && query.size(-3) != key.size(-3);
  check(!options.enable_gqa || (key.size(-3) > 0 && query.size(-3) % key.size(-3) == 0),  // before anything is cached
        "causal_attention: the heads of query ", query, " are no multiple of those of key ", key);
  check(key.size(-2) == fresh, "causal_attention: query ", query, " and key ", key, " must be of the same tokens");
  const auto [keys, values] = past.append(key, value);
  const bool all = window == 0 || after <= window;  // every query attends to all previous tokens
  options.is_causal = before == 0 && all;
  if (options.is_causal) return scaled_dot_product_attention(query, key, value, {}, options);
  const std::int64_t first = all ? 0 : std::max<std::int64_t>(0, before + 1 - window);  // the first query's first key
  const auto seen = [&](const Tensor& x) { return first == 0 ? x : x.slice(x.dim() - 2, first, after); };
  if (fresh == 1) return scaled_dot_product_attention(query, seen(keys), seen(values), {}, options);
  const TensorOptions there{.dtype = i64, .device = query.device()};
  const auto positions = [&](std::int64_t begin) {
    return arange(static_cast<double>(begin), static_cast<double>(after), 1, there);
  };
  const Tensor distance = positions(before).unsqueeze(1) - positions(first);
  const Tensor mask = all ? distance >= 0 : logical_and(distance >= 0, distance < window);
  return scaled_dot_product_attention(query, seen(keys), seen(values), mask, options);
}

}  // namespace mantissa::nn
