// Models with inputs and expected results, in the layout of the ONNX standard's own tests: FOLDER/NAME/model.onnx next
// to FOLDER/NAME/test_data_set_K/input_I.pb and output_I.pb. tests/golden/onnx_examples.py writes them.
#pragma once

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/onnx_file.h"
#include "nn/onnx_model.h"

namespace mantissa::test {

struct ExampleResult {
  enum Kind { passed, refused, failed } kind = passed;
  std::string why;
  double error = 0;  // the largest difference from the expected value
};

// The largest error of y in units of atol + rtol * |expected|; the largest absolute difference is stored in `error`.
inline double distance(const Tensor& y, const Tensor& expected, double rtol, double atol, double& error) {
  const std::vector<double> a = y.to_vector<double>(), b = expected.to_vector<double>();
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double d = std::abs(a[i] - b[i]), off = d / (atol + rtol * std::abs(b[i]));
    error = std::max(error, d);
    worst = std::isnan(off) ? HUGE_VAL : std::max(worst, off);
  }
  return worst;
}

inline ExampleResult run_example(const std::filesystem::path& folder, double rtol, double atol) {
  namespace fs = std::filesystem;
  const auto numbered = [](const fs::path& set, const char* kind) {
    std::vector<std::string> files;
    for (int i = 0; fs::exists(set / (kind + std::to_string(i) + ".pb")); ++i)
      files.push_back((set / (kind + std::to_string(i) + ".pb")).string());
    return files;
  };
  ExampleResult result;
  const auto net = [&]() -> std::optional<nn::OnnxModel> {
    try {
      return nn::OnnxModel((folder / "model.onnx").string());
    } catch (const Error& e) {
      result = {ExampleResult::refused, e.what()};
      return {};
    }
  }();
  if (!net) return result;
  try {
    for (int k = 0;; ++k) {
      const fs::path set = folder / ("test_data_set_" + std::to_string(k));
      if (!fs::exists(set)) break;
      std::vector<Tensor> in, expected;
      try {
        for (const std::string& f : numbered(set, "input_")) in.push_back(io::read_onnx_tensor(f));
        for (const std::string& f : numbered(set, "output_")) expected.push_back(io::read_onnx_tensor(f));
      } catch (const Error& e) { return {ExampleResult::refused, e.what()}; }
      const std::vector<Tensor> y = (*net)(std::span<const Tensor>(in));
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (i >= y.size()) return {ExampleResult::failed, "too few results"};
        if (y[i].sizes() != expected[i].sizes())
          return {ExampleResult::failed, concat("result ", i, " is ", y[i], ", expected ", expected[i])};
        if (y[i].dtype() != expected[i].dtype())
          return {ExampleResult::failed, concat("result ", i, " is ", y[i], ", expected ", expected[i])};
        const double half = y[i].dtype() == bf16 ? 2e-2 : y[i].dtype() == f16 ? 2e-3 : 0;
        const double off = distance(y[i], expected[i], std::max(rtol, half), atol, result.error);
        if (!(off <= 1)) return {ExampleResult::failed, concat("result ", i, " ", y[i], " is off by ", result.error)};
      }
    }
  } catch (const std::exception& e) { return {ExampleResult::failed, e.what()}; }
  return result;
}

}  // namespace mantissa::test
