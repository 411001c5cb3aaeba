#include "core/packed_weights.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/context.h"
#include "core/cpu/isa.h"

namespace mantissa {
namespace {

constexpr std::int64_t least_bytes = 4096;  // of a storage; packing smaller weights takes no time
constexpr std::size_t most_forms = 16;      // per storage, parts of which may be separate weights

struct Form {
  View weight;  // the part of the storage, and its strides
  std::uint32_t version;
  const char* name;
  std::shared_ptr<const void> packer;
  Tensor packed;  // undefined at the first use
  cpu_backend::Isa isa = cpu_backend::isa();  // panels have its vector width

  bool is_of(const View& w) const {
    return isa == cpu_backend::isa() && weight.data == w.data && weight.sizes == w.sizes &&
           weight.strides == w.strides && weight.dtype == w.dtype;
  }
};
using Forms = std::vector<Form>;

std::int64_t first_limit() {
  const char* v = std::getenv("MANTISSA_PACKED_WEIGHTS");
  return v ? std::atoll(v) * (std::int64_t{1} << 20) : std::int64_t{1} << 30;
}

// Never destroyed: storages may outlive it otherwise.
struct Cache {
  std::mutex mutex;
  std::unordered_map<const Storage*, Forms> known;
  std::atomic<std::int64_t> bytes{0}, limit{first_limit()};
  // Number of known storages per address hash: checked by every storage in its destructor.
  std::array<std::atomic<std::uint16_t>, 4096> count{};

  std::atomic<std::uint16_t>& count_of(const Storage* s) {
    return count[reinterpret_cast<std::uintptr_t>(s) / alignof(std::max_align_t) * 0x9e3779b97f4a7c15u >> 52];
  }
  // Requires the mutex; the caller destroys the result after releasing it.
  Forms take(const Storage* s) {
    const auto found = known.find(s);
    if (found == known.end()) return {};
    Forms forms = std::move(found->second);
    known.erase(found);
    --count_of(s);
    for (const Form& f : forms) bytes -= f.packed.defined() ? f.packed.nbytes() : 0;
    return forms;
  }
};
Cache& cache() {
  static Cache* c = new Cache;
  return *c;
}

}  // namespace

KeptWeight::KeptWeight(const Tensor& weight) {
  const Storage* s = weight.storage().get();
  if (s->nbytes() < least_bytes || !s->device().is_cpu()) return;
  if (context().grad_enabled) packed_weights::forget(s);
  if (context().grad_enabled || cache().limit == 0) return;
  storage_ = s;
  version_ = s->version();
}

PackedWeight::PackedWeight(const KeptWeight& kept, const View& weight, const char* form,
                           std::shared_ptr<const void> packer, Same same)
    : kept_(kept), weight_(weight), form_(form), packer_(std::move(packer)) {
  if (!kept_) return;
  Tensor stale;  // destroyed after the lock
  Cache& c = cache();
  const std::lock_guard lock(c.mutex);
  Forms& forms = c.known[kept_.storage_];
  if (forms.empty()) ++c.count_of(kept_.storage_);
  for (Form& f : forms) {
    if (std::string_view(f.name) != form_ || !f.is_of(weight_)) continue;
    if (packer_ && packer_ != f.packer && !same(packer_.get(), f.packer.get())) continue;
    packer_ = f.packer;
    if (f.version == kept_.version_) {
      packed_ = f.packed;
      keep_ = !packed_.defined();
    } else if (f.packed.defined()) {
      c.bytes -= f.packed.nbytes();
      stale = std::move(f.packed);
    }
    f.version = kept_.version_;
    return;
  }
  if (forms.size() < most_forms) forms.push_back({weight_, kept_.version_, form_, packer_, {}});
}

void PackedWeight::fill(Tensor packed) {
  packed_ = std::move(packed);
  if (!keep_) return;
  Cache& c = cache();
  const std::lock_guard lock(c.mutex);
  if (c.bytes + packed_.nbytes() > c.limit) return;
  const auto found = c.known.find(kept_.storage_);
  if (found == c.known.end()) return;
  for (Form& f : found->second) {
    if (f.name != form_ || f.packer != packer_ || !f.is_of(weight_)) continue;
    if (f.version != kept_.version_ || f.packed.defined()) return;  // another thread was faster
    f.packed = packed_;
    c.bytes += packed_.nbytes();
    return;
  }
}

void set_packed_weights_limit(std::int64_t bytes) {
  check(bytes >= 0, "set_packed_weights_limit: needs at least 0 bytes, got ", bytes);
  std::vector<Forms> dropped;
  Cache& c = cache();
  c.limit = bytes;
  const std::lock_guard lock(c.mutex);
  while (c.bytes > bytes && !c.known.empty()) dropped.push_back(c.take(c.known.begin()->first));
}
std::int64_t packed_weights_bytes() { return cache().bytes; }

void packed_weights::forget(const Storage* storage) noexcept {
  if (storage->nbytes() < least_bytes) return;
  Cache& c = cache();
  if (c.count_of(storage).load(std::memory_order_relaxed) == 0) return;
  Forms forms;  // destroyed after the lock: their storages come here too
  const std::lock_guard lock(c.mutex);
  forms = c.take(storage);
}

}  // namespace mantissa
