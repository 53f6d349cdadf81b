"""Attribute-SCM: graph, mechanisms g_i, and abduct / act / predict (Algorithm 1)."""

from cfgen.scm.attribute_scm import Abduction, AttributeSCM
from cfgen.scm.graph import CausalGraph
from cfgen.scm.mechanism import Mechanism

__all__ = ["Abduction", "AttributeSCM", "CausalGraph", "Mechanism"]
