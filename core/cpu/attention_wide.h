// The products of attention in f32, whatever the storage; see core/cpu/attention.cpp.
#pragma once

#include "core/cpu/attention_block.h"

namespace mantissa::cpu_backend::MANTISSA_ISA::attention_wide {

using attention_block::Matrix, attention_block::most_keys, attention_block::panel, attention_block::Problem,
    attention_block::Scratch, attention_block::whole_panels;

// Blocks of queries: of equal size, their scores take at most 42 KB.
struct Blocks {
  static constexpr std::int64_t most_queries = 42;
  static std::int64_t count(std::int64_t queries) { return (queries + most_queries - 1) / most_queries; }
  static std::int64_t begin(std::int64_t block, std::int64_t queries) { return block * queries / count(queries); }
};

template <class T>
class Forward : public Blocks {
 public:
  static std::int64_t memory(const Problem& p) {
    return p.depth * whole_panels(p.keys) + p.keys * whole_panels(p.width) + most_queries * p.depth;
  }
  Forward(const Problem& p, std::int64_t item, Scratch& memory)
      : p_(p), query_(p.query, item), key_(memory.take(p.depth * whole_panels(p.keys))),
        value_(memory.take(p.keys * whole_panels(p.width))), q_(memory.take(most_queries * p.depth)) {
    Matrix<const T>(p.key, p.key_item(item)).pack_transposed(key_);
    Matrix<const T>(p.value, p.key_item(item)).pack(value_);
  }
  void set_queries(std::int64_t i, std::int64_t rows) {
    query_.load(q_, p_.depth, i, rows, static_cast<float>(p_.settings.scale));
  }
  // s [rows][most_keys] = scores of keys [j, j + n). Returns what they must still be multiplied by: 1 if there is a
  // mask.
  float scores(float* s, std::int64_t rows, std::int64_t j, std::int64_t n) {
    gemm_tile::multiply_block(rows, n, {q_, p_.depth, 1, key_ + j * p_.depth, panel, s, most_keys, p_.depth},
                              p_.depth * panel, false);
    return 1;
  }
  // out [rows][whole_panels(width)] += weights @ values of keys [j, j + n), or is set if j is 0
  void add_values(float* out, const float* weights, std::int64_t rows, std::int64_t j, std::int64_t n) {
    gemm_tile::multiply_block(rows, p_.width,
                              {weights, most_keys, 1, value_ + j * panel, panel, out, whole_panels(p_.width), n},
                              p_.keys * panel, j > 0);
  }

 private:
  const Problem& p_;
  Matrix<const T> query_;
  float *key_, *value_, *q_;
};

template <class T>
class Backward : public Blocks {
 public:
  static std::int64_t memory(const Problem& p) {
    return whole_panels(p.keys) * (p.depth + p.width) + p.keys * whole_panels(p.depth) +
           most_queries * (whole_panels(p.depth) + whole_panels(p.width));
  }
  static constexpr bool scales_queries = true;  // so that the sums of key gradients are scaled
  Backward(const Problem& p, std::int64_t key_item, Scratch& memory)
      : p_(p), depth_(whole_panels(p.depth)), width_(whole_panels(p.width)),
        key_t_(memory.take(whole_panels(p.keys) * p.depth)), value_t_(memory.take(whole_panels(p.keys) * p.width)),
        key_(memory.take(p.keys * depth_)), q_(memory.take(most_queries * depth_)),
        gradient_(memory.take(most_queries * width_)) {
    Matrix<const T>(p.key, key_item).pack_transposed(key_t_);
    Matrix<const T>(p.value, key_item).pack_transposed(value_t_);
    Matrix<const T>(p.key, key_item).pack(key_);
  }
  void set_queries(const Matrix<const T>& query, const Matrix<const T>& gradient, std::int64_t i, std::int64_t rows) {
    query.load(q_, depth_, i, rows, static_cast<float>(p_.settings.scale));
    gradient.load(gradient_, width_, i, rows, 1);
  }
  float scores(float* s, std::int64_t rows, std::int64_t j, std::int64_t n) {
    gemm_tile::multiply_block(rows, n, {q_, depth_, 1, key_t_ + j * p_.depth, panel, s, most_keys, p_.depth},
                              p_.depth * panel, false);
    return 1;
  }
  // d_s [rows][most_keys] = the gradients of the weights of keys [j, j + n)
  void weight_gradients(float* d_s, std::int64_t rows, std::int64_t j, std::int64_t n) {
    gemm_tile::multiply_block(rows, n, {gradient_, width_, 1, value_t_ + j * p_.width, panel, d_s, most_keys, p_.width},
                              p_.width * panel, false);
  }
  // Adds what the weights and the gradients of scores of keys [j, j + n) contribute.
  void add_gradients(float* dq, float* dk, float* dv, const float* weights, const float* d_s, std::int64_t rows,
                     std::int64_t j, std::int64_t n) {
    gemm_tile::multiply_block(n, p_.width, {weights, 1, most_keys, gradient_, width_, dv + j * width_, width_, rows},
                              panel, true);
    gemm_tile::multiply_block(n, p_.depth, {d_s, 1, most_keys, q_, depth_, dk + j * depth_, depth_, rows}, panel, true);
    gemm_tile::multiply_block(rows, p_.depth, {d_s, most_keys, 1, key_ + j * panel, panel, dq, depth_, n},
                              p_.keys * panel, true);
  }

 private:
  const Problem& p_;
  std::int64_t depth_, width_;
  float *key_t_, *value_t_, *key_, *q_, *gradient_;
};

}  // namespace mantissa::cpu_backend::MANTISSA_ISA::attention_wide
