; SPDX-License-Identifier: Apache-2.0
; The pulse of native loops that may run long, with numbers from `pulse.py`. Times are nanoseconds.
;
; A loop has memory of its own, of words that are zero at first: the time of the last pulse, its step, the time of the
; first one, how often Ctrl-C had been pressed, the half second in which its progress was shown, or, in a file, the tenth
; of it, and when the loop has to end.

declare i32 @clock_gettime(i32, ptr)
declare i32 @sigaction(i32, ptr, ptr)
declare i32 @isatty(i32)
declare i32 @dprintf(i32, ptr, ...)
declare i64 @pthread_self()
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
declare ptr @memmem(ptr, i64, ptr, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i64 @llvm.umax.i64(i64, i64)

@pressed = internal global i64 0 ; how often Ctrl-C was pressed
@answered = internal global i64 0 ; how often, when Python last handled it at the request of a loop
@asked = internal global i64 0 ; how often, when a thread was last started to ask Python
@answer = internal global i64 0 ; twice that number, when Python last answered it, and one more if the loops are to end
@before = internal global ptr null ; the signal handler that has it afterwards

; The signal handler: the one before it comes first, so that Python knows of the signal when a loop asks.
define void @note(i32 %signal, ptr %info, ptr %context) {
  %before = load atomic ptr, ptr @before acquire, align 8
  call void %before(i32 %signal, ptr %info, ptr %context)
  %old = atomicrmw add ptr @pressed, i64 1 seq_cst
  ret void
}

; Handle SIGINT before the handler that is there: Python's. One that another library put over ours may call ours, so it
; stays; and so does what ignores the signal, or ends the process.
define void @watch() {
entry:
  %current = alloca [1024 x i8], align 16
  %asked = call i32 @sigaction(i32 2, ptr null, ptr %current)
  %handler = load ptr, ptr %current
  %word = ptrtoint ptr %handler to i64
  %is_function = icmp ugt i64 %word, 1
  %is_other = icmp ne ptr %handler, @note
  %before = load atomic ptr, ptr @before acquire, align 8
  %is_new = icmp eq ptr %before, null
  %is_known = icmp eq ptr %before, %handler
  %is_fit = or i1 %is_new, %is_known
  %is_free = and i1 %is_function, %is_other
  %installs = and i1 %is_fit, %is_free
  br i1 %installs, label %install, label %leave
install:
  store atomic ptr %handler, ptr @before release, align 8
  store ptr @note, ptr %current
  %done = call i32 @sigaction(i32 2, ptr %current, ptr null)
  br label %leave
leave:
  ret void
}

define internal i1 @is_main() {
  %thread = call i64 @pthread_self()
  %main = load i64, ptr inttoptr (i64 $MAIN to ptr)
  %is_main = icmp eq i64 %thread, %main
  ret i1 %is_main
}

define internal i1 @python_ends() {
  %ends = load atomic i64, ptr inttoptr (i64 $ENDS to ptr) acquire, align 8
  %is_late = icmp ne i64 %ends, 0
  ret i1 %is_late
}

; Say whether Ctrl-C ends a loop in the main thread: Python handles it, and what that raises remains set.
define internal i1 @ends_in_main(i64 %pressed) {
entry:
  %is_late = call i1 @python_ends()
  br i1 %is_late, label %late, label %handle
late:
  ret i1 true
handle:
  %state = call i32 $PyGILState_Ensure()
  store atomic i64 %pressed, ptr @answered release, align 8
  %raised = call i32 $PyErr_CheckSignals()
  call void $PyGILState_Release(i32 %state)
  %has_raised = icmp ne i32 %raised, 0
  ret i1 %has_raised
}

; Say whether Ctrl-C ends the loops in other threads, as it does where Python's own handler is there: 1, 0, or -1 as long
; as it is not known. No loop waits for Python's lock: the main thread may have it, and be waiting for the loop to end.
define internal i64 @ends_elsewhere(i64 %pressed) {
entry:
  %thread = alloca i64
  %is_late = call i1 @python_ends()
  br i1 %is_late, label %late, label %look
late:
  ret i64 1
look:
  %answer = load atomic i64, ptr @answer acquire, align 8
  %known = lshr i64 %answer, 1
  %is_known = icmp uge i64 %known, %pressed
  br i1 %is_known, label %known_now, label %ask
known_now:
  %ends = and i64 %answer, 1
  ret i64 %ends
ask:
  %asked = load atomic i64, ptr @asked acquire, align 8
  %is_asked = icmp uge i64 %asked, %pressed
  br i1 %is_asked, label %pending, label %claim
claim:
  %pair = cmpxchg ptr @asked, i64 %asked, i64 %pressed seq_cst seq_cst
  %is_mine = extractvalue { i64, i1 } %pair, 1
  br i1 %is_mine, label %start, label %pending
start:
  %argument = inttoptr i64 %pressed to ptr
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @ask_python, ptr %argument)
  %has_failed = icmp ne i32 %failed, 0
  br i1 %has_failed, label %again, label %started
again: ; at the next pulse
  store atomic i64 %asked, ptr @asked release, align 8
  br label %pending
started:
  %number = load i64, ptr %thread
  %detached = call i32 @pthread_detach(i64 %number)
  br label %pending
pending:
  ret i64 -1
}

; Ask Python, in a thread of its own, whether the handler is Python's own. It may wait for ever if Python ends.
define internal ptr @ask_python(ptr %argument) {
  %pressed = ptrtoint ptr %argument to i64
  %state = call i32 $PyGILState_Ensure()
  %handler = call ptr $PyObject_CallObject(ptr inttoptr (i64 $GETSIGNAL to ptr), ptr inttoptr (i64 $ARGUMENTS to ptr))
  %handler_word = ptrtoint ptr %handler to i64
  %is_default = icmp eq i64 %handler_word, $DEFAULT
  call void $Py_DecRef(ptr %handler)
  call void $PyGILState_Release(i32 %state)
  %ends = zext i1 %is_default to i64
  %doubled = shl i64 %pressed, 1
  %answer = or i64 %doubled, %ends
  %before = atomicrmw umax ptr @answer, i64 %answer seq_cst
  ret ptr null
}

define internal void @show(ptr %loop, i64 %step, i64 %steps, i64 %age) {
entry:
  %shown_at = getelementptr i64, ptr %loop, i64 4
  %shown = load i64, ptr %shown_at
  %terminal = call i32 @isatty(i32 2)
  %is_terminal = icmp ne i32 %terminal, 0
  %halves = udiv i64 %age, 500000000
  %tenfold = mul i64 %step, 10
  %tenths = udiv i64 %tenfold, %steps
  %now = select i1 %is_terminal, i64 %halves, i64 %tenths
  %is_next = icmp ugt i64 %now, %shown
  %is_last = icmp eq i64 %step, %steps
  %was_shown = icmp ne i64 %shown, 0
  %is_end = and i1 %is_last, %was_shown
  %is_due = or i1 %is_next, %is_end
  %is_long = icmp ugt i64 %halves, 0
  %shows = and i1 %is_due, %is_long
  br i1 %shows, label %write, label %leave
write:
  store i64 %now, ptr %shown_at
  %begin = select i1 %is_terminal, ptr inttoptr (i64 $OVER to ptr), ptr inttoptr (i64 $NOTHING to ptr)
  %end = select i1 %is_terminal, ptr inttoptr (i64 $NOTHING to ptr), ptr inttoptr (i64 $NEWLINE to ptr)
  %parts = udiv i64 %age, 100000000
  %seconds = udiv i64 %parts, 10
  %part = urem i64 %parts, 10
  br i1 %is_last, label %write_last, label %write_next
write_next:
  %hundredfold = mul i64 %step, 100
  %share = udiv i64 %hundredfold, %steps
  %rest = sub i64 %steps, %step
  %product = mul i64 %parts, %rest
  %left = udiv i64 %product, %step
  %left_seconds = udiv i64 %left, 10
  %written = call i32 (i32, ptr, ...) @dprintf(i32 2, ptr inttoptr (i64 $LINE to ptr), ptr %begin, i64 %step, i64 %steps, i64 %share, i64 %seconds, i64 %part, i64 %left_seconds, ptr %end)
  br label %leave
write_last:
  %ended = call i32 (i32, ptr, ...) @dprintf(i32 2, ptr inttoptr (i64 $LAST_LINE to ptr), ptr %begin, i64 %steps, i64 %seconds, i64 %part)
  br label %leave
leave:
  ret void
}

; Return the step of the next pulse, or -1 if the loop must end. Only loops with a number of `steps` show progress.
define i64 @pulse(ptr %loop, i64 %step, i64 %steps) {
entry:
  %clock = alloca [2 x i64], align 16
  %read = call i32 @clock_gettime(i32 1, ptr %clock)
  %seconds = load i64, ptr %clock
  %rest_at = getelementptr i64, ptr %clock, i64 1
  %rest = load i64, ptr %rest_at
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  %step_at = getelementptr i64, ptr %loop, i64 1
  %began_at = getelementptr i64, ptr %loop, i64 2
  %seen_at = getelementptr i64, ptr %loop, i64 3
  %due_at = getelementptr i64, ptr %loop, i64 5
  %last = load i64, ptr %loop
  %last_step = load i64, ptr %step_at
  store i64 %now, ptr %loop
  store i64 %step, ptr %step_at
  %pressed = load atomic i64, ptr @pressed acquire, align 8
  %is_first = icmp eq i64 %last, 0
  br i1 %is_first, label %first, label %later
first:
  store i64 %now, ptr %began_at
  %is_outermost = icmp eq i64 %step, 0
  br i1 %is_outermost, label %begin, label %note
begin:
  call void @watch() ; again, as Python may have set its handler anew
  br label %note
note:
  %is_main = call i1 @is_main()
  %answered = load atomic i64, ptr @answered acquire, align 8
  %seen_first = select i1 %is_main, i64 %answered, i64 %pressed
  store i64 %seen_first, ptr %seen_at
  %doubled = add i64 %step, %step
  ret i64 %doubled
later:
  %elapsed = sub i64 %now, %last
  %ran = sub i64 %step, %last_step
  %fit = mul i64 %ran, $APART
  %least = call i64 @llvm.umax.i64(i64 %elapsed, i64 1)
  %wished = udiv i64 %fit, %least
  %most = mul i64 %ran, 8
  %positive = call i64 @llvm.umax.i64(i64 %wished, i64 1)
  %stride = call i64 @llvm.umin.i64(i64 %positive, i64 %most)
  %next = add i64 %step, %stride
  %began = load i64, ptr %began_at
  %age = sub i64 %now, %began
  %is_young = icmp ult i64 %age, $YOUNG
  br i1 %is_young, label %go_on, label %look
look:
  call void @watch()
  %seen = load i64, ptr %seen_at
  %is_same = icmp eq i64 %pressed, %seen
  br i1 %is_same, label %wait, label %ask
ask:
  %in_main = call i1 @is_main()
  br i1 %in_main, label %ask_main, label %ask_elsewhere
ask_main:
  store i64 %pressed, ptr %seen_at
  %raised = call i1 @ends_in_main(i64 %pressed)
  br i1 %raised, label %stop, label %progress
ask_elsewhere:
  %found = call i64 @ends_elsewhere(i64 %pressed)
  %is_pending = icmp slt i64 %found, 0
  br i1 %is_pending, label %wait, label %known
known:
  store i64 %pressed, ptr %seen_at
  %ends = icmp ne i64 %found, 0
  br i1 %ends, label %end, label %progress
end:
  %soon = add i64 %now, $PATIENCE ; the main thread then waits for the result, and is to raise KeyboardInterrupt itself
  store i64 %soon, ptr %due_at
  br label %progress
wait:
  %due = load i64, ptr %due_at
  %has_end = icmp ne i64 %due, 0
  %is_over = icmp uge i64 %now, %due
  %is_due = and i1 %has_end, %is_over
  br i1 %is_due, label %stop, label %progress
stop:
  %shown_at = getelementptr i64, ptr %loop, i64 4
  %shown = load i64, ptr %shown_at
  %was_shown = icmp ne i64 %shown, 0
  br i1 %was_shown, label %end_line, label %leave
end_line:
  %ended = call i32 (i32, ptr, ...) @dprintf(i32 2, ptr inttoptr (i64 $NEWLINE to ptr))
  br label %leave
leave:
  ret i64 -1
progress:
  %wanted = load i64, ptr inttoptr (i64 $SHOWS to ptr)
  %is_wanted = icmp ne i64 %wanted, 0
  %is_counted = icmp ne i64 %steps, 0
  %may_show = and i1 %is_wanted, %is_counted
  br i1 %may_show, label %show, label %go_on
show:
  call void @show(ptr %loop, i64 %step, i64 %steps, i64 %age)
  br label %go_on
go_on:
  ret i64 %next
}

; Report what a kernel raised, as Python does; that a loop was interrupted in another thread than Python's is known
; without Python, which may be ending, and waiting for the loop.
define i64 @report(ptr %frame, i32 %code, ptr %record, ptr %title) {
entry:
  %is_main = call i1 @is_main()
  %has_record = icmp sgt i32 %code, 0
  %is_elsewhere = xor i1 %is_main, true
  %may_know = and i1 %has_record, %is_elsewhere
  br i1 %may_know, label %look, label %python
look:
  %pickled = load ptr, ptr %record
  %size_at = getelementptr i8, ptr %record, i64 8
  %size = load i32, ptr %size_at
  %length = zext i32 %size to i64
  %found = call ptr @memmem(ptr %pickled, i64 %length, ptr inttoptr (i64 $RAISED to ptr), i64 $RAISED_SIZE)
  %is_other = icmp eq ptr %found, null
  br i1 %is_other, label %python, label %interrupted
python:
  %of_python = load ptr, ptr inttoptr (i64 $REPORT to ptr)
  %reported = call i64 %of_python(ptr %frame, i32 %code, ptr %record, ptr %title)
  ret i64 %reported
interrupted:
  %error = call i64 @interrupted(ptr %frame)
  ret i64 %error
}

; Return the error of a loop that was interrupted. In the main thread, Python takes what its handler raised, and raises it
; again.
define i64 @interrupted(ptr %frame) {
  %args = alloca [4 x i64]
  %is_main = call i1 @is_main()
  br i1 %is_main, label %in_main, label %elsewhere
in_main:
  %word = ptrtoint ptr %frame to i64
  %answer = call i64 inttoptr (i64 $ANSWER to ptr)(i64 %word, i64 0, i64 0, i64 0)
  ret i64 %answer
elsewhere:
  %api_at = getelementptr i8, ptr %frame, i64 $API
  %api = load ptr, ptr %api_at
  %create_at = getelementptr i8, ptr %api, i64 $CREATE
  %create = load ptr, ptr %create_at
  store [4 x i64] [i64 $ERROR_SIZE, i64 0, i64 $INTERRUPTED, i64 $INTERNAL], ptr %args
  %error = call i64 %create(ptr %args)
  ret i64 %error
}
