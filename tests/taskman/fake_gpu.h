/* SPDX-License-Identifier: MIT */
/* A GPU dispatcher without a GPU: a thread that begins and releases the tasks it is given, and a log of
 * every call. */
#ifndef TESTS_TASKMAN_FAKE_GPU_H
#define TESTS_TASKMAN_FAKE_GPU_H

#include "tests/taskman/fixture.h"

#include "base/handle.h"
#include "base/status.h"
#include "base/thread.h"
#include "taskman/gpu_task.h"

enum { MOST_CALLS = 4096 };

enum call { STEP_BEGIN, STEP_END, SUBMIT, CARRY, DROP, RELEASED };

struct record {
    enum call call;
    gantry_task *task;
    gantry_task *successor; /* CARRY */
    int count;              /* SUBMIT: tasks; CARRY: references of the successor */
};

struct fake {
    struct gy_gpu_dispatcher base;
    gy_mutex lock;
    gy_cond changed;
    gantry_task *first, *last; /* guarded by lock */
    bool closed;               /* guarded by lock */
    int record_count;          /* guarded by lock */
    struct record records[MOST_CALLS];
    gy_thread thread;
    gantry_status begin_status; /* set while it is idle */
    gantry_status adopted;      /* set while it is idle */
    gantry_task *fails;         /* set while it is idle: the launch of this task fails */
    atomic_int not_begun;       /* tasks that gy_task_begin() has refused */
    atomic_bool open;           /* false: the thread takes no tasks yet */
};

static inline struct fake *fake_of(gantry_dispatcher *self)
{
    return (struct fake *)(void *)self;
}

static inline void note(struct fake *fake, enum call call, gantry_task *task, gantry_task *successor,
                        int count)
{
    gy_mutex_lock(&fake->lock);
    if (fake->record_count < MOST_CALLS) {
        fake->records[fake->record_count++] = (struct record){call, task, successor, count};
    }
    gy_mutex_unlock(&fake->lock);
}

static inline gantry_status fake_step_begin(gantry_dispatcher *self, bool is_helped)
{
    (void)is_helped;
    note(fake_of(self), STEP_BEGIN, NULL, NULL, 0);
    gantry_status status = fake_of(self)->begin_status;
    return status == GANTRY_OK ? status : GY_FAIL(status, "the fake is lost");
}

static inline uint64_t fake_tell(gantry_dispatcher *self, enum gy_gpu_news news)
{
    if (news == GY_GPU_STEP_ENDED) {
        note(fake_of(self), STEP_END, NULL, NULL, 0);
    }
    return 0;
}

static inline void fake_submit(gantry_dispatcher *self, gantry_task *first, gantry_task *last)
{
    struct fake *fake = fake_of(self);
    int count = 1;
    for (gantry_task *task = first; task != last; task = task->next) {
        count++;
    }
    note(fake, SUBMIT, first, NULL, count);
    gy_mutex_lock(&fake->lock);
    last->next = NULL;
    if (fake->first == NULL) {
        fake->first = first;
    } else {
        fake->last->next = first;
    }
    fake->last = last;
    gy_mutex_unlock(&fake->lock);
    gy_cond_signal(&fake->changed);
}

/* A wait set is twice the number of GPU tasks on the longest way before the task: it is never a plain one. */
static inline void fake_carry(gantry_dispatcher *self, gantry_task *predecessor, gantry_task *successor)
{
    note(fake_of(self), CARRY, predecessor, successor, gantry_task_references(successor));
    uint64_t ours = atomic_load(&predecessor->wait_set);
    uint64_t theirs = atomic_load(&successor->wait_set);
    while (theirs < ours && !atomic_compare_exchange_weak(&successor->wait_set, &theirs, ours)) {
    }
}

static inline void fake_drop(gantry_dispatcher *self, gantry_task *task)
{
    note(fake_of(self), DROP, task, NULL, 0);
}

static inline gantry_status fake_adopt_failure(gantry_dispatcher *self, const gantry_taskman *manager)
{
    (void)manager;
    gantry_status status = fake_of(self)->adopted;
    return status == GANTRY_OK ? status : GY_FAIL(status, "the fake's first cause");
}

static gantry_status fake_attach(gantry_dispatcher *self, struct gy_gpu_seat *seat)
{
    (void)self;
    (void)seat;
    return GANTRY_OK;
}

static void fake_detach(gantry_dispatcher *self, const struct gy_gpu_seat *seat)
{
    (void)self;
    (void)seat;
}

static const struct gy_gpu_ops fake_ops = {.attach = fake_attach,
                                           .detach = fake_detach,
                                           .step_begin = fake_step_begin,
                                           .tell = fake_tell,
                                           .submit = fake_submit,
                                           .merge_deps = fake_carry,
                                           .drop_deps = fake_drop,
                                           .adopt_failure = fake_adopt_failure};

static inline gantry_task *fake_take(struct fake *fake)
{
    gy_mutex_lock(&fake->lock);
    while ((fake->first == NULL || !atomic_load(&fake->open)) && !fake->closed) {
        gy_cond_wait(&fake->changed, &fake->lock);
    }
    gantry_task *task = fake->first;
    if (task != NULL) {
        fake->first = task->next;
    }
    gy_mutex_unlock(&fake->lock);
    return task;
}

/* End one task, and count it off at once. */
static inline void release_task(gantry_task *task, gantry_status result)
{
    struct gy_gpu_debt debt = {0};
    gy_task_release(task, result, &debt);
    gy_gpu_debt_settle(&debt);
}

static inline void fake_main(void *arg)
{
    struct fake *fake = arg;
    for (gantry_task *task; (task = fake_take(fake)) != NULL;) {
        if (!gy_task_begin(task)) {
            atomic_fetch_add(&fake->not_begun, 1);
            release_task(task, GANTRY_ERR_TASK_FAILED);
        } else if (task == fake->fails) {
            release_task(task, GY_FAIL(GANTRY_ERR_DRIVER, "the launch went wrong"));
        } else {
            atomic_fetch_add(&task->wait_set, 2);
            release_task(task, GANTRY_OK);
        }
    }
}

static inline void fake_open(struct fake *fake)
{
    gy_mutex_lock(&fake->lock);
    atomic_store(&fake->open, true);
    gy_mutex_unlock(&fake->lock);
    gy_cond_broadcast(&fake->changed);
}

static inline void fake_init(struct fake *fake)
{
    memset(fake, 0, sizeof(*fake));
    fake->base.ops = &fake_ops;
    gy_handle_born(GY_HANDLE_DISPATCHER, fake, sizeof(*fake), sizeof(*fake));
    gy_mutex_init(&fake->lock, GY_RANK_DISPATCHER_INBOX);
    assert_ok(gy_cond_init(&fake->changed));
    atomic_store(&fake->open, true);
    assert_ok(gy_thread_start(&fake->thread, "fake GD", fake_main, fake));
}

static inline void fake_fini(struct fake *fake)
{
    gy_handle_died(fake);
    gy_mutex_lock(&fake->lock);
    fake->closed = true;
    gy_mutex_unlock(&fake->lock);
    gy_cond_broadcast(&fake->changed);
    gy_thread_join(&fake->thread);
    gy_cond_fini(&fake->changed);
    gy_mutex_fini(&fake->lock);
}

struct gpu_fixture {
    struct fixture base;
    struct fake *fake;
};

static struct fake the_fake;

static inline struct gpu_fixture set_up_gpu(uint32_t workers)
{
    struct gpu_fixture f = {.base = {.pool = new_pool(workers, GANTRY_WAIT_DEFAULT)}, .fake = &the_fake};
    fake_init(f.fake);
    gantry_taskman_options options = GANTRY_TASKMAN_OPTIONS_INIT;
    options.cpu_dispatcher = f.base.pool;
    options.gpu_dispatcher = (gantry_dispatcher *)(void *)f.fake;
    assert_ok(gantry_taskman_create(&options, &f.base.manager));
    return f;
}

/* The dispatcher outlives its managers, and the pool outlives the dispatcher. */
static inline void tear_down_gpu(struct gpu_fixture *f)
{
    gantry_taskman_destroy(f->base.manager);
    fake_fini(f->fake);
    gantry_cpu_dispatcher_destroy(f->base.pool);
    assert_int_equal(gy_alloc_live(), 0);
}

static inline gantry_launch_result no_launch(gantry_launch *launch, void *arg)
{
    (void)launch;
    (void)arg;
    return GANTRY_LAUNCH_DONE;
}

static inline void note_release(gantry_task *task, void *arg, gantry_status result)
{
    (void)result;
    note(arg, RELEASED, task, NULL, 0);
}

static inline gantry_task *add_gpu(struct gpu_fixture *f, gantry_task_kind kind, const char *name)
{
    gantry_task_desc desc = GANTRY_TASK_DESC_INIT;
    desc.kind = kind;
    desc.name = name;
    desc.launch = no_launch;
    desc.release = note_release;
    desc.arg = f->fake;
    gantry_task *task = NULL;
    assert_ok(gantry_taskman_submit(f->base.manager, &desc, &task));
    return task;
}

static inline int find(const struct fake *fake, enum call call, const gantry_task *task,
                       const gantry_task *successor)
{
    for (int i = 0; i < fake->record_count; i++) {
        const struct record *r = &fake->records[i];
        if (r->call == call && r->task == task && r->successor == successor) {
            return i;
        }
    }
    return -1;
}

static inline int count_calls(const struct fake *fake, enum call call)
{
    int count = 0;
    for (int i = 0; i < fake->record_count; i++) {
        count += fake->records[i].call == call;
    }
    return count;
}

#endif
