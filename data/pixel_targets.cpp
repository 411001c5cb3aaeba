#include "data/pixel_targets.h"

#include "core/ops.h"

namespace mantissa::data {

bool has_pixel_targets(const Batch& b) {
  if (!b.label.defined() || !b.image.defined() || b.image.dim() != 4) return false;
  const int dim = b.label.dim();
  return (dim == 3 || (dim == 4 && b.label.is_floating())) && b.label.size(-2) == b.image.size(2) &&
         b.label.size(-1) == b.image.size(3);
}

void check_targets_stay(const Batch& b, Targets kind, const char* step) {
  check(kind == Targets::values && !has_pixel_targets(b), step, ": moves pixels of images, but not their targets ",
        b.label, "; random_affine, random_flip and color_jitter have targets move along");
}

Tensor images_of_targets(const Tensor& t) {
  if (t.dtype() == i64) {
    constexpr std::int64_t most = 1 << 24;
    const std::int64_t* v = t.data<std::int64_t>();
    for (std::int64_t i = 0; i < t.numel(); ++i)
      check(v[i] >= -most && v[i] <= most, "classes of pixels must be from -2^24 to 2^24, found ", v[i]);
  }
  const Tensor values = t.dtype() == u8 || t.dtype() == f32 ? t : cast(t, f32);
  return t.dim() == 3 ? values.unsqueeze(1) : values;
}

Tensor targets_of_images(const Tensor& images, const Tensor& like) {
  return cast(like.dim() == 3 ? images.squeeze(1) : images, like.dtype());
}

}  // namespace mantissa::data
