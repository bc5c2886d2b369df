/* What of cancellation Python may call: the functions of src/bursar/law/cancel.py as methods of the C kernel.
 *
 *     cancel_request(scope, reason)    request           begin_cleanup(task)       begin_cleanup
 *     cancel_nursery(nursery, reason)  request_nursery   pause_cleanup(task)       pause_cleanup
 *     leave_scope(block)               leave             resume_cleanup(task)      resume_cleanup
 *     leave_all(task)                  leave_all         end_cleanup(task)         end_cleanup
 *     deliver_cancel(task)             deliver           require_innermost(block)  require_innermost
 *     look_scope(task)                 look              move_scope(scope, phase)  move
 *
 * All of them are METH_FASTCALL and expect a Kernel (or a type derived from it) as self.
 */

#pragma once

#include "python/law/records.h"

extern PyMethodDef cancel_methods[]; /* ends with an empty row */
