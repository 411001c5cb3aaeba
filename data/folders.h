// Where data sets are looked for on this machine.
#pragma once

#include <string>
#include <vector>

namespace mantissa::data {

bool path_exists(const std::string& path);
bool is_folder(const std::string& path);

// The folders that may hold the set `name` when the user gave none, in the order of search:
//   $MANTISSA_DATA/<name>, $MANTISSA_DATA
//   $XDG_DATA_HOME/mantissa/datasets/<name>, and without <name>   (default ~/.local/share)
//   /usr/share/datasets/<name>, and without <name>                Debian's packages dataset-*
std::vector<std::string> usual_folders(const std::string& name);

}  // namespace mantissa::data
