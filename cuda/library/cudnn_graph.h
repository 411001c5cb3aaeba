// Shared by the users of cuDNN's backend API: everything is a descriptor that is given attributes and finalized; cuDNN
// proposes engines for a graph of operations, ordered by its heuristic, and a plan is built for each on first use.
// Tensors in memory begin at multiples of `alignment` bytes. Included only in builds with cuDNN, by cuda/library/*.cpp.
// Source: NVIDIA cuDNN 9 documentation, "Backend API".
#pragma once

#include <cudnn.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/accelerator.h"
#include "core/error.h"
#include "core/tensor.h"
#include "cuda/cudnn.h"
#include "cuda/recorded_memory.h"
#include "cuda/runtime.h"
#include "cuda/thread_state.h"

namespace mantissa::cuda_backend::cudnn {

inline constexpr std::int64_t alignment = 16;
inline bool is_aligned(std::span<void* const> pointers) {
  return std::ranges::all_of(pointers,
                             [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % alignment == 0; });
}

// Thrown if cuDNN does not support a problem; the caller then uses another implementation.
struct Refused { cudnnStatus_t status; };
inline void require(cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS) throw Refused{status};
}
// That cuDNN does not support something (3xxx) is expected: there are other kernels. Anything else, as a part of the
// library that cannot be loaded, would go unnoticed for the same reason: said on stderr, ten times at most.
inline void report(const Refused& r) {
  static std::atomic<int> reports{0};
  if (static_cast<int>(r.status) / 1000 == 3 || reports.fetch_add(1) >= 10) return;
  char text[256] = "";
  cudnnGetLastErrorString(text, sizeof text);
  std::fprintf(stderr, "mantissa: cuDNN: %s; another kernel is used: %s\n", cudnnGetErrorString(r.status), text);
}

// Whether memory was short. That may pass, so unlike any other refusal it is not remembered.
inline bool may_pass(const Refused& r) {
  return r.status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
         r.status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
}

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(cudnnBackendDescriptorType_t type) { require(cudnnBackendCreateDescriptor(type, &d_)); }
  Descriptor(Descriptor&& other) noexcept : d_(std::exchange(other.d_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(d_, other.d_);
    return *this;
  }
  ~Descriptor() { if (d_) (void)cudnnBackendDestroyDescriptor(d_); }
  cudnnBackendDescriptor_t get() const { return d_; }

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
    require(cudnnBackendSetAttribute(d_, name, type, count, values));
  }
  void set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& v) {
    set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(v.size()), v.data());
  }
  void set(cudnnBackendAttributeName_t name, std::int64_t v) { set(name, CUDNN_TYPE_INT64, 1, &v); }
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t v) { set(name, CUDNN_TYPE_DATA_TYPE, 1, &v); }
  void set(cudnnBackendAttributeName_t name, const Descriptor& v) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &v.d_);
  }
  void finalize() { require(cudnnBackendFinalize(d_)); }

 private:
  cudnnBackendDescriptor_t d_ = nullptr;
};

// A CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR of a GPU that is not present, to query its engines: for tests.
inline cudnnBackendDescriptor_t described_device = nullptr;

inline cudnnHandle_t handle() {
  static thread_local ThreadState<std::map<int, cudnnHandle_t>> handles;  // one per device
  cudnnHandle_t& h = (*handles)[current_device()];
  if (!h) {
    const CaptureRelaxed relaxed;
    require(cudnnCreate(&h));
  }
  require(cudnnSetStream(h, stream()));
  return h;
}

inline cudnnDataType_t type_of(Dtype t) {
  return t == f64 ? CUDNN_DATA_DOUBLE : t == f32 ? CUDNN_DATA_FLOAT : t == f16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16;
}

struct Plan {
  Descriptor plan;
  std::int64_t workspace = 0;
};
struct Problem {
  std::vector<Descriptor> keep;     // what the graph refers to
  std::vector<Descriptor> configs;  // engines, in the order of the heuristic
  std::map<int, Plan> plans;        // built on first use; one without a plan was refused
};

// Whether an engine keeps our guarantees: sums in f32, bitwise reproducible, and TF32 only if allowed.
inline bool is_welcome(const Descriptor& config, bool may_use_tensor_cores) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t e = engine.get();
  std::int64_t count = 0;
  require(cudnnBackendGetAttribute(config.get(), CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                   &e));
  cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
  require(cudnnBackendGetAttribute(e, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                   CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes));
  for (std::int64_t i = 0; i < count; ++i) {
    if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
        notes[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)
      return false;
    const bool rounds_inputs =
        notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE || notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    if (rounds_inputs && !may_use_tensor_cores) return false;
  }
  return true;
}

// Adds the engines that cuDNN proposes in one of its modes, except those that break our guarantees. All proposals are
// requested: for an f32 convolution the first dozens round to TF32.
inline void ask_for_engines(Problem& p, const Descriptor& graph, cudnnBackendHeurMode_t mode,
                            bool may_use_tensor_cores) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
#if CUDNN_VERSION >= 90800
  if (described_device) {
    heuristic.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &described_device);
  }
#endif
  heuristic.finalize();
  const auto ask = [&](std::int64_t room, std::int64_t* found, void* configs) {
    require(cudnnBackendGetAttribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                     room, found, configs));
  };
  std::int64_t count = 0;
  ask(0, &count, nullptr);
  std::vector<Descriptor> configs;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < count; ++i) {
    configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    handles.push_back(configs.back().get());
  }
  if (count > 0) ask(count, &count, handles.data());
  for (std::int64_t i = 0; i < count; ++i) {
    Descriptor& config = configs[static_cast<std::size_t>(i)];
    try {
      if (is_welcome(config, may_use_tensor_cores)) p.configs.push_back(std::move(config));
    } catch (const Refused& r) { report(r); }
  }
  p.keep.push_back(std::move(heuristic));
}

// The engines for a graph of operations.
inline void find_engines(Problem& p, std::span<const cudnnBackendDescriptor_t> operations, bool may_use_tensor_cores) {
  const CaptureRelaxed relaxed;  // the heuristic may make driver calls that a capture does not allow
  Descriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<std::int64_t>(operations.size()),
            operations.data());
  if (!described_device) {
    const cudnnHandle_t h = handle();
    graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &h);
  }
  graph.finalize();
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (p.configs.size() >= most_cudnn_plans) break;
    try {
      ask_for_engines(p, graph, mode, may_use_tensor_cores);
    } catch (const Refused& r) {  // no engine in this mode
      if (may_pass(r)) throw;
      report(r);
    }
  }
  if (p.configs.size() > most_cudnn_plans) p.configs.resize(most_cudnn_plans);
  p.keep.push_back(std::move(graph));
}

// The plan of engine `index`: empty if the engine refuses, null if memory was short.
inline Plan* find_plan(Problem& p, int index) {
  const auto at = p.plans.find(index);
  if (at != p.plans.end()) return &at->second;
  Plan made;
  const CaptureRelaxed relaxed;  // a kernel may be compiled and loaded
  try {
    Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    const cudnnHandle_t h = handle();
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &h);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, p.configs[static_cast<std::size_t>(index)]);
    plan.finalize();
    std::int64_t count = 0;
    require(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                                     &made.workspace));
    made.plan = std::move(plan);
  } catch (const Refused& r) {
    report(r);
    if (may_pass(r)) return nullptr;
  }
  return &p.plans.emplace(index, std::move(made)).first->second;
}

// The problem that `problems` has for `key`, made on first use: without engines if cuDNN refuses it, null if memory was
// short.
template <class Problems, class Key, class Make>
Problem* find_problem(Problems& problems, const Key& key, const Make& make) {
  const auto at = problems.find(key);
  if (at != problems.end()) return &at->second;
  Problem made;
  try {
    made = make();
  } catch (const Refused& r) {
    report(r);
    if (may_pass(r)) return nullptr;
  }
  return &problems.emplace(key, std::move(made)).first->second;
}

// Runs plan `index` of the problem, if any, with these tensors; false if there is none, or it refuses.
inline bool run_plan(Problem* problem, int index, std::span<void* const> pointers, std::span<const std::int64_t> ids,
                     Device device) {
  if (!problem || index >= static_cast<int>(problem->configs.size())) return false;
  Plan* const found = find_plan(*problem, index);
  if (!found || !found->plan.get() || found->workspace > (std::int64_t{1} << 30)) return false;
  const Plan& plan = *found;
  const Tensor workspace = Tensor::allocate({std::max<std::int64_t>(plan.workspace, 1)}, u8, device);
  void* scratch = workspace.view().data;
  for (const void* p : pointers) note_use(p);
  const auto count = static_cast<std::int64_t>(pointers.size());
  try {
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids.data());
    pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch);
    pack.finalize();
    const CaptureRelaxed relaxed(records_here());  // it may load code
    require(cudnnBackendExecute(handle(), plan.plan.get(), pack.get()));
  } catch (const Refused& r) {
    report(r);
    if (r.status >= CUDNN_STATUS_EXECUTION_FAILED && !is_capturing()) wait_for_stream();  // throws an earlier kernel's
    return false;
  }
  after_library_call("cudnnBackendExecute");
  return true;
}

}  // namespace mantissa::cuda_backend::cudnn
