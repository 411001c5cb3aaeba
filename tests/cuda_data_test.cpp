// Data sets in device memory: a pipeline gives the same bits there as on the CPU.
#include <string_view>

#include "core/accelerator.h"
#include "data/synthetic.h"
#include "mantissa.h"
#include "tests/catch_compat.h"

using namespace mantissa;

namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes() || a.dtype() != b.dtype()) return false;
  const Tensor x = contiguous(a.to(cpu)), y = contiguous(b.to(cpu));
  const auto bytes = [](const Tensor& t) {
    return std::string_view(static_cast<const char*>(t.raw_data()), static_cast<std::size_t>(t.nbytes()));
  };
  return bytes(x) == bytes(y);
}

using Steps = data::Pipeline (*)(data::Pipeline);

void compare(const data::Dataset& set, Steps steps) {
  const auto make = [&](Device device, int threads) {
    return steps(data::Pipeline(set).shuffle(7)).batch(16).threads(threads).to(device).loader();
  };
  data::Loader on_cpu = make(cpu, 0), at_once = make(cuda, 0), ahead = make(cuda, 2);
  data::Batch expected, batch;
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (on_cpu.next(expected)) {
      for (data::Loader* loader : {&at_once, &ahead}) {
        REQUIRE(loader->next(batch));
        CHECK(batch.image.device() == cuda);
        CHECK(batch.label.device() == cuda);
        CHECK(same_bits(batch.image, expected.image));
        CHECK(same_bits(batch.label, expected.label));
      }
    }
    CHECK(!at_once.next(batch));
    CHECK(!ahead.next(batch));
  }
}

}  // namespace

TEST_CASE("a batch gathered on the device has the bits of the CPU's pipeline") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const data::Dataset color = data::synthetic_color_digits(40, 3), grey = data::synthetic_digits(40, 3);
  using P = data::Pipeline;
  for (const data::Dataset& set : {color, grey}) {
    compare(set, [](P p) { return p; });
    compare(set, [](P p) { return p.raw(); });
    compare(set, [](P p) { return p.random_crop(3).random_flip(); });
    compare(set,
            [](P p) { return p.random_flip().random_crop(40).cutout(9).dtype(f16); });  // some see nothing
    compare(set, [](P p) {
      return p.cutout(5, 200).random_vertical_flip(0.3f).random_crop(2).random_crop(1).dtype(bf16);
    });
  }
  compare(color, [](P p) { return p.normalize({0.5f, 0.4f, 0.3f}, {0.2f, 0.3f, 0.4f}).random_flip(); });
}

TEST_CASE("a part of a set, or a part of a part, is in device memory as a set of its own") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const data::Dataset set = data::synthetic_color_digits(200, 3);
  compare(set, [](data::Pipeline p) { return p.subset({5, 3, 5, 199}); });
  const auto part = [](data::Pipeline p) { return p.random_split({0.5, 0.5}, 3)[1].random_split({20, 80}, 4)[0]; };
  compare(set, part);
  const std::int64_t before = memory_stats(cuda).allocated;
  data::Loader loader = part(data::Pipeline(set)).batch(10).to(cuda).loader();
  CHECK(memory_stats(cuda).allocated > before);
  CHECK(memory_stats(cuda).allocated - before <= set.images.nbytes() / 8);  // 20 of 200
}

TEST_CASE("masks are in device memory as their pictures are") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  data::Dataset set = data::synthetic_color_digits(40, 3);
  set.labels = (set.images.select(1, 0).to(f32) / 32).to(u8).contiguous();
  using P = data::Pipeline;
  compare(set, [](P p) { return p; });
  compare(set, [](P p) { return p.random_flip().random_crop(6).cutout(9).random_vertical_flip(0.3f); });
  compare(set, [](P p) { return p.subset({5, 3, 5, 39}).random_crop(2).dtype(f16); });
  compare(set, [](P p) { return p.random_rotation(20, {.target_fill = 255}); });  // made on the CPU
  const std::int64_t before = memory_stats(cuda).allocated;
  data::Loader loader = data::Pipeline(set).batch(10).to(cuda).loader();
  CHECK(memory_stats(cuda).allocated - before >= set.images.nbytes() + set.labels.nbytes());
  set.labels = set.labels.to(i64);
  compare(set, [](P p) { return p.random_flip(); });
}

TEST_CASE("what cannot be written down as steps is made on the CPU and brought to the device") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const data::Dataset set = data::synthetic_color_digits(40, 3);
  compare(set, [](data::Pipeline p) { return p.random_flip().random_rotation(20); });
  compare(set, [](data::Pipeline p) { return p.mixup(10); });
  compare(set, [](data::Pipeline p) { return p.random_flip().trivial_augment_wide(); });
  compare(set, [](data::Pipeline p) {
    return p.random_apply([](data::Pipeline q) { return q.random_crop(2); });
  });
}

TEST_CASE("all loops over a pipeline use one copy of its set on the device") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const data::Dataset set = data::synthetic_color_digits(200, 3);
  const std::int64_t before = memory_stats(cuda).allocated;
  {
    data::Pipeline pipeline = data::Pipeline(set).shuffle(1).batch(50).to(cuda);
    const auto last_batch = [&] {
      data::Batch last;
      for (const data::Batch& b : pipeline) last = b;
      return last.image.to(cpu);
    };
    const Tensor first = last_batch();
    const std::int64_t kept = memory_stats(cuda).allocated;
    CHECK(kept - before >= set.images.nbytes());
    CHECK(!equal(last_batch(), first));  // the next epoch
    CHECK(memory_stats(cuda).allocated == kept);
    pipeline = pipeline.raw();  // another pipeline, with nothing there yet
    CHECK(memory_stats(cuda).allocated == before);
    CHECK(last_batch().dtype() == u8);
  }
  CHECK(memory_stats(cuda).allocated == before);
}

TEST_CASE("a set on the device is there once, and a batch needs no more than itself") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const data::Dataset set = data::synthetic_color_digits(200, 3);
  const std::int64_t before = memory_stats(cuda).allocated, whole = set.images.nbytes();
  data::Loader loader = data::Pipeline(set).batch(10).to(cuda).loader();
  CHECK(memory_stats(cuda).allocated - before >= whole);
  CHECK(memory_stats(cuda).allocated - before <= whole * 9 / 8);  // sizes are rounded up
  data::Batch batch;
  for (int i = 0; i < 5; ++i) REQUIRE(loader.next(batch));
  CHECK(memory_stats(cuda).allocated - before <= (whole + batch.image.nbytes()) * 9 / 8 + 16384);
}
