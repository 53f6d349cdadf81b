"""The Attribute-SCM M_a: Appendix A and Algorithm 1 of the paper, and Pearl's three rungs in one object."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cfgen.attributes import Attribute, Columns, Continuous, Schema, unknown_name
from cfgen.scm.continuous import Empirical, Gaussian
from cfgen.scm.discrete import CPT, Logistic
from cfgen.scm.flows import MLP, Spline
from cfgen.scm.graph import CausalGraph
from cfgen.scm.mechanism import Mechanism
from cfgen.scm.published import LogAffine, LogSpline

__all__ = ["Abduction", "AttributeSCM"]

CONTINUOUS: dict[str, type[Mechanism]] = {
    "deepscm": LogAffine,
    "deepscm_root": LogSpline,
    "empirical": Empirical,
    "gaussian": Gaussian,
    "mlp": MLP,
    "spline": Spline,
}
DISCRETE: dict[str, type[Mechanism]] = {"cpt": CPT, "logistic": Logistic}


class Abduction(NamedTuple):
    """What is known of each row after Step 1: its attributes as observed, and the noise that made them so."""

    factual: dict[str, Tensor]
    noise: dict[str, Tensor]


class AttributeSCM(nn.Module):
    """Structural assignments a_i := g_i(P_ai, eps_i) over a known graph, fitted by maximum likelihood.

    Columns are in real units, one row per image, on any device; `do` maps names to a scalar or to one value per row.
    The whole fitted model, ranges included, is its state dict; `AttributeSCM(**scm.spec)` rebuilds its structure.

    >>> thickness = torch.linspace(1, 5, 100)
    >>> columns = {"thickness": thickness, "intensity": 40 * thickness}
    >>> kinds = {name: {"kind": "continuous"} for name in columns}
    >>> scm = AttributeSCM(kinds, [("thickness", "intensity")], {"intensity": "gaussian"}).fit(columns)
    >>> had_it_been_5 = scm.counterfactual({name: column[:1] for name, column in columns.items()}, {"thickness": 5.0})
    >>> round(had_it_been_5["intensity"].item())
    200
    """

    fitted: Tensor

    def __init__(
        self,
        attributes: Mapping[str, Attribute | Mapping[str, Any]],
        edges: Iterable[Sequence[str]] = (),
        mechanisms: Mapping[str, str | Mapping[str, Any]] | None = None,
    ) -> None:
        super().__init__()
        self.schema = Schema(attributes)
        self.graph = CausalGraph(self.schema.names, edges)
        chosen = dict(mechanisms or {})
        for name in chosen:
            self.schema[name]
        self.choices = {name: self._choice(name, chosen.get(name)) for name in self.schema.names}
        # prefixed, because a ModuleDict refuses names like "values"
        self.mechanisms = nn.ModuleDict({f"g_{name}": self._build(name) for name in self.schema.names})
        self.register_buffer("fitted", torch.tensor(False))

    @property
    def spec(self) -> dict[str, Any]:
        """Structure as plain values, as in a config: attributes, edges, mechanisms."""
        return {
            "attributes": self.schema.spec,
            "edges": [list(edge) for edge in self.graph.edges],
            "mechanisms": {name: dict(choice) for name, choice in self.choices.items()},
        }

    def fit(self, columns: Columns) -> AttributeSCM:
        """Step 0: ranges, then every g_i by maximum likelihood, each from its own parents alone."""
        columns = self._take(columns)
        self.schema.fit_ranges(columns)
        for name in self.graph.order:
            mechanism = self._mechanism(name)
            continuous = [p for p in self.graph.parents[name] if p in self.schema.continuous]
            mechanism.set_parent_ranges(torch.tensor([self.schema.bounds(p) for p in continuous]))
            mechanism.fit(columns[name], self._parents(name, columns))
        self.fitted.fill_(True)
        return self

    def abduct(
        self, columns: Columns, generator: torch.Generator | None = None, only: Iterable[str] | None = None
    ) -> Abduction:
        """Step 1, abduction: the noise of each attribute (or of `only` some), drawn with `generator` where it is not unique.

        An attribute's noise depends on the generator's state and the attribute, not on which others are asked for: two
        interventions on the same rows with the same seed share their exogenous noise.
        """
        self._require_fit()
        factual = self._take(columns)
        generators = self._generators(generator)
        noise = {
            name: self._mechanism(name).abduct(factual[name], self._parents(name, factual), generators[name])
            for name in (self.graph.order if only is None else only)
        }
        return Abduction(factual, noise)

    def predict(self, abduction: Abduction, do: Mapping[str, Any], hold: Iterable[str] = ()) -> dict[str, Tensor]:
        """Steps 2 and 3, action and prediction: sets `do`, cuts its incoming edges, lets the descendants follow in order.

        A row whose parents did not change keeps its factual value to the bit, and so does what is to `hold` its value.
        """
        factual, noise = abduction
        values = dict(factual)
        rows = len(next(iter(factual.values())))
        changed: dict[str, Tensor] = {}
        for name, value in self.schema.check_do(do, rows).items():
            values[name] = value.expand(rows).clone()
            changed[name] = values[name] != factual[name]
        moving = self.graph.descendants(do, hold) - set(do)
        for name in self.graph.order:
            if name not in moving:
                continue
            touched = reduce(
                torch.logical_or, (changed[parent] for parent in self.graph.parents[name] if parent in changed)
            )
            predicted = self._mechanism(name).predict(noise[name], self._parents(name, values))
            values[name] = torch.where(touched, predicted, factual[name])
            changed[name] = touched
        return values

    def counterfactual(
        self,
        columns: Columns,
        do: Mapping[str, Any],
        generator: torch.Generator | None = None,
        hold: Iterable[str] = (),
    ) -> dict[str, Tensor]:
        """Algorithm 1 on attributes: a_c, had `do` been the case for these very rows.  The default seed is 0.

        Attributes to `hold` keep their values although `do` would change them: the direct effect, not the total one.
        """
        hold = list(hold)
        for name in (*do, *hold):
            self.schema[name]
        following = self.graph.descendants(do, hold) - set(do)
        return self.predict(self.abduct(columns, generator, only=following), do, hold)

    def sample(
        self, rows: int, do: Mapping[str, Any] | None = None, generator: torch.Generator | None = None
    ) -> dict[str, Tensor]:
        """New rows from the observational distribution, or from the interventional one under `do`."""
        self._require_fit()
        fixed = self.schema.check_do(do or {}, rows)
        generators = self._generators(generator)
        values: dict[str, Tensor] = {}
        for name in self.graph.order:
            if name in fixed:
                values[name] = fixed[name].expand(rows).clone()
            else:
                noise = self._mechanism(name).sample_noise(rows, generators[name])
                values[name] = self._mechanism(name).predict(noise, self._parents(name, values, rows))
        return {name: values[name] for name in self.schema.names}

    def log_prob(self, columns: Columns) -> dict[str, Tensor]:
        """log p(a_i | P_ai) of every attribute and row; its mean on held-out rows says which mechanism fits better."""
        self._require_fit()
        values = self._take(columns)
        return {
            name: self._mechanism(name).log_prob(values[name], self._parents(name, values)) for name in self.graph.order
        }

    def counterfactual_vector(
        self,
        a: Tensor,
        do: Mapping[str, Any],
        generator: torch.Generator | None = None,
        hold: Iterable[str] = (),
    ) -> Tensor:
        """`counterfactual` on model vectors: (N, size) -> (N, size); `do` stays in real units."""
        factual = self.schema.decode(a)
        values = self.counterfactual(factual, do, generator, hold)
        # what did not move keeps its very bits: decoding and encoding again would round
        parts = []
        for name in self.schema.names:
            part = a[:, self.schema.slices[name]]
            if values[name] is not factual[name]:
                moved = (values[name] != factual[name])[:, None]
                part = torch.where(moved, self.schema.encode_one(name, values[name]), part)
            parts.append(part)
        return torch.cat(parts, dim=1)

    def _mechanism(self, name: str) -> Mechanism:
        mechanism = self.mechanisms[f"g_{name}"]
        assert isinstance(mechanism, Mechanism)
        return mechanism

    def _parents(self, name: str, values: Mapping[str, Tensor], rows: int | None = None) -> Tensor:
        parts = [self.schema.encode_one(parent, values[parent]).T for parent in self.graph.parents[name]]
        if parts:
            return torch.cat(parts).T  # (N, P) held column by column: a third of the time for a hundred thousand rows
        return self.schema.low.new_zeros(len(values[name]) if rows is None else rows, 0)

    def _take(self, columns: Columns) -> dict[str, Tensor]:
        for name in columns:
            self.schema[name]
        missing = [name for name in self.schema.names if name not in columns]
        if missing:
            raise ValueError(f"no column for attribute {', '.join(map(repr, missing))}")
        low = self.schema.low
        return {name: columns[name].to(device=low.device, dtype=low.dtype) for name in self.schema.names}

    def _generators(self, generator: torch.Generator | None) -> dict[str, torch.Generator]:
        """One stream of noise an attribute, all derived from one draw of `generator`."""
        base = 0 if generator is None else int(torch.randint(2**48, (), generator=generator, device=generator.device))
        device = self.schema.low.device
        return {name: torch.Generator(device).manual_seed(base + i) for i, name in enumerate(self.schema.names)}

    def _require_fit(self) -> None:
        if not self.fitted:
            raise ValueError("this Attribute-SCM has not been fitted: call fit(columns) or load a fitted state")

    def _choice(self, name: str, wanted: str | Mapping[str, Any] | None) -> dict[str, Any]:
        """The mechanism of an attribute as {kind, options...}; without a wish, the plainest one that suits its parents."""
        attribute = self.schema[name]
        parents = [self.schema[parent] for parent in self.graph.parents[name]]
        if wanted is None:
            if isinstance(attribute, Continuous):
                return {"kind": "mlp" if parents else "empirical"}
            return {"kind": "logistic" if any(isinstance(p, Continuous) for p in parents) else "cpt"}
        choice = {"kind": wanted} if isinstance(wanted, str) else dict(wanted)
        valid = CONTINUOUS if isinstance(attribute, Continuous) else DISCRETE
        if choice.get("kind") not in valid:
            raise ValueError(f"attribute {name!r}: {unknown_name('mechanism', str(choice.get('kind')), valid)}")
        return choice

    def _build(self, name: str) -> Mechanism:
        options = dict(self.choices[name])
        kind = (CONTINUOUS | DISCRETE)[options.pop("kind")]
        valid = list(inspect.signature(kind.__init__).parameters)[3:]
        for option in options:
            if option not in valid:
                raise ValueError(f"mechanism of {name!r}: {unknown_name('option', option, valid)}")
        try:
            return kind(self.schema[name], [self.schema[parent] for parent in self.graph.parents[name]], **options)
        except ValueError as error:
            raise ValueError(f"mechanism of {name!r}: {error}") from None
