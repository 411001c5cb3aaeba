// From a dataset to the `for` loop of a training program, step by step:
//
//   for (auto [image, label] : data::mnist().shuffle().random_flip().batch(128).epochs(5)) ...
//
// Every step leaves the pipeline as it is and returns a changed copy (images are shared), so a chain never leaves a
// dangling temporary behind (C++20's range-for keeps only the last one alive). Next: data/loader.h does the work.
//
// Each loop over a pipeline is a new epoch, with an order and random transforms of its own:
//
//   const auto train = data::mnist().shuffle().batch(128);
//   for (int epoch = 0; epoch < 5; ++epoch)
//     for (auto [image, label] : train) ...
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "data/auto_augment.h"
#include "data/blur.h"
#include "data/box_crops.h"
#include "data/color.h"
#include "data/containers.h"
#include "data/crops.h"
#include "data/geometry.h"
#include "data/jpeg.h"
#include "data/levels.h"
#include "data/loader.h"
#include "data/mix.h"
#include "data/pixel_targets.h"
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
    Info info = source_->info();
    targets_ = info.targets;
    if (!info.mean.empty()) normalization_ = Normalize(std::move(info.mean), std::move(info.std));
  }

  // The samples at `indices`, in that order; the first ones; and disjoint random parts of all samples, as
  // data/subset.h. Before sampler():
  //   auto [train, validation] = data::mnist().random_split({0.9, 0.1});
  Pipeline subset(std::vector<std::int64_t> indices) const;
  Pipeline take(std::int64_t samples) const;  // the first ones, at most all
  template <std::size_t N>
  std::array<Pipeline, N> random_split(const double (&parts)[N], std::optional<std::uint64_t> seed = {}) const {
    const auto sources = random_parts(std::vector<double>(parts, parts + N), seed);
    return [&]<std::size_t... i>(std::index_sequence<i...>) {
      return std::array<Pipeline, N>{with_source(sources[i])...};
    }(std::make_index_sequence<N>());
  }
  // A new random order in each epoch, determined by `seed`; by default drawn from the default generator, so that
  // manual_seed makes a program repeat.
  Pipeline shuffle() const { return with_default_seed().with(&LoaderOptions::shuffle, true); }
  Pipeline shuffle(std::uint64_t seed) const { return this->seed(seed).shuffle(); }
  // Selects the samples and their order, instead of shuffle(): data/sampler.h. Its seed is drawn like shuffle()'s.
  template <class S> Pipeline sampler(S sampler) const {
    Pipeline p = with_default_seed();
    if constexpr (std::is_base_of_v<BatchSampler, S>) p.sampling_ = {{}, std::make_shared<S>(std::move(sampler))};
    else p.sampling_ = {std::make_shared<S>(std::move(sampler)), {}};
    return p;
  }
  // This rank's part of the data, if several processes train together (nn/data_parallel.h): a part of the order of
  // shuffle() or a sampler, whose seed must be the same on all ranks. None is drawn, since ranks may have drawn other
  // numbers before: the default is the number given to manual_seed. batch() then counts this rank's samples.
  Pipeline shard(int rank, int ranks, Uneven uneven = Uneven::repeat) const;
  // The seed of the order and of random transforms: 0 without shuffle, sampler and this.
  Pipeline seed(std::uint64_t seed) const { return with(&LoaderOptions::seed, seed).with(&Pipeline::seeded_, true); }
  Pipeline batch(std::int64_t size) const { return with(&LoaderOptions::batch, size); }
  Pipeline drop_last(bool on = true) const { return with(&LoaderOptions::drop_last, on); }
  Pipeline threads(int n) const { return with(&LoaderOptions::threads, n); }
  Pipeline prefetch(int n) const { return with(&LoaderOptions::prefetch, n); }
  // How many epochs a range-for loop runs through; default 1.
  Pipeline epochs(std::int64_t n) const { return with(&Pipeline::epochs_, std::max<std::int64_t>(n, 0)); }
  // Batches are delivered on `device`. An in-memory dataset is copied there once, if possible (data/resident.h), by the
  // first loop or loader(), and stays there as long as the pipeline or a loader.
  Pipeline to(Device device) const { return with(&LoaderOptions::device, device); }
  // The dtype of the normalised images; f32 by default.
  Pipeline dtype(Dtype t) const { return with(&Pipeline::dtype_, t); }

  // Transforms run in the order written, on u8 images; normalisation comes last. Those that move pixels have masks,
  // boxes and points move along: data/pixel_targets.h, data/box_targets.h.
  Pipeline random_flip(float p = 0.5f) const;
  Pipeline random_vertical_flip(float p = 0.5f) const;
  Pipeline random_crop(std::int64_t padding) const;
  Pipeline random_crop(RandomCropOptions options) const;
  Pipeline pad(PadOptions options) const;
  Pipeline random_rotation(float degrees, RotationOptions options = {}) const;
  Pipeline random_resized_crop(std::int64_t size, ResizedCropOptions options = {}) const;
  Pipeline resize(std::int64_t height, std::int64_t width) const;
  Pipeline center_crop(std::int64_t height, std::int64_t width) const;
  Pipeline random_resize(std::int64_t least, std::int64_t most) const;
  Pipeline random_shorter_side(std::vector<std::int64_t> sizes, std::int64_t longest = INT64_MAX) const;
  Pipeline scale_jitter(std::int64_t height, std::int64_t width, std::array<float, 2> scale = {0.1f, 2.0f}) const;
  Pipeline random_affine(RandomAffineOptions options) const;
  Pipeline random_perspective(RandomPerspectiveOptions options = {}) const;
  Pipeline random_elastic(RandomElasticOptions options = {}) const;
  Pipeline random_zoom_out(ZoomOutOptions options = {}) const;
  // For a dataset whose targets are boxes; the windows become images of height x width.
  Pipeline random_iou_crop(std::int64_t height, std::int64_t width, IouCropOptions o = {}) const;
  Pipeline color_jitter(ColorJitterOptions o) const;
  Pipeline grayscale(std::int64_t channels = 1) const;
  Pipeline random_grayscale(float p = 0.1f) const;
  Pipeline random_channel_permutation() const;
  Pipeline random_photometric_distort(PhotometricDistortOptions o = {}) const;
  // For u8 images.
  Pipeline random_posterize(int bits, float p = 0.5f) const;
  Pipeline random_solarize(double threshold, float p = 0.5f) const;
  Pipeline random_invert(float p = 0.5f) const;
  Pipeline random_autocontrast(float p = 0.5f) const;
  Pipeline random_equalize(float p = 0.5f) const;
  Pipeline random_adjust_sharpness(double factor, float p = 0.5f) const;
  Pipeline rand_augment(RandAugmentOptions o = {}) const;
  Pipeline trivial_augment_wide(TrivialAugmentOptions o = {}) const;
  Pipeline auto_augment(AutoAugmentOptions o = {}) const;
  Pipeline aug_mix(AugMixOptions o = {}) const;
  Pipeline random_jpeg(std::array<int, 2> quality) const;  // for u8 images
  Pipeline linear_transformation(const Tensor& matrix, const Tensor& mean) const;
  Pipeline gaussian_noise(float mean = 0, float sigma = 0.1f) const;
  Pipeline gaussian_blur(int kernel_size, std::array<float, 2> sigma = {0.1f, 2.0f}) const;
  Pipeline random_erasing(ErasingOptions o = {}) const;
  // These two make the targets f32 [B, classes].
  Pipeline mixup(std::int64_t classes, float alpha = 1) const;
  Pipeline cutmix(std::int64_t classes, float alpha = 1) const;
  Pipeline cutout(std::int64_t size, float value = 127) const;
  // Random transforms per image (data/containers.h). Steps are written like a pipeline's; only their transforms are
  // used: [](Pipeline p) { return p.random_flip().gaussian_blur(3); }
  using Steps = std::function<Pipeline(Pipeline)>;
  Pipeline random_apply(const Steps& steps, float p = 0.5f) const;
  Pipeline random_choice(const std::vector<Steps>& choices, std::vector<float> weights = {}) const;
  Pipeline random_order(const std::vector<Steps>& lists) const;
  Pipeline normalize(std::vector<float> mean, std::vector<float> std) const;
  // The same for every channel; floats in [0, 1]: normalize(0, 1). A template, so that {0.5f} is still a vector.
  template <class M, class S> requires (std::is_arithmetic_v<M> && std::is_arithmetic_v<S>)
  Pipeline normalize(M mean, S std) const {
    return normalize(std::vector{static_cast<float>(mean)}, std::vector{static_cast<float>(std)});
  }
  // No normalisation: the pixels as they are, u8 for images.
  Pipeline raw() const;
  // f(images, Draws&, options, Motions*) -> images, for the images and for targets that move with them. Without targets
  // that are boxes or points, the pointer is null, and f need not take it.
  template <class Options, class F, class... Steps> Pipeline move(Options options, F f, Steps... steps) const {
    const auto moved = [options, f, kind = targets_](Batch& b, Draws& draws) {
      move_pixels(b, draws, kind, options, f);
    };
    return targets_ == Targets::values ? map(moved, steps...) : map(moved);
  }
  // f(Batch&, Draws&), called in the loader's threads.
  template <class F> Pipeline map(F f) const { return then(std::make_shared<Mapped<F>>(std::move(f))); }
  // steps(images, height, width, Draws&): the effect of f on each image, with the same draws, as a PixelStep. Targets
  // of pixels are moved, but not filled.
  template <class F, class S> Pipeline map(F f, S steps) const {
    return then(std::make_shared<Stepwise<F, S>>(std::move(f), std::move(steps)));
  }

  Info info() const { return source_->info(); }
  // In an epoch, of this rank: what Python calls len(dataset) and len(loader). Errors: as Loader's.
  std::int64_t samples() const { return loader_without_threads().samples(); }
  std::int64_t batches() const { return loader_without_threads().batches(); }

  // A loader for a program that saves its position in the data. It begins with epoch 0.
  Loader loader() const { return loader(options_); }

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
  Iterator begin() const {
    LoaderOptions options = options_;
    options.first_epoch = loops_.epochs.fetch_add(epochs_);
    return Iterator(loader(options), epochs_);
  }
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

  // What the loops over this pipeline share; a copy begins anew.
  struct Loops {
    Loops() = default;
    Loops(const Loops&) {}
    Loops& operator=(const Loops&) {
      epochs = 0;
      resident = nullptr;
      return *this;
    }
    std::atomic<std::int64_t> epochs = 0;  // begun so far
    std::mutex mutex;
    std::shared_ptr<const Resident> resident;
  };

  template <class T> Pipeline with(T LoaderOptions::*option, T value) const {
    Pipeline p = *this;
    p.options_.*option = value;
    return p;
  }
  template <class T> Pipeline with(T Pipeline::*member, T value) const {
    Pipeline p = *this;
    p.*member = std::move(value);
    return p;
  }
  Pipeline then(std::shared_ptr<const Transform> transform) const {
    Pipeline p = *this;
    p.transforms_.push_back(std::move(transform));
    return p;
  }
  Pipeline with_source(SourcePtr source) const;
  std::vector<SourcePtr> random_parts(const std::vector<double>& parts, std::optional<std::uint64_t> seed) const;
  Pipeline with_default_seed() const;  // unless seed() gave it one
  Loader loader_without_threads() const;
  Loader loader(const LoaderOptions& options) const;
  Transforms transforms_of(const Steps& steps) const {
    return steps(Pipeline(SourcePtr()).with(&Pipeline::targets_, targets_)).transforms_;
  }
  std::vector<Transforms> transforms_of(const std::vector<Steps>& lists) const {
    std::vector<Transforms> all;
    for (const Steps& steps : lists) all.push_back(transforms_of(steps));
    return all;
  }

  SourcePtr source_;
  LoaderOptions options_;
  Targets targets_ = Targets::values;  // the source's
  bool seeded_ = false;
  Sampling sampling_;
  Transforms transforms_;
  std::optional<Normalize> normalization_;
  Dtype dtype_ = f32;
  std::int64_t epochs_ = 1;
  mutable Loops loops_;
};

}  // namespace mantissa::data
