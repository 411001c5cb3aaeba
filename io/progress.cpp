#include "io/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <limits>

namespace mantissa::io {
namespace {

constexpr double interval = 0.1;  // minimum seconds between updates

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string clock_text(double seconds) {
  const auto s = static_cast<std::int64_t>(std::min(seconds, 359999.0) + 0.5);
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

void write_all(int fd, const std::string& text) {
  // Errors are ignored: a closed terminal must not stop training.
  [[maybe_unused]] const ssize_t n = ::write(fd, text.data(), text.size());
}

}  // namespace

std::string progress_line(const std::string& label, std::int64_t done, std::int64_t total, double seconds,
                          double loss) {
  std::string s = label;
  if (total > 0)
    s += fmt::format("  {:.0f}%  {}/{}", 100.0 * static_cast<double>(done) / static_cast<double>(total), done,
                     total);
  if (done > 0 && seconds > 0) {
    const double rate = static_cast<double>(done) / seconds;
    s += fmt::format("  {:.1f} it/s", rate);
    if (total >= done) s += fmt::format("  {} left", clock_text(static_cast<double>(total - done) / rate));
  }
  if (!std::isnan(loss)) s += fmt::format("  loss {:.4f}", loss);
  return s;
}

Progress::Progress(std::string label, std::int64_t total, int fd)
    : label_(std::move(label)),
      total_(total),
      fd_(fd),
      active_(::isatty(fd) == 1),
      start_(now()),
      next_(start_ + interval),
      loss_(std::numeric_limits<double>::quiet_NaN()) {}

bool Progress::due() const { return active_ && now() >= next_; }

void Progress::update(std::int64_t done) {
  if (!due()) return;
  const double t = now();
  next_ = t + interval;
  write_all(fd_, "\r" + progress_line(label_, done, total_, t - start_, loss_) + "\x1b[K");
}

void Progress::update(std::int64_t done, double loss) {
  if (!active_) return;
  loss_ = std::isnan(loss_) ? loss : loss_ + 0.05 * (loss - loss_);
  update(done);
}

void Progress::finish() {
  if (!active_) return;
  write_all(fd_, "\r\x1b[K");
  active_ = false;
}

}  // namespace mantissa::io
