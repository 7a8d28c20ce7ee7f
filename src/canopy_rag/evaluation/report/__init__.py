"""The paper's tables and figures of one run or several, and case studies."""

from canopy_rag.evaluation.report.write import Report, write_report

__all__ = ["Report", "write_report"]
