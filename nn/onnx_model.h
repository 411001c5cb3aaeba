// Reads an ONNX file as a net: what torch.onnx.export, nn::save_onnx (nn/onnx.h) and other exporters write.
//
//   nn::OnnxModel net("resnet18.onnx");
//   Tensor logits = net(images);            // of the file's inputs in their order
//   std::vector<Tensor> all = net({images});  // where there are several results
//
//   nn::train(net);                         // and it is trained as any other net
//   optim::Adam opt(nn::parameters(net), {.lr = 1e-4});
//
// The nodes become operators of core/ops.h, so gradients, autocast and devices work as everywhere. Floating
// initialisers that have dimensions are parameters under their names in the file. Buffers are the running statistics of
// BatchNormalization, masks (numbers beyond 1e30), what elements are set to, compared with or raised to, and what nodes
// named Constant hold; numbers without dimensions, scales of Resize and the like, and integers are constants.
//
// A file does not say what was learned. Exporters fold what they can: tables of positions may be among the parameters
// (requires_grad_(false) keeps them as they are), batch norms become part of their convolutions (unless
// torch.onnx.export is told training=TrainingMode.PRESERVE), and a weight that two layers shared may be there twice,
// once transposed, and is then learned twice (nn::tie where the shapes agree). Of parameters that are equal, as those
// of new layers, torch.onnx.export makes one. Statistics that it has made one are told apart.
//
// A net is in eval mode when it is loaded. After nn::train Dropout drops and BatchNormalization uses the batch's
// statistics, and updates the running ones, as the file says with its ratio and momentum. Sizes may be any that the
// operators accept: shapes are computed on the host as the file says, whatever they are.
//
// Operators: opset 6 to 28, of the domain ai.onnx some 160, among them If, Loop and Scan; functions of the file are
// written out. Refused when the file is loaded, in one message that lists all such nodes: other operators and domains,
// attributes without a meaning here, quantized types (int8 in Cast), strings, sequences, sparse and complex tensors.
// Random numbers come from the generator of core/random.h. The file may be hostile: what it says is checked
// (io/onnx_file.h); how long a valid one computes, and on how much memory, is up to it.
#pragma once

#include <concepts>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/onnx_graph.h"
#include "nn/functions.h"
#include "nn/onnx.h"

namespace mantissa::nn {

namespace onnx {
class Program;
}

class OnnxModel {
 public:
  explicit OnnxModel(const std::string& path);

  // The one result; an error where there are several.
  template <class... T>
  requires(sizeof...(T) > 0 && (std::convertible_to<const T&, const Tensor&> && ...)) Tensor operator()(
      const T&... x) const {
    return one_result((*this)({static_cast<const Tensor&>(x)...}));
  }
  // All results, in the file's order.
  std::vector<Tensor> operator()(std::initializer_list<Tensor> x) const { return run(std::span(x.begin(), x.size())); }
  std::vector<Tensor> operator()(std::span<const Tensor> x) const { return run(x); }

  // What the file says of inputs and results.
  struct Port {
    std::string name;
    std::string type;             // "f32[batch, 3, 224, 224]", for people
    std::vector<OnnxSize> sizes;  // none where it does not say
    bool has_sizes = false, has_dtype = false;
    Dtype dtype = f32;
  };
  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  int opset() const { return opset_; }

  Mode mode{false};
  void fields(Fields& visitor);
  OnnxModel clone() const;

 private:
  struct Value {  // one of the three
    std::string name;
    Param param;
    Buffer buffer;
    Tensor constant;
  };
  OnnxModel() = default;
  std::vector<Tensor> run(std::span<const Tensor> x) const;
  Tensor one_result(const std::vector<Tensor>& results) const;

  std::string path_;
  int opset_ = 0;
  std::shared_ptr<const onnx::Program> program_;
  std::vector<Value> values_;
  std::vector<Port> inputs_, outputs_;
};

// With all results, and the names of the file where the options have none.
void save_onnx(const OnnxModel& net, const std::string& path, const std::vector<Tensor>& inputs,
               const OnnxOptions& options = {});

}  // namespace mantissa::nn
