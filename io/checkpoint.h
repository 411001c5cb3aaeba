// Everything a run needs to go on exactly where it stopped, in one file: model, optimizer, scaler,
// random state, position in the data. One file, so its parts can never be of different moments.
// Invariant: load_checkpoint has verified a CRC-32 of every tensor (with its name, dtype and shape)
// and of the metadata before it returns anything.
// The file is a safetensors file; other programs can read the weights in it.
#pragma once

#include <span>
#include <string>

#include "core/random.h"
#include "io/safetensors.h"

namespace mantissa::io {

// A plain value: named tensors and text. Names are "area.name"; the areas used by the samples are
// model, optim, scaler, rng and loader.
//   Checkpoint c;
//   c.put("model", nn::state_dict(net));
//   c.put("rng", {{"state", to_tensor(rng_state())}});
//   c.set("step", "1200");
//   save_checkpoint("last.ckpt", c);
struct Checkpoint {
  NamedTensors tensors;
  Metadata metadata;

  void put(const std::string& area, const NamedTensors& named);  // handles are copied, not elements
  // The tensors of an area, without its prefix. Their order after loading is that of the file, not
  // that of put(): load by name. Empty when there are none.
  NamedTensors get(const std::string& area) const;
  // The one tensor of that full name; Error when there is none.
  Tensor tensor(const std::string& name) const;

  void set(const std::string& key, const std::string& value);  // replaces
  std::string text(const std::string& key) const;              // Error when there is none
};

// Atomic: after a crash, a kill or an error the file holds the old or the new checkpoint, complete.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint);

// Throws FormatError for a file that is damaged, cut off, not a checkpoint, or of a later version.
Checkpoint load_checkpoint(const std::string& path);

// How `found` differs from `expected` in names and shapes, in one line that lists the first few
// differences and suggests the nearest name; "" when it does not. For the errors of load_state_dict.
std::string describe_mismatch(const NamedTensors& expected, const NamedTensors& found);

// " (did you mean "x"?)" with the nearest of `names`, when one is near; else "".
std::string suggest_name(const std::string& name, std::span<const std::string> names);

// Positions in the random stream as tensors, i64 [2].
Tensor to_tensor(const RngState& state);
RngState rng_from_tensor(const Tensor& t);

}  // namespace mantissa::io
