// Training on several ranks equals training on one with all of their data. Ranks are threads here.
#include "nn/data_parallel.h"

#include <cmath>
#include <cstring>

#include "amp/autocast.h"
#include "amp/grad_scaler.h"
#include "autograd/backward.h"
#include "autograd/hooks.h"
#include "autograd/pass_end.h"
#include "catch_compat.h"
#include "core/ops.h"
#include "nn/conv.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "optim/adam.h"
#include "optim/clip.h"
#include "optim/sgd.h"
#include "ranks.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using distributed::ProcessGroup;
using nn::DataParallel;

namespace {

struct Net {
  nn::Linear in{6, 33}, middle{33, 17}, out{17, 4};
  nn::BatchNorm1d norm{17};
  MANTISSA_FIELDS(in, middle, out, norm)
  Tensor operator()(const Tensor& x, bool normed = false) const {
    Tensor h = middle(tanh(in(x)));
    return out(tanh(normed ? norm(h) : h));
  }
};

// The same numbers in every rank and every run, independent of other threads' use of the default generator.
Tensor numbers(const Dims& sizes, int seed, Dtype dtype = f32) {
  std::vector<double> v(static_cast<std::size_t>(numel_of(sizes)));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = std::sin(1.7 * static_cast<double>(i) + 13.1 * seed) * 0.5;
  return from_data<double>(v, sizes).to(dtype);
}
void fill(nn::ModuleRef net, int seed) {
  const NoGrad no_grad;
  for (Tensor p : nn::parameters(net)) p.copy_(numbers(p.sizes(), seed++, f64));
}
Tensor loss_of(const Net& net, const Tensor& x, bool normed = false) {
  const Tensor y = net(x, normed);
  return mean(y * y) + mean(y * numbers({4}, 5, y.dtype()));
}
bool same_bits(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() &&
         std::memcmp(a.contiguous().raw_data(), b.contiguous().raw_data(), static_cast<std::size_t>(a.nbytes())) == 0;
}
void check_equal_everywhere(ProcessGroup& group, const std::vector<Tensor>& tensors, const char* what) {
  for (const Tensor& t : tensors) {
    const Tensor all = group.all_gather(t);
    for (int r = 1; r < group.size(); ++r)
      check(same_bits(all.select(0, 0), all.select(0, r)), what, ": ", t, " of rank ", r, " is not rank 0's");
  }
}
std::vector<Tensor> gradients(nn::ModuleRef net) {
  std::vector<Tensor> g;
  for (const Tensor& p : nn::parameters(net))
    if (p.grad().defined()) g.push_back(p.grad());
  return g;
}
void check_close(const Tensor& a, const Tensor& b, double tolerance, const char* what) {
  const double difference = max(abs(a.to(f64) - b.to(f64))).item<double>(),
               largest = max(abs(b.to(f64))).item<double>();
  check(difference <= tolerance * std::max(largest, 1e-30), what, ": off by ", difference, " of ", largest);
}

// 20 steps, gradients clipped; the parameters afterwards.
std::vector<Tensor> trained(ProcessGroup& group, const nn::DataParallelOptions& options) {
  Net net;
  fill(net, 3 + group.rank());  // rank 0's count
  DataParallel parallel(net, options, group);
  optim::Adam adam(nn::parameters(net), {.lr = 1e-2});
  for (int step = 0; step < 20; ++step) {
    backward(loss_of(net, numbers({8, 6}, 100 + step * group.size() + group.rank()), true));
    optim::clip_grad_norm_(nn::parameters(net), 0.05);
    adam.step();
    adam.zero_grad();
  }
  check_equal_everywhere(group, nn::parameters(net), "parameters after 20 steps");
  check_equal_everywhere(group, nn::buffers(net), "buffers after 20 steps");
  return nn::parameters(net);
}

constexpr double tiny = 0.25 / 1024;  // MiB: several buckets even in this model

}  // namespace

TEST_CASE("Shards give the gradients of one process on the whole batch") {
  const int ranks = GENERATE(2, 3);
  const Dtype dtype = GENERATE(f64, f32);
  const std::string error = error_of_ranks(ranks, [&](ProcessGroup& group) {
    Net whole, part;
    nn::to(whole, dtype), nn::to(part, dtype);
    fill(whole, 3);
    fill(part, 3 + 10 * group.rank());
    DataParallel parallel(part, {.bucket_mb = tiny, .first_bucket_mb = tiny, .find_unused = true}, group);
    check(parallel.buckets() > 2, "only ", parallel.buckets(), " buckets");
    const std::int64_t each = 5;
    const Tensor x = numbers({each * ranks, 6}, 77, dtype);
    for (int pass = 0; pass < 2; ++pass) {  // gradients add up as ever
      backward(loss_of(whole, x));
      backward(loss_of(part, x.slice(0, each * group.rank(), each * (group.rank() + 1))));
    }
    const std::vector<Tensor> expected = gradients(whole), found = gradients(part);
    check(expected.size() == 6 && found.size() == 6, "gradients of ", static_cast<int>(found.size()), " parameters");
    const double root = std::sqrt(static_cast<double>(each * ranks));
    for (std::size_t i = 0; i < found.size(); ++i)
      check_close(found[i], expected[i], root * (dtype == f64 ? 1e-12 : 2e-6), "a gradient");
    check_equal_everywhere(group, found, "gradients");
  });
  CHECK(error == "");
}

TEST_CASE("Ranks stay bitwise equal, whatever the buckets and whether reduction overlaps") {
  std::vector<std::vector<Tensor>> results(4);
  const std::vector<nn::DataParallelOptions> options = {{},
                                                        {.bucket_mb = tiny, .first_bucket_mb = tiny},
                                                        {.bucket_mb = tiny, .first_bucket_mb = tiny, .overlap = false},
                                                        {}};
  for (std::size_t i = 0; i < options.size(); ++i) {
    const std::string error = error_of_ranks(3, [&](ProcessGroup& group) {
      std::vector<Tensor> result = trained(group, options[i]);
      if (group.is_first()) results[i] = std::move(result);
    });
    REQUIRE(error == "");
    for (std::size_t k = 0; k < results[i].size(); ++k) CHECK(same_bits(results[i][k], results[0][k]));
  }
}

TEST_CASE("Weights that are stored channels-last get the gradients of contiguous ones") {
  struct Images {
    nn::Conv2d first{3, 8, 3}, second{8, 4, 2};
    nn::Conv3d volume{1, 2, 2};
    MANTISSA_FIELDS(first, second, volume)
    Tensor operator()(const Tensor& x) const { return volume(unsqueeze(second(tanh(first(x))), 1)); }
  };
  const auto f = [](ProcessGroup& group) {
    std::vector<Tensor> expected;
    for (const Layout layout : {Layout::contiguous, Layout::channels_last}) {
      Images net;
      fill(net, 3);
      nn::to(net, layout);
      DataParallel parallel(net, {.find_unused = true}, group);
      const bool uses_all = group.is_first();  // the last layer is unused elsewhere
      const Tensor x = numbers({2, 3, 7, 7}, 9 + group.rank());
      backward(uses_all ? mean(square(net(x))) : mean(square(net.second(tanh(net.first(x))))));
      const std::vector<Tensor> g = gradients(net);
      check(g.size() == 6, "6 gradients expected, found ", static_cast<int>(g.size()));
      check_equal_everywhere(group, g, "gradients");
      if (expected.empty()) expected = g;
      for (std::size_t i = 0; i < g.size(); ++i) check(same_bits(g[i], expected[i]), "gradient ", static_cast<int>(i));
      check(is_channels_last(g[0].sizes(), g[0].strides()) == (layout == Layout::channels_last), "the layout");
    }
  };
  CHECK(error_of_ranks(2, f) == "");
}

TEST_CASE("Compressed gradients are near, equal everywhere, and f32 where they are used") {
  const Dtype half = GENERATE(bf16, f16);
  const std::string error = error_of_ranks(2, [&](ProcessGroup& group) {
    Net plain, packed;
    fill(plain, 3), fill(packed, 3);
    const DataParallel a(plain, {.find_unused = true}, group),
        b(packed, {.find_unused = true, .compress = half}, group);
    const Tensor x = numbers({9, 6}, 70 + group.rank());
    backward(loss_of(plain, x));
    backward(loss_of(packed, x));
    const std::vector<Tensor> expected = gradients(plain), found = gradients(packed);
    for (std::size_t i = 0; i < found.size(); ++i) {
      check(found[i].dtype() == f32, "gradients are ", found[i].dtype());
      check_close(found[i], expected[i], half == bf16 ? 8e-3 : 1e-3, "a compressed gradient");
    }
    check_equal_everywhere(group, found, "compressed gradients");
    trained(group, {.compress = half});
  });
  CHECK(error == "");
}

TEST_CASE("no_sync accumulates; the pass after it reduces the sum") {
  const std::string error = error_of_ranks(2, [](ProcessGroup& group) {
    Net whole, part;
    fill(whole, 3), fill(part, 3);
    DataParallel parallel(part, {}, group);
    const auto batch = [](int rank, int i) { return numbers({4, 6}, 10 * rank + i); };
    for (int rank = 0; rank < 2; ++rank)
      for (int i = 0; i < 3; ++i) backward(loss_of(whole, batch(rank, i), true) / Tensor(2.0));
    {
      const auto local = parallel.no_sync();
      backward(loss_of(part, batch(group.rank(), 0), true));
      {
        const auto again = parallel.no_sync();
        backward(loss_of(part, batch(group.rank(), 1), true));
      }
    }
    const Tensor own = part.out.weight.grad().clone();
    const Tensor others = group.all_gather(own);
    check(!same_bits(others.select(0, 0), others.select(0, 1)), "no_sync reduces all the same");
    backward(loss_of(part, batch(group.rank(), 2), true));
    const std::vector<Tensor> expected = gradients(whole), found = gradients(part);
    for (std::size_t i = 0; i < found.size(); ++i) check_close(found[i], expected[i], 2e-5, "an accumulated gradient");
    check_equal_everywhere(group, found, "accumulated gradients");
  });
  CHECK(error == "");
}

TEST_CASE("A parameter without a gradient is an error on every rank that names it") {
  const std::vector<std::string> errors = errors_of_ranks(3, [](ProcessGroup& group) {
    Net net;
    DataParallel parallel(net, {.bucket_mb = tiny, .first_bucket_mb = tiny}, group);
    backward(loss_of(net, numbers({4, 6}, 1), group.rank() != 1));  // rank 1 leaves the norm out
  });
  for (const std::string& e : errors)
    CHECK_THAT(e, Contains("on rank 1") && Contains("norm.weight, norm.bias") && Contains("find_unused"));
}

TEST_CASE("A parameter that is frozen no more needs a new DataParallel, and is an error without") {
  for (const bool from_the_start : {true, false}) {
    const std::vector<std::string> errors = errors_of_ranks(2, [&](ProcessGroup& group) {
      Net net;
      fill(net, 3);
      if (from_the_start) net.in.weight.requires_grad_(false);
      const auto pass = [&](int i) { backward(loss_of(net, numbers({4, 6}, 10 * group.rank() + i), true)); };
      {
        DataParallel parallel(net, {.find_unused = true}, group);
        pass(0);
        net.in.weight.requires_grad_(false);
        pass(1);
        check_equal_everywhere(group, {net.in.bias.grad()}, "gradients");
      }
      net.in.weight.requires_grad_();
      DataParallel again(net, {.find_unused = true}, group);
      pass(2);
      check_equal_everywhere(group, {net.in.weight.grad(), net.in.bias.grad()}, "gradients");
      net.in.weight.requires_grad_(false);
      net.in.weight.requires_grad_();
      pass(3);
    });
    for (const std::string& e : errors) CHECK_THAT(e, Contains("in.weight") && Contains("make a new one"));
  }
}

TEST_CASE("Parameters in halves with masters are reduced in f32, thawed and unused ones among them") {
  const std::string error = error_of_ranks(2, [](ProcessGroup& group) {
    Net net;
    nn::to(net, bf16);
    fill(net, 3);
    optim::Adam adam(nn::parameters(net), {.lr = 1e-2}, {.master_weights = true});
    const auto pass = [&](int seed, bool normed) {
      backward(loss_of(net, numbers({4, 6}, 10 * group.rank() + seed, bf16), normed));
      check_equal_everywhere(group, gradients(net), "gradients");
      adam.step();
      adam.zero_grad();
      check_equal_everywhere(group, nn::parameters(net), "parameters");
    };
    {
      DataParallel parallel(net, {.find_unused = true}, group);
      pass(0, true);
      pass(1, group.rank() == 1);
    }
    net.in.weight.requires_grad_(false);
    net.in.weight.requires_grad_();  // its new node has not been told of the master yet
    DataParallel again(net, {.find_unused = true}, group);
    pass(2, true);
  });
  CHECK(error == "");
}

TEST_CASE("With find_unused they count as zeros, and what no rank uses keeps what it has") {
  const std::string error = error_of_ranks(2, [](ProcessGroup& group) {
    Net net;
    fill(net, 3);
    DataParallel parallel(net, {.bucket_mb = tiny, .first_bucket_mb = tiny, .find_unused = true}, group);
    const Tensor x = numbers({4, 6}, 1);
    backward(loss_of(net, x, group.rank() == 1));
    check_equal_everywhere(group, gradients(net), "gradients");
    Net alone;
    fill(alone, 3);
    backward(loss_of(alone, x, true));
    check_close(net.norm.weight.grad(), alone.norm.weight.grad() / Tensor(2.0), 1e-5, "half of one rank's gradient");
    nn::zero_grad(net);
    backward(loss_of(net, x));
    check(!net.norm.weight.grad().defined() && net.in.weight.grad().defined(), "nobody used the norm");
    net.norm.bias.set_grad(full({17}, 7));
    backward(loss_of(net, x));
    check(same_bits(net.norm.bias.grad(), full({17}, 7)), "a gradient that no rank computed has changed");
    backward(loss_of(net, x, true));  // and all are used again
    check_equal_everywhere(group, gradients(net), "gradients");
  });
  CHECK(error == "");
}

TEST_CASE("An overflow on one rank skips the step on all, and all scales stay the same") {
  const bool compress = GENERATE(false, true);
  const std::string error = error_of_ranks(2, [&](ProcessGroup& group) {
    Net net;
    fill(net, 3);
    DataParallel parallel(net, {.compress = compress ? std::optional(f16) : std::nullopt}, group);
    optim::Sgd sgd(nn::parameters(net), {.lr = 0.1});
    amp::GradScaler scaler({.init_scale = 1024});
    for (int step = 0; step < 4; ++step) {
      const std::vector<Tensor> before = [&] {
        std::vector<Tensor> copies;
        for (const Tensor& p : nn::parameters(net)) copies.push_back(p.detach().clone());
        return copies;
      }();
      Tensor loss = loss_of(net, numbers({4, 6}, step + 10 * group.rank()), true);
      // rank 1 overflows in step 2: in f32 the scaled loss does; with f16 in between 1e5 is enough
      if (step == 2 && group.rank() == 1) loss = loss * Tensor(compress ? 1e5 : 1e38);
      backward(scaler.scale(loss));
      const bool skipped = scaler.step(sgd).skipped();
      scaler.update();
      check(skipped == (step == 2), "step ", step, " of rank ", group.rank(),
            skipped ? " is skipped" : " is not skipped");
      check(scaler.get_scale() == (step < 2 ? 1024 : 512), "the scale of rank ", group.rank(), " is ",
            scaler.get_scale());
      const std::vector<Tensor> after = nn::parameters(net);
      bool changed = false;  // (not each: a bias in front of the norm has no gradient but what rounding leaves)
      for (std::size_t i = 0; i < after.size(); ++i) changed |= !same_bits(before[i], after[i]);
      check(changed != skipped, "step ", step, changed ? " changes" : " does not change", " parameters");
      sgd.zero_grad();
    }
    check_equal_everywhere(group, nn::parameters(net), "parameters");
  });
  CHECK(error == "");
}

TEST_CASE("Mixed precision and scaled clipping see the reduced gradients") {
  const std::string error = error_of_ranks(2, [](ProcessGroup& group) {
    Net net;
    fill(net, 3);
    DataParallel parallel(net, {}, group);
    optim::Adam adam(nn::parameters(net), {.lr = 1e-2});
    amp::GradScaler scaler({.init_scale = 256});
    for (int step = 0; step < 5; ++step) {
      const Tensor x = numbers({4, 6}, step + 10 * group.rank());
      const Tensor loss = amp::autocast(f16, [&] { return mean(pow(cast(net(x, true), f32), 2)); });
      backward(scaler.scale(loss));
      scaler.step(adam, amp::ClipNorm{0.01});
      scaler.update();
      adam.zero_grad();
    }
    check_equal_everywhere(group, nn::parameters(net), "parameters");
    check(scaler.total_skipped() == 0, "skipped");
  });
  CHECK(error == "");
}

TEST_CASE("Nets that differ between ranks are refused on all of them") {
  struct Narrow {
    nn::Linear fc{6, 4};
    MANTISSA_FIELDS(fc)
  };
  struct Wide {
    nn::Linear fc{6, 5};
    MANTISSA_FIELDS(fc)
  };
  const std::vector<std::string> errors = errors_of_ranks(3, [](ProcessGroup& group) {
    Narrow narrow;
    Wide wide;
    DataParallel parallel(group.rank() == 2 ? nn::ModuleRef(wide) : nn::ModuleRef(narrow), {}, group);
  });
  for (const std::string& e : errors)
    CHECK_THAT(e, Contains("rank 2 has fc.weight f32[5, 6] where rank 0 has fc.weight f32[4, 6]"));
}

TEST_CASE("A backward pass that fails on one rank ends the others") {
  const std::vector<std::string> errors = errors_of_ranks(2, [](ProcessGroup& group) {
    Net net;
    DataParallel parallel(net, {.bucket_mb = tiny, .first_bucket_mb = tiny}, group);
    const Tensor y = net(numbers({4, 6}, 1), true);
    if (group.rank() == 1) net.middle.weight.on_grad([](const Tensor&) { fail("the disk is full"); });
    backward(mean(y));
  });
  CHECK_THAT(errors[0], Contains("rank 1 "));
  CHECK_THAT(errors[1], Contains("the disk is full"));
}

TEST_CASE("In a run of one process it does nothing") {
  Net plain, one;
  fill(plain, 3), fill(one, 3);
  DataParallel parallel(one);
  const auto local = parallel.no_sync();
  backward(loss_of(plain, numbers({4, 6}, 1)));
  backward(loss_of(one, numbers({4, 6}, 1)));
  CHECK(same_bits(plain.in.weight.grad(), one.in.weight.grad()));
  CHECK(!one.norm.weight.grad().defined());
}

TEST_CASE("After it is gone gradients are the process's own") {
  const std::string error = error_of_ranks(2, [](ProcessGroup& group) {
    Net net;
    fill(net, 3);
    { const DataParallel parallel(net, {}, group); }
    backward(loss_of(net, numbers({4, 6}, group.rank())));
    const Tensor all = group.all_gather(net.in.weight.grad());
    check(!same_bits(all.select(0, 0), all.select(0, 1)), "still reduced");
  });
  CHECK(error == "");
}

TEST_CASE("What hooks leave for the end of backward runs once, when all leaves are done, and not after an error") {
  Tensor a = ones({2}, {.requires_grad = true}), b = ones({2}, {.requires_grad = true});
  int calls = 0;
  bool b_done = false;
  std::uint64_t number = 0;
  on_accumulated(a, [&](const Tensor&) {
    number = autograd::backward_number();
    autograd::at_end_of_backward([&] {
      ++calls;
      b_done = b.grad().defined();
    });
  });
  backward(sum(a * b));
  CHECK(calls == 1);
  CHECK(b_done);
  const std::uint64_t first = number;
  backward(sum(a * b));
  CHECK(calls == 2);
  CHECK(number != first);
  CHECK(autograd::backward_number() == 0);
  b = ones({2}, {.requires_grad = true});
  Tensor c = ones({2}, {.requires_grad = true});
  c.on_grad([](const Tensor&) { fail("no"); });
  CHECK_THROWS_WITH(backward(sum(a) + sum(c * c)), Contains("no"));
  CHECK_THROWS_WITH(autograd::at_end_of_backward([] {}), Contains("for hooks"));
  CHECK(calls == 2);
}
