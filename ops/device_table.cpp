#include "ops/device_table.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/context.h"
#include "core/ops.h"
#include "core/recording.h"

namespace mantissa {
namespace {

constexpr std::size_t most_bytes = 16 << 20;

struct Table {
  std::vector<std::uint64_t> bits;  // bit patterns of the values
  Tensor tensor;
};
struct Tables {
  std::mutex mutex;
  std::unordered_multimap<std::uint64_t, Table> known;
  std::size_t bytes = 0;
};
Tables& all_tables() {
  static Tables& tables = *new Tables;  // never destroyed: captured graphs may outlive static objects
  return tables;
}

template <class T> Tensor find(std::span<const T> values, const Dims& sizes, Dtype dtype, Device device) {
  if (device.is_cpu()) return cast(from_data<T>(values, sizes), dtype);
  std::uint64_t hash = static_cast<std::uint64_t>(dtype);
  for (const T v : values) hash = (hash ^ std::bit_cast<std::uint64_t>(v)) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
  const auto is_it = [&](const Table& t) {
    return t.tensor.dtype() == dtype && t.tensor.device() == device && t.tensor.sizes() == sizes &&
           std::ranges::equal(t.bits, values, {}, {}, [](T v) { return std::bit_cast<std::uint64_t>(v); });
  };
  Tables& tables = all_tables();
  {
    const std::lock_guard lock(tables.mutex);
    for (auto [at, end] = tables.known.equal_range(hash); at != end; ++at) {
      if (is_it(at->second)) return at->second.tensor;
    }
  }
  const Untraced constant;  // in an ONNX file, whether the table is made or found
  Table made;
  made.tensor = cast(from_data<T>(values, sizes), dtype).to(device);
  wait_for_own_work(device);  // so that any stream that asks next can use it
  for (const T v : values) made.bits.push_back(std::bit_cast<std::uint64_t>(v));
  const Tensor tensor = made.tensor;
  const std::lock_guard lock(tables.mutex);
  if (tables.bytes + values.size_bytes() > most_bytes) return tensor;
  tables.bytes += values.size_bytes();
  tables.known.emplace(hash, std::move(made));
  return tensor;
}

}  // namespace

Tensor device_table(std::span<const std::int64_t> values, const Dims& sizes, Device device) {
  return find(values, sizes, i64, device);
}
Tensor device_table(std::span<const double> values, const Dims& sizes, Dtype dtype, Device device) {
  return find(values, sizes, dtype, device);
}
}  // namespace mantissa
