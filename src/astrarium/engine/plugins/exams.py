"""The exams of all plug-in kinds. A plug-in's own tests call them; they raise ExamError, which says what is broken."""

from __future__ import annotations

from astrarium.engine.plugins.exam import ExamError
from astrarium.engine.plugins.exam_network import EXAM_FABRIC, exam_network
from astrarium.engine.plugins.exam_others import exam_choice, exam_compute, exam_memory, exam_scheduling, exam_work

__all__ = ["EXAM_FABRIC", "ExamError", "exam_choice", "exam_compute", "exam_memory", "exam_network", "exam_scheduling",
           "exam_work"]
