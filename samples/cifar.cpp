// CIFAR-10 and CIFAR-100: four convolutional networks, each with its usual training recipe, in mixed precision.
//   cifar                                   SimpleCNN with Adam, 3 epochs, bf16
//   cifar --model fast --epochs 10          a small ResNet with a one-cycle schedule
//   cifar --model resnet18 --amp f16 --save resnet18.ckpt
//   scripts/download.sh cifar10             fetches the images; without them, synthetic digits are used
//   cifar --model fast --help               shows the defaults of that model's recipe
#include "common/augment.h"
#include "common/trainer.h"

using namespace mantissa;

struct LeNet {  // PyTorch's beginner tutorial network: two 5x5 convolutions, three linear layers
  explicit LeNet(std::int64_t classes) : fc3(84, classes) {}
  nn::Conv2d conv1{3, 6, 5}, conv2{6, 16, 5};
  nn::Linear fc1{16 * 5 * 5, 120}, fc2{120, 84}, fc3;
  MANTISSA_FIELDS(conv1, conv2, fc1, fc2, fc3)

  Tensor operator()(const Tensor& image) const {
    Tensor x = max_pool2d(relu(conv1(image)), 2);  // [N, 6, 14, 14]
    x = max_pool2d(relu(conv2(x)), 2);             // [N, 16, 5, 5]
    return fc3(relu(fc2(relu(fc1(flatten(x, 1))))));
  }
};

struct SimpleCnn {  // 64 and 128 channels, each followed by pooling, and two linear layers
  explicit SimpleCnn(std::int64_t classes) : fc2(256, classes) {}
  nn::Conv2d conv1{3, 64, 3, {.padding = 1}}, conv2{64, 128, 3, {.padding = 1}};
  nn::Linear fc1{128 * 8 * 8, 256}, fc2;
  MANTISSA_FIELDS(conv1, conv2, fc1, fc2)

  Tensor operator()(const Tensor& image) const {
    Tensor x = max_pool2d(relu(conv1(image)), 2);  // [N, 64, 16, 16]
    x = max_pool2d(relu(conv2(x)), 2);             // [N, 128, 8, 8]
    return fc2(relu(fc1(flatten(x, 1))));
  }
};

struct BasicBlock {  // two 3x3 convolutions beside a shortcut
  BasicBlock(std::int64_t in, std::int64_t out, int stride)
      : conv1(in, out, 3, {.stride = stride, .padding = 1, .bias = false}),
        conv2(out, out, 3, {.padding = 1, .bias = false}), bn1(out), bn2(out) {
    if (stride != 1 || in != out)
      shortcut = nn::Sequential{nn::Conv2d(in, out, 1, {.stride = stride, .bias = false}), nn::BatchNorm2d(out)};
  }
  nn::Conv2d conv1, conv2;
  nn::BatchNormAct2d bn1, bn2;  // relu included
  nn::Sequential shortcut;  // empty: identity
  MANTISSA_FIELDS(conv1, bn1, conv2, bn2, shortcut)

  Tensor operator()(const Tensor& x) const { return bn2(conv2(bn1(conv1(x))), shortcut(x)); }
};

nn::ModuleList<BasicBlock> stage(std::int64_t in, std::int64_t out, int stride) {
  nn::ModuleList<BasicBlock> blocks;
  blocks.emplace_back(in, out, stride);
  blocks.emplace_back(out, out, 1);
  return blocks;
}

struct ResNet18 {  // He et al., 2015, with a first convolution for small images, as in kuangliu/pytorch-cifar
  ResNet18(std::int64_t w, std::int64_t classes)
      : conv1(3, w, 3, {.padding = 1, .bias = false}), bn1(w), layer1(stage(w, w, 1)), layer2(stage(w, 2 * w, 2)),
        layer3(stage(2 * w, 4 * w, 2)), layer4(stage(4 * w, 8 * w, 2)), linear(8 * w, classes) {}
  nn::Conv2d conv1;
  nn::BatchNormAct2d bn1;
  nn::ModuleList<BasicBlock> layer1, layer2, layer3, layer4;
  nn::Linear linear;
  MANTISSA_FIELDS(conv1, bn1, layer1, layer2, layer3, layer4, linear)

  Tensor operator()(const Tensor& image) const {
    Tensor x = bn1(conv1(image));
    for (const auto* layer : {&layer1, &layer2, &layer3, &layer4})
      for (const BasicBlock& block : *layer) x = block(x);
    return linear(flatten(adaptive_avg_pool2d(x, 1), 1));  // input [N, 8 w, 4, 4]
  }
};

// David Page's 9-layer ResNet (94 % in DAWNBench 2018), with `width` channels in the first layer.
nn::Sequential fast_net(std::int64_t width, std::int64_t classes) {
  const auto conv = [](std::int64_t in, std::int64_t out) {
    return nn::Sequential{nn::Conv2d(in, out, 3, {.padding = 1, .bias = false}), nn::BatchNormAct2d(out)};
  };
  struct Residual {
    nn::Sequential body;
    MANTISSA_FIELDS(body)
    Tensor operator()(const Tensor& x) const { return x + body(x); }
  };
  const std::int64_t w = width;
  return nn::Sequential{conv(3, w),
                        conv(w, 2 * w),
                        nn::MaxPool2d(2),
                        Residual{nn::Sequential{conv(2 * w, 2 * w), conv(2 * w, 2 * w)}},
                        conv(2 * w, 4 * w),
                        nn::MaxPool2d(2),
                        conv(4 * w, 8 * w),
                        nn::MaxPool2d(2),
                        Residual{nn::Sequential{conv(8 * w, 8 * w), conv(8 * w, 8 * w)}},
                        nn::MaxPool2d(4),
                        nn::Flatten{},
                        nn::Linear(8 * w, classes),
                        [](const Tensor& x) { return x * 0.125; }};
}

// The recipe of a model; every flag overrides it.
samples::Options recipe(const std::string& model) {
  samples::Options o{.dataset = "cifar10", .model = model};
  if (model == "lenet") o.optimizer = "sgd", o.lr = 0.01, o.batch = 32, o.epochs = 2, o.schedule = "constant";
  if (model == "simple") o.optimizer = "adam", o.lr = 2e-3, o.batch = 64, o.epochs = 3;
  if (model == "resnet18") o.optimizer = "sgd", o.lr = 0.1, o.batch = 128, o.epochs = 30, o.schedule = "cosine";
  if (model == "fast") o.optimizer = "sgd", o.lr = 0.4, o.batch = 512, o.epochs = 10;
  return o;
}

int run(int argc, char** argv) {
  const std::string model = samples::asked_model(argc, argv, "simple");
  samples::Options o = recipe(model);
  std::string augment = model == "resnet18" ? "crop" : model == "fast" ? "cutout" : "none";
  std::int64_t width = model == "fast" ? 32 : 64;
  double smoothing = model == "fast" ? 0.1 : 0;
  samples::configure(
      argc, argv,
      {.description = "Trains a classifier of 32x32 colour images. Defaults are the recipe of the model.",
       .models = {"lenet", "simple", "resnet18", "fast"},
       .datasets = {"cifar10", "cifar100", "synthetic-color"},
       .flags = {{"--augment", &augment, "Random changes of the training images", samples::augmentations},
                 {"--width", &width, "Channels of the first convolution of resnet18 and fast"},
                 {"--label-smoothing", &smoothing, "Part of the target spread over all classes"}}},
      o);
  const std::int64_t classes = o.dataset == "cifar100" ? 100 : 10;
  samples::TrainOptions more{.label_smoothing = smoothing};
  more.augment = [augment](data::Pipeline p) { return samples::augmented(std::move(p), augment); };
  if (o.model == "lenet") {
    LeNet net(classes);
    return samples::train(net, o, more);
  }
  if (o.model == "simple") {
    SimpleCnn net(classes);
    return samples::train(net, o, more);
  }
  if (o.model == "resnet18") {
    ResNet18 net(width, classes);
    return samples::train(net, o, more);
  }
  nn::Sequential net = fast_net(width, classes);
  return samples::train(net, o, more);
}

int main(int argc, char** argv) { return samples::run_guarded(run, argc, argv); }
