/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The entry code of all MIPS ports. Each entry.S lists what ftrace_caller keeps, draws
 * its stack and defines what depends on the size of a pointer:
 *
 *     PTR_L, PTR_S, PTR_ADDIU      load, store and add a pointer
 *     PTR, PTR_SIZE                a pointer as data, and its size in bytes
 *     GIVE_BACK                    gives back the stack that the delay slot of a site has taken
 *     FRAME                        size of the stack frame of ftrace_caller
 *     BACK, PARENT_IP, IP, V0 ...  offsets in that frame
 *     SAVE_FIRST, SAVE_LAST        save at and ra, either before or after the others
 *     SAVE_MORE, RESTORE_MORE      for arguments beyond a3
 *     STOPPED_RETURN               returns by t0 without a frame: ra from at, sp as it was
 *     FAR_IP                       subtracts the words from a0 that a far site has beyond five;
 *                                  goes to `far` when done, or to `near` with the result
 *     SMALL                        size of a frame that holds two pointers
 */
        .set    noreorder
        .set    noat
        .globl ftrace_stub
ftrace_stub:
        jr      $ra
        nop

/* struct ftrace_ops *function_trace_op: the tracer's argument `op`. */
        .globl function_trace_op
function_trace_op:
        .word   0
        .word   0

/* The C functions called below, besides the tracer. */
prepare:
        PTR     prepare_ftrace_return_mips
handler:
        PTR     ftrace_return_to_handler

/* unsigned int function_trace_stop: while it is not 0, nothing is traced. */
        .globl function_trace_stop
function_trace_stop:
        .word   0
        .word   0

        .globl ftrace_caller
ftrace_caller:
        GIVE_BACK
        /* HAVE_FUNCTION_TRACE_MCOUNT_TEST */
        lui     $t0, %hi(function_trace_stop)
        lw      $t0, %lo(function_trace_stop)($t0)
        bnez    $t0, stopped
        nop

        PTR_ADDIU $sp, $sp, -FRAME
        SAVE_FIRST
        PTR_S   $v0, V0($sp)
        PTR_S   $v1, V1($sp)
        PTR_S   $a0, A0($sp)
        PTR_S   $a1, A1($sp)
        PTR_S   $a2, A2($sp)
        PTR_S   $a3, A3($sp)
        SAVE_MORE
        SAVE_LAST

        lw      $t0, -8($ra)                    // what called
        lui     $t1, 0x0060                     // jalr v1
        ori     $t1, $t1, 0xf809
        bne     $t0, $t1, near
        PTR_ADDIU $a0, $ra, -8
        FAR_IP
far:
        PTR_ADDIU $a0, $a0, -12
near:
        PTR_S   $a0, IP($sp)
        move    $a1, $at
        lui     $a2, %hi(function_trace_op)
        PTR_L   $a2, %lo(function_trace_op)($a2)
        move    $a3, $zero                      // no pt_regs were saved

        /* The slot: rewritten to call the one tracer, or the list of them. */
        .globl ftrace_call
ftrace_call:
        jal     ftrace_stub
        nop

        /* The second slot: a call of ftrace_graph_caller, while returns are traced too. */
        .globl ftrace_graph_call
ftrace_graph_call:
        nop
        nop

        PTR_L   $t0, BACK($sp)
        PTR_L   $ra, PARENT_IP($sp)
        PTR_L   $v0, V0($sp)
        PTR_L   $v1, V1($sp)
        PTR_L   $a0, A0($sp)
        PTR_L   $a1, A1($sp)
        PTR_L   $a2, A2($sp)
        PTR_L   $a3, A3($sp)
        RESTORE_MORE
        move    $at, $ra
        jr      $t0
        PTR_ADDIU $sp, $sp, FRAME
stopped:
        move    $t0, $ra
        STOPPED_RETURN

/*
 * void ftrace_graph_caller(void)
 *
 * Called in the frame of ftrace_caller. Makes the traced function return through
 * return_to_handler. That function may have saved ra in its frame; this finds it:
 *
 *     void prepare_ftrace_return_mips(unsigned long self_addr, unsigned long sp,
 *                                     unsigned long *ra)
 */
        .globl ftrace_graph_caller
ftrace_graph_caller:
        lui     $t9, %hi(prepare)
        PTR_L   $t9, %lo(prepare)($t9)
        PTR_L   $a0, IP($sp)
        PTR_ADDIU $a1, $sp, FRAME               // sp of the traced function
        PTR_ADDIU $a2, $sp, PARENT_IP           // at: what its ra will be
        PTR_ADDIU $sp, $sp, -SMALL
        PTR_S   $ra, SMALL - PTR_SIZE($sp)
        jalr    $t9
        nop
        PTR_L   $ra, SMALL - PTR_SIZE($sp)
        jr      $ra
        PTR_ADDIU $sp, $sp, SMALL

/*
 * void return_to_handler(void)
 *
 * A function returns to this while it is traced. Returns for it, with its result
 * in v0 and v1, to the address returned by
 *
 *     unsigned long ftrace_return_to_handler(unsigned long frame_pointer,
 *                                            unsigned long retval)
 */
        .globl return_to_handler
return_to_handler:
        lui     $t9, %hi(handler)
        PTR_L   $t9, %lo(handler)($t9)
        PTR_ADDIU $sp, $sp, -SMALL
        PTR_S   $v0, SMALL - 2 * PTR_SIZE($sp)
        PTR_S   $v1, SMALL - PTR_SIZE($sp)
        PTR_ADDIU $a0, $sp, SMALL
        jalr    $t9
        move    $a1, $v0
        move    $ra, $v0
        PTR_L   $v0, SMALL - 2 * PTR_SIZE($sp)
        PTR_L   $v1, SMALL - PTR_SIZE($sp)
        jr      $ra
        PTR_ADDIU $sp, $sp, SMALL
