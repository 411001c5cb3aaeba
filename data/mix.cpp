#include "data/mix.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/pixels.h"

namespace mantissa::data {
namespace {

float beta(Draws& draws, double alpha) {  // Beta(alpha, alpha)
  const double x = draws.log_gamma(alpha), y = draws.log_gamma(alpha);
  return static_cast<float>(1 / (1 + std::exp(y - x)));
}

void check_batch(const Batch& batch, float alpha, int least_dim, const char* who) {
  check(batch.image.defined() && batch.image.dim() >= least_dim &&
            (batch.image.dtype() == u8 || batch.image.dtype() == f32) && is_plain(batch.image, who) &&
            batch.image.size(0) > 0,
        who, ": expected contiguous u8 or f32 images [B, C, H, W], got ", batch.image);
  check(alpha > 0 && std::isfinite(alpha), who, ": alpha must be positive, got ", alpha);
  check(!batch.label.defined() || (batch.label.dim() > 0 && batch.label.size(0) == batch.image.size(0)), who, ": ",
        batch.image.size(0), " images and targets ", batch.label);
}

// weight * row + (1 - weight) * previous row, in a new tensor.
template <class T> Tensor mix_rows(const Tensor& from, float weight) {
  const Tensor out = Tensor::allocate(from.sizes(), from.dtype());
  const std::int64_t rows = from.size(0), row = from.numel() / rows;
  for (std::int64_t b = 0; b < rows; ++b) {
    const T *a = from.data<T>() + b * row, *before = from.data<T>() + (b + rows - 1) % rows * row;
    T* to = out.data<T>() + b * row;
    for (std::int64_t i = 0; i < row; ++i) {
      const float v = weight * static_cast<float>(a[i]) + (1 - weight) * static_cast<float>(before[i]);
      to[i] = std::is_same_v<T, float> ? static_cast<T>(v) : static_cast<T>(v + 0.5f);
    }
  }
  return out;
}

}  // namespace

Tensor soft_targets(const Tensor& labels, std::int64_t classes) {
  check(labels.defined() &&
            ((labels.dtype() == i64 && labels.dim() == 1) ||
             (labels.dtype() == f32 && labels.dim() == 2 && labels.size(1) == classes && labels.is_contiguous())),
        "soft_targets: expected i64 labels [B] or f32 targets [B, ", classes, "], got ", labels);
  if (labels.dtype() == f32) return labels;
  check(classes >= 1, "soft_targets: the number of classes must be positive, got ", classes);
  const Tensor out = Tensor::allocate({labels.size(0), classes}, f32);
  std::fill_n(out.data<float>(), out.numel(), 0.0f);
  for (std::int64_t b = 0; b < labels.size(0); ++b) {
    const std::int64_t label = labels.data<std::int64_t>()[b];
    check(label >= 0 && label < classes, "soft_targets: label ", label, " of sample ", b, " is not below the ", classes,
          " classes");
    out.data<float>()[b * classes + label] = 1;
  }
  return out;
}

void mixup(Batch& batch, Draws& draws, std::int64_t classes, float alpha) {
  check_batch(batch, alpha, 2, "mixup");
  const float weight = beta(draws, alpha);
  batch.image =
      batch.image.dtype() == u8 ? mix_rows<std::uint8_t>(batch.image, weight) : mix_rows<float>(batch.image, weight);
  batch.label = mix_rows<float>(soft_targets(batch.label, classes), weight);
}

void cutmix(Batch& batch, Draws& draws, std::int64_t classes, float alpha) {
  check_batch(batch, alpha, 4, "cutmix");
  const std::int64_t h = batch.image.size(2), w = batch.image.size(3);
  const float half = 0.5f * std::sqrt(1 - beta(draws, alpha));
  const std::int64_t x = draws.below(w), y = draws.below(h);
  const auto reach = [half](std::int64_t side) { return static_cast<std::int64_t>(half * static_cast<float>(side)); };
  const std::int64_t left = std::max<std::int64_t>(0, x - reach(w)), right = std::min(w, x + reach(w));
  const std::int64_t top = std::max<std::int64_t>(0, y - reach(h)), bottom = std::min(h, y + reach(h));
  const std::int64_t rows = batch.image.size(0), planes = batch.image.size(1),
                     element = static_cast<std::int64_t>(size_of(batch.image.dtype()));
  const Tensor mixed = Tensor::allocate(batch.image.sizes(), batch.image.dtype());
  std::memcpy(mixed.raw_data(), batch.image.raw_data(), static_cast<std::size_t>(mixed.nbytes()));
  const auto* from = static_cast<const char*>(batch.image.raw_data());
  auto* to = static_cast<char*>(mixed.raw_data());
  for (std::int64_t b = 0; b < rows; ++b)
    for (std::int64_t c = 0; c < planes; ++c)
      for (std::int64_t line = top; line < bottom; ++line) {
        const auto place = [&](std::int64_t image) { return (((image * planes + c) * h + line) * w + left) * element; };
        std::memcpy(to + place(b), from + place((b + rows - 1) % rows),
                    static_cast<std::size_t>((right - left) * element));
      }
  batch.image = mixed;
  const float weight = 1 - static_cast<float>((right - left) * (bottom - top)) / static_cast<float>(h * w);
  batch.label = mix_rows<float>(soft_targets(batch.label, classes), weight);
}

}  // namespace mantissa::data
