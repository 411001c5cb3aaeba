// Transfers between GPUs of different processes by NCCL, whose library is opened at run time: programs start without
// it. Only its sends and receives are used; sums are our own (io/device_collectives.h). Its calls do not block, so that
// a rank that waits for another one notices when that one has gone (ncclConfig_t::blocking).
#include "core/device_link.h"

#if !defined(MANTISSA_HAS_NCCL)

namespace mantissa::cuda_backend {

std::string nccl_version() { return {}; }
std::string identity_of(Device) { return {}; }
std::string new_link_name() { return {}; }
std::unique_ptr<DeviceLink> make_link(Device, const std::string&, int, int, std::function<void()>) {
  return nullptr;
}

}  // namespace mantissa::cuda_backend

#else

#include <nccl.h>

#if !defined(MANTISSA_CUDA_SHIM)
#include <dlfcn.h>
#endif

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "core/error.h"
#include "cuda/check.h"
#include "cuda/runtime.h"

namespace mantissa::cuda_backend {
namespace {

#define MANTISSA_NCCL_FUNCTIONS(f)                                                                       \
  f(GetVersion) f(GetUniqueId) f(CommInitRankConfig) f(CommAbort) f(CommGetAsyncError) f(GetErrorString) \
      f(GetLastError) f(GroupStart) f(GroupEnd) f(Send) f(Recv)

struct Nccl {
#define MANTISSA_NCCL_MEMBER(name) decltype(&nccl##name) name = nullptr;
  MANTISSA_NCCL_FUNCTIONS(MANTISSA_NCCL_MEMBER)
#undef MANTISSA_NCCL_MEMBER
};

// Null if there is no NCCL, or one without calls that do not block (2.14).
const Nccl* nccl() {
  static const Nccl* const found = []() -> const Nccl* {
    static Nccl n;
#if defined(MANTISSA_CUDA_SHIM)
#define MANTISSA_NCCL_FIND(name) n.name = &nccl##name;
#else
    void* const library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) return nullptr;
#define MANTISSA_NCCL_FIND(name) \
  if (n.name = reinterpret_cast<decltype(n.name)>(dlsym(library, "nccl" #name)); !n.name) return nullptr;
#endif
    MANTISSA_NCCL_FUNCTIONS(MANTISSA_NCCL_FIND)
#undef MANTISSA_NCCL_FIND
    return &n;
  }();
  return found;
}

class NcclLink final : public DeviceLink {
 public:
  NcclLink(Device device, const std::string& name, int rank, int size, std::function<void()> waiting)
      : device_(device), waiting_(std::move(waiting)) {
    activate(device_);
    ncclUniqueId id;
    std::memcpy(id.internal, name.data(), sizeof id.internal);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    guarded("connecting the GPUs", [&] { return nccl()->CommInitRankConfig(&comm_, size, id, rank, &config); });
  }
  ~NcclLink() override { abort(); }  // nothing is under way, and other ranks may have gone

  void exchange(std::span<const Part> sends, std::span<const Part> receives) override {
    check(comm_, "internal error: a connection that failed is used again");
    activate(device_);
    guarded("an exchange between GPUs", [&] {
      ncclResult_t status = nccl()->GroupStart();
      const auto add = [&](std::span<const Part> parts, auto* call) {
        for (const Part& p : parts)
          if (p.bytes > 0 && status == ncclSuccess) status = call(p.data, p.bytes, ncclInt8, p.rank, comm_, stream());
      };
      add(sends, nccl()->Send);
      add(receives, nccl()->Recv);
      const ncclResult_t ended = nccl()->GroupEnd();
      return status == ncclSuccess ? ended : status;
    });
    Event done;
    done.record();
    for (Pause pause(*this); !done.reached();) pause();
  }

 private:
  // Between questions to NCCL or the GPU: at first none, since most transfers are short.
  class Pause {
   public:
    explicit Pause(NcclLink& link) : link_(link) {}
    void operator()() {
      const auto now = std::chrono::steady_clock::now();
      if (now - begin_ < std::chrono::microseconds(200)) return std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
      if (now - asked_ < std::chrono::milliseconds(5)) return;
      asked_ = now;
      link_.watch();
    }

   private:
    NcclLink& link_;
    const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
    std::chrono::steady_clock::time_point asked_ = begin_;
  };

  // Ends the connection, and so what waits on the stream, if other ranks have gone or NCCL has found an error.
  void watch() {
    try {
      waiting_();
    } catch (...) {
      abort();
      throw;
    }
    ncclResult_t status = ncclSuccess;
    if (nccl()->CommGetAsyncError(comm_, &status); status != ncclSuccess && status != ncclInProgress)
      fail_nccl("a transfer between GPUs", status);
  }
  // Calls f, and waits until what it has started is on the stream.
  template <class F> void guarded(const char* what, F&& f) {
    ncclResult_t status = f();
    for (Pause pause(*this); status == ncclInProgress; nccl()->CommGetAsyncError(comm_, &status)) pause();
    if (status != ncclSuccess) fail_nccl(what, status);
  }
  [[noreturn]] void fail_nccl(const char* what, ncclResult_t status) {
    const char* const more = nccl()->GetLastError(comm_);
    const std::string text = concat(
        "NCCL failed in ", what, ": ", nccl()->GetErrorString(status), more && *more ? ": " : "", more ? more : "",
        "; the variable NCCL_DEBUG=INFO makes it say more, and with MANTISSA_NCCL=off tensors go through host memory");
    abort();
    fail(text);
  }
  void abort() {
    if (const ncclComm_t c = std::exchange(comm_, nullptr)) (void)nccl()->CommAbort(c);
  }

  Device device_;
  ncclComm_t comm_ = nullptr;
  std::function<void()> waiting_;
};

}  // namespace

std::string nccl_version() {
  int v = 0;  // 22804 is 2.28.4
  if (!nccl() || nccl()->GetVersion(&v) != ncclSuccess) return {};
  return concat(v / 10000, ".", v / 100 % 100, ".", v % 100);
}
std::string identity_of(Device gpu) {
  cudaDeviceProp p;
  check_status(cudaGetDeviceProperties(&p, gpu.index), "cudaGetDeviceProperties");
  std::string text;
  for (const char c : p.uuid.bytes) text += concat(static_cast<int>(static_cast<unsigned char>(c)), " ");
  return text;
}
std::string new_link_name() {
  static_assert(sizeof(ncclUniqueId) == link_name_bytes);
  ncclUniqueId id;
  const ncclResult_t status = nccl()->GetUniqueId(&id);
  check(status == ncclSuccess, "NCCL finds no address for other ranks: ", nccl()->GetErrorString(status),
        "; NCCL_SOCKET_IFNAME names the network interface");
  return {id.internal, sizeof id.internal};
}
std::unique_ptr<DeviceLink> make_link(Device device, const std::string& name, int rank, int size,
                                      std::function<void()> waiting) {
  return std::make_unique<NcclLink>(device, name, rank, size, std::move(waiting));
}

}  // namespace mantissa::cuda_backend

#endif
