; SPDX-License-Identifier: Apache-2.0
; The native handler of functions of TVM FFI, behind the text of `ffi/elements.ll`, with numbers from `target.py`.
;
; A plan is words: see `target.load`. The handler's own memory is bytes: the arguments, of 16 bytes; a DLTensor for each
; array; the function's result; arguments of XLA's function for the device; the stream that was there before.

; Set TVM FFI's stream for the device; write the one before it to `before`.
define internal i32 @set_stream(ptr %plan, ptr %memory, i64 %stream, ptr %before) {
  %function = call ptr @follow(ptr %plan, i64 $SET_STREAM)
  %type = call i32 @number(ptr %plan, i64 $DEVICE_TYPE)
  %device = call i32 @number(ptr %memory, i64 $DEVICE)
  %code = call i32 %function(i32 %type, i32 %device, i64 %stream, ptr %before)
  ret i32 %code
}

; Write the number of the device; return XLA's error, or 0.
define internal i64 @ask_for_device(ptr %frame, ptr %plan, ptr %memory) {
  call void @put(ptr %memory, i64 $DEVICE, i64 0)
  %on_gpu = call i64 @get(ptr %plan, i64 $HAS_STREAM)
  %none = icmp eq i64 %on_gpu, 0
  br i1 %none, label %without, label %ask
without:
  ret i64 0
ask:
  %arguments = getelementptr i8, ptr %memory, i64 $DEVICE_ARGS  ; size, extension, context, device
  call void @put(ptr %arguments, i64 0, i64 $DEVICE_SIZE)
  call void @put(ptr %arguments, i64 8, i64 0)
  %context = call i64 @get(ptr %frame, i64 $CTX)
  call void @put(ptr %arguments, i64 16, i64 %context)
  %api = call ptr @follow(ptr %frame, i64 $API)
  %function = call ptr @follow(ptr %api, i64 $DEVICE_GET)
  %error = call i64 %function(ptr %arguments)
  ret i64 %error
}

; Write the arguments for one element of the batch.
define internal void @write_arguments(ptr %plan, ptr %memory) {
entry:
  %n_arguments = call i64 @get(ptr %plan, i64 $N_ARGUMENTS)
  %n = call i64 @get(ptr %plan, i64 $N_TENSORS)
  %bytes = shl i64 %n_arguments, 4
  %from = getelementptr i8, ptr %plan, i64 $FIRST
  %to = getelementptr i8, ptr %memory, i64 $ARGUMENTS
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  %rows = getelementptr i8, ptr %from, i64 %bytes
  %tensors = getelementptr i8, ptr %memory, i64 $TENSORS
  %device = call i32 @number(ptr %memory, i64 $DEVICE)
  br label %each
each:
  %k = phi i64 [ 0, %entry ], [ %k_next, %write ]
  %more = icmp ult i64 %k, %n
  br i1 %more, label %write, label %end
write:
  %row_at = shl i64 %k, 6
  %row = getelementptr i8, ptr %rows, i64 %row_at
  %tensor_at = mul i64 %k, 48
  %tensor = getelementptr i8, ptr %tensors, i64 %tensor_at
  %template = getelementptr i8, ptr %row, i64 16
  call void @llvm.memcpy.p0.p0.i64(ptr %tensor, ptr %template, i64 48, i1 false)
  %data = call i64 @buffer(ptr %row, i64 8, ptr %memory)
  call void @put(ptr %tensor, i64 0, i64 %data)
  %device_at = getelementptr i8, ptr %tensor, i64 12
  store i32 %device, ptr %device_at
  %place = call i64 @get(ptr %row, i64 0)
  %argument_at = shl i64 %place, 4
  %argument = getelementptr i8, ptr %to, i64 %argument_at
  %address = ptrtoint ptr %tensor to i64
  call void @put(ptr %argument, i64 8, i64 %address)
  %k_next = add i64 %k, 1
  br label %each
end:
  ret void
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Call the function for one element of the batch.
define internal i64 @run_element(ptr %frame, ptr %plan, ptr %memory) {
entry:
  %no_device = call i64 @ask_for_device(ptr %frame, ptr %plan, ptr %memory)
  %unknown = icmp ne i64 %no_device, 0
  br i1 %unknown, label %refuse, label %prepare
refuse:
  ret i64 %no_device
prepare:
  call void @write_arguments(ptr %plan, ptr %memory)
  %on_gpu = call i64 @get(ptr %plan, i64 $HAS_STREAM)
  %none = icmp eq i64 %on_gpu, 0
  %before = getelementptr i8, ptr %memory, i64 $STREAM_BEFORE
  br i1 %none, label %run, label %enter
enter:
  %stream = call i64 @get(ptr %memory, i64 $STREAM)
  %not_set = call i32 @set_stream(ptr %plan, ptr %memory, i64 %stream, ptr %before)
  %failed = icmp ne i32 %not_set, 0
  br i1 %failed, label %fail, label %run
run:
  %result = getelementptr i8, ptr %memory, i64 $RESULT
  call void @put(ptr %result, i64 0, i64 0)
  call void @put(ptr %result, i64 8, i64 0)
  %function = call ptr @follow(ptr %plan, i64 $SAFE_CALL)
  %object = call ptr @follow(ptr %plan, i64 $OBJECT)
  %arguments = getelementptr i8, ptr %memory, i64 $ARGUMENTS
  %n_wide = call i64 @get(ptr %plan, i64 $N_ARGUMENTS)
  %n = trunc i64 %n_wide to i32
  %code = call i32 %function(ptr %object, ptr %arguments, i32 %n, ptr %result)
  br i1 %none, label %look, label %leave
leave:
  %stream_before = call i64 @get(ptr %before, i64 0)
  %ignored = call i32 @set_stream(ptr %plan, ptr %memory, i64 %stream_before, ptr null)
  br label %look
look:
  %raised = icmp ne i32 %code, 0
  br i1 %raised, label %fail, label %returned
returned:
  %type = call i32 @number(ptr %result, i64 0)
  %is_object = icmp sge i32 %type, 64
  br i1 %is_object, label %release, label %end
release:
  %its = call ptr @follow(ptr %result, i64 8)
  %decrease = call ptr @follow(ptr %plan, i64 $RELEASE)
  %released = call i32 %decrease(ptr %its)
  br label %end
fail:
  %why = phi i32 [ %not_set, %enter ], [ %code, %look ]
  %wide = sext i32 %why to i64
  %error = call i64 @report(ptr %frame, ptr %plan, i64 0, i64 %wide)
  ret i64 %error
end:
  ret i64 0
}
