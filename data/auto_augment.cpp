#include "data/auto_augment.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/blur.h"
#include "data/color.h"
#include "data/levels.h"
#include "data/pixels.h"

namespace mantissa::data {
namespace {

using enum AugmentOp;
using Pair = std::array<PolicyStep, 2>;

const std::vector<Pair> imagenet_policy{
    {{{posterize, 0.4f, 8}, {rotate, 0.6f, 9}}}, {{{solarize, 0.6f, 5}, {auto_contrast, 0.6f, -1}}},
    {{{equalize, 0.8f, -1}, {equalize, 0.6f, -1}}}, {{{posterize, 0.6f, 7}, {posterize, 0.6f, 6}}},
    {{{equalize, 0.4f, -1}, {solarize, 0.2f, 4}}}, {{{equalize, 0.4f, -1}, {rotate, 0.8f, 8}}},
    {{{solarize, 0.6f, 3}, {equalize, 0.6f, -1}}}, {{{posterize, 0.8f, 5}, {equalize, 1, -1}}},
    {{{rotate, 0.2f, 3}, {solarize, 0.6f, 8}}}, {{{equalize, 0.6f, -1}, {posterize, 0.4f, 6}}},
    {{{rotate, 0.8f, 8}, {color, 0.4f, 0}}}, {{{rotate, 0.4f, 9}, {equalize, 0.6f, -1}}},
    {{{equalize, 0, -1}, {equalize, 0.8f, -1}}}, {{{invert, 0.6f, -1}, {equalize, 1, -1}}},
    {{{color, 0.6f, 4}, {contrast, 1, 8}}}, {{{rotate, 0.8f, 8}, {color, 1, 2}}},
    {{{color, 0.8f, 8}, {solarize, 0.8f, 7}}}, {{{sharpness, 0.4f, 7}, {invert, 0.6f, -1}}},
    {{{shear_x, 0.6f, 5}, {equalize, 1, -1}}}, {{{color, 0.4f, 0}, {equalize, 0.6f, -1}}},
    {{{equalize, 0.4f, -1}, {solarize, 0.2f, 4}}}, {{{solarize, 0.6f, 5}, {auto_contrast, 0.6f, -1}}},
    {{{invert, 0.6f, -1}, {equalize, 1, -1}}}, {{{color, 0.6f, 4}, {contrast, 1, 8}}},
    {{{equalize, 0.8f, -1}, {equalize, 0.6f, -1}}}};

const std::vector<Pair> cifar10_policy{
    {{{invert, 0.1f, -1}, {contrast, 0.2f, 6}}}, {{{rotate, 0.7f, 2}, {translate_x, 0.3f, 9}}},
    {{{sharpness, 0.8f, 1}, {sharpness, 0.9f, 3}}}, {{{shear_y, 0.5f, 8}, {translate_y, 0.7f, 9}}},
    {{{auto_contrast, 0.5f, -1}, {equalize, 0.9f, -1}}}, {{{shear_y, 0.2f, 7}, {posterize, 0.3f, 7}}},
    {{{color, 0.4f, 3}, {brightness, 0.6f, 7}}}, {{{sharpness, 0.3f, 9}, {brightness, 0.7f, 9}}},
    {{{equalize, 0.6f, -1}, {equalize, 0.5f, -1}}}, {{{contrast, 0.6f, 7}, {sharpness, 0.6f, 5}}},
    {{{color, 0.7f, 7}, {translate_x, 0.5f, 8}}}, {{{equalize, 0.3f, -1}, {auto_contrast, 0.4f, -1}}},
    {{{translate_y, 0.4f, 3}, {sharpness, 0.2f, 6}}}, {{{brightness, 0.9f, 6}, {color, 0.2f, 8}}},
    {{{solarize, 0.5f, 2}, {invert, 0, -1}}}, {{{equalize, 0.2f, -1}, {auto_contrast, 0.6f, -1}}},
    {{{equalize, 0.2f, -1}, {equalize, 0.6f, -1}}}, {{{color, 0.9f, 9}, {equalize, 0.6f, -1}}},
    {{{auto_contrast, 0.8f, -1}, {solarize, 0.2f, 8}}}, {{{brightness, 0.1f, 3}, {color, 0.7f, 0}}},
    {{{solarize, 0.4f, 5}, {auto_contrast, 0.9f, -1}}}, {{{translate_y, 0.9f, 9}, {translate_y, 0.7f, 9}}},
    {{{auto_contrast, 0.9f, -1}, {solarize, 0.8f, 3}}}, {{{equalize, 0.8f, -1}, {invert, 0.1f, -1}}},
    {{{translate_y, 0.7f, 9}, {auto_contrast, 0.9f, -1}}}};

const std::vector<Pair> svhn_policy{
    {{{shear_x, 0.9f, 4}, {invert, 0.2f, -1}}}, {{{shear_y, 0.9f, 8}, {invert, 0.7f, -1}}},
    {{{equalize, 0.6f, -1}, {solarize, 0.6f, 6}}}, {{{invert, 0.9f, -1}, {equalize, 0.6f, -1}}},
    {{{equalize, 0.6f, -1}, {rotate, 0.9f, 3}}}, {{{shear_x, 0.9f, 4}, {auto_contrast, 0.8f, -1}}},
    {{{shear_y, 0.9f, 8}, {invert, 0.4f, -1}}}, {{{shear_y, 0.9f, 5}, {solarize, 0.2f, 6}}},
    {{{invert, 0.9f, -1}, {auto_contrast, 0.8f, -1}}}, {{{equalize, 0.6f, -1}, {rotate, 0.9f, 3}}},
    {{{shear_x, 0.9f, 4}, {solarize, 0.3f, 3}}}, {{{shear_y, 0.8f, 8}, {invert, 0.7f, -1}}},
    {{{equalize, 0.9f, -1}, {translate_y, 0.6f, 6}}}, {{{invert, 0.9f, -1}, {equalize, 0.6f, -1}}},
    {{{contrast, 0.3f, 3}, {rotate, 0.8f, 4}}}, {{{invert, 0.8f, -1}, {translate_y, 0, 2}}},
    {{{shear_y, 0.7f, 6}, {solarize, 0.4f, 8}}}, {{{invert, 0.6f, -1}, {rotate, 0.8f, 4}}},
    {{{shear_y, 0.3f, 7}, {translate_x, 0.9f, 3}}}, {{{shear_x, 0.1f, 6}, {invert, 0.6f, -1}}},
    {{{solarize, 0.7f, 2}, {translate_y, 0.6f, 7}}}, {{{shear_y, 0.8f, 4}, {invert, 0.8f, -1}}},
    {{{shear_x, 0.7f, 9}, {translate_y, 0.8f, 3}}}, {{{shear_y, 0.8f, 5}, {auto_contrast, 0.7f, -1}}},
    {{{shear_x, 0.7f, 2}, {invert, 0.1f, -1}}}};

// `bins` evenly spaced numbers, computed from both ends to the middle in f32, as torch.linspace does.
std::vector<float> from_to(double first, double last, std::int64_t bins) {
  check(bins >= 2, "a policy needs at least 2 levels of magnitude, got ", bins);
  const auto begin = static_cast<float>(first), end = static_cast<float>(last);
  const float step = (end - begin) / static_cast<float>(bins - 1);
  std::vector<float> v;
  for (std::int64_t i = 0; i < bins; ++i)
    v.push_back(i < bins / 2 ? begin + step * static_cast<float>(i) : end - step * static_cast<float>(bins - 1 - i));
  return v;
}
// Bits kept by posterize: from `most` down by `range`.
std::vector<float> bits(float most, double range, std::int64_t bins) {
  const std::int64_t last = bins - 1;
  std::vector<float> v;
  for (std::int64_t i = 0; i < bins; ++i)
    v.push_back(std::nearbyint(most - static_cast<float>(i) / static_cast<float>(static_cast<double>(last) / range)));
  return v;
}

// Maximum magnitudes of a policy's operations.
struct Reach { double shear, right, down, degrees, color, bits, most_bits; };

AugmentSpace moves(const Reach& r, std::int64_t bins) {
  return {{shear_x, from_to(0, r.shear, bins), true},
          {shear_y, from_to(0, r.shear, bins), true},
          {translate_x, from_to(0, r.right, bins), true},
          {translate_y, from_to(0, r.down, bins), true},
          {rotate, from_to(0, r.degrees, bins), true}};
}
AugmentSpace colors(const Reach& r, std::int64_t bins) {
  AugmentSpace space;
  for (const AugmentOp op : {brightness, color, contrast, sharpness})
    space.push_back({op, from_to(0, r.color, bins), true});
  return space;
}
AugmentSpace levels(const Reach& r, std::int64_t bins) {
  return {{posterize, bits(static_cast<float>(r.most_bits), r.bits, bins), false},
          {solarize, from_to(1, 0, bins), false},
          {auto_contrast, {}, false},
          {equalize, {}, false}};
}
AugmentSpace joined(std::initializer_list<AugmentSpace> parts) {
  AugmentSpace all;
  for (const AugmentSpace& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

AugmentStep drawn(const AugmentLevels& from, std::int64_t level, Draws& draws) {
  if (from.magnitudes.empty()) return {from.op, 0};
  const double magnitude = static_cast<double>(from.magnitudes[static_cast<std::size_t>(level)]);
  return {from.op, from.mirrored && draws.uniform() < 0.5f ? -magnitude : magnitude};
}
const AugmentLevels& any_of(const AugmentSpace& space, Draws& draws) {
  return space[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(space.size())))];
}

AugmentSteps draw_rand(const AugmentSpace& space, int num_ops, std::int64_t level, Draws& draws) {
  AugmentSteps steps;
  for (int i = 0; i < num_ops; ++i) steps.push_back(drawn(any_of(space, draws), level, draws));
  return steps;
}
AugmentSteps draw_trivial(const AugmentSpace& space, int bins, Draws& draws) {
  const AugmentLevels& op = any_of(space, draws);
  return {drawn(op, op.magnitudes.empty() ? 0 : draws.below(bins), draws)};
}
AugmentSteps draw_auto(const std::vector<Pair>& policy, const AugmentSpace& space, Draws& draws) {
  AugmentSteps steps;
  for (const PolicyStep& s : policy[static_cast<std::size_t>(draws.below(static_cast<std::int64_t>(policy.size())))]) {
    if (draws.uniform() >= s.probability) continue;
    const auto known = std::find_if(space.begin(), space.end(), [&](const AugmentLevels& l) { return l.op == s.op; });
    steps.push_back(known == space.end() ? AugmentStep{s.op, 0} : drawn(*known, s.level, draws));
  }
  return steps;
}

void check_bytes(const Tensor& images, const char* who) {
  check(images.defined() && images.dim() == 4 && images.dtype() == u8 && is_plain(images, who) &&
            (images.size(1) == 1 || images.size(1) == 3) && images.numel() > 0,
        who, ": expected contiguous u8 images [B, C, H, W] with 1 or 3 channels, got ", images);
}
void check_level(int magnitude, int bins, const char* who) {
  check(bins >= 2 && magnitude >= 0 && magnitude < bins, who, ": the magnitude must be a level from 0 to below ", bins,
        " (at least 2 levels), got ", magnitude);
}

// Image `b`, sharing memory: [1, C, H, W].
Tensor image_of(const Tensor& images, std::int64_t b) { return images.slice(0, b, b + 1); }

void put(const Tensor& from, const Tensor& to) {
  std::memcpy(to.raw_data(), from.raw_data(), static_cast<std::size_t>(to.nbytes()));
}

void change(Tensor& images, const AugmentSteps& steps, const RotationOptions& o) {
  for (const AugmentStep& step : steps) apply_augment_(images, step, o);
}

// Positive numbers that sum to 1, from Dirichlet(alpha, ..., alpha).
std::vector<float> dirichlet(std::size_t n, double alpha, Draws& draws) {
  std::vector<double> logs;
  for (std::size_t i = 0; i < n; ++i) logs.push_back(draws.log_gamma(alpha));
  const double most = *std::max_element(logs.begin(), logs.end());
  double sum = 0;
  for (double& x : logs) sum += x = std::exp(x - most);
  std::vector<float> weights;
  for (const double x : logs) weights.push_back(static_cast<float>(x / sum));
  return weights;
}

}  // namespace

AugmentSpace rand_augment_space(std::int64_t bins, std::int64_t height, std::int64_t width) {
  const Reach r{.shear = 0.3,
                .right = 150.0 / 331 * static_cast<double>(width),
                .down = 150.0 / 331 * static_cast<double>(height),
                .degrees = 30,
                .color = 0.9,
                .bits = 4,
                .most_bits = 8};
  return joined({{{AugmentOp::identity, {}, false}}, moves(r, bins), colors(r, bins), levels(r, bins)});
}

AugmentSpace trivial_augment_space(std::int64_t bins) {
  const Reach r{.shear = 0.99, .right = 32, .down = 32, .degrees = 135, .color = 0.99, .bits = 6, .most_bits = 8};
  return joined({{{AugmentOp::identity, {}, false}}, moves(r, bins), colors(r, bins), levels(r, bins)});
}

AugmentSpace aug_mix_space(bool all_ops, std::int64_t height, std::int64_t width) {
  const Reach r{.shear = 0.3,
                .right = static_cast<double>(width) / 3,
                .down = static_cast<double>(height) / 3,
                .degrees = 30,
                .color = 0.9,
                .bits = 4,
                .most_bits = 4};
  return joined({moves(r, 10), levels(r, 10), all_ops ? colors(r, 10) : AugmentSpace{}});
}

void apply_augment_(Tensor& images, const AugmentStep& step, const RotationOptions& o) {
  using enum AugmentOp;
  check_bytes(images, "apply_augment_");
  const double m = step.magnitude;
  check(std::abs(m) <= 1e6, "apply_augment_: a magnitude of ", m, " is too large");
  const double left = -0.5 * static_cast<double>(images.size(3)), top = -0.5 * static_cast<double>(images.size(2));
  const double degrees = std::atan(m) * 57.29577951308232;  // shear angle for magnitude m
  const auto each = [&](void (*adjust)(Tensor&, double)) {
    for (std::int64_t b = 0; b < images.size(0); ++b) {
      Tensor image = images[b];
      adjust(image, 1 + m);
    }
  };
  switch (step.op) {
    case identity: return;
    case shear_x: return put(affine(images, {.shear_x = degrees, .center_x = left, .center_y = top}, o), images);
    case shear_y: return put(affine(images, {.shear_y = degrees, .center_x = left, .center_y = top}, o), images);
    case translate_x: return put(affine(images, {.right = std::trunc(m)}, o), images);
    case translate_y: return put(affine(images, {.down = std::trunc(m)}, o), images);
    case rotate: return put(data::rotate(images, m, o), images);
    case brightness: return each(adjust_brightness_);
    case color: return each(adjust_saturation_);
    case contrast: return each(adjust_contrast_);
    case sharpness: return adjust_sharpness_(images, 1 + m);
    case posterize: return posterize_(images, static_cast<int>(m));
    case solarize: return solarize_(images, 255 * m);
    case auto_contrast: return autocontrast_(images);
    case equalize: return equalize_(images);
    case invert: return invert_(images);
  }
  fail("apply_augment_: there is no operation ", static_cast<int>(step.op));
}

AugmentSteps rand_augment_steps(std::int64_t height, std::int64_t width, Draws& draws, const RandAugmentOptions& o) {
  check_level(o.magnitude, o.num_magnitude_bins, "rand_augment");
  return draw_rand(rand_augment_space(o.num_magnitude_bins, height, width), o.num_ops, o.magnitude, draws);
}

void rand_augment_(Tensor& images, Draws& draws, const RandAugmentOptions& o) {
  check_bytes(images, "rand_augment_");
  check_level(o.magnitude, o.num_magnitude_bins, "rand_augment_");
  check(o.num_ops >= 0, "rand_augment_: num_ops must not be negative, got ", o.num_ops);
  const AugmentSpace space = rand_augment_space(o.num_magnitude_bins, images.size(2), images.size(3));
  for (std::int64_t b = 0; b < images.size(0); ++b) {
    Tensor image = image_of(images, b);
    change(image, draw_rand(space, o.num_ops, o.magnitude, draws), {o.interpolation, o.fill});
  }
}

AugmentSteps trivial_augment_steps(Draws& draws, const TrivialAugmentOptions& o) {
  return draw_trivial(trivial_augment_space(o.num_magnitude_bins), o.num_magnitude_bins, draws);
}

void trivial_augment_wide_(Tensor& images, Draws& draws, const TrivialAugmentOptions& o) {
  check_bytes(images, "trivial_augment_wide_");
  check_level(0, o.num_magnitude_bins, "trivial_augment_wide_");
  const AugmentSpace space = trivial_augment_space(o.num_magnitude_bins);
  for (std::int64_t b = 0; b < images.size(0); ++b) {
    Tensor image = image_of(images, b);
    change(image, draw_trivial(space, o.num_magnitude_bins, draws), {o.interpolation, o.fill});
  }
}

std::vector<Pair> auto_augment_policy(AutoAugmentPolicy policy) {
  switch (policy) {
    case AutoAugmentPolicy::cifar10: return cifar10_policy;
    case AutoAugmentPolicy::svhn: return svhn_policy;
    default: return imagenet_policy;
  }
}

AugmentSteps auto_augment_steps(std::int64_t height, std::int64_t width, Draws& draws, const AutoAugmentOptions& o) {
  return draw_auto(auto_augment_policy(o.policy), rand_augment_space(10, height, width), draws);
}

void auto_augment_(Tensor& images, Draws& draws, const AutoAugmentOptions& o) {
  check_bytes(images, "auto_augment_");
  const std::vector<Pair> policy = auto_augment_policy(o.policy);
  const AugmentSpace space = rand_augment_space(10, images.size(2), images.size(3));
  for (std::int64_t b = 0; b < images.size(0); ++b) {
    Tensor image = image_of(images, b);
    change(image, draw_auto(policy, space, draws), {o.interpolation, o.fill});
  }
}

void aug_mix_(Tensor& images, Draws& draws, const AugMixOptions& o) {
  check_bytes(images, "aug_mix_");
  check(o.severity >= 1 && o.severity <= 10 && o.mixture_width >= 1 && o.alpha > 0 && std::isfinite(o.alpha),
        "aug_mix_: severity must be 1 to 10, mixture_width and alpha positive, got ", o.severity, ", ", o.mixture_width,
        " and ", o.alpha);
  const AugmentSpace space = aug_mix_space(o.all_ops, images.size(2), images.size(3));
  const auto values = static_cast<std::size_t>(images.numel() / images.size(0));
  std::vector<float> mix(values);
  for (std::int64_t b = 0; b < images.size(0); ++b) {
    const Tensor image = image_of(images, b);
    auto* pixels = image.data<std::uint8_t>();
    const std::vector<float> shares = dirichlet(2, o.alpha, draws);  // weights of the original image and of the chains
    const std::vector<float> weights = dirichlet(static_cast<std::size_t>(o.mixture_width), o.alpha, draws);
    for (std::size_t i = 0; i < values; ++i) mix[i] = shares[0] * static_cast<float>(pixels[i]);
    for (const float weight : weights) {
      Tensor chain = Tensor::allocate(image.sizes(), u8);
      put(image, chain);
      const std::int64_t depth = o.chain_depth > 0 ? o.chain_depth : 1 + draws.below(3);
      for (std::int64_t k = 0; k < depth; ++k) {
        const AugmentLevels& op = any_of(space, draws);
        const std::int64_t level = op.magnitudes.empty() ? 0 : draws.below(o.severity);
        apply_augment_(chain, drawn(op, level, draws), {o.interpolation, o.fill});
      }
      const auto* changed = chain.data<std::uint8_t>();
      for (std::size_t i = 0; i < values; ++i) mix[i] += shares[1] * weight * static_cast<float>(changed[i]);
    }
    for (std::size_t i = 0; i < values; ++i)
      pixels[i] = static_cast<std::uint8_t>(std::clamp(mix[i], 0.0f, 255.0f));
  }
}

}  // namespace mantissa::data
