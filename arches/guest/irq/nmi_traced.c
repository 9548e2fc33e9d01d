// SPDX-License-Identifier: GPL-2.0-or-later
/* The same functions without notrace_nmi, for the kernel of 2008. */
#define CONFIG_TRACE_NMI
#define NMI_HANDLE nmi_handle_traced
#include "nmi_watchdog.c"
