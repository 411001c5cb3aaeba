// Image files: PNG (libpng) and JPEG (libjpeg-turbo), reading and writing, and image grids. Files are untrusted: sizes
// are checked before anything is allocated, and a truncated file is an error, never a partly gray image.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/tensor.h"

namespace mantissa::io {

enum class Channels { as_stored, gray, rgb };  // as_stored: 1, 3, or with transparency 2 or 4

// u8 [C, H, W]. `rgb` and `gray` drop transparency; gray is 0.299 R + 0.587 G + 0.114 B. 16-bit PNGs are reduced to 8
// bits. FormatError: neither PNG nor JPEG, damaged, truncated, or more than 2^27 pixels.
Tensor read_image(const std::string& path, Channels channels = Channels::rgb);
// The same from memory; `name` is used in error messages.
Tensor decode_image(std::string_view bytes, const std::string& name, Channels channels = Channels::rgb);
// The same in the file's layout, u8 [H, W, C], for cropping or resizing first: converting to planar layout takes time.
Tensor read_pixels(const std::string& path, Channels channels = Channels::rgb);
Tensor decode_pixels(std::string_view bytes, const std::string& name, Channels channels = Channels::rgb);

// The class of each pixel, u8 [H, W], of a mask in a PNG: the index of its color if it has a palette (as those of
// Pascal VOC), else its gray level, counted from 0 by 1 whatever the file's bits per pixel. FormatError: as
// read_image's, other colors, 16 bits, or not a PNG (JPEG mixes classes).
Tensor read_mask(const std::string& path);
Tensor decode_mask(std::string_view bytes, const std::string& name);

// u8, or floating values in [0, 1] (clamped); [H, W] or [C, H, W] with 1 (gray), 2 (gray + alpha), 3 (RGB) or 4 (RGBA)
// channels. The file appears under its name only when complete.
void write_png(const std::string& path, const Tensor& image);
std::string encode_png(const Tensor& image);  // the same file contents, in memory

// The same for 1 or 3 channels, as JPEG of quality 1 to 100 with 4:2:0 chroma subsampling, as torchvision.io and Pillow
// write.
void write_jpeg(const std::string& path, const Tensor& image, int quality = 75);
std::string encode_jpeg(const Tensor& image, int quality = 75);

// As torchvision's make_grid: images [N, C, H, W] tiled, C 1 or 3, f32 in [0, 1].
struct GridOptions {
  std::int64_t columns = 8, padding = 2;
  bool normalize = false;  // scale all pixels so that the minimum is 0 and the maximum 1
  double pad_value = 0;
};
Tensor make_grid(const Tensor& images, GridOptions = {});
// As torchvision's save_image. For a generator whose output layer is tanh: {.normalize = true}.
void save_image_grid(const std::string& path, const Tensor& images, GridOptions = {});

}  // namespace mantissa::io
