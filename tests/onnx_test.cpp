// nn::save_onnx. Every registered operator is exported, or is in a list of those that cannot be; tests/onnx_reader.h
// reads the files back. With $MANTISSA_ONNX=FOLDER the files are kept, next to the expected results:
// tests/golden/onnx_runtime.py runs them in ONNX Runtime. $MANTISSA_ONNX_OPSET: an opset other than 17.
#include "nn/onnx.h"
#include "nn/roi_align.h"

#include <cstdlib>
#include <filesystem>

#include "mantissa.h"
#include "tests/onnx_reader.h"
#include "tests/op_testing.h"

using namespace mantissa;
using namespace mantissa::test;

namespace {

// The output folder; kept if requested.
struct Folder {
  TempDir own;
  std::string path = own.path();
  bool kept = false;
  Folder() {
    if (const char* wish = std::getenv("MANTISSA_ONNX")) path = wish, kept = true;
    std::filesystem::create_directories(path);
  }
  std::string operator/(const std::string& name) const { return path + "/" + name; }
};

// NAME.npz next to NAME.onnx: inputs, results in f64, and tolerances for results in f32.
void keep_results(const std::string& stem, const Tensors& inputs, const Tensors& expected, Tolerance t) {
  NamedTensors all;
  for (std::size_t i = 0; i < inputs.size(); ++i) all.emplace_back(concat("x", i), inputs[i]);
  std::size_t k = 0;
  for (const Tensor& y : expected)
    if (y.defined()) all.emplace_back(concat("y", k++), y);
  all.emplace_back("tolerance", tensor({t.rtol, t.atol}, {.dtype = f64}));
  io::save_npz(stem + ".npz", all);
}

struct Nothing {  // a net without parameters
  nn::Mode mode{false};
  MANTISSA_FIELDS(mode)
};

bool is_gradient(std::string_view name) {
  return name.ends_with("_backward") || name.ends_with("_grad") || name.ends_with("_backward_act");
}

// Reads the file back as a model: the same results, up to rounding.
void check_read_back(const std::string& path, const Tensors& inputs, const Tensors& expected, Tolerance t) {
  const nn::OnnxModel net(path);
  const Tensors y = net(std::span<const Tensor>(inputs));
  std::size_t i = 0;
  for (const Tensor& e : expected) {
    if (!e.defined()) continue;
    REQUIRE(i < y.size());
    INFO("result " << i << ", read back");
    CHECK(y[i].dtype() == e.dtype());
    CHECK(difference(y[i], e, {4 * t.rtol, 4 * t.atol}, Nan::equal) == "");
    ++i;
  }
}

// Operators that cannot be exported, and the reason. The list must be exact.
const std::map<std::string, std::string> refused = {
    {"adaptive_max_pool1d", "windows of several sizes"},
    {"adaptive_max_pool1d_with_indices", "windows of several sizes"},
    {"adaptive_max_pool2d", "windows of several sizes"},
    {"adaptive_max_pool2d_with_indices", "windows of several sizes"},
    {"adaptive_max_pool3d_with_indices", "windows of several sizes"},
    {"atan2", "not written down yet"},
    {"bessel_j0", "ONNX has no such operator"},
    {"bessel_j1", "ONNX has no such operator"},
    {"binomial", "random"},
    {"bitwise_and", "bits of integers need opset 18"},
    {"bitwise_left_shift", "ONNX has no such operator"},
    {"bitwise_or", "bits of integers need opset 18"},
    {"bitwise_right_shift", "ONNX has no such operator"},
    {"bitwise_xor", "bits of integers need opset 18"},
    {"cholesky", "writes in place, or looks at values"},
    {"cholesky_inverse", "writes in place, or looks at values"},
    {"cholesky_solve", "writes in place, or looks at values"},
    {"complex_angle", "made of one that cannot"},
    {"cond", "how often it repeats its steps depends on values"},
    {"ctc_loss", "of training"},
    {"cummax", "ONNX has no such operator"},
    {"cummin", "ONNX has no such operator"},
    {"cumprod", "ONNX has no such operator"},
    {"det", "writes in place, or looks at values"},
    {"digamma", "ONNX has no such operator"},
    {"dropout", "of training"},
    {"eig", "how often it repeats its steps depends on values"},
    {"eigvals", "how often it repeats its steps depends on values"},
    {"eigh", "how often it repeats its steps depends on values"},
    {"eigvalsh", "how often it repeats its steps depends on values"},
    {"embedding_bag", "offsets that are no offsets cannot be traced; saved below"},
    {"erfcx", "ONNX has no such operator"},
    {"erfinv", "ONNX has no such operator"},
    {"frexp", "ONNX has no such operator"},
    {"gamma_slope", "of training"},
    {"gcd", "ONNX has no such operator"},
    {"histogram", "made of one that cannot"},
    {"i0", "ONNX has no such operator"},
    {"i0e", "ONNX has no such operator"},
    {"i1", "ONNX has no such operator"},
    {"i1e", "ONNX has no such operator"},
    {"igamma", "ONNX has no such operator"},
    {"igammac", "ONNX has no such operator"},
    {"inv", "writes in place, or looks at values"},
    {"lcm", "ONNX has no such operator"},
    {"lgamma", "ONNX has no such operator"},
    {"linear_cross_entropy", "of training"},
    {"linear_recurrence", "ONNX has no such operator"},
    {"log_ndtr", "ONNX has no such operator"},
    {"logcumsumexp", "ONNX has no such operator"},
    {"logdet", "writes in place, or looks at values"},
    {"lstsq", "how often it repeats its steps depends on values"},
    {"lu", "writes in place, or looks at values"},
    {"lu_solve", "writes in place, or looks at values"},
    {"matrix_exp", "how often it repeats its steps depends on values"},
    {"matrix_rank", "how often it repeats its steps depends on values"},
    {"mode", "made of one that cannot"},
    {"multilabel_margin_loss", "made of one that cannot"},
    {"mvlgamma", "made of one that cannot"},
    {"nanquantile", "looks at the values of q"},
    {"ndtri", "ONNX has no such operator"},
    {"nextafter", "ONNX has no such operator"},
    {"pca_lowrank", "random"},
    {"pinv", "how often it repeats its steps depends on values"},
    {"poisson", "random"},
    {"polar", "how often it repeats its steps depends on values"},
    {"polygamma", "ONNX has no such operator"},
    {"quantile", "looks at the values of q"},
    {"roi_align", "boxes of other pictures than there are cannot be traced; saved below, with boxes of its own"},
    {"scatter_amax", "not written down yet"},
    {"scatter_amin", "not written down yet"},
    {"scatter_prod", "not written down yet"},
    {"slogdet", "writes in place, or looks at values"},
    {"solve", "writes in place, or looks at values"},
    {"solve_triangular", "writes in place, or looks at values"},
    {"sum_to", "of training"},
    {"svd", "how often it repeats its steps depends on values"},
    {"svd_lowrank", "random"},
    {"svdvals", "how often it repeats its steps depends on values"},
    {"tensorinv", "writes in place, or looks at values"},
    {"tensorsolve", "writes in place, or looks at values"},
    {"unique_consecutive", "the size of its result depends on values"},
    {"vander", "made of one that cannot"},
    {"zeta", "ONNX has no such operator"},
};

// Exports one sample; returns "" or the reason why it could not.
std::string export_sample(const OpInfo& op, const Sample& s, std::size_t number, const Folder& folder,
                          std::size_t most = 9) {
  const Tensors x = prepared(s, f32);
  Tensors given;
  for (const Tensor& t : x)
    if (t.defined() && !t.is_weak_scalar()) given.push_back(t);
  const std::string stem = folder / concat(op.name, "_", number);
  const auto forward = [&](std::span<const Tensor> inputs) {
    Tensors all = x;
    std::size_t next = 0;
    for (Tensor& t : all)
      if (t.defined() && !t.is_weak_scalar()) t = inputs[next++];
    Tensors y = run(op, s, all);
    y.resize(std::min(y.size(), most));
    return y;
  };
  const char* opset = std::getenv("MANTISSA_ONNX_OPSET");
  try {
    nn::detail::save_onnx(Nothing{}, stem + ".onnx", given, {.opset = opset ? std::atoi(opset) : 17}, forward);
  } catch (const Error& e) {
    return most > 1 ? export_sample(op, s, number, folder, 1) : e.what();  // statistics may stay behind
  }
  read_onnx(stem + ".onnx");
  const Tolerance tolerance = tolerance_for(f32, sum_length(op, s), scale_of(x));
  const InferenceMode inference;
  Tensors y = run(op, s, x);
  y.resize(std::min(y.size(), most));
  check_read_back(stem + ".onnx", given, y, tolerance);
  if (!folder.kept) return "";
  Tensors wide;
  for (const Tensor& t : x) wide.push_back(t.defined() && t.is_floating() ? cast(t, f64) : t);
  Tensors expected = run(op, s, wide);
  expected.resize(std::min(expected.size(), most));
  keep_results(stem, given, expected, tolerance);
  return "";
}

}  // namespace

TEST_CASE("operators are exported, or on the list of those that are not") {
  const Folder folder;
  std::map<std::string, std::string> failed;
  int exported = 0;
  for (const OpInfo& op : registry()) {
    if (!selected(op) || is_gradient(op.name)) continue;
    Samples samples(seed());
    op.samples(samples);
    std::string why = "no sample";
    bool any = false;
    for (std::size_t i = 0; i < samples.all.size() && (folder.kept || !any); ++i) {
      INFO(op.name << ", sample " << i << ": " << describe_all(samples.all[i].inputs));
      const std::string reason = export_sample(op, samples.all[i], i, folder);
      if (reason.empty()) any = true;
      else why = reason;
    }
    if (any) ++exported;
    else failed[op.name] = why;
  }
  for (const auto& [name, why] : failed) {
    INFO(name << " is not exported: " << why);
    CHECK(refused.contains(name));
  }
  if (!std::getenv("MANTISSA_OP") && !std::getenv("MANTISSA_ONNX_OPSET")) {
    for (const auto& [name, why] : refused) {
      INFO(name << " is exported");
      if (why == "random") continue;  // it may happen to do the same twice
      CHECK(failed.contains(name));
    }
  }
  WARN(exported << " operators are exported, " << failed.size() << " are not");
}

// --- whole models ---
namespace {

struct Cnn {
  nn::Conv2d conv{3, 8, 3, {.padding = 1, .bias = false}};
  nn::BatchNorm2d norm{8};
  nn::Conv2d shrink{8, 12, 3, {.stride = 2, .padding = 1, .groups = 4}};
  nn::Dropout drop{.p = 0.5};
  nn::Linear out{12 * 4 * 4, 10};
  MANTISSA_FIELDS(conv, norm, shrink, drop, out)
  Tensor operator()(const Tensor& image) const {
    const Tensor x = max_pool2d(gelu(shrink(relu(norm(conv(image))))), 2);
    return out(drop(flatten(x, 1)));
  }
};
struct Text {  // embeddings, attention with a causal mask, rotary positions, and an LSTM
  nn::Embedding token{11, 16};
  nn::TransformerEncoderLayer layer{16, 2, {.dim_feedforward = 32, .dropout = 0.1, .batch_first = true}};
  nn::LSTM lstm{16, 8, {.num_layers = 2, .batch_first = true, .bidirectional = true}};
  nn::Linear out{16, 11};
  MANTISSA_FIELDS(token, layer, lstm, out)
  Tensor operator()(const Tensor& tokens) const {
    const Tensor x = layer(token(tokens));
    const auto heads = [](const Tensor& t) { return t.reshape({t.size(0), t.size(1), 2, -1}).transpose(1, 2); };
    const Tensor q = rotary_embedding(heads(x)), v = heads(x);
    const Tensor a = scaled_dot_product_attention(q, q, v, {}, {.is_causal = true});
    return out(lstm(flatten(a.transpose(1, 2), 2)).output);
  }
};

bool has_bytes(const OnnxFile& f, const std::string& name, const Tensor& t) {
  const auto i = f.initialisers.find(name);
  return i != f.initialisers.end() && i->second.dtype == onnx_type(t.dtype()) &&
         i->second.sizes == std::vector<std::int64_t>(t.sizes().begin(), t.sizes().end()) &&
         std::memcmp(i->second.bytes.data(), t.raw_data(), i->second.bytes.size()) == 0;
}
using Names = std::vector<std::string>;

template <class Net> void keep_net(const Folder& folder, const char* name, const Net& net, const Tensors& x) {
  if (!folder.kept) return;
  const InferenceMode inference;
  keep_results(folder / name, x, {cast(net(x[0]), f64)}, {2e-4, 2e-5});
}

}  // namespace

TEST_CASE("a convolutional net is saved with its parameters, under their names, for any batch") {
  const Folder folder;
  manual_seed(3);
  Cnn net;
  for (int i = 0; i < 3; ++i) net(randn({4, 3, 16, 16}));  // running statistics
  nn::eval(net);
  const std::string path = folder / "net_cnn.onnx";
  nn::save_onnx(net, path, {randn({2, 3, 16, 16})},
                {.input_names = {"image"}, .output_names = {"logits"}, .dynamic = {{"batch"}}});
  const OnnxFile f = read_onnx(path);
  CHECK(f.opset == 17);
  CHECK(f.ir_version == 8);
  REQUIRE(f.inputs.size() == 1);
  CHECK(f.inputs[0].name == "image");
  CHECK(f.inputs[0].sizes == Names{"batch", "3", "16", "16"});
  REQUIRE(f.outputs.size() == 1);
  CHECK(f.outputs[0].name == "logits");
  CHECK(f.outputs[0].sizes == Names{"batch", "10"});
  for (const auto& [name, t] : nn::state_dict(net)) {
    INFO(name);
    if (!name.ends_with("num_batches_tracked")) CHECK(has_bytes(f, name, t));
  }
  CHECK(f.count("Conv") == 2);
  CHECK(f.count("BatchNormalization") == 1);
  CHECK(f.count("Gemm") == 1);
  CHECK(f.count("Shape") == 0);  // the flatten is a reshape to [0, -1]
  for (const auto& n : f.nodes) {
    if (n.type != "Conv") continue;
    CHECK(n.ints.at("group") == std::vector<std::int64_t>{n.inputs[1] == "shrink.weight" ? 4 : 1});
    CHECK(n.ints.at("pads") == std::vector<std::int64_t>{1, 1, 1, 1});
  }
  keep_net(folder, "net_cnn", net, {randn({5, 3, 16, 16})});
}

TEST_CASE("sequences of any length are saved") {
  const Folder folder;
  manual_seed(4);
  Text net;
  nn::eval(net);
  const std::string path = folder / "net_text.onnx";
  const Tensor tokens = randint(0, 11, {2, 7});
  nn::save_onnx(net, path, {tokens}, {.dynamic = {{"batch"}, {"length", 1}}});
  const OnnxFile f = read_onnx(path);
  CHECK(f.inputs[0].sizes == Names{"batch", "length"});
  CHECK(f.inputs[0].dtype == 7);
  CHECK(f.outputs[0].sizes == Names{"batch", "length", "11"});
  CHECK(f.count("LSTM") == 4);
  CHECK(f.initialisers.contains("lstm.weight_hh_l1_reverse"));
  keep_net(folder, "net_text", net, {randint(0, 11, {5, 6})});
}

TEST_CASE("halves are saved as they are, and autocast as its casts") {
  const Folder folder;
  manual_seed(5);
  nn::Linear net(6, 3);
  const Tensor x = randn({2, 6});
  nn::save_onnx(net, folder / "net_amp.onnx", {x}, {}, [&](const Tensor& t) {
    const amp::Autocast region(bf16);
    return net(t);
  });
  const OnnxFile f = read_onnx(folder / "net_amp.onnx");
  CHECK(has_bytes(f, "weight", net.weight));
  CHECK(f.count("Cast") == 3);  // of x, weight and bias, each time the file is run
  CHECK(f.outputs[0].dtype == onnx_type(bf16));
  nn::to(net, f16);
  nn::save_onnx(net, folder / "net_f16.onnx", {x.to(f16)});
  const OnnxFile half = read_onnx(folder / "net_f16.onnx");
  CHECK(has_bytes(half, "weight", net.weight));
  CHECK(half.outputs[0].dtype == 10);
}

TEST_CASE("results, several inputs and constants") {
  const Folder folder;
  nn::LSTM lstm(3, 4);
  nn::eval(lstm);
  nn::save_onnx(lstm, folder / "r_lstm.onnx", {randn({5, 2, 3})}, {.output_names = {"y", "h", "c"}});
  CHECK(read_onnx(folder / "r_lstm.onnx").outputs.size() == 3);

  const Nothing net;
  const Tensor x = randn({2, 3}), y = randn({2, 3});
  nn::save_onnx(net, folder / "r_same.onnx", {x, y}, {}, [](const Tensor& a, const Tensor& b) {
    return Tensors{a, a + b, ones({2})};  // an input, a sum, a constant
  });
  const OnnxFile f = read_onnx(folder / "r_same.onnx");
  CHECK(f.inputs[1].name == "input_1");
  CHECK(f.outputs[2].name == "output_2");
  CHECK(f.count("Identity") == 2);

  // Unused values are left out.
  nn::save_onnx(net, folder / "r_dead.onnx", {x}, {}, [](const Tensor& a) {
    (void)sin(a);
    return cos(a);
  });
  CHECK(read_onnx(folder / "r_dead.onnx").nodes.size() == 1);
}

TEST_CASE("sums and averages of bags of embeddings are saved") {
  const Folder folder;
  const Tensor indices = tensor({{1, 2, 0}, {3, 3, 2}}), others = tensor({{2, 2, 2}, {0, 1, 3}});
  for (const nn::BagMode mode : {nn::BagMode::sum, nn::BagMode::mean}) {
    for (const bool padded : {false, true}) {
      nn::EmbeddingBagOptions o{.mode = mode};
      if (padded) o.padding_idx = 2;
      const nn::EmbeddingBag bags(4, 5, o);
      const std::string path = folder / concat("r_bags_", mode == nn::BagMode::sum, padded, ".onnx");
      nn::save_onnx(bags, path, {indices});
      const nn::OnnxModel read(path);
      for (const Tensor& x : {indices, others}) CHECK(difference(read(x), bags(x), {1e-6, 1e-6}) == "");
    }
  }
}

TEST_CASE("averages of regions are saved") {
  const Folder folder;
  const Nothing net;
  const Tensor x = randn({2, 3, 9, 8});
  const Tensor boxes = tensor({{1.0, 1.5, 2.0, 11.0, 9.5}, {0.0, -3.0, 4.0, 12.0, 30.0}, {1.0, 4.0, 4.0, 4.5, 4.25}});
  for (const bool aligned : {false, true}) {
    for (const std::int64_t samples : {0, 2}) {
      const auto f = [&](const Tensor& a) {
        const nn::RoiAlignOptions o{.spatial_scale = 0.5, .sampling_ratio = samples, .aligned = aligned};
        return nn::roi_align(a * 2, boxes, {2, 3}, o);
      };
      const std::string path = folder / concat("r_regions_", aligned, samples, ".onnx");
      nn::save_onnx(net, path, {x}, {}, f);
      CHECK(read_onnx(path).count("RoiAlign") == 1);
      CHECK(difference(nn::OnnxModel(path)(x), f(x), {1e-5, 1e-5}) == "");
    }
  }
  const auto by_position = [&](const Tensor& a) { return nn::ps_roi_align(a, boxes, {3, 1}); };
  CHECK_THROWS_WITH(nn::save_onnx(net, folder / "r_no.onnx", {x}, {}, by_position),
                    Catch::Matchers::Contains("sensitive to position"));
}

TEST_CASE("what cannot be saved is refused with its reason") {
  const Folder folder;
  const std::string path = folder / "no.onnx";
  const Nothing net;
  const Tensor x = randn({4, 3});
  const nn::OnnxOptions batch{.dynamic = {{"batch"}}};
  const auto refuses = [&](const nn::OnnxOptions& o, const Tensors& inputs, auto forward, const std::string& fragment) {
    CHECK_THROWS_WITH(nn::save_onnx(net, path, inputs, o, forward), Catch::Matchers::Contains(fragment));
    CHECK(!std::filesystem::exists(path));
  };
  Cnn training;
  CHECK_THROWS_WITH(nn::save_onnx(training, path, {randn({2, 3, 16, 16})}), Catch::Matchers::Contains("training mode"));
  refuses(
      {}, {x}, [](const Tensor& t) { return dropout(t, 0.5); }, "dropout in training");
  refuses(
      {}, {x}, [](const Tensor& t) { return lgamma(t); }, "lgamma(x: f32[4, 3]): cannot be exported to ONNX");
  refuses(
      {}, {x},
      [](const Tensor& t) {
        return t * rand({4, 3});
      },
      "is something random");
  refuses(
      {}, {x},
      [](const Tensor& t) {
        return t * t[{0, 0}].item<double>();
      },
      "does the program look at values");
  for (const Tensor& equal : {zeros({4, 3}), ones({4, 3})}) {  // an example of equal numbers hides nothing
    refuses(
        {}, {equal}, [](const Tensor& t) { return t * t.mean().item<double>(); }, "does the program look at values");
    refuses(
        {}, {equal},
        [&](const Tensor& t) {
          return t[{1, 2}].item() > equal[{1, 2}].item() ? sin(t) : cos(t);
        },
        "other operators with other values");
  }
  const Tensor tokens = randint(0, 9, {4, 3});
  refuses(  // nor does a sum, which is the same in any order
      {}, {tokens}, [](const Tensor& t) { return t * t.sum().item<std::int64_t>(); },
      "does the program look at values");
  refuses(
      {.dynamic = {{"batch"}, {"rows", -2}}}, {x}, [](const Tensor& t) { return t; },
      "axis -2 of input input is dynamic twice");
  const Tensor rising = cast(reshape(arange(12), {4, 3}), f32);
  refuses(
      {}, {rising},
      [](const Tensor& t) {
        return t[{0, 0}].item() > t[{3, 2}].item() ? sin(t) : cos(t);
      },
      "other operators with other values");
  refuses(
      {}, {x}, [](const Tensor& t) { return Tensor((t + 1.0).add_(t) * 2.0); }, "written to in place");
  refuses(
      batch, {x},
      [](const Tensor& t) {
        return t * rand({t.size(0), 1});
      },
      "a constant f32[4, 1]");
  refuses(
      batch, {x}, [](const Tensor& t) { return t.size(0) > 3 ? sin(t) : cos(t); }, "batch = 3 instead of 4");
  refuses(
      {.dynamic = {{"features", 1}}}, {x},
      [](const Tensor& t) {
        return max_pool2d(reshape(t, {1, 1, 4, -1}), {2, static_cast<int>(t.size(1))});
      },
      "the attribute kernel_shape");
  refuses(
      {.dynamic = {{"batch", 2}}}, {x}, [](const Tensor& t) { return t; }, "the dynamic axis \"batch\" is 2");
  refuses(
      {.dynamic = {{"batch", 0, "image"}}}, {x}, [](const Tensor& t) { return t; }, "no input \"image\"");
  refuses(
      {.opset = 16}, {x}, [](const Tensor& t) { return t; }, "opset 16 is not between 17 and 22");
  refuses(
      {.input_names = {"a", "b"}}, {x}, [](const Tensor& t) { return t; }, "2 names for 1 inputs");
  refuses(
      {.input_names = {"a"}, .output_names = {"a"}}, {x}, [](const Tensor& t) { return sin(t); }, "used twice");
  refuses(
      {}, {x, x}, [](const Tensor& t) { return t; }, "does not take 2 tensors");
  // The position in the model.
  struct Inner {
    nn::Linear first{3, 3};
    MANTISSA_FIELDS(first)
  };
  struct Outer {
    std::vector<Inner> blocks{2};
    MANTISSA_FIELDS(blocks)
    Tensor operator()(const Tensor& t) const { return lgamma(relu(blocks[1].first(blocks[0].first(t)))); }
  };
  CHECK_THROWS_WITH(nn::save_onnx(Outer(), path, {x}),
                    Catch::Matchers::Contains("lgamma(x: f32[4, 3]) after blocks.1.first: cannot be exported"));
  CHECK_THROWS_WITH(nn::save_onnx(net, folder / "none/x.onnx", {x}, {}, [](const Tensor& t) { return sin(t); }),
                    Catch::Matchers::Contains("none/x.onnx"));
  CHECK_THROWS_WITH(nn::save_onnx(net, folder / "empty.onnx", {randn({3, 8})}, {.dynamic = {{"batch"}}},
                                  [](const Tensor& t) {
                                    const Tensor part = slice(t, 0, -2, 1, 2);  // of no elements where there are 3
                                    return einsum("bi,bi->b", {part, part});
                                  }),
                    Catch::Matchers::Contains("ran other operators"));
  // A failed export leaves nothing behind: the next one works, and so does everything else.
  nn::save_onnx(net, folder / "yes.onnx", {x}, {}, [](const Tensor& t) { return sin(t); });
  nn::save_onnx(net, folder / "table.onnx", {x}, {}, [](const Tensor& t) { return t * svdvals(ones({3, 3})); });
  CHECK(!context().autocast.any());
}

TEST_CASE("sizes that depend on the batch follow it") {
  const Folder folder;
  const Nothing net;
  const nn::OnnxOptions both{.dynamic = {{"batch"}, {"length", 1}}};
  const auto file = [&](const char* name, auto forward) {
    nn::save_onnx(net, folder / name, {randn({3, 5, 4})}, both, forward);
    if (folder.kept) {
      const Tensor x = randn({6, 4, 4});
      keep_results(folder / std::string(name).substr(0, std::string(name).find('.')), {x}, {cast(forward(x), f64)},
                   {2e-5, 2e-6});
    }
    return read_onnx(folder / name);
  };
  const auto sizes = [](const OnnxFile& f) { return f.outputs.at(0).sizes; };
  CHECK(sizes(file("s_flat.onnx", [](const Tensor& x) { return flatten(x, 0, 1); })) == Names{"batch*length", "4"});
  CHECK(sizes(file("s_twice.onnx", [](const Tensor& x) { return cat({x, x}, 1); })) == Names{"batch", "2*length", "4"});
  CHECK(sizes(file("s_less.onnx", [](const Tensor& x) { return slice(x, 1, 1); })) == Names{"batch", "length-1", "4"});
  const OnnxFile last = file("s_last.onnx", [](const Tensor& x) { return select(x, 1, -1); });
  CHECK(last.count("Shape") == 1);
  CHECK(sizes(last) == Names{"batch", "4"});
  const OnnxFile filled = file("s_full.onnx", [](const Tensor& x) { return cat({x, full({x.size(0), 1, 4}, 3)}, 1); });
  CHECK(filled.count("Expand") == 1);
  const OnnxFile places =
      file("s_range.onnx", [](const Tensor& x) { return x + cast(arange(x.size(1)), f32).unsqueeze(1); });
  CHECK(places.count("Range") == 1);
  const Tensor table = randn({5, 4});
  const OnnxFile begun = file("s_table.onnx", [&](const Tensor& x) {
    return x + from_data(table.to_vector<float>(), {5, 4}).slice(0, 0, x.size(1)).clone();
  });
  CHECK(begun.count("Slice") == 1);
  // A table that is too short is an error when the file is run, not a shorter result.
  file("s_windows.onnx", [](const Tensor& x) { return unfold(x, 1, 2, 1); });
  const nn::OnnxModel windows(folder / "s_windows.onnx");
  CHECK(windows(randn({2, 4, 4})).sizes() == Dims{2, 3, 4, 2});
  CHECK_THROWS_AS(windows(randn({2, 9, 4})), Error);
  // A count that sums are divided by.
  const auto spread = [](const Tensor& x) { return var(x, {0, 2}); };
  const OnnxFile counted = file("s_count.onnx", spread);
  CHECK(counted.count("Cast") == 1);
  const Tensor more = randn({7, 2, 4});
  CHECK(all_close(nn::OnnxModel(folder / "s_count.onnx")(more), spread(more).to(f64), {1e-5, 1e-6}));
  CHECK(sizes(file("s_swap.onnx", [](const Tensor& x) {
          return reshape(transpose(x, 0, 1), {x.size(1) * 2, x.size(0), 2});
        })) == Names{"2*length", "batch", "2"});
}
