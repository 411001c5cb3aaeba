// Everything a run needs to resume exactly, in one file: model, optimizer, scaler, random state, position in the data.
// A single file, so its parts are always of the same moment.
// Invariant: load_checkpoint verifies a CRC-32 of every tensor (with its name, dtype and shape) and of the metadata
// before it returns anything. The file is a safetensors file; other programs can read the weights in it.
#pragma once

#include <span>
#include <string>

#include "core/random.h"
#include "io/safetensors.h"

namespace mantissa::io {

// Named tensors and text. Tensor names are "area.name"; the areas used by the samples are model, optim, scaler, rng and
// loader.
//   Checkpoint c;
//   c.put("model", nn::state_dict(net));
//   c.put("rng", {{"state", to_tensor(rng_state())}});
//   c.set("step", "1200");
//   save_checkpoint("last.ckpt", c);
struct Checkpoint {
  NamedTensors tensors;
  Metadata metadata;

  void put(const std::string& area, const NamedTensors& named);  // stores handles, does not copy elements
  // The tensors of an area, with its prefix removed. After loading they are in the order of the file, not of put():
  // look them up by name. Empty if there are none.
  NamedTensors get(const std::string& area) const;
  // The tensor with this full name; Error if there is none.
  Tensor tensor(const std::string& name) const;

  void set(const std::string& key, const std::string& value);  // replaces
  std::string text(const std::string& key) const;              // Error if there is none
};

// Atomic: after a crash, a kill or an error the file contains either the old or the new checkpoint, complete.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint);

// Throws FormatError for a file that is damaged, truncated, not a checkpoint, or of a later version.
Checkpoint load_checkpoint(const std::string& path);

// How `found` differs from `expected` in names and shapes, in one line that lists the first few differences and
// suggests the nearest name; "" if it does not. For the errors of load_state_dict.
std::string describe_mismatch(const NamedTensors& expected, const NamedTensors& found);

// " (did you mean "x"?)" with the nearest of `names`, if one is close; else "".
std::string suggest_name(const std::string& name, std::span<const std::string> names);

// Random generator positions as tensors, i64 [2].
Tensor to_tensor(const RngState& state);
RngState rng_from_tensor(const Tensor& t);

}  // namespace mantissa::io
