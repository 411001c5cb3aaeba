#include "data/jpeg.h"

#include <algorithm>
#include <cstring>

#include "data/pixels.h"
#include "io/image.h"

namespace mantissa::data {

void random_jpeg_(Tensor& images, Draws& draws, std::array<int, 2> quality) {
  check_images(images, "random_jpeg_");
  check(images.dtype() == u8, "random_jpeg_: needs u8 images, got ", images, "; it stands before normalize");
  const auto [least, most] = quality;
  check(least >= 1 && least <= most && most <= 100, "random_jpeg_: qualities must be a range from 1 to 100, got ",
        least, " to ", most);
  const bool gray = images.size(1) == 1;
  const std::int64_t bytes = images.numel() / std::max<std::int64_t>(images.size(0), 1);
  for (std::int64_t b = 0; b < images.size(0); ++b) {
    const std::string file = io::encode_jpeg(images[b], least + static_cast<int>(draws.below(most - least + 1)));
    const Tensor read = io::decode_image(file, "random_jpeg_", gray ? io::Channels::gray : io::Channels::rgb);
    std::memcpy(images.data<std::uint8_t>() + b * bytes, read.raw_data(), static_cast<std::size_t>(bytes));
  }
}

}  // namespace mantissa::data
