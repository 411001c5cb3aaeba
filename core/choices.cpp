#include "core/choices.h"

#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace mantissa::tuner {
namespace {

constexpr std::int64_t largest_file = 8 << 20;

}  // namespace

std::string cache_file(const std::string& name) {
  if (const char* dir = std::getenv("MANTISSA_CACHE"); dir && *dir) return dir + ("/" + name);
  if (const char* dir = std::getenv("XDG_CACHE_HOME"); dir && *dir) return dir + ("/mantissa/" + name);
  if (const char* dir = std::getenv("HOME"); dir && *dir) return dir + ("/.cache/mantissa/" + name);
  return "";
}

std::optional<std::string> Choices::find(const std::string& machine, const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto at = known_.find({machine, key});
  if (at == known_.end()) return std::nullopt;
  return at->second;
}

void Choices::keep(const std::string& machine, const std::string& key, const std::string& way) {
  const std::lock_guard lock(mutex_);
  known_[{machine, key}] = way;
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  // A single write per line: several programs may share the file.
  const std::string line = nlohmann::json{{"machine", machine}, {"key", key}, {"way", way}}.dump() + "\n";
  std::ofstream(path_, std::ios::app) << line << std::flush;
}

void Choices::read() {
  struct stat s {};
  if (path_.empty() || ::stat(path_.c_str(), &s) != 0) return;
  if (!S_ISREG(s.st_mode) || s.st_size > largest_file) return refuse("not an ordinary file of at most 8 MiB");
  std::ifstream in(path_);
  for (std::string line; std::getline(in, line);) {
    const auto entry = nlohmann::json::parse(line, nullptr, false);
    const auto text = [&](const char* name) { return entry.contains(name) && entry[name].is_string(); };
    if (!entry.is_object() || !text("machine") || !text("key") || !text("way")) {
      known_.clear();
      return refuse("it has lines that are not choices");
    }
    known_[{entry["machine"].get<std::string>(), entry["key"].get<std::string>()}] = entry["way"].get<std::string>();
  }
}

void Choices::refuse(const char* why) {
  std::fprintf(stderr, "mantissa: %s is ignored: %s; delete it\n", path_.c_str(), why);
  path_.clear();
}

}  // namespace mantissa::tuner
