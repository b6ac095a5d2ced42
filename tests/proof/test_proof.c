/* SPDX-License-Identifier: MIT */
/* The proof by itself: tasks, threads and accesses are told to its table, as the library, the emulated driver
 * and instrumented code do it. */
#include "tests/support/cmocka_c11.h"

#include "proof/order.h"
#include "proof/report.h"
#include "proof/shadow.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern const struct gy_proof_ops gantry_proof_ops;
void __tsan_read1(void *at);
void __tsan_read4(void *at);
void __tsan_write1(void *at);
void __tsan_write4(void *at);
void __tsan_write8(void *at);
void __tsan_write16(void *at);
void __tsan_unaligned_write4(void *at);
uint32_t __tsan_atomic32_fetch_add(volatile uint32_t *at, uint32_t value, int order);
uint32_t __tsan_atomic32_load(const volatile uint32_t *at, int order);

static const struct gy_proof_ops *const proof = &gantry_proof_ops;

static int managers[2];

enum { BYTES = 1 << 20, LINES = 16 };
static unsigned char *memory; /* watched */
static char lines[LINES][1024];
static int line_count;

static void hear(gantry_log_level level, const char *line)
{
    (void)level;
    assert_true(line_count < LINES);
    snprintf(lines[line_count++], sizeof(lines[0]), "%s", line);
}

static int setup(void **state)
{
    (void)state;
    if (memory == NULL) {
        memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(memory != MAP_FAILED);
        proof->device.watch(memory, BYTES);
        proof->open(hear, 0);
    }
    proof->device.forget(memory, BYTES);
    line_count = 0;
    proof->step_begin(&managers[0]);
    return 0;
}

/* One task of a kind that begins, does something and ends. */
struct task {
    char label[32];
    struct task *successors[4];
    bool waits[4]; /* for the GPU work, by successor */
    int count;
};

static int names; /* labels are unlike in all tests, since a pair of them is reported once */

static void name(struct task *task, const char *label)
{
    memset(task, 0, sizeof(*task));
    snprintf(task->label, sizeof(task->label), "%s%d", label, names);
}

static void edge(struct task *from, struct task *to, bool waits)
{
    from->waits[from->count] = waits;
    from->successors[from->count++] = to;
}

static void end(const struct task *task)
{
    for (int i = 0; i < task->count; i++) {
        proof->edge(task, task->successors[i], task->waits[i]);
    }
    proof->end(&managers[0], task);
}

typedef void touch_fn(void *at);

static void body(const struct task *task, touch_fn *touch, size_t at)
{
    const struct gy_proof_task one = {.manager = &managers[0], .task = task, .label = task->label};
    proof->body_begin(&one);
    if (touch != NULL) {
        touch(memory + at);
    }
    proof->body_end(one.task);
    end(task);
}

/* A GPU task whose kernel touches memory.  `completes`: a task that waits for it, or NULL. */
static void launch(const struct task *task, touch_fn *touch, size_t at, const struct task *completes)
{
    const struct gy_proof_task one = {.manager = &managers[0], .task = task, .label = task->label};
    proof->launch_begin(&one);
    const uint32_t work = proof->device.enqueue(NULL);
    assert_int_not_equal(work, 0);
    if (completes != NULL) {
        proof->completes(completes, false);
    }
    proof->launch_end(task);
    assert_int_equal(proof->device.enqueue(NULL), 0); /* outside of callbacks nothing is anybody's */
    proof->device.enter(work, "kernel", 3, true);
    if (touch != NULL) {
        touch(memory + at);
    }
    proof->device.leave();
    end(task);
}

static void test_two_kernels_need_an_edge(void **state)
{
    (void)state;
    static struct task a, b, c;
    name(&a, "a"), name(&b, "b"), name(&c, "c");
    names++;
    edge(&a, &b, false);
    launch(&a, __tsan_write4, 64, NULL);
    launch(&b, __tsan_read4, 64, NULL);
    assert_int_equal(line_count, 0);
    proof->allocated(memory, 4096, (gantry_alloc_site){"mesh", "scene.c", 12}, true);
    launch(&a, __tsan_write4, 64, NULL);
    launch(&c, __tsan_write4, 64, NULL);
    assert_int_equal(line_count, 1);
    assert_non_null(
        strstr(lines[0], "no edge leads from task 'a0' to task 'c0', which writes in kernel (block 3)"));
    assert_non_null(strstr(lines[0], " what 'a0' has written in kernel (block 3)"));
    assert_non_null(strstr(lines[0], ", bytes 64 to 67 of the block 'mesh'"));
    if (system("command -v addr2line > /dev/null") == 0) { /* both places are where launch() calls */
        const char *first = strstr(lines[0], "(block 3) at test_proof.c:");
        assert_true(first != NULL && strstr(first + 1, "(block 3) at test_proof.c:") != NULL);
    }
    assert_non_null(strstr(lines[0], "from scene.c:12): gantry_task_start_after(c0, a0)"));
    launch(&a, __tsan_write4, 64, NULL); /* the same pair of labels is told once */
    assert_int_equal(line_count, 1);
}

/* Through a CPU task, a sync point (which has no part) and a name: GPU order is carried. */
static void test_order_is_carried(void **state)
{
    (void)state;
    static struct task a, cpu, sync, b;
    name(&a, "a"), name(&cpu, "cpu"), name(&sync, "sync"), name(&b, "b");
    names++;
    edge(&a, &cpu, false);
    edge(&cpu, &sync, false);
    edge(&sync, &b, false);
    launch(&a, __tsan_write4, 0, NULL);
    body(&cpu, NULL, 0);
    end(&sync);
    launch(&b, __tsan_write4, 0, NULL);
    assert_int_equal(line_count, 0);
}

/* A CPU task that comes after a GPU task comes after its launch alone. */
static void test_cpu_after_gpu(void **state)
{
    (void)state;
    static struct task gpu, early, late, completed;
    name(&gpu, "gpu"), name(&early, "early"), name(&late, "late"), name(&completed, "completed");
    names++;
    edge(&gpu, &late, true);
    edge(&gpu, &early, false);
    launch(&gpu, __tsan_write4, 0, &completed);
    body(&late, __tsan_read4, 0);
    body(&completed, __tsan_read4, 0);
    assert_int_equal(line_count, 0);
    body(&early, __tsan_read4, 0);
    assert_int_equal(line_count, 1);
    assert_non_null(strstr(lines[0], "which reads on the host"));
    assert_non_null(strstr(lines[0], ": gantry_task_start_after_done("));
}

static void test_atomics(void **state)
{
    (void)state;
    static struct task a, b, c, d;
    name(&a, "a"), name(&b, "b"), name(&c, "c"), name(&d, "d");
    names++;
    edge(&b, &c, false);
    launch(&a, NULL, 0, NULL);
    for (int i = 0; i < 2; i++) {
        const struct gy_proof_task one = {
            .manager = &managers[0], .task = i == 0 ? &a : &b, .label = i == 0 ? a.label : b.label};
        proof->body_begin(&one);
        (void)__tsan_atomic32_fetch_add((volatile uint32_t *)(void *)memory, 1, 0);
        (void)__tsan_atomic32_load((volatile uint32_t *)(void *)memory, 0);
        proof->body_end(one.task);
        end(i == 0 ? &a : &b);
    }
    assert_int_equal(line_count, 0); /* atomics among themselves */
    body(&c, __tsan_read4, 0);       /* comes after the one, and not after the other */
    assert_int_equal(line_count, 1);
    assert_non_null(strstr(lines[0], a.label));
    body(&d, __tsan_write4, 0); /* one line for each pair, though three works are in its way */
    assert_int_equal(line_count, 2);
}

/* Neighbours in one cell are strangers. */
static void test_bytes(void **state)
{
    (void)state;
    static struct task a, b, c, d, e;
    name(&a, "a"), name(&b, "b"), name(&c, "c"), name(&d, "d"), name(&e, "e");
    edge(&a, &d, false); /* but not for b's byte */
    launch(&a, __tsan_write1, 8, NULL);
    launch(&b, __tsan_write1, 9, NULL);
    launch(&c, __tsan_read1, 11, NULL);
    launch(&e, __tsan_write16, 12, NULL);
    assert_int_equal(line_count, 0);
    launch(&d, __tsan_unaligned_write4, 7, NULL);
    assert_int_equal(line_count, 1);
    assert_non_null(strstr(lines[0], b.label));
    assert_non_null(strstr(lines[0], ", byte 9 of the block"));
    name(&d, "all");
    names++;
    launch(&d, __tsan_write8, 8, NULL); /* the split cell is one again: all bytes are this one's */
    const int before = line_count;
    name(&e, "alone");
    launch(&e, __tsan_read1, 9, NULL);
    assert_int_equal(line_count, before + 1);
    assert_non_null(strstr(lines[before], d.label));
}

/* All readers are waited for, also those that others have followed. */
static void test_readers(void **state)
{
    (void)state;
    enum { READERS = 40 };
    static struct task readers[READERS], good, bad;
    name(&good, "good"), name(&bad, "bad");
    for (int i = 0; i < READERS; i++) {
        name(&readers[i], "reader");
        readers[i].label[0] = (char)('A' + i % 26);
        edge(&readers[i], &good, false);
        if (i != 17) {
            edge(&readers[i], &bad, false);
        }
        launch(&readers[i], __tsan_read4, 256, NULL);
        launch(&readers[i], __tsan_read4, 512, NULL);
    }
    names++;
    launch(&good, __tsan_write4, 256, NULL);
    assert_int_equal(line_count, 0);
    launch(&bad, __tsan_write4, 512, NULL);
    assert_int_equal(line_count, 1);
    assert_non_null(strstr(lines[0], readers[17].label));
}

/* GPU work of a step comes after that of the step before; what the thread has waited for comes before all of
 * it. */
static void test_steps(void **state)
{
    (void)state;
    static struct task a, b, other, cpu;
    name(&a, "a"), name(&b, "b"), name(&other, "other"), name(&cpu, "cpu");
    names++;
    proof->step_begin(&managers[0]);
    launch(&a, __tsan_write4, 0, NULL);
    proof->step_waited(&managers[0]);
    proof->step_begin(&managers[0]);
    launch(&b, __tsan_write4, 0, NULL);
    assert_int_equal(line_count, 0);
    body(&cpu, __tsan_read4, 0); /* its step has begun while the GPU may still work */
    assert_int_equal(line_count, 1);
    proof->step_waited(&managers[0]);
    proof->synchronized();
    proof->step_begin(&managers[1]);
    const struct gy_proof_task one = {.manager = &managers[1], .task = &other, .label = other.label};
    proof->body_begin(&one);
    __tsan_write4(memory);
    proof->body_end(one.task);
    proof->end(&managers[1], &other);
    assert_int_equal(line_count, 1); /* everything was waited for */
    proof->manager_gone(&managers[1]);
}

/* Memory that was given to another is the other's. */
static void test_generations(void **state)
{
    (void)state;
    static struct task a, b;
    name(&a, "a"), name(&b, "b");
    names++;
    launch(&a, __tsan_write4, 4096, NULL);
    proof->allocated(memory + 4096, 256, (gantry_alloc_site){NULL, NULL, 0}, true);
    launch(&b, __tsan_write4, 4096, NULL);
    assert_int_equal(line_count, 0);
}

/* What lies in no watched memory is nobody's, and so is what no task does. */
static void test_what_is_not_watched(void **state)
{
    (void)state;
    static struct task a, b;
    static unsigned char own[64];
    name(&a, "a"), name(&b, "b");
    names++;
    __tsan_write4(memory);
    launch(&a, __tsan_read4, 0, NULL);
    const struct gy_proof_task one = {.manager = &managers[0], .task = &b, .label = b.label};
    for (int i = 0; i < 2; i++) {
        proof->body_begin(&one);
        __tsan_write4(own);
        proof->body_end(one.task);
        proof->end(&managers[0], &b);
    }
    assert_int_equal(line_count, 0);
}

/* Under one mutex there is no race; beside it, or under another one, there is. */
static void test_mutexes(void **state)
{
    (void)state;
    static pthread_mutex_t mutexes[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
    static struct task tasks[4];
    static const int held[] = {0, 0, 1, -1};
    for (int i = 0; i < 4; i++) {
        name(&tasks[i], "mutex");
        tasks[i].label[0] = (char)('A' + i);
        const struct gy_proof_task one = {
            .manager = &managers[0], .task = &tasks[i], .label = tasks[i].label};
        proof->body_begin(&one);
        if (held[i] >= 0) {
            assert_int_equal(pthread_mutex_lock(&mutexes[held[i]]), 0);
            __tsan_write4(memory);
            assert_int_equal(pthread_mutex_unlock(&mutexes[held[i]]), 0);
        } else {
            __tsan_write4(memory);
        }
        proof->body_end(one.task);
        end(&tasks[i]);
        assert_int_equal(line_count, i < 2 ? 0 : i - 1);
    }
    names++;
}

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static int lock_rwlock(int how)
{
    const struct timespec never = {0, 0};
    switch (how) {
    case 0:
        return pthread_rwlock_rdlock(&rwlock);
    case 1:
        return pthread_rwlock_tryrdlock(&rwlock);
    case 2:
        return pthread_rwlock_timedrdlock(&rwlock, &never);
    case 3:
        return pthread_rwlock_wrlock(&rwlock);
    case 4:
        return pthread_rwlock_trywrlock(&rwlock);
    default:
        return pthread_rwlock_timedwrlock(&rwlock, &never);
    }
}

/* Who writes under the lock is alone; who reads is beside others, so two that write there race. */
static void test_locks_for_readers(void **state)
{
    (void)state;
    static struct task tasks[36][2];
    for (int i = 0; i < 36; i++) {
        const int how[] = {i / 6, i % 6}, found = line_count;
        const bool both_read = how[0] < 3 && how[1] < 3;
        for (int k = 0; k < 2; k++) {
            name(&tasks[i][k], k == 0 ? "first" : "second");
            const struct gy_proof_task one = {
                .manager = &managers[0], .task = &tasks[i][k], .label = tasks[i][k].label};
            proof->body_begin(&one);
            assert_int_equal(lock_rwlock(how[k]), 0);
            __tsan_write4(memory + 64 * i);
            assert_int_equal(pthread_rwlock_unlock(&rwlock), 0);
            proof->body_end(one.task);
            end(&tasks[i][k]);
        }
        names++;
        assert_int_equal(line_count - found, both_read);
    }
}

static pthread_mutex_t told_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told_condition = PTHREAD_COND_INITIALIZER;
static bool is_told;
static sem_t told_semaphore;

/* `how`: by a condition, a semaphore, or nothing that is known. */
static void *tell(void *user)
{
    static struct task teller;
    const int *how = user;
    name(&teller, "teller");
    const struct gy_proof_task one = {.manager = &managers[0], .task = &teller, .label = teller.label};
    proof->body_begin(&one);
    __tsan_write4(memory);
    pthread_mutex_lock(&told_lock);
    is_told = true;
    if (*how == 0) {
        pthread_cond_signal(&told_condition);
    }
    pthread_mutex_unlock(&told_lock);
    if (*how == 1) {
        sem_post(&told_semaphore);
    }
    proof->body_end(one.task);
    end(&teller);
    return NULL;
}

/* Who is woken comes after who has woken it, with all that it did. */
static void test_who_is_woken(void **state)
{
    (void)state;
    static struct task waiter;
    assert_int_equal(sem_init(&told_semaphore, 0, 0), 0);
    for (int how = 0; how < 3; how++) {
        pthread_t thread;
        is_told = false;
        proof->device.forget(memory, BYTES);
        name(&waiter, "waiter");
        const struct gy_proof_task one = {.manager = &managers[0], .task = &waiter, .label = waiter.label};
        proof->body_begin(&one);
        pthread_mutex_lock(&told_lock);
        assert_int_equal(pthread_create(&thread, NULL, tell, &how), 0);
        while (how == 0 && !is_told) {
            pthread_cond_wait(&told_condition, &told_lock);
        }
        pthread_mutex_unlock(&told_lock);
        if (how == 1) {
            assert_int_equal(sem_wait(&told_semaphore), 0);
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
        __tsan_write4(memory);
        proof->body_end(one.task);
        end(&waiter);
        names++;
        assert_int_equal(line_count, how == 2);
    }
    assert_int_equal(sem_destroy(&told_semaphore), 0);
}

/* Who has asked for a summary has what was found at once: the program may not come to its end. */
static void test_what_is_found_is_written_at_once(void **state)
{
    (void)state;
    static struct task a, b;
    char path[] = "/tmp/gantry-found-XXXXXX", line[1024] = "";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(setenv("GANTRY_CHECK_REPORT", path, 1), 0);
    name(&a, "left\n"), name(&b, "right");
    names++;
    body(&a, __tsan_write4, 0);
    body(&b, __tsan_write4, 0);
    assert_int_equal(unsetenv("GANTRY_CHECK_REPORT"), 0);
    assert_true(read(fd, line, sizeof(line) - 1) > 0);
    assert_int_equal(strncmp(line, "found\tno edge leads from task 'left ", 35), 0);
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
}

/* Many threads touch the same cells: nothing is lost, and nothing is seen that is not there. */
static void *touch_all(void *user)
{
    const struct task *task = user;
    const struct gy_proof_task one = {.manager = &managers[0], .task = task, .label = task->label};
    proof->body_begin(&one);
    for (size_t at = 0; at < 65536; at += 4) {
        __tsan_read4(memory + at);
    }
    proof->body_end(one.task);
    end(task);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    static struct task first, tasks[THREADS], last;
    name(&first, "first"), name(&last, "last");
    for (int i = 0; i < THREADS; i++) {
        name(&tasks[i], "thread");
        edge(&first, &tasks[i], false);
        if (i != 2) {
            edge(&tasks[i], &last, false);
        }
    }
    names++;
    const struct gy_proof_task one = {.manager = &managers[0], .task = &first, .label = first.label};
    proof->body_begin(&one);
    proof->device.touch(memory, 65536, GY_PROOF_WRITE);
    proof->body_end(one.task);
    end(&first);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, touch_all, &tasks[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(line_count, 0);
    body(&last, __tsan_write4, 32768);
    assert_int_equal(line_count, 1);
    assert_non_null(strstr(lines[0], tasks[2].label));
}

/* ---- what is declared ----------------------------------------------------------------------------- */

/* A body of a new task that has declared these writes bytes from `at` on. */
static void write_declared(const gantry_access *accesses, size_t count, size_t at, size_t bytes)
{
    static struct task tasks[16];
    static int made;
    struct task *task = &tasks[made++];
    name(task, "declared");
    names++;
    proof->declares(&managers[0], task, accesses, count);
    const struct gy_proof_task one = {.manager = &managers[0], .task = task, .label = task->label};
    proof->body_begin(&one);
    proof->device.touch(memory + at, bytes, GY_PROOF_WRITE);
    proof->body_end(task);
    end(task);
    for (int i = line_count; i-- > 0;) { /* there are no edges */
        if (strstr(lines[i], "no edge leads") != NULL) {
            memmove(lines[i], lines[i + 1], sizeof(lines[0]) * (size_t)(--line_count - i));
        }
    }
}

static gantry_access range(size_t at, size_t bytes, gantry_access_mode mode)
{
    return (gantry_access){.at = memory + at, .bytes = bytes, .mode = mode};
}

static void test_declared_ranges(void **state)
{
    (void)state;
    gantry_access in_another[] = {range(500, 4, GANTRY_ACCESS_WRITE), range(8, 4, GANTRY_ACCESS_WRITE),
                                  range(0, 1000, GANTRY_ACCESS_WRITE)};
    gantry_access in_a_gap[] = {range(0, 8, GANTRY_ACCESS_WRITE), range(10, 4, GANTRY_ACCESS_WRITE)};
    gantry_access closed[] = {range(0, 25, GANTRY_ACCESS_WRITE), range(100, 100, GANTRY_ACCESS_WRITE)};
    in_a_gap[0].rows = in_a_gap[1].rows = 3;
    in_a_gap[0].pitch = in_a_gap[1].pitch = 20;
    closed[0].rows = 4;
    closed[0].pitch = 25;
    write_declared(in_another, 3, 900, 100);
    write_declared(in_a_gap, 2, 0, 8);
    write_declared(in_a_gap, 2, 20, 8);
    write_declared(in_a_gap, 2, 31, 3);
    write_declared(in_a_gap, 2, 50, 4);
    write_declared(closed, 2, 0, 200);
    assert_int_equal(line_count, 0);
    proof->allocated(memory, 4096, (gantry_alloc_site){"mesh", "scene.c", 12}, true);
    write_declared(in_a_gap, 2, 54, 1);
    assert_int_equal(line_count, 1);
    assert_non_null(strstr(lines[0], " byte 54 of the block 'mesh'"));
    proof->declares(&managers[1], &managers[0], closed, 2);
    proof->forgets(&managers[1]);
    proof->forgets(&managers[0]);
    static struct task again; /* it has declared nothing */
    name(&again, "again");
    names++;
    body(&again, __tsan_write4, 2048);
    assert_int_equal(line_count, 1);
}

/* A line tells the bytes of one block, up to the next that are declared, or are declared otherwise. */
static void test_which_bytes_are_not_declared(void **state)
{
    (void)state;
    const gantry_access both[] = {range(0, 100, GANTRY_ACCESS_WRITE), range(200, 100, GANTRY_ACCESS_ADD),
                                  range(120, 30, GANTRY_ACCESS_READ), range(140, 4, GANTRY_ACCESS_WRITE),
                                  range(135, 2, GANTRY_ACCESS_READ)};
    const gantry_access one[] = {range(0, 8, GANTRY_ACCESS_WRITE), range(110, 50, GANTRY_ACCESS_READ)};
    proof->allocated(memory, 1024, (gantry_alloc_site){"mesh", "scene.c", 12}, true);
    proof->allocated(memory + 1024, 1024, (gantry_alloc_site){"mesh", "scene.c", 12}, true);
    write_declared(both, 2, 50, 200);
    write_declared(both, 3, 50, 200);
    write_declared(both, 3, 130, 100);
    write_declared(both, 5, 130, 100);
    write_declared(one, 1, 1000, 100);    /* of two blocks from one line */
    write_declared(one, 2, BYTES / 2, 8); /* of none */
    assert_int_equal(line_count, 7);
    static const char *const told[] = {" bytes 100 to 199 of the block 'mesh'",
                                       " bytes 100 to 119 of the block 'mesh'",
                                       " bytes 130 to 149 of the block 'mesh'",
                                       " bytes 130 to 139 of the block 'mesh'",
                                       " bytes 1000 to 1023 of the block 'mesh'",
                                       " bytes 0 to 75 of the block 'mesh'",
                                       " of memory that is no block of a heap, which it has not"};
    for (int i = 0; i < 7; i++) {
        assert_non_null(strstr(lines[i], told[i]));
        assert_non_null(strstr(lines[i], i == 2 || i == 3 ? "which it has declared as GANTRY_ACCESS_READ: "
                                                          : "which it has not declared: "));
    }
    assert_non_null(strstr(lines[6], "&(gantry_access){.at = (void *)0x"));
    proof->forgets(&managers[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_two_kernels_need_an_edge, setup),
        cmocka_unit_test_setup(test_order_is_carried, setup),
        cmocka_unit_test_setup(test_cpu_after_gpu, setup),
        cmocka_unit_test_setup(test_atomics, setup),
        cmocka_unit_test_setup(test_bytes, setup),
        cmocka_unit_test_setup(test_readers, setup),
        cmocka_unit_test_setup(test_steps, setup),
        cmocka_unit_test_setup(test_generations, setup),
        cmocka_unit_test_setup(test_what_is_not_watched, setup),
        cmocka_unit_test_setup(test_mutexes, setup),
        cmocka_unit_test_setup(test_locks_for_readers, setup),
        cmocka_unit_test_setup(test_who_is_woken, setup),
        cmocka_unit_test_setup(test_what_is_found_is_written_at_once, setup),
        cmocka_unit_test_setup(test_threads, setup),
        cmocka_unit_test_setup(test_declared_ranges, setup),
        cmocka_unit_test_setup(test_which_bytes_are_not_declared, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
