#include "data/loader.h"

#include "core/ops.h"
#include "data/loader_core.h"
#include "data/pixel_targets.h"
#include "data/resident.h"

namespace mantissa::data {

// Makes batches of images and labels ahead, and copies them to the device when they are taken.
struct Loader::Engine {
  Engine(SourcePtr s, const LoaderOptions& o, Transforms t, const Sampling& sampling, std::shared_ptr<const Resident> r)
      : source(std::move(s)), transforms(std::move(t)), device(o.device), resident(std::move(r)),
        core(source ? source->size() : 0, o, sampling,
             [this](std::span<const std::int64_t> indices, Draws& draws) { return make(indices, draws); }) {}

  Batch make(std::span<const std::int64_t> indices, Draws& draws) const {
    if (resident) return {resident->plan(indices, draws), {}};
    Batch batch = read_batch(*source, indices, &draws);
    for (const auto& transform : transforms) transform->apply(batch, draws);
    return batch;
  }
  Batch brought(Batch made) const {
    if (resident) return resident->gather(made.image);
    if (!device.is_cpu()) made = {made.image.to(device), made.label.to(device)};
    if (has_pixel_targets(made) && made.label.dtype() == u8) made.label = cast(made.label, i64);
    return made;
  }

  const SourcePtr source;
  const Transforms transforms;
  const Device device;
  const std::shared_ptr<const Resident> resident;  // if set, threads make a plan instead of the images
  LoaderCore core;                                 // last: its threads use all of it
};

Loader::Loader(SourcePtr source, LoaderOptions options, Transforms transforms, Sampling sampling)
    : Loader(source, options, transforms, sampling, Resident::make(source.get(), transforms, options.device)) {}
Loader::Loader(SourcePtr source, LoaderOptions options, Transforms transforms, Sampling sampling,
               std::shared_ptr<const Resident> resident)
    : engine_(std::make_unique<Engine>(std::move(source), options, std::move(transforms), sampling,
                                       std::move(resident))) {}
Loader::~Loader() = default;
Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;

bool Loader::next(Batch& batch) {
  std::any made = engine_->core.next();
  if (!made.has_value()) return false;
  batch = engine_->brought(std::any_cast<Batch>(std::move(made)));
  return true;
}
std::int64_t Loader::batches() const { return engine_->core.batches(); }
LoaderState Loader::state() const { return engine_->core.state(); }
void Loader::restore(const LoaderState& state) { engine_->core.restore(state); }

Tensor to_tensor(const LoaderState& s) {
  const std::vector<std::int64_t> v{
      static_cast<std::int64_t>(s.seed), s.epoch, s.batch, s.samples, s.batch_size, s.shuffle, s.drop_last};
  return from_data<std::int64_t>(v, {7});
}

LoaderState loader_state_from_tensor(const Tensor& t) {
  check(t.defined() && t.dtype() == i64 && t.sizes() == Dims{7}, "a saved loader position is i64[7], got ", t);
  const std::int64_t* v = t.data<std::int64_t>();
  return {static_cast<std::uint64_t>(v[0]), v[1], v[2], v[3], v[4], v[5] != 0, v[6] != 0};
}
NamedTensors state_dict(const LoaderState& state) { return {{"state", to_tensor(state)}}; }
LoaderState state_of_dict(const NamedTensors& s) {
  check(s.size() == 1 && s[0].first == "state", "a saved loader position is one tensor \"state\", got ", s.size(),
        s.empty() ? "" : concat(" tensors, the first \"", s[0].first, "\""));
  return loader_state_from_tensor(s[0].second);
}

}  // namespace mantissa::data
