/* SPDX-License-Identifier: MIT */
/* oneTBB: its flow graph, and its task group. */
#include "bench/task_shapes.h"

#include <memory>
#include <new>
#include <tbb/flow_graph.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <vector>

namespace
{
using node = tbb::flow::continue_node<tbb::flow::continue_msg>;

struct job {
    job(task_field *f, uint32_t w)
        : field(f), arena(static_cast<int>(w)), limit(tbb::global_control::max_allowed_parallelism, w)
    {
    }
    task_field *field;
    tbb::task_arena arena;
    tbb::global_control limit;
    std::unique_ptr<tbb::flow::graph> graph;
    std::vector<std::unique_ptr<node>> nodes;
    std::vector<node *> roots;
};

void connect(job &j)
{
    task_field &f = *j.field;
    for (uint32_t i = 0; i < f.count; i++) {
        auto after = [&](uint32_t p) { tbb::flow::make_edge(*j.nodes[p], *j.nodes[i]); };
        if (f.shape == SHAPE_CHAIN && i > 0) {
            after(i - 1);
        } else if (f.shape == SHAPE_WAVEFRONT && i > 0) {
            if (i % f.side != 0) {
                after(i - 1);
            }
            if (i >= f.side) {
                after(i - f.side);
            }
        } else if (f.shape == SHAPE_TREE && i > 0 && i + 1 < f.count) {
            after((i - 1) / 2);
        } else if (f.shape == SHAPE_TREE && i > 0) {
            for (uint32_t leaf = (f.count - 1) / 2; leaf + 1 < f.count; leaf++) {
                after(leaf);
            }
        } else {
            j.roots.push_back(j.nodes[i].get());
        }
    }
}

void *make_graph(task_field *field, uint32_t workers)
{
    job *j = new (std::nothrow) job(field, workers);
    if (j == nullptr) {
        return nullptr;
    }
    j->arena.execute([&] {
        j->graph.reset(new tbb::flow::graph);
        j->nodes.reserve(field->count);
        for (uint32_t i = 0; i < field->count; i++) {
            j->nodes.emplace_back(new node(
                *j->graph, [field, i](const tbb::flow::continue_msg &) { task_field_touch(field, i); }));
        }
        connect(*j);
    });
    return j;
}

bool run_graph(void *user)
{
    job *j = static_cast<job *>(user);
    j->arena.execute([&] {
        for (node *root : j->roots) {
            root->try_put(tbb::flow::continue_msg());
        }
        j->graph->wait_for_all();
    });
    return true;
}

void *make_group(task_field *field, uint32_t workers)
{
    return new (std::nothrow) job(field, workers);
}

void spawn_tree(tbb::task_group &group, task_field *field, uint32_t i)
{
    task_field_touch(field, i);
    for (uint32_t child = 2 * i + 1; child <= 2 * i + 2 && child + 1 < field->count; child++) {
        group.run([&group, field, child] { spawn_tree(group, field, child); });
    }
}

bool run_group(void *user)
{
    job *j = static_cast<job *>(user);
    task_field *field = j->field;
    j->arena.execute([&] {
        tbb::task_group group;
        if (field->shape == SHAPE_TREE) {
            group.run([&] { spawn_tree(group, field, 0); });
        } else {
            for (uint32_t i = 0; i < field->count; i++) {
                group.run([field, i] { task_field_touch(field, i); });
            }
        }
        group.wait();
    });
    if (field->shape == SHAPE_TREE) {
        task_field_touch(field, field->count - 1);
    }
    return true;
}

void drop(void *user)
{
    delete static_cast<job *>(user);
}
} // namespace

extern "C" {
const task_peer task_peer_tbb_graph = {"onetbb-graph", make_graph, run_graph, drop};
const task_peer task_peer_tbb_group = {"onetbb-group", make_group, run_group, drop};
}
