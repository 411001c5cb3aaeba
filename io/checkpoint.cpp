// Checksums and names around a safetensors file. Keys that start with "mantissa." are reserved: mantissa.format,
// mantissa.version, mantissa.crc32 (of all other metadata), mantissa.crc32.<tensor>.
#include "io/checkpoint.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "io/file.h"
#include "io/safetensors_header.h"

namespace mantissa::io {
namespace {

constexpr std::string_view reserved = "mantissa.";
constexpr const char* format_key = "mantissa.format";
constexpr const char* version_key = "mantissa.version";
constexpr const char* metadata_crc_key = "mantissa.crc32";
constexpr const char* tensor_crc_prefix = "mantissa.crc32.";
constexpr const char* format_name = "checkpoint";
constexpr int newest_version = 1;

uLong crc_of(std::string_view text, uLong crc = 0) {
  return ::crc32_z(crc, reinterpret_cast<const Bytef*>(text.data()), text.size());
}

// Covers name, dtype and shape too, to detect flipped bits in the header as well.
std::string tensor_crc(const std::string& name, const Tensor& t) {
  const uLong crc = crc_of(concat(name, " ", t.dtype(), t.sizes()));
  return fmt::format(
      "{:08x}", crc_of({static_cast<const char*>(t.raw_data()), static_cast<std::size_t>(t.nbytes())}, crc));
}

std::string metadata_crc(const Metadata& metadata) {
  uLong crc = 0;
  for (const auto& [key, value] : metadata)
    crc = crc_of(fmt::format("{} {} ", key.size(), value.size()), crc_of(value, crc_of(key, crc)));
  return fmt::format("{:08x}", crc);
}

const std::string* find(const Metadata& metadata, std::string_view key) {
  for (const auto& [k, value] : metadata) if (k == key) return &value;
  return nullptr;
}

void check_is_checkpoint(const std::string& path, const Metadata& metadata) {
  const std::string* format = find(metadata, format_key);
  if (!format || *format != format_name)
    fail_format(path, "is a safetensors file but not a checkpoint (it has no \"", format_key,
                "\"); weights alone are read with load_safetensors");
  const std::string* version = find(metadata, version_key);
  if (!version || *version != std::to_string(newest_version))
    fail_format(path, "is a checkpoint of version ", version ? quote(*version) : "(none)",
                ", this build reads ", newest_version);
}

void verify(const std::string& path, const Safetensors& file) {
  std::map<std::string_view, std::string_view> crcs;
  Metadata covered;
  const std::string* total = nullptr;
  for (const auto& entry : file.metadata) {
    if (entry.first == metadata_crc_key) {
      total = &entry.second;
      continue;
    }
    covered.push_back(entry);
    const std::string_view key = entry.first;
    if (key.starts_with(tensor_crc_prefix))
      crcs[key.substr(std::string_view(tensor_crc_prefix).size())] = entry.second;
  }
  if (!total || *total != metadata_crc(covered))
    fail_format(path, "is damaged: the checksum of its metadata is wrong");
  for (const auto& [name, t] : file.tensors) {
    const auto crc = crcs.find(name);
    if (crc == crcs.end() || crc->second != tensor_crc(name, t))
      fail_format(path, "is damaged: the checksum of tensor ", quote(name), " is wrong");
  }
  if (crcs.size() != file.tensors.size())
    fail_format(path, "is damaged: ", crcs.size(), " tensors were saved, ", file.tensors.size(),
                " are there");
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string suggestion(const std::string& name, const NamedTensors& tensors) {
  std::vector<std::string> names;
  for (const auto& [candidate, tensor] : tensors) names.push_back(candidate);
  return suggest_name(name, names);
}

}  // namespace

std::string suggest_name(const std::string& name, std::span<const std::string> names) {
  int best = 1 + static_cast<int>(std::min<std::size_t>(name.size(), 300) / 3);
  const std::string* nearest = nullptr;
  for (const std::string& candidate : names) {
    if (name.size() > 300 || candidate.size() > 300) continue;  // too long to be typos, and slow to compare
    if (const int d = edit_distance(name, candidate); d < best) {
      best = d;
      nearest = &candidate;
    }
  }
  return nearest ? concat(" (did you mean ", quote(*nearest), "?)") : "";
}

Tensor tensor_named(const NamedTensors& tensors, const std::string& name) {
  for (const auto& [n, t] : tensors) if (n == name) return t;
  fail("there is no tensor ", quote(name), " among ", tensors.size(), suggestion(name, tensors));
}

void Checkpoint::put(const std::string& area, const NamedTensors& named) {
  for (const auto& [name, t] : named) tensors.emplace_back(area + "." + name, t);
}

NamedTensors Checkpoint::get(const std::string& area) const {
  const std::string prefix = area + ".";
  NamedTensors result;
  for (const auto& [name, t] : tensors)
    if (name.starts_with(prefix)) result.emplace_back(name.substr(prefix.size()), t);
  return result;
}

Tensor Checkpoint::tensor(const std::string& name) const {
  for (const auto& [n, t] : tensors) if (n == name) return t;
  fail("the checkpoint has no tensor ", quote(name), suggestion(name, tensors));
}

void Checkpoint::set(const std::string& key, const std::string& value) {
  check(!key.starts_with(reserved), "metadata keys that start with \"", reserved, "\" are reserved, got ",
        quote(key));
  for (auto& [k, v] : metadata) {
    if (k != key) continue;
    v = value;
    return;
  }
  metadata.emplace_back(key, value);
}

std::string Checkpoint::text(const std::string& key) const {
  const std::string* value = find(metadata, key);
  check(value != nullptr, "the checkpoint has no metadata ", quote(key));
  return *value;
}

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  Metadata metadata = checkpoint.metadata;
  metadata.emplace_back(format_key, format_name);
  metadata.emplace_back(version_key, std::to_string(newest_version));
  NamedTensors stored;
  for (const auto& [name, t] : checkpoint.tensors) {
    check(t.defined(), "tensor ", quote(name), " is undefined and cannot be saved");
    stored.emplace_back(name, storable(t));
    metadata.emplace_back(tensor_crc_prefix + name, tensor_crc(name, stored.back().second));
  }
  metadata.emplace_back(metadata_crc_key, metadata_crc(metadata));
  save_safetensors(path, stored, metadata);
}

Checkpoint load_checkpoint(const std::string& path) {
  Safetensors file = load_safetensors(path);
  check_is_checkpoint(path, file.metadata);
  verify(path, file);
  Checkpoint result;
  result.tensors = std::move(file.tensors);
  for (auto& entry : file.metadata)
    if (!entry.first.starts_with(reserved)) result.metadata.push_back(std::move(entry));
  return result;
}

std::string describe_mismatch(const NamedTensors& expected, const NamedTensors& found) {
  std::map<std::string_view, const Tensor*> wanted, given;
  for (const auto& [name, t] : expected) wanted[name] = &t;
  for (const auto& [name, t] : found) given[name] = &t;
  NamedTensors missing, unexpected;
  for (const auto& entry : expected) if (!given.count(entry.first)) missing.push_back(entry);
  for (const auto& entry : found) if (!wanted.count(entry.first)) unexpected.push_back(entry);

  constexpr int shown = 3;  // of each kind
  std::vector<std::string> parts;
  std::size_t more = 0;
  const auto list = [&](const NamedTensors& names, const char* kind, const NamedTensors& others) {
    for (std::size_t i = 0; i < names.size() && i < shown; ++i)
      parts.push_back(concat(kind, " ", quote(names[i].first), suggestion(names[i].first, others)));
    more += names.size() > shown ? names.size() - shown : 0;
  };
  list(missing, "missing", unexpected);
  list(unexpected, "unexpected", missing);
  int shapes = 0;
  for (const auto& [name, t] : expected) {
    const auto it = given.find(name);
    if (it == given.end() || it->second->sizes() == t.sizes()) continue;
    if (shapes++ < shown)
      parts.push_back(concat(quote(name), " has shape ", it->second->sizes(), ", expected ", t.sizes()));
    else
      ++more;
  }
  if (more > 0) parts.push_back(concat("and ", more, " more"));
  return fmt::format("{}", fmt::join(parts, "; "));
}

Tensor to_tensor(const RngState& state) {
  const Tensor t = Tensor::allocate({2}, i64);
  t.data<std::int64_t>()[0] = static_cast<std::int64_t>(state.seed);
  t.data<std::int64_t>()[1] = static_cast<std::int64_t>(state.offset);
  return t;
}

RngState rng_from_tensor(const Tensor& t) {
  check(t.defined() && t.dtype() == i64 && t.sizes() == Dims{2}, "a saved random state is i64[2], got ",
        t);
  const std::int64_t* v = t.data<std::int64_t>();
  return {static_cast<std::uint64_t>(v[0]), static_cast<std::uint64_t>(v[1])};
}

}  // namespace mantissa::io
