// Channels-last images and volumes: every operator gives the same values and gradients as for contiguous ones, and
// those that promise it keep the layout, so that a network stays in the layout its convolutions chose.
#include "autograd/hooks.h"
#include "core/conv.h"
#include "core/layout.h"
#include "optim/sgd.h"
#include "tests/op_testing.h"

using namespace mantissa;
using namespace mantissa::test;
using Catch::Matchers::Contains;

namespace {

bool has_layout(const Tensor& t) { return t.defined() && (t.dim() == 4 || t.dim() == 5); }
bool has_images(const Sample& s) { return std::any_of(s.inputs.begin(), s.inputs.end(), has_layout); }
Tensor images_moved(const Tensor& x) { return has_layout(x) ? channels_last(x) : x; }
Tensors all_moved(const Tensors& x) {
  Tensors y;
  for (const Tensor& t : x) y.push_back(images_moved(t));
  return y;
}
bool is_last(const Tensor& t) { return is_channels_last(t.sizes(), t.strides()); }
// Strides do not allow the view: reshape() copies where its operator refuses.
bool refuses(const OpInfo& op, const Sample& s, const Tensors& x) {
  return op.is_view && message_of([&] { run(op, s, x); }).find("do not allow a view") != std::string::npos;
}

}  // namespace

TEST_CASE("channels-last inputs give what contiguous ones give") {
  for_each_sample([](const OpInfo& op, const Sample& s) {
    if (!has_images(s)) return;
    for (Dtype dtype : {f64, f32, f16, bf16}) {
      if (!op.halves && is_half(dtype)) continue;
      INFO(name_of(dtype));
      const Tensors x = prepared(s, dtype), moved = all_moved(prepared(s, dtype));
      if (refuses(op, s, moved)) continue;
      const Tensors expected = run(op, s, x), y = run(op, s, moved);
      REQUIRE(y.size() == expected.size());
      const Tolerance t = tolerance_for(dtype, sum_length(op, s), scale_of(x));
      for (std::size_t k = 0; k < y.size(); ++k) {
        INFO("result " << k);
        CHECK(difference(y[k], expected[k], t) == "");
      }
    }
  });
}

TEST_CASE("gradients of channels-last inputs are those of contiguous ones") {
  for_each_sample([](const OpInfo& op, const Sample& s) {
    if (!has_images(s) || !can_differentiate(op, s)) return;
    const Tensors x = prepared(s, f64), moved = all_moved(x);
    if (refuses(op, s, moved)) return;
    const Tensors expected = gradients(op, s, wanting_gradients(op, x)),
                  g = gradients(op, s, wanting_gradients(op, moved, false));
    const Tolerance t = tolerance_for(f64, sum_length(op, s), scale_of(x));
    REQUIRE(g.size() == expected.size());
    for (std::size_t k = 0; k < g.size(); ++k) CHECK(difference(g[k], expected[k], t) == "");
  });
}

TEST_CASE("layouts of shapes and strides") {
  CHECK(dense_strides({2, 3, 4, 5}, Layout::contiguous) == Dims{60, 20, 5, 1});
  CHECK(dense_strides({2, 3, 4, 5}, Layout::channels_last) == Dims{60, 1, 15, 3});
  CHECK(dense_strides({2, 3, 2, 4, 5}, Layout::channels_last) == Dims{120, 1, 60, 15, 3});
  CHECK(dense_strides({2, 3, 4}, Layout::channels_last) == Dims{12, 4, 1});
  const auto allocated = [](const Dims& sizes) {
    return Tensor::allocate(sizes, f32, cpu, Layout::channels_last).layout();
  };
  CHECK(allocated({2, 3, 4, 5}) == Layout::channels_last);
  CHECK(allocated({2, 3, 1, 4, 5}) == Layout::channels_last);
  for (const Dims& both : {Dims{2, 1, 4, 5}, Dims{2, 3, 1, 1}, Dims{0, 3, 4, 5}, Dims{2, 3, 4}, Dims{2, 3, 1, 1, 1},
                           Dims{2, 1, 4, 5, 6}, Dims{2, 3, 4, 5, 2, 2}})
    CHECK(allocated(both) == Layout::contiguous);
  CHECK(zeros({2, 4, 5, 3}).permute({0, 3, 1, 2}).layout() == Layout::channels_last);
  CHECK(zeros({2, 4, 5, 6, 3}).permute({0, 4, 1, 2, 3}).layout() == Layout::channels_last);
  CHECK(zeros({2, 4, 5, 6, 3}).permute({0, 4, 2, 1, 3}).layout() == Layout::contiguous);
}

TEST_CASE("copies keep the layout or change it when told so") {
  const Tensor x = rand({2, 3, 4, 5}), y = channels_last(x);
  CHECK(is_last(y));
  CHECK(same_bits(x, y));
  CHECK(channels_last(y).is_same(y));
  CHECK(contiguous(y).is_contiguous());
  CHECK(same_bits(contiguous(y), x));
  for (const Tensor& t : {clone(y), empty_like(y), zeros_like(y), ones_like(y), cast(y, bf16)}) CHECK(is_last(t));
  CHECK(same_bits(reshape(y, {2, 60}), reshape(x, {2, 60})));
  CHECK(same_bits(flatten(y, 1), flatten(x, 1)));
  CHECK_THAT(message_of([] {
               channels_last(zeros({2, 3}));
             }),
             Contains("channels_last: needs images [N, C, H, W] or volumes [N, C, D, H, W], got f32[2, 3]"));
}

TEST_CASE("operators on channels-last images and volumes keep the layout, forward and backward") {
  const bool volumes = GENERATE(false, true);
  const auto sizes = [&](std::int64_t n, std::int64_t side) {
    return volumes ? Dims{n, 6, side, side, side} : Dims{n, 6, side, side};
  };
  const Tensor x = channels_last(randn(sizes(2, 4))), other = randn(sizes(2, 4)), bias = randn(sizes(1, 1));
  const auto check_kept = [&](const char* what, auto&& f) {
    INFO(what << (volumes ? " of volumes" : " of images"));
    Tensor leaf = x.detach();
    leaf.requires_grad_();
    const Tensor y = f(leaf);
    CHECK(is_last(y));
    if (!y.requires_grad()) return;
    Tensor seen;
    const Tensor inner = leaf * 2.0;
    inner.on_grad([&](const Tensor& g) { seen = g; return Tensor(); });
    f(inner).backward(ones(y.sizes()));  // a contiguous gradient, as it comes out of flatten
    REQUIRE(seen.defined());
    CHECK(is_last(seen));
  };
  check_kept("relu", [](const Tensor& t) { return relu(t); });
  check_kept("gelu", [](const Tensor& t) { return gelu(t); });
  check_kept("a sum with a contiguous tensor", [&](const Tensor& t) { return relu(other + t); });
  check_kept("a product with one number per channel", [&](const Tensor& t) { return relu(t * bias); });
  check_kept("where", [&](const Tensor& t) { return sigmoid(where(t > 0.0, t, other)); });
  check_kept("cast", [](const Tensor& t) { return relu(cast(t, f64)); });
  check_kept("batch_norm", [&](const Tensor& t) { return relu(batch_norm(t, {}, {}, {}, {}, true)); });
  check_kept("group_norm", [](const Tensor& t) { return relu(group_norm(t, 3)); });
  check_kept("instance_norm", [](const Tensor& t) { return relu(instance_norm(t)); });
  check_kept("dropout", [](const Tensor& t) { return dropout(t, 0.25); });
  CHECK(is_last(cat({x, other}, 1)));
  CHECK(is_last(pad(x, {1, 1, 1, 1})));
  if (volumes) {
    check_kept("max_pool3d", [](const Tensor& t) { return max_pool3d(t, 2); });
    check_kept("adaptive_max_pool3d", [](const Tensor& t) { return adaptive_max_pool3d(t, {2, 3, 1}); });
    check_kept("avg_pool3d", [](const Tensor& t) { return avg_pool3d(t, 2); });
    check_kept("adaptive_avg_pool3d", [](const Tensor& t) { return adaptive_avg_pool3d(t, 1); });
  } else {
    check_kept("max_pool2d", [](const Tensor& t) { return max_pool2d(t, {2, 2}); });
    check_kept("max_pool2d_with_indices", [](const Tensor& t) { return max_pool2d_with_indices(t, {2, 2}).values; });
    check_kept("avg_pool2d", [](const Tensor& t) { return avg_pool2d(t, {2, 2}); });
    check_kept("adaptive_avg_pool2d", [](const Tensor& t) { return adaptive_avg_pool2d(t, {2, 2}); });
  }
}

TEST_CASE("an optimizer takes a channels-last gradient of a contiguous parameter") {
  const Tensor images = channels_last(randn({1, 6, 4, 4}));
  std::vector<Tensor> updated;
  for (const bool moved : {false, true}) {
    Tensor position = ones({1, 6, 4, 4});
    position.requires_grad_();
    relu((moved ? images : contiguous(images)) + position)
        .backward(moved ? channels_last(contiguous(images)) : contiguous(images));
    optim::SGD({position}, {.lr = 0.5}).step();
    updated.push_back(position.detach());
  }
  CHECK(updated[1].is_contiguous());
  CHECK(same_bits(updated[0], updated[1]));
}
