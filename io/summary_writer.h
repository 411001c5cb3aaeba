// Scalars, histograms, images and text for TensorBoard, as torch.utils.tensorboard.SummaryWriter writes them:
//
//   io::SummaryWriter writer("runs/first");            // then: tensorboard --logdir runs
//   writer.add_scalar("train/loss", loss.item(), step);
//
// One new file per writer. Every call hands its data to the operating system before returning, so a killed run keeps
// all that it has logged. Format: TFRecord frames around TensorFlow's Event messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/tensor.h"

namespace mantissa::io {

class SummaryWriter {
 public:
  // Creates the folder if missing. Throws Error on system errors.
  explicit SummaryWriter(const std::string& folder);
  ~SummaryWriter();
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  // Tags are grouped by their part before the first '/'. NaN and inf are written as such.
  void add_scalar(std::string_view tag, double value, std::int64_t step);
  // Over all elements, with `bins` equal bins from minimum to maximum. Finite values only, else an Error that names the
  // tag; an empty tensor writes nothing.
  void add_histogram(std::string_view tag, const Tensor& values, std::int64_t step, int bins = 64);
  // As for write_png: [H, W] or [C, H, W], u8, or floating in [0, 1]; several images with make_grid (io/image.h).
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
