// Pictures as files: PNG (libpng) and JPEG (libjpeg-turbo), in and out, and grids of pictures to look at.
// Files are hostile: sizes are checked before anything is allocated, and a cut file is an error, never a
// half-gray picture.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/tensor.h"

namespace mantissa::io {

enum class Channels { as_stored, gray, rgb };  // as_stored: 1, 3, or with transparency 2 or 4

// u8 [C, H, W]. `rgb` and `gray` drop transparency; gray is 0.299 R + 0.587 G + 0.114 B. 16-bit PNGs come out as
// 8-bit ones. FormatError: neither PNG nor JPEG, damaged, cut, or of more than 2^27 pixels.
Tensor read_image(const std::string& path, Channels channels = Channels::rgb);
// The same from memory; `name` is what errors call it.
Tensor decode_image(std::string_view bytes, const std::string& name, Channels channels = Channels::rgb);
// The same as files have them, u8 [H, W, C], for who cuts or resizes them first: to bring colours apart takes time.
Tensor read_pixels(const std::string& path, Channels channels = Channels::rgb);
Tensor decode_pixels(std::string_view bytes, const std::string& name, Channels channels = Channels::rgb);

// u8, or floating values in [0, 1] (beyond is cut off); [H, W] or [C, H, W] with 1 (gray), 2 (and alpha), 3 (RGB) or
// 4 (RGBA) channels. The file appears under its name only when it is complete.
void write_png(const std::string& path, const Tensor& image);
std::string encode_png(const Tensor& image);  // the same bytes, in memory

// The same of 1 or 3 channels, as JPEG of a quality from 1 to 100 with colours at half the resolution: what
// torchvision.io and Pillow write.
void write_jpeg(const std::string& path, const Tensor& image, int quality = 75);
std::string encode_jpeg(const Tensor& image, int quality = 75);

// As torchvision's make_grid: images [N, C, H, W] side by side, C 1 or 3, f32 in [0, 1].
struct GridOptions {
  std::int64_t columns = 8, padding = 2;
  bool normalize = false;  // shift and scale all pixels so that the smallest is 0 and the largest 1
  double pad_value = 0;
};
Tensor make_grid(const Tensor& images, GridOptions = {});
// As torchvision's save_image. For a generator that ends in tanh: {.normalize = true}.
void save_image_grid(const std::string& path, const Tensor& images, GridOptions = {});

}  // namespace mantissa::io
