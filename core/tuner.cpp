#include "core/tuner.h"

#include <sys/stat.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/cpu/isa.h"
#include "core/onednn.h"

namespace mantissa::tuner {
namespace {

constexpr std::int64_t largest_file = 8 << 20;

Mode mode_at_start() {
  const char* v = std::getenv("MANTISSA_TUNER");
  const std::string_view text = v ? v : "";
  if (text == "off") return Mode::off;
  if (text == "on") return Mode::on;
  if (!text.empty()) std::fprintf(stderr, "mantissa: MANTISSA_TUNER is neither 'on' nor 'off', and is ignored\n");
  return Mode::kept;
}
Mode& current_mode() {
  static Mode m = mode_at_start();
  return m;
}

std::string path_at_start() {
  if (const char* dir = std::getenv("MANTISSA_CACHE"); dir && *dir) return std::string(dir) + "/cpu.jsonl";
  if (const char* dir = std::getenv("XDG_CACHE_HOME"); dir && *dir) return std::string(dir) + "/mantissa/cpu.jsonl";
  if (const char* dir = std::getenv("HOME"); dir && *dir) return std::string(dir) + "/.cache/mantissa/cpu.jsonl";
  return "";
}

std::string find_machine() {
  std::string model = "unknown";
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line) && line.size() < 4096;) {
    const auto colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      model = line.substr(colon + 2);
      break;
    }
  }
  // Hypervisors hide the model's name, so what it can compute is said as well.
  return model + ", " + cpu_backend::name_of(cpu_backend::isa()) + (onednn::has_bf16() ? " bf16" : "") + ", oneDNN " +
         onednn::version();
}

class File {
 public:
  explicit File(std::string path) : path_(std::move(path)) { read(); }
  std::optional<std::string> find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    const auto at = known_.find(key);
    if (at == known_.end()) return std::nullopt;
    return at->second;
  }
  void keep(const std::string& key, const std::string& way) {
    const std::lock_guard lock(mutex_);
    known_[key] = way;
    if (path_.empty()) return;
    std::error_code ignored;  // a cache that cannot be written costs the next run its trials, nothing else
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
    std::ofstream out(path_, std::ios::app);
    out << nlohmann::json{{"machine", machine()}, {"key", key}, {"way", way}}.dump() << '\n';
  }

 private:
  void read() {
    struct stat s {};
    if (path_.empty() || ::stat(path_.c_str(), &s) != 0) return;
    if (!S_ISREG(s.st_mode) || s.st_size > largest_file) return refuse("not an ordinary file of at most 8 MiB");
    std::ifstream in(path_);
    std::int64_t damaged = 0;
    for (std::string line; std::getline(in, line);) {
      const auto entry = nlohmann::json::parse(line, nullptr, false);
      const auto text = [&](const char* name) { return entry.contains(name) && entry[name].is_string(); };
      if (!entry.is_object() || !text("machine") || !text("key") || !text("way")) {
        ++damaged;
      } else if (entry["machine"].get<std::string>() == machine()) {
        known_[entry["key"].get<std::string>()] = entry["way"].get<std::string>();
      }
    }
    if (damaged == 0) return;
    known_.clear();
    refuse("it has lines that are not choices");
  }
  void refuse(const char* why) {
    std::fprintf(stderr, "mantissa: %s is ignored: %s; delete it\n", path_.c_str(), why);
    path_.clear();
  }

  std::mutex mutex_;
  std::map<std::string, std::string> known_;
  std::string path_;
};
std::optional<File>& file() {
  static std::optional<File> f(std::in_place, path_at_start());
  return f;
}

}  // namespace

Mode mode() { return current_mode(); }
void set_mode(Mode mode) { current_mode() = mode; }
void use_file(const std::string& path) { file().emplace(path); }
std::optional<std::string> kept(const std::string& key) { return file()->find(key); }
void keep(const std::string& key, const std::string& way) { file()->keep(key, way); }
const std::string& machine() {
  static const std::string m = find_machine();
  return m;
}

std::size_t Trials::next() {
  const std::lock_guard lock(mutex_);
  return begun_++ % best_.size();
}
std::optional<std::size_t> Trials::took(std::size_t way, double seconds) {
  const std::lock_guard lock(mutex_);
  if (best_[way] < 0 || seconds < best_[way]) best_[way] = seconds;
  if (++ended_ != samples * best_.size()) return std::nullopt;
  std::size_t winner = 0;
  for (std::size_t i = 1; i < best_.size(); ++i) {
    if (best_[i] >= 0 && best_[i] < best_[winner]) winner = i;
  }
  return winner;
}

}  // namespace mantissa::tuner
