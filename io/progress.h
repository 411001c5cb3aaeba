// A progress line on the terminal: rate, time left, loss. Updated at most ten times a second; prints nothing when the
// output is not a terminal, so that logs stay readable.
#pragma once

#include <cstdint>
#include <string>

namespace mantissa::io {

// "epoch 2/5  41%  193/469  52.1 it/s  0:05 left  loss 0.2134"; `seconds` since the start; a NaN `loss` is omitted.
std::string progress_line(const std::string& label, std::int64_t done, std::int64_t total, double seconds,
                          double loss);

class Progress {
 public:
  // `total` steps. Writes to `fd` (default: standard error) only when it is a terminal.
  Progress(std::string label, std::int64_t total, int fd = 2);
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(std::int64_t done);               // cheap when no redraw is due
  void update(std::int64_t done, double loss);  // the displayed loss is smoothed over about twenty steps
  void finish();                                // erases the line; later update() calls do nothing
  bool active() const { return active_; }
  // Whether update() will use the loss: reading it back may require waiting for the device.
  bool due() const;

 private:
  std::string label_;
  std::int64_t total_;
  int fd_;
  bool active_;
  double start_, next_;  // seconds on the steady clock
  double loss_;          // NaN until the first
};

}  // namespace mantissa::io
