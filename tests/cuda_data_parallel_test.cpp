// Two processes that train one model, each on its own GPU, where there are two, or on a shared one, through host
// memory.
#include <cstring>

#include "autograd/backward.h"
#include "catch_compat.h"
#include "core/ops.h"
#include "devices.h"
#include "nn/data_parallel.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/sync_batch_norm.h"
#include "optim/sgd.h"
#include "ranks.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

struct Net {
  nn::Linear in{6, 9}, out{9, 4};
  nn::BatchNorm1d norm{9};
  MANTISSA_FIELDS(in, out, norm)
  Tensor operator()(const Tensor& x) const { return out(tanh(norm(in(x)))); }
};

// The state after three steps, on the CPU.
std::vector<Tensor> train(distributed::ProcessGroup& group, Device device, bool synchronised, bool shard = false) {
  manual_seed(3 + static_cast<std::uint64_t>(group.rank()));
  Net net;
  nn::to(net, device);
  if (synchronised) nn::sync_batch_norm(net, group);
  nn::DataParallel parallel(net, {.bucket_mb = 1e-4, .first_bucket_mb = 1e-4, .find_unused = true}, group);
  optim::Sgd sgd(nn::parameters(net), {.lr = 0.1, .momentum = 0.9}, {.shard = shard ? &group : nullptr});
  for (int step = 0; step < 3; ++step) {
    const Tensor x = randn({8, 6}).to(device);
    backward(mean(pow(net(x), 2)));
    sgd.step();
    sgd.zero_grad();
  }
  std::vector<Tensor> state = nn::parameters(net);
  for (const Tensor& b : nn::buffers(net)) state.push_back(b);
  for (const Tensor& t : state) {
    const Tensor all = group.all_gather(t);
    check(all.device() == device, "gathered to ", all);
    const Tensor first = all.select(0, 0).to(cpu), other = all.select(0, 1).to(cpu);
    check(std::memcmp(first.raw_data(), other.contiguous().raw_data(), static_cast<std::size_t>(first.nbytes())) == 0,
          "ranks differ in ", t);
  }
  const Tensor x = full({5}, group.rank() + 1.0, {.device = device});
  group.all_reduce(x);
  check(x.to(cpu).to_vector<double>() == std::vector<double>(5, 3.0), "a sum of tensors on the device");
  const int other = 1 - group.rank();
  const Tensor came = zeros({2}, {.device = device});
  using Message = distributed::ProcessGroup::Message;
  const Message out{full({2}, group.rank() + 1.0, {.device = device}), other}, in{came, other};
  group.exchange(std::span(&out, 1), std::span(&in, 1));
  check(came.to(cpu).to_vector<double>() == std::vector<double>(2, other + 1.0), "a message between devices");
  const Tensor parts = group.all_to_all(stack({x, x + 1.0}));
  check(parts.device() == device && parts.to(cpu)[0][0].item() == 3 + group.rank(), "parts between devices");
  for (Tensor& t : state) t = t.detach().to(cpu);
  return state;
}

}  // namespace

TEST_CASE("Two processes on GPUs stay bitwise equal") {
  const std::vector<std::string> errors = errors_of_processes(2, [](distributed::ProcessGroup& group) {
    for (const bool synchronised : {false, true}) {
      const std::vector<Tensor> expected = train(group, cpu, synchronised);
      for (const Device device : devices()) {
        const Device own = device.is_cpu() ? cpu : cuda(group.rank() % cuda_device_count());
        const std::vector<Tensor> found = train(group, own, synchronised);
        for (std::size_t i = 0; i < found.size(); ++i)
          check(allclose(found[i], expected[i], 2e-3, 2e-3), "other than on the CPU: ", found[i]);
        const std::vector<Tensor> cut = train(group, own, synchronised, true);
        for (std::size_t i = 0; i < found.size(); ++i)
          check(equal(cut[i], found[i]), "other with a state that is cut up: ", found[i]);
      }
    }
  });
  CHECK(errors == std::vector<std::string>(2));
}
