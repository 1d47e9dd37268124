; SPDX-License-Identifier: Apache-2.0
; The native handler of launch plans, with numbers from `handler.py`. It returns XLA's error, or 0.
;
; A plan is words: see `target.load`. The handler's memory is bytes: the arguments of a call of XLA, with the
; stream; parameters; their addresses; the addresses of buffers, that is, of operands, then results.

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

; Report CUDA's error `code` of launch number `index`.
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

; Set results to zero: pairs of a buffer and its bytes, from `at` on. Return CUDA's error, or 0.
define internal i64 @zero(ptr %plan, ptr %at, ptr %memory) {
entry:
  %n = call i64 @get(ptr %plan, i64 $N_ZEROED)
  %function = call ptr @follow(ptr %plan, i64 $MEMSET)
  %stream = call i64 @get(ptr %memory, i64 $STREAM)
  br label %each
each:
  %k = phi i64 [ 0, %entry ], [ %k_next, %zeroed ]
  %more = icmp ult i64 %k, %n
  br i1 %more, label %set, label %end
set:
  %offset = shl i64 %k, 4
  %pair = getelementptr i8, ptr %at, i64 %offset
  %address = call i64 @buffer(ptr %pair, i64 0, ptr %memory)
  %size = call i64 @get(ptr %pair, i64 8)
  %code = call i32 %function(i64 %address, i8 0, i64 %size, i64 %stream)
  %refused = icmp ne i32 %code, 0
  br i1 %refused, label %fail, label %zeroed
zeroed:
  %k_next = add i64 %k, 1
  br label %each
fail:
  %wide = zext i32 %code to i64
  ret i64 %wide
end:
  ret i64 0
}

; Copy the words of the parameters, and return the address of the next words of the launch.
define internal ptr @copy_parameters(ptr %at, ptr %memory) {
entry:
  %n = call i64 @get(ptr %at, i64 $N_WORDS)
  %bytes = shl i64 %n, 3
  %from = getelementptr i8, ptr %at, i64 $WORDS
  %to = getelementptr i8, ptr %memory, i64 $PARAMETERS
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  %rest = getelementptr i8, ptr %from, i64 %bytes
  ret ptr %rest
}
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Write the address of each parameter; return the address of the next words of the launch.
define internal ptr @find_parameters(ptr %at, ptr %offsets, ptr %memory) {
entry:
  %n = call i64 @get(ptr %at, i64 $N_PARAMETERS)
  %start = getelementptr i8, ptr %memory, i64 $PARAMETERS
  %first = ptrtoint ptr %start to i64
  br label %each
each:
  %k = phi i64 [ 0, %entry ], [ %k_next, %write ]
  %place = shl i64 %k, 3
  %more = icmp ult i64 %k, %n
  br i1 %more, label %write, label %end
write:
  %offset = call i64 @get(ptr %offsets, i64 %place)
  %address = add i64 %first, %offset
  %where = add i64 %place, $ADDRESSES
  call void @put(ptr %memory, i64 %where, i64 %address)
  %k_next = add i64 %k, 1
  br label %each
end:
  %rest = getelementptr i8, ptr %offsets, i64 %place
  ret ptr %rest
}

; Put the addresses of buffers into parameters: a place, a buffer, an offset that is added to its address, and the bits
; that must not be set in it. Write the number of a misaligned slot, counted from 1, or 0, to `memory`. Return the next
; launch.
define internal ptr @fill_slots(ptr %at, ptr %slots, ptr %memory) {
entry:
  %n = call i64 @get(ptr %at, i64 $N_SLOTS)
  br label %each
each:
  %k = phi i64 [ 0, %entry ], [ %k_next, %fill ]
  %misaligned = phi i64 [ 0, %entry ], [ %misaligned_next, %fill ]
  %offset = shl i64 %k, 5
  %slot = getelementptr i8, ptr %slots, i64 %offset
  %more = icmp ult i64 %k, %n
  br i1 %more, label %fill, label %end
fill:
  %place = call i64 @get(ptr %slot, i64 0)
  %buffer = call i64 @buffer(ptr %slot, i64 8, ptr %memory)
  %shift = call i64 @get(ptr %slot, i64 16)
  %address = add i64 %buffer, %shift
  %where = add i64 %place, $PARAMETERS
  call void @put(ptr %memory, i64 %where, i64 %address)
  %k_next = add i64 %k, 1
  %mask = call i64 @get(ptr %slot, i64 24)
  %set = and i64 %address, %mask
  %is_misaligned = icmp ne i64 %set, 0
  %misaligned_next = select i1 %is_misaligned, i64 %k_next, i64 %misaligned
  br label %each
end:
  call void @put(ptr %memory, i64 $MISALIGNED, i64 %misaligned)
  ret ptr %slot
}

; Launch the words at `at`; return CUDA's error, or 0.
define internal i64 @launch(ptr %plan, ptr %at, ptr %memory) {
  %kernel = call ptr @follow(ptr %at, i64 0)
  %grid_x = call i32 @number(ptr %at, i64 8)
  %grid_y = call i32 @number(ptr %at, i64 16)
  %grid_z = call i32 @number(ptr %at, i64 24)
  %block_x = call i32 @number(ptr %at, i64 32)
  %block_y = call i32 @number(ptr %at, i64 40)
  %block_z = call i32 @number(ptr %at, i64 48)
  %shared = call i32 @number(ptr %at, i64 56)
  %stream = call ptr @follow(ptr %memory, i64 $STREAM)
  %addresses = getelementptr i8, ptr %memory, i64 $ADDRESSES
  %flag = call i64 @get(ptr %at, i64 $TOGETHER)
  %apart = icmp eq i64 %flag, 0
  br i1 %apart, label %one_by_one, label %together
one_by_one:
  %function = call ptr @follow(ptr %plan, i64 $LAUNCH_KERNEL)
  %code = call i32 %function(ptr %kernel, i32 %grid_x, i32 %grid_y, i32 %grid_z, i32 %block_x, i32 %block_y,
                             i32 %block_z, i32 %shared, ptr %stream, ptr %addresses, ptr null)
  br label %end
together:
  %cooperative = call ptr @follow(ptr %plan, i64 $LAUNCH_TOGETHER)
  %its_code = call i32 %cooperative(ptr %kernel, i32 %grid_x, i32 %grid_y, i32 %grid_z, i32 %block_x, i32 %block_y,
                                    i32 %block_z, i32 %shared, ptr %stream, ptr %addresses)
  br label %end
end:
  %answer = phi i32 [ %code, %one_by_one ], [ %its_code, %together ]
  %wide = zext i32 %answer to i64
  ret i64 %wide
}

; Run the plan for one element of the batch.
define internal i64 @run_element(ptr %frame, ptr %plan, ptr %memory) {
entry:
  %first = getelementptr i8, ptr %plan, i64 $FIRST
  %zeroing = call i64 @zero(ptr %plan, ptr %first, ptr %memory)
  %not_zeroed = icmp ne i64 %zeroing, 0
  br i1 %not_zeroed, label %fail, label %start
start:
  %n_zeroed = call i64 @get(ptr %plan, i64 $N_ZEROED)
  %pairs = shl i64 %n_zeroed, 4
  %launches = getelementptr i8, ptr %first, i64 %pairs
  %n = call i64 @get(ptr %plan, i64 $N_LAUNCHES)
  br label %each
each:
  %k = phi i64 [ 0, %start ], [ %k_next, %launched ]
  %at = phi ptr [ %launches, %start ], [ %next, %launched ]
  %more = icmp ult i64 %k, %n
  br i1 %more, label %prepare, label %end
prepare:
  %offsets = call ptr @copy_parameters(ptr %at, ptr %memory)
  %slots = call ptr @find_parameters(ptr %at, ptr %offsets, ptr %memory)
  %next = call ptr @fill_slots(ptr %at, ptr %slots, ptr %memory)
  %misaligned = call i64 @get(ptr %memory, i64 $MISALIGNED)
  %slot_code = sub i64 0, %misaligned  ; no error of CUDA is negative
  %aligned = icmp eq i64 %misaligned, 0
  br i1 %aligned, label %run, label %fail
run:
  %code = call i64 @launch(ptr %plan, ptr %at, ptr %memory)
  %refused = icmp ne i64 %code, 0
  br i1 %refused, label %fail, label %launched
launched:
  %k_next = add i64 %k, 1
  br label %each
fail:
  %index = phi i64 [ $ZEROING, %entry ], [ %k, %prepare ], [ %k, %run ]
  %reason = phi i64 [ %zeroing, %entry ], [ %slot_code, %prepare ], [ %code, %run ]
  %error = call i64 @report(ptr %frame, ptr %plan, i64 %index, i64 %reason)
  ret i64 %error
end:
  ret i64 0
}

; Run the plan for every element of the batch.
define i64 @run_plan(ptr %frame, ptr %plan) {
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
