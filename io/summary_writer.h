// Curves, histograms, pictures and texts for TensorBoard, as torch.utils.tensorboard.SummaryWriter writes them:
//
//   io::SummaryWriter writer("runs/first");            // then: tensorboard --logdir runs
//   writer.add_scalar("train/loss", loss.item(), step);
//
// One new file for each writer. Every call is with the operating system when it returns, so a run that is killed leaves
// everything it has logged. Format: TFRecord frames around TensorFlow's Event messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/tensor.h"

namespace mantissa::io {

class SummaryWriter {
 public:
  // Makes the folder where it is missing. Throws Error when the system refuses.
  explicit SummaryWriter(const std::string& folder);
  ~SummaryWriter();
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  // Tags are grouped by what stands before their first '/'. NaN and inf are written as such.
  void add_scalar(std::string_view tag, double value, std::int64_t step);
  // Of all elements, in `bins` equal parts from the least to the greatest. Finite values only, else an Error that names
  // the tag; an empty tensor writes nothing.
  void add_histogram(std::string_view tag, const Tensor& values, std::int64_t step, int bins = 64);
  // As write_png takes them: [H, W] or [C, H, W], u8, or floating in [0, 1]; several by make_grid (io/image.h).
  void add_image(std::string_view tag, const Tensor& image, std::int64_t step);
  void add_text(std::string_view tag, std::string_view text, std::int64_t step);  // Markdown

  const std::string& path() const { return path_; }

 private:
  void write_event(std::string_view fields);
  void write_value(std::string_view tag, std::string_view fields, std::int64_t step);

  std::string path_;
  int fd_ = -1;
};

}  // namespace mantissa::io
