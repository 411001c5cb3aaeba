// Optimizers whose state is sharded between ranks (MemoryOptions::shard): the same bits as without sharding, less
// memory. Ranks are threads here.
#include <cmath>
#include <cstring>
#include <functional>

#include "amp/autocast.h"
#include "amp/grad_scaler.h"
#include "autograd/backward.h"
#include "catch_compat.h"
#include "core/allocator.h"
#include "core/ops.h"
#include "nn/data_parallel.h"
#include "nn/linear.h"
#include "optim/adafactor.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/schedules.h"
#include "optim/sgd.h"
#include "ranks.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using distributed::ProcessGroup;

namespace {

struct Net {
  nn::Linear in{6, 33}, middle{33, 17}, out{17, 4};
  MANTISSA_FIELDS(in, middle, out)
  Tensor operator()(const Tensor& x) const { return out(tanh(middle(tanh(in(x))))); }
};

// The same numbers in every rank and every run, independent of other threads' use of the default generator.
Tensor numbers(const Dims& sizes, int seed, Dtype dtype = f32) {
  std::vector<double> v(static_cast<std::size_t>(numel_of(sizes)));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = std::sin(1.7 * static_cast<double>(i) + 13.1 * seed) * 0.5;
  return from_data<double>(v, sizes).to(dtype);
}
void fill(const Net& net) {
  const NoGrad no_grad;
  int seed = 0;
  for (Tensor p : nn::parameters(net)) p.copy_(numbers(p.sizes(), seed++, f64));
}
void check_same(const NamedTensors& a, const NamedTensors& b, const char* what) {
  check(a.size() == b.size(), what, ": ", a.size(), " entries instead of ", b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Tensor x = a[i].second.contiguous(), y = b[i].second.contiguous();
    check(a[i].first == b[i].first && x.sizes() == y.sizes() && x.dtype() == y.dtype() &&
              std::memcmp(x.raw_data(), y.raw_data(), static_cast<std::size_t>(x.nbytes())) == 0,
          what, ": ", a[i].first, " differs from ", b[i].first);
  }
}

using Make = std::function<std::unique_ptr<optim::Optimizer>(const Net&, optim::MemoryOptions)>;
using Train = std::function<void(const Net&, optim::Optimizer&, int step, ProcessGroup&)>;

void backward_of(const Net& net, int step, const ProcessGroup& group) {  // another batch for each rank
  const Tensor y = net(numbers({5, 6}, 100 * step + group.rank(), net.in.weight.dtype()));
  backward(mean(square(y)) + mean(y));
}
void plain_step(const Net& net, optim::Optimizer& opt, int step, ProcessGroup& group) {
  backward_of(net, step, group);
  opt.step();
  opt.zero_grad();
}

// Two models side by side, one with the whole state in every rank.
void compare(ProcessGroup& group, const Make& make, const Train& train, Dtype dtype = f32, bool masters = false) {
  const Net whole, cut;
  for (const Net* net : {&whole, &cut}) fill(*net), nn::to(*net, dtype);
  const nn::DataParallel first(whole, {}, group), second(cut, {}, group);
  const auto a = make(whole, {.master_weights = masters});
  const auto b = make(cut, {.master_weights = masters, .shard = &group});
  for (int step = 0; step < 6; ++step) {
    train(whole, *a, step, group);
    train(cut, *b, step, group);
    check_same(nn::state_dict(cut), nn::state_dict(whole), "parameters");
  }
  check_same(b->state_dict(), a->state_dict(), "state");
}

const Make make_adam = [](const Net& net, optim::MemoryOptions memory) {
  auto opt = std::make_unique<optim::AdamW>(nn::parameters(net.in), optim::AdamWOptions{.lr = 1e-2}, memory);
  opt->add_group(nn::parameters(net.middle), {.lr = 3e-2});
  opt->add_group(nn::parameters(net.out), {});
  return opt;
};

}  // namespace

TEST_CASE("a state that is cut up between ranks gives the bits of a whole one") {
  const int ranks = GENERATE(1, 2, 3, 5);
  const std::string error = error_of_ranks(ranks, [](ProcessGroup& group) {
    compare(group, make_adam, plain_step);
    compare(
        group,
        [](const Net& net, optim::MemoryOptions memory) {
          return std::make_unique<optim::Sgd>(nn::parameters(net), optim::SgdOptions{.lr = 0.1, .momentum = 0.9},
                                              memory);
        },
        plain_step);
    compare(  // made of operators; its states have other sizes than the parameters
        group,
        [](const Net& net, optim::MemoryOptions memory) {
          return std::make_unique<optim::Adafactor>(nn::parameters(net), optim::AdafactorOptions{}, memory);
        },
        plain_step);
    compare(group, make_adam, plain_step, bf16, true);  // masters, too
    compare(group, make_adam, plain_step, bf16);
    compare(  // states in bf16 are rounded by draws that depend on nothing else
        group,
        [](const Net& net, optim::MemoryOptions memory) {
          memory.state_dtype = bf16;
          return std::make_unique<optim::Adam>(nn::parameters(net), optim::AdamOptions{}, memory);
        },
        plain_step);
    compare(group, make_adam, [](const Net& net, optim::Optimizer& opt, int step, ProcessGroup& g) {
      backward_of(net, step, g);
      optim::clip_grad_norm_(nn::parameters(net), 0.1);
      opt.set_lr(0.01 / (step + 1));
      opt.step();
      opt.zero_grad();
    });
  });
  CHECK(error == "");
}

TEST_CASE("a state of channels-last weights is cut up like that of contiguous ones") {
  const std::string error = error_of_ranks(2, [](ProcessGroup& group) {
    const auto weights = [] {
      NamedTensors w;
      for (int i = 0; i < 3; ++i)
        w.emplace_back(concat("w", i), channels_last(numbers({4, 3, 2, 5}, i)).requires_grad_());
      return w;
    };
    const NamedTensors whole = weights(), cut = weights();
    optim::Adam a(whole, {.lr = 0.1}), b(cut, {.lr = 0.1}, {.shard = &group});
    for (int step = 0; step < 4; ++step) {
      for (std::size_t i = 0; i < cut.size(); ++i) {
        const Tensor g = numbers({4, 3, 2, 5}, 10 * step + static_cast<int>(i));
        Tensor(whole[i].second).set_grad(channels_last(g));
        Tensor(cut[i].second).set_grad(step % 2 == 0 ? g : channels_last(g));
      }
      a.step(), b.step();
      check_same(cut, whole, "parameters");
    }
    check_same(b.state_dict(), a.state_dict(), "state");
  });
  CHECK(error == "");
}

TEST_CASE("a loss scaler skips the steps of a cut state in all ranks") {
  const std::string error = error_of_ranks(3, [](ProcessGroup& group) {
    std::unique_ptr<amp::GradScaler> scalers[2];
    for (auto& s : scalers) s = std::make_unique<amp::GradScaler>(amp::GradScalerOptions{.init_scale = 1024});
    int calls = 0;
    compare(group, make_adam, [&](const Net& net, optim::Optimizer& opt, int step, ProcessGroup& g) {
      amp::GradScaler& scaler = *scalers[calls++ % 2];
      const Tensor loss = amp::autocast(f16, [&] {
        const Tensor y = net(numbers({5, 6}, 100 * step + g.rank()));
        return mean(square(y.to(f32)));
      });
      const double factor = step == 3 && g.rank() == 1 ? INFINITY : 1;  // an overflow in one rank
      backward(scaler.scale(loss) * factor);
      const bool skipped = scaler.step(opt).skipped();
      check(skipped == (step == 3), "step ", step, " was ", skipped ? "" : "not ", "skipped");
      scaler.update();
      opt.zero_grad();
    });
  });
  CHECK(error == "");
}

TEST_CASE("a cut state is saved and loaded as a whole one, also by another number of ranks") {
  NamedTensors saved, parameters, later;
  const auto train = [&](int ranks, bool shard, bool resumed, int steps) {
    return error_of_ranks(ranks, [&](ProcessGroup& group) {
      const Net net;
      fill(net);
      const nn::DataParallel parallel(net, {}, group);
      const auto opt = make_adam(net, {.shard = shard ? &group : nullptr});
      if (resumed) {
        nn::load_state_dict(net, parameters);
        opt->load_state_dict(saved);
      }
      for (int step = 0; step < steps; ++step) {  // the same batch in all ranks: their number does not matter
        const Tensor y = net(numbers({5, 6}, step + (resumed ? 3 : 0)));
        backward(mean(square(y)));
        opt->step();
        opt->zero_grad();
      }
      const NamedTensors state = opt->state_dict();  // all ranks make this call
      if (!group.is_first()) return;
      if (steps == 3 && !resumed) saved = state, parameters = nn::state_dict(net);
      else if (later.empty()) later = nn::state_dict(net);
      else check_same(nn::state_dict(net), later, "after resuming");
    });
  };
  CHECK(train(1, false, false, 7) == "");  // in one go
  CHECK(train(4, true, false, 3) == "");
  CHECK(train(4, true, true, 4) == "");
  CHECK(train(2, true, true, 4) == "");
  CHECK(train(1, false, true, 4) == "");
}

TEST_CASE("each rank holds its share of a cut state") {
  const int ranks = 4;
  std::vector<std::int64_t> bytes(ranks);
  const std::string error = error_of_ranks(ranks, [&](ProcessGroup& group) {
    const Net net;
    fill(net);
    const nn::DataParallel parallel(net, {}, group);
    group.barrier();
    if (group.rank() > 0) group.receive(empty({1}), group.rank() - 1);  // one after another: memory is counted for all
    const std::int64_t before = memory_stats(cpu).allocated;
    const auto opt = make_adam(net, {.shard = &group});
    bytes[static_cast<std::size_t>(group.rank())] = memory_stats(cpu).allocated - before;
    if (group.rank() + 1 < ranks) group.send(zeros({1}), group.rank() + 1);
    group.barrier();
  });
  CHECK(error == "");
  const Net net;
  const std::int64_t before = memory_stats(cpu).allocated;
  const auto opt = make_adam(net, {});
  const std::int64_t whole = memory_stats(cpu).allocated - before;
  std::int64_t sum = 0;
  for (const std::int64_t n : bytes) {
    CHECK(static_cast<double>(n) < 0.7 * static_cast<double>(whole));
    sum += n;
  }
  CHECK(sum < 2 * whole);
}
