// nn::OnnxModel on every device: values that a model computes on the host (shapes, conditions, index tables) are
// combined with tensors on the device, results equal those of the CPU, and it can be trained there.
#include "mantissa.h"
#include "tests/devices.h"
#include "tests/onnx_writer.h"

using namespace mantissa;
using namespace mantissa::test;
using namespace mantissa::test::onnx_file;

namespace {

struct Net {  // images to sequences, with positions that follow the length, and attention
  nn::Conv2d conv{2, 8, 3, {.padding = 1}};
  nn::BatchNorm2d norm{8};
  nn::Embedding position{16, 8};
  nn::LSTM lstm{8, 6, {.batch_first = true}};
  nn::Linear out{6, 3};
  MANTISSA_FIELDS(conv, norm, position, lstm, out)
  Tensor operator()(const Tensor& image) const {
    Tensor x = relu(norm(conv(image)));
    x = transpose(flatten(x, 2), 1, 2);  // [N, H * W, 8]
    x = x + position(arange(x.size(1)).to(x.device()));
    x = scaled_dot_product_attention(x, x, x, {}, {.is_causal = true});
    return out(select(lstm(x).output, 1, -1));
  }
};

struct Resized {
  MANTISSA_FIELDS()
  Tensor operator()(const Tensor& volume) const {
    const Tensor x = interpolate(volume, {.size = {7, 4, 6}, .mode = "trilinear"});
    const Tensor y = interpolate(pad(x, {1, 2, 0, 1, 2, 1}, "reflect"), {.scale_factor = {2}});
    return flatten(interpolate(flatten(y, 2, 3), {.size = {9, 5}, .mode = "bicubic"}), 2);
  }
};

}  // namespace

TEST_CASE("interpolation and padding on any device become the same file, for any batch size") {
  const TempDir dir;
  const Tensor x = random_tensor({2, 3, 3, 5, 4}, 1).to(f32), more = random_tensor({4, 3, 3, 5, 4}, 2).to(f32);
  const Resized net;
  for (const Device device : devices()) {
    INFO(device);
    nn::save_onnx(net, dir / "resized.onnx", {x.to(device)}, {.dynamic = {{"batch"}}});
    const nn::OnnxModel model(dir / "resized.onnx");
    CHECK(all_close(model(more), net(more).to(f64), {1e-4, 1e-5}));
  }
}

TEST_CASE("a net from a file gives the CPU's results on every device, and trains there") {
  const TempDir dir;
  manual_seed(1);
  {
    Net net;
    nn::eval(net);
    nn::save_onnx(net, dir / "net.onnx", {randn({2, 2, 3, 3})}, {.dynamic = {{"batch"}, {"height", 2}}});
  }
  const nn::OnnxModel host(dir / "net.onnx");
  for (const Device device : devices()) {
    INFO(device);
    nn::OnnxModel net(dir / "net.onnx");
    nn::to(net, device);
    for (const Dims& sizes : {Dims{2, 2, 3, 3}, Dims{3, 2, 4, 3}}) {
      const Tensor x = randn(sizes);
      const Tensor y = net(x.to(device));
      CHECK(y.device() == device);
      CHECK(all_close(y.to(cpu), host(x).to(f64), {1e-4, 1e-5}));
    }
    nn::train(net);
    optim::Adam opt(nn::parameters(net), {.lr = 1e-2});
    amp::GradScaler scaler;
    const Tensor x = randn({6, 2, 3, 3}).to(device), label = randint(0, 3, {6}).to(device);
    double first = 0, last = 0;
    for (int i = 0; i < 12; ++i) {
      const Tensor loss = amp::autocast(f16, [&] { return cross_entropy(net(x), label); });
      (i == 0 ? first : last) = loss.item<double>();
      backward(scaler.scale(loss));
      scaler.step(opt);
      scaler.update();
      opt.zero_grad();
    }
    CHECK(last < 0.9 * first);
  }
}

TEST_CASE("shapes, indices and conditions of a file meet tensors on every device") {
  // y = x[rows] * n + k with rows and k from the file and n the size of x, if the sum of x is above 0; otherwise x
  const std::string yes = node("Gather", {"x", "rows"}, {"g"}) + node("Mul", {"g", "n"}, {"m"}) +
                          node("Add", {"m", "k"}, {"a"}) + output("a");
  const std::string no = node("Identity", {"x"}, {"b"}) + output("b");
  const std::string bytes = model(
      initialiser("rows", tensor({1, -1})) + initialiser("k", scalar(0.5)) + initialiser("zero", scalar(0)) +
      input("x", f32, {"n", "2"}) + node("Size", {"x"}, {"s"}) + node("Cast", {"s"}, {"n"}, {attribute("to", 1)}) +
      node("ReduceSum", {"x"}, {"t"}, {attribute("keepdims", 0)}) + node("Greater", {"t", "zero"}, {"c"}) +
      node("If", {"c"}, {"y"}, {graph_attribute("then_branch", yes), graph_attribute("else_branch", no)}) +
      output("y"));
  const TempDir dir;
  put_file(dir / "net.onnx", bytes);
  for (const Device device : devices()) {
    INFO(device);
    nn::OnnxModel net(dir / "net.onnx");
    nn::to(net, device);
    const Tensor x = tensor({{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}});
    CHECK(all_close(net(x.to(device)).to(cpu), tensor({{18.5, 24.5}, {30.5, 36.5}}, {.dtype = f64})));
    CHECK(all_close(net((-1.0 * x).to(device)).to(cpu), -1.0 * x.to(f64)));
  }
}
