// Weight and bias gradients are written to their destination (autograd/place.h): in the parameter's dtype without
// rounding to 16 bits or a cast, and added to the existing gradient by the product itself. On the CPU and a GPU (or the
// shim).
#include <array>
#include <optional>

#include "autograd/hooks.h"
#include "core/accelerator.h"
#include "core/fused_ops.h"
#include "core/parallel.h"
#include "cuda/launches.h"
#include "mantissa.h"
#include "tests/devices.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace mantissa::cuda_backend {
bool has_cudnn();  // cuda/cudnn.h, which includes headers of CUDA
}

namespace {

Tensor random_on(Device device, const Dims& sizes, std::uint64_t stream, Dtype dtype = f32) {
  return random_tensor(sizes, stream).to(dtype).to(device);
}
Tensor exact(const Tensor& t) { return t.detach().to(cpu).to(f64); }
Tensor rows_of(const Tensor& t) { return reshape(t, {t.numel() / t.size(-1), t.size(-1)}); }

struct Layer {
  Tensor weight, bias;
  Layer(Device device, std::int64_t in, std::int64_t out, Dtype dtype = f32)
      : weight(random_on(device, {out, in}, 1, dtype).requires_grad_()),
        bias(random_on(device, {out}, 2, dtype).requires_grad_()) {}
  // y's gradient is g: in a region with this dtype, or in none.
  void backward(Dtype region, const Tensor& x, const Tensor& g, BackwardOptions options = {}) const {
    const auto f = [&] { return linear(x, weight, bias); };
    const Tensor y = region == f32 ? f() : amp::autocast(region, f);
    mantissa::backward(y, g, options);
  }
};
// The expected gradients, in f64: g^T x, and the sums of g.
Tensor weight_of(const Tensor& x, const Tensor& g) { return matmul(transpose(rows_of(exact(g))), rows_of(exact(x))); }
Tensor bias_of(const Tensor& g) { return sum(rows_of(exact(g)), {0}); }

}  // namespace

TEST_CASE("gradients of f32 parameters keep the f32 sums of products of halves, also over micro-batches") {
  for (const Device device : devices()) {
    for (const Dtype region : {f32, bf16, f16}) {
      for (const Dims& sizes :
           {Dims{3, 50, 65}, Dims{2, 2}, Dims{130, 70}, Dims{1, 4, 33}, Dims{600, 96}, Dims{0, 5}}) {
        INFO(region << " " << sizes << " on " << device);
        const std::int64_t in = sizes.back(), out = in == 70 ? 8 : 72;
        const Layer layer(device, in, out);
        Dims y = sizes;
        y.back() = out;
        Tensor weight = zeros({out, in}, {.dtype = f64}), bias = zeros({out}, {.dtype = f64});
        const void* memory = nullptr;
        for (std::uint64_t micro = 0; micro < 3; ++micro) {
          const Tensor x = random_on(device, sizes, 10 + micro, region), g = random_on(device, y, 20 + micro, region);
          layer.backward(region, x, g);
          weight = weight + weight_of(x, g), bias = bias + bias_of(g);
          const double rows = static_cast<double>((micro + 1) * static_cast<std::uint64_t>(numel_of(y) / out));
          CHECK(layer.weight.grad().dtype() == f32);
          CHECK(layer.bias.grad().dtype() == f32);
          CHECK(difference(layer.weight.grad(), weight, tolerance_for(f32, rows)) == "");
          CHECK(difference(layer.bias.grad(), bias, tolerance_for(f32, rows)) == "");
          if (micro > 0 && weight.numel() > 0) CHECK(layer.weight.grad().raw_data() == memory);
          memory = layer.weight.grad().raw_data();
        }
      }
    }
  }
}

TEST_CASE("so do those of matmul, on either side, and of a recurrent layer") {
  for (const Device device : devices()) {
    const Tensor x = random_on(device, {2, 20, 40}, 1, bf16), g = random_on(device, {2, 20, 48}, 2, bf16);
    const Tensor right = random_on(device, {40, 48}, 3).requires_grad_();
    const Tensor left = random_on(device, {24, 20}, 4).requires_grad_();
    const Tensor flat = x.select(0, 1), g_left = random_on(device, {24, 40}, 5, bf16);
    const Tensor to_right = 2.0 * matmul(transpose(rows_of(exact(x))), rows_of(exact(g)));
    const Tensor to_left = 2.0 * matmul(exact(g_left), transpose(exact(flat)));
    for (int i = 0; i < 2; ++i) {
      amp::autocast(bf16, [&] { return matmul(x, right); }).backward(g);
      amp::autocast(bf16, [&] { return matmul(left, flat); }).backward(g_left);
    }
    CHECK(difference(right.grad(), to_right, tolerance_for(f32, 80, 2)) == "");
    CHECK(difference(left.grad(), to_left, tolerance_for(f32, 80, 2)) == "");

    nn::LSTM lstm(40, 16);
    nn::to(lstm, device);
    std::vector<Tensor> first;
    for (int i = 0; i < 2; ++i) {
      sum(cast(amp::autocast(bf16, [&] { return lstm(x).output; }), f32)).backward();
      const std::vector<Tensor> parameters = nn::parameters(lstm);
      for (std::size_t k = 0; k < parameters.size(); ++k) {
        const Tensor g = parameters[k].grad();
        if (i == 0) first.push_back(exact(g));
        else CHECK(difference(g, 2.0 * first[k], tolerance_for(f32, 80, 4)) == "");
        CHECK(g.dtype() == f32);
      }
    }
  }
}

TEST_CASE("so do those of convolutions, of one pixel or more, in groups, transposed, of images and volumes") {
  struct Case {
    Dims x, weight;
    int groups;
    bool channels_last = false, weight_last = false, transposed = false;
  };
  for (const Device device : devices()) {
    for (const Dtype region : {f32, bf16, f16}) {
      for (const Case& c : {Case{{2, 16, 7, 6}, {24, 16, 3, 3}, 1}, Case{{3, 8, 5, 5}, {16, 8, 1, 1}, 1},
                            Case{{2, 8, 6, 6}, {8, 4, 3, 3}, 2}, Case{{0, 8, 6, 6}, {8, 8, 3, 3}, 1},
                            Case{{2, 4, 3, 4, 5}, {8, 4, 2, 3, 3}, 1}, Case{{2, 16, 7, 6}, {24, 16, 3, 3}, 1, true},
                            Case{{2, 16, 7, 6}, {24, 16, 3, 3}, 1, true, true},
                            Case{{2, 16, 7, 6}, {24, 16, 3, 3}, 1, false, true},
                            Case{{2, 4, 3, 4, 5}, {8, 4, 2, 3, 3}, 1, true, true},
                            Case{{2, 8, 5, 6}, {8, 24, 3, 3}, 1, true, false, true},
                            Case{{2, 8, 5, 6}, {8, 12, 3, 3}, 2, false, true, true}}) {
        INFO(region << " " << c.x << (c.channels_last ? " channels-last " : " ") << c.weight
                    << (c.weight_last ? " channels-last" : "") << (c.transposed ? " transposed" : "") << " on "
                    << device);
        const bool image = c.x.rank() == 4;
        // cuDNN rounds each gradient to the region's dtype before it is added, as in PyTorch, where nothing is timed.
        const bool rounds = !device.is_cpu() && region != f32 && cuda_backend::has_cudnn();
        const double unit = !rounds ? 0 : region == bf16 ? 0x1p-8 : 0x1p-11;
        const auto convolution = [&](const Tensor& x, const Tensor& weight, const Tensor& bias) {
          if (c.transposed) return conv_transpose2d(x, weight, bias, {.stride = 2, .groups = c.groups});
          if (image) return conv2d(x, weight, bias, {.padding = {1, 1}, .groups = c.groups});
          return conv3d(x, weight, bias, {.padding = {1, 1, 1}});
        };
        Tensor weight = random_on(device, c.weight, 1);
        if (c.weight_last) weight = channels_last(weight);
        weight.requires_grad_();
        const std::int64_t outs = c.transposed ? c.weight[1] * c.groups : c.weight[0];
        const Tensor bias = random_on(device, {outs}, 2).requires_grad_();
        Tensor to_weight = zeros(c.weight, {.dtype = f64}), to_bias = zeros({outs}, {.dtype = f64});
        double rounding = 0;
        const void* memory = nullptr;
        for (std::uint64_t micro = 0; micro < 3; ++micro) {
          Tensor x = random_on(device, c.x, 10 + micro, region);
          if (c.channels_last) x = channels_last(x);
          const auto f = [&] { return convolution(x, weight, bias); };
          const Tensor y = region == f32 ? f() : amp::autocast(region, f);
          const Tensor g = random_on(device, y.sizes(), 20 + micro, region);
          backward(y, g);
          const Tensor w = zeros(c.weight, {.dtype = f64}).requires_grad_();
          const Tensor b = zeros({outs}, {.dtype = f64}).requires_grad_();
          backward(convolution(exact(x), w, b), exact(g));
          to_weight = to_weight + w.grad(), to_bias = to_bias + b.grad();
          const double terms = static_cast<double>(micro + 1) * static_cast<double>(g.numel() / outs);
          CHECK(weight.grad().dtype() == f32);
          CHECK(weight.grad().is_contiguous() == !c.weight_last);
          if (rounds) rounding += unit * abs(w.grad()).max().item<double>();
          const Tolerance t = tolerance_for(f32, terms);
          CHECK(difference(weight.grad(), to_weight, {t.rtol, t.atol + rounding}) == "");
          if (!c.transposed) CHECK(difference(bias.grad(), to_bias, t) == "");  // those are cast after the sum
          if (micro > 0) CHECK(weight.grad().raw_data() == memory);
          memory = weight.grad().raw_data();
        }
      }
    }
  }
}

TEST_CASE("a table's gradient is added row by row to what it has") {
  for (const Device device : devices()) {
    for (const std::optional<std::int64_t> padding : {std::optional<std::int64_t>(), std::optional<std::int64_t>(7)}) {
      const Tensor table = random_on(device, {40, 24}, 1).requires_grad_();
      const Tensor indices = tensor({{1, 7, 7}, {39, 0, 7}}).to(device), g = random_on(device, {2, 3, 24}, 2);
      Tensor expected = zeros({40, 24}, {.dtype = f64});
      for (int micro = 0; micro < 3; ++micro) {
        backward(embedding(table, indices, padding), g);
        const Tensor wide = zeros({40, 24}, {.dtype = f64}).requires_grad_();
        backward(embedding(wide, indices.to(cpu), padding), exact(g));
        expected = expected + wide.grad();
        CHECK(difference(table.grad(), expected, tolerance_for(f32, 9)) == "");
      }
    }
  }
}

TEST_CASE("gradients in f64 are exact sums; those of parameters in halves stay in halves, and with f32 sums are f32") {
  for (const Device device : devices()) {
    const Layer wide(device, 24, 16, f64), half(device, 24, 16, bf16);
    const Tensor x = random_on(device, {9, 24}, 3, f64), g = random_on(device, {9, 16}, 4, f64);
    wide.backward(f32, x, g);
    const Tensor once = exact(wide.weight.grad()).clone();
    wide.backward(f32, x, g);
    CHECK(same_bits(exact(wide.weight.grad()), 2.0 * once));
    CHECK(difference(once, weight_of(x, g), tolerance_for(f64, 9)) == "");
    CHECK(difference(wide.bias.grad(), 2.0 * bias_of(g), tolerance_for(f64, 18)) == "");
    const Tensor y = x.to(bf16), h = g.to(bf16);
    half.backward(f32, y, h);
    CHECK(half.weight.grad().dtype() == bf16);
    CHECK(difference(half.weight.grad(), weight_of(y, h), tolerance_for(bf16, 9)) == "");
    static_cast<autograd::LeafNode*>(half.weight.impl()->node.get())->set_dtype(f32, device);  // as optim/master.h does
    half.weight.impl()->node->hooks();  // a node with hooks that call nothing is no obstacle
    Tensor(half.weight).set_grad({});
    half.backward(f32, y, h), half.backward(f32, y, h);
    CHECK(half.weight.grad().dtype() == f32);
    CHECK(difference(half.weight.grad(), 2.0 * weight_of(y, h), tolerance_for(f32, 18)) == "");
  }
}

TEST_CASE("hooks see the gradient of this pass alone, in the parameter's dtype, and then the sum") {
  for (const Device device : devices()) {
    const Layer layer(device, 24, 16);
    const Tensor x = random_on(device, {9, 24}, 3, bf16), g = random_on(device, {9, 16}, 4, bf16);
    std::vector<Tensor> came, sums;
    layer.weight.on_grad([&](const Tensor& d) { came.push_back(d.clone()); });
    on_accumulated(layer.bias, [&](const Tensor& d) { sums.push_back(d.clone()); });
    for (int i = 0; i < 2; ++i) layer.backward(bf16, x, g);
    REQUIRE(came.size() == 2);
    REQUIRE(sums.size() == 2);
    for (const Tensor& d : came) CHECK(difference(d, weight_of(x, g), tolerance_for(f32, 9)) == "");
    CHECK(difference(layer.weight.grad(), 2.0 * weight_of(x, g), tolerance_for(f32, 18)) == "");
    CHECK(difference(sums[0], bias_of(g), tolerance_for(f32, 9)) == "");
    CHECK(difference(sums[1], 2.0 * bias_of(g), tolerance_for(f32, 18)) == "");
  }
}

TEST_CASE("grad() and create_graph leave what leaves hold alone") {
  for (const Device device : devices()) {
    const Layer layer(device, 24, 16);
    const Tensor x = random_on(device, {9, 24}, 3, bf16), g = random_on(device, {9, 16}, 4, bf16);
    layer.backward(bf16, x, g);
    const Tensor before = layer.weight.grad().clone();
    const Tensor y = amp::autocast(bf16, [&] { return linear(x, layer.weight, layer.bias); });
    const auto found =
        grad(std::span(&y, 1), std::array{layer.weight, layer.bias}, std::span(&g, 1), {.retain_graph = true});
    CHECK(found[0].dtype() == f32);
    CHECK(difference(found[0], weight_of(x, g), tolerance_for(f32, 9)) == "");
    CHECK(difference(found[1], bias_of(g), tolerance_for(f32, 9)) == "");
    CHECK(same_bits(layer.weight.grad().to(cpu), before.to(cpu)));

    mantissa::backward(y, g, {.retain_graph = true});  // the graph may run again
    mantissa::backward(y, g);
    CHECK(difference(layer.weight.grad(), 3.0 * weight_of(x, g), tolerance_for(f32, 27)) == "");

    const Layer other(device, 24, 16);
    const Tensor input = random_on(device, {9, 24}, 5).requires_grad_();
    const Tensor squares = sum(square(linear(input, other.weight, other.bias)));
    const Tensor d = grad(squares, {other.weight}, {.create_graph = true})[0];
    backward(sum(square(d)));
    CHECK(other.weight.grad().defined());
    CHECK(input.grad().defined());
  }
}

TEST_CASE("a weight used several times in one graph gets the sum of all, in f32") {
  for (const Device device : devices()) {
    const Tensor weight = random_on(device, {24, 24}, 1).requires_grad_();
    const Tensor table = random_on(device, {40, 24}, 2).requires_grad_();  // tied: an embedding and the head
    const auto f = [&] {
      return amp::autocast(bf16, [&] {
        Tensor x = embedding(table, tensor({1, 7, 7, 39}).to(device));
        for (int i = 0; i < 3; ++i) x = tanh(linear(x, weight));
        return sum(cast(linear(x, table), f32));
      });
    };
    Tensor first[2];
    for (int micro = 0; micro < 3; ++micro) {
      backward(f());
      if (micro == 0) first[0] = weight.grad().clone(), first[1] = table.grad().clone();
    }
    CHECK(difference(weight.grad(), 3.0 * exact(first[0]), tolerance_for(f32, 36, 4)) == "");
    CHECK(difference(table.grad(), 3.0 * exact(first[1]), tolerance_for(f32, 36, 4)) == "");
    // Compared with the sum of the gradients of every use.
    const Tensor shadow = weight.detach().to(bf16), wide = table.detach().to(bf16);
    Tensor x = embedding(table.detach(), tensor({1, 7, 7, 39}).to(device)).to(bf16);
    std::vector<Tensor> inputs, weights;
    for (int i = 0; i < 3; ++i) weights.push_back(shadow.clone().requires_grad_());
    const Tensor head = wide.clone().requires_grad_();
    for (const Tensor& w : weights) x = tanh(linear(x, w));
    backward(sum(cast(linear(x, head), f32)));
    const Tensor expected = exact(weights[0].grad()) + exact(weights[1].grad()) + exact(weights[2].grad());
    CHECK(difference(first[0], expected, {8e-3, 2e-2}) == "");  // those were rounded to bf16
  }
}

TEST_CASE("a gradient that somebody else holds is no operand that is written to") {
  for (const Device device : devices()) {
    Tensor weight = random_on(device, {16, 16}, 1).requires_grad_();
    const Tensor x = random_on(device, {16, 16}, 2), g = random_on(device, {16, 16}, 3);
    linear(x, weight).backward(g);
    const Tensor first = exact(weight.grad());
    linear(weight.grad(), weight).backward(g);  // saved: read while the product is added
    CHECK(difference(weight.grad(), first + matmul(transpose(exact(g)), first), tolerance_for(f32, 32, 16)) == "");
    // The gradient keeps its memory: whoever holds it sees the sum.
    const Tensor held = weight.grad();
    linear(x, weight).backward(g);
    CHECK(same_bits(held.to(cpu), weight.grad().to(cpu)));
    // A gradient with other strides is accumulated as well.
    weight.set_grad(transpose(first.to(f32).to(device)));
    linear(x, weight).backward(g);
    CHECK(difference(weight.grad(), transpose(first) + first, tolerance_for(f32, 32, 16)) == "");
  }
}

TEST_CASE("anomaly mode still names what made a NaN") {
  const Layer layer(cpu, 4, 3);
  const Tensor x = full({2, 4}, std::nan("")), g = ones({2, 3});
  const Tensor y = linear(x, layer.weight, layer.bias);
  const AnomalyMode guard;
  CHECK_THROWS_WITH(backward(y, g), Catch::Contains("linear"));
  CHECK(!layer.weight.grad().defined());
}

TEST_CASE("checkpoint, frozen weights, biases alone") {
  for (const Device device : devices()) {
    const Layer layer(device, 24, 16), again(device, 24, 16);
    const Tensor x = random_on(device, {9, 24}, 3, bf16), g = random_on(device, {9, 16}, 4, bf16);
    for (int i = 0; i < 2; ++i) {
      layer.backward(bf16, x, g);
      amp::autocast(bf16, [&] {
        return checkpoint([&](const std::vector<Tensor>& in) { return linear(in[0], again.weight, again.bias); }, {x});
      }).backward(g);
    }
    CHECK(difference(again.weight.grad(), exact(layer.weight.grad()), tolerance_for(f32, 18)) == "");
    CHECK(difference(again.bias.grad(), exact(layer.bias.grad()), tolerance_for(f32, 18)) == "");

    const Layer part(device, 24, 16);
    Tensor(part.weight).requires_grad_(false);
    part.backward(bf16, x, g), part.backward(bf16, x, g);
    CHECK(difference(part.bias.grad(), 2.0 * bias_of(g), tolerance_for(f32, 18)) == "");
    const Layer other(device, 24, 16);  // the bias has a gradient, the weight has none, and the other way round
    Tensor(other.bias).set_grad(ones({16}).to(device));
    other.backward(bf16, x, g);
    CHECK(difference(other.bias.grad(), bias_of(g) + 1.0, tolerance_for(f32, 9)) == "");
    Tensor(other.bias).set_grad({});
    other.backward(bf16, x, g);
    CHECK(difference(other.bias.grad(), bias_of(g), tolerance_for(f32, 9)) == "");
    CHECK(difference(other.weight.grad(), 2.0 * weight_of(x, g), tolerance_for(f32, 18)) == "");
  }
}

TEST_CASE("sums over micro-batches have the same bits for any number of threads") {
  const int threads = num_threads();
  for (const Dtype region : {f32, bf16, f16}) {
    Tensor expected;
    for (const int n : {1, 2, 3}) {
      set_num_threads(n);
      const Layer layer(cpu, 200, 190);
      for (std::uint64_t micro = 0; micro < 2; ++micro) {
        const Tensor x = random_on(cpu, {300, 200}, 3 + micro, region);
        layer.backward(region, x, random_on(cpu, {300, 190}, 7 + micro, region));
      }
      if (n == 1) expected = layer.weight.grad();
      else CHECK(same_bits(layer.weight.grad(), expected));
    }
  }
  set_num_threads(threads);
}

TEST_CASE("on a GPU a weight's gradient in bf16 is one kernel, first and later: no cast, no sums, no addition") {
  if (!cuda_is_available()) { WARN("no GPU and no shim: skipped"); return; }
  if (!on_shim()) { WARN("which kernels run is the tuner's choice: not tested on a GPU"); return; }
  nn::Linear qkv(64, 192), out(64, 64);
  nn::LinearAct up(64, 256, Activation::gelu_tanh);
  nn::Linear down(256, 64);
  nn::to(qkv, cuda), nn::to(out, cuda), nn::to(up, cuda), nn::to(down, cuda);
  const Tensor x = random_on(cuda, {4, 16, 64}, 1, bf16).requires_grad_();
  for (int micro = 0; micro < 3; ++micro) {
    const Tensor y = amp::autocast(bf16, [&] {
      const Tensor parts = qkv(x);
      const auto head = [&](int i) { return narrow(parts, 2, i * 64, 64).reshape({4, 16, 2, 32}).transpose(1, 2); };
      const Tensor mixed = scaled_dot_product_attention(head(0), head(1), head(2), {}, {.is_causal = true});
      return down(up(out(flatten(mixed.transpose(1, 2), 2))));
    });
    const Tensor g = ones_like(y.detach());
    Tensor(x).set_grad({});
    cuda_backend::LaunchCounter counter;
    backward(y, g);
    std::string list;
    for (const auto& [name, count] : counter.launches) list += concat(name, " ", count, "  ");
    INFO(list);
    CHECK(counter.products() == 8);  // four of the inputs' gradients, four of the weights' and biases'
    CHECK(counter.of("reduce_sum") == 0);
    CHECK(counter.of("copy") == 0);  // attention writes the three parts of qkv in their places
    CHECK(counter.of("add_in_place") == 0);
  }
}
