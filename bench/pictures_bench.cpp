// Batches of 224 x 224 from a folder of pictures: milliseconds for each picture, for bench/pictures_torch.py, which
// times torchvision on the same folder.
//   pictures_bench FOLDER middle|crop [loader threads=1] [epochs=3]      prints the fastest epoch
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "core/parallel.h"
#include "data/image_folder.h"
#include "data/pipeline.h"

int main(int argc, char** argv) {
  using namespace mantissa;
  using Clock = std::chrono::steady_clock;
  if (argc < 3) return fmt::print(stderr, "pictures_bench FOLDER middle|crop [threads] [epochs]\n"), 2;
  const bool crop = std::string_view(argv[2]) == "crop";
  const int threads = argc > 3 ? std::atoi(argv[3]) : 1, epochs = argc > 4 ? std::atoi(argv[4]) : 3;
  if (threads == 0) set_num_threads(1);  // this thread alone
  data::ImageFolderOptions options;
  if (crop) options.random_crop = data::ResizedCropOptions{};
  data::Pipeline pipeline(data::image_folder(argv[1], options));
  if (crop) pipeline = pipeline.random_flip();
  data::Loader loader = pipeline.batch(32).threads(threads).loader();
  double least = 1e9;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const auto begin = Clock::now();
    std::int64_t pictures = 0;
    for (data::Batch b; loader.next(b);) pictures += b.image.size(0);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    least = std::min(least, seconds / static_cast<double>(pictures));
  }
  fmt::print("{:.3f}\n", least * 1e3);
}
