#include "data/resident.h"

#include "core/kernel.h"
#include "core/ops.h"
#include "core/recording.h"

namespace mantissa {
MANTISSA_CUDA_KERNEL(gather_images, const View& y, const View& images, const View& plan, const View& table)
}

namespace mantissa::data {
namespace {

constexpr int step_rows = 6;  // rows of a PixelStep in a plan
static_assert(sizeof(PixelStep) == step_rows * sizeof(std::int64_t));

// Normalises the 256 pixel levels with the CPU's own function: f32 [C, 256].
Tensor table_of(const Normalize& normalize, std::int64_t channels) {
  std::vector<std::uint8_t> values(static_cast<std::size_t>(256 * channels));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<std::uint8_t>(i / static_cast<std::size_t>(channels));
  return contiguous(
      transpose(data::normalize(from_data(values, {256, channels}), normalize.mean, normalize.std), 0, 1));
}

}  // namespace

std::shared_ptr<const Resident> Resident::make(const Source* source, const Transforms& transforms, Device device) {
  if (!source || device.is_cpu()) return nullptr;
  const auto [set, places] = source->in_memory();
  if (!set || set->images.dtype() != u8 || set->images.dim() != 4) return nullptr;
  const bool masks = set->labels.dtype() == u8;
  if (!masks && !(set->labels.dtype() == i64 && set->labels.dim() == 1)) return nullptr;
  const auto made = std::make_shared<Resident>();
  made->steps_ = transforms;
  const auto* normalize = transforms.empty() ? nullptr : dynamic_cast<const Normalize*>(transforms.back().get());
  if (normalize) made->steps_.pop_back();
  for (const auto& t : made->steps_) {
    if (!t->has_steps()) return nullptr;
  }
  if (normalize) {
    made->table_ = table_of(*normalize, set->images.size(1)).to(device);
    made->dtype_ = normalize->dtype;
  }
  made->device_ = device;
  const Tensor rows = places ? from_data(*places, {source->size()}) : Tensor();
  made->images_ = (places ? index_select(set->images, 0, rows) : set->images).to(device);
  const Tensor labels = places ? index_select(set->labels, 0, rows) : set->labels;
  made->labels_ = masks ? labels.unsqueeze(1).to(device) : labels;
  wait_for_own_work(device);  // so that loops in other streams can use it
  return made;
}

Tensor Resident::plan(std::span<const std::int64_t> indices, Draws& draws) const {
  const auto count = static_cast<std::int64_t>(indices.size());
  const Tensor plan = Tensor::allocate({2 + step_rows * static_cast<std::int64_t>(steps_.size()), count}, i64);
  std::int64_t *row = plan.data<std::int64_t>(), *labels = row + count;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = indices[static_cast<std::size_t>(i)], samples = images_.size(0);
    check(index >= 0 && index < samples, "sample ", index, ": the index is not in a dataset of ", samples, " samples");
    row[i] = index;
    labels[i] = labels_.dtype() == i64 ? labels_.data<std::int64_t>()[index] : 0;
  }
  row += 2 * count;
  for (const auto& t : steps_) {
    const PixelSteps steps = t->steps(count, images_.size(2), images_.size(3), draws);
    for (std::int64_t i = 0; i < count; ++i) {
      const PixelStep& s = steps[static_cast<std::size_t>(i)];
      const std::int64_t fields[step_rows] = {s.kind, s.a, s.b, s.c, s.d, s.value};
      for (int f = 0; f < step_rows; ++f) row[f * count + i] = fields[f];
    }
    row += step_rows * count;
  }
  return plan;
}

Batch Resident::gather(const Tensor& plan) const {
  const std::int64_t count = plan.size(1);
  const Tensor on_device = plan.to(device_);
  const auto run = cuda_backend::prepare(&cuda_backend::gather_images, device_);
  const auto gathered = [&](const Tensor& from, Dtype dtype, const Tensor& table) {
    Dims sizes = from.sizes();
    sizes[0] = count;
    const Tensor y = Tensor::allocate(sizes, dtype, device_);
    run(y.view(), from.view(), on_device.view(), table.defined() ? table.view() : View{});
    return y;
  };
  const Tensor image = gathered(images_, dtype_, table_);
  if (labels_.dtype() == i64) return {image, on_device.raw_view({count}, {1}, count)};
  return {image, gathered(labels_, i64, {}).squeeze(1)};
}

}  // namespace mantissa::data
