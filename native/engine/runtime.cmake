# The scheduler on top of deque, injector and parking: bursar_runtime. Included by native/abi/CMakeLists.txt.

set(runtime_sources
  purse.c
  channel.c
  charge.c
  task_end.c
  task_leave.c
  help_children.c
  lender.c
  lock.c
  worker_loop.c
  channel_ops.c
  nursery.c
  task_requests.c
  scheduler.c
  select.c
  slab.c
  spawn.c
  shutdown.c
  timer.c
  wait.c
  worker.c
)
list(TRANSFORM runtime_sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/)

add_library(bursar_runtime STATIC ${runtime_sources})
target_include_directories(bursar_runtime PUBLIC ${CMAKE_CURRENT_LIST_DIR}/..)
target_link_libraries(bursar_runtime PUBLIC bursar_fiber bursar_engine bursar_law PRIVATE bursar_strict)
target_compile_definitions(bursar_runtime PUBLIC _GNU_SOURCE) # stack_t, in fiber/overflow.h
set_target_properties(bursar_runtime PROPERTIES
  C_STANDARD 11
  C_STANDARD_REQUIRED ON
  C_EXTENSIONS OFF
  C_VISIBILITY_PRESET hidden
  POSITION_INDEPENDENT_CODE ON
)
# Asserts stay on, as in native/fiber; big frames are probed, so that they hit the guard (OVERFLOW-4 there).
target_compile_options(bursar_runtime PRIVATE -UNDEBUG)
if(BURSAR_HAS_PROBES)
  target_compile_options(bursar_runtime PRIVATE -fstack-clash-protection)
endif()
