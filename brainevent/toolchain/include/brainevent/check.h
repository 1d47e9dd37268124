// SPDX-License-Identifier: Apache-2.0
// Checks that throw.  An exception that leaves an entry point becomes a JaxRuntimeError; the process continues.
//
//     BE_CHECK(n > 0) << "n is " << n;       host: throws BE::CheckError; device: prints, and stops the kernel
//     BE_CUDA_CHECK(cudaMemsetAsync(...));   throws BE::CudaError
//     BE_CHECK_KERNEL_LAUNCH();              after <<<...>>>: throws BE::CudaError if the launch failed
#pragma once

#include <cstdio>
#include <exception>
#include <stdexcept>

#include "brainevent/dtypes.h"
#include "brainevent/text.h"

namespace BE {

struct CheckError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct DTypeError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace detail {

// The text after a failed check; it throws when the statement ends.
class Failure {
 public:
  Failure(const char* file, int line, const char* condition) {
    text_ << "[be] CHECK FAILED at " << file << ":" << line << ": " << condition;
  }
  ~Failure() noexcept(false) {
    if (std::uncaught_exceptions() == in_flight_) throw CheckError(text_.c_str());  // or the message threw
  }
  Failure(const Failure&) = delete;
  Failure& operator=(const Failure&) = delete;

  template <typename Part>
  Failure& operator<<(const Part& part) {
    if (!has_message_) text_ << " - ";
    has_message_ = true;
    text_ << part;
    return *this;
  }

 private:
  Text text_;
  int in_flight_ = std::uncaught_exceptions();
  bool has_message_ = false;
};

#if defined(__CUDA_ARCH__)

// The device compiler reads host functions too: hence both.
class DeviceFailure {
 public:
  BE_HOST_DEVICE DeviceFailure(const char* file, int line, const char* condition) {
    printf("[be] CHECK FAILED at %s:%d: %s -", file, line, condition);
  }
  BE_HOST_DEVICE ~DeviceFailure() {
    printf("\n");
    __trap();
  }
  BE_HOST_DEVICE DeviceFailure& operator<<(const char* part) { return printf(" %s", part), *this; }
  BE_HOST_DEVICE DeviceFailure& operator<<(float part) { return printf(" %g", part), *this; }
  BE_HOST_DEVICE DeviceFailure& operator<<(double part) { return printf(" %g", part), *this; }
  template <typename Part>
  BE_HOST_DEVICE DeviceFailure& operator<<(const Part& part) {
    if constexpr (std::is_integral<Part>::value || std::is_enum<Part>::value)
      printf(" %lld", static_cast<long long>(part));
    return *this;
  }
};

#endif

}  // namespace detail
}  // namespace BE

#if defined(__CUDA_ARCH__)
#define BE_DETAIL_FAILURE BE::detail::DeviceFailure
#else
#define BE_DETAIL_FAILURE BE::detail::Failure
#endif

#define BE_CHECK(condition)           \
  if (static_cast<bool>(condition)) { \
  } else                              \
    BE_DETAIL_FAILURE(__FILE__, __LINE__, #condition)

#if defined(__CUDACC__)

#include <cuda_runtime_api.h>

namespace BE {

struct CudaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

namespace detail {
[[noreturn]] inline void throw_cuda(cudaError_t status, const char* file, int line, const char* expression) {
  cudaGetLastError();  // reported once: clear it for the next launch
  Text text;
  text << "[be] CUDA ERROR at " << file << ":" << line << ": " << expression << " - " << cudaGetErrorName(status)
       << ": " << cudaGetErrorString(status);
  throw CudaError(text.c_str());
}
inline void check_cuda(cudaError_t status, const char* file, int line, const char* expression) {
  if (status != cudaSuccess) throw_cuda(status, file, line, expression);
}
}  // namespace detail
}  // namespace BE

#define BE_CUDA_CHECK(expression) BE::detail::check_cuda((expression), __FILE__, __LINE__, #expression)
#define BE_CHECK_KERNEL_LAUNCH() BE::detail::check_cuda(cudaGetLastError(), __FILE__, __LINE__, "kernel launch")
#define BE_CHECK_KERNEL_LAUNCH_SYNC() \
  (BE_CHECK_KERNEL_LAUNCH(), BE::detail::check_cuda(cudaDeviceSynchronize(), __FILE__, __LINE__, "kernel"))

#endif
