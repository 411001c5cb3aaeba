#include "core/tuner.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "core/amx.h"
#include "core/choices.h"
#include "core/cpu/isa.h"
#include "core/onednn.h"

namespace mantissa::tuner {
namespace {

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
  // Hypervisors hide the model's name, so the instruction set is included.
  return model + ", " + cpu_backend::name_of(cpu_backend::isa()) + (onednn::has_bf16() ? " bf16" : "") +
         (uses_amx() ? " amx" : "") + ", oneDNN " + onednn::version();
}

std::optional<Choices>& file() {
  static std::optional<Choices> f(std::in_place, cache_file("cpu.jsonl"));
  return f;
}

}  // namespace

Mode mode() { return current_mode(); }
void set_mode(Mode mode) { current_mode() = mode; }
void use_file(const std::string& path) { file().emplace(path); }
std::optional<std::string> kept(const std::string& key) { return file()->find(machine(), key); }
void keep(const std::string& key, const std::string& way) { file()->keep(machine(), key, way); }
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
