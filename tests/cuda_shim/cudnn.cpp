// cuDNN's backend API as far as cuda/library/cudnn*.cpp use it: descriptors, proposals of engines, plans. A plan keeps
// no copies: every descriptor that it refers to must still exist when it runs. Engines differ as cuDNN's do, and those
// that Mantissa must not use give what it rejects them for. Source: NVIDIA cuDNN 9 documentation, "Backend API".
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <set>

#include "tests/cuda_shim/cudnn_parts.h"
#include "tests/cuda_shim/runtime_parts.h"

struct cudnnContext {
  int device;
  cudaStream_t stream = nullptr;
};

namespace cuda_shim {
namespace {
bool has_cudnn = std::getenv("MANTISSA_SHIM_CUDNN") != nullptr;
}
void set_cudnn(bool on) { has_cudnn = on; }

namespace cudnn {
namespace {

thread_local std::string last_error;

struct Descriptors {
  std::mutex mutex;
  std::set<const void*> existing;
};
Descriptors& descriptors() {
  static auto& all = *new Descriptors;  // never destroyed: threads may outlive what is static
  return all;
}

// In the order of proposals.
struct Engine {
  std::vector<cudnnBackendNumericalNote_t> notes;
  std::int64_t workspace;
};
const Engine engines[] = {
    {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, 0},  // results are NaN
    {{CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION}, 0},                         // results are NaN
    {{CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, 0},                                         // f32 is rounded to TF32
    {{}, 4096},
    {{}, std::int64_t{2} << 30},  // more than Mantissa allows
    {{}, 0},
};
constexpr std::size_t first_fallback = 5;  // the last engine is proposed by CUDNN_HEUR_MODE_FALLBACK

bool has_note(const Engine& e, cudnnBackendNumericalNote_t note) { return std::ranges::count(e.notes, note) > 0; }
bool is_wrong(const Engine& e) {
  return has_note(e, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) ||
         has_note(e, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION);
}

// What an engine or a configuration holds: the engine's number, and the graph it is for.
constexpr auto engine_number = static_cast<cudnnBackendAttributeName_t>(9000);
constexpr auto engine_graph = static_cast<cudnnBackendAttributeName_t>(9001);

template <class T>
void put(Descriptor& d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const char*>(values.data());
  d.attributes[name] = {type, {bytes, bytes + values.size() * sizeof(T)}};
}
const Engine& engine_of(const Descriptor& d) { return engines[d.one<std::size_t>(engine_number, CUDNN_TYPE_INT64)]; }
const Descriptor& graph_of(const Descriptor& d) {
  return find(d.one<void*>(engine_graph, CUDNN_TYPE_BACKEND_DESCRIPTOR), CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
}

std::size_t bytes_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_BOOLEAN: return 1;
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
    default: return 4;
  }
}

// Calls f; what it refuses is the status.
template <class F> cudnnStatus_t guarded_call(F&& f) {
  try {
    f();
    return CUDNN_STATUS_SUCCESS;
  } catch (const Refusal& r) {
    last_error = r.what();
    if (r.status / 1000 != 3) std::fprintf(stderr, "cuda_shim: cuDNN: %s\n", r.what());
    return r.status;
  }
}

// Engines of a heuristic that are proposed in its mode.
std::vector<std::size_t> proposals(const Descriptor& heuristic) {
  const bool fallback = heuristic.one<cudnnBackendHeurMode_t>(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE) ==
                        CUDNN_HEUR_MODE_FALLBACK;
  std::vector<std::size_t> numbers;
  for (std::size_t i = fallback ? first_fallback : 0; i < (fallback ? std::size(engines) : first_fallback); ++i)
    numbers.push_back(i);
  return numbers;
}

// Fills descriptors that the caller made.
void fill_configurations(const Descriptor& heuristic, std::int64_t room, std::int64_t* count, void* values) {
  const std::vector<std::size_t> numbers = proposals(heuristic);
  *count = static_cast<std::int64_t>(numbers.size());
  const auto graph = heuristic.one<void*>(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR);
  for (std::int64_t i = 0; i < std::min(room, *count); ++i) {
    Descriptor& config = find(static_cast<void**>(values)[i], CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    put<std::size_t>(config, engine_number, CUDNN_TYPE_INT64, {numbers[static_cast<std::size_t>(i)]});
    put<void*>(config, engine_graph, CUDNN_TYPE_BACKEND_DESCRIPTOR, {graph});
    config.is_final = true;
  }
}

void get(const Descriptor& d, cudnnBackendAttributeName_t name, std::int64_t room, std::int64_t* count, void* values) {
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS: return fill_configurations(d, room, count, values);
    case CUDNN_ATTR_ENGINECFG_ENGINE: {
      Descriptor& engine = find(*static_cast<void**>(values), CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      engine.attributes = d.attributes;
      engine.is_final = true;
      *count = 1;
      return;
    }
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE: {
      const auto& notes = engine_of(d).notes;
      *count = static_cast<std::int64_t>(notes.size());
      std::copy_n(notes.begin(), std::min(room, *count), static_cast<cudnnBackendNumericalNote_t*>(values));
      return;
    }
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      *static_cast<std::int64_t*>(values) = engine_of(d.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)).workspace;
      *count = 1;
      return;
    default: refuse(CUDNN_STATUS_NOT_SUPPORTED, "an attribute that the shim cannot tell");
  }
}

void fail_as_planned(const char* call) {
  if (const int status = planned_status(call)) refuse(static_cast<cudnnStatus_t>(status), "as a test has planned");
}

void finalize(Descriptor& d) {
  if (d.type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR) {
    fail_as_planned("cudnnBackendFinalize of a graph");
    if (!has_cudnn) refuse(CUDNN_STATUS_NOT_SUPPORTED, "no test has asked for cuDNN");
    d.one<void*>(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE);
    read_graph(d);
  }
  if (d.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    fail_as_planned("cudnnBackendFinalize of a plan");
    d.one<void*>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE);
    engine_of(d.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
  }
  d.is_final = true;
}

// Where the tensors of a graph lie. Numbers are read now, as they are the host's.
std::map<std::int64_t, Place> read_pack(const Descriptor& pack, const Graph& graph) {
  const std::vector<std::int64_t> ids = pack.numbers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = pack.all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR);
  if (ids.size() != pointers.size()) refuse(CUDNN_STATUS_BAD_PARAM, "there are not as many ids as pointers");
  std::map<std::int64_t, Place> places;
  const auto place = [&](const Tensor& t) {
    if (t.is_virtual) return;
    const auto at = std::ranges::find(ids, t.id);
    if (at == ids.end()) refuse(CUDNN_STATUS_BAD_PARAM, "tensor " + std::to_string(t.id) + " has no pointer");
    void* const p = pointers[static_cast<std::size_t>(at - ids.begin())];
    if (!p) refuse(CUDNN_STATUS_BAD_PARAM_NULL_POINTER, "the pointer of tensor " + std::to_string(t.id) + " is null");
    if (t.is_number) {
      places[t.id] = {p, static_cast<double>(*static_cast<const float*>(p))};
      return;
    }
    if (reinterpret_cast<std::uintptr_t>(p) % static_cast<std::uintptr_t>(t.alignment) != 0)
      refuse(CUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER,
             "tensor " + std::to_string(t.id) + " is not aligned as described");
    if (guarded && !is_device_pointer(p))
      refuse(CUDNN_STATUS_BAD_PARAM, "tensor " + std::to_string(t.id) + " is not in the device's memory");
    places[t.id] = {p};
  };
  for (const Operation& o : graph) {
    for (const Tensor& t : o.inputs) place(t);
    place(o.output);
  }
  return places;
}

void run(cudnnHandle_t handle, const Descriptor& plan, const Descriptor& pack) {
  const Descriptor& config = plan.part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const Engine& engine = engine_of(config);
  const Graph graph = read_graph(graph_of(config));
  const auto places = read_pack(pack, graph);
  void* const workspace = pack.one<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR);
  if (handle != plan.one<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE))
    refuse(CUDNN_STATUS_BAD_PARAM, "the plan is of another handle");
  if (handle->device != cuda_shim::device || stream_of(handle->stream).device != cuda_shim::device)
    refuse(CUDNN_STATUS_BAD_PARAM, "the handle or its stream is of another device");
  const auto work = [graph, places, workspace, &engine] {
    if (engine.workspace > 0) std::memset(workspace, 0xff, static_cast<std::size_t>(engine.workspace));
    if (!is_wrong(engine)) return execute(graph, places, has_note(engine, CUDNN_NUMERICAL_NOTE_TENSOR_CORE));
    spoil(graph, places);
  };
  if (enqueue(handle->stream, work) != cudaSuccess) refuse(CUDNN_STATUS_EXECUTION_FAILED, "an earlier kernel failed");
}

}  // namespace

Descriptor& find(cudnnBackendDescriptor_t d) {
  const std::lock_guard lock(descriptors().mutex);
  if (!descriptors().existing.contains(d)) refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor that does not exist any more");
  return *static_cast<Descriptor*>(d);
}
Descriptor& find(cudnnBackendDescriptor_t d, cudnnBackendDescriptorType_t type) {
  Descriptor& found = find(d);
  if (found.type != type) refuse(CUDNN_STATUS_BAD_PARAM, "a descriptor of another type");
  return found;
}
std::vector<const Descriptor*> Descriptor::parts(cudnnBackendAttributeName_t name) const {
  std::vector<const Descriptor*> found;
  for (void* p : all<void*>(name, CUDNN_TYPE_BACKEND_DESCRIPTOR)) {
    found.push_back(&find(p));
    if (!found.back()->is_final) refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a part is not finalized");
  }
  return found;
}
const Descriptor& Descriptor::part(cudnnBackendAttributeName_t name) const { return *parts(name).at(0); }

}  // namespace cudnn
}  // namespace cuda_shim

using namespace cuda_shim;
using namespace cuda_shim::cudnn;

std::size_t cudnnGetVersion() { return has_cudnn ? CUDNN_VERSION : 0; }
const char* cudnnGetErrorString(cudnnStatus_t s) {
  return s == CUDNN_STATUS_SUCCESS ? "CUDNN_STATUS_SUCCESS" : "CUDNN_STATUS_...";
}
void cudnnGetLastErrorString(char* text, std::size_t room) { std::snprintf(text, room, "%s", last_error.c_str()); }
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  *handle = new cudnnContext{cuda_shim::device};
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* d) {
  *d = new Descriptor{.type = type, .attributes = {}};
  const std::lock_guard lock(descriptors().mutex);
  descriptors().existing.insert(*d);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d) {
  return guarded_call([&] {
    Descriptor& found = find(d);
    {
      const std::lock_guard lock(descriptors().mutex);
      descriptors().existing.erase(d);
    }
    delete &found;
  });
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count, const void* values) {
  return guarded_call([&] {
    Descriptor& to = find(d);
    if (to.is_final) refuse(CUDNN_STATUS_BAD_PARAM, "a finalized descriptor is changed");
    const auto* bytes = static_cast<const char*>(values);
    to.attributes[name] = {type, {bytes, bytes + static_cast<std::size_t>(count) * bytes_of(type)}};
    if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) to.parts(name);  // which must exist and be finalized
  });
}
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, std::int64_t room, std::int64_t* count,
                                       void* values) {
  return guarded_call([&] {
    const Descriptor& from = find(d);
    if (!from.is_final) refuse(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "a descriptor that is not finalized is asked");
    get(from, name, room, count, values);
  });
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d) {
  return guarded_call([&] { finalize(find(d)); });
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  note_call(__func__);
  return guarded_call([&] {
    const std::lock_guard lock(cuda_shim::mutex);
    fail_as_planned("cudnnBackendExecute");
    if (null_device) return;
    run(handle, find(plan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), find(pack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
  });
}
