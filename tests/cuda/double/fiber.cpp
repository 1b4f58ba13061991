/* Stacks for the threads of a block. A switch saves what the calling convention asks for and no more; on processors other
 * than x86-64 the (slower) ucontext does it. AddressSanitizer is told of every switch. */
#include "twin.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

enum { STACK = TWIN_ASAN ? 256 << 10 : 64 << 10, GUARD = 4096 };

struct twin_fiber {
    char *stack;
    void *sp;
    void (*run)(void);
    void *fake;                          /* what ASan keeps of a fiber that sleeps */
    const void *bottom;
    size_t size;
#if !defined(__x86_64__)
    ucontext_t context;
#endif
};

static twin_fiber main_fiber, *came_from;

#if defined(__x86_64__)
extern "C" void twin_switch_stack(void **save, void *load);
asm(".text\n.globl twin_switch_stack\n.type twin_switch_stack, @function\ntwin_switch_stack:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
    ".size twin_switch_stack, . - twin_switch_stack\n");
#endif

static twin_fiber *starting;

static void arrived(twin_fiber *here)
{
    (void)here;
#if TWIN_ASAN
    __sanitizer_finish_switch_fiber(here->fake, &came_from->bottom, &came_from->size);
#endif
}

static void entry(void)
{
    twin_fiber *self = starting;
    arrived(self);
    self->run();
    abort();
}

twin_fiber *twin_fiber_new(void (*run)(void))
{
    twin_fiber *f = (twin_fiber *)calloc(1, sizeof *f);
    char *memory = (char *)mmap(NULL, STACK + GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!f || memory == (char *)MAP_FAILED || mprotect(memory, GUARD, PROT_NONE)) {
        fprintf(stderr, "double: no memory for the stack of a thread\n");
        exit(1);
    }
    /* Stacks start at different places of a page, or all of them would compete for the same few lines of the cache. */
    static size_t made;
    size_t size = STACK - 320 * (made++ % 12);
    f->stack = memory + GUARD;
    f->bottom = f->stack;
    f->size = size;
    f->run = run;
#if defined(__x86_64__)
    void **top = (void **)(f->stack + size) - 2;    /* `entry` starts as if it had been called */
    *top = (void *)entry;
    f->sp = top - 6;
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = size;
    makecontext(&f->context, entry, 0);
#endif
    return f;
}

twin_fiber *twin_fiber_main(void)
{
    return &main_fiber;
}

void twin_fiber_switch(twin_fiber *from, twin_fiber *to)
{
    starting = to;
    came_from = from;
#if TWIN_ASAN
    __sanitizer_start_switch_fiber(&from->fake, to->bottom, to->size);
#endif
#if defined(__x86_64__)
    twin_switch_stack(&from->sp, to->sp);
#else
    swapcontext(&from->context, &to->context);
#endif
    arrived(from);
}
