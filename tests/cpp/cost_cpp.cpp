/* SPDX-License-Identifier: MIT */
// The step as it is written in C++.
#include "tests/cpp/cost.h"

#include <gantry/gantry.hpp>

void cost_step_cpp(cost_scene *scene, void *cpp_manager)
{
    gantry::manager &graph = *static_cast<gantry::manager *>(cpp_manager);
    for (int i = 0; i < COST_TASKS; i++) {
        const auto compute = graph.kernel("compute", [scene](gantry::launch launch) {
            const gantry::device_span<std::uint32_t> device(scene->device, scene->count);
            launch.copy(device, gantry::span<std::uint32_t>(scene->host, scene->count));
            launch.run(scene->kernel, gantry::shape_for(scene->count), device, scene->count);
        });
        const auto add = graph.cpu("add", [scene] { scene->sum += scene->count; });
        add.after_done(compute);
    }
    graph.run();
    graph.reset();
}

void *cost_make_manager()
{
    return new gantry::manager(gantry_taskman_options GANTRY_TASKMAN_OPTIONS_INIT);
}

void cost_drop_manager(void *cpp_manager)
{
    delete static_cast<gantry::manager *>(cpp_manager);
}
