// SPDX-License-Identifier: Apache-2.0
// The XLA handler around an entry point, on XLA's C interface: included by generated code, not by kernels.
//
// XLA's C++ interface does the same with templates that take seconds to compile; this takes a tenth of one.
#pragma once

#include <cstdint>
#include <cstring>
#include <exception>
#include <stdexcept>

#include "brainevent/tensor.h"
#include "xla/ffi/api/c_api.h"

#define BE_EXPORT __attribute__((visibility("default")))

// The function that reports an error, also if the process is aborted: it makes the error of a text and a code.
// The loader sets it.
extern "C" {
BE_EXPORT XLA_FFI_Error* (*BE_REPORT)(const XLA_FFI_CallFrame*, const char*, int64_t) = nullptr;
}

namespace BE {
namespace detail {

struct Attribute {
  const char* name;
  size_t length;
  XLA_FFI_DataType type;
};

// The parameters of an entry point; attributes are sorted by name, as XLA passes them.
struct Signature {
  const char* name;
  int64_t operands, results, attributes;
  const Attribute* attribute;
  bool in_graphs;
};

inline DType dtype_of(XLA_FFI_DataType type) {
  switch (type) {
    case XLA_FFI_DataType_F16: return DType::Float16;
    case XLA_FFI_DataType_F32: return DType::Float32;
    case XLA_FFI_DataType_F64: return DType::Float64;
    case XLA_FFI_DataType_BF16: return DType::BFloat16;
    case XLA_FFI_DataType_S8: return DType::Int8;
    case XLA_FFI_DataType_S16: return DType::Int16;
    case XLA_FFI_DataType_S32: return DType::Int32;
    case XLA_FFI_DataType_S64: return DType::Int64;
    case XLA_FFI_DataType_U8: return DType::UInt8;
    case XLA_FFI_DataType_U16: return DType::UInt16;
    case XLA_FFI_DataType_U32: return DType::UInt32;
    case XLA_FFI_DataType_U64: return DType::UInt64;
    case XLA_FFI_DataType_PRED: return DType::Bool;
    case XLA_FFI_DataType_C64: return DType::Complex64;
    case XLA_FFI_DataType_C128: return DType::Complex128;
    default: return DType::Invalid;
  }
}

[[noreturn]] inline void refuse_tensor(const char* role, int64_t index, int64_t rank, int number, DType dtype) {
  Text text;
  text << role << " " << index;
  if (dtype == DType::Invalid)
    text << " has a dtype that BE::DType lacks (XLA's number " << number << "); convert the array first";
  else
    text << " has " << rank << " dimensions; a BE::Tensor has at most " << kMaxDim << ": reshape the array first";
  throw DTypeError(text.c_str());
}

// Entry points take it as int64_t or as cudaStream_t.
struct Stream {
  void* pointer;
  operator int64_t() const { return reinterpret_cast<int64_t>(pointer); }
#if defined(__CUDACC__)
  operator cudaStream_t() const { return static_cast<cudaStream_t>(pointer); }
#endif
};

// One call: XLA's arguments, and the position in the batch.
class Call {
 public:
  const XLA_FFI_CallFrame* frame;
  const int64_t* depths;  // leading batch axes of each operand; null without a batch
  int64_t levels;         // leading batch axes of each result
  const int64_t* offsets;
  const void* const* values;  // of the attributes

  Tensor arg(int64_t i) const {
    return tensor(frame->args.args[i], depths != nullptr ? depths[i] : 0, i, "operand", i);
  }
  Tensor ret(int64_t i) const { return tensor(frame->rets.rets[i], levels, frame->args.size + i, "result", i); }

  template <typename T>
  T attribute(int64_t i) const {
    T value;
    std::memcpy(&value, values[i], sizeof value);
    return value;
  }

  // XLA's stream; on the CPU there is none.
  Stream stream() const {
#if defined(__CUDACC__)
    XLA_FFI_Stream_Get_Args args{XLA_FFI_Stream_Get_Args_STRUCT_SIZE, nullptr, frame->ctx, nullptr};
    BE_CHECK(frame->api->XLA_FFI_Stream_Get(&args) == nullptr) << "XLA returned no stream";
    return Stream{args.stream};
#else
    return Stream{nullptr};
#endif
  }

 private:
  Tensor tensor(const void* pointer, int64_t depth, int64_t place, const char* role, int64_t index) const {
    const auto* buffer = static_cast<const XLA_FFI_Buffer*>(pointer);
    const DType dtype = dtype_of(buffer->dtype);
    if (dtype == DType::Invalid || buffer->rank - depth > kMaxDim)
      refuse_tensor(role, index, buffer->rank - depth, static_cast<int>(buffer->dtype), dtype);
    char* data = static_cast<char*>(buffer->data);
    if (offsets != nullptr) data += offsets[place];
    return Tensor(data, dtype, static_cast<int>(buffer->rank - depth), buffer->dims + depth);
  }
};

// The prefix of attributes that brainevent adds; C++ identifiers cannot begin like this.
inline bool is_ours(const XLA_FFI_ByteSpan& name) {
  return name.len > 3 && std::memcmp(name.ptr, "be.", 3) == 0;
}

inline bool is_called(const XLA_FFI_ByteSpan& name, const char* other, size_t length) {
  return name.len == length && std::memcmp(name.ptr, other, length) == 0;
}

// The attributes of one call, by kind.
struct Given {
  const XLA_FFI_Array* batch = nullptr;
  const XLA_FFI_ByteSpan* operation = nullptr;
};

inline const char* name_of(XLA_FFI_DataType type) { return dtype_name(dtype_of(type)); }

// Errors of a call: throw exceptions that become errors of the code INVALID_ARGUMENT.
struct CallError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] inline void refuse_attribute(const Attribute& attribute, const XLA_FFI_Scalar* scalar) {
  Text text;
  text << "attribute '" << attribute.name << "' is " << (scalar != nullptr ? name_of(scalar->dtype) : "not a scalar")
       << ", but was declared " << name_of(attribute.type) << "; pass np." << name_of(attribute.type) << "(...)";
  throw CallError(text.c_str());
}

[[noreturn]] inline void refuse_attributes(const Signature& signature, int64_t given) {
  Text text;
  text << "Wrong number of attributes, or wrong names: " << given << " given, " << signature.attributes << " declared";
  for (int64_t i = 0; i < signature.attributes; ++i) text << (i ? ", " : ": ") << signature.attribute[i].name;
  throw CallError(text.c_str());
}

[[noreturn]] inline void refuse_arrays(const Signature& signature, const XLA_FFI_CallFrame* frame) {
  Text text;
  text << "Wrong number of operands or results: called with " << frame->args.size << " and " << frame->rets.size
       << ", declared with " << signature.operands << " and " << signature.results;
  throw CallError(text.c_str());
}

// Levels, then for each a size and a step of every array, then for each operand its batch axes.
inline bool is_batch(const Signature& signature, const XLA_FFI_Array& array) {
  if (array.dtype != XLA_FFI_DataType_S64) return false;
  if (array.size == 0) return true;
  const int64_t levels = static_cast<const int64_t*>(array.data)[0], size = static_cast<int64_t>(array.size);
  return levels > 0 && levels < size &&
         size == 1 + levels * (1 + signature.operands + signature.results) + signature.operands;
}

inline void read_ours(const Signature& signature, const XLA_FFI_ByteSpan& name, XLA_FFI_AttrType type,
                      const void* attribute, Given* given) {
  if (is_called(name, "be.batch", 8)) {
    given->batch = static_cast<const XLA_FFI_Array*>(attribute);
    if (type != XLA_FFI_AttrType_ARRAY || !is_batch(signature, *given->batch))
      throw CallError("attribute 'be.batch' was not written by brainevent; omit it");
  } else if (is_called(name, "be.operator", 11)) {
    if (type != XLA_FFI_AttrType_STRING) throw CallError("attribute 'be.operator' is not a string; omit it");
    given->operation = static_cast<const XLA_FFI_ByteSpan*>(attribute);
  }
}

// Find the values of the attributes.
inline void read_attributes(const Signature& signature, const XLA_FFI_Attrs& attrs, const void** values, Given* given) {
  int64_t found = 0, theirs = 0;
  for (int64_t i = 0; i < attrs.size; ++i) {
    const XLA_FFI_ByteSpan& name = *attrs.names[i];
    if (is_ours(name)) {
      read_ours(signature, name, attrs.types[i], attrs.attrs[i], given);
      continue;
    }
    ++theirs;
    if (found == signature.attributes) continue;
    const Attribute& attribute = signature.attribute[found];
    if (!is_called(name, attribute.name, attribute.length)) continue;
    const auto* scalar = attrs.types[i] == XLA_FFI_AttrType_SCALAR ? static_cast<XLA_FFI_Scalar*>(attrs.attrs[i]) : nullptr;
    if (scalar == nullptr || scalar->dtype != attribute.type) refuse_attribute(attribute, scalar);
    values[found++] = scalar->value;
  }
  if (theirs != signature.attributes || found != theirs) refuse_attributes(signature, theirs);
}

// Run the entry point for every element of the batch, innermost level first.
inline void run_batch(Call& call, void (*run)(const Call&), const int64_t* batch, int64_t* offsets) {
  const int64_t arrays = call.frame->args.size + call.frame->rets.size, levels = batch[0], row = 1 + arrays;
  const int64_t* rows = batch + 1;
  int64_t elements = 1;
  for (int64_t level = 0; level < levels; ++level) elements *= rows[level * row];
  call.levels = levels;
  call.depths = rows + levels * row;
  call.offsets = offsets;
  for (int64_t element = 0; element < elements; ++element) {
    int64_t rest = element;
    std::memset(offsets, 0, sizeof(int64_t) * static_cast<size_t>(arrays));
    for (int64_t level = 0; level < levels; ++level) {
      const int64_t* entry = rows + level * row;
      const int64_t index = rest % entry[0];
      rest /= entry[0];
      for (int64_t i = 0; i < arrays; ++i) offsets[i] += index * entry[1 + i];
    }
    run(call);
  }
}

// If XLA asks, return the version of its interface, and whether calls may be recorded in a CUDA graph.
inline bool answer_query(const Signature& signature, const XLA_FFI_CallFrame* frame) {
  for (auto* extension = frame->extension_start; extension != nullptr; extension = extension->next) {
    if (extension->type != XLA_FFI_Extension_Metadata) continue;
    XLA_FFI_Metadata* metadata = reinterpret_cast<XLA_FFI_Metadata_Extension*>(extension)->metadata;
    metadata->api_version.major_version = XLA_FFI_API_MAJOR;
    metadata->api_version.minor_version = XLA_FFI_API_MINOR;
    metadata->traits = signature.in_graphs ? XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE : 0;
    return true;
  }
  return false;
}

inline XLA_FFI_Error* make_error(const Signature& signature, const XLA_FFI_CallFrame* frame, const Given& given,
                                 XLA_FFI_Error_Code code, const char* what) {
  Text text;
  text << "be_" << signature.name;
  if (given.operation != nullptr && given.operation->len > 0)
    text.append(" (operator '").append(given.operation->ptr, given.operation->len).append("')");
  text << ": " << what;
  text.make_valid();
  XLA_FFI_Error* told = BE_REPORT != nullptr ? BE_REPORT(frame, text.c_str(), code) : nullptr;
  if (told != nullptr) return told;
  XLA_FFI_Error_Create_Args args{XLA_FFI_Error_Create_Args_STRUCT_SIZE, nullptr, text.c_str(), code};
  return frame->api->XLA_FFI_Error_Create(&args);
}

// `offsets` and `values` are memory for one word per array and per attribute.
inline XLA_FFI_Error* handle(const Signature& signature, XLA_FFI_CallFrame* frame, int64_t* offsets,
                             const void** values, void (*run)(const Call&)) noexcept {
  if (frame->extension_start != nullptr && answer_query(signature, frame)) return nullptr;
  Given given;
  try {
    if (frame->args.size != signature.operands || frame->rets.size != signature.results)
      refuse_arrays(signature, frame);
    read_attributes(signature, frame->attrs, values, &given);
    Call call{frame, nullptr, 0, nullptr, values};
    if (given.batch != nullptr && given.batch->size > 0) {
      run_batch(call, run, static_cast<const int64_t*>(given.batch->data), offsets);
    } else {
      run(call);
    }
    return nullptr;
  } catch (const CallError& error) {
    return make_error(signature, frame, given, XLA_FFI_Error_Code_INVALID_ARGUMENT, error.what());
  } catch (const std::exception& error) {
    return make_error(signature, frame, given, XLA_FFI_Error_Code_INTERNAL, error.what());
  } catch (...) {
    return make_error(signature, frame, given, XLA_FFI_Error_Code_INTERNAL,
                      "something was thrown that is no std::exception");
  }
}

}  // namespace detail
}  // namespace BE
