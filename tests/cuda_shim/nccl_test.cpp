// Tensors of processes that have a GPU each: from GPU to GPU (core/device_link.h, io/device_collectives.h) they get the
// same bits as through host memory, and who is left learns which rank has failed.
#include <cstring>

#include "autograd/backward.h"
#include "core/ops.h"
#include "core/random.h"
#include "jit/capture.h"
#include "nn/data_parallel.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sync_batch_norm.h"
#include "optim/sgd.h"
#include "tests/cuda_shim/shim.h"
#include "tests/ranks.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using namespace mantissa::distributed;
using Catch::Matchers::Contains;
using Strings = std::vector<std::string>;

namespace {

constexpr int ranks = 3;

// This rank's GPU.
Device take_gpu(const ProcessGroup& group) {
  cuda_shim::set_device_count(4);
  return cuda(group.rank());
}

// Of this rank, on the CPU. Halves and floats of both signs; a NaN now and then.
Tensor input_of(int rank, const Dims& sizes, Dtype dtype) {
  RngState at{.seed = 5, .offset = static_cast<std::uint64_t>(rank) << 32};
  const RandomScope random(at);
  const Tensor x = randn(sizes) * 7.0;
  if (dtype == boolean) return x > 0.0;
  if (!is_floating(dtype)) return cast(abs(x), dtype);
  return cast(where(x > 20.0, full({}, NAN), x), dtype);
}

// What all operations give on a device.
std::vector<Tensor> results(ProcessGroup& g, Device device, const Dims& sizes, Dtype dtype) {
  std::vector<Tensor> all;
  const auto input = [&](const Dims& s) { return input_of(g.rank(), s, dtype).to(device); };
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min}) {
    if (dtype == boolean ? op == ReduceOp::sum || op == ReduceOp::mean : op == ReduceOp::mean && !is_floating(dtype))
      continue;
    const Tensor x = input(sizes), y = input({2, 5}), z = transpose(input({4, 3}));
    g.all_reduce(x, op);
    all.push_back(x);
    const Tensor several[] = {y, x, z};
    g.all_reduce(several, op);
    all.insert(all.end(), std::begin(several), std::end(several));
    Dims whole = sizes;
    whole.insert(0, 2 * g.size());
    all.push_back(g.reduce_scatter(input(whole), op));
    const Tensor at_one = input(sizes);
    g.reduce(at_one, op, 1);
    all.push_back(at_one);
  }
  const Tensor x = input(sizes), y = input({6});
  const Tensor several[] = {x, y};
  g.broadcast(several, 1);
  all.insert(all.end(), {x, y});
  all.push_back(g.all_gather(input(sizes)));
  if (const Tensor at_two = g.gather(input(sizes), 2); at_two.defined()) all.push_back(at_two);
  Dims parts = sizes;
  parts.insert(0, g.size());
  all.push_back(g.all_to_all(input(parts)));
  const Tensor part = input(sizes);
  g.scatter(part, g.rank() == 2 ? input(parts) : Tensor(), 2);
  all.push_back(part);
  const int next = (g.rank() + 1) % g.size(), before = (g.rank() + 2) % g.size();
  const Tensor came = input(sizes), also = input({2});
  const ProcessGroup::Message sends[] = {{input(sizes), next}, {input({2}), next}};
  const ProcessGroup::Message receives[] = {{came, before}, {also, before}};
  g.exchange(sends, receives);
  all.insert(all.end(), {came, also});
  for (const Tensor& t : all) check(t.device() == device, t, " is not on ", device);
  return all;
}

std::string difference(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
  if (found.size() != expected.size()) return "another number of results";
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Tensor a = found[i].to(cpu).contiguous(), b = expected[i].to(cpu).contiguous();
    if (a.sizes() != b.sizes() || std::memcmp(a.raw_data(), b.raw_data(), static_cast<std::size_t>(a.nbytes())) != 0)
      return concat("result ", static_cast<std::int64_t>(i), ": ", a, " instead of ", b);
  }
  return "";
}

struct Net {
  nn::Linear in{6, 9}, out{9, 4};
  nn::BatchNorm1d norm{9};
  MANTISSA_FIELDS(in, out, norm)
  Tensor operator()(const Tensor& x) const { return out(tanh(norm(in(x)))); }
};
std::vector<Tensor> train(ProcessGroup& group, Device device, const nn::DataParallelOptions& options) {
  manual_seed(3 + static_cast<std::uint64_t>(group.rank()));
  Net net;
  nn::to(net, device);
  nn::sync_batch_norm(net, group);
  nn::DataParallel parallel(net, options, group);
  optim::Sgd sgd(nn::parameters(net), {.lr = 0.1, .momentum = 0.9}, {.shard = &group});
  for (int step = 0; step < 3; ++step) {
    backward(mean(pow(net(randn({8, 6}).to(device)), 2)));
    sgd.step();
    sgd.zero_grad();
  }
  std::vector<Tensor> state = nn::parameters(net);
  for (const Tensor& b : nn::buffers(net)) state.push_back(b);
  return state;
}

}  // namespace

TEST_CASE("From GPU to GPU all operations give the bits that they give through host memory") {
  const Strings errors = errors_of_processes(ranks, [](ProcessGroup& g) {
    const Device gpu = take_gpu(g);
    check(g.reaches(gpu) && g.reaches(cpu), "the GPUs are not connected");
    for (const Dtype dtype : {f32, f16, bf16, f64, i64, i32, u8, boolean}) {
      for (const Dims& sizes : {Dims{}, Dims{0}, Dims{5, 3}, Dims{130, 300}}) {
        if (sizes.rank() == 2 && sizes[0] == 130 && dtype != f32 && dtype != f16) continue;  // in segments
        const std::vector<Tensor> found = results(g, gpu, sizes, dtype), expected = results(g, cpu, sizes, dtype);
        const std::string text = difference(found, expected);
        check(text.empty(), dtype, sizes, ": ", text);
      }
    }
  });
  CHECK(errors == Strings(ranks));
}

TEST_CASE("A net trains to the same bits from GPU to GPU and through host memory, also in subgroups") {
  const auto trained = [](ProcessGroup& g, Device gpu, const nn::DataParallelOptions& options) {
    const std::vector<Tensor> found = train(g, gpu, options);
    std::vector<Tensor> on_host;
    for (const Tensor& t : found) on_host.push_back(t.to(cpu).contiguous());
    for (Tensor& t : on_host) {  // as the other ranks have it
      const Tensor first = t.clone();
      g.broadcast(first);
      check(difference({t}, {first}).empty(), "ranks differ");
    }
    return on_host;
  };
  const Strings errors = errors_of_processes(ranks, [&](ProcessGroup& g) {
    const Device gpu = take_gpu(g);
    const auto pair = g.split(g.rank() == 1 ? -1 : 0);
    for (const bool overlap : {true, false}) {
      for (const std::optional<Dtype> compress : {std::optional<Dtype>(), std::optional(bf16)}) {
        const nn::DataParallelOptions o{
            .bucket_mb = 1e-4, .first_bucket_mb = 1e-4, .compress = compress, .overlap = overlap};
        // A group whose first question about its GPU was denied goes through host memory.
        const auto through_host = g.split(0);
        cuda_shim::fail_next_call("ncclGetVersion", 1);
        check(!through_host->reaches(gpu), "connected without NCCL");
        const std::vector<Tensor> directly = trained(g, gpu, o), otherwise = trained(*through_host, gpu, o);
        const std::string text = difference(directly, otherwise);
        check(text.empty(), text);
      }
    }
    check(g.reaches(gpu), "the GPUs are not connected");
    if (pair) {
      trained(*pair, gpu, {});
      check(pair->reaches(gpu), "the GPUs of the pair are not connected");
    }
  });
  CHECK(errors == Strings(ranks));
}

TEST_CASE("What another thread exchanges has been computed, however late the GPU is") {
  const Strings errors = errors_of_processes(ranks, [](ProcessGroup& g) {
    const Device gpu = take_gpu(g);
    check(g.reaches(gpu), "the GPUs are not connected");
    cuda_shim::set_late(true);
    const Tensor x = full({400}, g.rank() + 1.0, {.device = gpu});
    for (int i = 0; i < 5; ++i) {
      const Tensor y = x * 2.0 + 1.0, z = x - 1.0;
      g.start_all_reduce({y, z}).wait();
      check(all(y == 15.0).item<bool>() && all(z == 3.0).item<bool>(), "the sums are ", y, " and ", z);
      const Tensor last = x + 3.0;
      g.start_all_reduce({last}).wait();
      check(all(last == 15.0).item<bool>(), "the sum is ", last);
    }
    cuda_shim::set_late(false);
  });
  CHECK(errors == Strings(ranks));
}

TEST_CASE("Through host memory: two ranks with one GPU, or NCCL unwanted") {
  const Strings shared = errors_of_processes(2, [](ProcessGroup& g) {
    const Tensor x = full({5}, g.rank() + 1.0, {.device = cuda});
    check(!g.reaches(cuda), "connected to itself");
    g.all_reduce(x);
    check(x.to_vector<double>() == std::vector<double>(5, 3.0), "the sum is ", x);
  });
  CHECK(shared == Strings(2));
  const Strings unwanted = errors_of_processes(
      2,
      [](ProcessGroup& g) {
        check(!g.reaches(take_gpu(g)), "connected");
        // Then one rank may be on a GPU and another on the CPU.
        const Tensor x = full({5}, g.rank() + 1.0, {.device = g.is_first() ? cpu : cuda(1)});
        g.all_reduce(x);
        check(x.to_vector<double>() == std::vector<double>(5, 3.0), "the sum is ", x);
      },
      [](GroupOptions& o) { o.nccl = false; });
  CHECK(unwanted == Strings(2));
}

TEST_CASE("Between GPUs, too, ranks that make different calls are told") {
  const Strings errors = errors_of_processes(2, [](ProcessGroup& g) {
    const Device gpu = take_gpu(g);
    g.all_reduce(ones({3}, {.device = gpu}));
    if (g.is_first()) g.all_reduce(ones({4}, {.device = gpu}));
    else g.broadcast(ones({4}, {.device = gpu}));
  });
  for (const std::string& e : errors) {
    CHECK_THAT(e, Contains("rank 0 calls all_reduce (sum) of f32[4] between GPUs"));
    CHECK_THAT(e, Contains("rank 1 calls broadcast from rank 0 of f32[4] between GPUs"));
  }
  for (const std::string& e : errors_of_processes(2, [](ProcessGroup& g) {
         const Device gpu = take_gpu(g);
         g.all_reduce(ones({3}, {.device = g.is_first() ? cpu : gpu}));
       })) {
    CHECK_THAT(e, Contains("rank 0 calls all_reduce (sum) of f32[3], but rank 1 calls the first call with a tensor on "
                           "a GPU"));
  }
  for (const std::string& e : errors_of_processes(2, [](ProcessGroup& g) {
         const Device gpu = take_gpu(g);
         g.all_reduce(ones({3}, {.device = gpu}));
         g.all_reduce(ones({3}, {.device = cuda(g.rank() + 2)}));
       })) {
    CHECK_THAT(e, Contains("this group connects cuda") && Contains("with the GPUs of other ranks, not cuda:"));
  }
}

TEST_CASE("A rank whose NCCL fails, or that goes while others wait for its GPU, is named") {
  const Strings failed = errors_of_processes(2, [](ProcessGroup& g) {
    const Device gpu = take_gpu(g);
    g.all_reduce(ones({3}, {.device = gpu}));
    if (!g.is_first()) cuda_shim::fail_next_call("ncclGroupEnd", 5);
    g.all_reduce(ones({3}, {.device = gpu}));
  });
  CHECK_THAT(failed[1], Contains("NCCL failed in an exchange between GPUs: invalid usage"));
  CHECK_THAT(failed[1], Contains("MANTISSA_NCCL=off"));
  // Whether this rank's calls had begun when the other one left is a matter of time.
  CHECK_THAT(failed[0], Contains("NCCL failed in a") && Contains(" between GPUs: "));

  // Rank 1's transfers do not end, and its process goes on for a while without the group.
  const Strings gone = errors_of_processes(2, [](ProcessGroup& g) {
    const Device gpu = take_gpu(g);
    g.all_reduce(ones({3}, {.device = gpu}));
    if (!g.is_first()) {
      cuda_shim::fail_next_call("ncclGroupEnd", 5);
      cuda_shim::fail_next_call("ncclCommAbort", 5);
    }
    try {
      g.all_reduce(ones({3}, {.device = gpu}));
    } catch (const Error&) {
      if (!g.is_first()) std::this_thread::sleep_for(std::chrono::seconds(3));
      throw;
    }
  });
  CHECK_THAT(gone[0], Contains("NCCL failed in a") && Contains(" between GPUs") && Contains("call 3 of rank 0"));

  const Strings late = errors_of_processes(
      2,
      [](ProcessGroup& g) {
        const Device gpu = take_gpu(g);
        g.all_reduce(ones({3}, {.device = gpu}));
        if (!g.is_first()) std::this_thread::sleep_for(std::chrono::seconds(7));
        g.all_reduce(ones({3}, {.device = gpu}));
      },
      [](GroupOptions& o) { o.timeout = std::chrono::seconds(5); });  // on a busy machine they need one to connect
  CHECK_THAT(late[0], Contains("rank 1"));
}

TEST_CASE("A captured step cannot exchange tensors") {
  const Strings errors = errors_of_processes(2, [](ProcessGroup& g) {
    const Tensor x = ones({3}, {.device = take_gpu(g)});
    const std::string message = message_of([&] {
      auto step = jit::capture([&](const Tensor& y) {
        g.all_reduce(y);
        return y * 2.0;
      });
      for (int i = 0; i < 3; ++i) step(x);
    });
    check(message.find("cannot exchange tensors in a step that is captured") != message.npos, "said: ", message);
  });
  CHECK(errors == Strings(2));
}
