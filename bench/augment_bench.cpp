// Transforms of pictures: images/s on one thread, and what they make of given ones, for bench/augment_torch.py, which
// times torchvision on the same and compares.
//   augment_bench [seconds for each=0.3] [pictures.npy, u8 [N, C, H, W]] [results.safetensors]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "data/pipeline.h"
#include "data/synthetic.h"
#include "io/npy.h"
#include "io/safetensors.h"

using namespace mantissa;
using data::Draws;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

using Change = std::function<void(Tensor&, Draws&)>;
struct Job {
  const char* name;
  Change change;
  bool fixed;  // no chance in it: its results are written
};

Change each(void (*adjust)(Tensor&, double), double factor) {
  return [=](Tensor& images, Draws&) {
    for (std::int64_t b = 0; b < images.size(0); ++b) {
      Tensor image = images[b];
      adjust(image, factor);
    }
  };
}
Tensor aside(const Tensor& x) {
  const double r = static_cast<double>(x.size(3) - 1), d = static_cast<double>(x.size(2) - 1);
  return data::perspective(x, {{{0, 0}, {r, 0}, {r, d}, {0, d}}}, {{{3, 1}, {r - 3, 4}, {r, d - 4}, {1, d - 1}}});
}

const Job jobs[] = {
    {"posterize", [](Tensor& x, Draws&) { data::posterize_(x, 3); }, true},
    {"solarize", [](Tensor& x, Draws&) { data::solarize_(x, 110); }, true},
    {"invert", [](Tensor& x, Draws&) { data::invert_(x); }, true},
    {"autocontrast", [](Tensor& x, Draws&) { data::autocontrast_(x); }, true},
    {"equalize", [](Tensor& x, Draws&) { data::equalize_(x); }, true},
    {"sharpness", [](Tensor& x, Draws&) { data::adjust_sharpness_(x, 1.7); }, true},
    {"brightness", each(data::adjust_brightness_, 1.4), true},
    {"contrast", each(data::adjust_contrast_, 1.6), true},
    {"saturation", each(data::adjust_saturation_, 1.6), true},
    {"hue", each(data::adjust_hue_, 0.13), true},
    {"rotate", [](Tensor& x, Draws&) { x = data::rotate(x, 33); }, true},
    {"shear", [](Tensor& x, Draws&) { data::apply_augment_(x, {data::AugmentOp::shear_x, 0.2}); }, true},
    {"translate", [](Tensor& x, Draws&) { data::apply_augment_(x, {data::AugmentOp::translate_y, -6.4}); }, true},
    {"perspective", [](Tensor& x, Draws&) { x = aside(x); }, true},
    {"blur", [](Tensor& x, Draws&) { x = data::gaussian_blur(x, 3, 0.9f); }, true},
    {"crop, flip", [](Tensor& x, Draws& d) { x = data::random_crop(x, 4, d), data::random_flip_(x, d); }, false},
    {"ColorJitter", [](Tensor& x, Draws& d) { data::color_jitter_(x, d, {0.4f, 0.4f, 0.4f, 0.1f}); }, false},
    {"RandAugment", [](Tensor& x, Draws& d) { data::rand_augment_(x, d); }, false},
    {"TrivialAugmentWide", [](Tensor& x, Draws& d) { data::trivial_augment_wide_(x, d); }, false},
    {"AutoAugment", [](Tensor& x, Draws& d) { data::auto_augment_(x, d); }, false},
    {"AugMix", [](Tensor& x, Draws& d) { data::aug_mix_(x, d); }, false},
    {"RandomPerspective", [](Tensor& x, Draws& d) { x = data::random_perspective(x, d, {.p = 1}); }, false},
    {"ElasticTransform", [](Tensor& x, Draws& d) { x = data::random_elastic(x, d); }, false},
    {"crop, flip, TrivialAugmentWide, Normalize", [](Tensor& x, Draws& d) {
       x = data::random_crop(x, 4, d);
       data::random_flip_(x, d);
       data::trivial_augment_wide_(x, d);
       x = data::normalize(x, {0.5f}, {0.25f});
     }, false},
};

}  // namespace

int main(int argc, char** argv) try {
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0.3;
  const Tensor pictures = argc > 2 ? io::load_npy(argv[2]) : data::synthetic_color_digits(128, 1).images;
  NamedTensors results;
  for (const Job& job : jobs) {
    Draws draws(1, data::Purpose::augment, 0);
    double best = 1e9;
    int runs = 0;
    for (const double end = now() + seconds; now() < end || runs < 2; ++runs) {
      Tensor x = pictures.clone();
      const double begin = now();
      job.change(x, draws);
      best = std::min(best, now() - begin);
      if (runs == 0 && job.fixed) results.emplace_back(job.name, x);
    }
    std::printf("%s: %.0f images/s\n", job.name, static_cast<double>(pictures.size(0)) / best);
  }
  if (argc > 3) io::save_safetensors(argv[3], results);
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
