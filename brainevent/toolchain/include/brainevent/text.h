// SPDX-License-Identifier: Apache-2.0
// Short messages without std::string, whose templates would be compiled with every kernel.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>

#include "brainevent/dtypes.h"

namespace BE {
namespace detail {

// What does not fit is cut.
class Text {
 public:
  Text& operator<<(const char* part) { return append(part != nullptr ? part : "(null)"); }
  Text& operator<<(bool part) { return append(part ? "true" : "false"); }
  Text& operator<<(char part) { return append(&part, 1); }
  Text& operator<<(DType part) { return append(dtype_name(part)); }
  Text& operator<<(float part) { return *this << static_cast<double>(part); }
  Text& operator<<(double part) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.9g", part);
    return append(digits);
  }
  template <typename Integer, typename = std::enable_if_t<std::is_integral<Integer>::value>>
  Text& operator<<(Integer part) {
    return std::is_signed<Integer>::value ? append_signed(static_cast<int64_t>(part))
                                          : append_unsigned(static_cast<uint64_t>(part));
  }
  template <typename String>  // std::string and the like
  auto operator<<(const String& part) -> decltype(part.c_str(), *this) {
    return append(part.c_str());
  }

  Text& append(const char* part) { return append(part, std::strlen(part)); }
  Text& append(const char* part, size_t length) {
    if (length > kRoom - used_) length = kRoom - used_;
    std::memcpy(characters_ + used_, part, length);
    used_ += length;
    characters_[used_] = '\0';
    return *this;
  }
  const char* c_str() const { return characters_; }

 private:
  Text& append_signed(int64_t part) {
    char digits[24];
    std::snprintf(digits, sizeof digits, "%lld", static_cast<long long>(part));
    return append(digits);
  }
  Text& append_unsigned(uint64_t part) {
    char digits[24];
    std::snprintf(digits, sizeof digits, "%llu", static_cast<unsigned long long>(part));
    return append(digits);
  }

  static constexpr size_t kRoom = 1023;
  size_t used_ = 0;
  char characters_[kRoom + 1] = "";
};

}  // namespace detail
}  // namespace BE
