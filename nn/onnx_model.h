// Loads an ONNX file as a net: as written by torch.onnx.export, nn::save_onnx (nn/onnx.h) and other exporters.
//
//   nn::OnnxModel net("resnet18.onnx");
//   Tensor logits = net(images);            // the file's inputs, in order
//   std::vector<Tensor> all = net({images});  // for several results
//
//   nn::train(net);                         // trainable like any other net
//   optim::Adam opt(nn::parameters(net), {.lr = 1e-4});
//
// Nodes become operators of core/ops.h, so gradients, autocast and devices work as everywhere. Floating initialisers of
// at least one dimension become parameters under their names in the file. Buffers are: running statistics of
// BatchNormalization, masks (values beyond 1e30), operands of fills, comparisons and powers, and values of nodes named
// Constant. Scalars, scales of Resize and the like, and integers are constants.
//
// A file does not say what was trainable. Exporters fold what they can: positional tables may be among the parameters
// (freeze them with requires_grad_(false)), batch norms are folded into their convolutions (unless torch.onnx.export is
// told training=TrainingMode.PRESERVE), and a weight shared by two layers may be stored twice, once transposed, and
// would then be trained twice (use nn::tie where the shapes agree). torch.onnx.export merges equal parameters, as those
// of freshly initialised layers; statistics that it merged are separated again.
//
// A net is loaded in eval mode. After nn::train Dropout is active and BatchNormalization uses batch statistics and
// updates the running ones, with the file's ratio and momentum. Any sizes that the operators accept may be used: shapes
// are computed on the host as the file specifies.
//
// Operators: opset 6 to 28; about 160 of the domain ai.onnx, including If, Loop and Scan; functions defined in the file
// are inlined. Rejected at loading, in one message that lists all such nodes: other operators and domains, unsupported
// attributes, quantized types (int8 in Cast), strings, sequences, sparse and complex tensors. Random numbers come from
// the generator of core/random.h. The file may be untrusted: it is validated (io/onnx_file.h), but the time and memory
// that a valid one takes are not limited.
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

  // The only result; an error if there are several.
  template <class... T>
  requires(sizeof...(T) > 0 && (std::convertible_to<const T&, const Tensor&> && ...)) Tensor operator()(
      const T&... x) const {
    return one_result((*this)({static_cast<const Tensor&>(x)...}));
  }
  // All results, in the file's order.
  std::vector<Tensor> operator()(std::initializer_list<Tensor> x) const { return run(std::span(x.begin(), x.size())); }
  std::vector<Tensor> operator()(std::span<const Tensor> x) const { return run(x); }

  // Inputs and results as declared in the file.
  struct Port {
    std::string name;
    std::string type;             // for display: "f32[batch, 3, 224, 224]"
    std::vector<OnnxSize> sizes;  // empty if the file does not say
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
  struct Value {  // exactly one is used
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

// With all results, and the file's names where the options give none.
void save_onnx(const OnnxModel& net, const std::string& path, const std::vector<Tensor>& inputs,
               const OnnxOptions& options = {});

}  // namespace mantissa::nn
