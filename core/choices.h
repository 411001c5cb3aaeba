// What was found fastest, remembered in a file: one JSON object a line, {"machine": ..., "key": ..., "way": ...}.
// It is a cache, and treated as one: a file that cannot be written costs the next run its timings and nothing else; one
// that is damaged, not an ordinary file, or over 8 MiB is ignored, with one line on stderr.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace mantissa::tuner {

// $MANTISSA_CACHE/name, else $XDG_CACHE_HOME/mantissa/name, else ~/.cache/mantissa/name; "" without a home.
std::string cache_file(const std::string& name);

// Thread-safe. With path "" choices live as long as the process.
class Choices {
 public:
  explicit Choices(std::string path) : path_(std::move(path)) { read(); }
  // `machine` is whatever the choice depends on besides the work: processor or GPU, versions of libraries.
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
