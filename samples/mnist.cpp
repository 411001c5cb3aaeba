// MNIST and Fashion-MNIST: an MLP and a small convolutional network, in mixed precision by default.
//   mnist                                   Fashion-MNIST from Debian's package, CNN, bf16
//   mnist --dataset mnist --data DIR --amp f16 --epochs 3
//   mnist --help
#include "common/trainer.h"

using namespace mantissa;

struct Mlp {  // 784-256-128-10
  nn::Linear fc1{784, 256}, fc2{256, 128}, fc3{128, 10};
  MANTISSA_FIELDS(fc1, fc2, fc3)

  Tensor operator()(const Tensor& image) const {
    return fc3(relu(fc2(relu(fc1(flatten(image, 1))))));
  }
};

struct Cnn {  // two 3x3 convolutions, each followed by pooling, and two linear layers
  nn::Conv2d conv1{1, 32, 3, {.padding = 1}}, conv2{32, 64, 3, {.padding = 1}};
  nn::Linear fc1{64 * 7 * 7, 128}, fc2{128, 10};
  nn::Dropout drop{.p = 0.25};
  MANTISSA_FIELDS(conv1, conv2, fc1, fc2, drop)

  Tensor operator()(const Tensor& image) const {
    Tensor x = max_pool2d(relu(conv1(image)), 2);  // [N, 32, 14, 14]
    x = max_pool2d(relu(conv2(x)), 2);             // [N, 64, 7, 7]
    return fc2(drop(relu(fc1(flatten(x, 1)))));
  }
};

int run(int argc, char** argv) {
  samples::Options o{.dataset = "fashion", .model = "cnn"};
  samples::configure(argc, argv,
                     {"Trains a classifier of 28x28 images.", {"cnn", "mlp"}, {"mnist", "fashion", "synthetic"}}, o);
  if (o.model == "mlp") {
    Mlp net;
    return samples::train(net, o);
  }
  Cnn net;
  return samples::train(net, o);
}

int main(int argc, char** argv) { return samples::run_guarded(run, argc, argv); }
