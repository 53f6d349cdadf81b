"""Audits: is a classifier biased, by the counterfactuals of its images and by real images?

An audit is made of steps that are called in order; `audit` calls the first three.

    questions = prepare(model, classifiers, AuditOptions(do=["Young=0"]))
    answers, readings = answer(questions)
    result = estimate(questions, answers, readings)  # estimate(folder) repeats it from saved tables
    report.write(result, illustrate(questions, result), folder)
"""

from cfgen.lazy import lazy_names

__all__ = ["AuditOptions", "AuditResult", "answer", "audit", "estimate", "illustrate", "prepare", "write_report"]

__getattr__, __dir__ = lazy_names(
    "cfgen.audit",
    {
        "AuditOptions": "options",
        "AuditResult": "result",
        "answer": "_answer",
        "audit": "_audit",
        "estimate": "_estimate",
        "illustrate": "_illustrate",
        "prepare": "_prepare",
        "write_report": "_audit",
    },
)
