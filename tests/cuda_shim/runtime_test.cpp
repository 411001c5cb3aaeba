// The backend's runtime on the CPU shim: memory that runs out, streams, arenas, errors found late, copies,
// several devices and none. What a GPU alone can show is in docs/gpu/README.md.
#include "cuda/runtime.h"

#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "amp/autocast.h"
#include "autograd/backward.h"
#include "autograd/grad_mode.h"
#include "core/accelerator.h"
#include "core/device_stream.h"
#include "core/host_reads.h"
#include "core/kernel.h"
#include "cuda/elementwise.h"
#include "cuda/launch.cuh"
#include "cuda/launches.h"
#include "cuda/tuner.h"
#include "optim/ema.h"
#include "tests/testing.h"

namespace mantissa {
MANTISSA_KERNEL(copy, const View& y, const View& x)
}

using namespace mantissa;
using cuda_backend::Arena;
using cuda_backend::ArenaScope;
using cuda_backend::Stream;
using cuda_backend::StreamScope;
using test::message_of;
using Catch::Matchers::Contains;

namespace {

constexpr std::size_t usual_limit = std::size_t{1} << 30;
Tensor on_cuda(std::int64_t n, Dtype t = f32) { return zeros({n}, {.dtype = t, .device = cuda}); }

__global__ void add_one_kernel(float* y, int n) {
  cuda_backend::wait_for_previous_kernel();
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] += 1;
}

}  // namespace

TEST_CASE("when memory runs out the message says what was asked for, used, cached and free, and work goes on") {
  empty_cache(cuda);
  cuda_shim::set_memory_limit(cuda_shim::device_bytes() + (1 << 20));
  const Tensor kept = on_cuda(1000);
  const std::string message = message_of([] { on_cuda(1 << 20); });
  CHECK_THAT(message, Contains("out of memory on cuda:0: asked for 4194304 bytes"));
  CHECK_THAT(message, Contains("in use by tensors") && Contains("cached") && Contains("free"));
  CHECK(on_cuda(1000).to_vector<float>() == std::vector<float>(1000, 0));
  cuda_shim::set_memory_limit(usual_limit);
  CHECK(on_cuda(1 << 20).numel() == 1 << 20);
}

TEST_CASE("what is cached is given back before memory is said to have run out") {
  empty_cache(cuda);
  cuda_shim::set_memory_limit(cuda_shim::device_bytes() + (1 << 20));
  { const Tensor first = on_cuda(150'000); }  // 600 kB, now cached
  CHECK(memory_stats(cuda).reserved >= 600'000);
  CHECK(on_cuda(220'000).numel() == 220'000);  // 880 kB: fits only without the other
  cuda_shim::set_memory_limit(usual_limit);
  empty_cache(cuda);
  CHECK(memory_stats(cuda).reserved == memory_stats(cuda).allocated);
}

TEST_CASE("where there is no memory to compare ways the first does the work, once, and nothing is measured") {
  constexpr std::int64_t n = 500'000;  // 2 MB fill a segment of the allocator
  const auto [adds, room] = GENERATE(std::pair{false, 1 << 20}, std::pair{true, 1 << 20}, std::pair{true, 2 << 20});
  CAPTURE(adds, room);  // the third case has room for what is to be put back, and for no copy of a result
  const Tensor c = on_cuda(n);
  bool compared = false;
  const cuda_backend::Way first{"first", [&, adds = adds] {
                                  Tensor to = c;
                                  adds ? to.add_(1.0) : to.fill_(1);
                                  return true;
                                }};
  const cuda_backend::Way second{"second", [&] { return compared = true; }};
  const View result = c.view();
  empty_cache(cuda);
  cuda_shim::set_memory_limit(cuda_shim::device_bytes() + static_cast<std::size_t>(room));
  const auto found = cuda_backend::find_fastest("scarce memory", std::array{first, second},
                                                {std::span(&result, 1), adds},
                                                [&](const cuda_backend::Way&) { return compared = true, 1.0f; });
  cuda_shim::set_memory_limit(usual_limit);
  CHECK(found.way == 0);
  CHECK_FALSE(found.measured);
  CHECK_FALSE(compared);
  CHECK(c.to_vector<float>() == std::vector<float>(n, 1));
}

TEST_CASE("a repeated step asks the device for no memory") {
  const auto step = [] { return (on_cuda(1000) + 1.0).sum().item(); };
  step();
  const MemoryStats before = memory_stats(cuda);
  for (int i = 0; i < 5; ++i) CHECK(step() == 1000);
  CHECK(memory_stats(cuda).system_calls == before.system_calls);
  CHECK(memory_stats(cuda).allocated == before.allocated);
}

TEST_CASE("a block freed on one stream does not serve another") {
  void* block = nullptr;
  {
    const Tensor t = on_cuda(5000);
    block = t.raw_data();
  }
  Stream other;
  {
    const StreamScope scope(other.get());
    CHECK(on_cuda(5000).raw_data() != block);
    other.wait();
  }
  CHECK(on_cuda(5000).raw_data() == block);
}

TEST_CASE("of blocks that wait for a busy stream only the first is asked for") {
  DeviceStream side(cuda);
  cuda_shim::set_late(true, 3);
  for (int i = 0; i < 50; ++i) {
    const Tensor x = on_cuda(100);
    side.wait(current_stream(cuda));
    {
      const OnStream scope(side);
      (void)(x + 1.0);
    }
    record_stream(x, side);
  }
  const cuda_shim::CallCounter counter;
  const Tensor y = on_cuda(100);
  CHECK(counter.calls.at("cudaEventQuery") < 10);
  cuda_shim::set_late(false);
  const Tensor frees_the_blocks = on_cuda(1);
}

TEST_CASE("an arena keeps its blocks to itself, and tensors may outlive it") {
  std::optional<Tensor> survivor;
  {
    Arena arena;
    const MemoryStats before = memory_stats(cuda);
    {
      const ArenaScope scope(arena);
      survivor = on_cuda(3000);
    }
    CHECK(arena.stats().allocated >= 12'000);
    CHECK(memory_stats(cuda).allocated == before.allocated + arena.stats().allocated);
    CHECK(memory_stats(cuda).reserved == before.reserved + arena.stats().reserved);
  }
  CHECK(survivor->add_(on_cuda(3000), 1).to_vector<float>()[2999] == 0);
}

TEST_CASE("an index out of range is thrown when the host waits, once, and the process goes on") {
  const Tensor x = arange(12, {.dtype = f32, .device = cuda}),
               index = from_data<std::int64_t>(std::vector<std::int64_t>{3, 77}, {2}).to(cuda);
  const Tensor y = gather(x, 0, index);
  CHECK_THAT(message_of([&] { y.sum().item(); }), Contains("index 77 is out of range for a dimension of size 12"));
  CHECK(x.sum().item() == 66);
}

TEST_CASE("elements survive the way to the device and back, in every dtype and layout") {
  for (Dtype t : {f64, f32, f16, bf16, i64, i32, u8, boolean}) {
    for (const Dims& sizes : {Dims{}, Dims{1}, Dims{7, 5}, Dims{0, 3}, Dims{3, 1, 33}}) {
      const Tensor x = cast(test::random_tensor(sizes, 5) * 3.0, t);
      INFO(describe(x));
      CHECK(test::same_bits(x.to(cuda).to(cpu), x));
      if (x.dim() < 2) continue;
      const Tensor turned = transpose(x, 0, 1);
      CHECK(test::same_bits(turned.to(cuda).to(cpu), turned.contiguous()));
      CHECK(test::same_bits(transpose(x.to(cuda), 0, 1).to(cpu), turned.contiguous()));
      CHECK(test::same_bits(cast(transpose(x.to(cuda), 0, 1), f32).to(cpu), cast(turned, f32)));
      Tensor part = zeros({sizes[0], sizes.rank() > 2 ? sizes[1] : sizes[1] * 2}, {.dtype = t, .device = cuda});
      if (sizes.rank() > 2 || sizes[0] == 0) continue;
      Tensor view = slice(part, 1, 0, INT64_MAX, 2);
      view.copy_(x);
      CHECK(test::same_bits(slice(part.to(cpu), 1, 0, INT64_MAX, 2).contiguous(), x));
    }
  }
}

TEST_CASE("gradients travel back through to(device)") {
  Tensor x = test::random_tensor({4, 3}, 9);
  x.requires_grad_();
  (x.to(cuda) * 2.0).sum().backward();
  CHECK(x.grad().device() == cpu);
  CHECK(x.grad().to_vector<double>() == std::vector<double>(12, 2));
}

TEST_CASE("a number of the host stands beside tensors of the device") {
  const Tensor x = ones({3}, {.device = cuda}), number = scalar(2.5);
  CHECK((x * number).to_vector<float>() == std::vector<float>(3, 2.5f));
  CHECK((number - x).device() == cuda);
  CHECK_THAT(message_of([&] { x + ones({3}); }), Contains("inputs are on different devices (cuda:0, cpu)"));
}

TEST_CASE("both devices draw the same random numbers") {
  for (const std::int64_t n : {0, 1, 5, 1000}) {
    manual_seed(5);
    const Tensor u = rand({n}), i = randint(-3, 100, {n}), z = randn({n}, {.dtype = f64});
    manual_seed(5);
    CHECK(test::same_bits(rand({n}, {.device = cuda}).to(cpu), u));
    CHECK(test::same_bits(randint(-3, 100, {n}, {.dtype = i64, .device = cuda}).to(cpu), i));
    CHECK(test::difference(randn({n}, {.dtype = f64, .device = cuda}), z, {1e-12, 1e-12}) == "");
  }
}

TEST_CASE("a machine without a GPU says so, and auto is the cpu") {
  cuda_shim::set_device_count(0);
  CHECK(!cuda_is_available());
  CHECK(parse_device("auto") == cpu);
  CHECK_THAT(message_of([] { parse_device("cuda"); }), Contains("no GPU can be used: cudaErrorNoDevice"));
  cuda_shim::set_device_count(1);
  CHECK(parse_device("auto") == cuda);
  CHECK(parse_device("cuda:0") == cuda);
  CHECK_THAT(message_of([] { parse_device("cuda:1"); }), Contains("this machine has 1 GPU"));
  CHECK_THAT(message_of([] { parse_device("cuda:x"); }), Contains("must be cpu, cuda, cuda:N or auto"));
  CHECK_THAT(message_of([] { zeros({2}, {.device = cuda(5)}); }), Contains("there is no device cuda:5"));
}

TEST_CASE("a machine without a driver, or with one that is too old, says which of the two it is") {
  cuda_shim::set_driver_version(0);
  CHECK(parse_device("auto") == cpu);
  CHECK_THAT(message_of([] { parse_device("cuda"); }), Contains("no GPU can be used: there is no NVIDIA driver"));
  cuda_shim::set_driver_version(12040);
  CHECK(parse_device("auto") == cpu);
  CHECK_THAT(message_of([] { parse_device("cuda"); }),
             Contains("the driver supports CUDA 12.4 and this build needs 13.0: update the driver"));
  cuda_shim::set_driver_version(13000);
  CHECK(parse_device("auto") == cuda);
}

TEST_CASE("two devices: tensors stay where they are, copies go between them") {
  cuda_shim::set_device_count(2);
  // asked for while the other one is current: its stream is its own all the same
  CHECK(memory_stats(cuda(1)).allocated == 0);
  const Tensor a = full({4}, 3, {.device = cuda}), b = full({4}, 4, {.device = cuda(1)});
  CHECK_THAT(message_of([&] { a + b; }), Contains("different devices (cuda:0, cuda:1)"));
  CHECK((a.to(cuda(1)) + b).to_vector<float>() == std::vector<float>(4, 7));
  CHECK((a + b.to(cuda)).device() == cuda);
  optim::Swa swa(std::vector<Tensor>{a, b});
  swa.update();
  Tensor(a).fill_(5), Tensor(b).fill_(8);
  swa.update();
  CHECK(swa.average(0).to_vector<float>() == std::vector<float>(4, 4));
  CHECK(swa.average(1).device() == cuda(1));
  CHECK(swa.average(1).to_vector<float>() == std::vector<float>(4, 6));
  cuda_shim::set_device_count(1);
}

TEST_CASE("after an error that the process cannot survive, the first report tells the truth and later ones are short") {
  const Tensor x = on_cuda(8);
  synchronize(cuda);
  cuda_shim::fail_next_launch(cudaErrorIllegalAddress);
  CHECK_THAT(message_of([&] { x + 1.0; }),
             Contains("cudaErrorIllegalAddress") && Contains("the process has lost its GPU"));
  CHECK_THAT(message_of([&] { synchronize(cuda); }),
             Contains("the GPU was lost to an earlier error of this process; restart it"));
  cuda_shim::forget_errors();
}

TEST_CASE("a kernel that needs more shared memory than the GPU has says how much, and work goes on") {
  const auto gradient = [](Dtype t) {
    const Tensor x = ones({1, 1, 8, 256}, {.dtype = t, .device = cuda, .requires_grad = true});
    return grad({scaled_dot_product_attention(x, ones_like(x), ones_like(x)).sum()}, {x})[0].to_vector<double>();
  };
  const std::vector<double> expected(8 * 256, 0);
  cuda_shim::set_shared_limit(48 * 1024);  // of no GPU that we know
  CHECK_THAT(message_of([&] { gradient(f32); }),
             Contains("attention: a block of this kernel needs ") &&
                 Contains(" KiB of shared memory, and cuda:0 has 48 KiB; f16 or bf16"));
  CHECK(on_cuda(1000).to_vector<float>() == std::vector<float>(1000, 0));
  cuda_shim::set_shared_limit(99 * 1024);  // sm_86, sm_89, sm_120
  CHECK(gradient(f64) == expected);  // by separate operators
  CHECK(gradient(f32) == expected);  // in smaller tiles
  for (const Dtype t : {f16, bf16}) {
    CHECK(gradient(t) == expected);
    CHECK(amp::autocast(t, [&] { return gradient(f32); }) == expected);
  }
  cuda_shim::set_shared_limit(227 * 1024);
  CHECK(gradient(f32) == expected);
}

TEST_CASE("reading a tensor counts as a host read; computing does not") {
  const Tensor x = on_cuda(100);
  const std::uint64_t before = host_reads();
  const Tensor y = (x + 1.0).sum();
  CHECK(host_reads() == before);
  CHECK(y.item() == 100);
  CHECK(host_reads() == before + 1);
}

TEST_CASE("launches of more than 2^31 elements are cut into parts that cover each element once") {
  View y;
  y.device = cuda;
  y.sizes = {3, std::int64_t{1} << 30, 2};
  y.strides = contiguous_strides(y.sizes);
  View x = y;
  x.strides = {0, 2, 1};  // repeats along the first dimension
  const View* inputs[] = {&x};
  struct Seen { std::int64_t elements = 0, parts = 0, end = 0; } seen;
  cuda_backend::for_indexable_parts(
      cuda_backend::plan_elementwise(y, inputs),
      [](const void* state, const cuda_backend::ElementwiseLoop& part) {
        Seen& s = *const_cast<Seen*>(static_cast<const Seen*>(state));
        const std::int64_t n = numel_of(part.sizes);  // of a result that begins at address 0
        const auto at =
            static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(part.operand[0].data) / sizeof(float));
        CHECK(n <= std::int64_t{1} << 30);
        CHECK(at == s.elements);
        s.elements += n;
        ++s.parts;
      },
      &seen);
  CHECK(seen.elements == y.numel());
  CHECK(seen.parts >= 6);
}

TEST_CASE("work that is done late gives what work done at once gives") {
  const auto compute = [] {
    Tensor w = test::random_tensor({16, 8}, 3).to(cuda), x = test::random_tensor({4, 16}, 4).to(cuda);
    w.requires_grad_();
    for (int i = 0; i < 3; ++i) {
      const Tensor loss = square(relu(matmul(x, w))).sum();
      w.set_grad({});
      loss.backward();
      const NoGrad none;
      w.add_(w.grad(), -0.01);
    }
    return w.detach().to(cpu);
  };
  const Tensor expected = compute();
  for (unsigned seed : {1u, 2u, 3u}) {
    cuda_shim::set_late(true, seed);
    CHECK(test::same_bits(compute(), expected));
  }
  cuda_shim::set_late(false);
}

TEST_CASE("asking for an event that is not reached yet is not taken for the error of a later launch") {
  const Tensor x = on_cuda(32);
  x.to_vector<float>();
  cuda_shim::set_late(true, 1);
  cuda_backend::Event event;
  cuda_backend::launch("add one", &add_one_kernel, {1, 32}, x.data<float>(), 32);
  event.record();
  CHECK(!event.reached());
  CHECK_NOTHROW(cuda_backend::launch("add one", &add_one_kernel, {1, 32}, x.data<float>(), 32));
  event.wait();
  CHECK(event.reached());
  cuda_shim::set_late(false);
}

TEST_CASE("memory that a graph may have recorded is not given back while its arena lives") {
  const std::size_t before = cuda_shim::device_bytes();
  {
    Arena arena;
    const ArenaScope scope(arena);
    { const Tensor recorded = on_cuda(1 << 20); }
    const std::size_t held = cuda_shim::device_bytes();
    CHECK_THAT(message_of([] { Tensor::allocate({std::int64_t{1} << 40}, u8, cuda); }), Contains("out of memory"));
    CHECK(cuda_shim::device_bytes() == held);
  }
  CHECK(cuda_shim::device_bytes() == before);
}

TEST_CASE("a captured graph replays what was launched, and waiting in a capture is refused") {
  const Tensor x = on_cuda(32);
  Stream side;
  const StreamScope scope(side.get());
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamBeginCapture(side.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(cuda_backend::is_capturing());
  cuda_backend::launch("add one", &add_one_kernel, {1, 32}, x.data<float>(), 32);
  CHECK_THAT(message_of([&] { x.sum().item(); }),
             Contains("a step that is captured must not copy between host and device"));
  REQUIRE(cudaStreamEndCapture(side.get(), &graph) == cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaGraphInstantiate(&exec, graph) == cudaSuccess);
  const float before = x.to_vector<float>()[0];
  for (int i = 0; i < 3; ++i) REQUIRE(cudaGraphLaunch(exec, side.get()) == cudaSuccess);
  CHECK(x.to_vector<float>()[0] == before + 3);
  cudaGraph_t another = nullptr;
  REQUIRE(cudaStreamBeginCapture(side.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(cudaGraphLaunch(exec, side.get()) == cudaErrorStreamCaptureUnsupported);
  REQUIRE(cudaStreamEndCapture(side.get(), &another) == cudaSuccess);
  cudaGraphDestroy(another);
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
}

TEST_CASE("a report that a graph is writing is not given away before it has arrived") {
  const Tensor x = on_cuda(4);
  Stream side;
  const StreamScope scope(side.get());
  cuda_backend::Graph* graph = cuda_backend::make_graph();
  cuda_backend::Mirror* mirror = cuda_backend::make_mirror(16);
  cuda_backend::begin_recording(graph, 0, 0);
  cuda_backend::request(mirror, x.raw_data());
  cuda_backend::end_recording(graph);
  cuda_shim::set_late(true, 1);
  cuda_backend::replay(graph, {}, 0, 0);
  cuda_backend::destroy_mirror(mirror);
  std::vector<void*> blocks;  // the mirror's, again
  for (int i = 0; i < 8; ++i) std::memset(blocks.emplace_back(cuda_backend::allocate_pinned(16)), 7, 16);
  side.wait();
  for (void* p : blocks) {
    CHECK(*static_cast<unsigned char*>(p) == 7);
    cuda_backend::deallocate_pinned(p, 16);
  }
  cuda_backend::destroy_graph(graph);
  cuda_shim::set_late(false);
}

TEST_CASE("a recording may use what the step has left cached") {
  Stream side;
  const StreamScope scope(side.get());
  empty_cache(cuda);
  cuda_backend::Graph* graph = cuda_backend::make_graph();
  const std::size_t limit = cuda_shim::device_bytes() + (1 << 20);
  cuda_shim::set_memory_limit(limit);
  { const Tensor as_it_is = on_cuda(150'000); }            // 600 kB, now cached
  cuda_shim::set_memory_limit(cuda_shim::device_bytes());  // what the graph itself needs fits only without the other
  cuda_backend::begin_recording(graph, 0, 0);
  cuda_shim::set_memory_limit(limit);
  CHECK_NOTHROW(on_cuda(220'000));  // 880 kB: likewise
  cuda_backend::end_recording(graph);
  cuda_backend::destroy_graph(graph);
  cuda_shim::set_memory_limit(usual_limit);
}

TEST_CASE("a replay is one call, after a launch that places its inputs and the position of random numbers") {
  Stream side;
  const StreamScope scope(side.get());
  cuda_backend::Graph* graph = cuda_backend::make_graph();
  const Tensor x = on_cuda(64);
  cuda_backend::begin_recording(graph, 5, 0);
  Tensor(x).add_(x);
  cuda_backend::end_recording(graph);
  const Tensor y = on_cuda(64), z = on_cuda(32);
  const cuda_backend::GraphInput inputs[] = {{x.raw_data(), y.raw_data(), 256}, {z.raw_data(), y.raw_data(), 128}};
  {
    const cuda_shim::CallCounter counter;
    cuda_backend::replay(graph, inputs, 5, 0);
    CHECK(counter.calls == std::map<std::string, int>{{"cudaLaunchKernel", 1}, {"cudaGraphLaunch", 1}});
  }
  CHECK(x.to_vector<float>()[63] == 2 * y.to_vector<float>()[63]);
  CHECK(z.to_vector<float>() == y.slice(0, 0, 32).to_vector<float>());
  cuda_backend::destroy_graph(graph);
}

TEST_CASE("copies of more than 16 GiB are cut while their elements are counted by their dtype") {
  View y;
  y.device = cuda, y.dtype = f16;
  y.sizes = {64, std::int64_t{1} << 28};  // 32 GiB
  y.strides = contiguous_strides(y.sizes);
  View x = y;
  x.strides[0] *= 2;  // rows of a larger tensor: no single copy of bytes
  cuda_shim::set_null_device(true);
  cuda_backend::LaunchCounter counter;
  kernels::copy(cuda, y, x);
  cuda_shim::set_null_device(false);
  CHECK(counter.of("copy") == 16);  // of 2^30 elements each, 16 bytes at a time
}

TEST_CASE("bytes that a graph's replay starts from are read before the host goes on") {
  Stream side;
  const StreamScope scope(side.get());
  cuda_backend::Graph* graph = cuda_backend::make_graph();
  const Tensor drawn = on_cuda(64);
  manual_seed(5);
  cuda_backend::begin_recording(graph, 5, 0);
  Tensor(drawn).copy_(rand({64}, {.device = cuda}));
  cuda_backend::end_recording(graph);
  cuda_backend::replay(graph, {}, 5, 0);
  const std::vector<float> first = drawn.to_vector<float>();
  cuda_shim::set_late(true, 2);
  cuda_backend::replay(graph, {}, 5, 0);
  cuda_backend::replay(graph, {}, 9, 0);  // its position lies on the stack where the first one's lay
  cuda_backend::replay(graph, {}, 5, 0);
  CHECK(drawn.to_vector<float>() == first);
  cuda_shim::set_late(false);
  cuda_backend::destroy_graph(graph);
}
