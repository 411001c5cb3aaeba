// The transforms that a Pipeline offers by name: each is a function of data/ that becomes a step.
#include "data/pipeline.h"

namespace mantissa::data {

Pipeline Pipeline::random_flip(float p) const {
  return move(
      p,
      [](Tensor x, Draws& draws, float p, Motions* to) {
        random_flip_(x, draws, p, to);
        return x;
      },
      [p](std::int64_t n, std::int64_t, std::int64_t, Draws& draws) { return random_flip_steps(n, draws, p); });
}
Pipeline Pipeline::random_vertical_flip(float p) const {
  return move(
      p,
      [](Tensor x, Draws& draws, float p, Motions* to) {
        random_vertical_flip_(x, draws, p, to);
        return x;
      },
      [p](std::int64_t n, std::int64_t, std::int64_t, Draws& draws) {
        return random_vertical_flip_steps(n, draws, p);
      });
}
Pipeline Pipeline::random_crop(std::int64_t padding) const {
  return move(
      padding,
      [](const Tensor& x, Draws& draws, std::int64_t by, Motions* to) { return data::random_crop(x, by, draws, to); },
      [padding](std::int64_t n, std::int64_t, std::int64_t, Draws& draws) {
        return random_crop_steps(n, padding, draws);
      });
}
Pipeline Pipeline::random_crop(RandomCropOptions options) const {
  return move(options, [](const Tensor& x, Draws& draws, const auto& o, Motions* to) {
    return data::random_crop(x, o, draws, to);
  });
}
Pipeline Pipeline::pad(PadOptions options) const {
  return move(options, [](const Tensor& x, Draws&, const auto& o, Motions* to) { return data::pad(x, o, to); });
}
Pipeline Pipeline::random_rotation(float degrees, RotationOptions options) const {
  return move(options, [degrees](const Tensor& x, Draws& draws, const auto& o, Motions* to) {
    return data::random_rotation(x, degrees, draws, o, to);
  });
}
Pipeline Pipeline::random_resized_crop(std::int64_t size, ResizedCropOptions options) const {
  return move(options, [size](const Tensor& x, Draws& draws, const auto& o, Motions* to) {
    return data::random_resized_crop(x, size, draws, o, to);
  });
}
Pipeline Pipeline::resize(std::int64_t height, std::int64_t width) const {
  return move(Interpolation::bilinear, [=](const Tensor& x, Draws&, Interpolation how, Motions* to) {
    return data::resize(x, height, width, how, to);
  });
}
Pipeline Pipeline::center_crop(std::int64_t height, std::int64_t width) const {
  return move(0, [=](const Tensor& x, Draws&, int, Motions* to) { return data::center_crop(x, height, width, to); });
}
Pipeline Pipeline::random_resize(std::int64_t least, std::int64_t most) const {
  return move(Interpolation::bilinear, [=](const Tensor& x, Draws& draws, Interpolation how, Motions* to) {
    return data::random_resize(x, least, most, draws, how, to);
  });
}
Pipeline Pipeline::random_shorter_side(std::vector<std::int64_t> sizes, std::int64_t longest) const {
  return move(Interpolation::bilinear, [=](const Tensor& x, Draws& draws, Interpolation how, Motions* to) {
    return data::random_shorter_side(x, sizes, draws, longest, how, to);
  });
}
Pipeline Pipeline::scale_jitter(std::int64_t height, std::int64_t width, std::array<float, 2> scale) const {
  return move(Interpolation::bilinear, [=](const Tensor& x, Draws& draws, Interpolation how, Motions* to) {
    return data::scale_jitter(x, height, width, draws, scale, how, to);
  });
}
Pipeline Pipeline::random_affine(RandomAffineOptions options) const {
  return move(options, [](const Tensor& x, Draws& draws, const auto& o, Motions* to) {
    return data::random_affine(x, draws, o, to);
  });
}
Pipeline Pipeline::random_perspective(RandomPerspectiveOptions options) const {
  return move(options, [](const Tensor& x, Draws& draws, const auto& o, Motions* to) {
    return data::random_perspective(x, draws, o, to);
  });
}
Pipeline Pipeline::random_elastic(RandomElasticOptions options) const {
  return move(options, [](const Tensor& x, Draws& draws, const auto& o, Motions* to) {
    return data::random_elastic(x, draws, o, to);
  });
}
Pipeline Pipeline::random_zoom_out(ZoomOutOptions options) const {
  return move(options, [](const Tensor& x, Draws& draws, const auto& o, Motions* to) {
    return data::random_zoom_out(x, draws, o, to);
  });
}
Pipeline Pipeline::random_iou_crop(std::int64_t height, std::int64_t width, IouCropOptions o) const {
  check(targets_ == Targets::boxes, "random_iou_crop: the dataset's targets must be boxes (data/box_targets.h)");
  return map([=](Batch& b, Draws& draws) { data::random_iou_crop(b, height, width, draws, o); });
}
Pipeline Pipeline::color_jitter(ColorJitterOptions o) const {
  return map([o](Batch& b, Draws& draws) { color_jitter_(b.image, draws, o); });
}
Pipeline Pipeline::grayscale(std::int64_t channels) const {
  return map([channels](Batch& b, Draws&) { b.image = data::grayscale(b.image, channels); });
}
Pipeline Pipeline::random_grayscale(float p) const {
  return map([p](Batch& b, Draws& draws) { random_grayscale_(b.image, draws, p); });
}
Pipeline Pipeline::random_channel_permutation() const {
  return map([](Batch& b, Draws& draws) { random_channel_permutation_(b.image, draws); });
}
Pipeline Pipeline::random_photometric_distort(PhotometricDistortOptions o) const {
  return map([o](Batch& b, Draws& draws) { random_photometric_distort_(b.image, draws, o); });
}
Pipeline Pipeline::random_posterize(int bits, float p) const {
  return map([=](Batch& b, Draws& draws) { random_posterize_(b.image, draws, bits, p); });
}
Pipeline Pipeline::random_solarize(double threshold, float p) const {
  return map([=](Batch& b, Draws& draws) { random_solarize_(b.image, draws, threshold, p); });
}
Pipeline Pipeline::random_invert(float p) const {
  return map([p](Batch& b, Draws& draws) { random_invert_(b.image, draws, p); });
}
Pipeline Pipeline::random_autocontrast(float p) const {
  return map([p](Batch& b, Draws& draws) { random_autocontrast_(b.image, draws, p); });
}
Pipeline Pipeline::random_equalize(float p) const {
  return map([p](Batch& b, Draws& draws) { random_equalize_(b.image, draws, p); });
}
Pipeline Pipeline::random_adjust_sharpness(double factor, float p) const {
  return map([=](Batch& b, Draws& draws) { random_adjust_sharpness_(b.image, draws, factor, p); });
}
Pipeline Pipeline::rand_augment(RandAugmentOptions o) const {
  return map([o, kind = targets_](Batch& b, Draws& draws) {
    check_targets_stay(b, kind, "rand_augment");
    rand_augment_(b.image, draws, o);
  });
}
Pipeline Pipeline::trivial_augment_wide(TrivialAugmentOptions o) const {
  return map([o, kind = targets_](Batch& b, Draws& draws) {
    check_targets_stay(b, kind, "trivial_augment_wide");
    trivial_augment_wide_(b.image, draws, o);
  });
}
Pipeline Pipeline::auto_augment(AutoAugmentOptions o) const {
  return map([o, kind = targets_](Batch& b, Draws& draws) {
    check_targets_stay(b, kind, "auto_augment");
    auto_augment_(b.image, draws, o);
  });
}
Pipeline Pipeline::aug_mix(AugMixOptions o) const {
  return map([o, kind = targets_](Batch& b, Draws& draws) {
    check_targets_stay(b, kind, "aug_mix");
    aug_mix_(b.image, draws, o);
  });
}
Pipeline Pipeline::random_jpeg(std::array<int, 2> quality) const {
  return map([=](Batch& b, Draws& draws) { random_jpeg_(b.image, draws, quality); });
}
Pipeline Pipeline::linear_transformation(const Tensor& matrix, const Tensor& mean) const {
  return map([=](Batch& b, Draws&) { b.image = data::linear_transformation(b.image, matrix, mean); });
}
Pipeline Pipeline::gaussian_noise(float mean, float sigma) const {
  return map([=](Batch& b, Draws& draws) { gaussian_noise_(b.image, draws, mean, sigma); });
}
Pipeline Pipeline::gaussian_blur(int kernel_size, std::array<float, 2> sigma) const {
  return map([=](Batch& b, Draws& draws) { b.image = random_gaussian_blur(b.image, draws, kernel_size, sigma); });
}
Pipeline Pipeline::random_erasing(ErasingOptions o) const {
  return map([o](Batch& b, Draws& draws) { random_erasing_(b.image, draws, o); });
}
Pipeline Pipeline::mixup(std::int64_t classes, float alpha) const {
  return map([=](Batch& b, Draws& draws) { data::mixup(b, draws, classes, alpha); });
}
Pipeline Pipeline::cutmix(std::int64_t classes, float alpha) const {
  return map([=](Batch& b, Draws& draws) { data::cutmix(b, draws, classes, alpha); });
}
Pipeline Pipeline::cutout(std::int64_t size, float value) const {
  return map([size, value](Batch& b, Draws& draws) { cutout_(b.image, draws, size, value); },
             [size, value](std::int64_t n, std::int64_t h, std::int64_t w, Draws& draws) {
               return cutout_steps(n, h, w, draws, size, value);
             });
}
Pipeline Pipeline::random_apply(const Steps& steps, float p) const {
  return then(std::make_shared<RandomApply>(transforms_of(steps), p, targets_));
}
Pipeline Pipeline::random_choice(const std::vector<Steps>& choices, std::vector<float> weights) const {
  return then(std::make_shared<RandomChoice>(transforms_of(choices), std::move(weights), targets_));
}
Pipeline Pipeline::random_order(const std::vector<Steps>& lists) const {
  return then(std::make_shared<RandomOrder>(transforms_of(lists), targets_));
}
Pipeline Pipeline::normalize(std::vector<float> mean, std::vector<float> std) const {
  return with(&Pipeline::normalization_, std::optional(Normalize(std::move(mean), std::move(std))));
}
Pipeline Pipeline::raw() const { return with(&Pipeline::normalization_, std::optional<Normalize>()); }

}  // namespace mantissa::data
