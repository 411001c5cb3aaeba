#include "io/trace_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "io/file.h"

namespace mantissa::io {
namespace {

constexpr int host = 1;  // "processes" of the format: groups of rows
int group_of(Device d) { return d.is_cpu() ? host : host + 1 + d.index; }

const char* category(ProfileKind kind) {
  switch (kind) {
    case ProfileKind::op:
      return "op";
    case ProfileKind::backward:
      return "backward";
    case ProfileKind::library:
      return "library";
    default:
      return "user";
  }
}

std::string quoted(const std::string& text) {  // names may contain any bytes
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string arguments(const ProfileEvent& e) {
  std::string text;
  if (!e.shapes.empty()) text += concat("\"inputs\":", quoted(e.shapes));
  if (e.bytes != 0) text += concat(text.empty() ? "" : ",", "\"bytes\":", e.bytes);
  return text;
}

std::string box(const ProfileEvent& e, int group, std::int64_t start, std::int64_t duration) {
  const std::string name = e.kind == ProfileKind::backward ? concat(e.name, " (backward)") : std::string(e.name);
  return fmt::format(R"({{"ph":"X","name":{},"cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}})",
                     quoted(name), category(e.kind), group, e.thread, static_cast<double>(start) / 1e3,
                     static_cast<double>(duration) / 1e3, arguments(e));
}

std::string label(const char* what, int group, int thread, const std::string& name) {
  return fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", what, group, thread,
                     quoted(name));
}

}  // namespace

void save_trace(const std::string& path, Profile& profile) {
  AtomicFile file(path);
  file.write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  std::string separator;
  const auto write = [&](const std::string& item) { file.write(std::exchange(separator, ",\n") + item); };
  std::set<std::pair<int, int>> known;  // (group, thread) pairs
  const auto introduce = [&](Device d, int thread) {
    const int group = group_of(d);
    if (known.insert({group, -1}).second) write(label("process_name", group, 0, d.is_cpu() ? "host" : concat(d)));
    if (known.insert({group, thread}).second)
      write(label("thread_name", group, thread, concat(d.is_cpu() ? "thread " : "launched by thread ", thread)));
  };
  for (const ProfileEvent& e : profile.events()) {
    introduce(cpu, e.thread);
    write(box(e, host, e.start, e.duration));
    if (e.device_start < 0) continue;
    introduce(e.device, e.thread);
    write(box(e, group_of(e.device), e.device_start, e.device_duration));
  }
  file.write("\n]}\n");
  file.commit();
}

}  // namespace mantissa::io
