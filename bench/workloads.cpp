#include "workloads.h"

namespace bench {
namespace {

struct Mlp {
  nn::LinearAct fc1{784, 256, Activation::relu}, fc2{256, 128, Activation::relu};
  nn::Linear fc3{128, 10};
  MANTISSA_FIELDS(fc1, fc2, fc3)
  Tensor operator()(const Tensor& x) const { return fc3(fc2(fc1(x))); }
};

struct MnistCnn {  // the network of PyTorch's MNIST example
  nn::ConvReLU2d conv1{1, 32, 3}, conv2{32, 64, 3};
  nn::LinearAct fc1{9216, 128, Activation::relu};
  nn::Linear fc2{128, 10};
  MANTISSA_FIELDS(conv1, conv2, fc1, fc2)
  Tensor operator()(const Tensor& image) const {
    const Tensor x = max_pool2d(conv2(conv1(image)), 2);  // [N, 64, 12, 12]
    return fc2(fc1(flatten(x, 1)));
  }
};

struct LeNet {  // the network of PyTorch's tutorial "Training a classifier"
  nn::Conv2d conv1{3, 6, 5}, conv2{6, 16, 5};
  nn::Linear fc1{16 * 5 * 5, 120}, fc2{120, 84}, fc3{84, 10};
  MANTISSA_FIELDS(conv1, conv2, fc1, fc2, fc3)
  Tensor operator()(const Tensor& image) const {
    Tensor x = max_pool2d(relu(conv1(image)), 2);
    x = max_pool2d(relu(conv2(x)), 2);
    return fc3(relu(fc2(relu(fc1(flatten(x, 1))))));
  }
};

struct SimpleCnn {  // as in samples/cifar.cpp
  nn::Conv2d conv1{3, 64, 3, {.padding = 1}}, conv2{64, 128, 3, {.padding = 1}};
  nn::Linear fc1{128 * 8 * 8, 256}, fc2{256, 10};
  MANTISSA_FIELDS(conv1, conv2, fc1, fc2)
  Tensor operator()(const Tensor& image) const {
    Tensor x = max_pool2d(relu(conv1(image)), 2);
    x = max_pool2d(relu(conv2(x)), 2);
    return fc2(relu(fc1(flatten(x, 1))));
  }
};

struct BasicBlock {
  BasicBlock(std::int64_t in, std::int64_t out, int stride)
      : conv1(in, out, 3, {.stride = stride, .padding = 1, .bias = false}),
        conv2(out, out, 3, {.padding = 1, .bias = false}), bn1(out), bn2(out) {
    if (stride != 1 || in != out)
      shortcut = nn::Sequential{nn::Conv2d(in, out, 1, {.stride = stride, .bias = false}), nn::BatchNorm2d(out)};
  }
  nn::Conv2d conv1, conv2;
  nn::BatchNormAct2d bn1, bn2;  // end in relu
  nn::Sequential shortcut;
  MANTISSA_FIELDS(conv1, bn1, conv2, bn2, shortcut)
  Tensor operator()(const Tensor& x) const { return bn2(conv2(bn1(conv1(x))), shortcut(x)); }
};

struct ResNet18 {  // He et al., 2015, for 32x32 pictures as in kuangliu/pytorch-cifar
  ResNet18() : conv1(3, 64, 3, {.padding = 1, .bias = false}), bn1(64), linear(512, 10) {
    std::int64_t in = 64;
    nn::ModuleList<BasicBlock>* layers[] = {&layer1, &layer2, &layer3, &layer4};
    for (int i = 0; i < 4; ++i) {
      const std::int64_t out = std::int64_t{64} << i;
      layers[i]->emplace_back(in, out, i == 0 ? 1 : 2);
      layers[i]->emplace_back(out, out, 1);
      in = out;
    }
  }
  nn::Conv2d conv1;
  nn::BatchNormAct2d bn1;
  nn::ModuleList<BasicBlock> layer1, layer2, layer3, layer4;
  nn::Linear linear;
  MANTISSA_FIELDS(conv1, bn1, layer1, layer2, layer3, layer4, linear)
  Tensor operator()(const Tensor& image) const {
    Tensor x = bn1(conv1(image));
    for (const auto* layer : {&layer1, &layer2, &layer3, &layer4})
      for (const BasicBlock& block : *layer) x = block(x);
    return linear(flatten(avg_pool2d(x, 4), 1));
  }
};

struct GptBlock {  // as in samples/gpt.cpp
  GptBlock(std::int64_t width, std::int64_t head_count)
      : norm1(width, {.bias = false}), query(width, width, {.bias = false}), key(width, width, {.bias = false}),
        value(width, width, {.bias = false}), out(width, width, {.bias = false}), norm2(width, {.bias = false}),
        up(width, 4 * width, Activation::gelu_tanh, {.bias = false}), down(4 * width, width, {.bias = false}),
        heads(head_count) {}
  nn::LayerNorm norm1;
  nn::Linear query, key, value, out;
  nn::LayerNorm norm2;
  nn::LinearAct up;
  nn::Linear down;
  std::int64_t heads;
  MANTISSA_FIELDS(norm1, query, key, value, out, norm2, up, down)

  Tensor attend(const Tensor& x) const {
    const auto by_head = [&](const Tensor& y) { return y.reshape({y.size(0), y.size(1), heads, -1}).transpose(1, 2); };
    const Tensor q = rotary_embedding(by_head(query(x))), k = rotary_embedding(by_head(key(x))), v = by_head(value(x));
    return out(flatten(scaled_dot_product_attention(q, k, v, {}, {.is_causal = true}).transpose(1, 2), 2));
  }
  Tensor operator()(const Tensor& x) const {
    const auto [sum, y] = norm2(x, attend(norm1(x)));  // sum = x + what is attended to, and it normalised
    return sum + nn::feed_forward(up, down, y);
  }
};

struct Gpt {
  Gpt() : token(65, 128), norm(128, {.bias = false}), head(128, 65, {.bias = false}) {
    for (int i = 0; i < 4; ++i) blocks.emplace_back(128, 4);
  }
  nn::Embedding token;
  std::vector<GptBlock> blocks;
  nn::LayerNorm norm;
  nn::Linear head;
  MANTISSA_FIELDS(token, blocks, norm, head)
  Tensor operator()(const Tensor& tokens) const {  // i64 [N, T] -> [N, T, 65]
    Tensor x = token(tokens);
    for (const GptBlock& block : blocks) x = block(x);
    return head(norm(x));
  }
};

struct Residual { Tensor x, delta; };  // x + delta, which the norm that reads it adds

struct Gpt2Block {
  Gpt2Block(std::int64_t width, std::int64_t head_count)
      : norm1(width), qkv(width, 3 * width), out(width, width), norm2(width),
        up(width, 4 * width, Activation::gelu_tanh), down(4 * width, width), heads(head_count) {}
  nn::LayerNorm norm1;
  nn::Linear qkv, out;
  nn::LayerNorm norm2;
  nn::LinearAct up;
  nn::Linear down;
  std::int64_t heads;
  MANTISSA_FIELDS(norm1, qkv, out, norm2, up, down)

  Tensor attend(const Tensor& x) const {
    const Tensor all = qkv(x);  // [N, T, 3 * width]
    const std::int64_t n = x.size(0), t = x.size(1), width = x.size(2);
    const auto part = [&](int i) {
      return narrow(all, 2, i * width, width).reshape({n, t, heads, width / heads}).transpose(1, 2);
    };
    const Tensor y = scaled_dot_product_attention(part(0), part(1), part(2), {}, {.is_causal = true});
    return out(flatten(y.transpose(1, 2), 2));
  }
  Residual operator()(const Residual& in) const {
    const auto [x, y] = norm1(in.x, in.delta);
    const auto [sum, z] = norm2(x, attend(y));  // sum = x + what is attended to, and it normalised
    return {sum, nn::feed_forward(up, down, z)};
  }
};

struct Gpt2 {  // GPT-2 of 124M (Radford et al., 2019): the head shares the embedding's weight; no dropout
  Gpt2() : token(50304, 768), position(1024, 768), norm(768) {
    for (int i = 0; i < 12; ++i) blocks.emplace_back(768, 12);
  }
  nn::Embedding token, position;
  std::vector<Gpt2Block> blocks;
  nn::LayerNorm norm;
  MANTISSA_FIELDS(token, position, blocks, norm)
  Tensor operator()(const Tensor& tokens) const {  // i64 [N, T] -> [N, T, 50304], T up to 1024
    Residual r{token(tokens) + narrow(position.weight, 0, 0, tokens.size(1)), {}};
    for (const Gpt2Block& block : blocks) r = block(r);
    return linear(norm(r.x, r.delta).y, token.weight);
  }
};

struct VisionTransformer {  // as in samples/vit.cpp, with the sizes of ViT-S
  VisionTransformer() : embed(3, 384, 4, {.stride = 4}), position(zeros({1, 64, 384})), norm(384), head(384, 10) {
    const nn::TransformerOptions options{.dim_feedforward = 1536, .dropout = 0, .activation = nn::FeedForward::gelu,
                                         .batch_first = true, .norm_first = true};
    for (int i = 0; i < 12; ++i) blocks.emplace_back(384, 6, options);
  }
  nn::Conv2d embed;
  nn::Param position;
  nn::ModuleList<nn::TransformerEncoderLayer> blocks;
  nn::LayerNorm norm;
  nn::Linear head;
  MANTISSA_FIELDS(embed, position, blocks, norm, head)
  Tensor operator()(const Tensor& image) const {
    Tensor x = flatten(embed(image), 2).transpose(1, 2) + position;  // [N, 64, 384]
    for (const auto& block : blocks) x = block(x);
    return head(norm(x).mean(1));
  }
};

template <class Net> Workload around(Device device, Dtype precision) {
  auto net = std::make_shared<Net>();
  nn::to(*net, device);
  if (device.is_cuda() && precision == bf16) nn::to(*net, Layout::channels_last);
  return {.owner = net, .forward = [net](const Tensor& x) { return (*net)(x); },
          .train = [net](bool on) { nn::train(*net, on); }, .module = *net};
}

}  // namespace

Workload make_workload(const std::string& name, Device device, Dtype precision) {
  Workload w = name == "mlp"        ? around<Mlp>(device, precision)
               : name == "cnn"      ? around<MnistCnn>(device, precision)
               : name == "lenet"    ? around<LeNet>(device, precision)
               : name == "simple"   ? around<SimpleCnn>(device, precision)
               : name == "resnet18" ? around<ResNet18>(device, precision)
               : name == "gpt"      ? around<Gpt>(device, precision)
               : name == "gpt2"     ? around<Gpt2>(device, precision)
               : name == "vit"      ? around<VisionTransformer>(device, precision)
                                    : throw Error("no workload is called " + name);
  const auto parameters = nn::named_parameters(w.module);
  const auto sgd = [&](const optim::SgdOptions& o) { w.optimizer = std::make_unique<optim::Sgd>(parameters, o); };
  const auto adam = [&](const optim::AdamOptions& o) { w.optimizer = std::make_unique<optim::Adam>(parameters, o); };
  const auto adamw = [&](const optim::AdamWOptions& o) { w.optimizer = std::make_unique<optim::AdamW>(parameters, o); };
  if (name == "mlp") adam({.lr = 1e-3});
  if (name == "cnn" || name == "simple") adam({.lr = 3e-4});
  if (name == "lenet") sgd({.lr = 1e-3, .momentum = 0.9});
  if (name == "resnet18") sgd({.lr = 1e-3, .momentum = 0.9, .weight_decay = 5e-4});
  if (name == "gpt") adamw({.lr = 1e-3, .betas = {0.9, 0.99}}), w.clip = 1;
  if (name == "gpt2") adamw({.lr = 6e-4, .betas = {0.9, 0.95}, .weight_decay = 0.1}), w.clip = 1;
  if (name == "vit") adamw({.lr = 1e-4});
  return w;
}

Tensor loss_of(const Tensor& logits, const Tensor& labels) {
  if (logits.dim() == 3) return cross_entropy(flatten(logits, 0, 1), flatten(labels));
  return cross_entropy(logits, labels);
}

}  // namespace bench
