"""Pages, tables, numbers and provenance: what audits and evaluations share."""
