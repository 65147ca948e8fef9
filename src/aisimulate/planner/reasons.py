"""Why a planner decides as it does: the words of the reference (spec 03 section B6), and three of our own."""

from __future__ import annotations

# Nothing can be decided.
NO_PASSES = "no_fpm_data"
NO_TRAFFIC = "no_traffic_data"
NO_SIGNAL = "insufficient_data"
NOT_COVERED = "worker_count_mismatch"
IN_PROGRESS = "scaling_in_progress"
NOT_READY = "model_not_ready"
PARTNER_NOT_READY = "partner_not_ready"
DISABLED = "disabled"

# What is decided.
NO_CHANGE = "no_change"
SCALE = "scale"
SCALE_UP = "scale_up"
SCALE_DOWN = "scale_down"
LOWER_BOUND = "set_lower_bound"

# What keeps a decision from being carried out, or makes one.
CAPPED_DOWN = "scale_down_capped_by_throughput"
REFUSED_DOWN = "scale_down_refused_consolidation"
BUDGET_HOLD = "gpu_budget_guard_hold"
BUDGET_RECONCILE = "gpu_budget_reconcile"

# Of direct sizing only.
BUDGET_CLAMPED = "gpu_budget_clamped"
UP_WAITS = "scale_up_waits"
DOWN_WAITS = "scale_down_waits"
