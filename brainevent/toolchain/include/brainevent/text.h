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

// Longer texts are truncated.
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

  // Python reads errors as UTF-8: invalid or truncated characters become question marks.
  void make_valid() {
    for (size_t i = 0; i < used_;) {
      const unsigned char lead = static_cast<unsigned char>(characters_[i]);
      const size_t length = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
      if (length > 0 && is_followed(i, length)) {
        i += length;
      } else {
        characters_[i++] = '?';
      }
    }
  }

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

  bool is_followed(size_t lead, size_t length) const {
    if (lead + length > used_) return false;
    for (size_t i = lead + 1; i < lead + length; ++i)
      if ((static_cast<unsigned char>(characters_[i]) & 0xc0) != 0x80) return false;
    const unsigned char first = static_cast<unsigned char>(characters_[lead]);
    const unsigned char next = length > 1 ? static_cast<unsigned char>(characters_[lead + 1]) : 0;
    return !(first == 0xe0 && next < 0xa0) && !(first == 0xed && next > 0x9f) &&  // overlong; surrogates
           !(first == 0xf0 && next < 0x90) && !(first == 0xf4 && next > 0x8f);    // overlong; beyond Unicode
  }

  static constexpr size_t kRoom = 1023;
  size_t used_ = 0;
  char characters_[kRoom + 1] = "";
};

}  // namespace detail
}  // namespace BE
