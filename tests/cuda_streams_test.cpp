// Streams, events, and memory that several streams use.
#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "mantissa.h"
#include "tests/catch_compat.h"
#include "tests/stderr_of.h"
#if defined(MANTISSA_CUDA_SHIM)
#include "tests/cuda_shim/shim.h"
#endif

using namespace mantissa;
using mantissa::test::message_of;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t n = 40'000;  // elements of 160 kB: cut from segments; 100: of a size class

// Work that takes a while on a GPU, with ones as its result.
Tensor slowly_ones(std::int64_t size) {
  Tensor x = zeros({size}, {.device = cuda});
  for (int i = 0; i < 64; ++i) x.add_(1.0 / 64);
  return x;
}
bool is_all(const Tensor& x, float value) {
  return std::ranges::all_of(x.to(cpu).to_vector<float>(), [value](float v) { return v == value; });
}

struct Net {
  nn::Linear in{16, 32}, out{32, 4};
  MANTISSA_FIELDS(in, out)
  Tensor operator()(const Tensor& x) const { return out(relu(in(x))); }
};

}  // namespace

TEST_CASE("a stream waits for another's work, and an event for a point in it") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  for (const std::int64_t size : {std::int64_t{100}, n}) {
    DeviceStream side(cuda);
    CHECK(side.device() == cuda);
    CHECK(!(side == current_stream(cuda)));
    CHECK(current_stream(cuda) == default_stream(cuda));
    for (int i = 0; i < 3; ++i) {
      const Tensor x = slowly_ones(size);
      side.wait(current_stream(cuda));
      Tensor y, z;
      DeviceEvent half_way(cuda);
      {
        const OnStream scope(side);
        CHECK(current_stream(cuda) == side);
        y = x + 1.0;
        half_way.record();
        z = y + slowly_ones(size);
      }
      CHECK(current_stream(cuda) == default_stream(cuda));
      current_stream(cuda).wait(half_way);
      CHECK(is_all(y * 2.0, 4));
      current_stream(cuda).wait(side);
      CHECK(is_all(z * 2.0, 6));
      record_stream(x, side);
      record_stream(y, current_stream(cuda));
      record_stream(z, current_stream(cuda));
    }
    side.synchronize();
    CHECK(side.is_idle());
  }
}

TEST_CASE("scopes of streams nest, and end where they began") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const DeviceStream a(cuda), b(cuda), same = a;
  CHECK(a == same);
  CHECK(!(a == b));
  {
    const OnStream first(a);
    {
      const OnStream second(b);
      CHECK(current_stream(cuda) == b);
      const OnStream back(default_stream(cuda));
      CHECK(current_stream(cuda) == default_stream(cuda));
    }
    CHECK(current_stream(cuda) == same);
    std::thread([&] { CHECK(current_stream(cuda) == default_stream(cuda)); }).join();  // of this thread only
  }
  CHECK(current_stream(cuda) == default_stream(cuda));
}

TEST_CASE("copies between GPUs come after what made the tensor, and before its memory serves another") {
#if defined(MANTISSA_CUDA_SHIM)
  cuda_shim::set_device_count(2);
#endif
  if (cuda_device_count() < 2) { WARN("needs two GPUs or the shim: skipped"); return; }
  for (const std::int64_t rows : {std::int64_t{3}, std::int64_t{300}}) {
    Tensor sum = zeros({rows, 200}, {.device = cuda(1)}), halves = sum.to(f64);
    Tensor turned = zeros({200, rows}, {.device = cuda(1)});
    DeviceStream side(cuda(1));
    side.wait(current_stream(cuda(1)));
    for (int i = 0; i < 5; ++i) {
      Tensor x = slowly_ones(rows * 200).reshape(rows, 200) * static_cast<double>(i);
      const Tensor there = x.to(cuda(1));
      turned.copy_(transpose(x));
      {
        const OnStream scope(side);
        halves.add_(x.to(cuda(1)).to(f64));
      }
      x = Tensor();
      const Tensor next = full({rows, 200}, -1000, {.device = cuda});  // may have x's memory
      sum.add_(there);
      CHECK((there + sum).device() == cuda(1));
    }
    CHECK(is_all(sum, 10));
    CHECK(is_all(turned, 4));
    current_stream(cuda(1)).wait(side);
    CHECK(is_all(halves.to(f32), 10));
    CHECK(is_all(sum.to(cuda).to(f16).to(f32), 10));
    const Tensor image = randn({2, 3, 4, 5}), last = channels_last(image.to(cuda)).to(cuda(1));
    CHECK(equal(last.to(cpu), image));
    CHECK_THAT(message_of([&] { (void)(last + image.to(cuda)); }), Contains("cuda:1"));
    auto step = jit::capture([&](const Tensor& x) { return x.to(cuda(1)); });
    const Tensor x = ones({8}, {.device = cuda});
    step(x);
    CHECK_THAT(message_of([&] { step(x); }), Contains("a step that is captured must not copy between GPUs"));
  }
#if defined(MANTISSA_CUDA_SHIM)
  cuda_shim::set_device_count(1);
#endif
}

TEST_CASE("another library's stream is used like one's own") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  DeviceStream owner(cuda), theirs = external_stream(owner.native());
  CHECK(theirs == owner);
  theirs.wait(current_stream(cuda));
  {
    const OnStream scope(theirs);
    CHECK(is_all(slowly_ones(n), 1));
    const Tensor x = slowly_ones(100);
    record_stream(x, default_stream(cuda));
  }
  CHECK_THAT(message_of([] { external_stream(nullptr); }), Contains("needs a cudaStream_t that is not null"));
}

TEST_CASE("memory that another stream uses is not given to the next tensor before the use is over") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  for (const std::int64_t size : {std::int64_t{100}, n}) {
    DeviceStream side(cuda);
    Tensor slow = slowly_ones(size);
    side.wait(current_stream(cuda));
    Tensor sum = zeros({size}, {.device = cuda});
    for (int i = 0; i < 5; ++i) {
      Tensor x;
      {
        const OnStream scope(side);
        x = full({size}, i, {.device = cuda});
      }
      current_stream(cuda).wait(side);
      for (int k = 0; k < 20; ++k) slow.mul_(1.0);
      sum.add_(x * slow);  // late: after 20 other launches
      record_stream(x, current_stream(cuda));
      x = Tensor();
      const OnStream scope(side);
      const Tensor next = full({size}, -1000, {.device = cuda});  // would overwrite x
    }
    CHECK(is_all(sum, 0 + 1 + 2 + 3 + 4));
    side.synchronize();
  }
}

TEST_CASE("memory kept for another stream returns, at the latest when there is no other") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  synchronize(cuda);
  empty_cache(cuda);
  const std::int64_t before = memory_stats(cuda).allocated, megabytes = 8 << 20;
  {
    DeviceStream side(cuda), other(cuda);
    set_memory_limit(cuda, memory_stats(cuda).reserved + 3 * megabytes);
    for (int i = 0; i < 10; ++i) {
      Tensor x = zeros({megabytes / 4}, {.device = cuda});
      side.wait(current_stream(cuda));
      const OnStream scope(side);
      x.add_(slowly_ones(1));
      record_stream(x, side);
      record_stream(x, side);
      record_stream(x, other);
    }
    set_memory_limit(cuda, 0);
    Tensor kept = zeros({100}, {.device = cuda});
    record_stream(kept, other);  // freed after the stream
    other = side;
    kept = Tensor();
  }
  synchronize(cuda);
  const Tensor looks_for_kept_blocks = zeros({1}, {.device = cuda});
  CHECK(memory_stats(cuda).allocated - before < 4096);
}

TEST_CASE("threads with a stream each compute what one computes, casts of shared weights included") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  manual_seed(31);
  Net net;
  nn::to(net, cuda);
  nn::eval(net);
  std::vector<Tensor> inputs;
  std::vector<std::vector<float>> expected;
  for (int i = 0; i < 12; ++i) inputs.push_back(randn({8, 16}).to(cuda));
  const auto answer = [&](const Tensor& x) {
    const InferenceMode inference;
    return amp::autocast(f16, [&] { return net(x).to(f32); }).to(cpu).to_vector<float>();
  };
  for (const Tensor& x : inputs) expected.push_back(answer(x));
  synchronize(cuda);
  for (int round = 0; round < 5; ++round) {
    const NoGrad no_grad;
    for (Tensor p : nn::parameters(net)) p.mul_(1.0);  // the casts are stale
    synchronize(cuda);
    std::vector<std::vector<float>> found(inputs.size());
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        const DeviceStream own(cuda);
        const OnStream scope(own);
        for (std::size_t i = t; i < inputs.size(); i += 3) found[i] = answer(inputs[i]);
      });
    }
    for (std::thread& t : threads) t.join();
    CHECK(found == expected);
  }
}

TEST_CASE("events tell what is done and how long it took") {
  for (const Device device : {cpu, cuda}) {
    if (device.is_cuda() && !cuda_is_available()) { WARN("no GPU and no shim: skipped"); continue; }
    DeviceEvent start(device), end(device);
    CHECK(start.is_done());
    CHECK_THAT(message_of([&] { (void)end.milliseconds_since(start); }), Contains("the later event was not recorded"));
    end.record();
    CHECK_THAT(message_of([&] { (void)end.milliseconds_since(start); }), Contains("the earlier event was not rec"));
    start.record();
    const Tensor x = randn({200, 200}).to(device), y = matmul(x, x);
    end.record(current_stream(device));
    CHECK(end.milliseconds_since(start) > 0);
    CHECK(end.is_done());
    end.synchronize();
    if (device.is_cuda())
      CHECK_THAT(message_of([&] { end.record(DeviceStream(cpu)); }),
                 Contains("the event is of cuda:0 and the stream of cpu"));
  }
}

TEST_CASE("on the CPU streams exist and do nothing") {
  DeviceStream a(cpu);
  DeviceEvent e(cpu);
  const OnStream scope(a);
  const Tensor x = ones({4});
  e.record();
  a.wait(e);
  a.wait(default_stream(cpu));
  a.synchronize();
  CHECK((a.is_idle() && a.native() == nullptr));
  record_stream(x, a);
  CHECK(current_stream(cpu) == default_stream(cpu));
  CHECK(device_properties(cpu).total_memory > device_properties(cpu).free_memory);
}

TEST_CASE("a captured step runs on the caller's stream, and cannot change it") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const Tensor w = ones({n}, {.device = cuda});
  auto step = jit::capture([&](const Tensor& x) { return x * w + 1.0; });
  DeviceStream side(cuda);
  side.wait(current_stream(cuda));
  for (int i = 0; i < 5; ++i) {
    Tensor y;
    {
      const OnStream scope(side);
      y = step(full({n}, i, {.device = cuda}));
    }
    current_stream(cuda).wait(side);
    CHECK(is_all(y, static_cast<float>(i + 1)));
  }
  CHECK(step.replays() == 3);

  DeviceEvent event(cuda);
  event.record();
  const std::vector<std::function<void()>> refused{
      [&] { const OnStream scope(side); }, [&] { side.wait(event); }, [&] { side.wait(default_stream(cuda)); },
      [&] { side.synchronize(); }, [&] { event.record(); }, [&] { event.synchronize(); },
      [&] { record_stream(w, current_stream(cuda)); }};
  for (const auto& f : refused) {
    auto wrong = jit::capture([&](const Tensor& x) {
      f();
      return x + 1.0;
    });
    wrong(w);
    CHECK_THAT(message_of([&] { wrong(w); }), Contains("a step that is captured runs in one stream"));
    CHECK(is_all(w + 1.0, 2));
  }
}

TEST_CASE("what makes the host wait for a GPU can be found") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  const Tensor x = ones({2, 3}, {.device = cuda});
  Tensor here = zeros({2, 3});
  const std::vector<std::pair<std::function<void()>, std::string>> reads{
      {[&] { (void)x.sum().item(); }, "f32[]"}, {[&] { (void)x.to(cpu); }, "f32[2, 3]"},
      {[&] { (void)nonzero(x); }, "i64[]"},     {[&] { (void)bool(any(x > 2.0)); }, "bool[]"},
      {[&] { here.copy_(x); }, "f32[2, 3]"},    {[&] { (void)x.to_vector<float>(); }, "f32[2, 3]"}};
  for (const auto& [read, what] : reads) {
    const std::string expected = "the host waits for cuda:0 to read " + what;
    set_sync_debug_mode("warn");
    const std::string said = test::stderr_of(read);
    set_sync_debug_mode("error");
    const std::string thrown = message_of(read);
    set_sync_debug_mode("default");
    CHECK_THAT(said, Contains("mantissa: " + expected + " (set_sync_debug_mode)"));
    CHECK_THAT(thrown, Contains(expected) && Contains("keep the value in a tensor on the device"));
    CHECK(test::stderr_of(read) == "");
  }
  nn::Linear net(3, 2);
  nn::to(net, cuda);
  optim::Adam opt(nn::parameters(net));
  amp::GradScaler scaler;
  const auto step = [&] {
    backward(scaler.scale(amp::autocast(f16, [&] { return net(x).sum(); })));
    scaler.step(opt, amp::ClipNorm{1});
    scaler.update();
    opt.zero_grad();
  };
  step();
  set_sync_debug_mode("error");
  CHECK_NOTHROW(step());
  CHECK_NOTHROW(synchronize(cuda));
  CHECK(sync_debug_mode() == "error");
  set_sync_debug_mode("default");
  CHECK_THAT(message_of([] { set_sync_debug_mode("loud"); }), Contains("or \"error\", got \"loud\""));
}

TEST_CASE("a memory limit is a full device to this process") {
  for (const Device device : {cpu, cuda}) {
    if (device.is_cuda() && !cuda_is_available()) { WARN("no GPU and no shim: skipped"); continue; }
    empty_cache(device);
    const std::int64_t megabytes = 32 << 20;
    set_memory_limit(device, memory_stats(device).reserved + megabytes);
    const auto take = [&](std::int64_t bytes) { (void)Tensor::allocate({bytes}, u8, device); };
    CHECK_THROWS_AS(take(2 * megabytes), OutOfMemory);
    CHECK_THAT(message_of([&] { take(2 * megabytes); }),
               Contains(device.is_cpu() ? "out of memory within set_memory_limit: asked for 67108864 bytes with "
                                        : "out of memory on cuda:0 within set_memory_limit: asked for 67108864 bytes"));
    for (int i = 0; i < 5; ++i) take(megabytes / 4 * 3);
    empty_cache(device);
    for (int i = 1; i < 6; ++i) take(megabytes / i);
    set_memory_limit(device, 0);
    take(2 * megabytes);
    empty_cache(device);
    CHECK_THAT(message_of([&] { set_memory_limit(device, -1); }), Contains("must not be negative, got -1"));
    CHECK_THAT(memory_summary(device), Contains("reserved (with the cache)") && Contains("allocations, of which"));
    CHECK(device_properties(device).total_memory > 0);
    CHECK(!device_properties(device).name.empty());
    CHECK(device_properties(device).processors > 0);
    CHECK((device_properties(device).capability >= 80) == device.is_cuda());
  }
}
