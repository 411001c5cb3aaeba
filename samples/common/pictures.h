// Shared by the samples that draw pictures: the pictures to learn from, and the file for what was drawn. Pixels are in
// [-1, 1].
#pragma once

#include <mantissa/io/image.h>

#include <algorithm>
#include <string>

#include "run.h"

namespace samples {

inline data::Dataset load_pictures(const Options& o) {
  data::Dataset set = data::load_dataset(o.dataset, data::Split::train, o.data);
  return o.limit > 0 ? set.first(std::min(o.limit, set.size())) : set;
}
inline data::Loader picture_loader(const data::Dataset& set, const Options& o) {
  return data::Pipeline(set)
      .shuffle(o.seed)
      .batch(o.batch)
      .drop_last()
      .threads(o.workers)
      .normalize({0.5f}, {0.5f})
      .loader();
}

// Writes a PNG file with `columns` of the pictures side by side. A full disk should not stop training: only a note.
inline void save_pictures(const Run& run, const std::string& path, const Tensor& pictures, std::int64_t columns) {
  try {
    const NoGrad no_grad;
    io::save_image_grid(path, clamp(pictures.to(cpu).to(f32) * 0.5 + 0.5, 0, 1), {.columns = columns});
  } catch (const Error& e) { run.note(concat("warning: no picture: ", e.what())); }
}

}  // namespace samples
