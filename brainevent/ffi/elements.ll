; SPDX-License-Identifier: Apache-2.0
; The part of native handlers that finds the buffers of each element of a batch, with numbers from `elements.py`. A
; handler's own text follows: it defines `run_element(frame, plan, memory)`, which returns XLA's error, or 0.
;
; A plan is words; the first are those of `elements.py`. The memory is bytes: the arguments of a call of XLA, with the
; stream; the addresses of buffers, that is, of operands, then results; then the handler's own.

define internal i64 @get(ptr %at, i64 %offset) alwaysinline {
  %place = getelementptr i8, ptr %at, i64 %offset
  %word = load i64, ptr %place
  ret i64 %word
}

define internal ptr @follow(ptr %at, i64 %offset) alwaysinline {
  %place = getelementptr i8, ptr %at, i64 %offset
  %address = load ptr, ptr %place
  ret ptr %address
}

define internal i32 @number(ptr %at, i64 %offset) alwaysinline {
  %place = getelementptr i8, ptr %at, i64 %offset
  %number = load i32, ptr %place
  ret i32 %number
}

define internal void @put(ptr %at, i64 %offset, i64 %word) alwaysinline {
  %place = getelementptr i8, ptr %at, i64 %offset
  store i64 %word, ptr %place
  ret void
}

; Report the error `code` of part number `index`.
define internal i64 @report(ptr %frame, ptr %plan, i64 %index, i64 %code) {
  %function = call ptr @follow(ptr %plan, i64 $REPORT)
  %error = call i64 %function(ptr %frame, ptr %plan, i64 %index, i64 %code)
  ret i64 %error
}

; Write XLA's stream to `memory`.
define internal i64 @ask_for_stream(ptr %frame, ptr %plan, ptr %memory) {
  call void @put(ptr %memory, i64 0, i64 $STREAM_ARGS)  ; size, extension, context, stream
  call void @put(ptr %memory, i64 8, i64 0)
  %context = call i64 @get(ptr %frame, i64 $CTX)
  call void @put(ptr %memory, i64 16, i64 %context)
  call void @put(ptr %memory, i64 $STREAM, i64 0)
  %streams = call i64 @get(ptr %plan, i64 $HAS_STREAM)
  %none = icmp eq i64 %streams, 0
  br i1 %none, label %without, label %ask
without:
  ret i64 0
ask:
  %api = call ptr @follow(ptr %frame, i64 $API)
  %function = call ptr @follow(ptr %api, i64 $STREAM_GET)
  %error = call i64 %function(ptr %memory)
  ret i64 %error
}

; Write the address of each buffer for one element of the batch. A level is a row: its size, and the distance that one
; step moves each buffer.
define internal void @find_buffers(ptr %frame, ptr %memory, ptr %batch, i64 %levels, i64 %element) {
entry:
  %operands = call ptr @follow(ptr %frame, i64 $OPERANDS)
  %results = call ptr @follow(ptr %frame, i64 $RESULTS)
  %n_operands = call i64 @get(ptr %frame, i64 $N_OPERANDS)
  %n_results = call i64 @get(ptr %frame, i64 $N_RESULTS)
  %n = add i64 %n_operands, %n_results
  %columns = add i64 %n, 1
  %row_bytes = shl i64 %columns, 3
  br label %each
each:
  %i = phi i64 [ 0, %entry ], [ %i_next, %found ]
  %more = icmp ult i64 %i, %n
  br i1 %more, label %pick, label %end
pick:
  %is_operand = icmp ult i64 %i, %n_operands
  %result = sub i64 %i, %n_operands
  %list = select i1 %is_operand, ptr %operands, ptr %results
  %index = select i1 %is_operand, i64 %i, i64 %result
  %slot = shl i64 %index, 3
  %buffer = call ptr @follow(ptr %list, i64 %slot)
  %data = call i64 @get(ptr %buffer, i64 $DATA)
  %place = shl i64 %i, 3
  %column = add i64 %place, 8
  br label %level
level:
  %l = phi i64 [ 0, %pick ], [ %l_next, %step ]
  %address = phi i64 [ %data, %pick ], [ %moved, %step ]
  %rest = phi i64 [ %element, %pick ], [ %rest_next, %step ]
  %deeper = icmp ult i64 %l, %levels
  br i1 %deeper, label %step, label %found
step:
  %row_at = mul i64 %l, %row_bytes
  %row = getelementptr i8, ptr %batch, i64 %row_at
  %size = call i64 @get(ptr %row, i64 0)
  %stride = call i64 @get(ptr %row, i64 %column)
  %steps = urem i64 %rest, %size
  %rest_next = udiv i64 %rest, %size
  %shift = mul i64 %steps, %stride
  %moved = add i64 %address, %shift
  %l_next = add i64 %l, 1
  br label %level
found:
  %where = add i64 %place, $BUFFERS
  call void @put(ptr %memory, i64 %where, i64 %address)
  %i_next = add i64 %i, 1
  br label %each
end:
  ret void
}

; Return the address of the buffer whose number is at `offset`.
define internal i64 @buffer(ptr %at, i64 %offset, ptr %memory) alwaysinline {
  %number = call i64 @get(ptr %at, i64 %offset)
  %place = shl i64 %number, 3
  %where = add i64 %place, $BUFFERS
  %address = call i64 @get(ptr %memory, i64 %where)
  ret i64 %address
}

; Run the plan for every element of the batch.
define i64 @run(ptr %frame, ptr %plan) {
entry:
  %memory = alloca [$MEMORY x i8], align 16
  %n_operands = call i64 @get(ptr %frame, i64 $N_OPERANDS)
  %n_results = call i64 @get(ptr %frame, i64 $N_RESULTS)
  %n = add i64 %n_operands, %n_results
  %n_known = call i64 @get(ptr %plan, i64 $N_BUFFERS)
  %known = icmp eq i64 %n, %n_known
  br i1 %known, label %ask, label %refuse
refuse:
  %other_arrays = call i64 @report(ptr %frame, ptr %plan, i64 $OTHER_ARRAYS, i64 0)
  ret i64 %other_arrays
ask:
  %no_stream = call i64 @ask_for_stream(ptr %frame, ptr %plan, ptr %memory)
  %failed = icmp ne i64 %no_stream, 0
  br i1 %failed, label %fail, label %batch
batch:
  %attributes = call ptr @follow(ptr %frame, i64 $ATTRIBUTES)
  %attribute = call ptr @follow(ptr %attributes, i64 0)  ; be.batch, the first by name
  %size = call i64 @get(ptr %attribute, i64 $ARRAY_SIZE)
  %batched = icmp ne i64 %size, 0
  br i1 %batched, label %read, label %count
read:
  %words = call ptr @follow(ptr %attribute, i64 $ARRAY_DATA)
  %n_levels = call i64 @get(ptr %words, i64 0)
  br label %count
count:
  %levels = phi i64 [ 0, %batch ], [ %n_levels, %read ]
  %list = phi ptr [ %plan, %batch ], [ %words, %read ]
  %rows = getelementptr i8, ptr %list, i64 8
  %columns = add i64 %n, 1
  %row_bytes = shl i64 %columns, 3
  br label %multiply
multiply:
  %l = phi i64 [ 0, %count ], [ %l_next, %level ]
  %elements = phi i64 [ 1, %count ], [ %product, %level ]
  %deeper = icmp ult i64 %l, %levels
  br i1 %deeper, label %level, label %each
level:
  %row = mul i64 %l, %row_bytes
  %extent = call i64 @get(ptr %rows, i64 %row)
  %product = mul i64 %elements, %extent
  %l_next = add i64 %l, 1
  br label %multiply
each:
  %element = phi i64 [ 0, %multiply ], [ %element_next, %ran ]
  %more = icmp ult i64 %element, %elements
  br i1 %more, label %run, label %end
run:
  call void @find_buffers(ptr %frame, ptr %memory, ptr %rows, i64 %levels, i64 %element)
  %wrong = call i64 @run_element(ptr %frame, ptr %plan, ptr %memory)
  %stopped = icmp ne i64 %wrong, 0
  br i1 %stopped, label %fail, label %ran
ran:
  %element_next = add i64 %element, 1
  br label %each
fail:
  %error = phi i64 [ %no_stream, %ask ], [ %wrong, %run ]
  ret i64 %error
end:
  ret i64 0
}
