"""What tests use of `bursar.backend`: the classes of the kernel that runs this process, and which kernel it is."""

from bursar import seam
from bursar.backend import (
    KERNEL_VARIABLE,
    NATIVE,
    CancelScope,
    Gate,
    Kernel,
    NativeKernel,
    Nursery,
    Queues,
    Task,
    Ticket,
    Wait,
    WaitList,
    kernel_in_use,
)
from bursar.seam import ONLY_IN_C, TWINS, Twin, derived_from_c, methods_on
