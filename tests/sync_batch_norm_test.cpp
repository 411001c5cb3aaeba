// Batch norm over the batches of several ranks equals batch norm of one process on all of them. Ranks are threads here.
#include "nn/sync_batch_norm.h"

#include <cmath>
#include <cstring>
#include <numeric>

#include "autograd/backward.h"
#include "catch_compat.h"
#include "core/ops.h"
#include "nn/clone.h"
#include "nn/conv.h"
#include "nn/data_parallel.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "optim/sgd.h"
#include "ranks.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;
using distributed::ProcessGroup;

namespace {

// The same numbers in every rank, independent of other threads' use of the default generator.
Tensor numbers(const Dims& sizes, int seed, Dtype dtype, double shift = 0) {
  std::vector<double> v(static_cast<std::size_t>(numel_of(sizes)));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = std::sin(1.7 * static_cast<double>(i) + 13.1 * seed) + shift;
  return from_data<double>(v, sizes).to(dtype);
}
void fill(nn::BatchNorm& norm, Dtype dtype) {
  nn::to(norm, dtype);
  const NoGrad no_grad;
  norm.weight.copy_(numbers(norm.weight.sizes(), 1, f64, 1.5));
  norm.bias.copy_(numbers(norm.bias.sizes(), 2, f64));
}
void check_close(const Tensor& a, const Tensor& b, double tolerance, const char* what) {
  check(a.sizes() == b.sizes() && a.dtype() == b.dtype(), what, ": ", a, " and ", b);
  if (a.numel() == 0) return;
  const double difference = max(abs(a.to(f64) - b.to(f64))).item<double>();
  const double largest = max(abs(b.to(f64))).item<double>();
  check(difference <= tolerance * std::max(largest, 1e-30), what, ": off by ", difference, " of ", largest);
}

struct Sizes {
  std::vector<std::int64_t> batches;
};  // per rank

// Forward, backward and running statistics of one step on the parts, compared with the whole batch.
template <class Norm, class Call>
void compare(const Sizes& s, const Dims& image, Dtype dtype, bool nhwc, double tolerance, const Call& call) {
  const std::int64_t total = std::accumulate(s.batches.begin(), s.batches.end(), std::int64_t{0});
  Dims sizes{total};
  for (const std::int64_t n : image) sizes.push_back(n);
  const std::string error = error_of_ranks(static_cast<int>(s.batches.size()), [&](ProcessGroup& group) {
    Norm whole(image[0]), part(image[0]);
    const Dtype parameters = is_half(dtype) ? f32 : dtype;
    fill(whole, parameters), fill(part, parameters);
    nn::sync_batch_norm(part, group);
    std::int64_t begin = 0;
    for (int r = 0; r < group.rank(); ++r) begin += s.batches[static_cast<std::size_t>(r)];
    const std::int64_t end = begin + s.batches[static_cast<std::size_t>(group.rank())];
    for (int step = 0; step < 2; ++step) {  // running statistics follow
      const auto input = [&](int seed, double shift) {
        Tensor t = numbers(sizes, seed + step, dtype, shift);
        return nhwc ? channels_last(t) : t;
      };
      const Tensor all = input(10, 3), factor = input(20, 0);
      Tensor x = all.clone(), own = all.slice(0, begin, end).clone();
      x.requires_grad_(), own.requires_grad_();
      const Tensor y = call(whole, x), z = call(part, own);
      backward(sum(y.to(parameters) * factor.to(parameters)));
      backward(sum(z.to(parameters) * factor.slice(0, begin, end).to(parameters)));
      check_close(z, y.slice(0, begin, end), tolerance, "the result");
      check_close(own.grad(), x.grad().slice(0, begin, end), tolerance, "the gradient of x");
    }
    for (auto [name, mine, theirs] : {std::tuple("the weight's gradient", part.weight.grad(), whole.weight.grad()),
                                      std::tuple("the bias's gradient", part.bias.grad(), whole.bias.grad())}) {
      const Tensor summed = mine.clone();
      group.all_reduce(summed);
      check_close(summed, theirs, std::max(tolerance, 1e-12) * 4, name);
    }
    const double statistics = parameters == f64 ? 1e-12 : 2e-6;
    check_close(part.running_mean, whole.running_mean, statistics, "running_mean");
    check_close(part.running_var, whole.running_var, statistics, "running_var");
    check(part.num_batches_tracked.template item<std::int64_t>() == 2, "batches are counted");
    nn::eval(whole), nn::eval(part);
    const Tensor x = numbers(sizes, 5, dtype);
    check_close(call(part, x), call(whole, x), tolerance, "the result of eval");
  });
  CHECK(error == "");
}

const auto plain = [](const auto& norm, const Tensor& x) { return norm(x); };

}  // namespace

TEST_CASE("Ranks with parts of a batch compute what one process computes with all of it") {
  const auto [dtype, tolerance] =
      GENERATE(table<Dtype, double>({{f64, 1e-12}, {f32, 1e-5}, {bf16, 2e-2}, {f16, 4e-3}}));
  CAPTURE(name_of(dtype));
  const Sizes sizes = GENERATE(Sizes{{3, 3}}, Sizes{{4, 1, 2}}, Sizes{{0, 5}});
  compare<nn::BatchNorm1d>(sizes, {7}, dtype, false, tolerance, plain);
  compare<nn::BatchNorm2d>(sizes, {5, 4, 3}, dtype, false, tolerance, plain);
  compare<nn::BatchNorm2d>(sizes, {16, 4, 3}, dtype, true, tolerance, plain);
  compare<nn::BatchNorm3d>(sizes, {3, 2, 2, 3}, dtype, false, tolerance, plain);
  compare<nn::BatchNormAct2d>(sizes, {5, 4, 3}, dtype, false, tolerance,
                              [](const nn::BatchNormAct2d& norm, const Tensor& x) { return norm(x); });
}

TEST_CASE("A residual is added after the norm") {
  compare<nn::BatchNormAct2d>({{2, 3}}, {4, 3, 3}, f64, false, 1e-12,
                              [](const nn::BatchNormAct2d& norm, const Tensor& x) { return norm(x, 0.5 * x); });
}

TEST_CASE("A net with synchronised norms trains as one process with the whole batch") {
  struct Net {
    nn::Conv2d conv{2, 6, 3, {.padding = 1}};
    nn::BatchNorm2d norm{6};
    nn::Linear out{6 * 16, 3};
    MANTISSA_FIELDS(conv, norm, out)
    Tensor operator()(const Tensor& x) const { return out(flatten(relu(norm(conv(x))), 1)); }
  };
  const int ranks = 2;
  const std::string error = error_of_ranks(ranks, [&](ProcessGroup& group) {
    Net whole, part;
    nn::to(whole, f64), nn::to(part, f64);
    {
      const NoGrad no_grad;
      int seed = 40;
      for (Tensor p : nn::parameters(whole)) p.copy_(0.2 * numbers(p.sizes(), seed++, f64));
      nn::load_state_dict(part, nn::state_dict(whole));
    }
    nn::sync_batch_norm(part, group);
    const nn::DataParallel parallel(part, {.first_bucket_mb = 1e-4}, group);
    optim::SGD a(nn::parameters(whole), {.lr = 0.1}), b(nn::parameters(part), {.lr = 0.1});
    for (int step = 0; step < 5; ++step) {
      const Tensor x = numbers({6, 2, 4, 4}, 60 + step, f64), y = numbers({6, 3}, 80 + step, f64);
      const auto loss = [](const Tensor& found, const Tensor& wanted) {
        return mean((found - wanted) * (found - wanted));
      };
      backward(loss(whole(x), y));
      const std::int64_t begin = 3 * group.rank();
      backward(loss(part(x.slice(0, begin, begin + 3)), y.slice(0, begin, begin + 3)));
      a.step(), b.step();
      a.zero_grad(), b.zero_grad();
    }
    const auto expected = nn::named_parameters(whole), found = nn::named_parameters(part);
    for (std::size_t i = 0; i < found.size(); ++i) {
      check_close(found[i].second, expected[i].second, 1e-10, found[i].first.c_str());
      const Tensor all = group.all_gather(found[i].second.detach());
      check(std::memcmp(all.select(0, 0).contiguous().raw_data(), all.select(0, 1).contiguous().raw_data(),
                        static_cast<std::size_t>(found[i].second.nbytes())) == 0,
            found[i].first, " differs between ranks");
    }
    check_close(part.norm.running_var, whole.norm.running_var, 1e-10, "running_var");
  });
  CHECK(error == "");
}

TEST_CASE("What synchronised norms refuse, and where they do nothing") {
  SECTION("one value on all ranks together") {
    for (const std::string& e : errors_of_ranks(2, [](ProcessGroup& group) {
           nn::BatchNorm1d norm(3);
           nn::sync_batch_norm(norm, group);
           norm(numbers({group.rank(), 3}, 1, f32));
         }))
      CHECK_THAT(e, Contains("more than one value per channel") && Contains("larger batch"));
  }
  SECTION("one value on each rank is enough") {
    CHECK(error_of_ranks(2, [](ProcessGroup& group) {
            nn::BatchNorm1d norm(3);
            nn::sync_batch_norm(norm, group);
            const Tensor y = norm(numbers({1, 3}, group.rank(), f32));
            check(!any(isnan(y)), "NaN");
          }) == "");
  }
  SECTION("a second derivative") {
    for (const std::string& e : errors_of_ranks(2, [](ProcessGroup& group) {
           nn::BatchNorm1d norm(3);
           nn::sync_batch_norm(norm, group);
           Tensor x = numbers({4, 3}, group.rank(), f32).requires_grad_();
           grad(sum(norm(x) * x), {x}, {.create_graph = true});
         }))
      CHECK_THAT(e, Contains("sync_batch_norm") && Contains("a second time"));
  }
  SECTION("a group of one") {
    const auto group = distributed::make_group({});
    nn::BatchNorm1d norm(3), other(3);
    nn::sync_batch_norm(norm, *group);
    const Tensor x = numbers({4, 3}, 1, f32);
    CHECK(allclose(norm(x), other(x), 0, 0));
    CHECK(norm.mode.group == nullptr);
  }
  SECTION("a clone is synchronised as well, an average of all batches is one") {
    CHECK(error_of_ranks(2, [](ProcessGroup& group) {
            nn::BatchNorm1d norm(3, {.momentum = std::nullopt});
            nn::sync_batch_norm(norm, group);
            const nn::BatchNorm1d copy = norm.clone();
            check(copy.mode.group == &group, "the clone has no group");
            Tensor means = zeros({3}, {.dtype = f64});
            for (int step = 0; step < 3; ++step) {
              const Tensor x = numbers({4, 3}, step, f64, step);
              copy(x.slice(0, 2 * group.rank(), 2 * group.rank() + 2).to(f32));
              means = means + mean(x, {0}) / 3;
            }
            check_close(copy.running_mean.to(f64), means, 1e-6, "running_mean");
          }) == "");
  }
}
