// The tuner's cache file of fastest algorithms: one JSON object per line, {"machine": ..., "key": ..., "way": ...}.
// Failures are harmless: if the file cannot be written, the next run times again; a file that is damaged, not a regular
// file, or over 8 MiB is ignored, with one line on stderr.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace mantissa::tuner {

// $MANTISSA_CACHE/name, else $XDG_CACHE_HOME/mantissa/name, else ~/.cache/mantissa/name; "" without a home directory.
std::string cache_file(const std::string& name);

// Thread-safe. With path "" choices last as long as the process.
class Choices {
 public:
  explicit Choices(std::string path) : path_(std::move(path)) { read(); }
  // `machine` is whatever the choice depends on besides the work: processor or GPU, library versions.
  std::optional<std::string> find(const std::string& machine, const std::string& key);
  void keep(const std::string& machine, const std::string& key, const std::string& way);

 private:
  void read();
  void refuse(const char* why);

  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::string> known_;
  std::string path_;
};

}  // namespace mantissa::tuner
