// nn::OnnxModel: saved models load and train, handwritten files (tests/onnx_writer.h) run or are refused, and arbitrary
// bytes do no harm. That every exportable operator can be read back is tested in tests/onnx_test.cpp; the standard's
// own examples and models of torch.onnx.export run with $MANTISSA_ONNX_EXAMPLES, from onnx_examples_test.sh.
#include "nn/onnx_model.h"

#include <cstdlib>
#include <filesystem>
#include <random>
#include <set>

#include "mantissa.h"
#include "tests/bad_file.h"
#include "tests/onnx_examples.h"
#include "tests/onnx_writer.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using namespace mantissa::test::onnx_file;

namespace {

using Tensors = std::vector<Tensor>;

struct Cnn {
  nn::Conv2d conv{1, 6, 3, {.padding = 1, .bias = false}};
  nn::BatchNorm2d norm{6};
  nn::Linear out{6 * 4 * 4, 3};
  MANTISSA_FIELDS(conv, norm, out)
  Tensor operator()(const Tensor& x) const { return out(flatten(max_pool2d(relu(norm(conv(x))), 2), 1)); }
};
struct Sequence {
  nn::Embedding token{11, 8};
  nn::LSTM lstm{8, 6, {.batch_first = true}};
  nn::LayerNorm norm{6};
  nn::Linear out{6, 11};
  MANTISSA_FIELDS(token, lstm, norm, out)
  Tensor operator()(const Tensor& t) const { return out(norm(lstm(token(t)).output)); }
};
// A file with what the writer gave.
struct Written {
  TempDir dir;
  std::string path = dir / "net.onnx";
  explicit Written(const std::string& bytes) { put_file(path, bytes); }
};
Tensors run_bytes(const std::string& bytes, const Tensors& x) {
  const Written file(bytes);
  return nn::OnnxModel(file.path)(std::span<const Tensor>(x));
}
Tensor one(const std::string& bytes, const Tensors& x) { return run_bytes(bytes, x).at(0); }
std::vector<std::int64_t> ints(const Tensor& t) { return t.to_vector<std::int64_t>(); }
using Ints = std::vector<std::int64_t>;

std::string if_model() {  // y = x + w when x's mean is above 0, else -(x + w): both see x and w
  const std::string yes = node("Add", {"x", "w"}, {"a"}) + output("a");
  const std::string no = node("Add", {"x", "w"}, {"b"}) + node("Neg", {"b"}, {"c"}) + output("c");
  return model(initialiser("w", tensor({1.0, 2.0})) + initialiser("zero", scalar(0)) + input("x", f32, {"2"}) +
               node("ReduceMean", {"x"}, {"m"}, {attribute("keepdims", 0)}) + node("Greater", {"m", "zero"}, {"c"}) +
               node("If", {"c"}, {"y"}, {graph_attribute("then_branch", yes), graph_attribute("else_branch", no)}) +
               output("y"));
}
std::string loop_model() {  // v = v * w for n rounds; and all v as rows
  const std::string body = input("i", i64, {}) + input("go", boolean, {}) + input("v", f32, {"2"}) +
                           node("Identity", {"go"}, {"go_on"}) + node("Mul", {"v", "w"}, {"next"}) +
                           node("Identity", {"next"}, {"row"}) + output("go_on") + output("next") + output("row");
  return model(initialiser("w", tensor({2.0, 3.0})) + input("n", i64, {}) + input("x", f32, {"2"}) +
               node("Loop", {"n", "", "x"}, {"last", "rows"}, {graph_attribute("body", body)}) + output("last") +
               output("rows"));
}
std::string shape_model() {  // x [n, m] -> [n * m, 1], by arithmetic on its shape
  return model(input("x", f32, {"n", "m"}) + initialiser("zero", tensor({0})) + initialiser("one", tensor({1})) +
               node("Shape", {"x"}, {"s"}) + node("Gather", {"s", "zero"}, {"n_"}) +
               node("Gather", {"s", "one"}, {"m_"}) + node("Mul", {"n_", "m_"}, {"nm"}) +
               node("Concat", {"nm", "one"}, {"to"}, {attribute("axis", 0)}) + node("Reshape", {"x", "to"}, {"y"}) +
               output("y"));
}

}  // namespace

TEST_CASE("a net that was saved comes back: results, names, statistics") {
  const TempDir dir;
  manual_seed(1);
  Cnn net;
  for (int i = 0; i < 3; ++i) net(randn({4, 1, 8, 8}) + 1.0);
  nn::eval(net);
  nn::save_onnx(net, dir / "a.onnx", {randn({2, 1, 8, 8})}, {.input_names = {"image"}, .dynamic = {{"batch"}}});
  nn::OnnxModel back(dir / "a.onnx");
  CHECK(!back.mode.training);
  REQUIRE(back.inputs().size() == 1);
  CHECK(back.inputs()[0].name == "image");
  CHECK(back.inputs()[0].type == "f32[batch, 1, 8, 8]");
  CHECK(back.outputs()[0].type == "f32[batch, 3]");
  for (const std::int64_t batch : {1, 2, 7}) {  // sizes that no trace has seen
    const Tensor x = randn({batch, 1, 8, 8});
    CHECK(all_close(back(x), net(x).to(f64), {1e-5, 1e-5}));
    CHECK(same_bits(back(x), back({x})[0]));
  }
  std::set<std::string> parameters, buffers;
  for (const auto& [name, t] : nn::named_parameters(back)) parameters.insert(name);
  for (const auto& [name, t] : nn::named_buffers(back)) buffers.insert(name);
  CHECK(parameters == std::set<std::string>{"conv.weight", "norm.weight", "norm.bias", "out.weight", "out.bias"});
  CHECK(buffers == std::set<std::string>{"norm.running_mean", "norm.running_var"});
  for (const auto& [name, t] : nn::state_dict(net))
    for (const auto& [other, u] : nn::state_dict(back))
      if (name == other) CHECK(same_bits(t, u));

  // and goes out again, the same file
  nn::save_onnx(back, dir / "b.onnx", {randn({2, 1, 8, 8})}, {.dynamic = {{"batch"}}});
  nn::OnnxModel twice(dir / "b.onnx");
  nn::save_onnx(twice, dir / "c.onnx", {randn({2, 1, 8, 8})}, {.dynamic = {{"batch"}}});
  CHECK(get_file(dir / "b.onnx") == get_file(dir / "c.onnx"));
  const Tensor x = randn({3, 1, 8, 8});
  CHECK(all_close(twice(x), back(x).to(f64), {1e-6, 1e-6}));

  // state is loaded and saved by name, and a clone is independent
  nn::OnnxModel copy = nn::clone(back);
  nn::save(back, dir / "state.safetensors");
  {
    const NoGrad guard;
    for (Tensor p : nn::parameters(copy)) p.fill_(0);
  }
  CHECK(!all_close(copy(x), back(x).to(f64)));
  nn::load(copy, dir / "state.safetensors");
  CHECK(same_bits(copy(x), back(x)));
}

TEST_CASE("a net from a file trains, under autocast, and its statistics follow") {
  const TempDir dir;
  manual_seed(2);
  {
    Cnn net;
    nn::eval(net);
    nn::save_onnx(net, dir / "a.onnx", {randn({2, 1, 8, 8})}, {.dynamic = {{"batch"}}});
  }
  for (const Dtype dtype : {f32, bf16, f16}) {
    INFO(dtype);
    nn::OnnxModel net(dir / "a.onnx");
    nn::train(net);
    CHECK(net.mode.training);
    const Tensor before = nn::buffers(net).at(0).clone();
    optim::Adam opt(nn::parameters(net), {.lr = 3e-3});
    amp::GradScaler scaler;
    const Tensor x = randn({32, 1, 8, 8});
    const Tensor label = cast(mean(x, {1, 2, 3}) > 0, i64);
    double first = 0, last = 0;
    for (int i = 0; i < 60; ++i) {
      const auto step = [&] { return cross_entropy(net(x), label); };
      const Tensor loss = dtype == f32 ? step() : amp::autocast(dtype, step);
      (i == 0 ? first : last) = loss.item<double>();
      backward(scaler.scale(loss));
      scaler.step(opt);
      scaler.update();
      opt.zero_grad();
    }
    CHECK(last < 0.3 * first);
    CHECK(!same_bits(before, nn::buffers(net).at(0)));
    nn::eval(net);
    CHECK(same_bits(net(x), net(x)));
  }
  // The gradients equal those of the original model.
  Cnn net;
  nn::eval(net);
  nn::save_onnx(net, dir / "b.onnx", {randn({2, 1, 8, 8})});
  nn::OnnxModel back(dir / "b.onnx");
  const Tensor x = randn({2, 1, 8, 8});
  net(x).sum().backward();
  back(x).sum().backward();
  for (const auto& [name, p] : nn::named_parameters(net))
    for (const auto& [other, q] : nn::named_parameters(back))
      if (name == other) CHECK(all_close(q.grad(), p.grad().to(f64), {1e-4, 1e-4}));
}

TEST_CASE("sequences: an LSTM and its embedding learn from a file, whatever the length") {
  const TempDir dir;
  manual_seed(3);
  Sequence net;
  nn::eval(net);
  nn::save_onnx(net, dir / "a.onnx", {randint(0, 11, {2, 5})}, {.dynamic = {{"batch"}, {"length", 1}}});
  nn::OnnxModel back(dir / "a.onnx");
  for (const Dims& sizes : {Dims{2, 5}, Dims{4, 9}, Dims{3, 2}}) {
    const Tensor t = randint(0, 11, sizes);
    CHECK(all_close(back(t), net(t).to(f64), {1e-4, 1e-5}));
  }
  nn::to(back, f64);
  CHECK(back(randint(0, 11, {2, 3})).dtype() == f64);
  nn::to(back, f32);
  optim::AdamW opt(nn::parameters(back), {.lr = 1e-2});
  const Tensor t = randint(0, 11, {4, 6});
  double first = 0, last = 0;
  for (int i = 0; i < 40; ++i) {
    const Tensor loss = amp::autocast(bf16, [&] { return cross_entropy(flatten(back(t), 0, 1), reshape(t, {-1})); });
    (i == 0 ? first : last) = loss.item<double>();
    backward(loss);
    opt.step();
    opt.zero_grad();
  }
  CHECK(last < 0.5 * first);
}

TEST_CASE("branches, loops and functions of a file") {
  const Tensor x = tensor({1.0, 3.0});
  CHECK(all_close(one(if_model(), {x}), tensor({2.0, 5.0}, {.dtype = f64})));
  CHECK(all_close(one(if_model(), {-1.0 * x}), tensor({0.0, 1.0}, {.dtype = f64})));

  {  // branches with different constants under the same name
    const auto side = [](double v) {
      return initialiser("w", full({1}, v)) + node("Add", {"x", "w"}, {"s"}) + output("s");
    };
    const Written file(model(
        input("x") + input("c", boolean, {}) +
        node("If", {"c"}, {"y"}, {graph_attribute("then_branch", side(1)), graph_attribute("else_branch", side(2))}) +
        output("y")));
    const nn::OnnxModel net(file.path);
    CHECK(nn::named_parameters(net).size() == 2);
    CHECK(all_close(net({x, Tensor(true)})[0], tensor({2.0, 4.0}, {.dtype = f64})));
    CHECK(all_close(net({x, Tensor(false)})[0], tensor({3.0, 5.0}, {.dtype = f64})));
  }

  const Tensors y = run_bytes(loop_model(), {Tensor(3).to(i64), x});
  CHECK(all_close(y[0], tensor({8.0, 81.0}, {.dtype = f64})));
  CHECK(all_close(y[1], tensor({{2.0, 9.0}, {4.0, 27.0}, {8.0, 81.0}}, {.dtype = f64})));
  {  // gradients go through the rounds: d(x w^3)/dw = 3 x w^2
    const Written file(loop_model());
    nn::OnnxModel net(file.path);
    net({Tensor(3).to(i64), x})[0].sum().backward();
    CHECK(all_close(nn::parameters(net).at(0).grad(), tensor({12.0, 81.0}, {.dtype = f64})));
  }

  // f(a) = LeakyRelu(a, slope) + g(a), g(a) = a * a; slope is the caller's, and by default 0.5
  const std::string leaky = node_fields("LeakyRelu", {"a"}, {"l"}, {reference("alpha", "slope", 1)}, "");
  const std::string defaults = field(11, attribute("slope", 0.5f));
  std::string f =
      function("mine", "F", {"a"}, {"r"},
               {leaky, node_fields("G", {"a"}, {"g"}, {}, "mine"), node_fields("Add", {"l", "g"}, {"r"}, {}, "")});
  f = field(25, f.substr(f.find("\x0a")) + defaults);
  const std::string g = function("mine", "G", {"a"}, {"r"}, {node_fields("Mul", {"a", "a"}, {"r"}, {}, "")});
  const auto with = [&](const Names& attributes) {
    const std::string graph = input("x") + node("F", {"x"}, {"y"}, attributes, "mine") + output("y");
    return model(graph, 17, f + g);
  };
  CHECK(all_close(one(with({}), {tensor({-2.0, 1.0})}), tensor({3.0, 2.0}, {.dtype = f64})));
  CHECK(all_close(one(with({attribute("slope", 0.25f)}), {tensor({-2.0, 1.0})}), tensor({3.5, 2.0}, {.dtype = f64})));
}

TEST_CASE("shapes are computed on the host, and opsets differ") {
  CHECK(one(shape_model(), {randn({3, 4})}).sizes() == Dims{12, 1});
  CHECK(one(shape_model(), {randn({1, 5})}).sizes() == Dims{5, 1});
  const auto softmax_of = [](int opset) {
    return model(input("x", f32, {"2", "2", "2"}) + node("Softmax", {"x"}, {"y"}, {attribute("axis", 1)}) + output("y"),
                 opset);
  };
  const Tensor x = randn({2, 2, 2});
  CHECK(all_close(one(softmax_of(13), {x}), softmax(x.to(f64), 1), {1e-5, 1e-6}));
  CHECK(all_close(one(softmax_of(11), {x}), reshape(softmax(reshape(x.to(f64), {2, 4}), 1), {2, 2, 2}), {1e-5, 1e-6}));
  // Axes that are an input now were an attribute in older opsets.
  std::string axes;
  put_integer(axes, 8, 0);
  const std::string old = node("Unsqueeze", {"x"}, {"y"}, {field(1, "axes") + axes + field(20, 7)});
  CHECK(one(model(input("x") + old + output("y"), 11), {randn({3})}).sizes() == Dims{1, 3});
  const std::string fresh = initialiser("axes", tensor({0})) + node("Unsqueeze", {"x", "axes"}, {"y"});
  CHECK(one(model(input("x") + fresh + output("y"), 13), {randn({3})}).sizes() == Dims{1, 3});
  // Negative steps, and out of range at both ends.
  const std::string back = initialiser("a", tensor({-1})) + initialiser("b", from_data(Ints{INT64_MIN}, {1})) +
                           initialiser("c", tensor({0})) + initialiser("d", tensor({-2})) +
                           node("Slice", {"x", "a", "b", "c", "d"}, {"y"});
  CHECK(ints(one(model(input("x", i64) + back + output("y")), {arange(5)})) == Ints{4, 2, 0});
  // Integer division truncates towards 0.
  const std::string division = model(input("x", i64) + input("z", i64) + node("Div", {"x", "z"}, {"y"}) + output("y"));
  CHECK(ints(one(division, {tensor({7, -7, 7}), tensor({2, 2, -2})})) == Ints{3, -3, -3});
}

TEST_CASE("sizes and windows at the edges of images are those of ONNX Runtime") {
  for (const auto& [scale, size, wanted] : {std::tuple{0.7, 10, 7}, {0.9, 10, 9}, {2.3, 10, 23}, {1.15, 20, 23}}) {
    const std::string n = std::to_string(size);
    const std::string resize = model(input("x", f32, {"1", "1", n, n}) +
                                     initialiser("scales", cast(mantissa::tensor({1.0, 1.0, scale, scale}), f32)) +
                                     node("Resize", {"x", "", "scales"}, {"y"}) + output("y"));
    CHECK(one(resize, {zeros({1, 1, size, size})}).sizes() == Dims{1, 1, wanted, wanted});
  }
  const std::vector<std::int64_t> two{2, 2}, behind{0, 0, 1, 1};
  const std::string pool =
      model(input("x", f32, {"1", "1", "4", "4"}) +
            node("MaxPool", {"x"}, {"y"},
                 {attribute("kernel_shape", two), attribute("strides", two), attribute("pads", behind),
                  attribute("ceil_mode", 1)}) +
            output("y"));
  const Tensor y = one(pool, {reshape(arange(0, 16, 1, {.dtype = f32}), {1, 1, 4, 4})});
  CHECK(y.sizes() == Dims{1, 1, 2, 2});
  CHECK(y.to_vector<float>() == std::vector<float>{5, 7, 13, 15});
}

TEST_CASE("what nobody learns is no parameter") {
  const double none = -std::numeric_limits<double>::infinity();
  const Written file(
      model(input("x", f32, {"1", "1", "2", "2"}) + initialiser("w", ones({2, 2})) +
            initialiser("mask", tensor({0.0, none})) + initialiser("scales", tensor({1.0, 1.0, 1.3, 1.3})) +
            initialiser("two", scalar(2)) + initialiser("power", tensor({1.0, 2.0})) +
            initialiser("place", tensor({0})) + node("MatMul", {"x", "w"}, {"a"}) + node("Add", {"a", "mask"}, {"b"}) +
            node("Softmax", {"b"}, {"c"}) + node("Mul", {"c", "two"}, {"d"}) + node("Pow", {"d", "power"}, {"e"}) +
            node("Resize", {"e", "", "scales"}, {"f"}, {attribute("mode", "linear")}) + output("f")));
  nn::OnnxModel net(file.path);
  std::set<std::string> parameters, buffers;
  for (const auto& [name, t] : nn::named_parameters(net)) parameters.insert(name);
  for (const auto& [name, t] : nn::named_buffers(net)) buffers.insert(name);
  CHECK(parameters == std::set<std::string>{"w"});
  CHECK(buffers == std::set<std::string>{"mask", "power"});
  nn::to(net, f16);  // the scales stay what they are: 1.3 is none of f16's numbers
  CHECK(net(ones({1, 1, 2, 2}).to(f16)).dtype() == f16);
}

TEST_CASE("batch norms that share their first statistics in a file keep their own") {
  const auto norm = [](const char* x, const char* y) {
    return node("BatchNormalization", {x, "one", "zero", "zero", "one"}, {y});
  };
  const Written file(model(input("x", f32, {"n", "2"}) + initialiser("one", ones({2})) +
                           initialiser("zero", zeros({2})) + norm("x", "a") + norm("a", "y") + output("y")));
  nn::OnnxModel net(file.path);
  CHECK(nn::parameters(net).size() == 2);
  CHECK(nn::buffers(net).size() == 4);
  nn::train(net);
  const Tensor x = randn({8, 2}) * 3.0 + 1.0;
  net(x).sum().backward();
  const auto buffers = nn::buffers(net);
  CHECK(all_close(buffers[0], x.to(f64).mean({0}) * 0.1, {1e-5, 1e-5}));
  CHECK(all_close(buffers[2], zeros({2}, {.dtype = f64}), {0, 1e-6}));  // of what the first one normalised
}

TEST_CASE("patterns run as one operator, with the same results and gradients") {
  manual_seed(5);
  const auto operators_of = [](const nn::OnnxModel& net, const Tensors& x, Tensor& y) {
    Profile profile;
    y = net(std::span<const Tensor>(x))[0];
    return profile.table();
  };
  const auto has = [](const std::string& table, const char* name) { return table.find(name) != std::string::npos; };
  Tensor y;
  const Tensor x = randn({2, 3, 4});
  const Names any{"a", "b", "c"};
  const std::string sigmoid_of = input("x", f32, any) + node("Sigmoid", {"x"}, {"s"}) + node("Mul", {"x", "s"}, {"y"});
  const Written swish(model(sigmoid_of + output("y"))), both(model(sigmoid_of + output("y") + output("s")));
  CHECK(has(operators_of(nn::OnnxModel(swish.path), {x}, y), "silu"));
  CHECK(all_close(y, silu(x.to(f64)), {1e-5, 1e-6}));
  CHECK(!has(operators_of(nn::OnnxModel(both.path), {x}, y), "silu"));  // the sigmoid is a result, too

  const Tensor w = randn({4, 5}), b = randn({5});
  const Written product(model(input("x", f32, any) + initialiser("w", w) + initialiser("b", b) +
                              node("MatMul", {"x", "w"}, {"p"}) + node("Add", {"b", "p"}, {"y"}) + output("y")));
  nn::OnnxModel net(product.path);
  CHECK(!has(operators_of(net, {x}, y), "add"));
  CHECK(all_close(y, matmul(x.to(f64), w.to(f64)) + b.to(f64), {1e-5, 1e-5}));
  y.sum().backward();
  CHECK(all_close(nn::parameters(net).at(1).grad(), full({5}, 6.0, {.dtype = f64})));
  CHECK(
      all_close(nn::parameters(net).at(0).grad(), x.to(f64).sum({0, 1}).reshape({4, 1}).expand({4, 5}), {1e-5, 1e-5}));

  for (const bool masked : {false, true}) {
    const Written attention(model(input("q", f32, any) + input("k", f32, any) + input("v", f32, any) +
                                  input("m", f32, any) + node("MatMul", {"q", "k"}, {"s"}) +
                                  (masked ? node("Add", {"m", "s"}, {"t"}) : "") +
                                  node("Softmax", {masked ? "t" : "s"}, {"p"}, {attribute("axis", -1)}) +
                                  node("MatMul", {"p", "v"}, {"y"}) + output("y")));
    const nn::OnnxModel attend(attention.path);
    const Tensor q = randn({2, 3, 4}), k = randn({2, 4, 6}), m = randn({1, 3, 6});
    for (const Tensor& v : {randn({2, 6, 5}), randn({1, 6, 5})}) {  // the second one broadcasts
      const std::string table = operators_of(attend, {q, k, v, m}, y);
      CHECK(has(table, "scaled_dot_product_attention") == (v.size(0) == 2));
      const Tensor s = matmul(q.to(f64), k.to(f64));
      CHECK(all_close(y, matmul(softmax(masked ? s + m.to(f64) : s, -1), v.to(f64)), {1e-4, 1e-5}));
    }
  }
}

TEST_CASE("tensors in every encoding, and in files of their own") {
  const auto of = [](const std::string& t) {
    return one(model(field(5, t) + node("Identity", {"w"}, {"y"}) + output("y")), {});
  };
  const auto head = [](std::int64_t type, std::int64_t n) { return field(1, n) + field(2, type) + field(8, "w"); };
  std::string numbers;
  put_float(numbers, 4, 1.5f);
  put_float(numbers, 4, -2);
  CHECK(same_bits(of(head(1, 2) + numbers), tensor({1.5, -2.0})));
  CHECK(same_bits(of(head(7, 2) + field(7, -3) + field(7, 4)), tensor({-3, 4})));
  CHECK(same_bits(of(head(9, 2) + field(5, 1) + field(5, 0)), tensor({1, 0}).to(boolean)));
  CHECK(same_bits(of(head(10, 1) + field(5, 0x3c00)), tensor({1.0}).to(f16)));  // the bits of a half
  CHECK(same_bits(of(head(16, 1) + field(5, 0x3f80)), tensor({1.0}).to(bf16)));
  CHECK(same_bits(of(head(3, 2) + field(9, "\xff\x02")), tensor({-1, 2}).to(i32)));  // int8, widened
  std::string doubles;
  put_double(doubles, 10, 0.25);
  CHECK(same_bits(of(head(11, 1) + doubles), tensor({0.25}, {.dtype = f64})));
  std::string packed, list;
  put_varint(packed, 5), put_varint(packed, 300);
  CHECK(same_bits(of(head(7, 2) + field(7, packed)), tensor({5, 300})));

  const TempDir dir;
  const auto entry = [](const std::string& key, const std::string& value) {
    return field(13, field(1, key) + field(2, value));
  };
  const Tensor w = randn({3});
  const std::string bytes(static_cast<const char*>(w.raw_data()), 12);
  put_file(dir / "weights.data", "1234" + bytes);
  const auto external = [&](const std::string& location, const std::string& offset, const std::string& length) {
    const std::string t =
        head(1, 3) + field(14, 1) + entry("location", location) + entry("offset", offset) + entry("length", length);
    put_file(dir / "a.onnx", model(field(5, t) + node("Identity", {"w"}, {"y"}) + output("y")));
    return nn::OnnxModel(dir / "a.onnx")({})[0];
  };
  CHECK(same_bits(external("weights.data", "4", "12"), w));
  const auto refuses = [&](const std::string& location, const std::string& offset, const std::string& length,
                           const char* why) {
    CHECK_THROWS_WITH(external(location, offset, length), Catch::Matchers::Contains(why));
  };
  refuses("weights.data", "5", "12", "beyond the end");
  refuses("weights.data", "4", "8", "8 bytes instead of 12");
  refuses("weights.data", "-4", "12", "which is no number");
  refuses("weights.data", "99999999999999999999", "12", "which is no number");
  refuses("../weights.data", "0", "12", "not in the model's folder");
  refuses("/etc/passwd", "0", "12", "not in the model's folder");
  refuses("", "0", "12", "not in the model's folder");
  refuses("none.data", "0", "12", "none.data");
}

TEST_CASE("what cannot be run is refused when it is loaded, all of it in one message") {
  const auto says = [](const std::string& bytes, const std::string& fragment) {
    const Written file(bytes);
    CHECK_THROWS_WITH(nn::OnnxModel(file.path), Catch::Matchers::Contains(fragment));
    CHECK_THROWS_WITH(nn::OnnxModel(file.path), Catch::Matchers::StartsWith(file.path));
  };
  const std::string x = input("x");
  const std::string several = model(x + node("Frobnicate", {"x"}, {"a"}) + node("Gelu", {"a"}, {"b"}, {}, "com.acme") +
                                    node("Elu", {"b"}, {"c"}, {attribute("beta", 1.f)}) +
                                    node("Softmax", {"c"}, {"y"}, {attribute("axis", 0.5f)}) + output("y"));
  says(several, "Frobnicate: there is no such operator here: \"the Frobnicate\"");
  says(several, "com.acme.Gelu: of this domain nothing can be run");
  says(several, "Elu: the attribute \"beta\" is not supported");
  says(several, "Softmax: the attribute axis is of another kind");
  says(model(x + node("Cast", {"x"}, {"y"}, {attribute("to", 8)}) + output("y")), "of the type STRING");
  says(model(x + node("Add", {"x", ""}, {"y"}) + output("y")), "its input 1 is absent");
  says(model(x + node("Relu", {"x", "x"}, {"y"}) + output("y")), "has 2 inputs, 1 are supported");
  says(model(x + node("Loop", {"", "", "x"}, {"y"}, {graph_attribute("body", "")}) + output("y")), "never ends");
  says(model(x + node("If", {"x"}, {"y"}, {field(1, "then_branch") + field(20, 5)}) + output("y")), "of another kind");
  // The graph.
  says(model(x + node("Relu", {"z"}, {"y"}) + output("y")), "\"z\" is used before it is made");
  says(model(x + node("Relu", {"b"}, {"a"}) + node("Relu", {"a"}, {"b"}) + output("b")), "is used before it is made");
  says(model(x + node("Relu", {"x"}, {"x"}) + output("x")), "\"x\" is made twice");
  says(model(x + node("Relu", {"x"}, {"y"}) + node("Exp", {"x"}, {"y"}) + output("y")), "\"y\" is made twice");
  says(model(initialiser("w", ones({2})) + initialiser("w", ones({2})) + output("w")), "\"w\" is made twice");
  says(model(x + output("z")), "nothing makes it");
  says(model(x + node("Relu", {"x"}, {"y"}) + output("y"), 5), "is of opset 5, 6 to 28 can be read");
  says(field(1, 8), "has no graph");
  says("", "has no graph");
  says("<!DOCTYPE html>", "it looks like an HTML page");
  says(model(x + field(5, field(1, 3) + field(2, 1) + field(8, "w") + field(9, "abc"))), "3 bytes instead of 12");
  says(model(x + field(5, field(1, INT64_MAX) + field(1, 4) + field(2, 1) + field(8, "w"))), "which cannot be");
  says(model(x + field(5, field(1, -1) + field(2, 1) + field(8, "w"))), "which cannot be");
  says(model(x + field(5, field(2, 8) + field(8, "w"))), "is of type STRING");
  std::string nine;
  for (int i = 0; i < 9; ++i) nine += field(1, 1);
  says(model(x + field(5, nine + field(2, 1) + field(8, "w") + field(9, "1234"))), "at most 8 are supported");
  // Unbounded recursion: nested graphs, functions that call themselves or double the work at each call.
  std::string deep = output("x");
  for (int i = 0; i < 60; ++i) deep = node("If", {"x"}, {"y"}, {graph_attribute("then_branch", deep)});
  says(model(x + deep), "more than 32 deep");
  const auto calls = [](const std::string& name, const std::string& other) {
    const std::string n = node_fields(other, {"a"}, {"b"}, {}, "m"), m = node_fields(other, {"b"}, {"c"}, {}, "m");
    return function("m", name, {"a"}, {"c"}, {n, m});
  };
  const std::string start = x + node("F0", {"x"}, {"y"}, {}, "m") + output("y");
  says(model(start, 17, calls("F0", "F0")), "functions call functions");
  std::string chain;
  for (int i = 0; i < 40; ++i) chain += calls("F" + std::to_string(i), "F" + std::to_string(i + 1));
  chain += function("m", "F40", {"a"}, {"c"}, {node_fields("Relu", {"a"}, {"c"}, {}, "")});
  says(model(start, 17, chain), "has more than 1000000 nodes");
}

TEST_CASE("a call with the wrong tensors says what the file wants, one that fails says where") {
  const Written file(model(input("x", f32, {"batch", "3"}) + input("k", i64, {"batch"}) +
                           initialiser("w", ones({4, 2})) + node("MatMul", {"x", "w"}, {"y"}) +
                           node("Identity", {"k"}, {"z"}) + output("y") + output("z")));
  nn::OnnxModel net(file.path);
  const auto says = [](auto call, const char* fragment) {
    CHECK_THROWS_WITH(call(), Catch::Matchers::Contains(fragment));
  };
  const Tensor x = ones({2, 3}), k = arange(2);
  says([&] { net({x}); }, "takes 2 tensors (x: f32[batch, 3], k: i64[batch]), got 1");
  says([&] { net({x, x}); }, "the input k must be i64[batch], got f32[2, 3]");
  says([&] { net({ones({2, 4}), k}); }, "the input x must be f32[batch, 3], got f32[2, 4]");
  says([&] { net({x, k}); }, "net.onnx: MatMul \"the MatMul\": linear(");
  const Written fine(
      model(input("x") + node("Relu", {"x"}, {"y"}) + node("Exp", {"x"}, {"z"}) + output("y") + output("z")));
  says([&] { nn::OnnxModel(fine.path)(k.to(f32)); }, "has 2 results; net({x}) gives them as a vector");
}

// Valid files with modified bytes: an Error or a model, and nothing else.
TEST_CASE("damaged files do no harm") {
  const TempDir dir;
  Cnn cnn;
  nn::eval(cnn);
  nn::save_onnx(cnn, dir / "cnn.onnx", {randn({2, 1, 8, 8})}, {.dynamic = {{"batch"}}});
  Sequence sequence;
  nn::eval(sequence);
  nn::save_onnx(sequence, dir / "sequence.onnx", {randint(0, 11, {2, 5})}, {.dynamic = {{"batch"}, {"length", 1}}});
  const std::vector<std::string> valid{get_file(dir / "cnn.onnx"), get_file(dir / "sequence.onnx"), if_model(),
                                       loop_model(), shape_model()};
  const char* rounds = std::getenv("MANTISSA_FUZZ");
  const std::uint64_t first = seed();
  INFO("seed " << first);
  std::mt19937_64 random(first);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  int loaded = 0, refused = 0;
  for (int round = 0; round < (rounds ? std::atoi(rounds) : 400); ++round) {
    std::string bytes = valid[below(valid.size())];
    const std::size_t changes = 1 + below(4),
                      reach = below(2) == 0 ? bytes.size() : std::min<std::size_t>(bytes.size(), 600);
    for (std::size_t i = 0; i < changes && !bytes.empty(); ++i) {
      const std::size_t at = below(std::min(reach, bytes.size()));
      switch (below(5)) {
        case 0:
          bytes[at] = static_cast<char>(below(256));
          break;
        case 1:
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
          break;
        case 2:
          bytes.erase(at, 1 + below(4));
          break;
        case 3:
          bytes.insert(at, 1 + below(9), '\xff');
          break;
        default:
          bytes.resize(below(3) == 0 ? at : bytes.size());
          break;
      }
    }
    INFO("round " << round);
    put_file(dir / "bad.onnx", bytes);
    try {
      const nn::OnnxModel net(dir / "bad.onnx");
      ++loaded;
    } catch (const Error&) { ++refused; }
  }
  CHECK(refused > 0);
  CHECK(loaded > 0);
}

// Skipped unless $MANTISSA_ONNX_EXAMPLES names a folder: the standard's examples or models of torch.onnx.export.
TEST_CASE("examples of other programs") {
  const char* folder = std::getenv("MANTISSA_ONNX_EXAMPLES");
  if (!folder) return;
  const InferenceMode inference;
  std::set<std::filesystem::path> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) all.insert(entry.path());
  int count[3] = {};
  for (const auto& path : all) {
    const ExampleResult r = run_example(path, 1e-3, 1e-4);
    ++count[r.kind];
    INFO(path.filename().string() << ": " << r.why);
    CHECK(r.kind != ExampleResult::failed);
  }
  CHECK(count[ExampleResult::passed] > 0);
  WARN(count[0] << " examples passed, " << count[1] << " were refused, " << count[2] << " failed");
}
