// From a dataset to the `for` loop of a training program, step by step:
//
//   for (auto [image, label] : data::mnist().shuffle().random_flip().batch(128).epochs(5)) ...
//
// Every step takes the pipeline and returns it by value, so a chain never leaves a dangling temporary
// behind (C++20's range-for keeps only the last one alive). Next: data/loader.h does the work.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "data/auto_augment.h"
#include "data/blur.h"
#include "data/color.h"
#include "data/containers.h"
#include "data/crops.h"
#include "data/geometry.h"
#include "data/jpeg.h"
#include "data/levels.h"
#include "data/loader.h"
#include "data/mix.h"
#include "data/warp.h"

namespace mantissa::data {

class Pipeline {
 public:
  // Images come out as f32, normalised with the dataset's mean and std, unless a step changes that.
  explicit Pipeline(Dataset dataset) : Pipeline(as_source(std::move(dataset))) {}
  // A Source of your own: the same if it provides mean and std; otherwise images come out unchanged.
  template <std::derived_from<Source> S>
  explicit Pipeline(S source) : Pipeline(std::make_shared<S>(std::move(source))) {}
  explicit Pipeline(SourcePtr source) : source_(std::move(source)) {
    if (!source_) return;
    if (Info info = source_->info(); !info.mean.empty())
      normalization_ = Normalize(std::move(info.mean), std::move(info.std));
  }

  // A new random order in each epoch, determined by `seed`; default: the default generator's seed (manual_seed).
  Pipeline shuffle() && { return std::move(*this).shuffle(rng_state().seed); }
  Pipeline shuffle(std::uint64_t seed) && {
    options_.shuffle = true;
    options_.seed = seed;
    return std::move(*this);
  }
  // Selects the samples and their order, instead of shuffle(): data/sampler.h.
  template <class S> Pipeline sampler(S sampler) && {
    if constexpr (std::is_base_of_v<BatchSampler, S>) sampling_ = {{}, std::make_shared<S>(std::move(sampler))};
    else sampling_ = {std::make_shared<S>(std::move(sampler)), {}};
    return std::move(*this);
  }
  // This rank's part of the data, if several processes train together (nn/data_parallel.h): a part of the order of
  // shuffle() or a sampler, which is the same on all ranks. batch() then counts this rank's samples.
  Pipeline shard(int rank, int ranks, Uneven uneven = Uneven::repeat) && {
    check(ranks >= 1 && rank >= 0 && rank < ranks, "shard: rank ", rank, " is not one of ", ranks);
    options_.rank = rank;
    options_.ranks = ranks;
    options_.uneven = uneven;
    return std::move(*this);
  }
  // The seed of the random transforms, for pipelines that do not shuffle.
  Pipeline seed(std::uint64_t seed) && { options_.seed = seed; return std::move(*this); }
  Pipeline batch(std::int64_t size) && { options_.batch = size; return std::move(*this); }
  Pipeline drop_last(bool on = true) && { options_.drop_last = on; return std::move(*this); }
  Pipeline threads(int n) && { options_.threads = n; return std::move(*this); }
  Pipeline prefetch(int n) && { options_.prefetch = n; return std::move(*this); }
  Pipeline epochs(std::int64_t n) && { epochs_ = n; return std::move(*this); }  // for the range-for loop; default 1
  // Batches are delivered on `device`. An in-memory dataset is copied there once, if possible (data/resident.h).
  Pipeline to(Device device) && { options_.device = device; return std::move(*this); }
  // The dtype of the normalised images; f32 by default.
  Pipeline dtype(Dtype t) && { dtype_ = t; return std::move(*this); }

  // Transforms run in the order written, on u8 images; normalisation comes last.
  Pipeline random_flip(float p = 0.5f) && {
    return std::move(*this).map([p](Batch& b, Draws& draws) { random_flip_(b.image, draws, p); },
                                [p](std::int64_t n, std::int64_t, std::int64_t, Draws& draws) {
                                  return random_flip_steps(n, draws, p);
                                });
  }
  Pipeline random_crop(std::int64_t padding) && {
    return std::move(*this).map(
        [padding](Batch& b, Draws& draws) { b.image = data::random_crop(b.image, padding, draws); },
        [padding](std::int64_t n, std::int64_t, std::int64_t, Draws& draws) {
          return random_crop_steps(n, padding, draws);
        });
  }
  Pipeline random_crop(RandomCropOptions o) && {
    return std::move(*this).map([o](Batch& b, Draws& draws) { b.image = data::random_crop(b.image, o, draws); });
  }
  Pipeline pad(PadOptions o) && {
    return std::move(*this).map([o](Batch& b, Draws&) { b.image = data::pad(b.image, o); });
  }
  Pipeline random_vertical_flip(float p = 0.5f) && {
    return std::move(*this).map([p](Batch& b, Draws& draws) { random_vertical_flip_(b.image, draws, p); },
                                [p](std::int64_t n, std::int64_t, std::int64_t, Draws& draws) {
                                  return random_vertical_flip_steps(n, draws, p);
                                });
  }
  Pipeline random_rotation(float degrees, RotationOptions o = {}) && {
    return std::move(*this).map(
        [=](Batch& b, Draws& draws) { b.image = data::random_rotation(b.image, degrees, draws, o); });
  }
  Pipeline random_resized_crop(std::int64_t size, ResizedCropOptions o = {}) && {
    return std::move(*this).map(
        [=](Batch& b, Draws& draws) { b.image = data::random_resized_crop(b.image, size, draws, o); });
  }
  Pipeline resize(std::int64_t height, std::int64_t width) && {
    return std::move(*this).map([=](Batch& b, Draws&) { b.image = data::resize(b.image, height, width); });
  }
  Pipeline center_crop(std::int64_t height, std::int64_t width) && {
    return std::move(*this).map([=](Batch& b, Draws&) { b.image = data::center_crop(b.image, height, width); });
  }
  Pipeline random_resize(std::int64_t least, std::int64_t most) && {
    return std::move(*this).map(
        [=](Batch& b, Draws& draws) { b.image = data::random_resize(b.image, least, most, draws); });
  }
  Pipeline random_shorter_side(std::vector<std::int64_t> sizes, std::int64_t longest = INT64_MAX) && {
    return std::move(*this).map(
        [=](Batch& b, Draws& draws) { b.image = data::random_shorter_side(b.image, sizes, draws, longest); });
  }
  Pipeline scale_jitter(std::int64_t height, std::int64_t width, std::array<float, 2> scale = {0.1f, 2.0f}) && {
    return std::move(*this).map(
        [=](Batch& b, Draws& draws) { b.image = data::scale_jitter(b.image, height, width, draws, scale); });
  }
  Pipeline color_jitter(ColorJitterOptions o) && {
    return std::move(*this).map([o](Batch& b, Draws& draws) { color_jitter_(b.image, draws, o); });
  }
  Pipeline grayscale(std::int64_t channels = 1) && {
    return std::move(*this).map([channels](Batch& b, Draws&) { b.image = data::grayscale(b.image, channels); });
  }
  Pipeline random_grayscale(float p = 0.1f) && {
    return std::move(*this).map([p](Batch& b, Draws& draws) { random_grayscale_(b.image, draws, p); });
  }
  Pipeline random_affine(RandomAffineOptions o) && {
    return std::move(*this).map([o](Batch& b, Draws& draws) { b.image = data::random_affine(b.image, draws, o); });
  }
  Pipeline random_perspective(RandomPerspectiveOptions o = {}) && {
    return std::move(*this).map([o](Batch& b, Draws& draws) { b.image = data::random_perspective(b.image, draws, o); });
  }
  Pipeline random_elastic(RandomElasticOptions o = {}) && {
    return std::move(*this).map([o](Batch& b, Draws& draws) { b.image = data::random_elastic(b.image, draws, o); });
  }
  Pipeline random_channel_permutation() && {
    return std::move(*this).map([](Batch& b, Draws& draws) { random_channel_permutation_(b.image, draws); });
  }
  Pipeline random_photometric_distort(PhotometricDistortOptions o = {}) && {
    return std::move(*this).map([o](Batch& b, Draws& draws) { random_photometric_distort_(b.image, draws, o); });
  }
  // For u8 images.
  Pipeline random_posterize(int bits, float p = 0.5f) && {
    return std::move(*this).map([=](Batch& b, Draws& draws) { random_posterize_(b.image, draws, bits, p); });
  }
  Pipeline random_solarize(double threshold, float p = 0.5f) && {
    return std::move(*this).map([=](Batch& b, Draws& draws) { random_solarize_(b.image, draws, threshold, p); });
  }
  Pipeline random_invert(float p = 0.5f) && {
    return std::move(*this).map([p](Batch& b, Draws& draws) { random_invert_(b.image, draws, p); });
  }
  Pipeline random_autocontrast(float p = 0.5f) && {
    return std::move(*this).map([p](Batch& b, Draws& draws) { random_autocontrast_(b.image, draws, p); });
  }
  Pipeline random_equalize(float p = 0.5f) && {
    return std::move(*this).map([p](Batch& b, Draws& draws) { random_equalize_(b.image, draws, p); });
  }
  Pipeline random_adjust_sharpness(double factor, float p = 0.5f) && {
    return std::move(*this).map([=](Batch& b, Draws& draws) { random_adjust_sharpness_(b.image, draws, factor, p); });
  }
  Pipeline rand_augment(RandAugmentOptions o = {}) && {
    return std::move(*this).map([o](Batch& b, Draws& draws) { rand_augment_(b.image, draws, o); });
  }
  Pipeline trivial_augment_wide(TrivialAugmentOptions o = {}) && {
    return std::move(*this).map([o](Batch& b, Draws& draws) { trivial_augment_wide_(b.image, draws, o); });
  }
  Pipeline auto_augment(AutoAugmentOptions o = {}) && {
    return std::move(*this).map([o](Batch& b, Draws& draws) { auto_augment_(b.image, draws, o); });
  }
  Pipeline aug_mix(AugMixOptions o = {}) && {
    return std::move(*this).map([o](Batch& b, Draws& draws) { aug_mix_(b.image, draws, o); });
  }
  Pipeline random_jpeg(std::array<int, 2> quality) && {  // for u8 images
    return std::move(*this).map([=](Batch& b, Draws& draws) { random_jpeg_(b.image, draws, quality); });
  }
  Pipeline linear_transformation(const Tensor& matrix, const Tensor& mean) && {
    return std::move(*this).map(
        [=](Batch& b, Draws&) { b.image = data::linear_transformation(b.image, matrix, mean); });
  }
  Pipeline gaussian_noise(float mean = 0, float sigma = 0.1f) && {
    return std::move(*this).map([=](Batch& b, Draws& draws) { gaussian_noise_(b.image, draws, mean, sigma); });
  }
  Pipeline gaussian_blur(int kernel_size, std::array<float, 2> sigma = {0.1f, 2.0f}) && {
    return std::move(*this).map(
        [=](Batch& b, Draws& draws) { b.image = random_gaussian_blur(b.image, draws, kernel_size, sigma); });
  }
  Pipeline random_erasing(ErasingOptions o = {}) && {
    return std::move(*this).map([o](Batch& b, Draws& draws) { random_erasing_(b.image, draws, o); });
  }
  // These two make the targets f32 [B, classes].
  Pipeline mixup(std::int64_t classes, float alpha = 1) && {
    return std::move(*this).map([=](Batch& b, Draws& draws) { data::mixup(b, draws, classes, alpha); });
  }
  Pipeline cutmix(std::int64_t classes, float alpha = 1) && {
    return std::move(*this).map([=](Batch& b, Draws& draws) { data::cutmix(b, draws, classes, alpha); });
  }
  Pipeline cutout(std::int64_t size, float value = 127) && {
    return std::move(*this).map([size, value](Batch& b, Draws& draws) { cutout_(b.image, draws, size, value); },
                                [size, value](std::int64_t n, std::int64_t h, std::int64_t w, Draws& draws) {
                                  return cutout_steps(n, h, w, draws, size, value);
                                });
  }
  // Random transforms per image (data/containers.h). Steps are written like a pipeline's; only their transforms are
  // used: [](Pipeline p) { return std::move(p).random_flip().gaussian_blur(3); }
  using Steps = std::function<Pipeline(Pipeline)>;
  Pipeline random_apply(const Steps& steps, float p = 0.5f) && {
    transforms_.push_back(std::make_shared<RandomApply>(transforms_of(steps), p));
    return std::move(*this);
  }
  Pipeline random_choice(const std::vector<Steps>& choices, std::vector<float> weights = {}) && {
    transforms_.push_back(std::make_shared<RandomChoice>(transforms_of(choices), std::move(weights)));
    return std::move(*this);
  }
  Pipeline random_order(const std::vector<Steps>& lists) && {
    transforms_.push_back(std::make_shared<RandomOrder>(transforms_of(lists)));
    return std::move(*this);
  }
  Pipeline normalize(std::vector<float> mean, std::vector<float> std) && {
    normalization_ = Normalize(std::move(mean), std::move(std));
    return std::move(*this);
  }
  Pipeline raw() && { normalization_.reset(); return std::move(*this); }  // no normalisation: keep the pixels unchanged
  // f(Batch&, Draws&), called in the loader's threads.
  template <class F> Pipeline map(F f) && {
    transforms_.push_back(std::make_shared<Mapped<F>>(std::move(f)));
    return std::move(*this);
  }
  // steps(images, height, width, Draws&): the effect of f on each image, with the same draws, as a PixelStep.
  template <class F, class S> Pipeline map(F f, S steps) && {
    transforms_.push_back(std::make_shared<Stepwise<F, S>>(std::move(f), std::move(steps)));
    return std::move(*this);
  }

  Loader loader() const {
    Transforms transforms = transforms_;
    if (normalization_) {
      transforms.push_back(std::make_shared<Normalize>(normalization_->mean, normalization_->std, dtype_));
    }
    return Loader(source_, options_, std::move(transforms), sampling_);
  }

  class Iterator {
   public:
    Iterator(Loader loader, std::int64_t epochs) : loader_(std::move(loader)), epochs_(epochs) {
      if (epochs_ > 0) ++*this;
    }
    Batch& operator*() { return batch_; }
    Iterator& operator++() {
      while (epochs_ > 0 && !loader_.next(batch_)) --epochs_;
      return *this;
    }
    bool operator!=(std::nullptr_t) const { return epochs_ > 0; }

   private:
    Loader loader_;
    std::int64_t epochs_;
    Batch batch_;
  };
  Iterator begin() const { return Iterator(loader(), epochs_); }
  std::nullptr_t end() const { return nullptr; }

 private:
  template <class F> struct Mapped final : Transform {
    explicit Mapped(F fn) : f(std::move(fn)) {}
    void apply(Batch& batch, Draws& draws) const override { f(batch, draws); }
    F f;
  };
  template <class F, class S> struct Stepwise final : Transform {
    Stepwise(F fn, S sn) : f(std::move(fn)), s(std::move(sn)) {}
    void apply(Batch& batch, Draws& draws) const override { f(batch, draws); }
    bool has_steps() const override { return true; }
    PixelSteps steps(std::int64_t images, std::int64_t height, std::int64_t width, Draws& draws) const override {
      return s(images, height, width, draws);
    }
    F f;
    S s;
  };

  static Transforms transforms_of(const Steps& steps) { return steps(Pipeline(SourcePtr())).transforms_; }
  static std::vector<Transforms> transforms_of(const std::vector<Steps>& lists) {
    std::vector<Transforms> all;
    for (const Steps& steps : lists) all.push_back(transforms_of(steps));
    return all;
  }

  SourcePtr source_;
  LoaderOptions options_;
  Sampling sampling_;
  Transforms transforms_;
  std::optional<Normalize> normalization_;
  Dtype dtype_ = f32;
  std::int64_t epochs_ = 1;
};

}  // namespace mantissa::data
