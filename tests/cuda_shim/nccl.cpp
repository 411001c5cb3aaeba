// NCCL for processes whose GPUs are the shim's: a communicator is a group of processes over TCP. Nothing blocks, as
// cuda/library/nccl.cpp wants it: a thread of the communicator waits for the others, and a group of transfers takes its
// place on the stream when it is done. Refuses what NCCL refuses or what would hang: memory that is not the GPU's, and
// calls while another one is under way.
#include <nccl.h>

#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/from_blob.h"
#include "io/process_group.h"
#include "io/socket.h"
#include "tests/cuda_shim/runtime_parts.h"

using namespace mantissa;
using distributed::ProcessGroup;

namespace {

struct Transfer {
  char* data;
  std::vector<char> copy;  // on the host
  int peer;
};
std::vector<ProcessGroup::Message> messages_of(std::vector<Transfer>& transfers) {
  std::vector<ProcessGroup::Message> all;
  for (Transfer& t : transfers)
    all.push_back({from_blob(t.copy.data(), {static_cast<std::int64_t>(t.copy.size())}, {.dtype = u8}), t.peer});
  return all;
}
thread_local std::string last_error;

std::map<int, distributed::Socket>& listeners = *new std::map<int, distributed::Socket>;  // of names, by port

}  // namespace

struct ncclComm {
  std::shared_ptr<ProcessGroup> group;
  std::mutex making;  // of group
  std::thread worker;
  std::atomic<ncclResult_t> status = ncclSuccess;
  std::string error;
  std::vector<Transfer> sends, receives;
  cudaStream_t stream = nullptr;

  template <class F> ncclResult_t start(F f) {
    status = ncclInProgress;
    worker = std::thread([this, f = std::move(f)] {
      try {
        f();
        status = ncclSuccess;
      } catch (const std::exception& e) {
        error = e.what();
        status = ncclRemoteError;
      }
    });
    return ncclInProgress;
  }
};

namespace {

thread_local int groups = 0;
thread_local ncclComm* grouped = nullptr;

ncclResult_t add(std::vector<Transfer> ncclComm::*list, const void* data, std::size_t count, ncclDataType_t type,
                 int peer, ncclComm_t comm, cudaStream_t stream) {
  const auto refuse = [](const char* why) {
    last_error = why;
    return ncclInvalidUsage;
  };
  if (groups == 0) return refuse("cuda_shim: a transfer outside a group");
  if (grouped && grouped != comm) return refuse("cuda_shim: transfers of two communicators in a group");
  if (type != ncclInt8 || peer < 0 || peer >= comm->group->size() || peer == comm->group->rank())
    return refuse("cuda_shim: a transfer of another type, or with this rank itself");
  const auto is_there = [&](std::size_t i) { return cuda_shim::is_device_pointer(static_cast<const char*>(data) + i); };
  if (cuda_shim::guarded && !(is_there(0) && is_there(count - 1)))
    return refuse("cuda_shim: a transfer of memory that is not the GPU's");
  if (comm->worker.joinable()) return refuse("cuda_shim: a transfer while another one is under way");
  grouped = comm;
  comm->stream = stream;
  (comm->*list).push_back({static_cast<char*>(const_cast<void*>(data)), std::vector<char>(count), peer});
  return ncclSuccess;
}

}  // namespace

ncclResult_t ncclGetVersion(int* version) {
  if (const int status = cuda_shim::planned_status("ncclGetVersion")) return static_cast<ncclResult_t>(status);
  *version = 22804;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  distributed::Socket listener = distributed::listen_on({"127.0.0.1", 0}, 128);
  const int port = distributed::local_address(listener).port;
  *id = {};
  std::memcpy(id->internal, &port, sizeof port);
  const std::lock_guard lock(cuda_shim::mutex);
  listeners[port] = std::move(listener);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidArgument;
  distributed::GroupOptions o{.rank = rank, .size = ranks, .token = "ffeeddccbbaa99887766554433221100"};
  std::memcpy(&o.port, id.internal, sizeof o.port);
  o.timeout = o.rendezvous_timeout = std::chrono::seconds(10);
  if (rank == 0) {
    const std::lock_guard lock(cuda_shim::mutex);
    o.store_socket = listeners.at(o.port).release();
    listeners.erase(o.port);
  }
  ncclComm* const c = *comm = new ncclComm;
  return c->start([c, o] {
    std::shared_ptr<ProcessGroup> group = distributed::make_group(o);
    const std::lock_guard lock(c->making);
    c->group = std::move(group);
  });
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (const int status = cuda_shim::planned_status("ncclCommAbort")) return static_cast<ncclResult_t>(status);
  {
    const std::lock_guard lock(comm->making);
    if (comm->group) comm->group->give_up("cuda_shim: a communicator was aborted");
  }
  if (comm->worker.joinable()) comm->worker.join();
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* status) {
  *status = comm->status;
  if (*status == ncclInProgress || !comm->worker.joinable()) return ncclSuccess;
  comm->worker.join();
  if (*status == ncclSuccess) {
    const std::lock_guard lock(cuda_shim::mutex);
    const cuda_shim::DeviceAccess access;
    for (const Transfer& t : comm->receives) std::memcpy(t.data, t.copy.data(), t.copy.size());
  }
  comm->sends.clear(), comm->receives.clear();
  return ncclSuccess;
}
const char* ncclGetErrorString(ncclResult_t status) {
  return status == ncclRemoteError ? "remote process exited or there was a network error" : "invalid usage";
}
const char* ncclGetLastError(ncclComm_t comm) {
  if (comm && !comm->error.empty()) last_error = comm->error;
  return last_error.c_str();
}
ncclResult_t ncclGroupStart() {
  ++groups;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  --groups;
  ncclComm* const c = std::exchange(grouped, nullptr);
  if (!c) return ncclSuccess;
  if (const int status = cuda_shim::planned_status("ncclGroupEnd")) return static_cast<ncclResult_t>(status);
  cudaStreamSynchronize(c->stream);  // what is sent has been computed, and what is overwritten has been read
  {
    const std::lock_guard lock(cuda_shim::mutex);
    const cuda_shim::DeviceAccess access;
    for (Transfer& t : c->sends) std::memcpy(t.copy.data(), t.data, t.copy.size());
  }
  return c->start([c] { c->group->exchange(messages_of(c->sends), messages_of(c->receives)); });
}
ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(&ncclComm::sends, data, count, type, peer, comm, stream);
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add(&ncclComm::receives, data, count, type, peer, comm, stream);
}
