// Other policies than the operators' own, for a region and those inside it:
//
//   amp::Autocast region(amp::AutocastOptions{.dtype = f16, .policies = amp::Policies::f32_inside()});
//   amp::Policies p;
//   p.set("softmax", CastPolicy::lower);
//   p = amp::Policies::from_json(R"({"exp": "keep", "matmul": "f32"})");
//
// The operators' own follow PyTorch's list for CUDA, on every device. An operator is known here when it
// is in the registry (MANTISSA_OP); another name is an error that tells the nearest.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "amp/policy.h"

namespace mantissa::amp {

struct Overlay;  // a set of policies in use: core/context.h points to it

class Policies {
 public:
  using Entry = std::pair<std::string, CastPolicy>;

  Policies() = default;  // every operator's own
  static Policies torch() { return {}; }
  // Softmax, log-softmax and layer norm compute in f32 and give what came in, without a cast tensor: less
  // memory and traffic than PyTorch's f32 results, and one rounding more. The other norms always do.
  static Policies f32_inside();
  // An object of names and "keep", "lower", "f32", "promote" or "f32_inside". `where`: for messages.
  static Policies from_json(std::string_view text, std::string_view where = "policies");

  Policies& set(std::string_view op, CastPolicy policy);  // a later call replaces an earlier one
  const std::vector<Entry>& entries() const { return entries_; }  // sorted by name

 private:
  std::vector<Entry> entries_;
};

const char* name_of(CastPolicy policy);
CastPolicy policy_from_name(std::string_view name);  // throws with the nearest

// Of the machinery. Operators announce themselves when the program starts. Sets in use are kept for the
// life of the program, equal ones once, so that a captured state stays valid wherever it is carried.
void announce_operator(const char* name);
const Overlay* overlay_on(const Overlay* outer, const Policies& policies);
const CastPolicy* find_policy(const Overlay* overlay, const char* op);  // null: the operator's own

}  // namespace mantissa::amp
