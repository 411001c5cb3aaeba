// Policies by module: mapping of operators to modules, path patterns, precedence, JSON, threads and checkpoints;
// weights that a steady step does not cast; memory per dtype. Next: tests/autocast_policy_test.cpp.
#include <map>
#include <set>
#include <thread>

#include "amp/autocast.h"
#include "amp/explain.h"
#include "autograd/backward.h"
#include "autograd/checkpoint.h"
#include "core/ops.h"
#include "nn/amp.h"
#include "nn/conv.h"
#include "nn/dropout.h"
#include "nn/embedding.h"
#include "nn/init.h"
#include "nn/linear.h"
#include "nn/norm.h"
#include "nn/rnn.h"
#include "nn/sequential.h"
#include "nn/transformer.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "tests/catch_compat.h"
#include "tests/testing.h"

using namespace mantissa;
using namespace mantissa::test;
using amp::Autocast;
using amp::AutocastOptions;
using amp::Policies;
using Catch::Matchers::Contains;

namespace {

Tensor input(const Dims& sizes, std::uint64_t stream, Dtype dtype = f32) {
  return random_tensor(sizes, stream).to(dtype);
}

struct Block {
  nn::LayerNorm norm{8};
  nn::Linear up{8, 16}, down{16, 8};
  MANTISSA_FIELDS(norm, up, down)
  Tensor operator()(const Tensor& x) const {
    const amp::InModule here(*this);
    return x + down(gelu(up(norm(x))));
  }
};
struct Net {
  nn::Linear first{8, 8};  // has the same address as the model
  std::vector<Block> blocks = make();
  nn::Sequential tail{nn::Linear{8, 8}, [](const Tensor& x) { return tanh(x); }};
  nn::Linear head{8, 4};
  MANTISSA_FIELDS(first, blocks, tail, head)
  Tensor operator()(const Tensor& x) const {
    Tensor y = first(x);
    for (const Block& b : blocks) y = b(y);
    return head(tail(y));
  }
  static std::vector<Block> make() {
    std::vector<Block> b;
    for (int i = 0; i < 3; ++i) b.emplace_back();
    return b;
  }
};

// "module op" -> the dtypes of its results, in order.
std::map<std::string, std::string> results(const Net& net, const Policies& p, Dtype dtype = bf16) {
  amp::Explain explain;
  amp::autocast(AutocastOptions{.dtype = dtype, .policies = p}, [&] { return net(input({2, 8}, 1)); });
  std::map<std::string, std::string> m;
  for (const amp::Decision& d : explain.decisions()) m[d.module + " " + d.op] += d.output + " ";
  return m;
}

}  // namespace

TEST_CASE("A29: operators belong to the module that owns their parameter, or that says so", "[amp]") {
  const Net net;
  const auto m = results(net, amp::policies_for(net, {}));
  for (const char* key : {"first linear", "blocks.0.norm layer_norm", "blocks.1.up linear", "blocks.2 gelu",
                          "blocks.0 add", "tail.0 linear", "tail.1 tanh", "head linear"}) {
    INFO(key);
    CHECK(m.contains(key));
  }
  CHECK(m.at("blocks.1.up linear") == "bf16 ");
}

TEST_CASE("A29: a module's policies change it and what is in it, and nothing else", "[amp]") {
  const Net net;
  const auto plain = results(net, amp::policies_for(net, {}));
  auto m = results(net, amp::policies_for(
                            net, {{"blocks.1", CastPolicy::f32}, {"head", Policies().set("linear", CastPolicy::f32)}}));
  for (const auto& [key, dtypes] : plain) {
    const bool inside = key.starts_with("blocks.1") || key.starts_with("head");
    INFO(key);
    if (key.find(" linear") == key.npos) continue;
    CHECK(m.at(key) == (inside ? "f32 " : "bf16 "));
  }
  CHECK(m.at("blocks.1 gelu") == "f32 ");
  CHECK(m.at("blocks.0 gelu") == "bf16 ");
  m = results(net, amp::policies_for(net, {{"blocks.*.up", CastPolicy::f32}}));
  CHECK(m.at("blocks.0.up linear") == "f32 ");
  CHECK(m.at("blocks.2.up linear") == "f32 ");
  CHECK(m.at("blocks.2.down linear") == "bf16 ");
  m = results(net, amp::policies_for(net, {{"**", CastPolicy::f32}, {"head", CastPolicy::lower}}));
  CHECK(m.at("first linear") == "f32 ");
  CHECK(m.at("blocks.0.down linear") == "f32 ");
  CHECK(m.at("head linear") == "bf16 ");
}

TEST_CASE("A29: the deeper rule wins, then the later; modules go before operators; nested regions add", "[amp]") {
  const Net net;
  const auto linear_of = [&](const Policies& p, const char* module) {
    return results(net, p).at(std::string(module) + " linear");
  };
  Policies p = amp::policies_for(net, {{"blocks.0.up", CastPolicy::lower}, {"blocks.0", CastPolicy::f32}});
  CHECK(linear_of(p, "blocks.0.up") == "bf16 ");
  CHECK(linear_of(p, "blocks.0.down") == "f32 ");
  p = amp::policies_for(net, {{"head", CastPolicy::f32}, {"hea*", CastPolicy::lower}});
  CHECK(linear_of(p, "head") == "bf16 ");
  p = amp::policies_for(net, {{"head", CastPolicy::lower}}).set("linear", CastPolicy::f32);
  CHECK(linear_of(p, "head") == "bf16 ");
  CHECK(linear_of(p, "first") == "f32 ");
  const Autocast outer(AutocastOptions{.dtype = f16, .policies = amp::policies_for(net, {{"head", CastPolicy::f32}})});
  CHECK(linear_of(amp::policies_for(net, {{"first", CastPolicy::f32}}), "head") == "f32 ");
  CHECK(linear_of(amp::policies_for(net, {{"first", CastPolicy::f32}}), "first") == "f32 ");
  CHECK(linear_of({}, "first") == "bf16 ");
}

TEST_CASE("A29: patterns", "[amp]") {
  const auto matches = [](const char* pattern, const char* path) { return amp::matches(pattern, path); };
  CHECK(matches("", ""));
  CHECK(!matches("", "a"));
  CHECK(matches("a.b", "a.b"));
  CHECK(!matches("a.b", "a.b.c"));
  CHECK(!matches("a.b.c", "a.b"));
  CHECK(matches("a.*.c", "a.b.c"));
  CHECK(!matches("a.*", "a.b.c"));
  CHECK(matches("*", "abc"));
  CHECK(matches("a*c*", "abccd"));
  CHECK(!matches("a*d", "abc"));
  CHECK(matches("**", ""));
  CHECK(matches("**", "a.b.c"));
  CHECK(matches("**.norm", "norm"));
  CHECK(matches("**.norm", "blocks.0.norm"));
  CHECK(matches("a.**.d", "a.d"));
  CHECK(matches("a.**.d", "a.b.c.d"));
  CHECK(!matches("a.**.d", "b.d"));
}

TEST_CASE("A29: policies of modules from JSON, and what is wrong with some", "[amp]") {
  const Net net;
  const char* text = R"({"exp": "keep", "modules": {"blocks.*.norm": "f32", "head": {"linear": "f32"}}})";
  const auto m = results(net, amp::policies_from_json(net, text));
  CHECK(m.at("head linear") == "f32 ");
  CHECK(m.at("blocks.2.norm layer_norm") == "f32 ");
  CHECK(m.at("blocks.2.up linear") == "bf16 ");
  const amp::ModulePolicies rules{{"head", CastPolicy::f32}, {"first", Policies().set("linear", CastPolicy::keep)}};
  const Policies back = amp::policies_from_json(net, amp::to_json(rules));
  CHECK(results(net, back).at("first linear") == "f32 ");
  CHECK(results(net, back).at("head linear") == "f32 ");

  CHECK_THAT(message_of([&] {
               amp::policies_for(net, {{"blocks.*.nrom", CastPolicy::f32}});
             }),
             Contains("no module matches") && Contains("blocks.0.norm"));
  const auto message = [&](const char* json) {
    return message_of([&] { amp::policies_from_json(net, json, "p.json"); });
  };
  CHECK_THAT(message(R"({"modules": {"hed": "f32"}})"), Contains("p.json") && Contains("did you mean \"head\"?"));
  CHECK_THAT(message(R"({"modules": {"head": "f23"}})"), Contains("did you mean \"f32\"?"));
  CHECK_THAT(message(R"({"modules": {"head": {"linaer": "f32"}}})"), Contains("did you mean \"linear\"?"));
  CHECK_THAT(message(R"({"modules": {"head": 3}})"), Contains("must be a string or an object"));
  CHECK_THAT(message(R"({"modules": []})"), Contains("must be an object"));
  CHECK_THAT(message("["), Contains("p.json: is not valid JSON"));
  CHECK_THAT(message("[]"), Contains("expected a JSON object"));
  const std::string deep = R"({"exp": )" + std::string(500000, '[') + std::string(500000, ']') + "}";
  CHECK_THAT(message(deep.c_str()), Contains("nested more than 16 deep"));  // and the stack is not exhausted
  CHECK_THAT(message_of([&] { Policies::from_json(text); }), Contains("policies_for(net"));
}

TEST_CASE("A10 A48: a module and its policies travel with the captured state, into threads and checkpoints",
          "[amp][threads]") {
  const Net net;
  const Tensor x = input({2, 8}, 1);
  const Policies p = amp::policies_for(net, {{"blocks.1", CastPolicy::f32}});
  const Autocast region(AutocastOptions{.dtype = bf16, .policies = p});
  std::string seen;
  {
    const amp::InModule here(net.blocks[1]);
    const AutocastState state = amp::capture();
    std::thread([&] {
      const Autocast applied(state);
      seen = name_of(gelu(x.to(bf16)).dtype());
    }).join();
  }
  CHECK(seen == "f32");
  CHECK(gelu(x.to(bf16)).dtype() == bf16);
  std::vector<Dtype> dtypes;
  const Tensor start = input({2, 8}, 2).requires_grad_();
  Tensor y;
  {
    const amp::InModule here(net.blocks[1]);
    y = checkpoint([&](const Tensor& t) {
      const Tensor z = gelu(t.to(bf16));
      dtypes.push_back(z.dtype());
      return z;
    }, start);
  }
  std::thread([&] { backward(y, ones_like(y)); }).join();
  CHECK(dtypes == std::vector<Dtype>{f32, f32});
}

TEST_CASE("modules that are moved lose their scopes but keep their parameters' policies", "[amp]") {
  Net net;
  const Policies p = amp::policies_for(net, {{"head", CastPolicy::f32}});
  const Net moved = std::move(net);
  CHECK(results(moved, p).at("head linear") == "f32 ");
}

// --- a steady step casts no weight ---
namespace {

struct Cnn {
  nn::Conv2d conv1{1, 4, 3, {.padding = 1}}, conv2{4, 8, 3, {.padding = 1}};
  nn::BatchNorm2d norm{8};
  nn::Linear fc1{8 * 2 * 2, 16}, fc2{16, 10};
  MANTISSA_FIELDS(conv1, conv2, norm, fc1, fc2)
  Tensor operator()(const Tensor& image) const {
    Tensor x = max_pool2d(relu(conv1(image)), 2);
    x = max_pool2d(relu(norm(conv2(x))), 2);
    return fc2(relu(fc1(flatten(x, 1))));
  }
};
struct Gpt {
  nn::Embedding token{11, 8};
  nn::TransformerEncoder body{
      nn::TransformerEncoderLayer(8, 2, {.dim_feedforward = 16, .dropout = 0, .batch_first = true, .norm_first = true}),
      2};
  nn::LayerNorm norm{8};
  nn::Linear head{8, 11, {.bias = false}};
  MANTISSA_FIELDS(token, body, norm, head)
  Gpt() { nn::tie(head.weight, token.weight); }
  Tensor operator()(const Tensor& tokens) const { return head(norm(body(token(tokens), {.is_causal = true}))); }
};

// Counts casts of parameters that bypass their shadows: views and slices.
struct Watch final : amp::Observer {
  explicit Watch(const std::vector<Tensor>& parameters) : Observer(false) {
    for (const Tensor& p : parameters) memory.insert(p.storage().get());
  }
  void begin(const amp::OperatorCall& call) override {
    if (call.policy != CastPolicy::lower) return;
    for (const Tensor* t : call.inputs)
      casts += t->defined() && t->dtype() == f32 && !t->is_leaf() && memory.contains(t->storage().get());
  }
  void end(const Tensor&) override {}
  std::set<const Storage*> memory;
  std::int64_t casts = 0;
};

template <class Net>
std::vector<std::int64_t> weight_casts(Net& net, const Tensor& x, const Tensor& target, Dtype low) {
  optim::AdamW opt(nn::parameters(net), {.lr = 1e-3});
  std::vector<std::int64_t> per_step;
  for (int step = 0; step < 4; ++step) {
    const std::uint64_t before = amp::cast_statistics().misses;
    Watch watch(nn::parameters(net));
    const Tensor loss = amp::autocast(low, [&] { return cross_entropy(flatten(net(x), 0, -2), target); });
    backward(loss);
    opt.step();
    opt.zero_grad();
    per_step.push_back(static_cast<std::int64_t>(amp::cast_statistics().misses - before) + watch.casts);
  }
  return per_step;
}

}  // namespace

TEST_CASE("a steady step of a CNN and of a GPT casts no weight", "[amp]") {
  for (Dtype low : {f16, bf16}) {
    Cnn cnn;
    const auto of_cnn = weight_casts(cnn, input({3, 1, 8, 8}, 1), tensor({1, 0, 3}), low);
    CHECK(of_cnn == std::vector<std::int64_t>{8, 0, 0, 0});  // four layers, weight and bias
    Gpt gpt;
    const auto of_gpt =
        weight_casts(gpt, tensor({{1, 5, 3, 7}, {0, 2, 10, 4}}), tensor({5, 3, 7, 8, 2, 10, 4, 6}), low);
    CHECK(of_gpt == std::vector<std::int64_t>{17, 0, 0, 0});  // two blocks of four weights and biases, and the head
  }
}

TEST_CASE("memory per dtype of parameters, gradients, shadows and buffers", "[amp]") {
  Cnn net;
  const std::int64_t bytes = nn::count(net) * 4;
  amp::MemoryByDtype m = amp::memory_by_dtype(net);
  const auto f = static_cast<std::size_t>(f32), h = static_cast<std::size_t>(f16);
  CHECK(m.parameters[f] == bytes);
  CHECK(m.gradients[f] == 0);
  CHECK(m.shadows[h] == 0);
  backward(amp::autocast(f16, [&] { return net(input({3, 1, 8, 8}, 1)); }).to(f32).sum());
  m = amp::memory_by_dtype(net);
  CHECK(m.gradients[f] == bytes);
  CHECK(m.shadows[h] == (nn::count(net) - 16) * 2);  // all but the norm's
  CHECK(m.buffers[f] == 16 * 4);
  CHECK_THAT(m.table(), Contains("f16  0  0"));
}
