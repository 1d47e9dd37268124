; SPDX-License-Identifier: Apache-2.0
; The native handler of launch plans, behind the text of `elements.ll`, with numbers from `handler.py`.
;
; A plan is words: see `target.load`. The handler's own memory is bytes: parameters, and their addresses.

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

; Wait for a launch that is a part of a loop, and look for Ctrl-C. Return CUDA's error, 0, or $STOPPED.
define internal i64 @wait(ptr %plan, ptr %memory, ptr %pulse, i64 %done, i64 %steps) {
entry:
  %function = call ptr @follow(ptr %plan, i64 $WAIT)
  %stream = call i64 @get(ptr %memory, i64 $STREAM)
  %code = call i32 %function(i64 %stream)
  %failed = icmp ne i32 %code, 0
  br i1 %failed, label %fail, label %look
fail:
  %wide = zext i32 %code to i64
  ret i64 %wide
look:
  %beat = call ptr @follow(ptr %plan, i64 $PULSE)
  %next = call i64 %beat(ptr %pulse, i64 %done, i64 %steps)
  %stops = icmp slt i64 %next, 0
  %answer = select i1 %stops, i64 $STOPPED, i64 0
  ret i64 %answer
}

; Run the plan for one element of the batch.
define internal i64 @run_element(ptr %frame, ptr %plan, ptr %memory) {
entry:
  %pulse = alloca [$PULSE_WORDS x i64]
  store [$PULSE_WORDS x i64] zeroinitializer, ptr %pulse
  %steps = call i64 @get(ptr %plan, i64 $STEPS)
  %first = getelementptr i8, ptr %plan, i64 $FIRST
  %zeroing = call i64 @zero(ptr %plan, ptr %first, ptr %memory)
  %not_zeroed = icmp ne i64 %zeroing, 0
  br i1 %not_zeroed, label %fail, label %start
start:
  %n_zeroed = call i64 @get(ptr %plan, i64 $N_ZEROED)
  %pairs = shl i64 %n_zeroed, 4
  %launches = getelementptr i8, ptr %first, i64 %pairs
  %n = call i64 @get(ptr %plan, i64 $N_LAUNCHES)
  %is_loop = icmp ne i64 %steps, 0
  br i1 %is_loop, label %begin, label %each
begin:
  %beat = call ptr @follow(ptr %plan, i64 $PULSE)
  %first_pulse = call i64 %beat(ptr %pulse, i64 0, i64 %steps)
  br label %each
each:
  %k = phi i64 [ 0, %start ], [ 0, %begin ], [ %k_next, %launched ]
  %at = phi ptr [ %launches, %start ], [ %launches, %begin ], [ %next, %launched ]
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
  br i1 %refused, label %fail, label %ran
ran:
  br i1 %is_loop, label %part, label %launched
part:
  %done = call i64 @get(ptr %at, i64 $DONE)
  %waited = call i64 @wait(ptr %plan, ptr %memory, ptr %pulse, i64 %done, i64 %steps)
  switch i64 %waited, label %fail [ i64 0, label %launched
                                    i64 $STOPPED, label %stop ]
stop:
  %interrupted = call ptr @follow(ptr %plan, i64 $INTERRUPTED)
  %stopped = call i64 %interrupted(ptr %frame)
  ret i64 %stopped
launched:
  %k_next = add i64 %k, 1
  br label %each
fail:
  %index = phi i64 [ $ZEROING, %entry ], [ %k, %prepare ], [ %k, %run ], [ %k, %part ]
  %reason = phi i64 [ %zeroing, %entry ], [ %slot_code, %prepare ], [ %code, %run ], [ %waited, %part ]
  %error = call i64 @report(ptr %frame, ptr %plan, i64 %index, i64 %reason)
  ret i64 %error
end:
  ret i64 0
}
